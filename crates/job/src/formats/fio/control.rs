//! Control of a running job: think time, rates and latencies that it must meet, a searched queue
//! depth, and jobs limited to their share (`flow`).

use super::convert::Converter;
use super::job::FioJob;
use super::option::Part::Steered;
use super::option::{Row, Word, joined, sets, some_word, switch, takes, word_if};
use super::storage::JobFiles;
use super::value::{self, Triple, Unit};
use super::write::{Written, each};
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec::{Demand, Demands, DepthSearch, Flow, Group, Pacing, Think, Workload};

/// Control options of a job, with fio's defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Control {
    /// `thinktime` in microseconds.
    pub think_us: u64,
    /// `thinktime_spin` in microseconds, a part of `think_us`.
    pub spin_us: u64,
    /// `thinktime_blocks`, if given: 1 otherwise, unless there is a time.
    pub think_ios: Option<u32>,
    /// `thinktime_blocks_type=issue`.
    pub counts_begun: bool,
    /// `thinktime_iotime` in microseconds.
    pub io_time_us: u64,
    /// `rate_ignore_thinktime`.
    pub ignores_think: bool,
    /// `rate_min` in bytes per second.
    pub least_bytes: Triple<u64>,
    /// `rate_iops_min`.
    pub least_ios: Triple<u64>,
    /// `rate_cycle` in milliseconds.
    pub cycle_ms: u64,
    /// `max_latency` in microseconds.
    pub most_us: Triple<u64>,
    /// `latency_target` in microseconds.
    pub target_us: u64,
    /// `latency_window` in microseconds.
    pub window_us: u64,
    /// `latency_percentile`, 0 to 100.
    pub percent: f64,
    /// `latency_run`.
    pub goes_on: bool,
    /// `flow`: the weight of the job, or 0.
    pub flow: u32,
    /// `flow_id`.
    pub flow_id: u32,
    /// `flow_sleep` in microseconds.
    pub flow_sleep_us: u64,
}

/// The options of control.
pub(super) const ROWS: &[Row] = &[
    sets!("thinktime", control.think_us, |v| pause(v.micros()?)?)
        .writes(|w| some_word(think_of(w).map(|think| think.pause_us)))
        .tells(Steered, told_think),
    sets!("thinktime_spin", control.spin_us, |v| pause(v.micros()?)?)
        .writes(|w| some_word(think_of(w).map(|think| think.spin_us).filter(|us| *us > 0))),
    sets!("thinktime_blocks", control.think_ios, |v| Some(v.count()?))
        .writes(|w| some_word(think_of(w).map(|think| think.after_ios).filter(|ios| *ios > 0))),
    sets!("thinktime_blocks_type", control.counts_begun, |v| v
        .one_of(&[("complete", false), ("issue", true)])?)
    .writes(|w| word_if(think_of(w).is_some_and(|think| think.counts_begun), "issue")),
    sets!("thinktime_iotime", control.io_time_us, |v| v.seconds()?).writes(|w| {
        let us = think_of(w).map(|think| think.after_us).filter(|us| *us > 0);
        some_word(us.map(|us| format!("{us}us")))
    }),
    switch!("rate_ignore_thinktime", control.ignores_think)
        .writes(|w| word_if(think_of(w).is_some_and(|think| think.shifts_rate), 1)),
    takes!("rate_min|ratemin", |s, v| s.control.least_bytes =
        v.each(&s.control.least_bytes, |text| v.kb.size(text))?)
    .writes(|w| demanded(w, |demand| demand.bytes_per_second))
    .tells(Steered, |group| told_least(group, "bytes", |demand| demand.bytes_per_second)),
    takes!("rate_iops_min", |s, v| s.control.least_ios =
        v.each(&s.control.least_ios, |text| v.kb.size(text))?)
    .writes(|w| demanded(w, |demand| demand.ios_per_second))
    .tells(Steered, |group| told_least(group, "I/Os", |demand| demand.ios_per_second)),
    sets!("rate_cycle|ratecycle", control.cycle_ms, |v| v.number::<u64>()?.max(1))
        .writes(|w| some_word(w.group.workload.demands.map(|demands| demands.every_ms)))
        .tells(Steered, |group| {
            let every = group.workload.demands?.every_ms;
            (every != 1000).then(|| format!("rates checked every {every} ms"))
        }),
    Row::new(&["max_latency"], false, |s, v| {
        let micros = |text: &str| value::micros(text, Unit::Micros);
        s.control.most_us = v.each(&s.control.most_us, micros)?;
        Ok(None)
    })
    .writes(|w| demanded(w, |demand| demand.latency_us))
    .tells(Steered, |group| {
        let each = group.workload.demands.iter().flat_map(Demands::each);
        joined(each.filter(|(_, demand)| demand.latency_us > 0).map(|(word, demand)| {
            let most = told_micros(demand.latency_us);
            format!("ends if the latency of {word} exceeds {most}")
        }))
    }),
    sets!("latency_target", control.target_us, |v| v.micros()?)
        .writes(|w| some_word(w.group.workload.depth_search.map(|search| search.latency_us)))
        .tells(Steered, told_search),
    sets!("latency_window", control.window_us, |v| v.micros()?)
        .writes(|w| some_word(w.group.workload.depth_search.map(|search| search.window_us))),
    sets!("latency_percentile", control.percent, |v| percentile(v.text()?)?)
        .writes(|w| some_word(w.group.workload.depth_search.map(|search| search.percent))),
    switch!("latency_run", control.goes_on).writes(|w| {
        some_word(w.group.workload.depth_search.map(|search| u8::from(search.goes_on)))
    }),
    sets!("flow", control.flow, |v| weight(v.text()?)?)
        .writes(|w| some_word(w.group.workload.flow.map(|flow| flow.weight)))
        .tells(Steered, |group| {
            let Flow { id, weight, sleep_us } = group.workload.flow?;
            let sleep = (sleep_us > 0).then(|| format!(", sleeping {}", told_micros(sleep_us)));
            Some(format!("weight {weight} in flow {id}{}", sleep.unwrap_or_default()))
        }),
    sets!("flow_id", control.flow_id, |v| v.number()?)
        .writes(|w| some_word(w.group.workload.flow.map(|flow| flow.id))),
    sets!("flow_sleep", control.flow_sleep_us, |v| v.number()?)
        .writes(|w| some_word(w.group.workload.flow.map(|flow| flow.sleep_us))),
];

