//! One question, one answer: a bill has the same rate and interval by every way that takes it.

use std::sync::Arc;

use block::{Rate, Rng};
use catalogue::{Catalogue, Class};
use job::spec::{Access, WorkerSpec, Workload};
use plan::answer::Answer;
use plan::bill::{Bill, Group, Setup, Work};
use plan::compare::{Equal, compare};
use plan::search::{Goal, search, spread};
use plan::simulate::Simulator;
use plan::size::{Need, size};

/// Bills that are drawn.
const BILLS: usize = 200;
/// Draws of the figures of a bill, and their seed.
const DRAWS: (u32, u64) = (10, 1);
/// The share of a goal that a search has to reach.
const REACHED: f64 = 0.999;

/// A drawn system: drives of one kind, on adapters where they need one.
struct Drawn {
    drive: String,
    drives: u32,
    adapters: Option<u32>,
    server: bool,
    work: Work,
}

const ADAPTER: &str = "lsi-9211-8i";
const SERVER: &str = "m50cyp";
const SOFTWARE: &str = "linux-libaio";

fn drawn(random: &mut Rng, drives: &[(String, bool)]) -> Drawn {
    let mut below = |limit: u64| random.next_u64() % limit;
    let (drive, hangs) = &drives[below(drives.len() as u64) as usize];
    let count = [1, 2, 3, 4, 8, 12][below(6) as usize];
    let adapters = hangs.then(|| [1, 2, 3][below(3) as usize].min(count));
    let work = Work {
        size_bytes: [512.0, 4096.0, 8192.0, 65_536.0, 1_048_576.0][below(5) as usize],
        read_share: [1.0, 0.7, 0.5, 0.0][below(4) as usize],
        outstanding: [1, 2, 8, 32, 128][below(5) as usize],
        flush: None,
    };
    Drawn { drive: drive.clone(), drives: count, adapters, server: below(2) == 1, work }
}

impl Drawn {
    fn server(&self) -> Option<String> {
        self.server.then(|| SERVER.to_owned())
    }

    fn software(&self) -> Option<String> {
        self.server.then(|| SOFTWARE.to_owned())
    }

    /// The bill as the flags make it: `--drive`, `--drives`, `--adapter`, `--adapters`.
    fn flags(&self, drives: u32, cards: u32, catalogue: &Catalogue) -> Bill {
        let groups = match self.adapters {
            Some(_) => spread(ADAPTER, cards, &self.drive, drives),
            None => vec![Group::of_drives(None, drives, &self.drive, 1)],
        };
        Bill {
            name: "flags".to_owned(),
            server: self.server(),
            software: self.software(),
            work: self.work,
            groups,
            catalogue: catalogue.clone(),
            setup: Setup::default(),
            extras: Vec::new(),
        }
    }

    /// Returns the bill as a file.
    fn file(&self, bill: &Bill) -> String {
        let Work { size_bytes, read_share, outstanding, .. } = self.work;
        let mut text = format!(
            "name = 'file'\nsize = '{size_bytes}'\nread = {}\noutstanding = {outstanding}\n",
            read_share * 100.0
        );
        if self.server {
            text += &format!("server = '{SERVER}'\nsoftware = '{SOFTWARE}'\n");
        }
        for group in &bill.groups {
            text += &format!("[[group]]\ndrive = '{}'\ncount = {}\n", self.drive, group.count);
            text += &format!("drives = {}\n", group.drives);
            if let Some(adapter) = &group.adapter {
                text += &format!("adapter = '{adapter}'\n");
            }
        }
        text
    }
}

/// Rate and interval to the last printed digit.
fn printed(iops: f64, range: Option<plan::answer::Range>) -> String {
    let ends = range.map(|range| (Rate(range.p10).to_string(), Rate(range.p90).to_string()));
    format!("{} {ends:?}", Rate(iops))
}

fn answer(bill: &Bill) -> Option<String> {
    let found = Answer::of(bill, DRAWS.0, DRAWS.1).ok()?;
    Some(printed(found.iops, found.range))
}

