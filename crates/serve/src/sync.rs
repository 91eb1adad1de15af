//! What the cores of a server share things with. `tests/interleavings.rs` compiles the same files
//! with loom's in their place.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
