//! A zero-copy send ring of one connection.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::Buf;
use crate::pages::Pages;

/// A ring of memory that is sent zero-copy.
///
/// A copying send writes into kernel pages that the receiver has just read, and on loopback the
/// receiver is another core: getting these lines back costs 450 ns for 4 KiB, or 1800 ns between
/// cores without a shared cache. A zero-copy send saves that, but its bytes must not change until
/// the peer has *read* them, which TCP never reports. The protocol does: a response to the data, or
/// its acknowledgement, proves it. So each sent buffer waits here for the acknowledgement of its
/// stamp while the ring moves on; the ring's length also keeps the next buffer out of the other
/// core's cache.
///
/// The memory belongs to one connection and is unmapped with it. A peer that acknowledges unread
/// data gets later bytes of its own connection instead, not those of another peer.
#[derive(Debug)]
pub struct Lap {
    pages: Arc<Pages>,
    /// Total bytes taken and freed; offsets are these modulo the length.
    head: u64,
    tail: u64,
    /// Offsets of the buffers lent, in the order in which they were taken.
    out: VecDeque<usize>,
    loans: VecDeque<Loan>,
}

/// A buffer that the kernel or the peer may still read.
#[derive(Debug)]
struct Loan {
    buf: Buf,
    stamp: u32,
}

/// Buffers begin at cache lines.
const LINE: u64 = 64;
/// Maximum number of loans: an unusual peer with many tiny reads is sent copies.
const LOANS: usize = 1024;

impl Lap {
    /// Maps a ring of `len_bytes`, a multiple of 4096.
    pub fn new(len_bytes: usize) -> io::Result<Lap> {
        debug_assert!(len_bytes.is_multiple_of(4096));
        let pages = Arc::new(Pages::new(len_bytes)?);
        let (out, loans) = (VecDeque::with_capacity(LOANS), VecDeque::with_capacity(LOANS));
        Ok(Lap { pages, head: 0, tail: 0, out, loans })
    }

    /// Takes the next free bytes in a row, at least `least` and at most `most`; `None` if fewer are
    /// free. [Trim](Self::trim) it before the next is taken.
    pub fn take(&mut self, least: usize, most: usize) -> Option<Buf> {
        let len = self.pages.len() as u64;
        let mut head = self.head;
        if len - head % len < least as u64 {
            // Too little is left before the end: skip it.
            head = head.next_multiple_of(len);
        }
        let at = head % len;
        // Never all of it, so that equal head and tail mean empty.
        let free = (len - LINE).saturating_sub(head - self.tail).min(len - at);
        let most = free.min(most as u64);
        if most < least as u64 || self.loans.len() + self.out.len() >= LOANS {
            return None;
        }
        self.head = head + most;
        self.out.push_back(at as usize);
        Some(Buf::part(&self.pages, at as usize, most as usize))
    }

    /// Keeps the first `len` bytes of the buffer taken last, and frees the others.
    pub fn trim(&mut self, buf: &mut Buf, len: usize) {
        let cut = buf.len() - len;
        buf.truncate(len);
        self.head = (self.head - cut as u64).next_multiple_of(LINE);
    }

    /// Returns a sent buffer, in the order in which they were taken. It is free when `stamp` is
    /// [acknowledged](Self::acknowledge); without a stamp, when those before it are.
    pub fn give(&mut self, buf: Buf, stamp: Option<u32>) {
        // Out of order it is lost: freeing it would free earlier buffers still lent.
        if !buf.is_part_of(&self.pages) || self.out.front() != Some(&self.place_of(&buf)) {
            return debug_assert!(false, "a buffer comes back to its ring, and in order");
        }
        self.out.pop_front();
        match (stamp, self.loans.back()) {
            (None, None) => self.free(buf),
            (None, Some(&Loan { stamp, .. })) | (Some(stamp), _) => {
                self.loans.push_back(Loan { buf, stamp });
            }
        }
    }

