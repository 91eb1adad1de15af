//! Sizing: hosts and drives for a rate, a response time and a capacity, with growth over years and
//! with failed drives or hosts.
//!
//! All hosts are equal. For each drive the search takes the fewest hosts that reach the goal, and
//! then the fewest drives in each. Every candidate is judged by its [`Answer`]; this module does no
//! queueing arithmetic.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use serde::Serialize;

use crate::answer::{Answer, Range};
use crate::bill::{Bill, DEVICES_MAX, Down, Group, HOSTS_MAX, Raid, Setup, Work};
use crate::cost::cost;
use crate::search::{on_all_cores, spread};
use crate::system::{PlanError, recalled};
use catalogue::{Catalogue, Class, Kind, Part, PriceTag};
use tried::{Solved, Tried, at_rate, p99};

mod lack;
mod tried;

/// Requirements.
#[derive(Clone, Debug)]
pub struct Need {
    /// I/Os per second today.
    pub iops: f64,
    /// Whether the lower end of a system's range reaches the goal, not only its middle.
    pub confident: bool,
    /// Draws of a bill's figures, and their seed.
    pub draws: (u32, u64),
    /// Number of systems, the first ones, whose range is drawn. A search for the confident draws
    /// all ranges.
    pub ranges: usize,
    /// The I/Os. `outstanding` is the most on each drive.
    pub work: Work,
    /// Maximum mean response time at that rate, in seconds.
    pub latency_s: Option<f64>,
    /// Maximum 99th percentile at that rate, in seconds.
    pub p99_s: Option<f64>,
    /// Capacity for data today in bytes, after spares, parity and copies.
    pub capacity: Option<f64>,
    /// Annual growth of rate and capacity, as a share.
    pub growth: f64,
    /// Years of growth to plan for.
    pub years: f64,
    /// RAID level of a host's drives.
    pub raid: Raid,
    /// Spares, sets, copies, and the failures at which the goal must still be reached.
    pub setup: Setup,
    /// Maximum number of hosts.
    pub hosts_max: u32,
    /// Maximum number of drives of a host.
    pub drives_max: u32,
    /// Server part of each host, with its lanes, bays and cores.
    pub server: Option<String>,
    /// Software stack, which sets the CPU time of an I/O.
    pub software: Option<String>,
    /// Adapter for drives that need one.
    pub adapter: Option<String>,
    /// Ports of each host, with their link.
    pub ports: Option<(String, u32)>,
    /// Maximum price of all drives and adapters in dollars.
    pub price_max: Option<f64>,
    /// Maximum power of all drives and adapters in watts.
    pub power_max: Option<f64>,
    /// Maximum height of the hosts in rack units.
    pub height_max: Option<f64>,
    /// Year in which drives must be sold; `None` for any.
    pub year: Option<u32>,
    /// Interface: `sata`, `sas` or `pcie`; `None` for any.
    pub interface: Option<String>,
}

impl Need {
    /// Creates requirements of a rate only: one host, drives of any year.
    pub fn rate(iops: f64, work: Work) -> Need {
        Need {
            iops,
            confident: false,
            draws: (1000, 1),
            ranges: usize::MAX,
            work,
            latency_s: None,
            p99_s: None,
            capacity: None,
            growth: 0.0,
            years: 0.0,
            raid: Raid::None,
            setup: Setup::default(),
            hosts_max: 1,
            drives_max: 64,
            server: None,
            software: None,
            adapter: None,
            ports: None,
            price_max: None,
            power_max: None,
            height_max: None,
            year: None,
            interface: None,
        }
    }

    /// Returns the growth factor of today's rate and capacity.
    pub fn grown(&self) -> f64 {
        (1.0 + self.growth).powf(self.years)
    }
}

