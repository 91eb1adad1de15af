use std::sync::Arc;

use super::*;
use crate::evidence;

/// The answer for an array whose network alone does `iops`.
fn array(iops: f64) -> f64 {
    iops * evidence::Class::Array.middle()
}

/// Thousands of I/Os per second that an array with this answer does by its figures alone.
fn kilo(answered: f64) -> f64 {
    (answered / array(1e3)).round()
}

fn goal(read: f64) -> Goal {
    Goal {
        iops: 1e6,
        confident: false,
        ranges: usize::MAX,
        draws: (100, 1),
        work: Work { size_bytes: 4096.0, read_share: read, outstanding: 32, flush: None },
        server: None,
        software: None,
        adapter: Some("lsi-9210-8i".to_owned()),
        price_max: None,
        power_max: None,
        year: None,
        interface: None,
    }
}

#[test]
fn a_million_reads() {
    let catalogue = Catalogue::shipped();
    let found = search(&goal(1.0), &catalogue);
    let of = |drive: &str| found.candidates.iter().find(|c| c.drive == drive);
    // By ratings: 29 SSDs, two P4800X, one P5800X, six of the cards of 1.2 TB. Published arrays do
    // 0.89 of their ratings.
    assert_eq!(of("x25-m").unwrap().drives, (1e6 / array(35e3)).ceil() as u32);
    assert_eq!(of("p4800x-375").unwrap().drives, 3);
    assert_eq!(of("p5800x-800").unwrap().drives, 1);
    assert_eq!(of("iodrive-duo-1200-mlc").unwrap().drives, 7);
    assert_eq!(of("marvell-88nv9145").unwrap().drives, 13);
    assert_eq!(of("p4800x-375").unwrap().price, Some(4560.0));
    let reason = |drive: &str| &found.refused.iter().find(|one| one.drive == drive).unwrap().reason;
    assert!(reason("sas-15k-73").contains("4000 drives"), "{}", reason("sas-15k-73"));
    assert!(found.refused.iter().any(|one| one.reason.contains("read_iops of")));
    // If no price is known, the one that would match the cheapest is reported.
    let p5800x = of("p5800x-800").unwrap();
    let cheapest = found.candidates.iter().filter_map(|c| c.price).min_by(f64::total_cmp);
    assert_eq!((p5800x.price, p5800x.break_even), (None, cheapest));
    // Some candidates are Pareto-optimal, and some are not.
    assert!(found.candidates.iter().any(|c| c.pareto));
    assert!(found.candidates.iter().any(|c| !c.pareto));
}

#[test]
fn what_does_not_fit_is_refused() {
    let catalogue = Catalogue::shipped();
    let small = Goal { server: Some("sr2625urlx".to_owned()), ..goal(1.0) };
    let found = search(&small, &catalogue);
    let refused = |drive: &str| {
        found.refused.iter().find(|one| one.drive == drive).map(|one| one.reason.as_str())
    };
    assert!(refused("iodrive-duo-1200-mlc").unwrap().contains("slots"));
    assert!(refused("marvell-88nv9145").unwrap().contains("slots"));
    assert!(found.candidates.iter().any(|c| c.drive == "x25-m" && c.cards <= 5));
    let busy = Goal { software: Some("windows-lsi-iometer".to_owned()), iops: 2e6, ..small };
    let found = search(&busy, &catalogue);
    assert!(found.candidates.is_empty(), "{:?}", found.candidates);
    let limit = |one: &Refused| one.reason.contains("processor allows at most");
    assert!(found.refused.iter().any(limit), "{:?}", found.refused);
}

