//! Search for bills that reach a goal: numbers of each drive, parts that fit, and bills that are
//! Pareto- optimal. A bill reaches the goal if its [`Answer`] does.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::answer::{Answer, Range};
use crate::bill::{Bill, DEVICES_MAX, Group, Work};
use crate::cost::cost;
use crate::evidence::largest_middle;
use crate::predict::predict;
use crate::system::{PlanError, Tweak, recalled};
use catalogue::{Catalogue, Class, Kind, Part, PriceTag};

/// Goal and given parts.
#[derive(Clone, Debug)]
pub struct Goal {
    /// I/Os per second.
    pub iops: f64,
    /// Whether the lower end of a bill's range reaches them, not only its middle.
    pub confident: bool,
    /// Draws of a bill's figures, and their seed.
    pub draws: (u32, u64),
    /// Number of systems, the first ones, whose range is drawn. A search for the confident draws
    /// all ranges.
    pub ranges: usize,
    /// The I/Os.
    pub work: Work,
    /// Server to build in, with its slots and cores.
    pub server: Option<String>,
    /// Software stack, which sets the CPU time of an I/O.
    pub software: Option<String>,
    /// Adapter for drives that need one.
    pub adapter: Option<String>,
    /// Maximum price of drives and adapters in dollars.
    pub price_max: Option<f64>,
    /// Maximum power of drives and adapters in watts.
    pub power_max: Option<f64>,
    /// Year in which drives must be sold; `None` for any.
    pub year: Option<u32>,
    /// Interface: `sata`, `sas` or `pcie`; `None` for any.
    pub interface: Option<String>,
}

/// A bill that reaches the goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Id of the drive.
    pub drive: String,
    /// Number of drives.
    pub drives: u32,
    /// Number of adapters, or of cards if the drives are cards.
    pub cards: u32,
    /// IOPS of the bill.
    pub iops: f64,
    /// Range of the rate; `None` where nobody published a result of such a system, and beyond
    /// [`Goal::ranges`].
    pub range: Option<Range>,
    /// The least sure kind of the figures that these rest on.
    pub kind: Kind,
    /// Number of the figures.
    pub figures: usize,
    /// Number of figures that are only recalled.
    pub recalled: usize,
    /// The limit of the bill.
    pub limit: String,
    /// Price of drives and adapters in dollars, if every price is known.
    pub price: Option<f64>,
    /// Least certain kind of the known prices.
    pub price_kind: Option<Kind>,
    /// Prices of its parts, with their dates and origins.
    pub prices: Vec<PriceTag>,
    /// Maximum price of one drive at which the bill costs as much as the cheapest one whose price
    /// is known; only if its own price is unknown.
    pub break_even: Option<f64>,
    /// Power of drives and adapters in watts, if all are known.
    pub power: Option<f64>,
    /// Least certain kind of the known powers.
    pub power_kind: Option<Kind>,
    /// True if no other candidate is at least as good in price, power and number of drives, and
    /// better in one.
    pub pareto: bool,
}

/// A drive that does not reach the goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Refused {
    /// Id of the drive.
    pub drive: String,
    /// Limit that prevents the goal, with the excess.
    pub reason: String,
    /// Limit to relax, or part to add.
    pub relax: String,
    /// Maximum number of drives within all limits, with their IOPS; `None` if there are none, or if
    /// a figure is unknown.
    pub within: Option<Within>,
}

/// System within all limits that misses the goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Within {
    /// Number of drives.
    pub drives: u32,
    /// Number of adapters, or of cards if the drives are cards.
    pub cards: u32,
    /// IOPS of the drives.
    pub iops: f64,
    /// Least certain kind of the figures used for the IOPS.
    pub kind: Kind,
}

/// Results of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Bills that reach the goal, by price, then by number of drives, then by power.
    pub candidates: Vec<Candidate>,
    /// Drives that miss the goal, with the reason, the nearest first.
    pub refused: Vec<Refused>,
    /// Drives that were not sold in the year.
    pub not_sold: Vec<String>,
}