fn think_of(w: &Written<'_>) -> Option<Think> {
    w.group.workload.think
}

fn told_think(group: &Group) -> Option<String> {
    let think = group.workload.think?;
    let counted = if think.counts_begun { "issued" } else { "completed" };
    let ios = (think.after_ios > 0).then(|| format!("{} I/Os {counted}", think.after_ios));
    let time = (think.after_us > 0).then(|| told_micros(think.after_us));
    let after: Vec<String> = ios.into_iter().chain(time).collect();
    let spin = (think.spin_us > 0).then(|| format!(" ({} spinning)", told_micros(think.spin_us)));
    let (pause, spin) = (told_micros(think.pause_us), spin.unwrap_or_default());
    let thinks = format!("thinks {pause}{spin} after {}", after.join(" or "));
    let stops = think.shifts_rate.then(|| "the rate clock stops during think time".to_owned());
    joined([thinks].into_iter().chain(stops))
}

fn demanded(w: &Written<'_>, of: fn(&Demand) -> u64) -> Word {
    let values = w.group.workload.demands.map(|all| all.each().map(|(_, demand)| of(&demand)));
    some_word(values.filter(|values| *values != [0; 3]).map(|values| each(&values)))
}

fn told_least(group: &Group, unit: &str, of: fn(&Demand) -> u64) -> Option<String> {
    let each = group.workload.demands.iter().flat_map(Demands::each);
    let each = each.map(|(word, demand)| (word, of(&demand))).filter(|(_, least)| *least > 0);
    joined(each.map(|(word, least)| format!("ends if {word} fall below {least} {unit} per second")))
}

fn told_search(group: &Group) -> Option<String> {
    let DepthSearch { latency_us, window_us, percent, goes_on } = group.workload.depth_search?;
    let until = if goes_on { "until the end" } else { "until the depth is found" };
    let (latency, window) = (told_micros(latency_us), told_micros(window_us));
    let depth = group.workload.outstanding;
    Some(format!(
        "searches for the highest queue depth, 1 to {depth}, at which {percent} % of I/Os take at \
         most {latency}, in windows of {window}, {until}"
    ))
}

fn told_micros(us: u64) -> String {
    match us {
        0..1000 => format!("{us} us"),
        _ => format!("{} ms", us as f64 / 1000.0),
    }
}

/// Reads a think time, of which fio silently uses 32 bits only.
fn pause(us: u64) -> Result<u64, String> {
    match u32::try_from(us) {
        Ok(_) => Ok(us),
        Err(_) => Err(format!("{us} us exceeds fio's maximum of 4294967295 us: set at most 71m")),
    }
}

fn percentile(text: &str) -> Result<f64, String> {
    let percent = value::fraction(text)?;
    if percent <= 100.0 { Ok(percent) } else { Err(format!("{text} is above 100 percent")) }
}

