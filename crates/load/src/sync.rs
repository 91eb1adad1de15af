//! What threads share things with. `tests/interleavings.rs` compiles the same files with loom's in
//! their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::sync::{Mutex, PoisonError};

pub(crate) use crossbeam_queue::ArrayQueue;
