//! Comparison of systems: one of each, for equal money, or for equal IOPS.
//!
//! A system is bought whole, as its bill says, and carries its share of the load; compared systems
//! share no queue. A price that lacks a part is a lower bound, and never ranks before a known one.

use serde::Serialize;

use crate::answer::{Answer, Range};
use crate::bill::{Bill, Work};
use crate::cost::{Cost, Sum, cost};
use crate::system::PlanError;
use catalogue::Kind;

/// Quantity that is equal for all alternatives.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Equal {
    /// None: one system of each.
    Systems,
    /// Budget in dollars: as many systems as it buys.
    Money(f64),
    /// IOPS: as many systems as needed.
    Iops(f64),
}

/// Maximum number of systems of one kind; beyond it, prices of other things than parts decide.
pub const SYSTEMS_MAX: f64 = 1e6;
/// Share of a goal that counts as reached: queues cost a little even at resources that are no
/// bottleneck.
const REACHED: f64 = 0.999;

/// One of the alternatives.
#[derive(Clone, Debug, Serialize)]
pub struct Alternative {
    /// Index of the bill, from 0.
    pub bill: usize,
    /// Name of the bill.
    pub name: String,
    /// The answer of one system.
    pub one: Answer,
    /// The cost of one system.
    pub cost: Cost,
    /// Number of systems; `None` if no price is known.
    pub systems: Option<f64>,
    /// True if the number is an upper bound, because the price lacks parts.
    pub at_most: bool,
    /// Totals of these systems; `None` if their number is unknown.
    pub all: Option<Totals>,
    /// IOPS per dollar, watt and rack unit.
    pub yields: Yields,
    /// Least certain kind of all figures used for the alternative.
    pub kind: Kind,
    /// Maximum price of the parts without a known price in one system, so that an I/O costs as much
    /// as with the cheapest alternative whose price is known.
    pub break_even: Option<f64>,
    /// True if the difference from the first alternative is within the uncertainty of their
    /// figures.
    pub as_good: bool,
}

/// Totals of all systems of an alternative.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// I/Os per second.
    pub iops: f64,
    /// Range of the rate; `None` where nobody published a result of such a system.
    pub range: Option<Range>,
    /// Dollars.
    pub price: Sum,
    /// Power at work in watts.
    pub power: Sum,
    /// Height in rack units.
    pub height: Sum,
}

/// IOPS per dollar, watt and rack unit; `None` if a part of the sum is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Yields {
    /// IOPS per dollar.
    pub per_dollar: Option<f64>,
    /// IOPS per watt.
    pub per_watt: Option<f64>,
    /// IOPS per rack unit.
    pub per_unit: Option<f64>,
}

/// Alternatives, the best first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Quantity that is equal for all.
    pub equal: Equal,
    /// Workload of all alternatives.
    pub work: Work,
    /// Alternatives, the best first: by IOPS for equal money or one system each, by money for equal
    /// IOPS.
    pub alternatives: Vec<Alternative>,
}

/// Reason why alternatives cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A bill without a prediction.
    #[error("{name}")]
    Plan {
        /// Index of the bill, from 0.
        index: usize,
        /// Name of the bill.
        name: String,
        /// Reason.
        source: PlanError,
    },
    /// Alternatives with different workloads.
    #[error("{0}")]
    Work(String),
}

/// Compares bills with the same workload.
///
/// # Errors
///
/// [`CompareError`] for a bill without a prediction, or one with a different workload.
pub fn compare(
    bills: &[Bill],
    equal: Equal,
    (draws, seed): (u32, u64),
) -> Result<Comparison, CompareError> {
    let work = same_work(bills)?;
    let one = |(index, bill): (usize, &Bill)| {
        alternative((index, bill), equal, (draws, seed)).map_err(|source| CompareError::Plan {
            index,
            name: bill.name.clone(),
            source,
        })
    };
    let mut alternatives = bills.iter().enumerate().map(one).collect::<Result<Vec<_>, _>>()?;
    break_even(&mut alternatives);
    match equal {
        Equal::Iops(_) => alternatives.sort_by(|a, b| dear(a).total_cmp(&dear(b))),
        _ => alternatives.sort_by(|a, b| fast(b).total_cmp(&fast(a))),
    }
    as_good(&mut alternatives, equal);
    Ok(Comparison { equal, work, alternatives })
}