fn weight(text: &str) -> Result<u32, String> {
    // Old versions of fio wrote the other job of a pair with a minus.
    let weight: u32 = value::number(text.strip_prefix('-').unwrap_or(text))?;
    if weight <= 1000 { Ok(weight) } else { Err(format!("{text} exceeds 1000, fio's maximum")) }
}

/// Applies the control options to the workload of a job.
pub(super) fn control(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    workload: &mut Workload,
) {
    let control = &job.settings.control;
    if place.files > 1 {
        let one = "not supported for several files of a job: name one file, or use one job per \
                   file";
        for (key, set) in [
            ("rate_min", control.least_bytes != [0; 3]),
            ("rate_iops_min", control.least_ios != [0; 3]),
            ("latency_target", control.target_us > 0),
            ("flow", control.flow > 0),
        ] {
            if set {
                converter.refuse(job, key, one);
            }
        }
    }
    workload.think = think(converter, job, place.files);
    workload.demands = demands(converter, job);
    workload.depth_search = depth_search(converter, job, workload);
    workload.flow = (control.flow > 0).then_some(Flow {
        id: control.flow_id,
        weight: control.flow,
        sleep_us: control.flow_sleep_us,
    });
    if control.flow == 0 && (control.flow_id > 0 || control.flow_sleep_us > 0) {
        let key = if control.flow_id > 0 { "flow_id" } else { "flow_sleep" };
        converter.note(job, key, Ignored, "no effect without flow, as in fio");
    }
}

fn think(converter: &mut Converter<'_>, job: &FioJob, files: u32) -> Option<Think> {
    let control = &job.settings.control;
    if control.think_us == 0 {
        for (key, set) in [
            ("thinktime_spin", control.spin_us > 0),
            ("thinktime_iotime", control.io_time_us > 0),
            ("rate_ignore_thinktime", control.ignores_think),
        ] {
            if set {
                converter.note(job, key, Ignored, "no effect without thinktime, as in fio");
            }
        }
        return None;
    }
    if files > 1 {
        let why = "each file has a worker, which pauses separately; in fio the whole job pauses";
        converter.note(job, "thinktime", Differs, why);
    }
    if control.spin_us > 0 {
        let why = "the spin time is spent polling for completions of all jobs on the CPU; fio \
                   spends it in a loop of the job";
        converter.note(job, "thinktime_spin", Differs, why);
    }
    let default = if control.io_time_us > 0 { 0 } else { 1 };
    Some(Think {
        pause_us: control.think_us,
        spin_us: control.spin_us.min(control.think_us),
        after_ios: control.think_ios.unwrap_or(default),
        after_us: control.io_time_us,
        counts_begun: control.counts_begun,
        shifts_rate: control.ignores_think,
    })
}

fn demands(converter: &mut Converter<'_>, job: &FioJob) -> Option<Demands> {
    let settings = &job.settings;
    let control = &settings.control;
    let (bytes, ios, most) = (control.least_bytes, control.least_ios, control.most_us);
    if [bytes, ios, most] == [[0; 3]; 3] {
        return None;
    }
    if bytes != [0; 3] && ios != [0; 3] {
        converter.refuse(job, "rate_min", "rate_min and rate_iops_min cannot be combined");
    }
    for (key, least, rates) in
        [("rate_min", bytes, settings.rate_bytes), ("rate_iops_min", ios, settings.rate_ios)]
    {
        if least.iter().zip(rates).any(|(least, rate)| rate > 0 && *least > rate) {
            converter.refuse(job, key, "the minimum rate exceeds the rate");
        }
    }
    if most != [0; 3] && (settings.rate_ios != [0; 3] || settings.rate_bytes != [0; 3]) {
        let why = "with a rate, latencies are measured from the planned start";
        converter.note(job, "max_latency", Differs, why);
    }
    let demand = |way: usize| Demand {
        bytes_per_second: bytes[way],
        ios_per_second: ios[way],
        latency_us: most[way],
    };
    let mix = settings.mix;
    let of = |way: usize, done: bool| if done { demand(way) } else { Demand::default() };
    let (read, write, trim) = (of(0, mix.reads), of(1, mix.writes), of(2, mix.trims));
    let any = [read, write, trim].iter().any(|demand| *demand != Demand::default());
    any.then_some(Demands { read, write, trim, every_ms: control.cycle_ms })
}

