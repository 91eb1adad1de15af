//! A controller that stops for a while: whether its association survives, in virtual time.
//! `iscsi_pair` has the same tests and results.

use block::{Nanos, Op, splitmix};
use proto::nvme::NvmeInitiatorConfig;
use proto::{Ending, Endpoint};

use crate::joined::{Joined, Wire, config};
use crate::server::{Server, sent};

const LIMITS: [u64; 7] = [1, 5, 15, 20, 30, 60, 86_400];
const SECOND: Nanos = Nanos::from_secs(1);

/// Latest end of the queue, for an I/O that began with the stop.
fn latest(limit: Nanos) -> Nanos {
    limit + Nanos(2 * (limit.0 / 8).max(SECOND.0 / 2))
}

fn joined(io_timeout: Nanos) -> Joined {
    let config = NvmeInitiatorConfig { io_timeout, ..config(1, false, false) };
    Joined::new(Server::usual(), config, usize::MAX)
}

/// End of an association, at its queue or its admin queue, and the time from its target's stop, of
/// this length; `None` if it goes on.
fn outcome(limit: Nanos, since: Nanos, stop: Nanos, busy: bool) -> Option<(Ending, Nanos)> {
    let mut joined = joined(limit);
    let stop_at = joined.server.now + since;
    go_on(&mut joined, stop_at, true).unwrap();
    let stopped = joined.server.now;
    if busy {
        joined.submit(Op::Read, 0, 512, None);
    }
    if let Err(ending) = go_on(&mut joined, stopped + stop, false) {
        return Some((ending, joined.server.now.since(stopped)));
    }
    // Data that arrived meanwhile is read first, as a server does.
    read(&mut joined.admin, &mut joined.server);
    read(&mut joined.queue, &mut joined.server);
    let answered = joined.settle().into_iter().filter(|done| done.result.is_ok()).count();
    assert_eq!(answered, usize::from(busy), "every I/O is answered");
    joined.admin.settle(&mut joined.server);
    assert_eq!((&joined.admin.ended, &joined.admin.peer.ended), (&None, &None), "{stop:?}");
    let much_later = joined.server.now + Nanos::from_secs(100);
    go_on(&mut joined, much_later, true).unwrap();
    assert!(joined.read(512, 512).is_ok());
    None
}

fn read<E: Endpoint>(wire: &mut Wire<E>, server: &mut Server) {
    let bytes = sent(&mut wire.out);
    wire.peer.receive(server, &bytes, usize::MAX);
}

/// Runs both ends until `end`; without `there`, only the host.
fn go_on(joined: &mut Joined, end: Nanos, there: bool) -> Result<(), Ending> {
    loop {
        let Joined { server, admin, queue, .. } = joined;
        let ours = [admin.host.deadline(), queue.host.deadline()];
        let theirs = [admin.peer.end.deadline(), queue.peer.end.deadline()];
        let theirs = theirs.into_iter().flatten().filter(|_| there);
        let due = ours.into_iter().flatten().chain(theirs).min().unwrap_or(end);
        server.now = due.clamp(server.now, end);
        if due > end {
            return Ok(());
        }
        if there {
            admin.settle(server);
            queue.settle(server);
            let ended = [&admin.ended, &admin.peer.ended, &queue.ended, &queue.peer.ended];
            if let Some(ending) = ended.into_iter().flatten().next() {
                return Err(ending.clone());
            }
            continue;
        }
        admin.host.tick(server.now, &mut admin.out)?;
        queue.host.tick(server.now, &mut queue.out)?;
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
fn an_idle_association_outlives_what_an_io_would() {
    for limit in LIMITS.map(Nanos::from_secs) {
        for since in [0, 3, 5, 17].map(Nanos::from_secs) {
            let least = limit.max(Nanos::from_secs(10));
            assert_eq!(outcome(limit, since, least, false), None, "{limit:?}");
            let most = Nanos::from_secs(5) + Nanos(limit.0 / 8 * 11).max(Nanos::from_secs(10));
            let (ending, after) = outcome(limit, since, most + SECOND, false).unwrap();
            assert_eq!(ending.to_string(), "timed out: the target does not answer keep-alives");
            assert!(after >= least && after <= most, "{limit:?}: {after:?}");
        }
    }
}

#[test]
fn any_stop_ends_as_the_time_out_says() {
    for seed in 0..200 {
        let mut state = seed;
        let mut below = |limit: u64| splitmix(&mut state) % limit;
        let limit = Nanos::from_secs(LIMITS[below(7) as usize]);
        let since = Nanos::from_millis(below(30_000));
        let stop = Nanos(below(2 * limit.0 + 1));
        let ended = outcome(limit, since, stop, true);
        assert!(stop >= limit || ended.is_none(), "seed {seed}: {limit:?} {stop:?} {ended:?}");
        assert!(stop <= latest(limit) || ended.is_some(), "seed {seed}: {limit:?} {stop:?}");
    }
}

/// A host that is stopped for 25 s is not given up, as with an iSCSI initiator.
#[test]
fn a_host_that_stands_still_is_waited_for() {
    let mut joined = joined(Nanos::from_secs(30));
    go_on(&mut joined, Nanos::from_secs(20), true).unwrap();
    let (server, admin) = (&mut joined.server, &mut joined.admin);
    for _ in 0..49 {
        server.now = server.now + Nanos(SECOND.0 / 2);
        admin.peer.tick(server);
        joined.queue.peer.tick(server);
    }
    let now = joined.server.now;
    go_on(&mut joined, now + Nanos::from_secs(100), true).unwrap();
    assert!(joined.read(512, 512).is_ok());
}
