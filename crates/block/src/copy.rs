//! Copies between shared and private memory.
//!
//! Two cores may access the same shared bytes at once. With plain accesses that is a data race,
//! undefined behaviour through references and raw pointers alike. So the shared side has no plain
//! accesses: on x86-64 it is inline assembly, opaque to the compiler like relaxed atomic accesses
//! of bytes; elsewhere, and under Miri, it is relaxed atomic words. Each byte that is read is one
//! that was written; no order is promised beyond that of I/O completions.
//!
//! `out` copies from shared memory, `in` to it. Ranges never overlap: the other side is exclusive.

#[cfg(any(not(target_arch = "x86_64"), miri))]
mod atomic;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod x86;

#[cfg(any(not(target_arch = "x86_64"), miri))]
pub(crate) use self::atomic::{
    copy_in, copy_in_ahead, copy_in_past_cache, copy_out, copy_out_ahead, copy_out_past_cache,
    end_stream, prefetch, zero,
};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use self::x86::{
    copy as copy_in, copy as copy_out, copy_ahead as copy_in_ahead, copy_ahead as copy_out_ahead,
    copy_past_cache as copy_in_past_cache, copy_past_cache as copy_out_past_cache, end_stream,
    prefetch, zero,
};

/// Asks for the first cache line of a value that is read soon, and waits for nothing.
#[inline]
pub fn prefetch_value<T>(value: &T) {
    prefetch(std::ptr::from_ref(value).cast());
}

/// Cache lines prefetched ahead of a range; more would saturate the fill buffers.
pub(crate) const EARLY_LINES: usize = 8;
/// Length of a cache line.
pub(crate) const LINE: usize = 64;

#[cfg(test)]
mod test;
