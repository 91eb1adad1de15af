//! I/Os of a client: submission, sending, and checks of completions.

use block::{Done, Fault, Io, Nanos, Op, Pool, Tag};
use proto::Initiator;

use super::{Client, ClientState, Mischief, Pending};
use crate::disk::BLOCK;
use crate::net::Net;
use crate::region::WriteEnd;

impl Client {
    /// The endpoint that carries I/Os.
    pub(super) fn io_end(&mut self) -> Option<(&mut dyn Initiator, &mut proto::Outbox)> {
        match &mut self.state {
            ClientState::Away(_) | ClientState::Nvme(_, None) => None,
            ClientState::Iscsi(link) => Some((&mut link.end, &mut link.out)),
            ClientState::Nvme(_, Some(queue)) => Some((&mut queue.end, &mut queue.out)),
        }
    }

    /// Submits new I/Os.
    pub(super) fn submit(&mut self, now: Nanos) {
        if !self.is_ready() || now < self.next_burst || self.mischief == Mischief::Crowd {
            return;
        }
        if self.mischief == Mischief::Hoard {
            return self.hoard(now);
        }
        let burst = if self.pace == Nanos(0) { self.depth } else { self.burst };
        for tag in 0..self.ios.len().min(burst) {
            let room = self.io_end().map_or(0, |(end, _)| end.room());
            if self.ios[tag].is_some() || room == 0 {
                continue;
            }
            let draw = self.rng.below(24);
            if draw >= 23 {
                self.submit_flush(now, tag);
                continue;
            }
            // Blocks in doubt are written again soon: that must stay.
            let doubtful = match draw < 10 && self.rng.below(2) == 0 {
                true => self.region.pick_doubtful(&mut self.rng, self.blocks),
                false => None,
            };
            let place = doubtful.or_else(|| self.region.pick(&mut self.rng, self.blocks));
            let Some((at, count)) = place else { continue };
            let (mut op, mut buf, mut first) = (Op::Read, None, None);
            if draw < 10 {
                if let Some(mut taken) = self.pool.take(count * BLOCK as usize) {
                    first = Some(self.region.fill(count, &mut taken));
                    (op, buf) = (Op::Write, Some(taken));
                }
            } else if draw == 10 {
                op = Op::WriteZeroes;
            }
            let offset = (self.region.first + at as u64) * u64::from(BLOCK);
            let len = count as u32 * BLOCK;
            let io = Io { tag: Tag(tag as u64), op, fua: draw == 1, len, offset, buf };
            let losses = self.flushed.losses.get();
            self.ios[tag] = Some(Pending { op, at, count, first, since: now, losses });
            if let Some((end, out)) = self.io_end() {
                end.submit(now, io, out);
            }
        }
        self.next_burst = now + self.pace;
    }

    /// Submits a flush, one at a time.
    fn submit_flush(&mut self, now: Nanos, tag: usize) {
        if self.ios.iter().flatten().any(|pending| pending.op == Op::Flush) {
            return;
        }
        self.flushed.next = None;
        let (op, losses) = (Op::Flush, self.flushed.losses.get());
        let pending = Pending { op, at: 0, count: 0, first: None, since: now, losses };
        self.ios[tag] = Some(pending);
        let io = Io { tag: Tag(tag as u64), op, fua: false, len: 0, offset: 0, buf: None };
        if let Some((end, out)) = self.io_end() {
            end.submit(now, io, out);
        }
    }

    /// Submits writes whose data the client never sends, once.
    fn hoard(&mut self, now: Nanos) {
        if self.is_mute {
            return;
        }
        let count = Pool::LARGE_BYTES / BLOCK as usize;
        for tag in 0..self.ios.len() {
            let room = self.io_end().map_or(0, |(end, _)| end.room());
            let buf = if room > 0 { self.pool.take(Pool::LARGE_BYTES) } else { None };
            let Some(buf) = buf else { break };
            let len = Pool::LARGE_BYTES as u32;
            let io = Io {
                tag: Tag(tag as u64),
                op: Op::Write,
                fua: false,
                len,
                offset: 0,
                buf: Some(buf),
            };
            let (op, losses) = (Op::Write, 0);
            self.ios[tag] = Some(Pending { op, at: 0, count, first: None, since: now, losses });
            if let Some((end, out)) = self.io_end() {
                end.submit(now, io, out);
            }
        }
    }

    /// Sends PDUs, unless the client is mute.
    pub(super) fn flush(&mut self, net: &mut Net) {
        let (mischief, sent, is_mute) = (self.mischief, self.sent_bytes, self.is_mute);
        let rng = &mut self.rng;
        let mut total = 0;
        let mut change = |mut bytes: Vec<u8>| {
            match mischief {
                Mischief::Mute(after) if sent > after => bytes.clear(),
                Mischief::Hoard if is_mute => bytes.clear(),
                Mischief::Flip(after) if sent > after && rng.below(4) == 0 => {
                    let at = rng.below(bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << rng.below(8);
                }
                _ => {}
            }
            total += bytes.len() as u64;
            bytes
        };
        match &mut self.state {
            ClientState::Away(_) => {}
            ClientState::Iscsi(link) => link.flush(net, &mut change),
            ClientState::Nvme(admin, queue) => {
                admin.flush(net, &mut change);
                if let Some(queue) = queue {
                    queue.flush(net, &mut change);
                }
            }
        }
        self.sent_bytes += total;
    }

    /// Checks completions.
    pub(super) fn settle(&mut self, now: Nanos) -> Result<(), String> {
        let Some((end, _)) = self.io_end() else { return Ok(()) };
        let done: Vec<Done> = end.done().drain(..).collect();
        done.into_iter().try_for_each(|done| self.finish(now, done))
    }

    fn finish(&mut self, now: Nanos, done: Done) -> Result<(), String> {
        let tag = done.tag.0 as usize;
        let pending = self.ios.get_mut(tag).and_then(Option::take);
        let Some(Pending { op, at, count, first, since, losses }) = pending else {
            return Err(format!("{}: an answer to no I/O, or the second to one", self.name));
        };
        let checked = match op {
            _ if self.mischief == Mischief::Hoard => Ok(()),
            // A flush without an answer reports nothing.
            Op::Flush if done.result.is_err_and(Fault::is_lost) => Ok(()),
            Op::Flush => self.flushed.ended(losses, done.result),
            Op::Read => {
                let bytes = done.result.is_ok().then_some(done.buf.as_deref()).flatten();
                self.region.read(at, count, bytes)
            }
            _ => {
                let end = match done.result {
                    Ok(()) => WriteEnd::Done,
                    Err(fault) if fault.is_lost() || fault == Fault::Aborted => WriteEnd::Lost,
                    Err(_) => WriteEnd::Failed,
                };
                self.region.written(at, count, first, end);
                if end == WriteEnd::Done {
                    self.flushed.wrote();
                }
                Ok(())
            }
        };
        if let Some(buf) = done.buf {
            self.pool.give(buf);
        }
        if done.result.is_ok() {
            self.completed += 1;
            self.longest = self.longest.max(now.since(since));
        }
        // Anybody may write anywhere on the unit of hostile clients.
        if self.mischief != Mischief::None {
            return Ok(());
        }
        checked.map_err(|why| format!("{}: {op:?} of unit {}: {why}", self.name, self.unit))
    }
}