#[test]
fn limits_of_money_and_power_are_kept() {
    let catalogue = Catalogue::shipped();
    let cheap = Goal { price_max: Some(10_000.0), power_max: Some(60.0), ..goal(1.0) };
    let found = search(&cheap, &catalogue);
    let drives: Vec<&str> = found.candidates.iter().map(|c| c.drive.as_str()).collect();
    assert_eq!(drives, ["p4800x-375"]);
    let reason = |drive: &str| &found.refused.iter().find(|one| one.drive == drive).unwrap().reason;
    assert!(reason("x25-m").starts_with("price 15"), "{}", reason("x25-m"));
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

/// Parts with round figures: two drives on an adapter of four ports, a card, and two servers.
const ROUND: &str = r#"
[source.s]
title = "made for arithmetic"

[[part]]
id = "cheap"
name = "cheap"
class = "drive"
interface = "sata"
figures = [
  { is = "read_iops", value = 100_000, unit = "IOPS", kind = "spec", source = "s" },
  { is = "price", value = 100, unit = "USD", kind = "spec", source = "s" },
  { is = "power_active", value = 5, unit = "W", kind = "spec", source = "s" },
]

[[part]]
id = "quick"
name = "quick"
class = "drive"
interface = "sata"
figures = [
  { is = "read_iops", value = 300_000, unit = "IOPS", kind = "spec", source = "s" },
  { is = "price", value = 350, unit = "USD", kind = "spec", source = "s" },
  { is = "power_active", value = 8, unit = "W", kind = "spec", source = "s" },
]

[[part]]
id = "card"
name = "card"
class = "drive"
interface = "pcie"
figures = [
  { is = "read_iops", value = 250_000, unit = "IOPS", kind = "spec", source = "s" },
  { is = "lanes", value = 4, kind = "spec", source = "s" },
]

[[part]]
id = "hba"
name = "hba"
class = "adapter"
figures = [
  { is = "ports", value = 4, kind = "spec", source = "s" },
  { is = "lanes", value = 8, kind = "spec", source = "s" },
  { is = "price", value = 200, unit = "USD", kind = "spec", source = "s" },
  { is = "power_active", value = 10, unit = "W", kind = "spec", source = "s" },
]

[[part]]
id = "box"
name = "box"
class = "server"
figures = [
  { is = "slots", value = 2, kind = "spec", source = "s" },
  { is = "bays", value = 6, kind = "spec", source = "s" },
  { is = "cores", value = 4, kind = "spec", source = "s" },
  { is = "height", value = 2, unit = "U", kind = "spec", source = "s" },
]

[[part]]
id = "board"
name = "board"
class = "server"
figures = [{ is = "lanes", value = 32, kind = "spec", source = "s" }]

[[part]]
id = "stack"
name = "stack"
class = "software"
figures = [{ is = "core_time", value = 8, unit = "us", kind = "spec", source = "s" }]
"#;

fn round(more: &str) -> Catalogue {
    let mut catalogue = Catalogue::shipped();
    Arc::make_mut(&mut catalogue.parts).retain(|_, part| part.class != Class::Drive);
    catalogue.add("round.toml", &format!("{ROUND}{more}")).unwrap();
    catalogue
}

/// Returns a goal of reads of 4 KiB, 32 in flight on each drive, so that a single drive reaches its
/// rating.
fn wanted(iops: f64, server: Option<&str>) -> Goal {
    let server = server.map(str::to_owned);
    Goal { iops: array(iops), server, adapter: Some("hba".to_owned()), ..goal(1.0) }
}

fn refused<'a>(found: &'a Found, drive: &str) -> &'a Refused {
    found.refused.iter().find(|one| one.drive == drive).unwrap()
}

fn of<'a>(found: &'a Found, drive: &str) -> &'a Candidate {
    let reason = || format!("{:?}", found.refused);
    found.candidates.iter().find(|c| c.drive == drive).unwrap_or_else(|| panic!("{}", reason()))
}

/// Asserts that a refused drive does the IOPS that its reason gives, and no more.
fn assert_relaxed(goal: &Goal, catalogue: &Catalogue, drive: &str) {
    let within = refused(&search(goal, catalogue), drive).within.clone().unwrap();
    assert!(within.iops < goal.iops);
    let found = search(&Goal { iops: within.iops, ..goal.clone() }, catalogue);
    let drives = of(&found, drive).drives;
    assert!(drives <= within.drives, "{drives} {within:?}");
}

#[test]
fn bays_and_slots_by_hand() {
    let catalogue = round("");
    // 600K: six cheap drives, all six bays, on two adapters, both slots:
    // 6 x $100 + 2 x $200 = $1000, 6 x 5 W + 2 x 10 W = 50 W.
    // Or two quick ones on one: 2 x $350 + $200 = $900, 2 x 8 W + 10 W = 26 W.
    let found = search(&wanted(600e3, Some("box")), &catalogue);
    let best = of(&found, "cheap");
    assert_eq!((best.drives, best.cards, best.price, best.power), (6, 2, Some(1000.0), Some(50.0)));
    let quick = of(&found, "quick");
    assert_eq!((quick.drives, quick.cards), (2, 1));
    assert_eq!((quick.price, quick.power), (Some(900.0), Some(26.0)));
    // The quick ones are lower in all three: nothing beats them, and they beat the cheap ones.
    assert!(quick.pareto && !best.pareto);
    // Drives that are cards use a slot each: 600K / 250K is three of them, and there are two slots.
    let card = refused(&found, "card");
    assert_eq!(card.reason, "3 cards so far in the 2 slots of box");
    let within = card.within.as_ref().unwrap();
    assert_eq!((within.drives, within.cards, kilo(within.iops)), (2, 2, 500.0));
    // 700K: seven cheap drives and six bays, which do 600K.
    let more = wanted(700e3, Some("box"));
    let found = search(&more, &catalogue);
    let cheap = refused(&found, "cheap");
    assert_eq!(cheap.reason, "7 drives so far in 6 bays");
    let within = cheap.within.as_ref().unwrap();
    assert_eq!((within.drives, within.cards, kilo(within.iops)), (6, 2, 600.0));
    assert_relaxed(&more, &catalogue, "cheap");
    assert_relaxed(&more, &catalogue, "card");
    // The nearest is reported first: 600K of the cheap ones before 500K of the cards.
    let order: Vec<&str> = found.refused.iter().map(|one| one.drive.as_str()).collect();
    assert_eq!(order, ["cheap", "card"]);
}

