//! Figures of a drive that no source gives, derived from similar drives: a guess, named in a
//! remark.

use super::Builder;
use super::rated::is_disk;
use catalogue::{Class as Sort, Kind, Known, Part};

/// Maximum ratio of the ratings of similar drives.
const RATED_ALIKE: f64 = 2.0;
/// Maximum read rating before PCI Express 4, in I/Os per second.
const OLD_RATING: f64 = 700e3;
/// Minimum number of drives with similar ratings; with fewer, all with the same interface are used.
const ALIKE_LEAST: usize = 3;

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
        let known = Known { value, low, high, kind: Kind::Guess, source };
        Some(self.supposed(adapter, quantity, known))
    }

    /// Returns the value that a draw gives to an assumed figure, so that parts are not searched
    /// again.
    fn drawn(&self, part: &Part, quantity: &'static str) -> Option<Known> {
        let value = *self.tweak.values.get(&(part.id.clone(), quantity))?;
        Some(Known { value, low: value, high: value, kind: Kind::Guess, source: String::new() })
    }

    /// Returns the median of drives with the same interface and similar ratings; of HDDs with the
    /// same rotational speed.
    fn like(&self, drive: &Part, quantity: &'static str) -> Option<Known> {
        if let Some(drawn) = self.drawn(drive, quantity) {
            return Some(drawn);
        }
        let rating = drive.value("read_iops");
        let old = |part: &Part| part.value("generation").map(|generation| generation < 4.0);
        let ours = old(drive).or(rating.map(|rating| rating < OLD_RATING));
        let near = |part: &Part| {
            let alike = |(ours, theirs): (f64, f64)| {
                (1.0 / RATED_ALIKE..RATED_ALIKE).contains(&(theirs / ours))
            };
            let aged = old(part).zip(ours).is_none_or(|(theirs, ours)| theirs == ours);
            aged && rating.zip(part.value("read_iops")).is_some_and(alike)
        };
        let turns = |part: &Part| part.value("rpm").map(|rpm| (rpm / 1000.0).round());
        let (disk, streams) = (is_disk(drive), quantity.ends_with("bandwidth"));
        let same = |part: &Part| match disk && streams {
            true => turns(part) == turns(drive),
            false => near(part),
        };
        let known = |alike: &dyn Fn(&Part) -> bool| {
            let parts = self.bill.catalogue.parts.values();
            let parts = parts.filter(|part| {
                let interface = part.interface == drive.interface || (disk && streams);
                part.class == Sort::Drive && interface && part.id != drive.id
            });
            let known = parts.filter_map(|part| sure(part, quantity).map(|value| (part, value)));
            let alike = known.filter(|(part, _)| is_disk(part) == disk && alike(part));
            let mut values: Vec<f64> = alike.map(|(_, value)| value).collect();
            values.sort_by(f64::total_cmp);
            values
        };
        let values = match known(&same) {
            few if few.len() < ALIKE_LEAST => known(&|_| true),
            enough => enough,
        };
        // One in ten at either end is of another kind, such as Optane among flash.
        let end = values.len() / 10;
        let (low, high) = (*values.get(end)?, values[values.len() - 1 - end]);
        let source = format!("drives with {} in the catalogue", drive.interface);
        Some(Known { value: values[values.len() / 2], low, high, kind: Kind::Guess, source })
    }
}

/// Returns the known figure of a part. A guess about it is no evidence for others.
fn sure(part: &Part, quantity: &str) -> Option<f64> {
    part.known(quantity).filter(|known| known.kind != Kind::Guess).map(|known| known.value)
}