fn depth_search(
    converter: &mut Converter<'_>,
    job: &FioJob,
    workload: &Workload,
) -> Option<DepthSearch> {
    let control = &job.settings.control;
    if control.target_us == 0 {
        if control.window_us > 0 || control.goes_on {
            let key = if control.window_us > 0 { "latency_window" } else { "latency_run" };
            converter.note(job, key, Ignored, "no effect without latency_target, as in fio");
        }
        return None;
    }
    let against = [
        (workload.pacing != Pacing::Closed, "a rate"),
        (workload.refill_at.is_some(), "iodepth_low"),
        (workload.verify.is_some(), "verify"),
    ];
    for (_, what) in against.into_iter().filter(|(set, _)| *set) {
        let why = format!("a queue depth search cannot be combined with {what}");
        converter.refuse(job, "latency_target", &why);
    }
    if !control.goes_on {
        let why = "the queue depth found is final, and measured for a window of at least 100 ms \
                   over all jobs; fio continues the search if that window fails";
        converter.note(job, "latency_target", Differs, why);
    }
    Some(DepthSearch {
        latency_us: control.target_us,
        window_us: control.window_us,
        percent: control.percent,
        goes_on: control.goes_on,
    })
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused};
    use super::*;
    use crate::formats::note::Treatment;

    const NULL: &str = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=5\n[a]\n";

    fn workload(words: &str) -> Workload {
        job(&format!("{NULL}{words}\n")).steps[0].groups[0].workload.clone()
    }

    #[test]
    fn pauses_are_those_of_the_file() {
        let think = workload("thinktime=50").think.unwrap();
        assert_eq!((think.pause_us, think.after_ios, think.after_us), (50, 1, 0));
        let timed = workload("thinktime=1s\nthinktime_iotime=9\nthinktime_spin=2s").think.unwrap();
        assert_eq!((timed.after_ios, timed.after_us), (0, 9_000_000));
        assert_eq!(timed.spin_us, 1_000_000);
        let words = "thinktime=5ms\nthinktime_blocks=8\nthinktime_blocks_type=issue\n\
                     thinktime_iotime=1\nrate_iops=100\nrate_ignore_thinktime=1";
        let both = workload(words).think.unwrap();
        assert_eq!((both.after_ios, both.after_us), (8, 1_000_000));
        assert!(both.counts_begun && both.shifts_rate);
    }

    #[test]
    fn demands_belong_to_directions() {
        let rates = workload("rw=rw\nrate_iops_min=100,50\nrate_cycle=500").demands.unwrap();
        assert_eq!((rates.read.ios_per_second, rates.write.ios_per_second), (100, 50));
        assert_eq!(rates.every_ms, 500);
        let latency = workload("rw=rw\nmax_latency=2ms,5").demands.unwrap();
        assert_eq!((latency.read.latency_us, latency.write.latency_us), (2000, 5));
        assert_eq!(latency.trim, Demand::default());
        assert_eq!(workload("rw=read\nrate_min=0,5m").demands, None);
        assert_eq!(workload("rate_min=0").demands, None);
    }

    #[test]
    fn depths_and_flows() {
        let words = "iodepth=8\nioengine=libaio\ndirect=1\nlatency_target=500\nlatency_window=1s\n\
                     latency_percentile=99.5\nlatency_run=1";
        let search = workload(words).depth_search.unwrap();
        assert_eq!((search.latency_us, search.window_us), (500, 1_000_000));
        assert!(search.goes_on && search.percent == 99.5);
        let flow = workload("flow=3\nflow_id=7\nflow_sleep=100").flow.unwrap();
        assert_eq!((flow.weight, flow.id, flow.sleep_us), (3, 7, 100));
        assert_eq!(workload("flow=0").flow, None);
    }

    #[test]
    fn what_does_not_go_together_is_refused_and_what_says_nothing_is_named() {
        for (words, why) in [
            ("rate_min=1m\nrate_iops_min=5", "cannot be combined"),
            ("rate_iops=10\nrate_iops_min=11", "exceeds the rate"),
            ("latency_target=5\nrate_iops=10", "combined with a rate"),
            ("latency_target=5\nverify=md5\nrw=write", "combined with verify"),
        ] {
            // Verified data need a volume that stores them.
            let global = NULL.replace("ioengine=null", "filename=/dev/x");
            let said = refused(&format!("{global}{words}\n"));
            assert!(said.contains(why), "{words}: {said}");
        }
        for words in ["thinktime_spin=5", "latency_window=5", "flow_sleep=9"] {
            let reading = of(&format!("{NULL}{words}\n"));
            assert_eq!(reading.notes_of(Treatment::Ignored).count(), 1, "{:?}", reading.notes);
            assert!(reading.job.is_some());
        }
    }
}
