//! A job of ours as a fio job file, as far as fio has words for it.
//!
//! What is written is read again by the caller: here only what cannot be written is refused.

mod volumes;

use std::fmt::Write;

use super::{figures, laid_out, rates, replay};
use crate::formats::reading::Storage;
use crate::spec::{
    Access, Content, Demand, Extent, Group, JobSpec, Line, Logs, Pacing, Places, Reported, Step,
    Verify, Walk, Workload,
};

/// Writes a job. `storage` says what stands behind a URI, in words that fio has.
pub fn write(job: &JobSpec, storage: &dyn Fn(&str) -> Option<Storage>) -> Result<String, String> {
    let mut text = format!("[global]\nrandseed={}\n", job.seed);
    laid_out::write(&mut text, &job.laid_out)?;
    let mut number = 0;
    for (index, step) in job.steps.iter().enumerate() {
        for (place, group) in step.groups.iter().enumerate() {
            number += 1;
            let wait = index > 0 && place == 0;
            section(&mut text, number, wait, step, group, storage)?;
        }
    }
    Ok(text)
}

fn section(
    text: &mut String,
    number: usize,
    wait: bool,
    step: &Step,
    group: &Group,
    storage: &dyn Fn(&str) -> Option<Storage>,
) -> Result<(), String> {
    let fits =
        |name: &str| !name.contains(['\n', '[', ']', ';', '#']) && !name.starts_with("global");
    let workload = &group.workload;
    match group.name.as_str() {
        name if !name.is_empty() && fits(name) => line(text, &format!("\n[{name}]")),
        _ => line(text, &format!("\n[job{number}]")),
    }
    if wait {
        line(text, "stonewall");
    }
    if step.steady.is_some() {
        return Err("an end when it is steady is not written".to_owned());
    }
    if group.stripes.is_some() {
        return Err("volumes that one worker uses in turn are not written".to_owned());
    }
    let files = volumes::write(text, group, storage)?;
    volumes::cache(text, group, storage)?;
    set(text, "iodepth", u64::from(workload.outstanding) * files);
    if let Some(low) = workload.refill_at {
        set(text, "iodepth_low", u64::from(low) * files);
    }
    set(text, "numjobs", group.workers);
    let clones = group.reported == Reported::Group && group.workers > 1 && files == 1;
    if clones || group.reported == Reported::Step {
        line(text, "group_reporting");
    }
    times(text, step, group, files)?;
    if !group.cores.is_empty() {
        let cores: Vec<String> = group.cores.iter().map(usize::to_string).collect();
        set(text, "cpus_allowed", cores.join(","));
    }
    if step.ends_with_first {
        line(text, "exitall");
    }
    if workload.end_flush {
        set(text, "end_fsync", 1);
    }
    if workload.until_full {
        set(text, "fill_device", 1);
    }
    logs(text, &group.logs);
    figures::write(text, &group.figures);
    access(text, workload, group.figures.flushes)?;
    rates::write(text, workload, files)?;
    steering(text, workload);
    content(text, workload)
}

