//! Answers to I/Os: Data-In, R2T and status.

use block::{Cause, Fault, Nanos, Op, Pool};

use crate::scsi::{Key, Sense, decode_sense};
use crate::{Ending, Outbox};

use super::super::pdu::{DataIn, Header, ReadyToTransfer, Response};
use super::slot::find;
use super::{IscsiInitiator, Sink, attention, reason, violation};

/// SCSI status.
//= SAM-5 §Status codes
pub(super) const GOOD: u8 = 0x00;
pub(super) const CHECK_CONDITION: u8 = 0x02;
const BUSY: u8 = 0x08;
const TASK_SET_FULL: u8 = 0x28;
const TASK_ABORTED: u8 = 0x40;

/// Most retries of a command that met a busy target or a unit attention.
const ATTEMPTS_MAX: u8 = 10;
/// The first pause before that; each is twice as long as the one before, about 1 s in all.
const FIRST_PAUSE: Nanos = Nanos::from_millis(1);

/// The rule broken by an answer to a task that is not in flight.
const STALE: &str = "RFC 7143 §11.2.1.8: an answer has the tag of a command in flight";

impl IscsiInitiator {
    /// A Data-In; its data follows.
    #[inline(always)]
    pub(super) fn data_in(&mut self, header: &Header) -> Result<(), Ending> {
        let data = DataIn::parse(header);
        // One value from three, which frees registers for the code below.
        let good = !(data.overflow | data.underflow | (data.status != GOOD));
        let Some((slot, _)) = find(&mut self.ios, data.task_tag) else {
            return self.opening_data_in(header);
        };
        if data.ends {
            self.count_status(data.numbers)?;
        } else {
            self.count(data.numbers);
        }
        let this = &mut self.ios[slot];
        //= RFC 7143 §13.18: with DataPDUInOrder=Yes data comes at rising offsets without gaps.
        let fits = data.data_len <= this.len - this.own.moved;
        if this.op != Op::Read || data.offset != this.own.moved || !fits {
            return Err(violation("RFC 7143 §13.18: data of a read comes in order, and once", 40));
        }
        if data.data_number != this.own.number {
            return Err(violation("RFC 7143 §11.7.5: DataSN rises by one within a command", 36));
        }
        this.own.number += 1;
        this.own.ends = data.ends;
        this.own.good = good;
        self.incoming.sink = Sink::Slot(slot);
        if data.data_len == 0 {
            return self.placed(slot);
        }
        Ok(())
    }

    /// Copies a part of a data segment into the buffer of its I/O, or a lent one.
    #[inline(always)]
    pub(super) fn place(&mut self, slot: u16, part: &[u8], pool: &Pool) -> Result<(), Ending> {
        let this = &mut self.ios[slot];
        let at = this.own.moved as usize;
        let buf = this.buf_for_data(pool)?;
        buf[at..at + part.len()].copy_from_slice(part);
        this.own.moved += part.len() as u32;
        Ok(())
    }

    /// A data segment is complete.
    #[inline(always)]
    pub(super) fn placed(&mut self, slot: u16) -> Result<(), Ending> {
        let this = &self.ios[slot];
        if this.own.ends {
            let whole = this.own.good && this.own.moved == this.len;
            self.end_moved(slot, whole);
        }
        Ok(())
    }

    /// The end of a command.
    #[inline(always)]
    pub(super) fn response(&mut self, header: &Header, out: &mut Outbox) -> Result<(), Ending> {
        let response = Response::parse(header);
        let Some((slot, _)) = find(&mut self.ios, response.task_tag) else {
            return self.control(header, out);
        };
        if response.data_len != 0 || response.status != GOOD || response.response != 0 {
            return self.control(header, out);
        }
        self.count_status(response.numbers)?;
        let whole = self.is_whole(slot, &response);
        if whole && self.ios[slot].fua && !self.can_force_unit_access {
            self.flush_behind(slot);
            return Ok(());
        }
        self.end_moved(slot, whole);
        Ok(())
    }

    /// A command ended with GOOD: it must have moved all of its data.
    #[inline(always)]
    fn end_moved(&mut self, slot: u16, whole: bool) {
        let short = (Err(Fault::Medium), reason::SHORT);
        let (result, cause) = if whole { (Ok(()), Cause::NONE) } else { short };
        self.end(slot, result, cause);
    }

    /// Completes a durable write on a unit without FUA: after a flush, if its cache is volatile.
    #[cold]
    fn flush_behind(&mut self, slot: u16) {
        let this = &mut self.ios[slot];
        (this.op, this.fua) = (Op::Flush, false);
        if !self.geometry.volatile {
            return self.end(slot, Ok(()), Cause::NONE);
        }
        self.retry(slot, false);
    }

    /// Whether a command that ended with GOOD moved all of its data.
    #[inline(always)]
    fn is_whole(&self, slot: u16, response: &Response) -> bool {
        let this = &self.ios[slot];
        let exact = !response.overflow && !response.underflow;
        exact && (this.op != Op::Read || this.own.moved == this.len)
    }

    /// Answers an I/O.
    #[inline(always)]
    fn end(&mut self, slot: u16, result: Result<(), Fault>, cause: Cause) {
        let this = &mut self.ios[slot];
        this.own.retire();
        if result.is_ok() {
            self.stamps.completed(this.own.stamp);
        }
        self.ios.complete(slot, result, cause);
    }