/// Checks that I/Os are the same in all bills. The queue depth is part of each bill.
fn same_work(bills: &[Bill]) -> Result<Work, CompareError> {
    let Some(first) = bills.first() else {
        return Err(CompareError::Work("nothing to compare".to_owned()));
    };
    let said = |bill: &Bill| {
        let Work { size_bytes, read_share, flush, .. } = bill.work;
        let flushed = if flush.is_some() { ", flushed" } else { "" };
        let reads = read_share * 100.0;
        format!("'{}' has I/Os of {size_bytes} B, {reads} % reads{flushed}", bill.name)
    };
    let kind = |work: &Work| (work.size_bytes, work.read_share, work.flush);
    let same = |a: &Work, b: &Work| kind(a) == kind(b);
    match bills.iter().find(|bill| !same(&bill.work, &first.work)) {
        None => Ok(first.work),
        Some(other) => Err(CompareError::Work(format!(
            "{}, but {}: give all bills the same workload",
            said(first),
            said(other)
        ))),
    }
}

fn alternative(
    (index, bill): (usize, &Bill),
    equal: Equal,
    (draws, seed): (u32, u64),
) -> Result<Alternative, PlanError> {
    let one = Answer::of(bill, draws, seed)?;
    let cost = cost(bill);
    let price = &cost.price;
    let systems = match equal {
        Equal::Systems => Some(1.0),
        // A system bought to the last cent counts as bought.
        Equal::Money(sum) if price.known > 0.0 => Some((sum / price.known * (1.0 + 1e-12)).floor()),
        Equal::Money(_) => None,
        Equal::Iops(goal) => Some((goal * REACHED / one.iops).ceil().max(1.0)),
    };
    let systems = systems.map(|systems| systems.min(SYSTEMS_MAX));
    let at_most = matches!(equal, Equal::Money(_)) && price.total().is_none();
    let all = systems.map(|systems| totals(systems, &one, &cost));
    let per = |sum: &Sum| sum.total().filter(|total| *total > 0.0).map(|total| one.iops / total);
    let yields = Yields {
        per_dollar: per(&cost.price),
        per_watt: per(&cost.power),
        per_unit: per(&cost.height).filter(|_| bill.server.is_some()),
    };
    let rate_kind = one.uncorrected.kind;
    let kinds = [Some(rate_kind), cost.price.kind, cost.power.kind, cost.height.kind];
    Ok(Alternative {
        kind: kinds.into_iter().flatten().max().unwrap_or(rate_kind),
        bill: index,
        name: bill.name.clone(),
        one,
        cost,
        systems,
        at_most,
        all,
        yields,
        break_even: None,
        as_good: false,
    })
}

fn totals(systems: f64, one: &Answer, cost: &Cost) -> Totals {
    let sum = |sum: &Sum| Sum {
        known: sum.known * systems,
        low: sum.low * systems,
        high: sum.high * systems,
        ..sum.clone()
    };
    Totals {
        iops: one.iops * systems,
        range: one.range.map(|Range { p10, p90 }| Range { p10: p10 * systems, p90: p90 * systems }),
        price: sum(&cost.price),
        power: sum(&cost.power),
        height: sum(&cost.height),
    }
}

/// Returns the dollars for the goal; infinite if a price lacks parts.
fn dear(alternative: &Alternative) -> f64 {
    let total = alternative.all.as_ref().and_then(|all| all.price.total());
    total.unwrap_or(f64::INFINITY)
}

/// Returns the total IOPS; −1 if the number of systems is unknown or an upper bound.
fn fast(alternative: &Alternative) -> f64 {
    let sure = alternative.all.as_ref().filter(|_| !alternative.at_most);
    sure.map_or(-1.0, |all| all.iops)
}

fn break_even(alternatives: &mut [Alternative]) {
    let cheapest = alternatives.iter().filter_map(|one| one.yields.per_dollar);
    let Some(best) = cheapest.max_by(f64::total_cmp) else { return };
    for one in alternatives.iter_mut().filter(|one| one.cost.price.total().is_none()) {
        one.break_even = Some(one.one.iops / best - one.cost.price.known);
    }
}

