//! A target that stops for a while, as when it is debugged, migrated or starved: whether its
//! session survives, in virtual time. `nvme_pair` has the same tests.

use block::{Nanos, Op};
use proto::{Ending, Endpoint, Initiator};

use crate::harness::{Pair, Rng, Setup, io};

const LIMITS: [u64; 7] = [1, 5, 15, 20, 30, 60, 86_400];
const SECOND: Nanos = Nanos::from_secs(1);

/// Latest end of the session, for an I/O that began with the stop.
fn latest(limit: Nanos) -> Nanos {
    limit + Nanos(2 * (limit.0 / 8).max(SECOND.0 / 2))
}

/// End of a session, and the time from its target's stop, of this length; `None` if it goes on.
fn outcome(limit: Nanos, since: Nanos, stop: Nanos, busy: bool) -> Option<(Ending, Nanos)> {
    let mut pair = Pair::ready(&Setup { io_timeout: limit, ..Setup::default() });
    // Both ends are idle, and ping each other.
    go_on(&mut pair, since, true).unwrap();
    let stopped = pair.now;
    if busy {
        pair.submit(io(Op::Read, 0, 512, None));
    }
    if let Err(ending) = go_on(&mut pair, stopped + stop, false) {
        return Some((ending, pair.now.since(stopped)));
    }
    // Data that arrived meanwhile is read first, as a server does.
    pair.drive();
    pair.initiator.tick(pair.now, &mut pair.out).unwrap();
    let answered = pair.initiator.done().drain(..).filter(|done| done.result.is_ok()).count();
    assert_eq!(answered, usize::from(busy), "every I/O is answered");
    let much_later = pair.now + Nanos::from_secs(100);
    go_on(&mut pair, much_later, true).unwrap();
    assert!(pair.read(512, 512).is_ok());
    None
}

/// Runs both ends until `end`; without `there`, only the initiator.
fn go_on(pair: &mut Pair, end: Nanos, there: bool) -> Result<(), Ending> {
    loop {
        let theirs = pair.served.end.deadline().filter(|_| there);
        let due = pair.initiator.deadline().into_iter().chain(theirs).min().unwrap_or(end);
        pair.now = due.clamp(pair.now, end);
        if due > end {
            return Ok(());
        }
        pair.initiator.tick(pair.now, &mut pair.out)?;
        if there {
            pair.served.end.tick(pair.now, &mut pair.served.out)?;
            pair.drive();
        }
    }
}

#[test]
fn only_the_time_out_of_ios_decides_about_ios() {
    for limit in LIMITS.map(Nanos::from_secs) {
        for since in [0, 3, 5, 17].map(Nanos::from_secs) {
            for share in [50, 99] {
                let stop = Nanos(limit.0 / 100 * share);
                assert_eq!(outcome(limit, since, stop, true), None, "{limit:?} {stop:?}");
            }
            let (ending, after) = outcome(limit, since, latest(limit) + SECOND, true).unwrap();
            assert!(matches!(ending, Ending::Unanswered(_)), "{limit:?}: {ending}");
            assert!(after >= limit && after <= latest(limit), "{limit:?}: {after:?}");
        }
    }
}

#[test]
fn an_idle_session_outlives_what_an_io_would() {
    for limit in LIMITS.map(Nanos::from_secs) {
        for since in [0, 3, 5, 17].map(Nanos::from_secs) {
            let least = limit.max(Nanos::from_secs(10));
            assert_eq!(outcome(limit, since, least, false), None, "{limit:?}");
            let most = Nanos::from_secs(5) + Nanos(limit.0 / 8 * 11).max(Nanos::from_secs(10));
            let (ending, after) = outcome(limit, since, most + SECOND, false).unwrap();
            assert_eq!(ending.to_string(), "timed out: the target does not answer pings");
            assert!(after >= least && after <= most, "{limit:?}: {after:?}");
        }
    }
}

#[test]
fn any_stop_ends_as_the_time_out_says() {
    for seed in 0..200 {
        let mut rng = Rng(seed);
        let limit = Nanos::from_secs(LIMITS[rng.below(7) as usize]);
        let since = Nanos::from_millis(rng.below(30_000));
        let stop = Nanos(rng.below(2 * limit.0 + 1));
        let ended = outcome(limit, since, stop, true);
        assert!(stop >= limit || ended.is_none(), "seed {seed}: {limit:?} {stop:?} {ended:?}");
        assert!(stop <= latest(limit) || ended.is_some(), "seed {seed}: {limit:?} {stop:?}");
    }
}

/// An I/O that is sent while a ping waits has its whole time, however long the silence was.
#[test]
fn an_io_after_a_long_silence_has_its_time() {
    let limit = Nanos::from_secs(5);
    let mut pair = Pair::ready(&Setup { io_timeout: limit, ..Setup::default() });
    let began = pair.now + Nanos::from_secs(14);
    go_on(&mut pair, began, false).unwrap();
    pair.submit(io(Op::Read, 0, 512, None));
    let much_later = began + Nanos::from_secs(100);
    let ending = go_on(&mut pair, much_later, false).unwrap_err();
    assert!(matches!(ending, Ending::Unanswered(_)) && pair.now.since(began) >= limit);
}

/// The initiator is stopped, and finds the answer to its ping when it continues.
#[test]
fn an_initiator_that_stood_still_reads_before_it_judges() {
    let mut pair = Pair::ready(&Setup::default());
    let pinged = pair.now + Nanos::from_secs(5);
    go_on(&mut pair, pinged, false).unwrap();
    // The initiator's clock advances first.
    pair.now = pair.now + Nanos::from_secs(100);
    pair.initiator.tick(pair.now, &mut pair.out).unwrap();
    pair.drive();
    assert!(pair.read(0, 512).is_ok());
}

/// An initiator that is stopped: its target waits for at least 25 s.
#[test]
fn an_initiator_that_stands_still_is_waited_for() {
    let mut pair = Pair::ready(&Setup::default());
    go_on(&mut pair, Nanos::from_secs(20), true).unwrap();
    for _ in 0..49 {
        pair.now = pair.now + Nanos(SECOND.0 / 2);
        pair.served.end.tick(pair.now, &mut pair.served.out).unwrap();
    }
    let much_later = pair.now + Nanos::from_secs(100);
    go_on(&mut pair, much_later, true).unwrap();
    assert!(pair.read(512, 512).is_ok());
}
