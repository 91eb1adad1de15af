//! Start and end of jobs, number of clones, CPUs, and actions before and after.

use super::super::option::Part::{Load, Shown, Turn};
use super::super::option::{Row, Word, flag, sets, some_word, switch, word, word_if};
use super::super::told::span;
use super::super::value::KbBase;
use super::super::write::Written;
use super::super::{parse, times};
use crate::spec::{Expect, Quantity, Reported, Steady};
use block::print_size;

pub(in super::super) const ROWS: &[Row] = &[
    sets!("number_ios", most_ios, |v| Some(v.number()?).filter(|ios| *ios > 0))
        .writes(|w| some_word(w.group.workload.limit_ios.map(|ios| ios * w.files)))
        .tells(Load, |group| group.workload.limit_ios.map(|ios| format!("ends after {ios} I/Os"))),
    switch!("fill_device|fill_fs", fill)
        .writes(|w| word_if(w.group.workload.until_full, 1))
        .tells(Load, |group| said_if(group.workload.until_full, "ends at ENOSPC")),
    switch!("end_fsync", end_flush)
        .writes(|w| word_if(w.group.workload.end_flush, 1))
        .tells(Load, |group| said_if(group.workload.end_flush, "a flush at the end")),
    switch!("fsync_on_close", end_flush),
    sets!("io_size|io_limit", io_size, |v| v.some_amount()?)
        .writes(|w| some_word(w.group.workload.limit_bytes.map(|bytes| bytes * w.files)))
        .tells(Load, |group| {
            group.workload.limit_bytes.map(|bytes| format!("ends after {}", print_size(bytes)))
        }),
    sets!("loops", loops, |v| parse::loops(v.text()?)?),
    sets!("wait_for", wait_for, |v| Some(v.text()?.to_owned()))
        .writes(|w| word_if(!w.group.when.after.is_empty(), &w.group.when.after))
        .tells(Turn, |group| {
            let after = &group.when.after;
            (!after.is_empty()).then(|| format!("starts when {after} has ended"))
        }),
    sets!("startdelay", delay_us, |v| parse::delay(v.text()?)?)
        .writes(|w| micros_if(w.group.when.delay_seconds))
        .tells(Turn, |group| {
            let (delay, after) = (group.when.delay_seconds, &group.when.after);
            (delay > 0.0).then(|| match after.is_empty() {
                true => format!("starts after {}", span(delay)),
                false => format!("{} later", span(delay)),
            })
        }),
    sets!("ramp_time", ramp_us, |v| v.seconds()?)
        .writes(|w| match w.step.ramp_seconds > 0.0 {
            true => micros(w.step.ramp_seconds - w.group.when.delay_seconds),
            false => micros_if(w.group.when.ramp_seconds),
        })
        .tells(Turn, |group| {
            let ramp = group.when.ramp_seconds;
            (ramp > 0.0).then(|| format!("the first {} not measured", span(ramp)))
        }),
    sets!("runtime|timeout", runtime_us, |v| Some(v.seconds()?).filter(|us| *us > 0))
        .writes(runtime)
        .tells(Turn, |group| group.when.seconds.map(|all| format!("lasts {}", span(all)))),
    flag!("time_based", time_based).writes(|w| word_if(!w.ends(), "")),
    sets!("numjobs", clones, |v| v.count()?)
        .writes(|w| word(w.group.workers))
        .tells(Turn, |group| said_if(group.own_places, "shares its offsets with no other job")),
    flag!("exitall", exit_all)
        .writes(|w| word_if(w.step.ends_with_first, ""))
        .tells_of_step(|step| said_if(step.ends_with_first, ", until the first worker ends")),
    sets!("steadystate|ss", steady.criterion, |v| Some(parse::steady(v.text()?, v.kb)?))
        .writes(|w| w.step.steady.map(criterion).transpose())
        .tells_of_step(|step| step.steady.map(|steady| format!(", or until {steady}"))),
    sets!("steadystate_duration|ss_dur", steady.duration_us, |v| v.seconds()?)
        .writes(|w| w.step.steady.map_or(Ok(None), |steady| micros(steady.seconds))),
    sets!("steadystate_ramp_time|ss_ramp", steady.ramp_us, |v| v.seconds()?)
        .writes(|w| w.step.steady.map_or(Ok(None), |steady| micros(steady.after_seconds)))
        .tells_of_step(|step| {
            let after = step.steady?.after_seconds;
            (after > 0.0).then(|| format!(", the first {} not evaluated", span(after)))
        }),
    sets!("steadystate_check_interval|ss_interval", steady.interval_us, |v| Some(v.seconds()?))
        .writes(|w| some_word(w.step.steady.map(|steady| steady.interval_seconds)))
        .tells_of_step(|step| {
            let each = step.steady.filter(|steady| !steady.slope)?.interval_seconds;
            (each > 1).then(|| format!(", each value the mean of {each} s"))
        }),
    switch!("invalidate", invalidate)
        .writes(|w| word_if(w.cached, u8::from(w.group.cache.drop)))
        .tells(Turn, |group| said_if(group.cache.drop, "page cache dropped first")),
    switch!("pre_read", before.read)
        .writes(|w| word_if(w.group.cache.read, 1))
        .tells(Turn, |group| said_if(group.cache.read, "read into the page cache first")),
    sets!("fadvise_hint", hint, |v| parse::hint(v.text)?)
        .writes(|w| {
            let hint = match w.group.cache.expect {
                Expect::Unknown => "0",
                Expect::Random => "random",
                Expect::Sequential => "sequential",
            };
            word_if(w.cached, hint)
        })
        .tells(Turn, |group| match group.cache.expect {
            Expect::Unknown => None,
            Expect::Random => Some("hints random access to the kernel".to_owned()),
            Expect::Sequential => Some("hints sequential access to the kernel".to_owned()),
        }),
    sets!("cpus_allowed", seats.cpus, |v| parse::processors(v.text()?)?)
        .writes(|w| word_if(!w.group.cores.is_empty(), list(&w.group.cores, ",")))
        .tells(Turn, |group| {
            let cores = &group.cores;
            (!cores.is_empty()).then(|| format!("on CPUs {}", list(cores, ", ")))
        }),
    sets!("cpumask", seats.cpus, |v| parse::processor_mask(v.text()?)?),
    sets!("numa_cpu_nodes", seats.nodes, |v| parse::processors(v.text()?)?),
    sets!("name", name, |v| Some(v.text()?.to_owned())),
    sets!("kb_base", kb_base, |v| v.one_of(&[("1000", KbBase(1000)), ("1024", KbBase(1024))])?),
    flag!("stonewall|wait_for_previous", stonewall).writes(|w| word_if(w.waits, "")),
    flag!("group_reporting", grouped)
        .writes(|w| {
            let of_one = w.group.reported == Reported::Group && w.group.workers > 1 && w.files == 1;
            word_if(of_one || w.group.reported == Reported::Step, "")
        })
        .tells(Shown, |group| {
            said_if(
                group.reported == Reported::Step,
                "one result with the other jobs that set group_reporting",
            )
        }),
];

