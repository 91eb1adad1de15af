//! Runs worlds of many seeds: `drumfire-sim --seeds N --from S`, or one: `drumfire-sim 'seed=7 …'`.
#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Plant;
use sim::{Plan, Report, shrink};

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)) {
        Ok(Job::One { plan, plant }) => one(&plan, plant),
        Ok(Job::Many { from, count, threads }) => many(from, count, threads),
        Ok(Job::Plants { count }) => plants(count),
        Err(why) => {
            eprintln!("drumfire-sim: {why}");
            ExitCode::from(2)
        }
    }
}

enum Job {
    One { plan: Plan, plant: Option<Plant> },
    Many { from: u64, count: u64, threads: u64 },
    Plants { count: u64 },
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Job, String> {
    let (mut from, mut count, mut planted, mut plant) = (0, 10_000, false, None);
    let mut threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    while let Some(arg) = args.next() {
        let mut number = || {
            let value = args.next().ok_or(format!("{arg} needs a number"))?;
            value.parse::<u64>().map_err(|_| format!("{arg}: '{value}' is not a number"))
        };
        match arg.as_str() {
            "--seeds" => count = number()?,
            "--from" => from = number()?,
            "--threads" => threads = number()?.max(1),
            "--plants" => planted = true,
            "--plant" => {
                let name = args.next().unwrap_or_default();
                let known = Plant::ALL.into_iter().find(|plant| format!("{plant:?}") == name);
                plant = Some(known.ok_or(format!("no mistake is called '{name}'"))?);
            }
            plan if plan.contains('=') => return Ok(Job::One { plan: plan.parse()?, plant }),
            other => {
                return Err(format!("what is {other}? --seeds N, --from S, --plants, or a world"));
            }
        }
    }
    Ok(if planted { Job::Plants { count } } else { Job::Many { from, count, threads } })
}

/// Runs a world; a panic in it is a failure of it.
fn run(plan: &Plan, plant: Option<Plant>) -> Result<Report, String> {
    run_saying(plan, plant, |_| {})
}

fn run_saying(plan: &Plan, plant: Option<Plant>, say: fn(&str)) -> Result<Report, String> {
    let run = || sim::run(plan, plant, say);
    let result = catch_unwind(AssertUnwindSafe(run));
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or(panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn one(plan: &Plan, plant: Option<Plant>) -> ExitCode {
    match run_saying(plan, plant, |line| println!("  server: {line}")) {
        Ok(report) => {
            println!("{plan}\nall holds: {report:?}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            println!("{plan}\nfails: {why}");
            ExitCode::FAILURE
        }
    }
}

fn many(from: u64, count: u64, threads: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let begin = os::Clock::get().now();
    let (next, ios) = (AtomicU64::new(from), AtomicU64::new(0));
    let failed = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let over = failed.lock().unwrap().is_some();
                    if seed >= from + count || over {
                        return;
                    }
                    let plan = Plan::of_seed(seed);
                    match run(&plan, None) {
                        Ok(report) => drop(ios.fetch_add(report.ios, Ordering::Relaxed)),
                        Err(why) => drop(failed.lock().unwrap().get_or_insert((plan, why))),
                    }
                }
            });
        }
    });
    let spent = os::Clock::get().now().since(begin).as_secs_f64();
    if let Some((plan, why)) = failed.into_inner().unwrap() {
        println!("seed {} fails: {why}\n  {plan}", plan.seed);
        let small = shrink(&plan, |plan| run(plan, None));
        let why = run(&small, None).err().unwrap_or_default();
        println!("shrunk: {why}\n  cargo xtask sim '{small}'");
        return ExitCode::FAILURE;
    }
    let (rate, ios) = (count as f64 / spent, ios.into_inner());
    println!(
        "{count} worlds from seed {from} hold: {spent:.0} s, {rate:.0} seeds/s, {ios} I/Os measured"
    );
    ExitCode::SUCCESS
}

fn plants(count: u64) -> ExitCode {
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = false;
    for plant in Plant::ALL {
        let found = (0..count).find_map(|seed| {
            let plan = Plan::of_seed(seed);
            run(&plan, Some(plant)).err().map(|why| (seed, why))
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