/// Numbers of jobs are those that fio counts in the new file.
fn logs(text: &mut String, logs: &Logs) {
    let words = [
        ("write_bw_log", &logs.bandwidth),
        ("write_iops_log", &logs.iops),
        ("write_lat_log", &logs.latency),
        ("write_iolog", &logs.trace),
    ];
    for (word, name) in words {
        if let Some(name) = name {
            set(text, word, name);
        }
    }
    if let Some(log) = &logs.histograms {
        set(text, "write_hist_log", &log.name);
        set(text, "log_hist_msec", log.window_ms);
        set(text, "log_hist_coarseness", log.coarseness);
    }
    if logs.names().next().is_some() {
        set(text, "log_avg_msec", logs.window_ms);
        set(text, "log_offset", u8::from(logs.offsets));
        set(text, "log_max_value", u8::from(logs.longest));
        set(text, "per_job_logs", u8::from(!logs.joined));
    }
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

pub(super) fn set(text: &mut String, key: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{key}={value}");
}

fn times(text: &mut String, step: &Step, group: &Group, files: u64) -> Result<(), String> {
    let (workload, when) = (&group.workload, &group.when);
    // Without an end of its own it ends with the step.
    let before = if step.ramp_seconds > 0.0 { 0.0 } else { when.delay_seconds };
    let seconds = when.seconds.unwrap_or(step.seconds - before - when.ramp_seconds);
    let micros = |seconds: f64| {
        let micros = (seconds * 1e6).round();
        // What is left of a sum may lack the last digit.
        match (seconds * 1e6 - micros).abs() < 1e-3 {
            true => Ok(format!("{micros}us")),
            false => Err(format!("{seconds} s are no whole microseconds")),
        }
    };
    let ends = workload.limit_bytes.is_some() || workload.access.trace.is_some();
    if !ends || seconds < super::times::NO_LIMIT_SECONDS {
        set(text, "runtime", micros(seconds)?);
    }
    if !ends {
        line(text, "time_based");
    }
    if let Some(bytes) = workload.limit_bytes {
        set(text, "io_size", bytes * files);
    }
    if let Some(ios) = workload.limit_ios {
        set(text, "number_ios", ios * files);
    }
    if when.delay_seconds > 0.0 {
        set(text, "startdelay", micros(when.delay_seconds)?);
    }
    if !when.after.is_empty() {
        set(text, "wait_for", &when.after);
    }
    if step.ramp_seconds > 0.0 {
        set(text, "ramp_time", micros(step.ramp_seconds - when.delay_seconds)?);
    }
    if when.ramp_seconds > 0.0 {
        set(text, "ramp_time", micros(when.ramp_seconds)?);
    }
    Ok(())
}

fn access(text: &mut String, workload: &Workload, counted: bool) -> Result<(), String> {
    let access = &workload.access;
    if let Some(replay) = &access.trace {
        replay::write(text, replay);
        return Ok(());
    }
    let first = access.lines.first().ok_or("a job without a line")?;
    let all = |same: &dyn Fn(&Line) -> bool| access.lines.iter().all(same);
    for (what, fits) in [
        ("shares of flushes", all(&|line| line.flush_percent == 0.0)),
        ("shares of zeroes", all(&|line| line.zero_percent == 0.0)),
        ("replies", all(&|line| line.reply_bytes == 0)),
        ("pauses from the start of an I/O on", all(&|line| line.delay_us == 0)),
        (
            "durable writes beside others",
            all(&|line| {
                line.fua_percent == first.fua_percent && [0.0, 100.0].contains(&line.fua_percent)
            }),
        ),
    ] {
        if !fits {
            return Err(format!("{what} are not fio's"));
        }
    }
    if access.files.is_some() {
        return Err("parts of a volume that are files are not fio's".to_owned());
    }
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    let mix = mix(text, workload, random)?;
    suffix(text, access, mix, random)?;
    if first.fua_percent > 0.0 {
        set(text, "sync", "dsync");
    }
    if access.flush_every > 0 {
        set(text, if counted { "fsync" } else { "fdatasync" }, access.flush_every);
    }
    if access.run_stays {
        set(text, "rw_sequencer", "identical");
    }
    if random {
        places(text, &access.random)?;
    }
    if let Some(zones) = access.zones {
        line(text, "zonemode=strided");
        set(text, "zonesize", zones.transfer_bytes);
        set(text, "zonerange", zones.range_bytes);
        set(text, "zoneskip", zones.skip_bytes);
    }
    if let Some(zoned) = access.zoned {
        line(text, "zonemode=zbd");
        for (key, value) in
            [("zonesize", zoned.zone_bytes), ("max_open_zones", zoned.max_open.into())]
        {
            if value > 0 {
                set(text, key, value);
            }
        }
        if zoned.read_beyond {
            set(text, "read_beyond_wp", 1);
        }
    }
    Ok(())
}

/// Writes sizes, shares and alignment, and returns the word for the mix without `rand`.
fn mix(text: &mut String, workload: &Workload, random: bool) -> Result<&'static str, String> {
    let access = &workload.access;
    let lines = &access.lines;
    let first = &lines[0];
    let is_trim = |line: &Line| line.trim_percent == 100.0;
    if !lines.iter().all(is_trim) && lines.iter().any(|line| line.trim_percent > 0.0) {
        return Err("trims beside other operations are not fio's".to_owned());
    }
    let same_mix = lines.iter().all(|line| line.read_percent == first.read_percent);
    let apart = lines.iter().all(|line| [0.0, 100.0].contains(&line.read_percent));
    let (parts, read): (Vec<Vec<&Line>>, f64) = match (same_mix, apart) {
        (true, _) => (vec![lines.iter().collect()], first.read_percent),
        (false, true) => {
            let reads = |line: &&Line| line.read_percent == 100.0;
            let (reads, writes): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(reads);
            let share = reads.iter().map(|line| line.share_percent).sum();
            (vec![reads, writes], share)
        }
        _ => return Err("each size with a mix of its own is not fio's".to_owned()),
    };
    let word = match read {
        _ if is_trim(first) => "trim",
        100.0 => "read",
        0.0 if access.trims_first => "trimwrite",
        _ if access.trims_first => return Err("trims beside reads are not fio's".to_owned()),
        0.0 => "write",
        _ => "rw",
    };
    if word == "rw" {
        match whole(read, "the share of reads") {
            Ok(percent) => set(text, "rwmixread", percent),
            // Its rates say it.
            Err(_) if workload.pacing != Pacing::Closed => {}
            Err(why) => return Err(why),
        }
    }
    if parts.iter().all(|part| part.len() == 1) {
        let sizes: Vec<String> = parts.iter().map(|part| part[0].size_bytes.to_string()).collect();
        set(text, "bs", sizes.join(","));
    } else {
        let splits = parts.iter().map(|part| split(part)).collect::<Result<Vec<_>, _>>()?;
        set(text, "bssplit", splits.join(","));
    }
    if random {
        let align: Vec<String> = parts.iter().map(|part| part[0].align().to_string()).collect();
        let least = |part: &Vec<&Line>| part.iter().map(|line| line.size_bytes).min();
        // Only where it is not fio's own default: the word takes the map of visited places away.
        if parts.iter().any(|part| Some(part[0].align()) != least(part)) {
            set(text, "blockalign", align.join(","));
        }
        let shares = parts.iter().map(|part| whole(part[0].random_percent, "the share of random"));
        let shares = shares.collect::<Result<Vec<_>, _>>()?;
        if shares.iter().any(|share| *share != 100) {
            let shares: Vec<String> = shares.iter().map(u32::to_string).collect();
            set(text, "percentage_random", shares.join(","));
        }
    }
    Ok(word)
}

