//! Copies by relaxed atomic words.
//!
//! All accesses to shared memory are whole aligned words of eight bytes, because atomic accesses of
//! different sizes must not race either. A mapping begins and ends at a page, so the words at both
//! ends of a range lie in it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// The words that hold `len` bytes from `at` on: address of the word, bytes of it that are meant,
/// and number of bytes before.
fn words(at: *const u8, len: usize) -> impl Iterator<Item = (*const u8, Range<usize>, usize)> {
    let mut before = 0;
    std::iter::from_fn(move || {
        let place = at.wrapping_add(before);
        let begin = place.addr() % WORD;
        let end = WORD.min(begin + len - before);
        let word = (place.wrapping_sub(begin), begin..end, before);
        before += end - begin;
        (begin < end).then_some(word)
    })
}

/// Copies `len` bytes out.
///
/// # Safety
/// `from` lies in a mapping that begins and ends at multiples of eight, and `len` bytes from it,
/// too; `to` is exclusive and valid for `len` bytes.
pub(crate) unsafe fn copy_out(from: *const u8, to: *mut u8, len: usize) {
    for (word, bytes, before) in words(from, len) {
        // SAFETY: the word lies in the mapping and is aligned; all accesses to it are such.
        let word = unsafe { &*word.cast::<AtomicU64>() }.load(Ordering::Relaxed).to_ne_bytes();
        let part = &word[bytes];
        // SAFETY: `before` + the part's length is at most `len`, which `to` is valid for.
        unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to.add(before), part.len()) };
    }
}

/// Copies `len` bytes in.
///
/// # Safety
/// Same as [`copy_out`], with `to` shared and `from` valid for reads without concurrent writes.
pub(crate) unsafe fn copy_in(from: *const u8, to: *mut u8, len: usize) {
    for (word, bytes, before) in words(to, len) {
        let mut new = [0; WORD];
        let part = &mut new[bytes.clone()];
        // SAFETY: `before` + the part's length is at most `len`, which `from` is valid for.
        unsafe { std::ptr::copy_nonoverlapping(from.add(before), part.as_mut_ptr(), part.len()) };
        // SAFETY: as in `copy_out`.
        put(unsafe { &*word.cast::<AtomicU64>() }, new, bytes);
    }
}

/// Makes `len` bytes zero.
///
/// # Safety
/// Same as for `to` of [`copy_in`].
pub(crate) unsafe fn zero(to: *mut u8, len: usize) {
    for (word, bytes, _) in words(to, len) {
        // SAFETY: as in `copy_out`.
        put(unsafe { &*word.cast::<AtomicU64>() }, [0; WORD], bytes);
    }
}

/// Stores some bytes of `new` into a word without changing the others.
fn put(word: &AtomicU64, new: [u8; WORD], bytes: Range<usize>) {
    if bytes.len() == WORD {
        return word.store(u64::from_ne_bytes(new), Ordering::Relaxed);
    }
    let mut mask = [0; WORD];
    mask[bytes].fill(0xff);
    let (mask, new) = (u64::from_ne_bytes(mask), u64::from_ne_bytes(new));
    let merged = |old: u64| Some(old & !mask | new);
    let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merged);
}

/// [`copy_out`]: no prefetch.
///
/// # Safety
/// Same as [`copy_out`].
pub(crate) unsafe fn copy_out_ahead(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { copy_out(from, to, len) }
}

/// [`copy_out`]: no non-temporal stores.
///
/// # Safety
/// Same as [`copy_out`].
pub(crate) unsafe fn copy_out_past_cache(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { copy_out(from, to, len) }
}

/// [`copy_in`]: no prefetch.
///
/// # Safety
/// Same as [`copy_in`].
pub(crate) unsafe fn copy_in_ahead(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { copy_in(from, to, len) }
}

/// [`copy_in`]: no non-temporal stores.
///
/// # Safety
/// Same as [`copy_in`].
pub(crate) unsafe fn copy_in_past_cache(from: *const u8, to: *mut u8, len: usize, _: *const u8) {
    // SAFETY: the caller's promise.
    unsafe { copy_in(from, to, len) }
}

/// Does nothing: there are no non-temporal stores to wait for.
pub(crate) fn end_stream() {}

/// No prefetch.
pub(crate) fn prefetch(_: *const u8) {}
