//! Systems side by side: as they are, for equal money, or for equal I/Os.
//!
//! A system is bought whole, as its bill says, and carries its share of the load; systems side by
//! side share no queue. A price that lacks a part is a lower bound, and never ranks before a known
//! one.

use serde::Serialize;

use crate::answer::{Answer, Range};
use crate::bill::{Bill, Work};
use crate::cost::{Cost, Sum, cost};
use crate::system::PlanError;
use catalogue::Kind;

/// What is made equal.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Equal {
    /// Nothing: one system of each.
    Systems,
    /// Dollars: as many systems as they buy.
    Money(f64),
    /// I/Os per second: as many systems as do them.
    Iops(f64),
}

/// Most systems of one kind; beyond, the prices of others than parts decide.
pub const SYSTEMS_MAX: f64 = 1e6;
/// Queues cost a little even of what is not the limit: what misses by no more does reach a goal.
const REACHED: f64 = 0.999;

/// One of the alternatives.
#[derive(Clone, Debug, Serialize)]
pub struct Alternative {
    /// Which of the bills that were given, from nought.
    pub bill: usize,
    /// That of the bill.
    pub name: String,
    /// What one system of it does.
    pub one: Answer,
    /// What one costs.
    pub cost: Cost,
    /// How many of it; `None` where nothing is known of its price.
    pub systems: Option<f64>,
    /// Whether they may be fewer, because its price lacks parts.
    pub at_most: bool,
    /// What these systems come to; `None` where their number is not known.
    pub all: Option<Totals>,
    /// What it yields for what it takes.
    pub yields: Yields,
    /// The least sure kind of the figures that all of this rests on.
    pub kind: Kind,
    /// What those of its parts whose price is not known may cost in one system, so that an I/O
    /// costs as much as with the cheapest alternative whose price is known.
    pub break_even: Option<f64>,
    /// Whether its rank differs from the first one's by no more than their figures are unsure.
    pub as_good: bool,
}

/// What all systems of an alternative come to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Totals {
    /// I/Os per second.
    pub iops: f64,
    /// Their range; `None` where nobody published a result of such a system.
    pub range: Option<Range>,
    /// Dollars.
    pub price: Sum,
    /// Watts at work.
    pub power: Sum,
    /// Rack units.
    pub height: Sum,
}

/// I/Os per second for a dollar, a watt, a rack unit; `None` where a part of the sum is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Yields {
    /// For a dollar.
    pub per_dollar: Option<f64>,
    /// For a watt.
    pub per_watt: Option<f64>,
    /// For a rack unit.
    pub per_unit: Option<f64>,
}

/// The alternatives, the best first.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// What is equal.
    pub equal: Equal,
    /// What each I/O is.
    pub work: Work,
    /// The best first: by I/Os for equal money or one system each, by money for equal I/Os.
    pub alternatives: Vec<Alternative>,
}

/// Why alternatives cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A bill has no answer.
    #[error("{name}")]
    Plan {
        /// Which bill, from nought.
        index: usize,
        /// What it is called.
        name: String,
        /// Why.
        source: PlanError,
    },
    /// They do different work.
    #[error("{0}")]
    Work(String),
}

/// Compares bills that are asked for the same I/Os.
///
/// # Errors
///
/// [`CompareError`] for a bill without an answer, or one whose I/Os are others.
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

/// An I/O here must be an I/O there. How many are in flight is part of each bill.
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
            "{}, but {}: let all bills ask for the same",
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
        // What is bought to the last cent is bought.
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

/// Dollars for the goal; beyond all that is known where a price lacks parts.
fn dear(alternative: &Alternative) -> f64 {
    let total = alternative.all.as_ref().and_then(|all| all.price.total());
    total.unwrap_or(f64::INFINITY)
}

/// I/Os per second in all; below all that is known where their number is not.
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

/// Marks the first one, and those that are not told apart from it.
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
        // Four drives of 440 and an adapter of 220 make 1980; one P4800X costs 1520.
        let found = by(Equal::Money(3_960.0));
        let (sata, optane) = (of(&found, "sata"), of(&found, "optane"));
        assert_eq!((sata.systems, optane.systems), (Some(2.0), Some(2.0)));
        let all = sata.all.as_ref().unwrap();
        let array = crate::evidence::Class::Array.middle();
        assert!((all.iops / (280e3 * array) - 1.0).abs() < 2e-3, "{}", all.iops);
        assert_eq!(all.price.total(), Some(3_960.0));
        assert_eq!(of(&by(Equal::Money(3_959.0)), "sata").systems, Some(1.0));
        assert_eq!(of(&by(Equal::Money(100.0)), "sata").all.as_ref().unwrap().iops, 0.0);
        // The best first, and what has no price last, without a number of systems.
        assert_eq!(found.alternatives[0].name, "optane");
        let unknown = found.alternatives.last().unwrap();
        assert_eq!((unknown.name.as_str(), unknown.systems), ("unknown", None));
        assert!(unknown.all.is_none() && !unknown.as_good && unknown.at_most);
        // At this price an I/O costs what it costs with the cheapest.
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
        // Who it was, and as its source why: a chain that is printed says each once.
        let why = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(error.to_string(), "sata");
        assert!(why.starts_with("line 4: read_iops of any-sata-ssd"), "{why}");
    }
}