#[test]
fn lanes_by_hand() {
    let catalogue = round("");
    // 2M / 250K = 8 cards of 4 lanes: all 32.
    let found = search(&wanted(2e6, Some("board")), &catalogue);
    assert_eq!((of(&found, "card").drives, of(&found, "card").cards), (8, 8));
    // 2.1M needs a ninth, and so 36 lanes.
    let more = wanted(2.1e6, Some("board"));
    let found = search(&more, &catalogue);
    let card = refused(&found, "card");
    assert_eq!(card.reason, "36 lanes so far of the 32 of board");
    assert_eq!(kilo(card.within.as_ref().unwrap().iops), 2000.0);
    assert_relaxed(&more, &catalogue, "card");
    // 2.1M / 100K = 21 drives on ceil(21 / 4) = 6 adapters of 8 lanes: 48. Four adapters fit, with
    // 16 drives.
    let cheap = refused(&found, "cheap");
    assert!(cheap.reason.ends_with("lanes so far of the 32 of board"), "{}", cheap.reason);
    let within = cheap.within.as_ref().unwrap();
    assert_eq!((within.drives, within.cards, kilo(within.iops)), (16, 4, 1600.0));
}

#[test]
fn money_and_power_by_hand() {
    let catalogue = round("");
    let limited = |price_max, power_max| Goal { price_max, power_max, ..wanted(500e3, None) };
    // 500K: five cheap drives on two adapters, $900 and 45 W; two quick ones on one, $900 and
    // 26 W. Cards have neither price nor power.
    let goal = limited(Some(900.0), Some(45.0));
    let found = search(&goal, &catalogue);
    for (drive, drives, power) in [("cheap", 5, 45.0), ("quick", 2, 26.0)] {
        let one = of(&found, drive);
        assert_eq!((one.drives, one.price, one.power), (drives, Some(900.0), Some(power)));
    }
    let card = refused(&found, "card");
    assert_eq!(card.reason, "its price is not known, so no limit can be kept");
    assert_eq!((card.relax.as_str(), &card.within), ("--parts FILE with the price of card", &None));
    // With one watt less the five exceed the limit: four fit, on two adapters, with 4 x 5 W + 2 x
    // 10 W = 40 W.
    let goal = limited(None, Some(44.0));
    let found = search(&goal, &catalogue);
    let cheap = refused(&found, "cheap");
    assert_eq!(cheap.reason, "power 45 is above 44");
    assert_eq!(cheap.relax, "--power-max 45");
    let within = cheap.within.as_ref().unwrap();
    assert_eq!((within.drives, kilo(within.iops)), (4, 400.0));
    assert_relaxed(&goal, &catalogue, "cheap");
    // The budget is one dollar too low for either.
    let goal = limited(Some(899.0), None);
    let found = search(&goal, &catalogue);
    assert!(found.candidates.is_empty(), "{:?}", found.candidates);
    for (drive, iops) in [("cheap", array(400e3)), ("quick", 300e3)] {
        let one = refused(&found, drive);
        assert_eq!((one.reason.as_str(), one.relax.as_str()), MISSING);
        let within = one.within.as_ref().unwrap().iops;
        assert!((within / iops - 1.0).abs() < 2e-3, "{drive}: {within}");
        assert_relaxed(&goal, &catalogue, drive);
    }
    const MISSING: (&str, &str) = ("price 900 is above 899", "--price-max 900");
}

#[test]
fn the_processor_by_hand() {
    let catalogue = round("");
    // Four cores at 8 us: 500K at most, whatever the drives.
    let goal = Goal { software: Some("stack".to_owned()), ..wanted(600e3, Some("box")) };
    let found = search(&goal, &catalogue);
    assert!(found.candidates.is_empty());
    let quick = refused(&found, "quick");
    assert!(quick.reason.starts_with("the processor allows at most"), "{}", quick.reason);
    assert!(quick.relax.contains("cores"));
    let most = quick.within.as_ref().unwrap().iops;
    assert!((490e3..=500e3).contains(&most), "{most}");
}

