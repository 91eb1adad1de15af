//! A system of some hosts and drives, predicted: whole, and with as much down as may be.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::OnceLock;

use crate::answer::Answer;
use crate::bill::Bill;
use crate::evidence::{Evidence, middles, tail};
use crate::system::{PlanError, Tweak};
use catalogue::Kind;

/// Systems that were predicted, by hosts and drives; the error is the reason of a refusal.
pub(super) type Solved = BTreeMap<(u32, u32), Result<Rc<Tried>, String>>;

/// The prediction of a system of some hosts and drives.
pub(super) struct Tried {
    pub(super) bill: Bill,
    pub(super) cards: u32,
    pub(super) whole: Answer,
    /// With as much down as may be.
    pub(super) down: Option<Answer>,
    /// The bill with as much down as may be.
    pub(super) broken: Bill,
    /// Whether it reaches the rate.
    pub(super) reaches: bool,
    /// Mean response time at the rate, once somebody asks.
    pub(super) latency_s: OnceCell<Result<f64, String>>,
    pub(super) usable: Option<f64>,
}

impl Tried {
    /// The answer that has to reach the rate.
    pub(super) fn least(&self) -> &Answer {
        self.down.as_ref().unwrap_or(&self.whole)
    }
}

/// Mean response time in seconds at a rate that the bill can do, as its answer says: with as few
/// outstanding I/Os as reach it.
pub(super) fn at_rate(bill: &Bill, iops: f64, full: &Answer) -> Result<f64, PlanError> {
    let mut depths = Depths::new(bill, iops, full);
    while depths.halve()? {}
    Ok(depths.latency_s)
}

/// Whether [`at_rate`] is at most this long. Most depths decide that without the last steps: a time
/// is longer with more outstanding I/Os, by the network alone.
pub(super) fn is_within(
    bill: &Bill,
    iops: f64,
    full: &Answer,
    limit_s: f64,
) -> Result<bool, PlanError> {
    let (least, most) = middles();
    let mut depths = Depths::new(bill, iops, full);
    loop {
        let (low_s, high_s) = depths.uncorrected_s;
        if high_s * SOLVERS / least <= limit_s {
            return Ok(true);
        }
        if low_s / SOLVERS / most > limit_s {
            return Ok(false);
        }
        if !depths.halve()? {
            return Ok(depths.latency_s <= limit_s);
        }
    }
}

/// Factor by which times of two solvers may differ, where a deeper queue has the other solver.
const SOLVERS: f64 = 1.03;

/// The search for the fewest outstanding I/Os that reach a rate.
struct Depths<'a> {
    bill: &'a Bill,
    iops: f64,
    /// Assumed figures stay the same: parts like it need not be searched at each depth.
    assumed: Tweak,
    /// A depth that misses the rate, and one that reaches it.
    low: u32,
    high: u32,
    /// Mean response times by the network alone at both.
    uncorrected_s: (f64, f64),
    /// The answer's mean response time at `high`.
    latency_s: f64,
}

impl Depths<'_> {
    fn new<'a>(bill: &'a Bill, iops: f64, full: &Answer) -> Depths<'a> {
        let inputs = full.uncorrected.inputs.iter();
        let assumed = inputs.filter(|input| input.known.kind == Kind::Guess);
        let values = assumed.map(|input| ((input.part.clone(), input.quantity), input.known.value));
        Depths {
            bill,
            iops,
            assumed: Tweak { values: values.collect(), ..Tweak::default() },
            low: 0,
            high: bill.work.outstanding,
            uncorrected_s: (0.0, full.uncorrected.latency_s),
            latency_s: full.latency_s,
        }
    }

    /// Asks the depth in the middle; false if there is none.
    fn halve(&mut self) -> Result<bool, PlanError> {
        if self.high - self.low <= 1 {
            return Ok(false);
        }
        let middle = self.low + (self.high - self.low) / 2;
        let mut bill = self.bill.clone();
        bill.work.outstanding = middle;
        let less = Answer::tweaked(&bill, &self.assumed)?;
        if less.iops >= self.iops {
            (self.high, self.latency_s) = (middle, less.latency_s);
            self.uncorrected_s.1 = less.uncorrected.latency_s;
        } else {
            self.low = middle;
            self.uncorrected_s.0 = less.uncorrected.latency_s;
        }
        Ok(true)
    }
}

/// Returns the 99th percentile that nine of ten published runs with such a mean do not exceed.
pub(super) fn p99(mean_s: f64) -> Option<f64> {
    tail_high().map(|high| mean_s * high)
}

/// Returns the ratio of such a percentile to the mean.
pub(super) fn tail_high() -> Option<f64> {
    static HIGH: OnceLock<Option<f64>> = OnceLock::new();
    *HIGH.get_or_init(|| tail(&Evidence::shipped(), |_| true).map(|tail| tail.high))
}
