//! Owned, aligned buffers that move with an I/O, and the pool that lends them.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Arc;

use crate::pages::Pages;

/// Direct I/O never asks for more; it is also the page size.
const ALIGN: usize = 4096;

/// One mapping cut into equal buffers. Each is handed out once, by [`Arena::cut`].
#[derive(Debug)]
pub struct Arena;

impl Arena {
    /// Maps `count` buffers of `len_bytes` each, aligned to 4096 bytes.
    ///
    /// Errors when the system has no address space left.
    pub fn cut(count: usize, len_bytes: usize) -> io::Result<Vec<Buf>> {
        let stride = len_bytes.max(1).next_multiple_of(ALIGN);
        let total = stride.checked_mul(count).ok_or(io::ErrorKind::OutOfMemory)?;
        let len = u32::try_from(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let pages = Arc::new(Pages::new(total)?);
        let buf = |index: usize| Buf {
            // SAFETY: index * stride + stride <= total, the length of the mapping.
            ptr: unsafe { pages.base().add(index * stride) },
            len,
            pages: Arc::clone(&pages),
        };
        Ok((0..count).map(buf).collect())
    }
}

/// An owned buffer, aligned to 4096 bytes, zeroed at first. Moving it moves no bytes.
pub struct Buf {
    ptr: NonNull<u8>,
    len: u32,
    pages: Arc<Pages>,
}

// SAFETY: a `Buf` is the only way to its bytes (`Arena::cut` makes each part once), so it may go
// to another thread like a `Box<[u8]>`.
unsafe impl Send for Buf {}
// SAFETY: a shared `Buf` gives shared slices only.
unsafe impl Sync for Buf {}

impl Buf {
    /// One buffer of its own.
    pub fn new(len_bytes: usize) -> io::Result<Buf> {
        Ok(Arena::cut(1, len_bytes)?.remove(0))
    }

    /// `len` bytes of a mapping from `at` on. The caller sees to it that no other `Buf` reaches
    /// them. Panics when they lie outside.
    pub(crate) fn part(pages: &Arc<Pages>, at: usize, len: usize) -> Buf {
        assert!(at <= pages.len() && len <= pages.len() - at, "a part lies in its mapping");
        // SAFETY: `at` lies in the mapping or one past it.
        let ptr = unsafe { pages.base().add(at) };
        Buf { ptr, len: u32::try_from(len).expect("a part of up to 4 GiB"), pages: pages.clone() }
    }

    /// Whether it lies in this mapping.
    pub(crate) fn is_part_of(&self, pages: &Arc<Pages>) -> bool {
        Arc::ptr_eq(&self.pages, pages)
    }

    /// Lets go of all but the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(u32::try_from(len).unwrap_or(u32::MAX));
    }
}

/// Keeps the mapping alive that a buffer is part of, after the buffer has gone too.
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
    /// Its first byte, for the kernel to write to or read from. Unlike the pointer of a slice of
    /// it, this one may be written through while the buffer is only borrowed; whoever does so sees
    /// to it that no slice is in use meanwhile.
    #[inline]
    pub fn address(&self) -> NonNull<u8> {
        self.ptr
    }

    /// A hold on the arena that this is part of, for those who tell the kernel of it once.
    pub fn arena(&self) -> ArenaHold {
        ArenaHold(Arc::clone(&self.pages))
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `ptr` points to `len` mapped, initialised bytes that only this `Buf` reaches.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.len as usize) }
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// One core's stock of buffers in two sizes, last in first out, so the warm one is lent next.
///
/// A handle: clones share the stock. Everything on one core draws from one pool.
#[derive(Clone, Debug)]
pub struct Pool(Rc<RefCell<[Shelf; 2]>>);

/// Buffers of one size.
#[derive(Debug)]
struct Shelf {
    free: Vec<Buf>,
    len_bytes: usize,
    made: usize,
    limit: usize,
}

impl Pool {
    /// Length of a small buffer: a database page and its header fit.
    pub const SMALL_BYTES: usize = 16 << 10;
    /// Length of a large buffer: the longest single I/O, and a batch of 64 answers of 4 KiB.
    pub const LARGE_BYTES: usize = 256 << 10;
    /// Buffers are mapped this many bytes at a time: a huge page.
    const STEP_BYTES: usize = 2 << 20;

    /// A pool that lends at most so many small and large buffers. Memory is mapped as needed.
    pub fn new(small_limit: usize, large_limit: usize) -> Pool {
        let shelf =
            |len_bytes, limit| Shelf { free: Vec::with_capacity(limit), len_bytes, made: 0, limit };
        let small = shelf(Pool::SMALL_BYTES, small_limit);
        let large = shelf(Pool::LARGE_BYTES, large_limit);
        Pool(Rc::new(RefCell::new([small, large])))
    }

    /// Takes a buffer of at least `len_bytes`; `None` when all are lent, when the system has no
    /// memory, or when more than [`LARGE_BYTES`](Self::LARGE_BYTES) are asked for.
    ///
    /// What a buffer held before is still in it.
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        let mut shelves = self.0.borrow_mut();
        let shelf = shelves.iter_mut().find(|shelf| len_bytes <= shelf.len_bytes)?;
        if shelf.free.is_empty() {
            let count = (Pool::STEP_BYTES / shelf.len_bytes).min(shelf.limit - shelf.made);
            shelf.free.append(&mut Arena::cut(count, shelf.len_bytes).ok()?);
            shelf.made += count;
        }
        shelf.free.pop()
    }

    /// Takes a buffer as [`take`](Self::take) does, but makes a new one where all are lent: for
    /// callers whose number is bounded elsewhere and who cannot wait. It is freed when it comes
    /// back. Panics when the system has no memory or more than the longest is asked for.
    pub fn take_beyond(&self, len_bytes: usize) -> Buf {
        self.take(len_bytes).unwrap_or_else(|| {
            let fits = |len: &usize| len_bytes <= *len;
            let len = [Pool::SMALL_BYTES, Pool::LARGE_BYTES].into_iter().find(fits);
            Buf::new(len.expect("no longer than the longest")).expect("memory for a buffer")
        })
    }

    /// Gives a buffer back. One that was made beyond the limits is freed.
    pub fn give(&self, buf: Buf) {
        let mut shelves = self.0.borrow_mut();
        let shelf = shelves.iter_mut().find(|shelf| buf.len() == shelf.len_bytes);
        let shelf = shelf.expect("a buffer returns to a pool of its size");
        if shelf.free.len() < shelf.made {
            shelf.free.push(buf);
        }
    }

    /// How many small and large buffers are lent now. Zero when everything came back.
    pub fn lent(&self) -> [usize; 2] {
        let shelves = self.0.borrow();
        [0, 1].map(|i| shelves[i].made - shelves[i].free.len())
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

    /// Miri takes a write through the pointer of a shared slice for what it is: undefined.
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

    #[test]
    fn a_pool_keeps_its_limits_and_lends_the_warm_one() {
        let pool = Pool::new(3, 1);
        let [a, b, c] = [1, 512, 16 << 10].map(|len| pool.take(len).unwrap());
        assert!(pool.take(512).is_none());
        assert_eq!(pool.take(16 << 10 | 1).unwrap().len(), Pool::LARGE_BYTES);
        assert!(pool.take(Pool::LARGE_BYTES + 1).is_none());
        assert_eq!(pool.lent(), [3, 1]);
        let warm = b.as_ptr();
        pool.give(a);
        pool.give(b);
        assert_eq!(pool.take(512).unwrap().as_ptr(), warm);
        assert_eq!(pool.lent(), [2, 1]);
        drop(c);
    }
}
