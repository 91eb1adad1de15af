//! Synchronization primitives shared between cores. `tests/interleavings.rs` compiles the same
//! files with loom's.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
