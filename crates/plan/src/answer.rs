//! The prediction of a bill: the rate of its queueing network, corrected by published results.
//!
//! Every command that predicts a system asks here, so that the same system has the same rate and
//! interval whoever asks. The network alone is [`Prediction`], called "uncorrected" where it is
//! shown.

use serde::Serialize;

use crate::bill::Bill;
use crate::evidence::{Sure, sure};
use crate::predict::{Prediction, predict};
use crate::surface::spread_of;
use crate::system::{PlanError, Tweak};

/// Number of draws of an answer for which nobody asks another number.
pub const DRAWS: u32 = 200;
/// Seed of these draws.
pub const SEED: u64 = 1;

/// The prediction of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// I/Os per second: half of the published results of such systems were below.
    pub iops: f64,
    /// Payload in bytes per second at this rate.
    pub bytes_per_s: f64,
    /// Mean time from issue to completion at this rate, in seconds.
    pub latency_s: f64,
    /// Range of the rate; `None` where nobody published a result of such a system.
    pub range: Option<Range>,
    /// The published results, and what they say.
    pub evidence: Sure,
    /// The queueing network alone.
    pub uncorrected: Prediction,
}

/// The range of a rate that holds eight of ten published results, in I/Os per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    /// One result of ten is below.
    pub p10: f64,
    /// One result of ten is above.
    pub p90: f64,
}

impl Answer {
    /// The answer of a bill. `draws` figures are drawn by `seed` from their intervals: an answer is
    /// no surer than its figures.
    ///
    /// # Errors
    ///
    /// As [`predict`].
    pub fn of(bill: &Bill, draws: u32, seed: u64) -> Result<Answer, PlanError> {
        let found = predict(bill, &Tweak::default())?;
        let spread = spread_of(bill, &found, draws, seed)?;
        Answer::within(bill, found, spread)
    }

    /// The answer of a bill as if its figures were exact: the middle is that of [`Answer::of`], and
    /// the range is as wide or narrower. Takes a single solution of the network.
    ///
    /// # Errors
    ///
    /// As [`predict`].
    pub fn of_exact(bill: &Bill) -> Result<Answer, PlanError> {
        Answer::tweaked(bill, &Tweak::default())
    }

    /// The answer of [`Answer::of_exact`] with changes to the bill's figures.
    ///
    /// # Errors
    ///
    /// As [`predict`].
    pub(crate) fn tweaked(bill: &Bill, tweak: &Tweak) -> Result<Answer, PlanError> {
        Answer::within(bill, predict(bill, tweak)?, (1.0, 1.0))
    }

    /// The answer with the draws of [`Answer::of`], from one of the same bill without.
    ///
    /// # Errors
    ///
    /// As [`predict`].
    pub(crate) fn drawn(
        &self,
        bill: &Bill,
        (draws, seed): (u32, u64),
    ) -> Result<Answer, PlanError> {
        let spread = spread_of(bill, &self.uncorrected, draws, seed)?;
        Answer::within(bill, self.uncorrected.clone(), spread)
    }

    fn within(bill: &Bill, found: Prediction, spread: (f64, f64)) -> Result<Answer, PlanError> {
        let evidence = sure(bill, &found, spread)?;
        let middle = evidence.middle;
        Ok(Answer {
            iops: found.iops * middle,
            bytes_per_s: found.bytes_per_s * middle,
            latency_s: found.latency_s / middle,
            range: evidence
                .ends
                .map(|(low, high)| Range { p10: found.iops * low, p90: found.iops * high }),
            evidence,
            uncorrected: found,
        })
    }

    /// Mean time from issue to completion at the ends of the range, in seconds, the shortest first.
    pub fn latency_range(&self) -> Option<(f64, f64)> {
        let at = |iops: f64| self.latency_s * self.iops / iops;
        self.range.map(|range| (at(range.p90), at(range.p10)))
    }

    /// The rate that a buyer may count on: one published result of ten was below. The middle where
    /// there is no range.
    pub fn confident_iops(&self) -> f64 {
        self.range.map_or(self.iops, |range| range.p10)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use catalogue::Catalogue;

    fn read(text: &str) -> Bill {
        Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_middle_is_the_same_with_and_without_draws_and_the_range_holds_it() {
        for text in [
            include_str!("../systems/intel-ssd.toml"),
            include_str!("../systems/intel-iscsi.toml"),
            include_str!("../systems/thirdio-fc.toml"),
            include_str!("../systems/p4800x.toml"),
        ] {
            let bill = read(text);
            let (drawn, exact) =
                (Answer::of(&bill, 100, 1).unwrap(), Answer::of_exact(&bill).unwrap());
            assert_eq!(drawn.iops.to_bits(), exact.iops.to_bits(), "{}", bill.name);
            let (wide, narrow) = (drawn.range.unwrap(), exact.range.unwrap());
            assert!(wide.p10 <= narrow.p10 && narrow.p90 <= wide.p90, "{}", bill.name);
            assert!(wide.p10 <= drawn.iops && drawn.iops <= wide.p90, "{}", bill.name);
            let (short, long) = drawn.latency_range().unwrap();
            assert!(short <= drawn.latency_s && drawn.latency_s <= long, "{}", bill.name);
            // Little's law holds of the corrected figures, too.
            let in_flight = drawn.iops * drawn.latency_s / drawn.uncorrected.outstanding;
            assert!((in_flight - 1.0).abs() < 1e-6, "{}: {in_flight}", bill.name);
        }
    }

    #[test]
    fn wide_figures_widen_the_range() {
        let part = |low: u32, high: u32| {
            let text = format!(
                "name = 'x'\nsize = '4k'\noutstanding = 32\n[[group]]\ndrive = 'd'\n\
                 [source.me]\ntitle = 'me'\n[[part]]\nid = 'd'\nname = 'D'\nclass = 'drive'\n\
                 interface = 'pcie'\nfigures = [{{ is = 'read_iops', value = 100000, \
                 low = {low}, high = {high}, unit = 'IOPS', kind = 'spec', source = 'me' }}]\n"
            );
            Answer::of(&read(&text), 200, 1).unwrap()
        };
        let (sharp, wide) = (part(99_000, 101_000), part(10_000, 1_000_000));
        let of = |answer: &Answer| {
            let range = answer.range.unwrap();
            (range.p10 / answer.iops, range.p90 / answer.iops)
        };
        assert!(of(&wide).0 < of(&sharp).0 && of(&wide).1 >= of(&sharp).1, "{wide:?}");
        assert!(wide.confident_iops() < sharp.confident_iops());
    }
}