/// Maximum number of drives of a candidate: larger systems are more than one server.
const DRIVES_MAX: u32 = 256;
/// Maximum number of rounds in which drives are added until the goal is reached.
const ROUNDS: u32 = 64;
/// Share of a goal that counts as reached: queues cost a little even at resources that are no
/// bottleneck.
const REACHED: f64 = 0.999;

/// Looks through all drives of the catalogue, on all cores. The same goal gives the same bits.
pub fn search(goal: &Goal, catalogue: &Catalogue) -> Found {
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive);
    let wanted = |part: &&Part| goal.interface.as_ref().is_none_or(|i| *i == part.interface);
    let sold = |part: &&Part| goal.year.is_none_or(|year| part.sold_in(year));
    let (sold, not_sold): (Vec<&Part>, Vec<&Part>) =
        drives.map(|part| &**part).filter(wanted).partition(sold);
    let one = |drive: &&Part| Kit::new(goal, catalogue, drive).and_then(|mut kit| kit.candidate());
    let (mut reached, mut refused) = (Vec::new(), Vec::new());
    for found in on_all_cores(&sold, one) {
        match found {
            Ok(found) => reached.push(found),
            Err(reason) => refused.push(reason),
        }
    }
    let (price, power) = (
        |c: &Candidate| c.price.unwrap_or(f64::INFINITY),
        |c: &Candidate| c.power.unwrap_or(f64::INFINITY),
    );
    reached.sort_by(|Reached { candidate: a, .. }, Reached { candidate: b, .. }| {
        let by_price = price(a).total_cmp(&price(b)).then(a.drives.cmp(&b.drives));
        by_price.then(power(a).total_cmp(&power(b))).then_with(|| a.drive.cmp(&b.drive))
    });
    let mut candidates = ranged(goal, reached);
    even(&mut candidates, catalogue);
    mark(&mut candidates);
    // The sort is stable: refusals without a rate keep the order of the catalogue.
    let near = |refused: &Refused| refused.within.as_ref().map_or(0.0, |within| within.iops);
    refused.sort_by(|a, b| near(b).total_cmp(&near(a)));
    let not_sold = not_sold.into_iter().map(|part| part.id.clone()).collect();
    Found { candidates, refused, not_sold }
}

/// The results of `one` for all items, in their order. Many slow drives take longer than few fast
/// ones, so each thread takes the next.
pub(crate) fn on_all_cores<T: Sync, R: Send>(of: &[T], one: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let mut found: Vec<(usize, R)> = std::thread::scope(|scope| {
        let work = || {
            let (one, next) = (&one, &next);
            scope.spawn(move || {
                let take =
                    || Some(next.fetch_add(1, Ordering::Relaxed)).filter(|at| *at < of.len());
                std::iter::from_fn(take).map(|at| (at, one(&of[at]))).collect::<Vec<_>>()
            })
        };
        let all: Vec<_> = (0..threads.min(of.len())).map(|_| work()).collect();
        all.into_iter().flat_map(|thread| thread.join().expect("a search does not panic")).collect()
    });
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, found)| found).collect()
}

/// A system that reaches the goal.
struct Reached {
    candidate: Candidate,
    bill: Bill,
    answer: Answer,
}

/// Returns the systems with the ranges that are asked for: most are only counted.
fn ranged(goal: &Goal, mut reached: Vec<Reached>) -> Vec<Candidate> {
    if !goal.confident {
        let first = &reached[..goal.ranges.min(reached.len())];
        let drawn = |one: &Reached| one.answer.drawn(&one.bill, goal.draws).ok()?.range;
        let ranges = on_all_cores(first, drawn);
        reached.iter_mut().zip(ranges).for_each(|(one, range)| one.candidate.range = range);
    }
    reached.into_iter().map(|one| one.candidate).collect()
}