/// `512/10:4k/90` of the lines of one direction.
fn split(lines: &[&Line]) -> Result<String, String> {
    let total: f64 = lines.iter().map(|line| line.share_percent).sum();
    let entry = |line: &&Line| {
        let share = whole(line.share_percent * 100.0 / total, "the share of a size")?;
        Ok(format!("{}/{share}", line.size_bytes))
    };
    Ok(lines.iter().map(entry).collect::<Result<Vec<_>, String>>()?.join(":"))
}

fn suffix(text: &mut String, access: &Access, mix: &str, random: bool) -> Result<(), String> {
    let size = access.size_bytes().map(u64::from);
    let word = match (random, access.sequential, size) {
        (true, Walk::Forward, _) if access.run > 1 => format!("rand{mix}:{}", access.run),
        (true, Walk::Forward, _) => format!("rand{mix}"),
        (false, Walk::Forward, _) => mix.to_owned(),
        (false, Walk::Backward, Some(size)) => format!("{mix}:-{}", 2 * size),
        (false, Walk::Strided { bytes }, Some(size)) if bytes > size => {
            format!("{mix}:{}", bytes - size)
        }
        _ => return Err("this way from place to place is not fio's".to_owned()),
    };
    set(text, "rw", word);
    Ok(())
}

fn places(text: &mut String, places: &Places) -> Result<(), String> {
    let law = match places {
        Places::Uniform => {
            line(text, "norandommap=1");
            return Ok(());
        }
        Places::Once => return Ok(()),
        Places::Zipf { exponent } => format!("zipf:{exponent}"),
        Places::Pareto { hot } => format!("pareto:{hot}"),
        Places::Normal { deviation_percent } => format!("normal:{deviation_percent}"),
        Places::Zones { zones } => {
            let in_bytes = |zone: &crate::spec::Zone| matches!(zone.space, Extent::Bytes(_));
            let word = if zones.iter().all(in_bytes) { "zoned_abs" } else { "zoned" };
            let mut entries = Vec::new();
            for zone in zones {
                let share = whole(zone.io_percent, "the share of a zone")?;
                entries.push(match zone.space {
                    Extent::Bytes(bytes) => format!("{share}/{bytes}"),
                    Extent::Percent(percent) => format!("{share}/{}", whole(percent, "a zone")?),
                });
            }
            format!("{word}:{}", entries.join(":"))
        }
    };
    set(text, "random_distribution", law);
    Ok(())
}

