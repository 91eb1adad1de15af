//! The device's end of a queue of block requests.
//!
//! The owner calls [`BlockQueue::take`] with the queue's volume. A volume in memory is read and
//! written there at once; for others the requests come out as I/Os, whose completions the owner
//! returns to [`BlockQueue::complete`]. Then [`BlockQueue::publish`] shows the driver the results.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Done, Fault, Geometry, Io, Memory, Op, Pool, Tag};

use super::wire::{
    DISCARD, FLUSH, GET_ID, HEADER_BYTES, ID_BYTES, IN, IOERR, OK, OUT, RANGE_BYTES,
    RANGE_SECTORS_MOST, UNMAP, UNSUPP, WRITE_ZEROES,
};
use super::{
    Chain, F_EVENT_IDX, Features, GuestMemory, Place, RingViolation, SECTOR_BYTES, SplitDevice,
    Windows, broken,
};

/// Requests parsed together, so that the misses of their data overlap.
const BATCH: usize = 32;
/// Maximum length of a request in bytes.
const REQUEST_BYTES_MOST: u64 = 16 << 20;
/// Maximum bytes of a queue's requests that are buffered for a lane.
const BUFFERED_BYTES_MOST: u64 = 16 << 20;
/// Length of the parts of a request, each an I/O.
const PART_BYTES: u64 = Pool::LARGE_BYTES as u64;

/// The volume behind a device.
#[derive(Clone, Debug)]
pub struct Disk {
    /// Geometry.
    pub geometry: Geometry,
    /// Bytes of the volume, if they are memory of this process.
    pub memory: Option<Memory>,
    /// Serial number in ASCII, padded with zeroes.
    pub serial: [u8; ID_BYTES],
}

/// Result of a [`BlockQueue::take`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// Requests taken from the ring.
    pub requests: usize,
    /// Requests that already have their result.
    pub answered: usize,
}

/// A queue of a device.
#[derive(Debug)]
pub struct BlockQueue {
    ring: SplitDevice,
    guest: Arc<GuestMemory>,
    flights: Vec<Flight>,
    free: Vec<u16>,
    /// Writes are durable when they complete.
    writes_through: bool,
    buffered_bytes: u64,
}

/// A request that was taken from the ring.
#[derive(Debug, Default)]
struct Flight {
    chain: Chain,
    /// The memory of the chain, while a lane has I/Os of the request.
    guest: Option<Arc<GuestMemory>>,
    request: Request,
    /// I/Os of the request that the lane has not completed.
    parts: u16,
    status: u8,
}

/// A request, checked against the volume.
#[derive(Clone, Copy, Debug, Default)]
enum Request {
    /// UNSUPP is the only answer.
    #[default]
    Unsupported,
    Invalid,
    Read {
        offset: u64,
        len: u32,
    },
    Write {
        offset: u64,
        len: u32,
    },
    Flush,
    Id,
    Clear {
        op: Op,
        offset: u64,
        len: u32,
    },
}

impl BlockQueue {
    /// A queue that continues at the entry `base` of its rings.
    pub fn new(
        windows: Windows,
        base: u16,
        features: Features,
        guest: Arc<GuestMemory>,
    ) -> BlockQueue {
        let ring = SplitDevice::new(windows, base, features.has(F_EVENT_IDX));
        let size = ring.size();
        BlockQueue {
            ring,
            guest,
            flights: (0..size).map(|_| Flight::default()).collect(),
            free: (0..size).rev().collect(),
            writes_through: !features.flushes(),
            buffered_bytes: 0,
        }
    }

    /// Number of requests whose I/Os the lane has.
    #[inline]
    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// The next entry of the available ring, to continue from later.
    pub fn base(&self) -> u16 {
        self.ring.base()
    }

    /// Replaces the driver's memory, for requests taken from now on.
    pub fn remap(&mut self, guest: Arc<GuestMemory>) {
        self.guest = guest;
    }

