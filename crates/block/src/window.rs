//! Memory shared with another process, which may change it at any time.
//!
//! Every access is checked against the bounds and is atomic or opaque to the compiler, so a peer
//! that writes meanwhile can only change values. A caller reads each value once and checks it.

use std::any::Any;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::Memory;
use crate::copy::{self, EARLY_LINES, LINE};
use crate::pages::Pages;

/// A range of memory that other processes may read and write. Clones are the same memory.
#[derive(Clone)]
pub struct Window {
    base: NonNull<u8>,
    len: u64,
    /// Keeps the memory mapped.
    hold: Arc<dyn Any + Send + Sync>,
}

// SAFETY: a `Window` is only an address range that `hold` keeps mapped; all accesses are atomic or
// raw copies, which may race.
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window({} bytes)", self.len)
    }
}

impl Window {
    /// Maps `len_bytes` of memory of this process that read as zeroes.
    ///
    /// # Errors
    ///
    /// The kernel has no memory.
    pub fn anonymous(len_bytes: u64) -> io::Result<Window> {
        let len = usize::try_from(len_bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let pages = Arc::new(Pages::new(len.next_multiple_of(LINE))?);
        Ok(Window { base: pages.base(), len: len_bytes, hold: pages })
    }

    /// A window onto a mapping that `hold` keeps.
    ///
    /// # Safety
    ///
    /// From `base` on, `len_bytes` rounded up to 8 are mapped for reading and writing as long as
    /// `hold` lives, and backed by memory that cannot be truncated. `base` is aligned to a page. No
    /// reference to the bytes exists.
    pub unsafe fn new(
        base: NonNull<u8>,
        len_bytes: u64,
        hold: Arc<dyn Any + Send + Sync>,
    ) -> Window {
        Window { base, len: len_bytes, hold }
    }

    /// Length in bytes.
    #[inline]
    pub fn len_bytes(&self) -> u64 {
        self.len
    }

    /// A part of this window; `None` if the range is out of bounds.
    pub fn part(&self, at: u64, len_bytes: u64) -> Option<Window> {
        let base = NonNull::new(self.place(at, len_bytes)?)?;
        Some(Window { base, len: len_bytes, hold: Arc::clone(&self.hold) })
    }

    /// Whether the address of offset 0 is a multiple of `align`.
    pub fn is_aligned(&self, align: usize) -> bool {
        self.base.addr().get().is_multiple_of(align)
    }

    /// The address of a range in bounds.
    #[inline(always)]
    fn place(&self, at: u64, len: u64) -> Option<*mut u8> {
        if at > self.len || len > self.len - at {
            return None;
        }
        // SAFETY: `at` is at most the length, so the address is in the mapping or one past it.
        Some(unsafe { self.base.as_ptr().add(at as usize) })
    }

    /// The address of an aligned word in bounds.
    #[inline(always)]
    fn word<T>(&self, at: u64) -> Option<*mut T> {
        let word = self.place(at, size_of::<T>() as u64)?.cast::<T>();
        word.is_aligned().then_some(word)
    }

    /// Loads a byte (relaxed); `None` if it is out of bounds.
    #[inline(always)]
    pub fn load8(&self, at: u64) -> Option<u8> {
        // SAFETY: `word` checked the bounds; atomic accesses may race.
        Some(unsafe { AtomicU8::from_ptr(self.word(at)?) }.load(Ordering::Relaxed))
    }

    /// Stores a byte (relaxed); `None` if it is out of bounds.
    #[inline(always)]
    pub fn store8(&self, at: u64, value: u8) -> Option<()> {
        // SAFETY: as in `load8`.
        unsafe { AtomicU8::from_ptr(self.word(at)?) }.store(value, Ordering::Relaxed);
        Some(())
    }

    /// Loads 16 bits before all later accesses (acquire); `None` if they are out of bounds or
    /// misaligned.
    #[inline(always)]
    pub fn load16(&self, at: u64) -> Option<u16> {
        // SAFETY: `word` checked bounds and alignment; atomic accesses may race.
        Some(unsafe { AtomicU16::from_ptr(self.word(at)?) }.load(Ordering::Acquire))
    }

    /// Stores 16 bits after all earlier accesses (release); `None` if they are out of bounds or
    /// misaligned.
    #[inline(always)]
    pub fn store16(&self, at: u64, value: u16) -> Option<()> {
        // SAFETY: as in `load16`.
        unsafe { AtomicU16::from_ptr(self.word(at)?) }.store(value, Ordering::Release);
        Some(())
    }

    /// Loads 32 bits (relaxed); `None` if they are out of bounds or misaligned.
    #[inline(always)]
    pub fn load32(&self, at: u64) -> Option<u32> {
        // SAFETY: as in `load16`.
        Some(unsafe { AtomicU32::from_ptr(self.word(at)?) }.load(Ordering::Relaxed))
    }

    /// Stores 32 bits (relaxed); `None` if they are out of bounds or misaligned.
    #[inline(always)]
    pub fn store32(&self, at: u64, value: u32) -> Option<()> {
        // SAFETY: as in `load16`.
        unsafe { AtomicU32::from_ptr(self.word(at)?) }.store(value, Ordering::Relaxed);
        Some(())
    }

    /// Loads 64 bits (relaxed); `None` if they are out of bounds or misaligned.
    #[inline(always)]
    pub fn load64(&self, at: u64) -> Option<u64> {
        // SAFETY: as in `load16`.
        Some(unsafe { AtomicU64::from_ptr(self.word(at)?) }.load(Ordering::Relaxed))
    }

    /// Stores 64 bits (relaxed); `None` if they are out of bounds or misaligned.
    #[inline(always)]
    pub fn store64(&self, at: u64, value: u64) -> Option<()> {
        // SAFETY: as in `load16`.
        unsafe { AtomicU64::from_ptr(self.word(at)?) }.store(value, Ordering::Relaxed);
        Some(())
    }

    /// Copies `to.len()` bytes out; `None` if they are out of bounds.
    #[inline]
    pub fn read(&self, at: u64, to: &mut [u8]) -> Option<()> {
        let from = self.place(at, to.len() as u64)?;
        // SAFETY: `place` checked the range; `to` is exclusive and outside of it, because no
        // reference to the bytes exists.
        unsafe { copy::copy_out(from, to.as_mut_ptr(), to.len()) };
        Some(())
    }

    /// Copies `from` in; `None` if the range is out of bounds.
    #[inline]
    pub fn write(&self, at: u64, from: &[u8]) -> Option<()> {
        let to = self.place(at, from.len() as u64)?;
        // SAFETY: as in `read`, with the directions exchanged.
        unsafe { copy::copy_in(from.as_ptr(), to, from.len()) };
        Some(())
    }

    /// Copies `len` bytes at `offset` of a volume's memory in; `None` if they are out of bounds
    /// here. Panics if they are out of bounds there.
    #[inline]
    pub fn fill_from(&self, at: u64, memory: &Memory, offset: u64, len: usize) -> Option<()> {
        let to = self.place(at, len as u64)?;
        let from = memory.at(offset, len).cast_const();
        // SAFETY: both ranges were checked. They are different mappings: a window is never made of
        // a volume's memory.
        unsafe { copy_shared(from, to, len) };
        Some(())
    }

    /// Copies `len` bytes out to `offset` of a volume's memory; `None` if they are out of bounds
    /// here. Panics if they are out of bounds there.
    #[inline]
    pub fn store_to(&self, at: u64, memory: &Memory, offset: u64, len: usize) -> Option<()> {
        let from = self.place(at, len as u64)?.cast_const();
        let to = memory.at(offset, len);
        // SAFETY: as in `fill_from`.
        unsafe { copy_shared(from, to, len) };
        Some(())
    }

    /// Prefetches the first lines of a range that may be anywhere.
    #[inline]
    pub fn prefetch(&self, at: u64, len: usize) {
        let from = self.base.as_ptr().wrapping_add(at as usize);
        for line in 0..len.div_ceil(LINE).min(EARLY_LINES) {
            copy::prefetch(from.wrapping_add(line * LINE));
        }
    }
}

/// Copies from one shared range to another.
///
/// # Safety
///
/// Both ranges are mapped, and do not overlap.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise. The copy is opaque at both sides.
    unsafe { copy::copy_in(from, to, len) }
}