/// A system that meets the requirements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sized {
    /// Id of the drive.
    pub drive: String,
    /// Number of hosts.
    pub hosts: u32,
    /// Number of drives of each host, spares included.
    pub drives: u32,
    /// Number of adapters of each host, or of its drives if they are cards.
    pub cards: u32,
    /// Maximum I/Os per second.
    pub iops: f64,
    /// Range of the rate; `None` where nobody published a result of such a system, and beyond
    /// [`Need::ranges`].
    pub range: Option<Range>,
    /// Answer while the allowed parts are down; `None` if nothing may.
    pub iops_down: Option<f64>,
    /// Mean response time at the required rate, in seconds; during failures if they are allowed.
    pub latency_s: f64,
    /// 99th percentile by published runs, in seconds: nine of ten are below it.
    pub p99_s: Option<f64>,
    /// Kind of the percentile.
    pub p99_s_kind: Kind,
    /// Capacity for data in bytes; during a host failure if that is allowed.
    pub usable_bytes: Option<f64>,
    /// The requirement that decided the size: the level that limits the rate, "capacity", "latency"
    /// or "p99".
    pub limit: String,
    /// Least certain kind of the figures.
    pub kind: Kind,
    /// Number of figures in the answer.
    pub figures: usize,
    /// Number of figures that are only recalled.
    pub recalled: usize,
    /// Dollars of drives and adapters, if all are known.
    pub price: Option<f64>,
    /// Least certain kind of the known prices.
    pub price_kind: Option<Kind>,
    /// Prices of its parts, with their dates and origins.
    pub prices: Vec<PriceTag>,
    /// Power of drives and adapters in watts, if all are known.
    pub power: Option<f64>,
    /// Least certain kind of the known powers.
    pub power_kind: Option<Kind>,
    /// Height of the hosts in rack units, if known.
    pub height: Option<f64>,
    /// True if no other system is as good in hosts, drives, price and power, and better in one.
    pub pareto: bool,
}

/// A drive that does not meet the requirements.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Short {
    /// Id of the drive.
    pub drive: String,
    /// Reason.
    pub reason: String,
}

/// Results of the sizing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizing {
    /// Required IOPS, growth included.
    pub iops: f64,
    /// Required capacity in bytes, growth included.
    pub capacity: Option<f64>,
    /// Kind of the requirements, which are arithmetic.
    pub kind: Kind,
    /// Systems that do it: by price, then hosts, then drives, then power.
    pub found: Vec<Sized>,
    /// Drives that do not meet them.
    pub short: Vec<Short>,
    /// Drives that were not sold in the year.
    pub not_sold: Vec<String>,
}

/// Share of a goal that counts as reached: queues cost a little even at resources that are no
/// bottleneck.
const REACHED: f64 = 0.999;
/// Maximum number of adapters to add one by one while adapters are the bottleneck.
const CARDS_MORE: u32 = 16;

/// Searches all drives of the catalogue.
pub fn size(need: &Need, catalogue: &Catalogue) -> Sizing {
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive);
    let wanted = |part: &&Part| need.interface.as_ref().is_none_or(|i| *i == part.interface);
    let (iops, capacity) = (need.iops * need.grown(), need.capacity.map(|c| c * need.grown()));
    let sold = |part: &&Part| need.year.is_none_or(|year| part.sold_in(year));
    let (sold, not_sold): (Vec<&Part>, Vec<&Part>) =
        drives.map(|part| &**part).filter(wanted).partition(sold);
    let one = |drive: &&Part| {
        let solved = RefCell::default();
        let sized = Kit { need, drive, catalogue, iops, capacity, solved }.fewest();
        sized.map_err(|reason| Short { drive: drive.id.clone(), reason })
    };
    let (mut met, mut short) = (Vec::new(), Vec::new());
    for one in on_all_cores(&sold, one) {
        match one {
            Ok(one) => met.push(one),
            Err(reason) => short.push(reason),
        }
    }
    let not_sold = not_sold.into_iter().map(|part| part.id.clone()).collect();
    let (price, power) = (
        |sized: &Sized| sized.price.unwrap_or(f64::INFINITY),
        |sized: &Sized| sized.power.unwrap_or(f64::INFINITY),
    );
    met.sort_by(|Met { sized: a, .. }, Met { sized: b, .. }| {
        let by_price = price(a).total_cmp(&price(b));
        let by_count = by_price.then((a.hosts, a.drives).cmp(&(b.hosts, b.drives)));
        by_count.then(power(a).total_cmp(&power(b))).then_with(|| a.drive.cmp(&b.drive))
    });
    let mut found = ranged(need, met);
    mark(&mut found);
    Sizing { iops, capacity, kind: Kind::Derived, found, short, not_sold }
}

/// A system that meets the requirements, with its bill and answer.
struct Met {
    sized: Sized,
    bill: Bill,
    whole: Answer,
}

