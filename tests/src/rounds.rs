//! Rounds of a test that are drawn from seeds, several at a time, because most of their time is
//! waiting.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Calls `round` for each of `seeds`, `at_once` of them concurrently, and fails the test if one of
/// them fails, with its seed. `DRUMFIRE_ROUNDS` overrides the number of rounds, `DRUMFIRE_SEED` the
/// first seed. The result of each round is printed.
pub fn rounds(seeds: Range<u64>, at_once: usize, round: impl Fn(u64) -> String + Sync) {
    let first = number("DRUMFIRE_SEED").unwrap_or(seeds.start);
    let end = first + number("DRUMFIRE_ROUNDS").unwrap_or(seeds.end - seeds.start);
    let next = AtomicU64::new(first);
    let failed = Mutex::new(Vec::new());
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            match catch_unwind(AssertUnwindSafe(|| round(seed))) {
                Ok(said) => println!("seed {seed}: {said}"),
                Err(_) => failed.lock().expect("only pushed to").push(seed),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..at_once {
            let named = thread::Builder::new().name(name.clone());
            named.spawn_scoped(scope, work).expect("there is room for a thread");
        }
    });
    let mut failed = failed.into_inner().expect("nobody panicked with it");
    failed.sort_unstable();
    assert!(failed.is_empty(), "seeds {failed:?} of {first} to {}", end - 1);
}
