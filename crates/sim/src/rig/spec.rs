//! The job of a situation, in the words of `load`.

use std::sync::Arc;

use load::spec::{Access, Arrivals, Line, Pacing, Part, Workload};
use load::{RunSpec, WorkerSpec};
use volume::{Purpose, Uri};

use super::script::Script;
use super::situation::{PACES, Situation};

/// Sizes that are mixed, in bytes, and how often each is drawn.
const SIZES: [&[(u32, f64)]; 3] =
    [&[(4096, 100.0)], &[(512, 75.0), (16_384, 25.0)], &[(4096, 50.0), (8192, 30.0), (512, 20.0)]];

impl Situation {
    /// After how many I/Os a worker ends, if it does.
    pub(super) fn limit_of(&self, worker: usize) -> Option<u64> {
        (worker == 0 && self.limit > 0).then_some(self.limit)
    }
}

/// I/Os per second that are planned for each worker of an open loop.
pub(super) fn rate(situation: &Situation, capacity: f64) -> f64 {
    (capacity * situation.load as f64 / 100.0).max(0.1)
}

/// Mean length of the I/Os, in bytes.
pub(super) fn mean_bytes(situation: &Situation) -> f64 {
    let sizes = SIZES[situation.sizes as usize - 1];
    sizes.iter().map(|(bytes, share)| f64::from(*bytes) * share / 100.0).sum()
}

/// The job.
pub(super) fn of(situation: &Situation, script: &Script) -> Result<RunSpec, String> {
    let uri: Uri = "null:64m".parse().map_err(|error| format!("{error}"))?;
    let volume = volume::open(&uri, Purpose::Write).map_err(|error| format!("{error}"))?;
    let line = |(bytes, share): &(u32, f64)| Line {
        share_percent: *share,
        ..Line::new(*bytes, situation.reads as f64, 100.0)
    };
    let lines = SIZES[situation.sizes as usize - 1].iter().map(line);
    let workload = Workload {
        pacing: pacing(situation, script.capacity()),
        ..Workload::new(Access::of(lines.collect()), situation.depth as u32)
    };
    let worker = |number: usize| WorkerSpec {
        name: format!("worker {number}"),
        volume: volume.clone(),
        uri: format!("null:64m of volume {}", situation.volume_of(number)),
        target: String::new(),
        workload: Arc::new(Workload {
            limit_ios: situation.limit_of(number),
            ..workload.clone()
        }),
        number: number as u64,
        part: Part::WHOLE,
        shift: Default::default(),
    };
    Ok(RunSpec {
        job: Default::default(),
        document: Default::default(),
        workers: (0..situation.workers as usize).map(worker).collect(),
        seconds: situation.window as f64 / 1e3,
        ramp_seconds: situation.ramp as f64 / 1e3,
        ends_with_first: false,
        steady: None,
        seed: situation.seed,
        cores: vec![0],
        ledgers: None,
        targets: None,
    })
}

fn pacing(situation: &Situation, capacity: f64) -> Pacing {
    let per_second = rate(situation, capacity);
    let arrivals = Arrivals::Constant;
    match PACES[situation.pace as usize] {
        "rate" => Pacing::Ios { per_second, arrivals },
        "poisson" => Pacing::Ios { per_second, arrivals: Arrivals::Poisson },
        "bytes" => {
            Pacing::Bytes { per_second: per_second * mean_bytes(situation), arrivals }
        }
        _ => Pacing::Closed,
    }
}
