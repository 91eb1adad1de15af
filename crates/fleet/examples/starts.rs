//! Starts of all ranks at one instant, many times, with clocks that are planted wrong: how far
//! apart the ranks began, and whether the bounds hold the truth. All ranks must be on one machine,
//! whose monotonic clock is the truth: `mpirun -n 4 starts ROUNDS`.
#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use block::Nanos;
use fleet::{Event, Fate, Follow, Heard, Lead, Message, Now, follow, lead};
use rustix::time::{ClockId, clock_gettime};

/// Longest wait for an event.
const PATIENCE: Duration = Duration::from_secs(30);
/// Before an instant a rank spins for this long.
const SPIN: Nanos = Nanos(300_000);

/// The machine's clock.
fn truth() -> Nanos {
    let now = clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64)
}

/// The clock of a rank: up to a second off and 200 ppm wrong, but for rank 0's.
fn planted(rank: u32) -> Now {
    let begin = truth();
    let ahead_ns = i64::from(rank) * 271_828_183 % 2_000_000_000 - 1_000_000_000;
    let drift = [200e-6, -200e-6, 37e-6, -113e-6][rank as usize % 4];
    Arc::new(move || {
        let now = truth();
        let drifted_ns = (now.since(begin).0 as f64 * drift) as i64;
        match rank {
            0 => now,
            _ => Nanos(now.0.saturating_add_signed(drifted_ns + ahead_ns)),
        }
    })
}

/// Waits until a clock reads `at`, and returns the truth and the reading then.
fn wait(now: &Now, at: Nanos) -> (Nanos, Nanos) {
    let left = at.since(now());
    if left > SPIN {
        std::thread::sleep(Duration::from_nanos(left.0 - SPIN.0));
    }
    loop {
        // Both clocks at one time: the thread may lose its core between two readings.
        let (before, reading, after) = (truth(), now(), truth());
        if reading >= at && after.since(before) < Nanos(2000) {
            return (before, reading);
        }
        std::hint::spin_loop();
    }
}

fn follows(follow: &Follow, now: &Now) {
    let mut under_way = 0;
    loop {
        match follow.next(PATIENCE) {
            Some(Heard::Order { round, .. }) => {
                under_way = round;
                follow.say(Message::Ready { round });
            }
            Some(Heard::Start { round, at }) if round == under_way => {
                let (truth, reading) = wait(now, at);
                let body = truth.0.to_le_bytes().to_vec();
                follow.say(Message::Part { round, window: (reading, reading), body });
            }
            Some(Heard::Leave | Heard::LeaderLost { .. }) | None => return,
            Some(_) => {}
        }
    }
}

/// One start: how far apart the ranks began, how many bounds held, and of how many; the widest.
fn start(lead: &Lead, now: &Now) -> Option<(u64, usize, usize, u64)> {
    lead.order(Vec::new(), Nanos(0), Vec::new());
    lead.ready();
    let mut began = vec![];
    loop {
        match lead.next(PATIENCE)? {
            Event::Began(of) => {
                began.push(wait(now, of.at).0.0);
                lead.done();
            }
            Event::Over(outcomes) => {
                let (mut held, mut widest) = (0, 0);
                for outcome in &outcomes {
                    let Fate::Part(body) = &outcome.fate else { return None };
                    let truth = u64::from_le_bytes(*body.first_chunk()?);
                    let (from, _) = outcome.window?;
                    held += usize::from(from.at.0.abs_diff(truth) <= from.bound.0);
                    widest = widest.max(from.bound.0);
                    began.push(truth);
                }
                let skew = began.iter().max()? - began.iter().min()?;
                return Some((skew, held, outcomes.len(), widest));
            }
            Event::Lost { .. } | Event::Refused { .. } => return None,
            Event::Gathered { .. }
            | Event::Word { .. }
            | Event::Second { .. }
            | Event::Draft { .. } => {}
        }
    }
}

fn leads(lead: &Lead, now: &Now, rounds: usize) -> Option<()> {
    let Some(Event::Gathered { .. }) = lead.next(PATIENCE) else { return None };
    let (mut skews, mut widest) = (Vec::new(), Vec::new());
    let (mut held, mut of) = (0, 0);
    for _ in 0..rounds {
        let (skew, more, all, bound) = start(lead, now)?;
        skews.push(skew);
        widest.push(bound);
        (held, of) = (held + more, of + all);
    }
    skews.sort_unstable();
    widest.sort_unstable();
    let share = |of: &[u64], p: f64| of[((of.len() - 1) as f64 * p) as usize] as f64 / 1e3;
    println!(
        "starts={rounds} ranks={} skew_us p50={:.1} p90={:.1} p99={:.1} max={:.1} \
         bound_us p50={:.1} p99={:.1} bounds_held={held} of={of}",
        lead.size(),
        share(&skews, 0.5),
        share(&skews, 0.9),
        share(&skews, 0.99),
        share(&skews, 1.0),
        share(&widest, 0.5),
        share(&widest, 0.99),
    );
    Some(())
}

fn main() -> ExitCode {
    let rounds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100);
    let Some(launched) = fleet::launched() else {
        eprintln!("starts: mpirun -n 4 starts ROUNDS");
        return ExitCode::from(2);
    };
    let now = planted(launched.rank);
    let join = move || fleet::join(launched);
    let done = match launched.rank {
        0 => lead(join, Arc::clone(&now)).map(|mut lead| {
            let done = leads(&lead, &now, rounds);
            lead.leave();
            done.is_some()
        }),
        _ => follow(join, Arc::clone(&now), Vec::new()).map(|follow| {
            follows(&follow, &now);
            follow.leave();
            true
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("starts: {error}");
            ExitCode::FAILURE
        }
    }
}