/// Marks the first alternative, and those that are not distinguishable from it.
fn as_good(alternatives: &mut [Alternative], equal: Equal) {
    let range = |one: &Alternative| match equal {
        Equal::Iops(_) => {
            let price = &one.all.as_ref()?.price;
            price.total().map(|_| (price.low, price.high))
        }
        _ => {
            let all = one.all.as_ref().filter(|_| !one.at_most)?;
            all.range.filter(|_| all.iops > 0.0).map(|range| (range.p10, range.p90))
        }
    };
    let Some(best) = alternatives.first().and_then(range) else { return };
    for one in alternatives {
        one.as_good = range(one).is_some_and(|(low, high)| low <= best.1 && best.0 <= high);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use catalogue::Catalogue;

    fn bill(name: &str, rest: &str) -> Bill {
        let text = format!("name = '{name}'\nsize = '4k'\noutstanding = 32\n[[group]]\n{rest}\n");
        Bill::read("b.toml", &text, &Catalogue::shipped()).unwrap_or_else(|e| panic!("{e}"))
    }

    fn bills() -> Vec<Bill> {
        vec![
            bill("sata", "adapter = 'lsi-9210-8i'\ndrive = 'x25-m'\ndrives = 4"),
            bill("optane", "drive = 'p4800x-375'"),
            bill("unknown", "drive = 'p5800x-800'"),
        ]
    }

    fn by(equal: Equal) -> Comparison {
        compare(&bills(), equal, (40, 1)).unwrap()
    }

    fn of<'a>(found: &'a Comparison, name: &str) -> &'a Alternative {
        found.alternatives.iter().find(|one| one.name == name).unwrap()
    }

    #[test]
    fn money_buys_whole_systems() {
        // Four drives of 440 and an adapter of 220 cost 1980; one P4800X costs 1520.
        let found = by(Equal::Money(3_960.0));
        let (sata, optane) = (of(&found, "sata"), of(&found, "optane"));
        assert_eq!((sata.systems, optane.systems), (Some(2.0), Some(2.0)));
        let all = sata.all.as_ref().unwrap();
        let array = crate::evidence::Class::Array.middle();
        assert!((all.iops / (280e3 * array) - 1.0).abs() < 2e-3, "{}", all.iops);
        assert_eq!(all.price.total(), Some(3_960.0));
        assert_eq!(of(&by(Equal::Money(3_959.0)), "sata").systems, Some(1.0));
        assert_eq!(of(&by(Equal::Money(100.0)), "sata").all.as_ref().unwrap().iops, 0.0);
        // The best is first, and one without a price last, without a number of systems.
        assert_eq!(found.alternatives[0].name, "optane");
        let unknown = found.alternatives.last().unwrap();
        assert_eq!((unknown.name.as_str(), unknown.systems), ("unknown", None));
        assert!(unknown.all.is_none() && !unknown.as_good && unknown.at_most);
        // At this price an I/O costs as much as with the cheapest alternative.
        let rate = optane.yields.per_dollar.unwrap();
        assert!((unknown.one.iops / unknown.break_even.unwrap() / rate - 1.0).abs() < 1e-12);
        assert_eq!(optane.break_even, None);
    }

    #[test]
    fn a_goal_is_reached_by_as_many_systems_as_it_takes() {
        let found = by(Equal::Iops(1e6));
        let sata = of(&found, "sata");
        // 140,000 each by their figures, 124,800 as published arrays are: nine of them.
        assert_eq!(sata.systems, Some(9.0));
        assert!(sata.all.as_ref().unwrap().iops >= 1e6);
        let prices: Vec<f64> = found.alternatives.iter().map(dear).collect();
        assert!(prices.is_sorted() && prices[2].is_infinite(), "{prices:?}");
        assert!(found.alternatives[0].as_good);
        assert_eq!(of(&by(Equal::Systems), "sata").systems, Some(1.0));
    }

    #[test]
    fn ranks_within_the_figures_intervals_are_no_ranks() {
        let twice = [bills().remove(0), Bill { name: "again".to_owned(), ..bills().remove(0) }];
        let found = compare(&twice, Equal::Money(1e4), (40, 1)).unwrap();
        assert!(found.alternatives.iter().all(|one| one.as_good));
        let found = by(Equal::Systems);
        assert_eq!(found.alternatives.iter().filter(|one| one.as_good).count(), 1);
    }

    #[test]
    fn other_work_is_no_comparison() {
        let mut other = bills();
        other[1].work.size_bytes = 8192.0;
        let error = compare(&other, Equal::Systems, (10, 1)).unwrap_err().to_string();
        assert!(
            error.contains("'sata'") && error.contains("'optane' has I/Os of 8192 B"),
            "{error}"
        );
        assert!(compare(&[], Equal::Systems, (10, 1)).is_err());
        let mut silent = bills();
        silent[0].groups[0].drive = Some("any-sata-ssd".to_owned());
        let error = compare(&silent, Equal::Systems, (10, 1)).unwrap_err();
        // The name of the system, with the reason as its source: a printed chain has each once.
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(error.to_string(), "sata");
        assert!(why.starts_with("line 4: read_iops of any-sata-ssd"), "{why}");
    }
}
