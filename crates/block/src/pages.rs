//! Anonymous pages from the kernel: the one place where memory is mapped.

use std::io;
use std::ptr::NonNull;

/// Huge pages need this alignment; it also serves every direct I/O.
const ALIGN: usize = 2 << 20;
/// Alignment of mappings that are shorter than a huge page: one of them would have to be cleared
/// whole for a part. A thousand workers with 128 KiB each start in 0.2 s instead of 3.
const SMALL_ALIGN: usize = 4096;

/// A private anonymous mapping, zeroed. From 2 MiB on it is aligned to them and in huge pages where
/// the system gives them, below it is aligned to 4096 bytes.
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
    /// Maps `len` bytes. Nothing is touched, so no memory is used until then.
    pub(crate) fn new(len: usize) -> io::Result<Pages> {
        let len = len.max(1);
        let align = if len < ALIGN { SMALL_ALIGN } else { ALIGN };
        let map_len = len
            .checked_next_multiple_of(align)
            .and_then(|l| l.checked_add(align))
            .ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh private anonymous mapping at an address of the kernel's choice touches
        // no memory of ours; the result is checked.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let map = NonNull::new(map.cast::<u8>()).expect("mmap never returns null");
        let shift = map.align_offset(align);
        // SAFETY: `shift` < `align` and `map_len` >= `len` + `align`, so this stays in the mapping.
        let base = unsafe { map.add(shift) };
        if align == ALIGN {
            // SAFETY: the range lies in the mapping made above; huge pages are advice only, so
            // the result does not matter.
            unsafe { libc::madvise(base.as_ptr().cast(), map_len - align, libc::MADV_HUGEPAGE) };
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
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `new`; whoever points into it holds an `Arc` of it.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_len) };
    }
}
