//! From a goal to bills: how many of each drive it takes, what fits, and which bills nobody beats.

use serde::Serialize;

use crate::bill::{Bill, DEVICES_MAX, Group, Work};
use crate::catalogue::{Catalogue, Class, Kind, Part};
use crate::cost::cost;
use crate::predict::predict;
use crate::system::Tweak;

/// What is wanted, and what is given.
#[derive(Clone, Debug)]
pub struct Goal {
    /// I/Os per second.
    pub iops: f64,
    /// What they are.
    pub work: Work,
    /// The server to build in, with its slots and cores.
    pub server: Option<String>,
    /// What an I/O costs in processor time.
    pub software: Option<String>,
    /// The adapter for drives that need one.
    pub adapter: Option<String>,
    /// Most dollars for drives and adapters.
    pub price_max: Option<f64>,
    /// Most watts of drives and adapters.
    pub power_max: Option<f64>,
}

/// A bill that reaches the goal.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Id of the drive.
    pub drive: String,
    /// How many.
    pub drives: u32,
    /// How many adapters, or cards where the drives are cards.
    pub cards: u32,
    /// I/Os per second that it does.
    pub iops: f64,
    /// The least sure kind of the figures that these rest on.
    pub kind: Kind,
    /// What limits it.
    pub limit: String,
    /// Dollars for drives and adapters, if every price is known.
    pub price: Option<f64>,
    /// The least sure kind of the prices that are known.
    pub price_kind: Option<Kind>,
    /// What one drive may cost so that the bill costs as much as the cheapest one whose price is
    /// known; only where its own is not.
    pub break_even: Option<f64>,
    /// Watts of drives and adapters, if all are known.
    pub power: Option<f64>,
    /// The least sure kind of the powers that are known.
    pub power_kind: Option<Kind>,
    /// Whether no other candidate is at least as good in price, power and number of drives, and
    /// better in one.
    pub pareto: bool,
}

/// What a search found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Found {
    /// Bills that reach the goal, by price, then by number of drives.
    pub candidates: Vec<Candidate>,
    /// Drives that do not, with the reason.
    pub refused: Vec<(String, String)>,
}

/// Most drives of a candidate that is solved: larger systems are more than one server.
const DRIVES_MAX: u32 = 256;
/// Rounds of adding drives until the goal is reached.
const ROUNDS: u32 = 12;

/// Looks through all drives of the catalogue.
pub fn search(goal: &Goal, catalogue: &Catalogue) -> Found {
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive);
    let (mut candidates, mut refused) = (Vec::new(), Vec::new());
    for drive in drives {
        match candidate(goal, catalogue, drive) {
            Ok(found) => candidates.push(found),
            Err(reason) => refused.push((drive.id.clone(), reason)),
        }
    }
    even(&mut candidates, catalogue);
    mark(&mut candidates);
    let price = |c: &Candidate| c.price.unwrap_or(f64::INFINITY);
    candidates.sort_by(|a, b| {
        price(a).total_cmp(&price(b)).then(a.drives.cmp(&b.drives)).then(a.drive.cmp(&b.drive))
    });
    Found { candidates, refused }
}