    /// A response other than plain GOOD, with its sense data.
    #[cold]
    pub(super) fn bad_response(
        &mut self,
        header: &Header,
        data: &[u8],
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let response = Response::parse(header);
        let Some((slot, _)) = find(&mut self.ios, response.task_tag) else {
            return Err(violation(STALE, 16));
        };
        self.count_status(response.numbers)?;
        if response.response != 0 {
            //= RFC 7143 §11.4.3: 1 is a failure of the target, not of the command.
            self.end(slot, Err(Fault::Medium), reason::of_response(response.response));
            return Ok(());
        }
        let sense = if response.status == CHECK_CONDITION { sense_of(data) } else { None };
        let later = matches!(response.status, BUSY | TASK_SET_FULL);
        if let Some(attention) = sense.and_then(attention::that_ends) {
            // The command was not executed.
            self.ios[slot].own.retire();
            return Err(Ending::Attention(attention));
        }
        if let Some(attention) = sense.and_then(attention::of_units) {
            self.retry(slot, false);
            return self.ask_who_it_is(attention, out);
        }
        let attention = sense.is_some_and(|sense| sense.key == Key::UnitAttention);
        if (later || attention) && self.ios[slot].own.attempts < ATTEMPTS_MAX {
            self.retry(slot, later);
            return Ok(());
        }
        let op = self.ios[slot].op;
        // A unit without a volatile cache need not support flushes.
        let needless = op == Op::Flush && !self.geometry.volatile;
        let result = match (response.status, sense) {
            (CHECK_CONDITION, Some(sense)) => match fault(sense) {
                Some(Fault::Unsupported) if needless => Ok(()),
                Some(fault) => Err(fault),
                None => Ok(()),
            },
            (GOOD, _) if self.is_whole(slot, &response) => Ok(()),
            (TASK_ABORTED, _) => Err(Fault::Aborted),
            _ => Err(Fault::Medium),
        };
        let cause = match (response.status, sense) {
            (GOOD, _) => reason::SHORT,
            (_, Some(sense)) => reason::of_sense(sense),
            (status, None) => reason::of_status(status),
        };
        self.end(slot, result, cause);
        Ok(())
    }

    /// Schedules a retry of a command.
    fn retry(&mut self, slot: u16, busy: bool) {
        let this = &mut self.ios[slot];
        let pause = if busy { FIRST_PAUSE.0 << this.own.attempts.min(10) } else { 0 };
        this.own.attempts += 1;
        this.own.retire();
        self.retries.push_back((Nanos(self.heard.0 + pause), slot));
    }

    /// Sends the retries that are due, as far as the window allows.
    #[cold]
    pub(super) fn retry_due(&mut self, now: Nanos, out: &mut Outbox) {
        for _ in 0..self.retries.len() {
            let Some((due, slot)) = self.retries.pop_front() else { return };
            if due <= now && self.window() != 0 {
                self.send_command(slot, out);
            } else {
                self.retries.push_back((due, slot));
            }
        }
    }

    /// An R2T.
    #[cold]
    pub(super) fn ready_to_transfer(
        &mut self,
        header: &Header,
        out: &mut Outbox,
    ) -> Result<(), Ending> {
        let ready = ReadyToTransfer::parse(header);
        let Some((slot, _)) = find(&mut self.ios, ready.task_tag) else {
            return Err(violation(STALE, 16));
        };
        self.count(ready.numbers);
        let this = &mut self.ios[slot];
        //= RFC 7143 §13.19: with DataSequenceInOrder=Yes bursts are requested in order, each once.
        if ready.offset != this.own.moved || ready.len > this.own.out_len - this.own.moved {
            return Err(violation(
                "RFC 7143 §11.8.3: an R2T asks for the data that comes next",
                40,
            ));
        }
        if ready.len == 0 || ready.len > self.params.max_burst || ready.number != this.own.number {
            return Err(violation("RFC 7143 §11.8: R2T number and length are in range", 36));
        }
        this.own.number += 1;
        self.send_burst(slot, ready.lun, ready.transfer_tag, ready.len, out);
        Ok(())
    }

    /// Every I/O in flight is lost.
    pub(super) fn disconnect(&mut self) {
        self.retries.clear();
        self.ios.fail_all();
    }
}

/// The sense data of a response.
//= RFC 7143 §11.4.7: two bytes of length, then the sense data.
pub(super) fn sense_of(data: &[u8]) -> Option<Sense> {
    let (len, rest) = data.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*len)).min(rest.len());
    decode_sense(&rest[..len])
}

/// Returns whether the storage of a unit is full.
//= SPC-4 §ASC and ASCQ assignments: 27/07 is of units whose space is allocated as it is written.
fn is_full(sense: Sense) -> bool {
    let full = Sense::SPACE_ALLOCATION_FAILED;
    (sense.asc, sense.ascq) == (full.asc, full.ascq)
}

/// The fault of sense data; `None` if the command succeeded nevertheless.
fn fault(sense: Sense) -> Option<Fault> {
    Some(match sense.key {
        Key::NoSense | Key::RecoveredError | Key::Completed => return None,
        Key::DataProtect if is_full(sense) => Fault::NoSpace,
        Key::DataProtect => Fault::ReadOnly,
        Key::Miscompare => Fault::Miscompare,
        Key::AbortedCommand | Key::CopyAborted => Fault::Aborted,
        Key::IllegalRequest if sense.asc == Sense::LBA_OUT_OF_RANGE.asc => Fault::OutOfRange,
        Key::IllegalRequest => Fault::Unsupported,
        _ => Fault::Medium,
    })
}