    /// Takes up to 32 requests from the ring. Appends the I/Os of those that need the lane to
    /// `ios`; a tag is less than 2³².
    ///
    /// # Errors
    ///
    /// The driver broke a rule of the ring: take no more requests.
    pub fn take(
        &mut self,
        disk: &Disk,
        pool: &Pool,
        ios: &mut VecDeque<Io>,
    ) -> Result<Taken, RingViolation> {
        let mut batch = [0; BATCH];
        let mut requests = 0;
        let mut lie = None;
        while requests < BATCH {
            let Some(&slot) = self.free.last() else { break };
            let flight = &mut self.flights[usize::from(slot)];
            let taken = self.ring.take(&self.guest, &mut flight.chain);
            let parsed = taken.and_then(|taken| match taken {
                true => parse(&flight.chain, &self.guest, disk).map(Some),
                false => Ok(None),
            });
            match parsed {
                Ok(Some(request)) => flight.request = request,
                Ok(None) => break,
                Err(violation) => {
                    lie = Some(violation);
                    break;
                }
            }
            let len = flight.request.buffered_bytes();
            match &disk.memory {
                Some(memory) => flight.request.prefetch(memory),
                None if self.buffered_bytes == 0 => {}
                None if self.buffered_bytes + len <= BUFFERED_BYTES_MOST => {}
                None => {
                    self.ring.untake();
                    break;
                }
            }
            if disk.memory.is_none() {
                self.buffered_bytes += len;
            }
            self.free.pop();
            batch[requests] = slot;
            requests += 1;
        }
        let mut answered = 0;
        for &slot in &batch[..requests] {
            let status = match &disk.memory {
                Some(memory) => Some(self.execute(slot, memory, disk)),
                None => self.start(slot, disk, pool, ios),
            };
            if let Some(status) = status {
                self.answer(slot, status);
                answered += 1;
            }
        }
        // Requests before the lie were good: they are in flight, or answered.
        lie.map_or(Ok(Taken { requests, answered }), Err)
    }

    /// Completes an I/O of [`take`](Self::take).
    pub fn complete(&mut self, done: Done, pool: &Pool) {
        let (slot, part) = (done.tag.0 as u16, u64::from((done.tag.0 >> 16) as u16));
        let flight = &mut self.flights[usize::from(slot)];
        let copied = match (done.result, flight.request, &done.buf) {
            (Ok(()), Request::Read { len, .. }, Some(buf)) => {
                let skip = part * PART_BYTES;
                let part_len = (u64::from(len) - skip).min(PART_BYTES) as usize;
                let guest = flight.guest.as_ref().unwrap_or(&self.guest);
                guest.scatter(flight.chain.writable(), skip, &buf[..part_len]).is_some()
            }
            (Ok(()), Request::Read { .. }, None) => false,
            (result, ..) => result.is_ok(),
        };
        if !copied {
            let unsupported = done.result == Err(Fault::Unsupported);
            flight.status = if unsupported { UNSUPP } else { IOERR };
        }
        if let Some(buf) = done.buf {
            pool.give(buf);
        }
        flight.parts -= 1;
        if flight.parts == 0 {
            let status = flight.status;
            self.answer(slot, status);
        }
    }

    /// Shows the driver all results. Returns whether to interrupt the driver.
    #[inline]
    pub fn publish(&mut self) -> bool {
        self.ring.publish()
    }

    /// Asks the driver for no notifications: the owner polls.
    pub fn silence(&mut self) {
        self.ring.silence();
    }

    /// Asks the driver for a notification. Returns whether there are requests already.
    pub fn listen(&mut self) -> bool {
        self.ring.listen()
    }

    /// Executes a request on a volume in memory; returns its status.
    #[inline(always)]
    fn execute(&mut self, slot: u16, memory: &Memory, disk: &Disk) -> u8 {
        let (flight, guest) = (&self.flights[usize::from(slot)], &*self.guest);
        let chain = &flight.chain;
        let done = match flight.request {
            Request::Read { mut offset, len } => {
                guest.walk(chain.writable(), 0, len as usize, |window, at, part| {
                    window.fill_from(at, memory, offset, part)?;
                    offset += part as u64;
                    Some(())
                })
            }
            Request::Write { mut offset, len } => {
                let skip = HEADER_BYTES as u64;
                guest.walk(chain.readable(), skip, len as usize, |window, at, part| {
                    window.store_to(at, memory, offset, part)?;
                    offset += part as u64;
                    Some(())
                })
            }
            Request::Clear { op: Op::Trim, offset, len } => {
                memory.discard(offset, len.into());
                Some(())
            }
            Request::Clear { offset, len, .. } => {
                memory.zero(offset, len.into());
                Some(())
            }
            Request::Flush => Some(()),
            Request::Id => guest.scatter(chain.writable(), 0, &disk.serial),
            Request::Unsupported => return UNSUPP,
            Request::Invalid => None,
        };
        if done.is_some() { OK } else { IOERR }
    }