/// The smallest bill of one kind of drive that reaches the goal; the error is why there is none.
fn candidate(goal: &Goal, catalogue: &Catalogue, drive: &Part) -> Result<Candidate, String> {
    let each = alone(goal, catalogue, drive)?;
    let adapter = match (drive.interface.as_str(), &goal.adapter) {
        ("pcie", _) => None,
        (_, Some(adapter)) => Some(&catalogue.parts[adapter]),
        (interface, None) => return Err(format!("{interface}: name an adapter for it")),
    };
    let mut drives = (goal.iops / each).ceil().max(1.0);
    let mut cards = 1;
    for _ in 0..ROUNDS {
        if drives > f64::from(DRIVES_MAX.min(DEVICES_MAX)) {
            return Err(format!("{drives:.0} drives by their rating: more than one server"));
        }
        let number = drives as u32;
        cards = cards.max(match adapter {
            Some(adapter) => number.div_ceil(adapter.value("ports").unwrap_or(1.0) as u32),
            None => number,
        });
        let bill = bill(goal, catalogue, drive, adapter, number, cards);
        bill.check().map_err(|(_, reason)| reason)?;
        let found = predict(&bill, &Tweak::default()).map_err(|error| error.to_string())?;
        let limit = found.bottleneck().map(|u| u.level.word()).unwrap_or_default();
        // Queues cost a little even of what is not the limit.
        if found.iops >= goal.iops * 0.999 {
            // The server is given, so that only what goes into it is bought.
            let cost = cost(&Bill { server: None, ..bill });
            within("price", cost.price.total(), goal.price_max)?;
            within("power", cost.power.total(), goal.power_max)?;
            return Ok(Candidate {
                drive: drive.id.clone(),
                drives: number,
                cards,
                iops: found.iops,
                kind: found.kind,
                limit: limit.to_owned(),
                price: cost.price.total(),
                price_kind: cost.price.kind,
                break_even: None,
                power: cost.power.total(),
                power_kind: cost.power.kind,
                pareto: false,
            });
        }
        match limit {
            "processor" | "fabric" => {
                let most = block::Rate(found.iops);
                return Err(format!("the {limit} ends at {most} IOPS"));
            }
            "adapters" | "slots" if adapter.is_some() => cards += 1,
            _ => drives = (drives * (goal.iops / found.iops)).ceil().max(drives + 1.0),
        }
    }
    Err(format!("not reached with {drives:.0} drives"))
}

/// A limit can only be kept by what is known.
fn within(what: &str, total: Option<f64>, most: Option<f64>) -> Result<(), String> {
    match (total, most) {
        (Some(total), Some(most)) if total > most => {
            Err(format!("{what} {total:.0} is above {most:.0}"))
        }
        (None, Some(_)) => Err(format!("its {what} is not known, so no limit can be kept")),
        _ => Ok(()),
    }
}

/// What one drive does in this work with nothing around it; the error says what is not known.
fn alone(goal: &Goal, catalogue: &Catalogue, drive: &Part) -> Result<f64, String> {
    let bare = Goal { server: None, software: None, ..goal.clone() };
    let bill = bill(&bare, catalogue, drive, None, 1, 1);
    let found = predict(&bill, &Tweak::default()).map_err(|error| match error {
        crate::system::PlanError::Part { reason, .. } => reason,
        other => other.to_string(),
    })?;
    Ok(found.iops)
}

/// `drives` of a kind, spread evenly over `cards` adapters.
fn bill(
    goal: &Goal,
    catalogue: &Catalogue,
    drive: &Part,
    adapter: Option<&Part>,
    drives: u32,
    cards: u32,
) -> Bill {
    let groups = match adapter {
        None => vec![Group::of_drives(None, drives, &drive.id, 1)],
        Some(adapter) => spread(&adapter.id, cards, &drive.id, drives),
    };
    Bill {
        name: format!("{drives} x {}", drive.id),
        server: goal.server.clone(),
        software: goal.software.clone(),
        work: goal.work,
        groups,
        catalogue: catalogue.clone(),
        extras: Vec::new(),
    }
}

/// Drives on adapters, as evenly as whole drives go.
pub fn spread(adapter: &str, cards: u32, drive: &str, drives: u32) -> Vec<Group> {
    let cards = cards.max(1);
    let (each, more) = (drives / cards, drives % cards);
    let full = (more > 0).then(|| Group::of_drives(Some(adapter), more, drive, each + 1));
    let rest = (each > 0).then(|| Group::of_drives(Some(adapter), cards - more, drive, each));
    full.into_iter().chain(rest).collect()
}

/// What drives of unknown price may cost.
fn even(candidates: &mut [Candidate], catalogue: &Catalogue) {
    let known = candidates.iter().filter_map(|candidate| candidate.price);
    let Some(cheapest) = known.min_by(f64::total_cmp) else { return };
    for candidate in candidates.iter_mut().filter(|candidate| candidate.price.is_none()) {
        let lacks = catalogue.parts[&candidate.drive].known("price").is_none();
        candidate.break_even = lacks.then(|| cheapest / f64::from(candidate.drives));
    }
}

