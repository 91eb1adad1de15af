//! Figures of a drive that no source gives, derived from similar drives: a guess, named in a
//! remark.

use super::Builder;
use catalogue::{Class as Sort, Known, Part, is_disk, sure};

impl Builder<'_> {
    /// Returns the latency of drives with the same interface and similar ratings; 0 if none is
    /// known.
    pub(super) fn latency_like(&mut self, drive: &Part, quantity: &'static str) -> f64 {
        let Some(known) = self.like(drive, quantity) else {
            self.remark(&format!(
                "{}: {quantity} unknown, for similar drives too: assumed 1 / rating, which is too \
                 fast at low queue depth",
                drive.id
            ));
            return 0.0;
        };
        self.remark(&format!(
            "{}: {quantity} unknown; assumed {:.0} us, the median of {} drives with similar \
             ratings",
            drive.id,
            known.value * 1e6,
            drive.interface
        ));
        self.supposed(drive, quantity, known)
    }

    /// Returns the bandwidth of a drive: its own, or that of similar drives if the bytes of an I/O
    /// matter. Infinite if none is known, and for small random I/Os, where it does not matter.
    pub(super) fn bandwidth(&mut self, drive: &Part, quantity: &'static str) -> f64 {
        let streams = self.bill.setup.sequential && is_disk(drive);
        let known = match streams || self.bill.work.size_bytes >= super::rated::LONG {
            true => self.bandwidth_like(drive, quantity),
            false => self.figure(drive, quantity),
        };
        known.unwrap_or(f64::INFINITY)
    }

    /// Returns the bandwidth of a drive, or of similar drives; `None` if none is known.
    pub(super) fn bandwidth_like(&mut self, drive: &Part, quantity: &'static str) -> Option<f64> {
        if let Some(known) = self.figure(drive, quantity) {
            return Some(known);
        }
        let known = self.like(drive, quantity)?;
        let what = if is_disk(drive) { "disks" } else { drive.interface.as_str() };
        self.remark(&format!(
            "{}: {quantity} unknown; assumed {:.0} MB/s, the median of {what} like it: give it in \
             a [[figure]]",
            drive.id,
            known.value / 1e6
        ));
        Some(self.supposed(drive, quantity, known))
    }

    /// Returns the figure of an adapter of unknown rate or bandwidth: the median of adapters of its
    /// generation, from the slowest to the fastest. No adapter is infinitely fast.
    pub(super) fn adapter_like(&mut self, adapter: &Part, quantity: &'static str) -> Option<f64> {
        if let Some(drawn) = self.drawn(adapter, quantity) {
            return Some(self.supposed(adapter, quantity, drawn));
        }
        let generation = adapter.value("generation");
        let parts = self.bill.catalogue.parts.values();
        let alike = parts.filter(|part| part.class == Sort::Adapter && part.id != adapter.id);
        let known = |same: bool| {
            let alike = alike.clone().filter(|p| !same || p.value("generation") == generation);
            let mut values: Vec<f64> = alike.filter_map(|part| sure(part, quantity)).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let mut of = known(generation.is_some());
        if of.is_empty() {
            of = known(false);
        }
        let (low, high) = (*of.first()?, *of.last()?);
        let value = of[of.len() / 2];
        let (what, unit) = if quantity == "iops" { ("rate", "IOPS") } else { (quantity, "B/s") };
        self.remark(&format!(
            "{}: {what} unknown; assumed as of similar adapters, {} to {} {unit}: measure it, or \
             give it in a [[figure]]",
            adapter.id,
            block::Rate(low),
            block::Rate(high)
        ));
        let source = "the adapters of its kind in the catalogue".to_owned();
        Some(self.supposed(adapter, quantity, Known::assumed(value, (low, high), source)))
    }

    /// Returns the value that a draw gives to an assumed figure, so that parts are not searched
    /// again.
    fn drawn(&self, part: &Part, quantity: &'static str) -> Option<Known> {
        let value = *self.tweak.values.get(&(part.id.clone(), quantity))?;
        Some(Known::assumed(value, (value, value), String::new()))
    }

    /// Returns the figure of drives like this one; of a draw, what it gives.
    fn like(&self, drive: &Part, quantity: &'static str) -> Option<Known> {
        self.drawn(drive, quantity).or_else(|| self.bill.catalogue.like(drive, quantity))
    }

    /// Returns the writes per second of full flash without a rating, by those of rated drives.
    pub(super) fn worn_like(&mut self, drive: &Part) -> Option<f64> {
        if let Some(drawn) = self.drawn(drive, "write_iops") {
            return Some(self.supposed(drive, "write_iops", drawn));
        }
        let known = self.bill.catalogue.worn_writes(drive)?;
        self.remark(&format!(
            "{}: write_iops of full flash unknown; {} to {} IOPS by {}, which write at random a \
             share of what they write in sequence: give it in a [[figure]], or say \
             state = \"fresh\"",
            drive.id,
            block::Rate(known.low),
            block::Rate(known.high),
            known.source
        ));
        Some(self.supposed(drive, "write_iops", known))
    }
}