    /// Starts the I/Os of a request, or returns its status.
    fn start(&mut self, slot: u16, disk: &Disk, pool: &Pool, ios: &mut VecDeque<Io>) -> Option<u8> {
        let flight = &mut self.flights[usize::from(slot)];
        let (op, offset, len) = match flight.request {
            Request::Unsupported => return Some(UNSUPP),
            Request::Invalid => return Some(IOERR),
            Request::Id => {
                let told = self.guest.scatter(flight.chain.writable(), 0, &disk.serial);
                return Some(if told.is_some() { OK } else { IOERR });
            }
            Request::Flush => (Op::Flush, 0, 0),
            Request::Read { offset, len } => (Op::Read, offset, len),
            Request::Write { offset, len } => (Op::Write, offset, len),
            Request::Clear { op, offset, len } => (op, offset, len),
        };
        let moves = matches!(op, Op::Read | Op::Write);
        let before = ios.len();
        let (mut at, mut part) = (0, 0);
        loop {
            let left = u64::from(len) - at;
            let part_len = if moves { left.min(PART_BYTES) } else { left } as u32;
            let Ok(buf) = buffer(op, part_len, at, flight, &self.guest, pool) else {
                // Out of memory: nothing of the request is started.
                for io in ios.drain(before..) {
                    io.buf.into_iter().for_each(|buf| pool.give(buf));
                }
                return Some(IOERR);
            };
            let tag = Tag(u64::from(slot) | part << 16);
            let fua = op == Op::Write && self.writes_through && disk.geometry.volatile;
            ios.push_back(Io { tag, op, fua, len: part_len, offset: offset + at, buf });
            (at, part) = (at + u64::from(part_len), part + 1);
            if at >= u64::from(len) {
                break;
            }
        }
        (flight.parts, flight.status) = (part as u16, OK);
        flight.guest = Some(Arc::clone(&self.guest));
        None
    }

    /// Writes the status of a request and puts it into the used ring.
    #[inline(always)]
    fn answer(&mut self, slot: u16, status: u8) {
        let flight = &mut self.flights[usize::from(slot)];
        let guest = flight.guest.take();
        let guest = guest.as_ref().unwrap_or(&self.guest);
        if let Some(last) = flight.chain.writable().last() {
            let at = last.offset + u64::from(last.len) - 1;
            let stored = guest.window(last).store8(at, status);
            debug_assert!(stored.is_some(), "a piece was checked");
        }
        let read = match flight.request {
            Request::Read { len, .. } => len,
            Request::Id => ID_BYTES as u32,
            _ => 0,
        };
        self.buffered_bytes = self.buffered_bytes.saturating_sub(flight.request.buffered_bytes());
        self.ring.put(flight.chain.head, read + 1);
        self.free.push(slot);
    }
}

/// The buffer of a part of a request, with the data of a write.
fn buffer(
    op: Op,
    len: u32,
    at: u64,
    flight: &Flight,
    guest: &GuestMemory,
    pool: &Pool,
) -> Result<Option<Buf>, ()> {
    if !matches!(op, Op::Read | Op::Write) {
        return Ok(None);
    }
    let mut buf = pool.take_beyond(len as usize).ok_or(())?;
    if op == Op::Write {
        let skip = HEADER_BYTES as u64 + at;
        if guest.gather(flight.chain.readable(), skip, &mut buf[..len as usize]).is_none() {
            pool.give(buf);
            return Err(());
        }
    }
    Ok(Some(buf))
}

impl Request {
    /// Bytes of the buffers that the request needs for a lane.
    fn buffered_bytes(&self) -> u64 {
        match self {
            Request::Read { len, .. } | Request::Write { len, .. } => (*len).into(),
            _ => 0,
        }
    }

    /// Prefetches the first lines of its data.
    #[inline(always)]
    fn prefetch(&self, memory: &Memory) {
        if let Request::Read { offset, len } | Request::Write { offset, len } = self {
            memory.prefetch(*offset, *len as usize);
        }
    }
}

/// Sum of the lengths of pieces.
#[inline(always)]
fn bytes(pieces: &[super::Piece]) -> u64 {
    pieces.iter().map(|piece| u64::from(piece.len)).sum()
}