#[test]
fn an_adapter_for_each_drive_where_it_is_the_slower() {
    // 500K needs three adapters of 200K, and a drive on each, though two drives of 300K would be
    // fast enough.
    let slow = ROUND.replace("id = \"hba\"\nname", "id = \"slow\"\nname");
    let part = slow[slow.find("[[part]]\nid = \"slow\"").unwrap()..].to_owned();
    let part = part[..part.find("[[part]]\nid = \"box\"").unwrap()].to_owned();
    let iops = "  { is = \"iops\", value = 200_000, unit = \"IOPS\", kind = \"spec\", \
                source = \"s\" },\n";
    let part = part.replace("figures = [\n", &format!("figures = [\n{iops}"));
    let catalogue = round(&part);
    let goal = Goal { adapter: Some("slow".to_owned()), ..wanted(500e3, None) };
    let found = search(&goal, &catalogue);
    let quick = of(&found, "quick");
    assert_eq!((quick.drives, quick.cards, quick.limit.as_str()), (3, 3, "adapters"));
    // Without an adapter no SATA drive can be used.
    let none = search(&Goal { adapter: None, ..goal }, &catalogue);
    assert_eq!(refused(&none, "quick").relax, "--adapter PART");
}

#[test]
fn rack_units_by_hand() {
    let work = "size = '4k'\noutstanding = 32\nserver = 'box'\n[[group]]\nadapter = 'hba'\n";
    let cheap = format!("name = 'cheap'\n{work}drive = 'cheap'\ndrives = 3\ncount = 2\n");
    let quick = format!("name = 'quick'\n{work}drive = 'quick'\ndrives = 3\ncount = 2\n");
    let read = |text: &String| Bill::read("b.toml", text, &round("")).unwrap();
    let bills: Vec<Bill> = [&cheap, &quick].into_iter().map(read).collect();
    let goal = crate::compare::Equal::Iops(array(2.8e6));
    let found = crate::compare::compare(&bills, goal, (10, 1)).unwrap();
    let of = |name: &str| found.alternatives.iter().find(|one| one.name == name).unwrap();
    // Six drives in 2 U: 600K, or 1.45M, the limit of two adapters like others. 2.8M needs five
    // boxes of the one, 10 U, or two of the other, 4 U.
    let adapters = 726e3 * evidence::Class::AdapterBound.middle();
    for (name, systems, units, each) in
        [("cheap", 5.0, 10.0, array(300e3)), ("quick", 2.0, 4.0, adapters)]
    {
        let one = of(name);
        assert_eq!(one.systems, Some(systems), "{name}");
        assert_eq!(one.all.as_ref().unwrap().height.total(), Some(units), "{name}");
        assert!((one.yields.per_unit.unwrap() / each - 1.0).abs() < 5e-3, "{name}");
    }
}

#[test]
fn a_candidate_is_what_its_own_bill_is_answered() {
    let catalogue = Catalogue::shipped();
    // Equal for any number of draws; each drive needs hundreds of answers.
    let sata = Goal { interface: Some("sata".to_owned()), draws: (20, 1), ..goal(1.0) };
    for (goal, confident) in [(sata.clone(), false), (Goal { confident: true, ..sata }, true)] {
        let found = search(&goal, &catalogue);
        assert!(!found.candidates.is_empty());
        for candidate in &found.candidates {
            let mut text = "name = 'x'\nsize = '4k'\noutstanding = 32\n".to_owned();
            let (each, more) =
                (candidate.drives / candidate.cards, candidate.drives % candidate.cards);
            for (count, drives) in [(more, each + 1), (candidate.cards - more, each)] {
                if count > 0 {
                    let drive = &candidate.drive;
                    text += &format!(
                        "[[group]]\nadapter = 'lsi-9210-8i'\ncount = {count}\n\
                         drive = '{drive}'\ndrives = {drives}\n"
                    );
                }
            }
            let bill = Bill::read("b.toml", &text, &catalogue).unwrap();
            let asked = Answer::of(&bill, goal.draws.0, goal.draws.1).unwrap();
            assert_eq!((candidate.iops, candidate.range), (asked.iops, asked.range));
            let range = asked.range.unwrap();
            let counted = if confident { range.p10 } else { asked.iops };
            assert!(counted >= 1e6 * REACHED, "{candidate:?}");
            assert!(range.p10 <= asked.iops && asked.iops <= range.p90, "{candidate:?}");
        }
    }
}

/// The time of such a search is measured by `examples/plan_speed.rs`.
#[test]
fn more_than_150_drives_are_looked_through() {
    let catalogue = Catalogue::shipped();
    let drives = catalogue.parts.values().filter(|part| part.class == Class::Drive).count();
    let found = search(&goal(1.0), &catalogue);
    assert_eq!(found.candidates.len() + found.refused.len(), drives);
    assert!(found.candidates.len() >= 150, "{}", found.candidates.len());
}
