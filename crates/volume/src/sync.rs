//! Synchronization primitives shared between threads. `tests/interleavings.rs` compiles the same
//! files with loom's.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use os::Waker;
