//! What threads share things with. `tests/interleavings.rs` compiles the same files with loom's in
//! their place.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use os::Waker;