#[test]
fn drawn_bills_have_one_answer_by_every_way() {
    let shipped = Catalogue::shipped();
    let part = |part: &catalogue::Part| {
        (part.id.clone(), ["sata", "sas"].contains(&part.interface.as_str()))
    };
    let drives = shipped.parts.values().filter(|part| part.class == Class::Drive);
    let drives: Vec<(String, bool)> = drives.map(|known| part(known)).collect();
    let mut random = Rng::new(44, 0);
    let (mut answered, mut simulated, mut searched, mut same) = (0, 0, 0, 0);
    while answered < BILLS {
        let one = drawn(&mut random, &drives);
        let said = format!(
            "{} x {} on {:?}, server {}, {:?}",
            one.drives, one.drive, one.adapters, one.server, one.work
        );
        // The searches see one kind of drive.
        let mut catalogue = shipped.clone();
        Arc::make_mut(&mut catalogue.parts)
            .retain(|id, part| part.class != Class::Drive || *id == one.drive);
        let cards = one.adapters.unwrap_or(one.drives);
        let flags = one.flags(one.drives, cards, &catalogue);
        if flags.check().is_err() {
            continue;
        }
        let Ok(found) = Answer::of(&flags, DRAWS.0, DRAWS.1) else { continue };
        answered += 1;
        let right = printed(found.iops, found.range);
        let file = Bill::read("b.toml", &one.file(&flags), &catalogue);
        let file = file.unwrap_or_else(|error| panic!("{said}: {error}"));
        assert_eq!(answer(&file).as_ref(), Some(&right), "{said}: a file");
        // A simulation asks for figures of deep queues, too, and takes no bill without them.
        if let Ok(simulator) = Simulator::of_bill(&file) {
            let heading = by_simulation(&file, &simulator);
            assert_eq!(heading.as_ref(), Some(&right), "{said}: the note of simulate");
            simulated += 1;
        }
        let both = compare(&[file, flags], Equal::Systems, DRAWS).unwrap();
        for alternative in &both.alternatives {
            let all = alternative.all.as_ref().unwrap();
            assert_eq!(printed(all.iops, all.range), right, "{said}: --compare");
        }
        match by_searches(&one, found.iops, &catalogue, &said) {
            Some((best, by_search)) if best == (one.drives, cards) => {
                (searched, same) = (searched + 1, same + 1);
                assert_eq!(by_search, right, "{said}: --goal");
            }
            found => searched += usize::from(found.is_some()),
        }
    }
    assert!(simulated > BILLS * 3 / 4, "most of the {answered} are simulated: {simulated}");
    assert!(searched > BILLS * 3 / 4, "a search finds most of the {answered}: {searched}");
    assert!(same > BILLS / 4, "many are the drawn system itself: {same} of {searched}");
}

/// The printed answer in the note of a simulation of the bill's own work.
fn by_simulation(bill: &Bill, simulator: &Simulator) -> Option<String> {
    let Work { size_bytes, read_share, outstanding, .. } = bill.work;
    let access = Access::new(size_bytes as u32, read_share * 100.0, 100.0);
    let worker = |drive: &plan::simulate::Drive| WorkerSpec {
        uri: drive.name.clone(),
        ..WorkerSpec::new(Workload::new(access.clone(), outstanding))
    };
    let workers: Vec<WorkerSpec> = simulator.drives().iter().map(worker).collect();
    let found = plan::simulate::answer(bill, &workers, workers.len(), DRAWS)?;
    Some(printed(found.iops, found.range))
}

/// Results of searches for a rate: drives and cards of the first, and its printed answer.
fn by_searches(
    one: &Drawn,
    iops: f64,
    catalogue: &Catalogue,
    said: &str,
) -> Option<((u32, u32), String)> {
    let adapter = one.adapters.map(|_| ADAPTER.to_owned());
    let goal = Goal {
        iops,
        confident: false,
        ranges: 1,
        draws: DRAWS,
        work: one.work,
        server: one.server(),
        software: one.software(),
        adapter: adapter.clone(),
        price_max: None,
        power_max: None,
        year: None,
        interface: None,
    };
    let need = Need {
        draws: DRAWS,
        ranges: 1,
        drives_max: one.drives,
        server: one.server(),
        software: one.software(),
        adapter,
        ..Need::rate(iops, one.work)
    };
    if let Some(best) = size(&need, catalogue).found.first() {
        let bill = one.flags(best.drives, best.cards, catalogue);
        let by_size = printed(best.iops, best.range);
        assert_eq!(answer(&bill), Some(by_size), "{said}: --goal --hosts");
    }
    let candidates = search(&goal, catalogue).candidates;
    let best = candidates.first()?;
    let bill = one.flags(best.drives, best.cards, catalogue);
    let bought = Answer::of(&bill, DRAWS.0, DRAWS.1).unwrap();
    let by_search = printed(best.iops, best.range);
    assert_eq!(printed(bought.iops, bought.range), by_search, "{said}: --goal");
    assert!(bought.iops >= iops * REACHED, "{said}: a buyer misses his goal");
    Some(((best.drives, best.cards), by_search))
}
