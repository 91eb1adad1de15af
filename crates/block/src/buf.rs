//! Owned, aligned buffers that move with an I/O, lent by a [`Pool`](crate::Pool).

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::pages::Pages;

/// Maximum alignment that direct I/O needs; also the page size.
const ALIGN: usize = 4096;

/// One mapping cut into equal buffers, each handed out once by [`Arena::cut`].
#[derive(Debug)]
pub struct Arena;

impl Arena {
    /// Maps `count` buffers of `len_bytes` each, aligned to 4096 bytes.
    ///
    /// Fails if the process has no address space left.
    pub fn cut(count: usize, len_bytes: usize) -> io::Result<Vec<Buf>> {
        let stride = len_bytes.max(1).next_multiple_of(ALIGN);
        let total = stride.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)?;
        let len = u32::try_from(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let pages = Arc::new(Pages::new(total)?);
        let buf = |index: usize| {
            // SAFETY: index * stride + stride <= total, the length of the mapping.
            let ptr = unsafe { pages.base().add(index * stride) };
            Buf(Box::new(Part { ptr, len, lender: NOBODY, pages: Arc::clone(&pages) }))
        };
        Ok((0..count).map(buf).collect())
    }
}

/// An owned buffer, aligned to 4096 bytes, zeroed at first. Moving it copies no data.
///
/// One word, as each I/O moves it several times. With three words a read took 50 ns longer: words
/// stored one by one and loaded in pairs miss store forwarding.
pub struct Buf(Box<Part>);

/// Part of a mapping.
struct Part {
    ptr: NonNull<u8>,
    len: u32,
    /// The account that it counts towards, for its pool.
    lender: u32,
    pages: Arc<Pages>,
}

/// The lender of buffers of no pool.
pub(crate) const NOBODY: u32 = u32::MAX;

const _: () = assert!(size_of::<Option<Buf>>() == 8);

// SAFETY: a `Buf` is the only way to its bytes (`Arena::cut` makes each part once), so it may go
// to another thread like a `Box<[u8]>`.
unsafe impl Send for Buf {}
// SAFETY: a shared `Buf` gives shared slices only.
unsafe impl Sync for Buf {}

impl Buf {
    /// Allocates a buffer with a separate mapping.
    pub fn new(len_bytes: usize) -> io::Result<Buf> {
        Ok(Arena::cut(1, len_bytes)?.remove(0))
    }

    /// `len` bytes of a mapping from `at` on. The caller ensures that no other `Buf` covers them.
    /// Panics if they lie outside.
    pub(crate) fn part(pages: &Arc<Pages>, at: usize, len: usize) -> Buf {
        assert!(at <= pages.len() && len <= pages.len() - at, "a part lies in its mapping");
        // SAFETY: `at` lies in the mapping or one past it.
        let ptr = unsafe { pages.base().add(at) };
        let len = u32::try_from(len).expect("a part of up to 4 GiB");
        Buf(Box::new(Part { ptr, len, lender: NOBODY, pages: pages.clone() }))
    }

    /// The account that it counts towards.
    #[inline]
    pub(crate) fn lender(&self) -> u32 {
        self.0.lender
    }

    /// Sets the account that it counts towards.
    #[inline]
    pub(crate) fn lend(&mut self, lender: u32) {
        self.0.lender = lender;
    }

    /// Address and length of its mapping, and the number of references to it.
    pub(crate) fn home(&self) -> (usize, usize, usize) {
        let base = self.0.pages.base().as_ptr() as usize;
        (base, self.0.pages.len(), Arc::strong_count(&self.0.pages))
    }

    /// Whether it lies in this mapping.
    pub(crate) fn is_part_of(&self, pages: &Arc<Pages>) -> bool {
        Arc::ptr_eq(&self.0.pages, pages)
    }

    /// Drops all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.0.len = self.0.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }
}

/// Keeps a buffer's mapping alive after the buffer is gone.
#[derive(Clone, Debug)]
pub struct ArenaHold(Arc<Pages>);

impl ArenaHold {
    /// Addresses of the mapping.
    pub fn range(&self) -> std::ops::Range<usize> {
        let base = self.0.base().as_ptr() as usize;
        base..base + self.0.len()
    }
}

impl Buf {
    /// Returns the address of the first byte, for the kernel to write or read. Unlike a slice's
    /// pointer it may be written through while the buffer is borrowed; the caller ensures that no
    /// slice is in use meanwhile.
    #[inline]
    pub fn address(&self) -> NonNull<u8> {
        self.0.ptr
    }

    /// Keeps its arena alive, for registration with the kernel.
    pub fn arena(&self) -> ArenaHold {
        ArenaHold(Arc::clone(&self.0.pages))
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `ptr` points to `len` mapped, initialised bytes that only this `Buf` reaches.
        unsafe { std::slice::from_raw_parts(self.0.ptr.as_ptr(), self.0.len as usize) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.ptr.as_ptr(), self.0.len as usize) }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.0.len)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn buffers_are_apart_aligned_and_zeroed() {
        let mut bufs = Arena::cut(3, 5000).unwrap();
        for (i, buf) in bufs.iter_mut().enumerate() {
            assert_eq!(buf.len(), 5000);
            assert_eq!(buf.as_ptr().align_offset(ALIGN), 0);
            assert!(buf.iter().all(|byte| *byte == 0));
            buf.fill(i as u8 + 1);
        }
        for (i, buf) in bufs.iter().enumerate() {
            assert!(buf.iter().all(|byte| *byte == i as u8 + 1));
        }
    }

    /// Miri reports writes through the pointer of a shared slice as undefined behaviour.
    #[test]
    fn the_kernel_may_write_where_a_buffer_is_only_borrowed() {
        let buf = Buf::new(4096).unwrap();
        let borrowed = &buf;
        assert_eq!(borrowed[7], 0);
        // SAFETY: no slice of it is in use, and it is that long.
        unsafe { borrowed.address().add(7).write(1) };
        assert_eq!(borrowed[7], 1);
    }

    #[test]
    fn a_buffer_outlives_its_siblings() {
        let mut last = Arena::cut(4, 4096).unwrap().pop().unwrap();
        last.fill(7);
        assert_eq!(last[4095], 7);
    }
}
