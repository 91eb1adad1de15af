//! Verification in a worker: the fill of its part of the volume, and the versions that reads must
//! find.

use std::sync::Arc;

use block::{Done, Geometry, Nanos, Op, Plant, Rng, planted};

use super::{Identity, Slot};
use crate::ledger::{Finding, Ledger};
use crate::pattern::Next;
use job::spec::{Part, Workload};

/// Compares reads with written data.
pub(super) struct Verifier {
    pub(super) ledger: Arc<Ledger>,
    /// Share of verified reads, of 2³².
    sample: u64,
    rng: Rng,
    /// The least versions for the read in each slot, if it is verified.
    notes: Vec<(bool, Vec<u32>)>,
    pub(super) fill: Option<Fill>,
}

/// The fill: the next block and the end.
pub(super) struct Fill {
    next: u64,
    end: u64,
    start: u64,
    bytes: u64,
    size: u32,
}

/// Whether it may change data.
pub(super) fn changes(op: Op) -> bool {
    matches!(op, Op::Write | Op::Trim | Op::WriteZeroes)
}

impl Fill {
    pub(super) fn new(workload: &Workload, geometry: Geometry, part: Part) -> Fill {
        let (start, bytes) = workload.range.on(geometry);
        let size = workload.access.longest_bytes();
        let blocks = bytes.div_ceil(u64::from(size));
        Fill { next: part.begin(blocks), end: part.end(blocks), start, bytes, size }
    }

    pub(super) fn next(&mut self) -> Option<Next> {
        if self.next >= self.end {
            return None;
        }
        let at = self.next * u64::from(self.size);
        self.next += 1;
        // The last one may be shorter.
        let len = u64::from(self.size).min(self.bytes - at) as u32;
        let (op, offset) = (Op::Write, self.start + at);
        Some(Next { op, fua: false, offset, len, pause: Nanos(0), reply: 0 })
    }
}

impl Verifier {
    pub(super) fn new(
        workload: &Workload,
        geometry: Geometry,
        who: Identity,
        ledger: Arc<Ledger>,
    ) -> Verifier {
        let percent = workload.verify.map_or(0.0, |verify| verify.sample_percent);
        let blocks = u64::from(workload.access.longest_bytes()) / ledger.unit_bytes() + 1;
        let notes = || (false, Vec::with_capacity(blocks as usize));
        Verifier {
            sample: (percent / 100.0 * (1_u64 << 32) as f64).round() as u64,
            rng: Rng::new(who.seed.rotate_left(32), who.number),
            notes: (0..workload.outstanding).map(|_| notes()).collect(),
            fill: workload
                .verify
                .is_some_and(|verify| verify.fill)
                .then(|| Fill::new(workload, geometry, who.part)),
            ledger,
        }
    }

    pub(super) fn note(&mut self, index: usize, offset: u64, len: u32) {
        let (compared, notes) = &mut self.notes[index];
        *compared = self.rng.chance(self.sample);
        if *compared {
            self.ledger.note(offset, len, notes);
        }
    }

    pub(super) fn ended(&mut self, index: usize, slot: &Slot, done: &mut Done) -> Option<Finding> {
        match slot.op {
            op if changes(op) => {
                self.ledger.release(slot.offset, slot.len, done.result.is_ok());
            }
            Op::Read if done.result.is_ok() && self.notes[index].0 => {
                let data = &done.buf.as_deref()?[..slot.len as usize];
                let finding = self.ledger.check(data, slot.offset, &self.notes[index].1);
                return finding.filter(|_| !planted(Plant::BelieveReads));
            }
            _ => {}
        }
        None
    }
}