    /// The peer no longer needs buffers with this stamp or an earlier one.
    #[inline]
    pub fn acknowledge(&mut self, stamp: u32) {
        while let Some(loan) = self.loans.front()
            && stamp.wrapping_sub(loan.stamp) as i32 >= 0
            && let Some(loan) = self.loans.pop_front()
        {
            self.free(loan.buf);
        }
    }

    fn free(&mut self, buf: Buf) {
        let len = self.pages.len() as u64;
        let end = (self.place_of(&buf) + buf.len()) as u64;
        self.tail += (end.next_multiple_of(LINE) + len - self.tail % len) % len;
        debug_assert!(self.tail <= self.head);
    }

    /// Offset of a buffer.
    fn place_of(&self, buf: &Buf) -> usize {
        buf.as_ptr() as usize - self.pages.base().as_ptr() as usize
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Miri is a thousand times slower.
    const ROUNDS: u32 = if cfg!(miri) { 300 } else { 20_000 };

    /// Sends `len` bytes.
    fn send(lap: &mut Lap, len: usize, stamp: Option<u32>) -> Option<usize> {
        let mut buf = lap.take(len, 4096)?;
        lap.trim(&mut buf, len);
        assert_eq!(buf.len(), len);
        let at = lap.place_of(&buf) + len;
        buf.fill(7);
        lap.give(buf, stamp);
        Some(at)
    }

    #[test]
    fn bytes_come_round_when_they_were_acknowledged() {
        let mut lap = Lap::new(8192).unwrap();
        assert_eq!(send(&mut lap, 4000, Some(u32::MAX)), Some(4000));
        assert_eq!(send(&mut lap, 4000, Some(0)), Some(8032));
        assert_eq!(send(&mut lap, 64, Some(1)), Some(8128));
        assert_eq!(send(&mut lap, 100, Some(2)), None, "not acknowledged");
        lap.acknowledge(u32::MAX - 1);
        assert_eq!(send(&mut lap, 100, Some(2)), None, "an older stamp");
        lap.acknowledge(u32::MAX);
        assert_eq!(send(&mut lap, 3000, Some(2)), Some(3000), "past the end");
        assert_eq!(send(&mut lap, 1000, Some(3)), None, "the second is still read");
        lap.acknowledge(3);
        assert_eq!(send(&mut lap, 4096, Some(4)), Some(3008 + 4096));
    }

    #[test]
    fn what_nobody_refers_to_waits_only_for_its_turn() {
        let mut lap = Lap::new(8192).unwrap();
        for _ in 0..100 {
            assert!(send(&mut lap, 3000, None).is_some());
        }
        assert!(send(&mut lap, 2000, Some(9)).is_some());
        assert!(send(&mut lap, 2000, None).is_some());
        assert!(send(&mut lap, 4096, None).is_none());
        lap.acknowledge(9);
        assert!(send(&mut lap, 4096, None).is_some());
    }

    #[test]
    fn random_traffic_never_shares_a_byte() {
        let mut lap = Lap::new(64 << 10).unwrap();
        let (mut random, mut held, mut stamp) = (1_u64, VecDeque::new(), 0_u32);
        for _ in 0..ROUNDS {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let len = (random >> 33) as usize % 9000 + 1;
            if random >> 60 < 9
                && let Some(mut buf) = lap.take(len, 10_000)
            {
                lap.trim(&mut buf, len);
                let range = buf.as_ptr_range();
                let apart = |other: &std::ops::Range<*const u8>| {
                    range.end <= other.start || other.end <= range.start
                };
                assert!(held.iter().all(|(other, _)| apart(other)));
                stamp += 1;
                held.push_back((range, stamp));
                lap.give(buf, Some(stamp));
            } else if let Some((_, stamp)) = held.pop_front() {
                lap.acknowledge(stamp);
            }
        }
        assert!(stamp > ROUNDS / 4);
    }
}
