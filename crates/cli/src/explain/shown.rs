//! What of a group is shown and logged in fio's forms, in words.

use job::spec::{Directions, Figures, Logs};

/// What fio's forms show of it, where that is not what they always show.
pub(super) fn figures(figures: &Figures) -> Option<String> {
    let mut facts = Vec::new();
    if !figures.percentiles.is_empty() {
        let list: Vec<String> = figures.percentiles.iter().map(f64::to_string).collect();
        facts.push(format!("percentiles {}", list.join(", ")));
    }
    facts.extend((!figures.of_completion).then(|| "none of clat".to_owned()));
    facts.extend(figures.of_whole.then(|| "those of lat too".to_owned()));
    facts.extend(match figures.directions {
        Directions::Apart => None,
        Directions::Mixed => Some("all directions as one".to_owned()),
        Directions::Both => Some("all directions as one too".to_owned()),
    });
    (!facts.is_empty()).then(|| format!("    shows {}", facts.join(" · ")))
}

/// The logs that are written of it.
pub(super) fn logs(logs: &Logs) -> Option<String> {
    let words = [
        ("_bw", logs.bandwidth.as_slice()),
        ("_iops", logs.iops.as_slice()),
        ("_lat", logs.latency.as_slice()),
        ("_clat", logs.latency.as_slice()),
    ];
    let number = match (logs.joined, logs.jobs) {
        (true, _) => String::new(),
        (false, 1) => format!(".{}", logs.first),
        (false, jobs) => format!(".{}…{}", logs.first, logs.first.saturating_add(jobs - 1)),
    };
    let all =
        words.into_iter().flat_map(|(word, names)| names.iter().map(move |name| (name, word)));
    let all: Vec<String> = all.map(|(name, word)| format!("{name}{word}{number}.log")).collect();
    let line = match logs.window_ms {
        0 => "each I/O".to_owned(),
        ms => format!("each {ms} ms"),
    };
    let lines = (!all.is_empty()).then(|| format!("logs {}, a line for {line}", all.join(", ")));
    let trace = logs.trace.as_ref().map(|path| format!("trace {path}"));
    let histograms = logs.histograms.as_ref().map(|log| {
        format!(
            "histograms {}_clat_hist{number}.log, a line for each {} ms",
            log.name, log.window_ms
        )
    });
    let facts: Vec<String> = lines.into_iter().chain(histograms).chain(trace).collect();
    (!facts.is_empty()).then(|| format!("    {}", facts.join(" · ")))
}
