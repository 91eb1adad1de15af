//! Synchronization primitives shared between threads. `tests/interleavings.rs` compiles the same
//! files with loom's.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, PoisonError};

pub(crate) use crossbeam_queue::ArrayQueue;