/// What steers it while it runs.
fn steering(text: &mut String, workload: &Workload) {
    let mut on = |key: &str, value: u64, set_if: bool| {
        if set_if {
            set(text, key, value);
        }
    };
    if let Some(think) = workload.think {
        on("thinktime", think.pause_us, true);
        on("thinktime_spin", think.spin_us, think.spin_us > 0);
        on("thinktime_blocks", think.after_ios.into(), think.after_ios > 0);
        on("rate_ignore_thinktime", 1, think.shifts_rate);
        if think.after_us > 0 {
            set(text, "thinktime_iotime", format!("{}us", think.after_us));
        }
        if think.counts_begun {
            set(text, "thinktime_blocks_type", "issue");
        }
    }
    if let Some(demands) = workload.demands {
        let each = |of: fn(&Demand) -> u64| demands.each().map(|(_, demand)| of(&demand));
        for (key, values) in [
            ("rate_min", each(|demand| demand.bytes_per_second)),
            ("rate_iops_min", each(|demand| demand.ios_per_second)),
            ("max_latency", each(|demand| demand.latency_us)),
        ] {
            if values != [0; 3] {
                set(text, key, values.map(|value| value.to_string()).join(","));
            }
        }
        set(text, "rate_cycle", demands.every_ms);
    }
    if let Some(search) = workload.depth_search {
        set(text, "latency_target", search.latency_us);
        set(text, "latency_window", search.window_us);
        set(text, "latency_percentile", search.percent);
        set(text, "latency_run", u8::from(search.goes_on));
    }
    if let Some(flow) = workload.flow {
        set(text, "flow", flow.weight);
        set(text, "flow_id", flow.id);
        set(text, "flow_sleep", flow.sleep_us);
    }
}

fn content(text: &mut String, workload: &Workload) -> Result<(), String> {
    let content = &workload.content;
    let Some(verify) = workload.verify else { return buffers(text, content) };
    buffers(text, &Content { pattern: None, ..content.clone() })?;
    compared(text, workload, verify)?;
    set(text, "verify", if content.pattern.is_some() { "pattern" } else { "crc32c" });
    if let Some(pattern) = &content.pattern {
        set(text, "verify_pattern", pattern);
    }
    Ok(())
}

/// What buffers hold.
pub(super) fn buffers(text: &mut String, content: &Content) -> Result<(), String> {
    let compress = whole(content.compress_percent, "the share that compresses")?;
    let dedupe = whole(content.dedupe_percent, "the share of duplicates")?;
    if compress > 0 {
        set(text, "buffer_compress_percentage", compress);
    }
    if compress > 0 && dedupe == 0 {
        set(text, "buffer_compress_chunk", content.chunk_bytes.unwrap_or(4096));
    }
    if dedupe > 0 {
        set(text, "dedupe_percentage", dedupe);
    }
    if content.dedupe_blocks.is_some() {
        return Err("fio counts the set of duplicates as a share of the size".to_owned());
    }
    if let Some(pattern) = &content.pattern {
        set(text, "buffer_pattern", pattern);
    }
    Ok(())
}

/// What is read is what was there before if nothing is written; what is written is there first if
/// both are done.
fn compared(text: &mut String, workload: &Workload, verify: Verify) -> Result<(), String> {
    let (reads, writes) = (workload.access.read_percent() > 0.0, workload.access.writes());
    let usual = Verify { fill: reads && writes, earlier: !writes, ..Verify::default() };
    let unread = Verify { fill: false, earlier: false, sample_percent: 0.0 };
    match verify {
        _ if verify == usual => Ok(()),
        _ if verify == unread && writes => {
            set(text, "do_verify", 0);
            Ok(())
        }
        Verify { fill: true, .. } if !writes => {
            Err("to write what is only read is not fio's: give it a job before".to_owned())
        }
        _ => Err("comparing a part of all reads is not fio's".to_owned()),
    }
}

/// A share as fio has it: in whole percent.
fn whole(percent: f64, what: &str) -> Result<u32, String> {
    let near = percent.round();
    match (percent - near).abs() < 1e-6 && (0.0..=100.0).contains(&near) {
        true => Ok(near as u32),
        false => Err(format!("{what} is {percent}, and fio takes whole percent")),
    }
}
