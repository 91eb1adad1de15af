//! Runs worlds of many seeds: `drumfire-sim --seeds N --from S`, or one: `drumfire-sim 'seed=7 …'`.
//! `--rig` runs measurements with known truth, `--array` stories of arrays, and `--array --short`
//! all stories of up to three operations. `--remote` runs stories of arrays whose legs are on hosts
//! of a network, and of lone volumes there that reconnect; `--fleet` runs many hosts as one.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Plant;
use sim::array::{RemoteStory, Story};
use sim::fleet::FleetStory;
use sim::{Case, Plan, Situation, shrink};

fn main() -> ExitCode {
    // Zeroing transparent huge pages, of which hosts touch little, took a third of the time.
    // Without the kernel's permission the runs are the same, and slower.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_kind =
        |arg: &String| matches!(arg.as_str(), "--rig" | "--array" | "--remote" | "--fleet");
    let (kinds, args): (Vec<String>, Vec<String>) = args.into_iter().partition(is_kind);
    match kinds.first().map(String::as_str) {
        None => run_all::<Plan>(args),
        Some("--rig") => run_all::<Situation>(args),
        Some("--fleet") => run_all::<FleetStory>(args),
        Some("--remote") => run_all::<RemoteStory>(args),
        Some(_) if args.iter().any(|arg| arg == "--short") => short(),
        Some(_) => run_all::<Story>(args),
    }
}

/// Runs all stories of up to three operations.
fn short() -> ExitCode {
    let all: Vec<Story> = sim::array::all_short().collect();
    many(Cases { count: all.len() as u64, from: 0, of: &|number| all[number as usize].clone() }, {
        std::thread::available_parallelism().map_or(1, |n| n.get() as u64)
    })
}

/// Cases by number.
struct Cases<'a, C> {
    from: u64,
    count: u64,
    of: &'a (dyn Fn(u64) -> C + Sync),
}

fn run_all<C: Case>(args: Vec<String>) -> ExitCode {
    match parse::<C>(args.into_iter()) {
        Ok(Job::One { case, plant }) => one(&case, plant),
        Ok(Job::Many { from, count, threads }) => {
            many(Cases { from, count, of: &C::of_seed }, threads)
        }
        Ok(Job::Plants { count, only }) => plants::<C>(count, only),
        Err(why) => {
            eprintln!("drumfire-sim: {why}");
            ExitCode::from(2)
        }
    }
}

enum Job<C> {
    One { case: C, plant: Option<Plant> },
    Many { from: u64, count: u64, threads: u64 },
    Plants { count: u64, only: Option<Plant> },
}

fn parse<C: Case>(mut args: impl Iterator<Item = String>) -> Result<Job<C>, String> {
    let (mut from, mut count, mut planted, mut plant) = (0, None, false, None);
    let mut threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or(format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{arg}: '{value}' is not a number"))
        };
        match arg.as_str() {
            "--seeds" => count = Some(number()?),
            "--from" => from = number()?,
            "--threads" => threads = number()?.max(1),
            "--seed" => return Ok(Job::One { case: C::of_seed(number()?), plant }),
            "--plants" => planted = true,
            "--plant" => {
                let name = args.next().unwrap_or_default();
                let known = C::PLANTS.iter().find(|plant| format!("{plant:?}") == name);
                plant = Some(*known.ok_or(format!("no mistake is called '{name}'"))?);
            }
            case if case.contains('=') => return Ok(Job::One { case: case.parse()?, plant }),
            other => {
                return Err(format!(
                    "what is {other}? --rig, --array, --remote, --fleet, --seeds N, --from S, \
                     --seed S, --plants, or one of the {}",
                    C::WORD
                ));
            }
        }
    }
    Ok(match planted || plant.is_some() {
        true => Job::Plants { count: count.unwrap_or(C::PLANT_SEEDS), only: plant },
        false => Job::Many { from, count: count.unwrap_or(10_000), threads },
    })
}

/// Runs a case; a panic is a failure.
fn run<C: Case>(case: &C, plant: Option<Plant>) -> Result<C::Held, String> {
    run_saying(case, plant, |_| {})
}

fn run_saying<C: Case>(case: &C, plant: Option<Plant>, say: fn(&str)) -> Result<C::Held, String> {
    let run = || case.run(plant, say);
    let result = catch_unwind(AssertUnwindSafe(run));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn one<C: Case>(case: &C, plant: Option<Plant>) -> ExitCode {
    println!("{case}");
    match run_saying(case, plant, |line| println!("  server: {line}")) {
        Ok(held) => {
            println!("all holds: {held:?}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("fails: {why}");
            ExitCode::FAILURE
        }
    }
}

fn many<C: Case>(Cases { from, count, of }: Cases<'_, C>, threads: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let begin = os::Clock::get().now();
    let (next, ios) = (AtomicU64::new(from), AtomicU64::new(0));
    let (failed, counts) = (Mutex::new(None), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = failed.lock().unwrap().is_some();
                    if seed >= from + count || over {
                        return;
                    }
                    let case = of(seed);
                    match run(&case, None) {
                        Ok(held) => {
                            ios.fetch_add(C::ios(&held), Ordering::Relaxed);
                            let mut counts = counts.lock().unwrap();
                            for (what, count) in C::counts(&held) {
                                *counts.entry(what).or_insert(0) += count;
                            }
                        }
                        Err(why) => drop(failed.lock().unwrap().get_or_insert((case, why))),
                    }
                }
            });
        }
    });
    let spent = os::Clock::get().now().since(begin).as_secs_f64();
    if let Some((case, why)) = failed.into_inner().unwrap() {
        println!("seed {} fails: {why}\n  cargo xtask sim {}'{case}'", case.seed(), C::FLAG);
        let small = shrink(&case, |case| run(case, None));
        let why = run(&small, None).err().unwrap_or_default();
        println!("shrunk: {why}\n  cargo xtask sim {}'{small}'", C::FLAG);
        return ExitCode::FAILURE;
    }
    let (rate, ios) = (count as f64 / spent, ios.into_inner());
    println!(
        "{count} {} from seed {from} hold: {spent:.0} s, {rate:.0} seeds/s, {ios} I/Os measured",
        C::WORD,
    );
    let counts = counts.into_inner().unwrap();
    let counts: Vec<String> =
        counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    if !counts.is_empty() {
        println!("  {}", counts.join(", "));
    }
    ExitCode::SUCCESS
}

/// Searches for a seed that finds each planted mistake, or one of them.
fn plants<C: Case>(count: u64, only: Option<Plant>) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = false;
    for plant in C::PLANTS.iter().filter(|plant| only.is_none_or(|only| only == **plant)) {
        let found = (0..count).find_map(|seed| {
            let case = C::of_seed(seed);
            run(&case, Some(*plant)).err().map(|why| (seed, why))
        });
        match found {
            Some((seed, why)) => println!("{plant:?}: seed {seed}: {why}"),
            None => {
                println!("{plant:?}: NOT FOUND in {count} seeds");
                missed = true;
            }
        }
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
