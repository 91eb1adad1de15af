//! Speed of predictions: 28 drives on five adapters, solved once, and drawn 10,000 times; and
//! searches with as many draws of each candidate, through the catalogue and through one twice as
//! large; and the searches of a screen, for one server and for hosts with a response time.
//!
//! `cargo run --release -p drumfire-plan --example plan_speed`

use std::sync::Arc;
use std::time::Instant;

use catalogue::{Catalogue, Class, Part};
use plan::answer::DRAWS;
use plan::bill::{Bill, Work};
use plan::chance::{DRAWS_MAX, chance};
use plan::predict::predict;
use plan::search::{Goal, search};
use plan::size::{Need, size};
use plan::system::Tweak;

fn main() {
    let text = include_str!("../systems/intel-ssd.toml");
    let bill = Bill::read("intel-ssd.toml", text, &Catalogue::shipped()).expect("it comes along");
    let mut times: Vec<f64> = (0..51).map(|_| solve_ms(&bill)).collect();
    times.sort_by(f64::total_cmp);
    println!("solve: {:.3} ms, the median of {}", times[times.len() / 2], times.len());
    let started = Instant::now();
    let sure = chance(&bill, DRAWS_MAX, 1, None).expect("it has an answer");
    println!("draw: {:.3} s for {} draws", started.elapsed().as_secs_f64(), sure.draws);
    let catalogue = Catalogue::shipped();
    searched(&bill, &catalogue, (usize::MAX, DRAWS_MAX));
    searched(&bill, &doubled(&catalogue), (usize::MAX, DRAWS_MAX));
    searched(&bill, &catalogue, ON_SCREEN);
    sized(&catalogue);
}

/// Systems of a screen whose range is drawn, and their draws.
const ON_SCREEN: (usize, u32) = (6, DRAWS);

/// Sizes hosts for a rate and a response time, with growth over three years.
fn sized(catalogue: &Catalogue) {
    let started = Instant::now();
    let work = Work { size_bytes: 4096.0, read_share: 0.7, outstanding: 32, flush: None };
    let need = Need {
        latency_s: Some(500e-6),
        growth: 0.3,
        years: 3.0,
        hosts_max: 3,
        ranges: ON_SCREEN.0,
        draws: (ON_SCREEN.1, 1),
        ..Need::rate(1e6, work)
    };
    let found = size(&need, catalogue);
    let (count, short) = (found.found.len(), found.short.len());
    let took = started.elapsed().as_secs_f64();
    println!("size: {took:.3} s for {count} systems of hosts and {short} others");
}

/// Returns a catalogue with each drive twice, the second under another name.
fn doubled(catalogue: &Catalogue) -> Catalogue {
    let mut twice = catalogue.clone();
    for part in catalogue.parts.values().filter(|part| part.class == Class::Drive) {
        let again =
            Part { id: format!("{}-again", part.id), aliases: Vec::new(), ..Part::clone(part) };
        Arc::make_mut(&mut twice.parts).insert(again.id.clone(), again.into());
    }
    twice
}

fn searched(bill: &Bill, catalogue: &Catalogue, (ranges, draws): (usize, u32)) {
    let started = Instant::now();
    let goal = Goal {
        iops: 1e6,
        confident: false,
        ranges,
        draws: (draws, 1),
        work: bill.work,
        server: None,
        software: None,
        adapter: Some("lsi-9210-8i".to_owned()),
        price_max: None,
        power_max: None,
        year: None,
        interface: None,
    };
    let found = search(&goal, catalogue);
    let (count, refused) = (found.candidates.len(), found.refused.len());
    let took = started.elapsed().as_secs_f64();
    let drawn = count.min(ranges);
    println!("search: {took:.3} s for {count} candidates, {drawn} drawn, and {refused} others");
}

fn solve_ms(bill: &Bill) -> f64 {
    let started = Instant::now();
    let found = predict(bill, &Tweak::default()).expect("it has an answer");
    assert!(found.iops > 0.0);
    started.elapsed().as_secs_f64() * 1e3
}
