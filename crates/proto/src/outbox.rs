//! The send queue of a connection.

use block::{Account, Buf, Chain, CopyAhead, Lap, Memory, Op, Piece, Pool};

use crate::UnitId;
use crate::crc32c::crc32c;

/// The bytes of the next send.
///
/// Headers and short data are copied into one contiguous buffer: the kernel copies them from
/// there while they are hot, and one send carries a whole batch. One send per batch instead of
/// per message is worth a factor of twenty on loopback TCP. Long data go by reference.
#[derive(Debug)]
pub struct Outbox {
    account: Account,
    chain: Chain,
    /// The buffer being filled and how many bytes it holds.
    current: Option<Buf>,
    len: usize,
    /// Length of the last send.
    last_bytes: usize,
    /// `current` is a part of `lap`.
    lent: bool,
    lap: Option<Lap>,
    /// The acknowledgement of this stamp proves that the peer has read all bytes appended before
    /// it. Later bytes are `unstamped`: the next stamp proves those.
    stamp: u32,
    unstamped: bool,
    /// The stamp of the chain being sent.
    sent_stamp: u32,
    /// Deferred copies from volumes in memory into `current`.
    ahead: CopyAhead,
    /// Ranges of `current` that get their digest after them, once copied.
    digests: Vec<(usize, usize)>,
    /// Out of memory for an answer: the stream has a hole.
    failed: bool,
    /// Takes the bytes after a failure.
    sink: Vec<u8>,
    /// I/Os that were done in memory, for a server that counts them.
    in_place: Option<Vec<InPlace>>,
}

/// A read or a write that an end did in memory: no request says that there was one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InPlace {
    /// The volume.
    pub unit: UnitId,
    /// Read or write.
    pub op: Op,
    /// Length in bytes.
    pub len: u32,
}

/// Bytes reserved for short answers by [`Outbox::has_room`].
const SPARE_BYTES: usize = 2 << 10;

/// A shorter remainder at the end of the ring is skipped.
const SHORTEST_LENT_BYTES: usize = 16 << 10;

/// Up to this length a row moves from a large buffer to a small one.
const SHORT_BYTES: usize = 512;

impl Outbox {
    /// Data of this length and more is sent by reference. Shorter data is copied, with prefetch,
    /// into the warm buffer: faster than the kernel's gathering.
    pub const BY_REFERENCE_BYTES: usize = 16 << 10;

    /// Bytes that a row counts for in [has_room](Self::has_room) if data by reference ends the row.
    pub const ENDED_ROW_BYTES: usize = Pool::SMALL_BYTES / 2;

    /// Returns an empty outbox with buffers of `pool`, for an end that limits its output itself.
    pub fn new(pool: Pool) -> Outbox {
        Outbox::of(pool.account())
    }

    /// An empty outbox. Its buffers, and those of the end's I/Os, are charged to `account`.
    pub fn of(account: Account) -> Outbox {
        Outbox {
            account,
            chain: Chain::default(),
            current: None,
            len: 0,
            last_bytes: 0,
            lent: false,
            lap: None,
            stamp: 0,
            unstamped: false,
            sent_stamp: 0,
            ahead: CopyAhead::default(),
            digests: Vec::new(),
            failed: false,
            sink: Vec::new(),
            in_place: None,
        }
    }

    /// Has the end [note](Self::note_in_place) its I/Os in memory from now on.
    pub fn count_in_place(&mut self) {
        self.in_place = Some(Vec::new());
    }

    /// Whether somebody counts I/Os in memory.
    #[inline(always)]
    pub(crate) fn counts_in_place(&self) -> bool {
        self.in_place.is_some()
    }

    /// Notes an I/O that the end did in memory, if somebody counts.
    #[inline(always)]
    pub(crate) fn note_in_place(&mut self, unit: UnitId, op: Op, len: u32) {
        if let Some(noted) = &mut self.in_place {
            noted.push(InPlace { unit, op, len });
        }
    }

    /// Returns the I/Os noted since the last call.
    pub fn take_in_place(&mut self) -> impl Iterator<Item = InPlace> {
        self.in_place.iter_mut().flat_map(|noted| noted.drain(..))
    }

