//! Copies between shared memory and memory of our own.
//!
//! Two cores may touch the same shared bytes at the same time. For plain accesses that is a data
//! race, which is undefined behaviour whether it goes by references or by raw pointers. So nothing
//! here is a plain access on the shared side: on x86-64 it is machine code, which the compiler
//! takes for accesses of single bytes that it may not reason about, as relaxed atomic ones are;
//! elsewhere, and under Miri, it is relaxed atomic words. Either way each byte that is read is one
//! of those written, and nothing more is promised: order comes from whatever says that an I/O is
//! done.
//!
//! `out` is from shared memory, `in` is to it. Ranges never overlap: the other side is exclusive.

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

/// Lines of a range that are asked for before its turn; more saturate the fill buffers.
pub(crate) const EARLY_LINES: usize = 8;
/// Length of a cache line.
pub(crate) const LINE: usize = 64;

#[cfg(test)]
mod test;