/// One kind of drive, its adapter, and the bill under construction.
struct Kit<'a> {
    goal: &'a Goal,
    drive: &'a Part,
    adapter: Option<&'a Part>,
    /// Bill with the server, to be solved.
    bill: Bill,
    /// Bill without the server, to be priced: the server is given, and only its contents are
    /// bought.
    goods: Bill,
    /// Drives and cards of the bills that were solved and miss the goal.
    missed: Vec<(u32, u32)>,
}

impl<'a> Kit<'a> {
    fn new(goal: &'a Goal, catalogue: &'a Catalogue, drive: &'a Part) -> Result<Kit<'a>, Refused> {
        let goods = Bill {
            setup: crate::bill::Setup::default(),
            name: format!("a search for {}", drive.id),
            server: None,
            software: None,
            work: goal.work,
            groups: Vec::new(),
            catalogue: catalogue.clone(),
            extras: Vec::new(),
        };
        let bill =
            Bill { server: goal.server.clone(), software: goal.software.clone(), ..goods.clone() };
        let mut kit = Kit { goal, drive, adapter: None, bill, goods, missed: Vec::new() };
        kit.adapter = match (drive.interface.as_str(), &goal.adapter) {
            ("sata" | "sas", Some(adapter)) => Some(&catalogue.parts[adapter]),
            (interface @ ("sata" | "sas"), None) => {
                let reason = format!("{interface} drives hang on an adapter");
                return Err(kit.refuse(reason, "--adapter PART", None));
            }
            _ => None,
        };
        Ok(kit)
    }

    /// Returns the smallest bill that reaches the goal: the minimum number of drives, on the
    /// minimum number of cards.
    fn candidate(&mut self) -> Result<Reached, Refused> {
        // A lower bound: what one does with nothing around it, by the kindest correction.
        let each = self.alone()? * largest_middle();
        let least = (self.goal.iops * REACHED / each).ceil().max(1.0);
        if least > f64::from(DRIVES_MAX.min(DEVICES_MAX)) {
            let rated = (self.goal.iops / each).ceil();
            let reason = format!("{rated:.0} drives by their rating: more than one server");
            let relax = "several systems: --compare BILL.toml BILL.toml --goal RATE".to_owned();
            let within = self.within(DRIVES_MAX, self.cards_for(DRIVES_MAX));
            return Err(self.refuse(reason, &relax, within));
        }
        let least = least as u32;
        let (mut drives, mut cards) = (least, self.cards_for(least));
        for _ in 0..ROUNDS {
            let found = self.solve(drives, cards)?;
            if self.reaches(&found) {
                return self.affordable(least, (drives, cards), found);
            }
            self.missed.push((drives, cards));
            let limit = limit(&found);
            match limit {
                "processor" | "fabric" => {
                    let reason = format!(
                        "the {limit} allows at most {} IOPS",
                        block::Rate(self.counted(&found))
                    );
                    let relax = match limit {
                        "processor" => "a server of more or quicker cores, or quicker software",
                        _ => "a server of more bandwidth",
                    };
                    let (iops, kind) = (self.counted(&found), found.uncorrected.kind);
                    let within = Within { drives, cards, iops, kind };
                    return Err(self.refuse(reason, relax, Some(within)));
                }
                "adapters" | "slots" if self.adapter.is_some() && cards < drives => cards += 1,
                _ => {
                    let more = (f64::from(drives) * (self.goal.iops / self.counted(&found))).ceil();
                    drives = (more as u32).max(drives + 1).min(DRIVES_MAX + 1);
                    cards = cards.max(self.cards_for(drives));
                }
            }
        }
        let within = self.within(drives, cards);
        Err(self.refuse(format!("not reached with {drives} drives"), "a lower goal", within))
    }

    /// Solves a bill, if it can be built.
    fn solve(&mut self, drives: u32, cards: u32) -> Result<Answer, Refused> {
        self.fill(drives, cards);
        if let Err((_, reason)) = self.bill.check() {
            let within = self.within(drives, cards);
            return Err(self.refuse(reason, "a server or an adapter that holds more", within));
        }
        self.answer().map_err(|error| self.unknown(error))
    }

    /// The answer of the bill. Draws of figures change its range only.
    fn answer(&self) -> Result<Answer, PlanError> {
        let (draws, seed) = self.goal.draws;
        match self.goal.confident {
            true => Answer::of(&self.bill, draws, seed),
            false => Answer::of_exact(&self.bill),
        }
    }

    /// The rate that counts: the middle, or the lower end of the range for the confident.
    fn counted(&self, found: &Answer) -> f64 {
        if self.goal.confident { found.confident_iops() } else { found.iops }
    }

    fn reaches(&self, found: &Answer) -> bool {
        self.counted(found) >= self.goal.iops * REACHED
    }

    /// Removes parts that the goal does not need: drives and cards that are left, and their answer.
    fn fewest(
        &mut self,
        least: u32,
        (mut drives, mut cards): (u32, u32),
        mut found: Answer,
    ) -> (u32, u32, Answer) {
        loop {
            let fewer: &[(u32, u32)] = match self.adapter {
                Some(_) => &[(drives - 1, cards), (drives, cards - 1)],
                None => &[(drives - 1, cards - 1)],
            };
            let fits = |(drives, cards): &(u32, u32)| {
                *drives >= least
                    && (self.cards_for(*drives)..=*drives).contains(cards)
                    && !self.missed.contains(&(*drives, *cards))
            };
            let fewer: Vec<(u32, u32)> = fewer.iter().copied().filter(fits).collect();
            let smaller = fewer.into_iter().find_map(|(drives, cards)| {
                let found = self.solve(drives, cards).ok()?;
                let reaches = self.reaches(&found);
                if !reaches {
                    self.missed.push((drives, cards));
                }
                reaches.then_some((drives, cards, found))
            });
            let Some(smaller) = smaller else { return (drives, cards, found) };
            (drives, cards, found) = smaller;
        }
    }

    /// Checks the price and power of the fewest parts.
    fn affordable(
        &mut self,
        least: u32,
        parts: (u32, u32),
        found: Answer,
    ) -> Result<Reached, Refused> {
        let (drives, cards, found) = self.fewest(least, parts, found);
        self.fill(drives, cards);
        let cost = cost(&self.goods);
        for (what, sum, most) in [
            ("price", &cost.price, self.goal.price_max),
            ("power", &cost.power, self.goal.power_max),
        ] {
            let (reason, relax) = match (sum.total(), most) {
                (Some(total), Some(most)) if total > most => {
                    let reason = format!("{what} {total:.0} is above {most:.0}");
                    (reason, format!("--{what}-max {}", total.ceil()))
                }
                // A limit can only be checked with known figures.
                (None, Some(_)) => {
                    let reason = format!("its {what} is not known, so no limit can be kept");
                    (reason, format!("--parts FILE with the {what} of {}", sum.unknown.join(", ")))
                }
                _ => continue,
            };
            let within = self.within(drives, cards);
            return Err(self.refuse(reason, &relax, within));
        }
        let candidate = Candidate {
            drive: self.drive.id.clone(),
            drives,
            cards,
            iops: found.iops,
            range: found.range.filter(|_| self.goal.confident),
            kind: found.uncorrected.kind,
            figures: found.uncorrected.inputs.len(),
            recalled: recalled(&found.uncorrected.inputs),
            limit: limit(&found).to_owned(),
            price: cost.price.total(),
            price_kind: cost.price.kind,
            prices: cost.tags(),
            break_even: None,
            power: cost.power.total(),
            power_kind: cost.power.kind,
            pareto: false,
        };
        Ok(Reached { candidate, bill: self.bill.clone(), answer: found })
    }

    /// Returns the IOPS of one drive alone with this workload.
    fn alone(&mut self) -> Result<f64, Refused> {
        self.goods.groups = vec![Group::of_drives(None, 1, &self.drive.id, 1)];
        let found = predict(&self.goods, &Tweak::default()).map_err(|error| self.unknown(error))?;
        Ok(found.iops)
    }

    /// Returns the maximum number of drives, and then of cards, up to these, that can be built and
    /// paid for.
    fn within(&mut self, drives: u32, cards: u32) -> Option<Within> {
        for drives in (1..=drives).rev() {
            for cards in (self.cards_for(drives)..=cards.min(drives)).rev() {
                self.fill(drives, cards);
                if self.bill.check().is_err() || !self.is_paid() {
                    continue;
                }
                let found = self.answer().ok()?;
                let (iops, kind) = (self.counted(&found), found.uncorrected.kind);
                return Some(Within { drives, cards, iops, kind });
            }
        }
        None
    }

    fn is_paid(&self) -> bool {
        let cost = cost(&self.goods);
        let within = |total: Option<f64>, most: Option<f64>| match (total, most) {
            (Some(total), Some(most)) => total <= most,
            (None, Some(_)) => false,
            (_, None) => true,
        };
        within(cost.price.total(), self.goal.price_max)
            && within(cost.power.total(), self.goal.power_max)
    }

    /// Returns the minimum number of cards with a port for each drive; drives that are cards need
    /// none.
    fn cards_for(&self, drives: u32) -> u32 {
        match self.adapter {
            Some(adapter) => drives.div_ceil(adapter.value("ports").unwrap_or(1.0) as u32),
            None => drives,
        }
    }

    fn fill(&mut self, drives: u32, cards: u32) {
        let groups = match self.adapter {
            None => vec![Group::of_drives(None, drives, &self.drive.id, 1)],
            Some(adapter) => spread(&adapter.id, cards, &self.drive.id, drives),
        };
        self.goods.groups.clone_from(&groups);
        self.bill.groups = groups;
    }

    fn unknown(&self, error: PlanError) -> Refused {
        match error {
            PlanError::Part { reason, .. } => self.refuse(reason, "--parts FILE with it", None),
            other => self.refuse(other.to_string(), "other parts", None),
        }
    }

    fn refuse(&self, reason: String, relax: &str, within: Option<Within>) -> Refused {
        Refused { drive: self.drive.id.clone(), reason, relax: relax.to_owned(), within }
    }
}

/// The level of the busiest resource.
fn limit(found: &Answer) -> &'static str {
    found.uncorrected.bottleneck().map(|used| used.level.word()).unwrap_or_default()
}

