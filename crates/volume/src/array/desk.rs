//! Synchronous access to one leg, one I/O at a time, to open, create or change an array.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Buf, Io, Lane, Nanos, Op, Pool, Tag};
use os::Core;

use super::assemble::{Found, copies_of};
use super::superblock::SUPERBLOCK_BYTES;
use crate::{OpenError, Purpose, Uri, Volume, open};

/// Time-out of an I/O.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Bytes zeroed at a time.
const STEP_BYTES: u64 = 1 << 20;

pub(super) struct Desk {
    pub(super) name: String,
    pub(super) volume: Arc<dyn Volume>,
    core: Core,
    lane: Box<dyn Lane>,
}

impl Desk {
    pub(super) fn open(uri: &Uri, purpose: Purpose) -> Result<Desk, OpenError> {
        let volume = open(uri, purpose)?;
        let core =
            Core::open(Pool::new(8, 2)).map_err(|error| io_error(uri, &error.to_string()))?;
        let lane = volume.begin_lane(&core)?;
        lane.looks();
        let mut lanes = [lane];
        crate::await_open(&core, &mut lanes).map_err(|(_, why)| io_error(uri, &why))?;
        let [lane] = lanes;
        Ok(Desk { name: uri.to_string(), volume, core, lane })
    }

    pub(super) fn bytes(&self) -> u64 {
        self.volume.geometry().bytes()
    }

    fn exchange(&mut self, io: Io) -> Result<Option<Buf>, OpenError> {
        let (mut ios, mut done) = (VecDeque::from([io]), Vec::new());
        let (mut ready, end) = (Vec::new(), self.core.now() + PATIENCE);
        let failed = |why: String| OpenError::Leg { leg: self.name.clone(), why };
        loop {
            let now = self.core.now();
            self.lane.poll(now, &mut done);
            // Submit after the poll: received messages may need an answer, such as data that a
            // target requests.
            self.lane.submit(now, &mut ios);
            if let Some(one) = done.pop() {
                return match one.result {
                    Ok(()) => Ok(one.buf),
                    Err(fault) => Err(failed(fault.to_string())),
                };
            }
            if now > end {
                return Err(failed("timed out after 60 s".to_owned()));
            }
            let wake = self.lane.wake().unwrap_or(end).min(end);
            ready.clear();
            self.core.turn(Some(wake), &mut ready).map_err(|error| failed(error.to_string()))?;
        }
    }

    fn io(op: Op, offset: u64, len: u32, buf: Option<Buf>) -> Io {
        Io { tag: Tag(0), op, fua: op == Op::Write, len, offset, buf }
    }

    pub(super) fn read(&mut self, offset: u64, len: usize) -> Result<Vec<u8>, OpenError> {
        let buf = self.core.pool().take_beyond(len);
        let buf = self.exchange(Desk::io(Op::Read, offset, len as u32, buf))?;
        Ok(buf.map_or_else(Vec::new, |buf| buf[..len].to_vec()))
    }

    /// Writes durably.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), OpenError> {
        let mut buf = self.core.pool().take_beyond(bytes.len());
        if let Some(buf) = &mut buf {
            buf[..bytes.len()].copy_from_slice(bytes);
        }
        self.exchange(Desk::io(Op::Write, offset, bytes.len() as u32, buf)).map(drop)
    }

    /// Zeroes the whole leg, durably.
    pub(super) fn clear(&mut self) -> Result<(), OpenError> {
        self.zero(0, self.bytes())
    }

    /// Zeroes a range, durably.
    pub(super) fn zero(&mut self, offset: u64, len: u64) -> Result<(), OpenError> {
        let (end, mut at) = (offset + len, offset);
        while at < end {
            let len = STEP_BYTES.min(end - at);
            let zeroed = self.exchange(Desk::io(Op::WriteZeroes, at, len as u32, None));
            if zeroed.is_err() {
                for part in (at..at + len).step_by(64 << 10) {
                    let part_len = (at + len - part).min(64 << 10);
                    self.write(part, &vec![0; part_len as usize])?;
                }
            }
            at += len;
        }
        self.exchange(Desk::io(Op::Flush, 0, 0, None)).map(drop)
    }

    /// Records that the leg's metadata was read: a lane opened later must meet the same server, or
    /// break.
    pub(super) fn looked(&self) {
        let _new = self.lane.forget_losses();
    }

    /// Reads both superblocks.
    pub(super) fn found(&mut self) -> Found {
        let bytes = self.bytes();
        let block_bytes = self.volume.geometry().block_bytes;
        let copies = copies_of(bytes).map(|at| self.read(at, SUPERBLOCK_BYTES).ok());
        Found { name: self.name.clone(), bytes, block_bytes, copies }
    }
}

fn io_error(uri: &Uri, why: &str) -> OpenError {
    OpenError::Leg { leg: uri.to_string(), why: why.to_owned() }
}
