//! Anonymous pages: the only place that maps memory.

use std::io;
use std::ops::Range;
use std::ptr::NonNull;

/// Alignment of huge pages; it also serves every direct I/O.
const ALIGN: usize = 2 << 20;
/// Alignment of mappings below a huge page, which would be cleared whole for a part. A thousand
/// workers with 128 KiB each start in 0.2 s instead of 3.
const SMALL_ALIGN: usize = 4096;

/// The unit of MADV_DONTNEED.
const PAGE: usize = 4096;

/// A private anonymous mapping, zeroed. From 2 MiB on it is aligned for huge pages and uses them
/// where available; below it is aligned to 4096 bytes.
#[derive(Debug)]
pub(crate) struct Pages {
    base: NonNull<u8>,
    len: usize,
    map: NonNull<u8>,
    map_len: usize,
}

// SAFETY: `Pages` is only an address range that stays mapped until drop. All access goes through
// `Buf` (exclusive parts) or `Memory` (raw copies), which state their own rules.
unsafe impl Send for Pages {}
// SAFETY: as above; `Pages` itself offers no access to the bytes.
unsafe impl Sync for Pages {}

impl Pages {
    /// Maps `len` bytes. Pages are allocated when first touched.
    pub(crate) fn new(len: usize) -> io::Result<Pages> {
        let len = len.max(1);
        let align = if len < ALIGN { SMALL_ALIGN } else { ALIGN };
        let map_len = len
            .checked_next_multiple_of(align)
            .and_then(|l| l.checked_add(align))
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let map = map(map_len)?;
        let shift = map.align_offset(align);
        // SAFETY: `shift` < `align` and `map_len` >= `len` + `align`, so this stays in the mapping.
        let base = unsafe { map.add(shift) };
        if align == ALIGN {
            advise_huge(base, map_len - align);
        }
        Ok(Pages { base, len, map, map_len })
    }

    /// First byte.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the whole pages within a range to the kernel; they read as zeroes from then on.
    /// Returns their range in bytes, empty if there are none or the kernel refuses. A concurrent
    /// reader sees old data or zeroes.
    pub(crate) fn give_back(&self, range: Range<usize>) -> Range<usize> {
        assert!(range.end <= self.len);
        let begin = range.start.next_multiple_of(PAGE);
        let end = range.end / PAGE * PAGE;
        if begin >= end {
            return range.start..range.start;
        }
        // SAFETY: the range was checked, so it stays in the mapping.
        let base = unsafe { self.base.add(begin) };
        match forget(base, end - begin) {
            true => begin..end,
            false => range.start..range.start,
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; whoever points into it holds an `Arc` of it.
        unsafe { unmap(self.map, self.map_len) };
    }
}

#[cfg(not(miri))]
use self::kernel::{advise_huge, forget, map, unmap};
#[cfg(miri)]
use self::miri::{advise_huge, forget, map, unmap};

#[cfg(not(miri))]
mod kernel {
    use super::*;

    /// `len` zeroed bytes, page-aligned.
    pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice touches
        // no memory of ours; the result is checked.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(NonNull::new(map.cast::<u8>()).expect("mmap never returns null"))
    }

    pub(super) fn advise_huge(base: NonNull<u8>, len: usize) {
        // SAFETY: the range lies in a mapping of ours; huge pages are advice only, so the result
        // does not matter.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
    }

    /// Frees pages of a mapping of ours; returns whether the kernel did.
    pub(super) fn forget(base: NonNull<u8>, len: usize) -> bool {
        // SAFETY: the range lies in a private anonymous mapping of ours, to which no references
        // exist: its pages read as zeroes afterwards, as if they had been overwritten.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTNEED) == 0 }
    }

    /// # Safety
    /// `map` made it, with this length, and nobody uses it any more.
    pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { libc::munmap(base.as_ptr().cast(), len) };
    }
}

/// Miri supports neither mmap flags nor madvise, so it gets the same from the allocator.
#[cfg(miri)]
mod miri {
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    use super::*;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, SMALL_ALIGN).expect("a length that fits")
    }

    pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: the length is not zero.
        NonNull::new(unsafe { alloc_zeroed(layout(len)) }).ok_or(io::ErrorKind::OutOfMemory.into())
    }

    pub(super) fn advise_huge(_: NonNull<u8>, _: usize) {}

    /// The allocator takes no pages back.
    pub(super) fn forget(_: NonNull<u8>, _: usize) -> bool {
        false
    }

    /// # Safety
    /// Same as for `unmap` of the kernel's mappings.
    pub(super) unsafe fn unmap(base: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(base.as_ptr(), layout(len)) };
    }
}
