//! Prediction of a system: IOPS, bandwidth, latency, utilisation, and the bottleneck.

use model::{Caveat, Class, Method, Solution, solve};
use serde::Serialize;

use crate::bill::Bill;
use crate::system::{Input, Level, Load, PlanError, System, Tweak};
use catalogue::Kind;

/// Predicted performance of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// I/Os per second.
    pub iops: f64,
    /// Payload per second.
    pub bytes_per_s: f64,
    /// Mean time from issue to done, in seconds.
    pub latency_s: f64,
    /// Mean I/Os in flight.
    pub outstanding: f64,
    /// Share of all cores in use; `None` if no software is named.
    pub processor: Option<f64>,
    /// Utilisation of all resources, the busiest first.
    pub uses: Vec<Use>,
    /// Method by which the network was solved.
    pub method: &'static str,
    /// Omissions and assumptions.
    pub remarks: Vec<String>,
    /// Least certain kind of the figures; `derived` if there are none.
    pub kind: Kind,
    /// Figures behind the prediction.
    pub inputs: Vec<Input>,
}

/// Utilisation of a resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Use {
    /// Name of the resource.
    pub name: String,
    /// Level of the resource above the medium.
    pub level: Level,
    /// Utilisation, 0 to 1.
    pub utilisation: f64,
    /// Kind of the figure that determines its rate.
    pub kind: Kind,
}

impl Prediction {
    /// Returns the bottleneck: the busiest resource.
    pub fn bottleneck(&self) -> Option<&Use> {
        self.uses.first()
    }
}

/// Limit of a system.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// Queue depth: too few I/Os are in flight to keep any part busy.
    QueueDepth {
        /// Queue depth of each drive or port that would keep the busiest part at work for nine
        /// tenths of the time; `None` if there is none, such as when a drive accepts no more
        /// commands at once.
        lifts: Option<u32>,
        /// True if that is the total of all drives, as the bill counts.
        in_all: bool,
    },
    /// Parts, of which ten percent more bring the greatest gain.
    Parts {
        /// Level of the parts.
        level: Level,
    },
    /// Serialized software, or a layer of the bill.
    Layer {
        /// Name of the layer.
        name: String,
    },
    /// Latency of a lone I/O at parts that are not busy: faster parts bring the greatest gain, and
    /// more of them none.
    Latency {
        /// Level of the parts.
        level: Level,
        /// Utilisation of the parts, 0 to 1.
        utilisation: f64,
    },
    /// Submitting threads: each is busy, and the host has cores that none of them uses.
    Jobs {
        /// Number of threads.
        jobs: u32,
    },
}

impl Limit {
    /// Describes the limit as text.
    pub fn words(&self) -> String {
        match self {
            Limit::QueueDepth { lifts: Some(depth), in_all } => {
                let whose = if *in_all { "in all" } else { "on each" };
                format!("queue depth: {depth} in flight {whose} would lift it")
            }
            Limit::QueueDepth { lifts: None, .. } => {
                "queue depth, and the drives take no more commands at once".to_owned()
            }
            Limit::Parts { level } => level.word().to_owned(),
            Limit::Layer { name } => name.clone(),
            Limit::Latency { level: Level::Layer, .. } => {
                "latency of the layers, not their throughput".to_owned()
            }
            Limit::Latency { level, utilisation } => {
                let whose = match level {
                    Level::Processor => "the software, not its throughput",
                    level => level.word(),
                };
                let busy = utilisation * 100.0;
                format!("latency of {whose}: {} {busy:.0} % busy", level.word())
            }
            Limit::Jobs { jobs: 1 } => {
                "jobs: the one submitting thread is busy; more jobs would lift it".to_owned()
            }
            Limit::Jobs { jobs } => {
                format!("jobs: all {jobs} submitting threads are busy; more jobs would lift it")
            }
        }
    }

    /// Returns the limit for the level of which ten percent more bring the greatest gain.
    fn of(bill: &Bill, found: &Prediction, level: Level) -> Limit {
        let Some(busiest) = found.uses.iter().find(|used| used.level == level) else {
            return Limit::Parts { level };
        };
        if busiest.utilisation < BUSY {
            return Limit::Latency { level, utilisation: busiest.utilisation };
        }
        if level == Level::Layer {
            return Limit::Layer { name: busiest.name.clone() };
        }
        let ours = busiest.name.starts_with("processor, ");
        match bill.unused_cores().filter(|_| ours) {
            Some(jobs) => Limit::Jobs { jobs },
            None => Limit::Parts { level },
        }
    }
}