fn said_if(on: bool, what: &str) -> Option<String> {
    on.then(|| what.to_owned())
}

fn list(numbers: &[usize], between: &str) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(between)
}

/// Writes the run time: a group without its own end ends with the step.
fn runtime(w: &Written<'_>) -> Word {
    let when = &w.group.when;
    let before = if w.step.ramp_seconds > 0.0 { 0.0 } else { when.delay_seconds };
    let seconds = when.seconds.unwrap_or(w.step.seconds - before - when.ramp_seconds);
    match !w.ends() || seconds < times::NO_LIMIT_SECONDS {
        true => micros(seconds),
        false => Ok(None),
    }
}

fn micros_if(seconds: f64) -> Word {
    if seconds > 0.0 { micros(seconds) } else { Ok(None) }
}

fn micros(seconds: f64) -> Word {
    let micros = (seconds * 1e6).round();
    // The difference of two times may lack the last digit.
    match (seconds * 1e6 - micros).abs() < 1e-3 {
        true => word(format!("{micros}us")),
        false => Err(format!("{seconds} s is not a whole number of microseconds")),
    }
}

fn criterion(steady: Steady) -> Result<String, String> {
    let of = match steady.of {
        Quantity::Iops => "iops",
        Quantity::Bandwidth => "bw",
        Quantity::Latency if !steady.percent => {
            return Err("fio accepts a latency limit in percent only".to_owned());
        }
        Quantity::Latency => "lat",
    };
    let (slope, percent) =
        (if steady.slope { "_slope" } else { "" }, if steady.percent { "%" } else { "" });
    Ok(format!("{of}{slope}:{}{percent}", steady.below))
}