/// Reads a request's header once, and checks it against the volume.
//= VIRTIO 1.2 §5.2.6: struct virtio_blk_req, in any division into buffers.
#[inline(always)]
fn parse(chain: &Chain, guest: &GuestMemory, disk: &Disk) -> Result<Request, RingViolation> {
    let (read, written) = (bytes(chain.readable()), bytes(chain.writable()));
    if read < HEADER_BYTES as u64 || written == 0 {
        let rule = "VIRTIO 1.2 §5.2.6: a request without header or status";
        return broken(rule, Place::Descriptor(chain.head));
    }
    let first = chain.readable()[0];
    let window = guest.window(&first);
    let words = match first.len as usize >= HEADER_BYTES {
        true => window.load64(first.offset).zip(window.load64(first.offset + 8)),
        false => None,
    };
    let (head, sector) = match words {
        Some((head, sector)) => (u64::from_le(head) as u32, u64::from_le(sector)),
        None => divided_header(chain, guest).unwrap_or((u32::MAX, 0)),
    };
    let geometry = &disk.geometry;
    Ok(match head {
        IN => match range(geometry, Op::Read, sector, written - 1) {
            Some((offset, len)) => Request::Read { offset, len },
            None => Request::Invalid,
        },
        OUT => match range(geometry, Op::Write, sector, read - HEADER_BYTES as u64) {
            Some((offset, len)) => Request::Write { offset, len },
            None => Request::Invalid,
        },
        FLUSH => Request::Flush,
        GET_ID if written > ID_BYTES as u64 => Request::Id,
        GET_ID => Request::Invalid,
        DISCARD | WRITE_ZEROES => clear(head, chain, guest, disk),
        _ => Request::Unsupported,
    })
}

/// A header at an odd address or in several buffers.
#[cold]
fn divided_header(chain: &Chain, guest: &GuestMemory) -> Option<(u32, u64)> {
    let mut words = [[0; 8]; 2];
    guest.gather(chain.readable(), 0, words.as_flattened_mut())?;
    Some((u64::from_le_bytes(words[0]) as u32, u64::from_le_bytes(words[1])))
}

/// Offset and length of a valid request in bytes.
#[inline(always)]
fn range(geometry: &Geometry, op: Op, sector: u64, len: u64) -> Option<(u64, u32)> {
    let offset = sector.checked_mul(SECTOR_BYTES)?;
    if len == 0 || len > REQUEST_BYTES_MOST || !len.is_multiple_of(SECTOR_BYTES) {
        return None;
    }
    let io = Io { tag: Tag(0), op, fua: false, len: len as u32, offset, buf: None };
    geometry.check(&io).ok()?;
    Some((offset, io.len))
}

/// A discard or write zeroes of one range.
fn clear(head: u32, chain: &Chain, guest: &GuestMemory, disk: &Disk) -> Request {
    if bytes(chain.readable()) != (HEADER_BYTES + RANGE_BYTES) as u64 {
        return Request::Invalid;
    }
    let mut words = [[0; 8]; 2];
    let range_at = HEADER_BYTES as u64;
    if guest.gather(chain.readable(), range_at, words.as_flattened_mut()).is_none() {
        return Request::Invalid;
    }
    let (sector, rest) = (u64::from_le_bytes(words[0]), u64::from_le_bytes(words[1]));
    let (sectors, flags) = (rest as u32, (rest >> 32) as u32);
    let known = if head == WRITE_ZEROES { UNMAP } else { 0 };
    //= VIRTIO 1.2 §5.2.6.2: unknown flags, and unmap of a discard, are VIRTIO_BLK_S_UNSUPP.
    if flags & !known != 0 {
        return Request::Unsupported;
    }
    let (Some(offset), 1..=RANGE_SECTORS_MOST) = (sector.checked_mul(SECTOR_BYTES), sectors) else {
        return Request::Invalid;
    };
    let unmaps = head == DISCARD || flags & UNMAP != 0 && disk.geometry.trim_zeroes;
    let op = if unmaps { Op::Trim } else { Op::WriteZeroes };
    let len = sectors * SECTOR_BYTES as u32;
    let io = Io { tag: Tag(0), op, fua: false, len, offset, buf: None };
    match disk.geometry.check(&io) {
        Ok(()) => Request::Clear { op, offset, len },
        Err(_) => Request::Invalid,
    }
}