/// Minimum utilisation of the busiest part for it to be the limit.
pub(crate) const BUSY: f64 = 0.85;
/// Utilisation at which a part is the limit.
const FULL: f64 = 0.9;

/// Returns the limit of a bill. If a part is named, no other part would bring more if it were
/// faster; if the queue depth is, a deeper one brings more than any faster part.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn limit(bill: &Bill, what_ifs: &[WhatIf]) -> Result<Option<Limit>, PlanError> {
    let base = predict(bill, &Tweak::default())?;
    let Some(best) = what_ifs.first() else { return Ok(None) };
    if base.bottleneck().is_none_or(|busiest| busiest.utilisation >= BUSY) {
        return Ok(Some(Limit::of(bill, &base, best.level)));
    }
    let at = |depth: u32| predict(&bill.deepened(depth), &Tweak::default());
    let now = bill.work.outstanding;
    let more = now.saturating_add(now.div_ceil(10));
    let gains = (at(more)?.iops / base.iops).ln() / (f64::from(more) / f64::from(now)).ln();
    if gains < best.gain.ln() / best.factor.ln() {
        return Ok(Some(Limit::of(bill, &base, best.level)));
    }
    let full =
        |depth| Ok::<_, PlanError>(at(depth)?.bottleneck().is_some_and(|u| u.utilisation >= FULL));
    let (mut low, mut high) = (now, now.max(1));
    while !full(high)? {
        if high >= 16_384 {
            return Ok(Some(Limit::QueueDepth { lifts: None, in_all: false }));
        }
        (low, high) = (high, high.saturating_mul(2));
    }
    while high - low > 1 + low / 20 {
        let middle = low + (high - low) / 2;
        if full(middle)? { high = middle } else { low = middle }
    }
    let lifts = bill.deepened(high).setup.in_flight.unwrap_or(high);
    Ok(Some(Limit::QueueDepth { lifts: Some(lifts), in_all: bill.setup.in_flight.is_some() }))
}

/// Predicts a bill.
///
/// # Errors
///
/// [`PlanError`] for missing figures, and errors of `model`.
pub fn predict(bill: &Bill, tweak: &Tweak) -> Result<Prediction, PlanError> {
    predict_by(bill, tweak, Method::Auto)
}

/// Predicts a bill by the given method.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn predict_by(bill: &Bill, tweak: &Tweak, method: Method) -> Result<Prediction, PlanError> {
    let system = System::build(bill, tweak)?;
    let solution = solve(&system.network, method)?;
    let hosts = bill.host_factor();
    let iops = solution.throughput_per_s();
    let mut uses: Vec<Use> = system.resources.iter().map(|r| used(r, &solution, iops)).collect();
    // The sort is stable, so equal elements retain their order and the result is the same each
    // time.
    uses.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    // An approximate solution may exceed 1 in the last digits.
    uses.iter_mut().for_each(|used| used.utilisation = used.utilisation.min(1.0));
    let processor = uses.iter().find(|u| u.level == Level::Processor).map(|u| u.utilisation);
    let mut remarks = system.remarks;
    remarks.extend(solution.caveats.iter().filter_map(caveat).map(str::to_owned));
    remarks.dedup();
    Ok(Prediction {
        iops: iops * hosts,
        bytes_per_s: iops * hosts * bill.work.size_bytes,
        latency_s: solution.response_s(),
        outstanding: solution.classes.iter().map(|class| class.outstanding).sum::<f64>() * hosts,
        processor,
        uses,
        method: match solution.method {
            Some(Method::Exact) => "exact mean value analysis",
            Some(Method::Linearizer) => "Linearizer",
            _ => "Schweitzer",
        },
        remarks,
        kind: least_sure(&system.inputs),
        inputs: system.inputs,
    })
}

/// Returns the rate of a bill by the given method, without the rest of its prediction.
pub(crate) fn rate_by(bill: &Bill, tweak: &Tweak, method: Method) -> Result<f64, PlanError> {
    let system = System::build(bill, tweak)?;
    Ok(solve(&system.network, method)?.throughput_per_s() * bill.host_factor())
}

/// Returns the least certain kind of figures; `derived` without any.
pub(crate) fn least_sure(inputs: &[Input]) -> Kind {
    inputs.iter().map(|input| input.known.kind).max().unwrap_or(Kind::Derived)
}

fn used(resource: &crate::system::Resource, solution: &Solution, iops: f64) -> Use {
    let utilisation = match &resource.load {
        Load::Stations(stations) => {
            let each = stations.iter().map(|at| solution.stations[at.0 as usize].utilisation);
            each.fold(0.0, f64::max)
        }
        Load::PerIo(seconds) => iops * seconds,
    };
    let (name, level, kind) = (resource.name.clone(), resource.level, resource.kind);
    Use { name, level, utilisation, kind }
}