/// Returns the systems with the ranges that are asked for: most are only counted.
fn ranged(need: &Need, mut met: Vec<Met>) -> Vec<Sized> {
    if !need.confident {
        let first = &met[..need.ranges.min(met.len())];
        let drawn = |one: &Met| one.whole.drawn(&one.bill, need.draws).ok()?.range;
        let ranges = on_all_cores(first, drawn);
        met.iter_mut().zip(ranges).for_each(|(one, range)| one.sized.range = range);
    }
    met.into_iter().map(|one| one.sized).collect()
}

/// One kind of drive, with the requirements.
struct Kit<'a> {
    need: &'a Need,
    drive: &'a Part,
    catalogue: &'a Catalogue,
    iops: f64,
    capacity: Option<f64>,
    /// Systems that were predicted, by hosts and drives: the searches meet at some of them.
    solved: RefCell<Solved>,
}

impl Kit<'_> {
    /// Returns the minimum number of hosts, and then the minimum number of drives in each. The
    /// error is the reason.
    fn fewest(&self) -> Result<Met, String> {
        if self.hangs() && self.need.adapter.is_none() {
            return Err(format!("{} drives hang on an adapter: --adapter", self.drive.interface));
        }
        if self.capacity.is_some() && self.drive.value("capacity").is_none() {
            return Err("its capacity is not known: --parts FILE with it".to_owned());
        }
        let Setup { replicas, down, .. } = &self.need.setup;
        if down.hosts > 0 && down.hosts >= *replicas {
            let (copies, may) = (replicas, replicas - 1);
            return Err(format!(
                "{} hosts down lose data: of {copies} copies {may} may fail; --replicas {}",
                down.hosts,
                down.hosts + 1
            ));
        }
        let (least, most) = (*replicas, self.need.hosts_max.min(HOSTS_MAX));
        if most < least {
            return Err(format!("{least} copies live on as many hosts: {least} hosts would do"));
        }
        let full = self.most_drives(least)?;
        // More hosts do more: double them until they suffice, then bisect.
        let (mut low, mut high) = (least - 1, least);
        loop {
            let tried = self.tried(high, full)?;
            if self.suffices(&tried) {
                break;
            }
            if high == most {
                let Some(lacks) = self.lacks(&tried) else { break };
                let more = match lacks.what {
                    "capacity" => self.hosts_for_capacity(high, full),
                    _ => None,
                };
                let more =
                    more.map_or_else(String::new, |hosts| format!("; {hosts} hosts would do"));
                return Err(format!("{high} hosts of {full} drives: {}{more}", lacks.reason));
            }
            (low, high) = (high, high.saturating_mul(2).min(most));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let enough = self.suffices(&*self.tried(middle, full)?);
            if enough { high = middle } else { low = middle }
        }
        let hosts = high;
        let (mut low, mut high) = (self.least_drives() - 1, full);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            let enough = self.tried(hosts, middle).is_ok_and(|tried| self.suffices(&tried));
            if enough { high = middle } else { low = middle }
        }
        let mut met = self.paid(hosts, high, &*self.tried(hosts, high)?)?;
        if let Some(what) = self.decided(hosts, high, full) {
            met.sized.limit = what.to_owned();
        }
        Ok(met)
    }

    /// Returns the minimum number of hosts whose drives have the capacity, if more than `few` are
    /// needed; `None` if no number has it, or if that is not known.
    fn hosts_for_capacity(&self, few: u32, drives: u32) -> Option<u32> {
        let wanted = self.capacity?;
        let mut bill = self.bill(few, drives, self.cards_for(drives));
        bill.setup.down = self.need.setup.down;
        let mut has = |hosts| {
            bill.setup.hosts = hosts;
            bill.usable_bytes().is_some_and(|usable| usable >= wanted)
        };
        let (mut low, mut high) = (few, HOSTS_MAX);
        if !has(high) {
            return None;
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if has(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// The requirement that a system with a drive of each host less, or a host less, would miss;
    /// `None` where neither can be built.
    fn decided(&self, hosts: u32, drives: u32, full: u32) -> Option<&'static str> {
        let smaller = [(hosts, drives - 1), (hosts - 1, full)];
        let can = |(hosts, drives): &(u32, u32)| {
            *hosts >= self.need.setup.replicas && *drives >= self.least_drives()
        };
        let mut tried = smaller.into_iter().filter(can).map(|(h, d)| self.tried(h, d));
        tried.find_map(|tried| Some(self.lacks(&*tried.ok()?)?.what))
    }

    /// Returns the minimum number of drives of a host that can be built.
    fn least_drives(&self) -> u32 {
        let set = self.need.setup.width.or(self.need.raid.least()).unwrap_or(1);
        set + self.need.setup.spares
    }

    /// Returns the maximum number of drives of a host: by its lanes, bays and slots.
    fn most_drives(&self, hosts: u32) -> Result<u32, String> {
        let least = self.least_drives();
        self.buildable(hosts, least)?;
        let (mut low, mut high) = (least, self.need.drives_max.min(DEVICES_MAX).max(least) + 1);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.buildable(hosts, middle).is_ok() { low = middle } else { high = middle }
        }
        Ok(low)
    }

    fn buildable(&self, hosts: u32, drives: u32) -> Result<(), String> {
        self.bill(hosts, drives, self.cards_for(drives)).check().map_err(|(_, reason)| reason)
    }

    fn cards_for(&self, drives: u32) -> u32 {
        match self.adapter() {
            Some(part) => drives.div_ceil(part.value("ports").unwrap_or(1.0) as u32),
            None => drives,
        }
    }

    /// Whether the drive needs an adapter. Cards and volumes of clouds need none.
    fn hangs(&self) -> bool {
        ["sata", "sas"].contains(&self.drive.interface.as_str())
    }

    fn adapter(&self) -> Option<&Part> {
        let named = self.need.adapter.as_ref().filter(|_| self.hangs());
        named.map(|id| &*self.catalogue.parts[id])
    }

    fn bill(&self, hosts: u32, drives: u32, cards: u32) -> Bill {
        let mut groups = match self.adapter() {
            Some(adapter) => spread(&adapter.id, cards, &self.drive.id, drives),
            None => vec![Group::of_drives(None, drives, &self.drive.id, 1)],
        };
        groups.iter_mut().for_each(|group| group.raid = self.need.raid);
        if let Some((link, ports)) = &self.need.ports {
            let mut front = Group::of_drives(None, 1, &self.drive.id, 1);
            (front.drive, front.link, front.ports) = (None, Some(link.clone()), *ports);
            front.protocol = Some("nvme-tcp".to_owned());
            groups.push(front);
        }
        Bill {
            name: format!("{hosts} hosts of {drives} x {}", self.drive.id),
            server: self.need.server.clone(),
            software: self.need.software.clone(),
            work: self.need.work,
            groups,
            catalogue: self.catalogue.clone(),
            setup: Setup { hosts, down: Down::default(), ..self.need.setup.clone() },
            extras: Vec::new(),
        }
    }

    /// Predicts `hosts` hosts of `drives` drives, once.
    fn tried(&self, hosts: u32, drives: u32) -> Result<Rc<Tried>, String> {
        if let Some(known) = self.solved.borrow().get(&(hosts, drives)) {
            return known.clone();
        }
        let found = self.solve(hosts, drives).map(Rc::new);
        self.solved.borrow_mut().insert((hosts, drives), found.clone());
        found
    }

    /// Predicts `hosts` hosts of `drives` drives, with more adapters while adapters are the
    /// bottleneck.
    fn solve(&self, hosts: u32, drives: u32) -> Result<Tried, String> {
        let mut cards = self.cards_for(drives);
        let mut bill = self.bill(hosts, drives, cards);
        bill.check().map_err(|(_, reason)| reason)?;
        let mut whole = self.answer(&bill).map_err(words)?;
        for _ in 0..CARDS_MORE {
            let limit = limit(&whole);
            let enough = self.adapter().is_none() || self.counted(&whole) >= self.iops;
            if enough || cards >= drives || !["adapters", "slots"].contains(&limit) {
                break;
            }
            let more = self.bill(hosts, drives, cards + 1);
            if more.check().is_err() {
                break;
            }
            (cards, bill) = (cards + 1, more);
            whole = self.answer(&bill).map_err(words)?;
        }
        let mut broken = bill.clone();
        broken.setup.down = self.need.setup.down;
        let down = match self.need.setup.down == Down::default() {
            true => None,
            false => {
                broken.check().map_err(|(_, reason)| reason)?;
                Some(self.answer(&broken).map_err(words)?)
            }
        };
        let reaches = self.counted(down.as_ref().unwrap_or(&whole)) >= self.iops * REACHED;
        let (latency_s, usable) = (OnceCell::new(), broken.usable_bytes());
        Ok(Tried { bill, cards, whole, down, broken, reaches, latency_s, usable })
    }

    /// Mean response time in seconds at the required rate, of a system that reaches it.
    fn latency_s(&self, tried: &Tried) -> Result<f64, String> {
        let find = || at_rate(&tried.broken, self.iops * REACHED, tried.least()).map_err(words);
        tried.latency_s.get_or_init(find).clone()
    }

    /// The answer of a bill. Draws of figures change its range only.
    fn answer(&self, bill: &Bill) -> Result<Answer, PlanError> {
        let (draws, seed) = self.need.draws;
        match self.need.confident {
            true => Answer::of(bill, draws, seed),
            false => Answer::of_exact(bill),
        }
    }

    /// The rate that counts: the middle, or the lower end of the range for the confident.
    fn counted(&self, found: &Answer) -> f64 {
        if self.need.confident { found.confident_iops() } else { found.iops }
    }

    /// Checks the cost against the limits.
    fn paid(&self, hosts: u32, drives: u32, tried: &Tried) -> Result<Met, String> {
        let Tried { bill, cards, whole, down, usable, .. } = tried;
        let mut goods = bill.clone();
        goods.server = None;
        let each = cost(&goods);
        let many = f64::from(hosts);
        let (price, power) = (each.price.total(), each.power.total());
        let (price, power) = (price.map(|p| p * many), power.map(|p| p * many));
        let height = bill.server.as_ref().and_then(|id| bill.catalogue.parts[id].value("height"));
        let height = height.map(|units| units * many);
        for (what, is, most) in [
            ("price", price, self.need.price_max),
            ("power", power, self.need.power_max),
            ("height", height, self.need.height_max),
        ] {
            match (is, most) {
                (Some(is), Some(most)) if is > most => {
                    return Err(format!("{what} {is:.0} is above {most:.0}"));
                }
                (None, Some(_)) => {
                    return Err(format!("its {what} is not known, so no limit can be kept"));
                }
                _ => {}
            }
        }
        let latency_s = self.latency_s(tried)?;
        let sized = Sized {
            drive: self.drive.id.clone(),
            hosts,
            drives,
            cards: *cards,
            iops: whole.iops,
            range: whole.range.filter(|_| self.need.confident),
            iops_down: down.as_ref().map(|down| down.iops),
            latency_s,
            p99_s: p99(latency_s),
            p99_s_kind: Kind::Guess,
            usable_bytes: *usable,
            limit: limit(whole).to_owned(),
            kind: whole.uncorrected.kind,
            figures: whole.uncorrected.inputs.len(),
            recalled: recalled(&whole.uncorrected.inputs),
            price,
            price_kind: each.price.kind,
            prices: each.tags(),
            power,
            power_kind: each.power.kind,
            height,
            pareto: false,
        };
        Ok(Met { sized, bill: bill.clone(), whole: whole.clone() })
    }
}

/// The reason of an error, without the line of a file that nobody wrote.
fn words(error: PlanError) -> String {
    match error {
        PlanError::Part { reason, .. } => reason,
        other => other.to_string(),
    }
}

/// The level of the busiest resource.
fn limit(found: &Answer) -> &'static str {
    found.uncorrected.bottleneck().map(|used| used.level.word()).unwrap_or_default()
}

/// Marks the Pareto-optimal systems.
fn mark(found: &mut [Sized]) {
    let worth = |s: &Sized| {
        let unknown = f64::INFINITY;
        let drives = f64::from(s.hosts) * f64::from(s.drives);
        [f64::from(s.hosts), drives, s.price.unwrap_or(unknown), s.power.unwrap_or(unknown)]
    };
    let all: Vec<[f64; 4]> = found.iter().map(worth).collect();
    for (sized, mine) in found.iter_mut().zip(&all) {
        let beats = |other: &[f64; 4]| {
            let pairs = || other.iter().zip(mine);
            pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
        };
        sized.pareto = !all.iter().any(beats);
    }
}

#[cfg(test)]
mod test;