/// Copies from one shared range to another, through private memory.
///
/// # Safety
///
/// Both ranges are mapped, and do not overlap.
#[cfg(any(not(target_arch = "x86_64"), miri))]
unsafe fn copy_shared(from: *const u8, to: *mut u8, len: usize) {
    let mut part = [0_u8; 512];
    let mut at = 0;
    while at < len {
        let count = part.len().min(len - at);
        // SAFETY: the caller's promise, for `at + count <= len`; `part` is private.
        unsafe {
            copy::copy_out(from.add(at), part.as_mut_ptr(), count);
            copy::copy_in(part.as_ptr(), to.add(at), count);
        }
        at += count;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn words_and_bytes_are_the_same_memory() {
        let window = Window::anonymous(4096).unwrap();
        window.store64(8, 0x0807_0605_0403_0201).unwrap();
        assert_eq!(window.load16(10), Some(0x0403));
        assert_eq!(window.load32(12), Some(0x0807_0605));
        let mut bytes = [0; 3];
        window.read(9, &mut bytes).unwrap();
        assert_eq!(bytes, [2, 3, 4]);
        window.write(9, &[9, 9, 9]).unwrap();
        assert_eq!(window.part(8, 8).unwrap().load64(0), Some(0x0807_0605_0909_0901));
        window.store16(14, 7).unwrap();
        window.store32(8, 1).unwrap();
        assert_eq!(window.load64(8), Some(0x0007_0605_0000_0001));
    }

    #[test]
    fn nothing_beyond_the_bounds_is_touched() {
        let whole = Window::anonymous(4096).unwrap();
        let window = whole.part(0, 100).unwrap();
        assert!(window.part(0, 101).is_none() && window.part(101, 0).is_none());
        assert!(window.part(u64::MAX, 2).is_none() && window.part(100, 0).is_some());
        assert!(window.load16(99).is_none() && window.load32(98).is_none());
        assert!(window.load64(96).is_none() && window.load64(u64::MAX - 3).is_none());
        assert!(window.load16(1).is_none() && window.load64(4).is_none(), "misaligned");
        assert!(window.read(60, &mut [0; 41]).is_none() && window.write(100, &[1]).is_none());
        assert!(window.store16(100, 1).is_none() && window.store32(100, 1).is_none());
        assert!(window.store64(96, 1).is_none());
        assert_eq!(whole.load64(96), Some(0));
    }

    #[test]
    fn volumes_exchange_bytes_with_windows() {
        let (window, memory) = (Window::anonymous(8192).unwrap(), Memory::new(8192).unwrap());
        let bytes: Vec<u8> = (0..3000).map(|at| ((at * 7) >> 2) as u8).collect();
        memory.write(77, &bytes);
        window.fill_from(5, &memory, 77, 3000).unwrap();
        let mut back = vec![0; 3000];
        window.read(5, &mut back).unwrap();
        assert_eq!(back, bytes);
        window.store_to(5, &memory, 4096, 3000).unwrap();
        memory.read(4096, &mut back);
        assert_eq!(back, bytes);
        assert!(window.fill_from(8000, &memory, 0, 193).is_none());
        assert!(window.store_to(8192, &memory, 0, 1).is_none());
    }
}