fn caveat(caveat: &Caveat) -> Option<&'static str> {
    match caveat {
        Caveat::Approximate => Some("the means are approximate"),
        Caveat::SplitServers(_) => None,
        Caveat::UnequalService(_) => Some("different times in one queue are taken as their mean"),
        _ => None,
    }
}

/// Results of a system with I/Os that arrive at a rate, whatever the queue depth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Arriving {
    /// Arrival rate, in I/Os per second, at random times.
    pub rate: f64,
    /// Mean time from arrival to done, in seconds.
    pub response_s: f64,
    /// Mean I/Os in flight.
    pub outstanding: f64,
    /// Utilisation of all resources, the busiest first.
    pub uses: Vec<Use>,
}

/// Predicts I/Os that arrive at random, spread evenly over the drives. There is no published result
/// of this kind that names all of its parts: the prediction has no interval.
///
/// # Errors
///
/// Errors of [`predict`]; [`ModelError::Overload`] if the arrival rate exceeds the maximum rate.
pub fn arriving(bill: &Bill, rate: f64) -> Result<Arriving, PlanError> {
    let mut bill = bill.clone();
    // The reordering of a drive's queue does not apply to random arrivals.
    (bill.work.outstanding, bill.setup.in_flight) = (1, None);
    let mut system = System::build(&bill, &Tweak::default())?;
    let each = rate / f64::from(bill.setup.up()) / system.network.classes.len().max(1) as f64;
    for class in &mut system.network.classes {
        let route = std::mem::take(&mut class.route);
        *class = Class { route, ..Class::open(class.name.clone(), each) };
    }
    let solution = solve(&system.network, Method::Auto)?;
    let iops = solution.throughput_per_s();
    let mut uses: Vec<Use> = system.resources.iter().map(|r| used(r, &solution, iops)).collect();
    uses.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
    let response_s = solution.response_s();
    Ok(Arriving { rate, response_s, outstanding: rate * response_s, uses })
}

/// Returns the maximum IOPS of the bill, whatever the distributions of its times: the asymptotic
/// bound of `model`, which needs means only.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn bound(bill: &Bill) -> Result<f64, PlanError> {
    let system = System::build(bill, &Tweak::default())?;
    let hosts = bill.host_factor();
    Ok(model::laws::bounds(&system.network)?.throughput_per_s_high * hosts)
}

/// One step of the waterfall from ratings to the prediction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fall {
    /// Highest level of the included parts.
    pub up_to: Level,
    /// IOPS with these parts and nothing else.
    pub iops: f64,
    /// Kind of the figures of that level.
    pub kind: Kind,
}

/// Returns the waterfall from the drives alone to the whole system, one more level at each step.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn waterfall(bill: &Bill) -> Result<Vec<Fall>, PlanError> {
    let whole = System::build(bill, &Tweak::default())?;
    let mut falls = Vec::new();
    for level in Level::ALL {
        if whole.resources.iter().any(|resource| resource.level == level) {
            let tweak = Tweak { up_to: Some(level), ..Tweak::default() };
            let kinds = whole.resources.iter().filter(|resource| resource.level == level);
            let kind = kinds.map(|resource| resource.kind).max().unwrap_or(Kind::Derived);
            falls.push(Fall { up_to: level, iops: predict(bill, &tweak)?.iops, kind });
        }
    }
    Ok(falls)
}

/// Effect of a faster level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// Level that is faster.
    pub level: Level,
    /// Factor by which it is faster: 1.1 is ten percent.
    pub factor: f64,
    /// Ratio of the new IOPS to the present ones.
    pub gain: f64,
    /// New bottleneck, with its utilisation.
    pub next: Option<Use>,
}

/// Returns the effect of each level being ten percent faster, one at a time, the greatest gain
/// first.
///
/// # Errors
///
/// Errors of [`predict`].
pub fn what_if(bill: &Bill) -> Result<Vec<WhatIf>, PlanError> {
    let base = predict(bill, &Tweak::default())?;
    let factor = 1.1;
    let mut all = Vec::new();
    for level in Level::ALL {
        if base.uses.iter().any(|u| u.level == level) {
            let tweak = Tweak { faster: Some((level, factor)), ..Tweak::default() };
            let then = predict(bill, &tweak)?;
            let gain = then.iops / base.iops;
            all.push(WhatIf { level, factor, gain, next: then.bottleneck().cloned() });
        }
    }
    all.sort_by(|a, b| b.gain.total_cmp(&a.gain));
    Ok(all)
}

