//! H23: the connections persisted.

use super::{Check, Verdict};
use crate::run::{Totals, WorkerResult};

/// Maximum share of the window without a connection per worker, in percent: beyond it the rate is
/// that of a different number of workers.
const AWAY_PERCENT: f64 = 10.0;

/// H23: no connection was lost. For remote volumes: I/Os in flight are repeated or fail, no I/O is
/// done meanwhile, and a restarted target may have lost its writes.
pub fn connections(totals: &Totals, workers: &[WorkerResult]) -> Check {
    let check = |verdict, words: String| Check::new("H23", "connections", verdict, words);
    let counted = totals.connections;
    let times = counted.connections_lost + counted.reconnects + counted.failed_attempts;
    if times == 0 && counted.disconnected_seconds <= 0.0 {
        let words = format!("no connection of {} workers was lost", workers.len());
        return check(Verdict::Pass, words);
    }
    let all_s: f64 = workers.iter().map(|worker| worker.seconds.max(totals.seconds)).sum();
    let percent = counted.disconnected_seconds / all_s.max(1e-9) * 100.0;
    let verdict = if percent > AWAY_PERCENT { Verdict::Fail } else { Verdict::Warn };
    let away = |worker: &&WorkerResult| worker.connections.disconnected_seconds;
    let longest = workers.iter().max_by(|a, b| away(a).total_cmp(&away(b)));
    let longest = longest.filter(|worker| workers.len() > 1 && away(worker) > 0.0);
    let longest = longest.map_or(String::new(), |worker| {
        format!(", {} the longest, {:.2} s", worker.name, away(&worker))
    });
    let written = match totals.write.ios {
        0 => "",
        _ => "; the I/Os include writes: a restarted target with a RAM volume has lost them",
    };
    let evidence = format!(
        "{} connections lost, {} made again, {} attempts failed; {:.2} s without one, {percent:.1} \
         % of the window (at most {AWAY_PERCENT:.0}){longest}{written}",
        counted.connections_lost,
        counted.reconnects,
        counted.failed_attempts,
        counted.disconnected_seconds,
    );
    let made = check(verdict, evidence)
        .mend("ss -tin (retransmissions, round trips; see the target's log for the reason)");
    if written.is_empty() { made } else { made.mend("--verify (compares the written data)") }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::run::{Connections, Direction};

    fn judge(connections: Connections, writes: u64) -> Check {
        let write = Direction { ios: writes, ..Direction::default() };
        let totals = Totals { connections, write, seconds: 10.0, ..Totals::default() };
        let worker = |name: &str, connections| WorkerResult {
            name: name.to_owned(),
            seconds: 10.0,
            connections,
            ..WorkerResult::default()
        };
        connections_of(&totals, &[worker("a", Connections::default()), worker("b", connections)])
    }

    use super::connections as connections_of;

    /// H23 detects: a connection that was lost once and re-established.
    /// H23 accepts: no lost connection.
    #[test]
    fn lost_connections_are_said_from_the_first() {
        assert_eq!(judge(Connections::default(), 5).verdict, Verdict::Pass);
        let once = Connections {
            reconnects: 1,
            connections_lost: 1,
            failed_attempts: 3,
            disconnected_seconds: 1.25,
        };
        let check = judge(once, 0);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1), "{check:?}");
        assert!(check.evidence.contains("1 connections lost, 1 made again, 3 attempts failed"));
        assert!(check.evidence.contains("1.25 s without one, 6.2 %"), "{check:?}");
        assert!(check.evidence.contains("b the longest, 1.25 s"), "{check:?}");
        // Data of a target in memory.
        let check = judge(once, 5);
        assert!(check.evidence.contains("has lost them"), "{check:?}");
        assert!(check.mend.iter().any(|mend| mend.starts_with("--verify")), "{check:?}");
        // Without a connection for more than a tenth of the time of both.
        let long = Connections { disconnected_seconds: 2.1, ..once };
        assert_eq!(judge(long, 0).verdict, Verdict::Fail);
        // Lost before the window, and still lost in it.
        let late = Connections { disconnected_seconds: 0.1, ..Connections::default() };
        assert_eq!(judge(late, 0).verdict, Verdict::Warn);
    }
}
