//! Lost connections and reconnects, in words.

use stats::Connections;
use stats::live::Snapshot;

use crate::figure;

/// Describes lost connections, if any: "2 reconnects, 1.3 s disconnected". With `several` workers,
/// the time is the sum over all of them.
pub(crate) fn words(of: &Connections, several: bool) -> Option<String> {
    let Connections { reconnects, connections_lost, failed_attempts, .. } = *of;
    if connections_lost == 0 && reconnects == 0 && of.disconnected_seconds == 0.0 {
        return None;
    }
    let mut words = lost_and_made(connections_lost, reconnects);
    if failed_attempts > 0 {
        words += &format!(" ({} failed)", figure::plural(failed_attempts, "attempt"));
    }
    words += &format!(", {:.1} s disconnected", of.disconnected_seconds);
    if several {
        words += " in all";
    }
    Some(words)
}

/// Describes lost connections of a run in progress.
pub(crate) fn so_far(snapshot: &Snapshot) -> Option<String> {
    let Snapshot { connections_lost, reconnects, .. } = *snapshot;
    (connections_lost > 0).then(|| lost_and_made(connections_lost, reconnects))
}

pub(crate) fn lost_and_made(lost: u64, reconnects: u64) -> String {
    let made = figure::plural(reconnects, "reconnect");
    match lost.saturating_sub(reconnects) {
        0 => made,
        gone if reconnects == 0 => format!("{} lost", figure::plural(gone, "connection")),
        gone => format!("{made}, {} lost", figure::plural(gone, "connection")),
    }
}

#[cfg(test)]
mod test {
    use stats::RunResult;

    use super::*;
    use crate::sample;
    use crate::style::Paint;

    fn counted(lost: u64, reconnects: u64, failed_attempts: u64, seconds: f64) -> Connections {
        Connections {
            reconnects,
            connections_lost: lost,
            failed_attempts,
            disconnected_seconds: seconds,
        }
    }

    #[test]
    fn says_what_became_of_connections() {
        let said =
            |lost, made, failed, seconds| words(&counted(lost, made, failed, seconds), false);
        assert_eq!(said(0, 0, 0, 0.0), None);
        assert_eq!(said(2, 2, 0, 1.26).unwrap(), "2 reconnects, 1.3 s disconnected");
        let some = "1 reconnect, 2 connections lost (7 attempts failed), 61.0 s disconnected";
        assert_eq!(said(3, 1, 7, 61.0).unwrap(), some);
        assert_eq!(said(1, 0, 0, 0.25).unwrap(), "1 connection lost, 0.2 s disconnected");
        assert!(
            words(&counted(2, 2, 0, 1.0), true).unwrap().ends_with("1.0 s disconnected in all")
        );
        // Lost in the ramp, made again in the measured window.
        assert_eq!(said(0, 1, 0, 0.5).unwrap(), "1 reconnect, 0.5 s disconnected");
    }

    #[test]
    fn a_table_says_it_and_a_run_without_losses_says_nothing() {
        let mut result = sample::race();
        let table = |result: &RunResult| {
            let mut out = Vec::new();
            crate::text::write(result, Paint::PLAIN, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(!table(&result).contains("disconnected"));
        result.totals.connections = counted(6, 6, 12, 3.5);
        let line = "· 6 reconnects (12 attempts failed), 3.5 s disconnected in all ·";
        assert!(table(&result).contains(line), "{}", table(&result));
        assert!(crate::pages::runs(&[result]).html().contains("6 reconnects (12 attempts failed)"));
    }
}
