//! Lag of an open loop at 80 % of the maximum, and the minimum lag possible on this machine.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::super::probe;
use super::super::programs::{Call, Programs};
use super::local::{Kind, Store};
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample};

/// A core that only reads the clock shows when other programs used the machine. An ideal queue
/// served in the remaining time has the minimum lag of any program: a gap delays I/Os for `1 / (1 -
/// 0.8)` times its length.
pub const ROW: Row = Row {
    name: "open-loop",
    title: "Open loop at 80 % of the maximum, 4 KiB random reads of a file on tmpfs, one worker: \
            99th percentile of the starts' lag",
    unit: "µs",
    contenders: &[
        Contender { name: "drumfire run --rate", run: ours },
        Contender { name: "an ideal queue in the gaps of an idle core", run: ideal },
    ],
};

const LOAD: f64 = 0.8;
/// Share of the maximum before a run that must still be reached after it, or the run does not
/// count: the host became slower, and the rate was not 80 % of its maximum.
const HOLDS: f64 = 0.97;
/// Maximum repeats of a run whose maximum fell.
const TRIES: usize = 12;
/// Length of a search for the maximum, in seconds.
const SEARCH: &str = "0.5";
/// Time between two I/Os of the ideal queue; gaps are so much longer that the value hardly matters.
const SPACING_NS: u64 = 1500;
/// Minimum distance of two clock readings that shows an interruption between them.
const GAP_NS: u64 = 1000;

fn ours(bench: &Bench) -> Result<Sample> {
    let store = Store::make(bench, Kind::Tmpfs)?;
    let run = |more: &str| {
        let args = format!(
            "run file:{} --size 4096 --workers 1 --outstanding 64 --ramp 0.2 --json {more}",
            store.path.display()
        );
        // One worker, on a core that it chooses; the watching thread uses the other.
        let call = Call { program: "drumfire", args, core: None };
        bench.programs.run(&call, bench.seconds)
    };
    let most = || Sample::of_drumfire(&run(&format!("--seconds {SEARCH}"))?);
    let mut before = most()?.value;
    for _ in 0..TRIES {
        let rate = before * LOAD;
        let lag = Sample::of_lag(&run(&format!("--seconds {} --rate {rate:.0}", bench.seconds))?)?;
        let after = most()?.value;
        if after >= before * HOLDS {
            return Ok(lag);
        }
        before = after;
    }
    bail!("the maximum fell in each of {TRIES} runs: the host is not quiet enough")
}

fn ideal(bench: &Bench) -> Result<Sample> {
    let span = match bench.programs {
        Programs::Dry => Duration::from_millis(1),
        Programs::Real { .. } => Duration::from_secs(bench.seconds),
    };
    // A separate thread, because pinning lasts as long as the thread.
    let watch = std::thread::spawn(move || {
        if let Some(core) = INITIATOR_CORE {
            probe::pin(core);
        }
        gaps(span)
    });
    let gaps = watch.join().map_err(|_| anyhow::anyhow!("the watching thread failed"))?;
    let mut lags = lags_ns(&gaps, span.as_nanos() as u64);
    lags.sort_unstable();
    let p99_ns = lags.get(lags.len() * 99 / 100).copied().unwrap_or_default();
    Ok(Sample::of(p99_ns as f64 / 1e3))
}

/// Interruptions of the watching thread, from and to, in nanoseconds.
fn gaps(span: Duration) -> Vec<(u64, u64)> {
    let mut gaps = Vec::with_capacity(1 << 16);
    let start = Instant::now();
    let mut last_ns = 0;
    while last_ns < span.as_nanos() as u64 {
        let now_ns = start.elapsed().as_nanos() as u64;
        if now_ns - last_ns > GAP_NS {
            gaps.push((last_ns, now_ns));
        }
        last_ns = now_ns;
    }
    gaps
}

/// Lag of each start within a span, one per [`SPACING_NS`].
fn lags_ns(gaps: &[(u64, u64)], span_ns: u64) -> Vec<u64> {
    let service_ns = (SPACING_NS as f64 * LOAD) as u64;
    let mut gaps = gaps.iter().peekable();
    let mut free_ns = 0;
    let starts = (0..span_ns / SPACING_NS).map(|index| index * SPACING_NS);
    let lag = |planned_ns: u64| {
        let mut start_ns = free_ns.max(planned_ns);
        while gaps.next_if(|(_, end_ns)| *end_ns <= start_ns).is_some() {}
        if let Some((_, end_ns)) = gaps.peek().filter(|(from_ns, _)| *from_ns <= start_ns) {
            start_ns = *end_ns;
        }
        free_ns = start_ns + service_ns;
        // A further gap during the delay extends it.
        while let Some((from_ns, end_ns)) = gaps.next_if(|(from_ns, _)| *from_ns < free_ns) {
            free_ns += end_ns - (*from_ns).max(start_ns).min(*end_ns);
        }
        start_ns - planned_ns
    };
    starts.map(lag).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_gap_holds_up_five_times_its_length() {
        assert!(lags_ns(&[], 1_000_000).iter().all(|lag| *lag == 0));
        // From 150 µs to 250 µs; late until 150 + 100 / (1 - 0.8) = 650 µs.
        let lags = lags_ns(&[(150_000, 250_000)], 1_000_000);
        assert_eq!(lags.len(), 666);
        let late: Vec<usize> = (0..lags.len()).filter(|index| lags[*index] > 0).collect();
        let (first, last) = (late[0] * 1500, late[late.len() - 1] * 1500);
        assert!((148_000..152_500).contains(&first), "{first}");
        assert!((645_000..655_000).contains(&last), "{last}");
        let most = lags.iter().max().unwrap();
        assert!((97_000..=101_000).contains(most), "{most}");
    }

    #[test]
    fn gaps_that_follow_each_other_add_up() {
        let lags = lags_ns(&[(10_000, 20_000), (20_100, 30_000)], 100_000);
        let most = lags.iter().max().unwrap();
        assert!((18_000..=21_000).contains(most), "{most}");
    }
}