    /// Places data from now on in a zero-copy ring of `lap_bytes`, a multiple of 4096, while it has
    /// room. The caller must return each chain before it takes the next.
    #[cold]
    pub fn lend(&mut self, lap_bytes: usize) {
        // Without memory for the ring, the kernel continues to copy.
        if self.account.charge(lap_bytes as u64) {
            self.lap = Lap::new(lap_bytes).ok();
        }
    }

    /// Stamps all bytes appended up to now: the acknowledgement of this stamp proves that the peer
    /// has read them. Stamps rise, in serial arithmetic.
    #[inline]
    pub fn stamp(&mut self, stamp: u32) {
        self.stamp = stamp;
        self.unstamped = false;
    }

    /// The peer has read everything up to this stamp.
    #[inline]
    pub fn acknowledge(&mut self, stamp: u32) {
        if let Some(lap) = &mut self.lap {
            lap.acknowledge(stamp);
        }
    }

    /// Returns the pool, for the buffers of I/Os.
    pub fn pool(&self) -> &Pool {
        self.account.pool()
    }

    /// Takes a buffer for the data of an I/O. `None` where none is available: wait until an I/O or
    /// a send of this connection has completed.
    #[inline]
    pub fn take(&self, len_bytes: usize) -> Option<Buf> {
        self.account.take(len_bytes)
    }

    /// Takes a buffer that may be shorter, so that a connection makes progress when memory is
    /// short.
    #[inline]
    pub fn take_part(&self, len_bytes: usize) -> Option<Buf> {
        self.account.take_part(len_bytes)
    }

    /// Takes a buffer for unsolicited data. Without a buffer, refuse the command.
    #[inline]
    pub fn take_unsolicited(&self, len_bytes: usize) -> Option<Buf> {
        self.account.take_unsolicited(len_bytes)
    }

    /// Takes a buffer for data to send, which may have to be copied: `len_bytes`, or if memory is
    /// short `least_bytes`, which is guaranteed up to the size of a small buffer.
    #[inline]
    pub fn take_to_send(&self, len_bytes: usize, least_bytes: usize) -> Option<Buf> {
        let whole = self.account.take_to_send(len_bytes);
        if whole.is_some() || !self.account.is_in_need() {
            return whole;
        }
        self.account.take_to_send(least_bytes.min(len_bytes))
    }

    /// Reserves `count` small buffers for unsolicited data, as far as memory goes.
    pub fn promise_unsolicited(&self, count: u16) {
        self.account.promise_more(count.into());
    }

    /// Gives a buffer back.
    #[inline]
    pub fn give(&self, buf: Buf) {
        self.account.pool().give(buf);
    }

    /// Returns whether `len` bytes can be appended, in pieces no longer than a small buffer, plus
    /// some short answers. Callers check before they append data, which can wait; answers cannot
    /// wait and are appended without a check.
    #[inline]
    pub fn has_room(&self, len: usize) -> bool {
        let free = self.current.as_ref().map_or(0, |buf| buf.len() - self.len);
        free >= len + SPARE_BYTES || self.can_grow(len)
    }

    fn can_grow(&self, len: usize) -> bool {
        // One row is for answers. Copied data may fill only half of each other row.
        let rows = 2 + len / Outbox::ENDED_ROW_BYTES;
        let large = (len + SPARE_BYTES).div_ceil(Pool::LARGE_BYTES - Pool::SMALL_BYTES);
        // A check for large rows reserves memory that small rows may need more.
        let few = len <= 2 * Pool::SMALL_BYTES && self.has_small_rows(rows);
        few || self.account.has_rows(large, 0) || self.has_small_rows(rows)
    }

    fn has_small_rows(&self, count: usize) -> bool {
        let more = count.saturating_sub(self.account.promised_rows());
        more == 0 || self.account.has_rows(0, more)
    }

    /// Returns whether `count` pieces of at most `len` bytes fit, each contiguous.
    pub fn has_rows(&self, count: usize, len: usize) -> bool {
        let free = self.current.as_ref().map_or(0, |buf| buf.len() - self.len);
        let large = || count.div_ceil(Pool::LARGE_BYTES / len.clamp(1, Pool::LARGE_BYTES));
        free >= count * len + SPARE_BYTES || self.account.has_rows(large(), 0)
    }

