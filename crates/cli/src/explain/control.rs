//! What steers a worker while it runs, in words.

use job::spec::{Demand, Demands, DepthSearch, Flow, Workload};

/// What steers it while it runs.
pub(super) fn steered(workload: &Workload) -> Option<String> {
    let mut facts = Vec::new();
    if let Some(think) = workload.think {
        let counted = if think.counts_begun { "begun" } else { "done" };
        let ios = (think.after_ios > 0).then(|| format!("{} I/Os {counted}", think.after_ios));
        let time = (think.after_us > 0).then(|| micros(think.after_us));
        let after: Vec<String> = ios.into_iter().chain(time).collect();
        let spin = (think.spin_us > 0).then(|| format!(", {} of it busy", micros(think.spin_us)));
        let spin = spin.unwrap_or_default();
        facts.push(format!("thinks {}{spin} after {}", micros(think.pause_us), after.join(" or ")));
        facts.extend(think.shifts_rate.then(|| "the rate clock stops meanwhile".to_owned()));
    }
    for (word, demand) in workload.demands.iter().flat_map(Demands::each) {
        let Demand { bytes_per_second: bytes, ios_per_second: ios, latency_us } = demand;
        let least = |least: u64, unit: &str| {
            (least > 0).then(|| format!("ends below {least} {unit} per second of {word}"))
        };
        facts.extend(least(bytes, "bytes"));
        facts.extend(least(ios, "I/Os"));
        let latency =
            format!("ends when one of its {word} takes longer than {}", micros(latency_us));
        facts.extend((latency_us > 0).then_some(latency));
    }
    if let Some(search) = workload.depth_search {
        let DepthSearch { latency_us, window_us, percent, goes_on } = search;
        let until = if goes_on { "until the end" } else { "until it is found" };
        let (latency, window) = (micros(latency_us), micros(window_us));
        let depth = workload.outstanding;
        facts.push(format!(
            "searches for the queue depth, 1 to {depth}, at which {percent} % take at most \
             {latency}, in windows of {window}, {until}"
        ));
    }
    if let Some(Flow { id, weight, sleep_us }) = workload.flow {
        let sleep = (sleep_us > 0).then(|| format!(", sleeping {}", micros(sleep_us)));
        let sleep = sleep.unwrap_or_default();
        facts.push(format!("weight {weight} in flow {id}{sleep}"));
    }
    (!facts.is_empty()).then(|| facts.join(" · "))
}

fn micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        _ => format!("{} ms", us as f64 / 1000.0),
    }
}
