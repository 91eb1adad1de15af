//! View of a run in progress, or of a server, for a browser or a metrics collector: the page, its
//! document, and the same as metrics. Pure functions of a [`Moment`].

#[cfg(test)]
mod dashboard;
mod metrics;
mod served;

use std::collections::VecDeque;

use serde_json::{Value, json};
use stats::live::{About, HISTORY_SECONDS, Phase, Snapshot};
use stats::{Check, Latency, RunResult, Verdict};

use crate::job;
use crate::reason;
use crate::style::Paint;

pub use self::metrics::{metrics, open_metrics};
pub use self::served::{Served, ServedHost, ServedSecond, ServedVolume};

/// Page: self-contained, with requests only to its server.
const PAGE: &str = include_str!("watch/page.html");
/// Placeholder of the first state in the page.
const FIRST: &str = "<script type=\"application/json\" id=\"first\">null</script>";

/// Returns the page with the current state, which it draws at once and again with each event.
pub fn page(moment: &Moment) -> String {
    // The state must not close the script element.
    let state = document(moment).to_string().replace('<', "\\u003c");
    PAGE.replacen(FIRST, &FIRST.replace("null", &state), 1)
}

/// Everything that is known at a moment.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Activity of the program.
    pub stage: Stage,
    /// Description of a run.
    pub about: About,
    /// The latest second; `None` before the first.
    pub snapshot: Option<Snapshot>,
    /// Past seconds, the oldest first; at most [`HISTORY_SECONDS`].
    pub past: VecDeque<Past>,
    /// Highest rate of the measured window, in I/Os per second.
    pub most_iops: f64,
    /// Latest verdicts of the honesty checks.
    pub checks: Vec<Check>,
    /// Class of the result; empty before it is known.
    pub verdict: String,
    /// Progress of a sweep; `None` without one.
    pub sweep: Option<Progress>,
    /// Volumes and portals of a server.
    pub served: Option<Served>,
    /// A line of log: the latest.
    pub line: String,
}

/// Activity of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// Opens, lays out, connects.
    #[default]
    Preparing,
    /// Drives.
    Running,
    /// A server serves.
    Serving,
    /// The run is over, and its result is there.
    Ended,
}

impl Stage {
    fn word(self) -> &'static str {
        match self {
            Stage::Preparing => "preparing",
            Stage::Running => "running",
            Stage::Serving => "serving",
            Stage::Ended => "ended",
        }
    }
}

/// A second of the past.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Past {
    /// I/Os per second.
    pub iops: f64,
    /// Half of the I/Os were faster, in nanoseconds.
    pub p50_ns: Option<u64>,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: Option<u64>,
}

/// Progress of a sweep.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Progress {
    /// Runs that are done.
    pub done: usize,
    /// Runs that there are to be.
    pub planned: usize,
    /// Cell that is being measured.
    pub cell: String,
}

impl Moment {
    /// Takes a second of a run in.
    pub fn second(&mut self, snapshot: &Snapshot) {
        self.stage = Stage::Running;
        let of = &snapshot.latency_ns;
        self.remember(Past { iops: snapshot.iops, p50_ns: of.p50, p99_ns: of.p99 });
        if snapshot.phase == Phase::Run {
            self.most_iops = self.most_iops.max(snapshot.iops);
        }
        self.snapshot = Some(snapshot.clone());
    }

    /// Takes a second of a server in.
    pub fn serve(&mut self, mut served: Served) {
        self.stage = Stage::Serving;
        if let Some(before) = &self.served {
            served.follow(before);
        }
        if let Some(past) = served.past() {
            self.remember(past);
        }
        self.served = Some(served);
    }

    fn remember(&mut self, past: Past) {
        if self.past.len() == HISTORY_SECONDS {
            self.past.pop_front();
        }
        self.past.push_back(past);
    }

    /// Starts a run and forgets the previous one.
    pub fn begin(&mut self, about: &About) {
        let (sweep, served) = (self.sweep.take(), self.served.take());
        *self = Moment { about: about.clone(), sweep, served, ..Moment::default() };
    }

    /// Updates the verdicts of the checks.
    pub fn judge(&mut self, result: &RunResult) {
        self.checks.clone_from(&result.checks);
        self.verdict = reason::verdict(result);
    }

    /// The run is over.
    pub fn end(&mut self, result: &RunResult) {
        self.judge(result);
        self.stage = Stage::Ended;
        self.line = reason::headline(result, Paint::PLAIN);
    }
}

/// Returns the document that the page draws. Its names are the contract of `/api/state`.
pub fn document(moment: &Moment) -> Value {
    let Moment { about, snapshot, .. } = moment;
    let past = moment.past.iter().map(|past| json!([finite(past.iops), past.p50_ns, past.p99_ns]));
    let sweep = moment
        .sweep
        .as_ref()
        .map(|of| json!({ "done": of.done, "planned": of.planned, "cell": of.cell }));
    json!({
        "stage": moment.stage.word(),
        "name": about.job.name,
        "job": job::kind(&about.job),
        "origin": about.origin.with(about.kind),
        "cores": about.cores,
        "has_targets": about.job.targets > 0,
        "second": snapshot.as_ref().map(second),
        "past": past.collect::<Vec<Value>>(),
        "most_iops": moment.most_iops,
        "lamps": lamps(moment),
        "verdict": moment.verdict,
        "sweep": sweep,
        "served": moment.served.as_ref().map(Served::document),
        "line": moment.line,
    })
}