#[cfg(test)]
mod test {
    use super::*;
    use catalogue::Catalogue;

    fn read(text: &str) -> Bill {
        Bill::read("b.toml", text, &Catalogue::shipped()).unwrap_or_else(|error| panic!("{error}"))
    }

    fn intel() -> Bill {
        read(include_str!("../systems/intel-ssd.toml"))
    }

    #[test]
    fn twenty_eight_drives() {
        let found = predict(&intel(), &Tweak::default()).unwrap();
        assert!((975e3..980.5e3).contains(&found.iops), "{}", found.iops);
        // Little's law relates the three means.
        assert!((found.iops * found.latency_s / found.outstanding - 1.0).abs() < 1e-6);
        assert_eq!(found.outstanding.round(), 896.0);
        assert_eq!(found.bottleneck().unwrap().level, Level::Drive);
        assert_eq!(found.bottleneck().unwrap().kind, Kind::Spec);
        assert!((0.75..0.85).contains(&found.processor.unwrap()));
        let most = bound(&intel()).unwrap();
        assert!(found.iops <= most * 1.001 && (most / 980e3 - 1.0).abs() < 1e-6, "{most}");
        let again = predict(&intel(), &Tweak::default()).unwrap();
        assert_eq!(found, again, "the same bits each time");
    }

    #[test]
    fn each_level_takes_something_away_and_the_last_is_the_answer() {
        let falls = waterfall(&intel()).unwrap();
        let levels: Vec<Level> = falls.iter().map(|fall| fall.up_to).collect();
        assert_eq!(levels, [Level::Drive, Level::Adapter, Level::Slot, Level::Processor]);
        assert!((falls[0].iops / 980e3 - 1.0).abs() < 1e-3, "the rated sum");
        let whole = predict(&intel(), &Tweak::default()).unwrap();
        assert_eq!(falls.last().unwrap().iops, whole.iops);
        let falls_down = |pair: &[Fall]| pair[1].iops <= pair[0].iops * 1.001;
        assert!(falls.windows(2).all(falls_down), "{falls:?}");
    }

    #[test]
    fn faster_drives_meet_the_adapters() {
        let changes = what_if(&intel()).unwrap();
        assert_eq!(changes[0].level, Level::Drive);
        // 8 drives of 38.5K are more than an adapter of 300K passes.
        assert!((1.07..1.095).contains(&changes[0].gain), "{}", changes[0].gain);
        assert_eq!(changes[0].next.as_ref().unwrap().level, Level::Adapter);
        assert!(changes[1..].iter().all(|change| change.gain < 1.002));
    }