/// Marks what no other candidate beats.
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
mod test {
    use super::*;

    fn goal(read: f64) -> Goal {
        Goal {
            iops: 1e6,
            work: Work { size_bytes: 4096.0, read_share: read, outstanding: 32 },
            server: None,
            software: None,
            adapter: Some("lsi-9210-8i".to_owned()),
            price_max: None,
            power_max: None,
        }
    }

    #[test]
    fn a_million_reads() {
        let catalogue = Catalogue::shipped();
        let found = search(&goal(1.0), &catalogue);
        let of = |drive: &str| found.candidates.iter().find(|c| c.drive == drive);
        // Ratings alone: 29 SSDs, two P4800X, one P5800X, six of the cards of 1.2 TB.
        assert_eq!(of("x25-m").unwrap().drives, 29);
        assert_eq!(of("p4800x-375").unwrap().drives, 2);
        assert_eq!(of("p5800x-800").unwrap().drives, 1);
        assert_eq!(of("iodrive-duo-1200-mlc").unwrap().drives, 6);
        assert_eq!(of("marvell-88nv9145").unwrap().drives, 11);
        assert_eq!(of("p4800x-375").unwrap().price, Some(3040.0));
        let reason = |drive: &str| &found.refused.iter().find(|(id, _)| id == drive).unwrap().1;
        assert!(reason("sas-15k-73").contains("4000 drives"), "{}", reason("sas-15k-73"));
        assert!(reason("d5-p5316").contains("read_iops"), "{}", reason("d5-p5316"));
        // Where no price is known, the one that would match the cheapest is told.
        let pm1743 = of("pm1743").unwrap();
        let cheapest = found.candidates.iter().filter_map(|c| c.price).min_by(f64::total_cmp);
        assert_eq!((pm1743.price, pm1743.break_even), (None, cheapest));
        // Everything that the list calls unbeaten is.
        assert!(found.candidates.iter().any(|c| c.pareto));
        assert!(found.candidates.iter().any(|c| !c.pareto));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let catalogue = Catalogue::shipped();
        let small = Goal { server: Some("sr2625urlx".to_owned()), ..goal(1.0) };
        let found = search(&small, &catalogue);
        let refused = |drive: &str| {
            found.refused.iter().find(|(id, _)| id == drive).map(|(_, reason)| reason.as_str())
        };
        assert!(refused("iodrive-duo-1200-mlc").unwrap().contains("slots"));
        assert!(refused("marvell-88nv9145").unwrap().contains("slots"));
        assert!(found.candidates.iter().any(|c| c.drive == "x25-m" && c.cards <= 5));
        let busy = Goal { software: Some("windows-lsi-iometer".to_owned()), iops: 2e6, ..small };
        let found = search(&busy, &catalogue);
        assert!(found.candidates.is_empty(), "{:?}", found.candidates);
        let limit = |(_, reason): &&(String, String)| reason.contains("processor ends at");
        assert!(found.refused.iter().any(|refused| limit(&refused)), "{:?}", found.refused);
    }

    #[test]
    fn limits_of_money_and_power_are_kept() {
        let catalogue = Catalogue::shipped();
        let cheap = Goal { price_max: Some(10_000.0), power_max: Some(50.0), ..goal(1.0) };
        let found = search(&cheap, &catalogue);
        let drives: Vec<&str> = found.candidates.iter().map(|c| c.drive.as_str()).collect();
        assert_eq!(drives, ["p4800x-375"]);
        let reason = |drive: &str| &found.refused.iter().find(|(id, _)| id == drive).unwrap().1;
        assert!(reason("x25-m").starts_with("price 13"), "{}", reason("x25-m"));
        assert!(reason("pm1743").contains("price is not known"), "{}", reason("pm1743"));
    }

    #[test]
    fn spreads_evenly() {
        let counts: Vec<(u32, u32)> =
            spread("a", 5, "d", 28).iter().map(|group| (group.count, group.drives)).collect();
        assert_eq!(counts, [(3, 6), (2, 5)]);
        assert_eq!(spread("a", 4, "d", 4).len(), 1);
        assert_eq!(spread("a", 4, "d", 2).len(), 1);
    }
}
