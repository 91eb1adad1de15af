//! The job of a situation.

use job::spec::{
    Access, Arrivals, Line, Pacing, RunSpec, Shift, Verify, When, WorkerSpec, Workload,
};
use load::Prepared;
use volume::{Purpose, Uri};

use super::medium;
use super::script::Script;
use super::situation::{PACES, Situation};

/// Mixed sizes in bytes, with their weights.
const SIZES: [&[(u32, f64)]; 3] =
    [&[(4096, 100.0)], &[(512, 75.0), (16_384, 25.0)], &[(4096, 50.0), (8192, 30.0), (512, 20.0)]];

/// Planned IOPS of each worker in an open loop.
pub(super) fn rate(situation: &Situation, capacity: f64) -> f64 {
    (capacity * situation.load as f64 / 100.0).max(0.1)
}

/// Mean I/O size in bytes.
pub(super) fn mean_bytes(situation: &Situation) -> f64 {
    let sizes = SIZES[situation.sizes as usize - 1];
    sizes.iter().map(|(bytes, share)| f64::from(*bytes) * share / 100.0).sum()
}

/// The job.
pub(super) fn of(situation: &Situation, script: &Script) -> Result<Prepared, String> {
    let size = format!("null:{}k", medium::bytes(situation) >> 10);
    let uri: Uri = size.parse().map_err(|error| format!("{error}"))?;
    let open = |_| volume::open(&uri, Purpose::Write).map_err(|error| format!("{error}"));
    let volumes = (0..situation.volumes).map(open).collect::<Result<Vec<_>, _>>()?;
    let line = |(bytes, share): &(u32, f64)| Line {
        share_percent: *share,
        delay_us: situation.pause,
        burst: if situation.pause > 0 { 3 } else { 1 },
        ..Line::new(*bytes, situation.reads as f64, 100.0)
    };
    let lines = SIZES[situation.sizes as usize - 1].iter().map(line);
    let access = Access { flush_every: situation.flush as u32, ..Access::of(lines.collect()) };
    let workload = |number| Workload {
        pacing: pacing(situation, script.capacity()),
        limit_ios: situation.limit_of(number),
        refill_at: Some(situation.refill.min(situation.depth_of(number) - 1) as u32)
            .filter(|_| situation.refill > 0),
        verify: (situation.verify > 0).then(|| Verify { fill: false, ..Verify::default() }),
        ..Workload::new(access.clone(), situation.depth_of(number) as u32)
    };
    let ms = |ms: u64| ms as f64 / 1e3;
    let shift = |number| {
        let (delay, warm, length) = situation.times_of(number);
        let when = When {
            after: String::new(),
            delay_seconds: ms(delay),
            seconds: length.map(ms),
            ramp_seconds: ms(warm),
        };
        Shift { when, ..Shift::default() }
    };
    let worker = |number: usize| WorkerSpec {
        name: format!("worker {number}"),
        volume: situation.volume_of(number),
        uri: format!("{size} of volume {}", situation.volume_of(number)),
        number: number as u64,
        shift: shift(number),
        ..WorkerSpec::new(workload(number))
    };
    let spec = RunSpec {
        workers: (0..situation.workers as usize).map(worker).collect(),
        seconds: ms(situation.window),
        ramp_seconds: ms(situation.ramp),
        seed: situation.seed,
        cores: vec![0],
        ..RunSpec::default()
    };
    Ok(Prepared { spec, volumes, targets: None })
}

fn pacing(situation: &Situation, capacity: f64) -> Pacing {
    let per_second = rate(situation, capacity);
    let arrivals = Arrivals::Constant;
    match PACES[situation.pace as usize] {
        "rate" => Pacing::Ios { per_second, arrivals },
        "poisson" => Pacing::Ios { per_second, arrivals: Arrivals::Poisson },
        "bytes" => Pacing::Bytes { per_second: per_second * mean_bytes(situation), arrivals },
        _ => Pacing::Closed,
    }
}