    #[test]
    fn depth_one_is_the_latency_of_the_drive() {
        let text = "name = 'x'\nsize = '4k'\noutstanding = 1\n[[group]]\ndrive = 'x25-m'\n";
        let found = predict(&read(text), &Tweak::default()).unwrap();
        assert!((found.latency_s / 65e-6 - 1.0).abs() < 1e-9, "{}", found.latency_s);
        assert!((found.iops * 65e-6 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn large_blocks_are_limited_by_bytes() {
        let text = "name = 'x'\nsize = '1m'\noutstanding = 32\n[[group]]\ndrive = 'x25-m'\n";
        let found = predict(&read(text), &Tweak::default()).unwrap();
        assert!((found.bytes_per_s / 250e6 - 1.0).abs() < 1e-3, "{}", found.bytes_per_s);
    }

    #[test]
    fn a_mix_on_flash_is_its_rated_mix() {
        let drive = "name = 'x'\nread = 70\nsize = '4k'\noutstanding = 256\n[[group]]\n\
            drive = 'micron-9550-max-6400'\n";
        let found = predict(&read(drive), &Tweak::default()).unwrap();
        assert!((found.iops / 720e3 - 1.0).abs() < 1e-3, "{}", found.iops);
        // If no mix is rated, the prediction reports its assumption.
        let other = drive.replace("micron-9550-max-6400", "pm1735");
        let found = predict(&read(&other), &Tweak::default()).unwrap();
        assert!(found.remarks.iter().any(|remark| remark.contains("mix")), "{:?}", found.remarks);
    }

    #[test]
    fn every_bill_that_comes_along_has_an_answer_with_its_chance() {
        for text in [
            include_str!("../systems/marvell-read.toml"),
            include_str!("../systems/marvell-write.toml"),
            include_str!("../systems/marvell-link.toml"),
            include_str!("../systems/intel-iscsi.toml"),
            include_str!("../systems/iscsi-wire.toml"),
            include_str!("../systems/thirdio-fc.toml"),
            include_str!("../systems/p4800x.toml"),
            include_str!("../systems/fc-port.toml"),
            include_str!("../systems/spdk-24.toml"),
        ] {
            let bill = read(text);
            let found = predict(&bill, &Tweak::default()).unwrap();
            let sure = crate::chance::chance(&bill, 10, 1, None).unwrap();
            assert!(found.iops <= bound(&bill).unwrap() * 1.001, "{}", bill.name);
            assert!(sure.iops.p10 <= sure.iops.p90 && found.iops > 0.0, "{}", bill.name);
            assert!(!waterfall(&bill).unwrap().is_empty() && !what_if(&bill).unwrap().is_empty());
        }
    }

    #[test]
    fn what_is_not_busy_limits_by_its_latency_and_threads_by_their_number() {
        let said = |head: &str, drive: &str| {
            let bill = read(&format!("name = 'x'\nsize = '4k'\n{head}[[group]]\n{drive}\n"));
            limit(&bill, &what_if(&bill).unwrap()).unwrap().unwrap()
        };
        let drive = "drive = 'p5800x-800'";
        // Two of 16 cores submit, and both are busy.
        let head = "software = 'linux-libaio'\ncores = 16\noutstanding = 256\n";
        let found = said(&format!("{head}jobs = 2\n"), drive);
        assert_eq!(found, Limit::Jobs { jobs: 2 });
        assert!(found.words().starts_with("jobs: all 2 submitting threads"), "{}", found.words());
        // With all cores it is the drive.
        let found = said(head, drive);
        assert_eq!(found, Limit::Parts { level: Level::Drive }, "{}", found.words());
        // If there are as few cores as threads, it is the cores.
        let head = "software = 'linux-libaio'\ncores = 2\njobs = 2\noutstanding = 256\n";
        assert_eq!(said(head, drive), Limit::Parts { level: Level::Processor });
        // Software has a latency of 5 ms with 2 us of CPU time, and the drive has no deeper queue.
        let slow = "[source.me]\ntitle = 'me'\n[[part]]\nid = 'slow'\nname = 'Slow'\n\
            class = 'software'\nfigures = [{ is = 'core_time', value = 2, unit = 'us', \
            kind = 'guess', source = 'me' }, { is = 'added_latency', value = 5, unit = 'ms', \
            kind = 'guess', source = 'me' }]\n";
        let head = "software = 'slow'\ncores = 8\noutstanding = 32\n";
        let found = said(head, &format!("drive = 'dc600m-960'\n{slow}"));
        let Limit::Latency { level: Level::Processor, utilisation } = found else {
            panic!("{found:?}");
        };
        assert!(utilisation < 0.3, "{utilisation}");
        assert!(found.words().starts_with("latency of the software"), "{}", found.words());
    }

    #[test]
    fn a_full_drive_that_is_rated_fresh_only_is_an_interval_and_says_so() {
        let text = "name = 'x'\nsize = '4k'\nread = 0\noutstanding = 32\n\n[[group]]\n\
            drive = '870-evo-1000'\n";
        let full = predict(&read(text), &Tweak::default()).unwrap();
        let said = |word: &str| full.remarks.iter().any(|remark| remark.contains(word));
        assert!(said("write_iops of full flash unknown") && said("fresh"), "{:?}", full.remarks);
        let input = full.inputs.iter().find(|input| input.quantity == "write_iops").unwrap();
        let known = &input.known;
        assert!(known.low < known.value && known.value < known.high, "{known:?}");
        assert_eq!((known.kind, known.basis), (Kind::Guess, catalogue::Basis::Recalled));
        // A figure that no document has is not assumed from documents alone.
        let mut sourced = read(text);
        sourced.catalogue.keep_sourced();
        let error = predict(&sourced, &Tweak::default()).unwrap_err().to_string();
        assert!(error.contains("--sourced"), "{error}");
        let fresh = text.replace("read = 0", "read = 0\nstate = 'fresh'");
        assert!(predict(&read(&fresh), &Tweak::default()).unwrap().iops > 50e3);
    }

    #[test]
    fn a_missing_figure_is_named_with_its_line() {
        let text =
            "name = 'x'\nsize = '4k'\noutstanding = 1\n\n[[group]]\ndrive = 'any-sata-ssd'\n";
        let error = predict(&read(text), &Tweak::default()).unwrap_err().to_string();
        assert!(error.starts_with("line 5: read_iops of any-sata-ssd is not known"), "{error}");
    }
}