fn second(of: &Snapshot) -> Value {
    let workers = of.workers.iter().map(|worker| {
        json!({
            "name": worker.name,
            "volume": worker.volume,
            "target": worker.target,
            "iops": finite(worker.iops),
            "bytes_per_second": finite(worker.bytes_per_second),
            "errors": worker.errors,
            "latency_ns": latency(&worker.latency_ns),
            "oldest_ns": worker.oldest_ns,
        })
    });
    let targets = of.targets.iter().map(|of| json!({ "name": of.name, "iops": finite(of.iops) }));
    json!({
        "t_s": finite(of.t_s),
        "phase": of.phase.word(),
        "seconds_left": of.seconds_left,
        "iops": finite(of.iops),
        "bytes_per_second": finite(of.bytes_per_second),
        "latency_ns": latency(&of.latency_ns),
        "targets": targets.collect::<Vec<Value>>(),
        "slower": of.slower,
        "workers": workers.collect::<Vec<Value>>(),
        "errors": of.errors,
        "connections_lost": of.connections_lost,
        "reconnects": of.reconnects,
        "outstanding": finite(of.outstanding),
        "oldest_ns": of.oldest_ns,
        "cpu": {
            "initiator_cores": of.cpu.initiator_cores,
            "target_cores": of.cpu.target_cores,
            "host_percent": of.cpu.host_percent,
            "per_core_percent": of.cpu.per_core_percent,
        },
    })
}

fn latency(of: &Latency) -> Value {
    json!({ "mean": of.mean, "p50": of.p50, "p99": of.p99, "p99_9": of.p99_9, "max": of.max })
}

/// JSON knows no infinity.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Returns reasons against the current figures, in words: first those of this second, then the
/// checks of the result so far that did not pass.
fn lamps(moment: &Moment) -> Vec<Value> {
    let lamp =
        |verdict: Verdict, words: String| json!({ "verdict": verdict.word(), "words": words });
    let mut lamps = Vec::new();
    if let Some(now) = &moment.snapshot {
        lamps.push(match now.errors {
            0 => lamp(Verdict::Pass, "no errors".to_owned()),
            n => lamp(Verdict::Fail, crate::figure::plural(n, "error")),
        });
        if now.connections_lost > 0 {
            let lost = crate::figure::plural(now.connections_lost, "connection");
            lamps.push(lamp(Verdict::Warn, format!("{lost} lost, {} made again", now.reconnects)));
        }
        if let Some(oldest) = now.oldest_ns.filter(|ns| *ns >= 1_000_000_000) {
            let oldest = crate::figure::span(oldest as f64);
            lamps.push(lamp(Verdict::Warn, format!("an I/O has been in flight for {oldest}")));
        }
        if now.cpu.host_percent.is_some_and(|percent| percent >= 99.0) {
            lamps.push(lamp(Verdict::Warn, "every CPU of this host is busy".to_owned()));
        }
        if moment.about.job.loopback && moment.checks.is_empty() {
            lamps.push(lamp(Verdict::Warn, "loopback, no wire".to_owned()));
        }
    }
    let against = reason::in_order(&moment.checks).into_iter();
    let against = against.filter(|check| check.verdict.is_against());
    lamps.extend(against.map(|check| {
        let words = format!("{} {}", check.code, reason::words(check));
        json!({ "verdict": check.verdict.word(), "words": words, "evidence": check.evidence })
    }));
    lamps
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn the_document_has_what_the_second_had_and_any_number_is_json() {
        let mut moment = Moment::default();
        assert_eq!(document(&moment)["stage"], "preparing");
        moment.begin(&sample::about());
        for _ in 0..100 {
            moment.second(&sample::snapshot());
        }
        let said = document(&moment);
        assert_eq!(said["second"]["iops"], 3_412_345.6);
        assert_eq!(said["past"].as_array().unwrap().len(), HISTORY_SECONDS);
        assert_eq!(said["most_iops"], 3_412_345.6);
        assert_eq!(said["lamps"][0]["words"], "no errors");
        moment.second(&Snapshot { iops: f64::NAN, ..sample::snapshot() });
        assert!(document(&moment)["second"]["iops"].is_null());
        moment.end(&sample::race());
        let said = document(&moment);
        assert_eq!(said["stage"], "ended");
        assert!(said["verdict"].as_str().unwrap().starts_with("indicative"));
    }

    #[test]
    fn the_page_comes_with_the_first_state_and_no_name_ends_it() {
        let verdict = "</script><script>alert(1)".to_owned();
        let moment = Moment { verdict, ..Moment::default() };
        let page = page(&moment);
        assert!(PAGE.contains(FIRST) && !page.contains(FIRST));
        assert_eq!(page.matches("</script>").count(), PAGE.matches("</script>").count());
        let state = page.split_once("id=\"first\">").unwrap().1.split_once("</script>").unwrap().0;
        assert_eq!(serde_json::from_str::<Value>(state).unwrap(), document(&moment));
    }

    #[test]
    fn the_page_fetches_nothing_from_elsewhere() {
        for outside in ["http://", "https://", "@import", "url(", "<link", " src="] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        // Text from names is set as text, never as markup.
        assert!(!PAGE.contains("innerHTML") && !PAGE.contains("document.write"));
    }
}
