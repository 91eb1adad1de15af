//! Lanes that execute I/Os within the call.

use std::collections::VecDeque;

use crate::{Cause, Done, Fault, Io, Op, copy};

/// A hint of an address to be accessed soon, or none; any address is valid.
#[derive(Clone, Copy, Debug)]
pub struct Ahead(pub(crate) *const u8);

impl Ahead {
    /// The next access is unknown.
    pub const NONE: Ahead = Ahead(std::ptr::null());

    /// Prefetches the first lines of this many bytes: call it for a whole batch in one short loop,
    /// as [`Memory::prefetch`](crate::Memory::prefetch) explains.
    #[inline]
    pub fn prefetch(self, len_bytes: usize) {
        if !self.0.is_null() {
            for line in 0..len_bytes.div_ceil(copy::LINE).min(copy::EARLY_LINES) {
                copy::prefetch(self.0.wrapping_add(line * copy::LINE));
            }
        }
    }
}

/// The effect of a changing I/O.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// Write these bytes.
    Write(&'a [u8]),
    /// Zero this many bytes.
    Zero(u64),
    /// Trim this many bytes.
    Trim(u64),
}

impl Change<'_> {
    /// Number of bytes that the command changes.
    pub fn len_bytes(&self) -> u64 {
        match self {
            Change::Write(from) => from.len() as u64,
            Change::Zero(len) | Change::Trim(len) => *len,
        }
    }
}

/// A lane to memory, or to volumes in memory: an I/O is executed within the call, without tag,
/// completion or copy of its buffer. It never fails; nothing is ever durable, and a flush does
/// nothing.
///
/// Ranges must lie within the lane's geometry, or the call panics. `next` is where the next I/O
/// goes.
pub trait Immediate {
    /// The first address of an I/O of this kind, to be passed as `next`.
    fn ahead(&mut self, op: Op, offset: u64) -> Ahead;

    /// Reads.
    fn read(&mut self, offset: u64, to: &mut [u8], next: Ahead);

    /// Changes a claimed range.
    fn change(&mut self, offset: u64, change: Change<'_>, next: Ahead);

    /// Claims a range to be changed. False if another lane has claimed it: the I/O then goes
    /// through [`Lane::submit`](crate::Lane::submit).
    fn claim(&mut self, _offset: u64, _len: u64) -> bool {
        true
    }

    /// Releases a claim: the change may be acknowledged.
    fn release(&mut self, _offset: u64, _len: u64) {}

    /// Executes a checked I/O, with the buffer that it needs and its range claimed.
    // Inlined: after a call, the `Io` is loaded from the stack right after it was stored there, and
    // waits for all stores of the copy before it: 40 ns of a write of 4 KiB.
    #[inline(always)]
    fn execute(&mut self, io: &mut Io, next: Ahead) {
        let (offset, len) = (io.offset, u64::from(io.len));
        match (io.op, &mut io.buf) {
            (Op::Flush, _) => {}
            (Op::Read, Some(buf)) => self.read(offset, &mut buf[..len as usize], next),
            (Op::Write, Some(buf)) => {
                self.change(offset, Change::Write(&buf[..len as usize]), next);
            }
            (Op::Read | Op::Write, None) => unreachable!("a read or write brings its buffer"),
            (Op::WriteZeroes, _) => self.change(offset, Change::Zero(len), next),
            (Op::Trim, _) => self.change(offset, Change::Trim(len), next),
        }
    }
}

/// Executes the I/Os of a call together.
///
/// A claim is an atomic access, which waits for all stores before it, and those of a copy miss the
/// cache. So all claims are taken before the first copy, and released after the last.
#[derive(Debug, Default)]
pub struct Batch(Vec<Step>);

/// An I/O of a batch, before its execution.
#[derive(Clone, Copy, Debug)]
struct Step {
    ahead: Ahead,
    state: SlotState,
    offset: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
enum SlotState {
    Refused(Fault),
    /// Another lane has claimed its range.
    Stays,
    Reads,
    Claimed,
}

impl Batch {
    /// Executes valid I/Os and appends completions. I/Os on ranges claimed by others stay.
    pub fn execute<I: Immediate>(
        &mut self,
        way: &mut I,
        check: impl Fn(&I, &Io) -> Result<(), Fault>,
        ios: &mut VecDeque<Io>,
        done: &mut Vec<Done>,
    ) {
        self.0.extend(ios.iter().map(|io| {
            let (ahead, offset, len) = (way.ahead(io.op, io.offset), io.offset, u64::from(io.len));
            let state = match (check(way, io), io.op) {
                (Err(fault), _) => SlotState::Refused(fault),
                (Ok(()), Op::Read | Op::Flush) => SlotState::Reads,
                (Ok(()), _) if way.claim(offset, len) => SlotState::Claimed,
                (Ok(()), _) => SlotState::Stays,
            };
            Step { ahead, state, offset, len }
        }));
        self.0.iter().for_each(|step| step.ahead.prefetch(step.len as usize));
        for at in 0..self.0.len() {
            let Some(mut io) = ios.pop_front() else { break };
            let next = self.0.get(at + 1).map_or(Ahead::NONE, |next| next.ahead);
            let result = match self.0[at].state {
                SlotState::Refused(fault) => Err(fault),
                SlotState::Stays => {
                    ios.push_back(io);
                    continue;
                }
                SlotState::Reads | SlotState::Claimed => {
                    way.execute(&mut io, next);
                    Ok(())
                }
            };
            done.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
        }
        for step in self.0.drain(..).filter(|step| matches!(step.state, SlotState::Claimed)) {
            way.release(step.offset, step.len);
        }
    }
}