    /// Returns whether `count` headers fit, each followed by data by reference: such data ends the
    /// row of its header, or the header is moved to a small row.
    pub fn has_headers(&self, count: usize) -> bool {
        self.account.has_rows(1, count) || self.has_small_rows(2 + count)
    }

    /// Number of buffers of `len_bytes` that can be taken now.
    pub fn affordable(&self, len_bytes: usize) -> u32 {
        self.account.affordable(len_bytes)
    }

    /// Whether the budget has no room for this many more bytes.
    #[inline]
    pub fn is_short(&self, wanted_bytes: usize) -> bool {
        !self.account.has_share(wanted_bytes)
    }

    /// Returns whether an answer was lost for lack of memory: the stream has a hole, and the
    /// connection must end.
    #[inline]
    pub fn failed(&self) -> bool {
        self.failed
    }

    /// Whether there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == 0 && self.chain.is_empty()
    }

    /// Number of bytes queued.
    pub fn len_bytes(&self) -> usize {
        self.len + self.chain.len_bytes()
    }

    /// Room for `len` contiguous bytes, at most [`Pool::LARGE_BYTES`], for the caller to fill. It
    /// contains old data, so fill all of it.
    pub fn reserve(&mut self, len: usize) -> &mut [u8] {
        match (self.make_room(len), &mut self.current) {
            (Some(at), Some(buf)) => &mut buf[at..at + len],
            _ => {
                self.sink.resize(len, 0);
                &mut self.sink
            }
        }
    }

    /// Appends bytes of any length.
    pub fn bytes(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(Outbox::BY_REFERENCE_BYTES) {
            self.reserve(part.len()).copy_from_slice(part);
        }
    }

    /// Appends `len` bytes of a volume, followed by their CRC-32C if `digest`. Panics if the range
    /// is out of bounds.
    pub fn memory(&mut self, memory: &Memory, offset: u64, len: usize, digest: bool) {
        if len >= Outbox::BY_REFERENCE_BYTES && !digest {
            self.interrupt();
            self.unstamped = true;
            return self.chain.push(Piece::Shared { memory: memory.clone(), offset, len });
        }
        // Data and digest must be in one buffer: callers limit PDUs with a data digest.
        let Some(at) = self.make_room(len + if digest { 4 } else { 0 }) else { return };
        self.ahead.push(memory, offset, len, at);
        if digest {
            self.digests.push((at, len));
        }
    }

    /// Appends the first `len` bytes of a buffer and gives it back to the pool when they are sent.
    pub fn buf(&mut self, buf: Buf, len: usize) {
        if len >= Outbox::BY_REFERENCE_BYTES {
            self.interrupt();
            self.unstamped = true;
            return self.chain.push(Piece::Owned { buf, len });
        }
        self.bytes(&buf[..len]);
        self.give(buf);
    }

    /// Swaps the queued bytes with `sent`, a chain that was sent, whose buffers return to the pool.
    /// Afterwards `sent` has the next chain to send and the outbox is empty.
    pub fn exchange(&mut self, sent: &mut Chain) {
        self.close_current();
        self.last_bytes = self.chain.len_bytes();
        let stamp = sent.was_referred().then_some(self.sent_stamp);
        sent.recycle_with(self.account.pool(), |buf| {
            if let Some(lap) = &mut self.lap {
                lap.give(buf, stamp);
            }
        });
        self.sent_stamp = self.stamp.wrapping_add(self.unstamped.into());
        std::mem::swap(&mut self.chain, sent);
    }

    /// Exchanges `sent` for a chain that goes to a socket. While there is no ring, `lap_bytes`
    /// returns the size of a ring for lending such chains, see [`Outbox::lend`].
    #[inline]
    pub fn exchange_for(
        &mut self,
        sent: &mut Chain,
        lap_bytes: impl FnOnce(&Chain) -> Option<usize>,
    ) {
        self.exchange(sent);
        if self.lap.is_none()
            && let Some(bytes) = lap_bytes(sent)
        {
            self.lend(bytes);
        }
    }

    /// Allocates `len` bytes at the end of the current buffer and returns their offset. `None` when
    /// out of memory, and from then on.
    fn make_room(&mut self, len: usize) -> Option<usize> {
        assert!(len <= Pool::LARGE_BYTES, "{len} bytes in a row");
        let free = self.current.as_ref().map_or(0, |buf| buf.len() - self.len);
        if free < len || self.failed {
            self.begin_row(len)?;
        }
        self.unstamped = true;
        self.len += len;
        Some(self.len - len)
    }

    /// Begins another buffer, with `len` bytes of room at least.
    fn begin_row(&mut self, len: usize) -> Option<()> {
        self.close_current();
        let least = len.max(SHORTEST_LENT_BYTES);
        let lent = self.lap.as_mut().and_then(|lap| lap.take(least, Pool::LARGE_BYTES));
        self.lent = lent.is_some();
        // A connection that sends little begins with a small buffer: a thousand of them may send in
        // one turn. A large one follows when more is sent, now or the last time.
        let little = self.last_bytes <= Pool::SMALL_BYTES && self.chain.is_empty();
        let row = if little { len } else { Pool::LARGE_BYTES };
        // The queue is bounded by the commands that the peer may have in flight, and a PDU must not
        // stay half written.
        self.current = lent.or_else(|| self.account.take_row(row));
        if self.current.is_none() {
            let others = [len, Pool::MEDIUM_BYTES.max(len), Pool::LARGE_BYTES];
            self.current = others.into_iter().find_map(|len| self.account.take_row(len));
        }
        // The peer reads less than it requests, or the system is out of memory.
        self.failed |= self.current.is_none();
        self.current.as_ref().filter(|_| !self.failed).map(|_| ())
    }

    /// Ends the current row, because data by reference follows. A short row, such as a header,
    /// moves to a small buffer: otherwise it would occupy a large one until it is sent.
    fn interrupt(&mut self) {
        let len = self.len;
        let Some(current) = self.current.as_ref().filter(|_| len != 0) else { return };
        let promised = !self.ahead.is_empty() || !self.digests.is_empty();
        let stay = len > SHORT_BYTES || promised || self.lent;
        let spares = !stay && self.account.has_share(Pool::LARGE_BYTES);
        let small = if spares { self.account.take_row(SHORT_BYTES) } else { None };
        let Some(mut buf) = small else { return self.close_current() };
        buf[..len].copy_from_slice(&current[..len]);
        self.len = 0;
        self.chain.push(Piece::Owned { buf, len });
    }

    /// Does the deferred copies and digests, and appends the current buffer to the chain.
    fn close_current(&mut self) {
        let Some(mut buf) = self.current.take() else { return };
        if self.len == 0 {
            debug_assert!(!self.lent, "what is lent is begun at once and not moved");
            return self.give(buf);
        }
        self.ahead.run(&mut buf, self.lent);
        for (at, len) in self.digests.drain(..) {
            let digest = crc32c(&buf[at..at + len]);
            buf[at + len..at + len + 4].copy_from_slice(&digest.to_le_bytes());
        }
        let len = std::mem::take(&mut self.len);
        let piece = match self.lap.as_mut().filter(|_| self.lent) {
            Some(lap) => {
                lap.trim(&mut buf, len);
                Piece::Lent(buf)
            }
            None => Piece::Owned { buf, len },
        };
        self.chain.push(piece);
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        let pool = self.account.pool();
        if let Some(buf) = self.current.take().filter(|_| !self.lent) {
            pool.give(buf);
        }
        self.chain.recycle(pool);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn sent(chain: &Chain) -> Vec<u8> {
        chain.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat()
    }

    #[test]
    fn keeps_the_order_of_all_kinds() {
        let pool = Pool::new(1024, 8);
        let memory = Memory::new(1 << 20).unwrap();
        let pattern: Vec<u8> = (0..1 << 20).map(|i| ((i * 7) >> 4) as u8).collect();
        memory.write(0, &pattern);
        let mut out = Outbox::new(pool.clone());
        let mut expect = Vec::new();
        for round in 0..200_u64 {
            out.reserve(48).fill(round as u8);
            expect.extend([round as u8; 48]);
            let len = [512, 4096, 16 << 10, 64 << 10][round as usize % 4];
            let digest = round % 3 == 0;
            let range = round as usize * 512..round as usize * 512 + len;
            out.memory(&memory, range.start as u64, len, digest);
            expect.extend(&pattern[range.clone()]);
            if digest {
                expect.extend(crc32c(&pattern[range]).to_le_bytes());
            }
            let mut buf = pool.take(600).unwrap_or_else(|| panic!("round {round}"));
            buf.fill(9);
            out.buf(buf, 600);
            expect.extend([9; 600]);
        }
        assert_eq!(out.len_bytes(), expect.len());
        let mut chain = Chain::default();
        out.exchange(&mut chain);
        assert!(out.is_empty());
        assert!(sent(&chain) == expect, "bytes differ");
        out.exchange(&mut chain);
        assert!(chain.is_empty());
        assert_eq!(pool.lent(), [0, 0]);
    }

    #[test]
    fn a_connection_that_says_little_holds_little() {
        let pool = Pool::new(64, 64);
        let mut out = Outbox::new(pool.clone());
        let mut chain = Chain::default();
        let mut say = |times: usize| {
            (0..times).for_each(|_| out.reserve(1000).fill(7));
            out.exchange(&mut chain);
            assert_eq!(chain.len_bytes(), times * 1000);
            (pool.lent(), chain.pieces().len())
        };
        assert_eq!(say(16), ([1, 0], 1));
        // More data than expected continues in a large buffer, and the next round starts there.
        assert_eq!(say(40), ([1, 1], 2));
        assert_eq!(say(40), ([0, 1], 1));
        assert_eq!(say(1), ([0, 1], 1));
        assert_eq!(say(1), ([1, 0], 1));
    }

    #[test]
    fn lends_only_what_was_acknowledged() {
        const LAP: usize = 512 << 10;
        let pool = Pool::new(4, 8);
        let mut out = Outbox::new(pool.clone());
        out.lend(LAP);
        let mut chain = Chain::default();
        let mut held: Vec<(Vec<u8>, *const u8, u32)> = Vec::new();
        let mut copied = 0;
        for round in 0..400_u32 {
            for _ in 0..10 {
                out.reserve(9000).fill(round as u8);
            }
            let stamped = round % 3 != 2;
            if stamped {
                out.stamp(round);
            }
            out.exchange(&mut chain);
            copied += u32::from(!chain.may_refer());
            if chain.may_refer() && round % 5 != 0 {
                chain.refer();
                for piece in chain.pieces() {
                    let Piece::Lent(buf) = piece else { panic!("all of it is lent") };
                    held.push((buf.to_vec(), buf.as_ptr(), round));
                }
            }
            // Data that the peer has not read is unchanged in memory.
            let overlaps = |at: *const u8, len: usize, piece: &Piece| {
                let (from, bytes) = piece.as_raw();
                from < at.wrapping_add(len) && at < from.wrapping_add(bytes)
            };
            for (bytes, at, sent) in held.iter().filter(|(.., sent)| *sent != round) {
                let none = !chain.pieces().iter().any(|piece| overlaps(*at, bytes.len(), piece));
                assert!(none, "round {round} reuses bytes of round {sent}");
            }
            if round % 7 == 6 {
                // A round that was not stamped is proven by the next stamp.
                let read = round - 3 - u32::from(round % 3 == 2);
                out.acknowledge(read);
                held.retain(|(.., sent)| *sent > read);
            }
        }
        assert!((100..300).contains(&copied), "{copied} of 400 rounds found the lap full");
        out.exchange(&mut chain);
        out.exchange(&mut chain);
        assert_eq!(pool.lent(), [0, 0]);
    }

    #[test]
    fn headers_of_long_data_hold_no_large_buffers() {
        let pool = Pool::new(64, 64);
        let memory = Memory::new(1 << 20).unwrap();
        let mut out = Outbox::new(pool.clone());
        for round in 0..32_u8 {
            out.reserve(24).fill(round);
            out.memory(&memory, 0, 64 << 10, false);
        }
        assert!(pool.lent()[0] <= 33 && pool.lent()[1] <= 1, "{:?}", pool.lent());
        let mut chain = Chain::default();
        out.exchange(&mut chain);
        assert_eq!((pool.lent()[1], chain.len_bytes()), (0, 32 * (24 + (64 << 10))));
        let headers = sent(&chain).chunks(24 + (64 << 10)).map(|pdu| pdu[23]).collect::<Vec<_>>();
        assert_eq!(headers, (0..32).collect::<Vec<_>>());
        out.exchange(&mut chain);
        assert_eq!(pool.lent(), [0, 0]);
    }
}