/// Drives on adapters, as evenly as whole drives go.
pub fn spread(adapter: &str, cards: u32, drive: &str, drives: u32) -> Vec<Group> {
    let cards = cards.max(1);
    let (each, more) = (drives / cards, drives % cards);
    let full = (more > 0).then(|| Group::of_drives(Some(adapter), more, drive, each + 1));
    let rest = (each > 0).then(|| Group::of_drives(Some(adapter), cards - more, drive, each));
    full.into_iter().chain(rest).collect()
}

/// Sets the break-even price of drives without a known price.
fn even(candidates: &mut [Candidate], catalogue: &Catalogue) {
    let known = candidates.iter().filter_map(|candidate| candidate.price);
    let Some(cheapest) = known.min_by(f64::total_cmp) else { return };
    for candidate in candidates.iter_mut().filter(|candidate| candidate.price.is_none()) {
        let lacks = catalogue.parts[&candidate.drive].known("price").is_none();
        candidate.break_even = lacks.then(|| cheapest / f64::from(candidate.drives));
    }
}

/// Marks the Pareto-optimal candidates.
fn mark(candidates: &mut [Candidate]) {
    let worth = |c: &Candidate| {
        let unknown = f64::INFINITY;
        [c.price.unwrap_or(unknown), c.power.unwrap_or(unknown), f64::from(c.drives)]
    };
    let all: Vec<[f64; 3]> = candidates.iter().map(worth).collect();
    for (candidate, mine) in candidates.iter_mut().zip(&all) {
        let beats = |other: &[f64; 3]| {
            let pairs = || other.iter().zip(mine);
            pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
        };
        candidate.pareto = !all.iter().any(beats);
    }
}

#[cfg(test)]
mod test;
