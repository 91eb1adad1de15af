//! `drumfire explain`: what a job file would run, and what of it would not be as it stands.

mod control;
mod shown;

use std::io::Write as _;

use anyhow::{Context, Result};
use block::print_size;
use clap::Args as Flags;
use job::formats::{Note, Reading, Treatment, fio, icf};
use job::spec::{
    DataPattern, Expect, Extent, Figures, FileWalk, Group, JobSpec, Line, Logs, Pacing, Places,
    Range, Replay, Reported, Step, Verify, Walk, When, Workload, ZoneWalk, Zoned,
};

use crate::exit::{Exit, UsageError};
use crate::foreign::{self, Format};
use crate::{asked, layout, output};

/// `drumfire explain`.
#[derive(Flags, Debug)]
#[command(after_help = "Exit code 2 when the file would not be run.\n\
    Example: drumfire explain jobs.fio; drumfire explain --as icf jobs.fio > jobs.icf")]
pub struct Args {
    /// A job file: .toml, .fio or .icf.
    pub file: String,
    /// Volumes for the targets of the file, in the order in which it names them.
    #[arg(value_name = "URI")]
    pub volumes: Vec<String>,
    /// Length of each step, in place of the file's.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Convert the job to another format; refused if anything would be lost.
    #[arg(long = "as", value_enum, value_name = "FORMAT")]
    pub format: Option<Format>,
}

/// Explains a file.
pub fn main(args: &Args) -> Result<Exit> {
    let reading = read(args)?;
    let Some(job) = reading.job.as_ref().filter(|_| args.format.is_some()) else {
        output::print(&explained(&args.file, &reading))?;
        return Ok(if reading.job.is_some() { Exit::Good } else { Exit::Usage });
    };
    // What the file says otherwise than it will be done is said beside the new file.
    reading.notes.iter().for_each(output::note);
    // A file, to the last byte.
    let text = written(job, args.format.unwrap_or(Format::Toml))?;
    output::write(|out| out.write_all(text.as_bytes()))?;
    Ok(Exit::Good)
}

fn read(args: &Args) -> Result<Reading> {
    match Format::of(&args.file) {
        Some(Format::Toml) => {
            let job = asked::of_toml(&args.file, &args.volumes, args.seconds)?;
            Ok(Reading { job: Some(job), cores: Vec::new(), notes: Vec::new() })
        }
        Some(format) => foreign::read(format, &args.file, &args.volumes, args.seconds),
        None => {
            let why = format!(
                "{}: a job file ends in .toml or .icf, or begins as fio's do: [NAME]",
                args.file
            );
            Err(UsageError(why).into())
        }
    }
}

/// The job in another format. What is written is read again: it is the same job, or an error.
fn written(job: &JobSpec, format: Format) -> Result<String> {
    let (text, what) = match format {
        Format::Toml => return toml::to_string(job).context("the job as TOML"),
        Format::Fio => (fio::write(job, &foreign::storage_of), "a fio job file"),
        Format::Icf => (icf::write(job), "an Iometer configuration"),
    };
    let refuse = |why: String| UsageError(format!("{what} cannot say this job: {why}"));
    let text = text.map_err(refuse)?;
    let again = foreign::read_as(format, "the new file", &text, &[], None)?;
    let again = again.job.ok_or_else(|| refuse(format!("{} is refused", again.notes[0])))?;
    let plain = |job: &JobSpec| {
        // Names are for people.
        let job = job.clone().without_options();
        let mut job = JobSpec { command: String::new(), name: String::new(), ..job };
        for step in &mut job.steps {
            step.name.clear();
            for group in &mut step.groups {
                group.name.clear();
                // Logs and figures are no part of the load, and numbers of logs those of jobs in
                // the file.
                group.logs = Logs::default();
                group.figures = Figures::default();
                group.reported = Reported::Group;
                group.volumes.iter_mut().for_each(|uri| *uri = foreign::plain_uri(uri));
            }
        }
        toml::to_string(&job).context("the job as TOML")
    };
    let (old, new) = (plain(job)?, plain(&again)?);
    let differs = old.lines().zip(new.lines()).find(|(old, new)| old != new);
    match differs {
        Some((old, new)) => Err(refuse(format!("`{old}` would become `{new}`")).into()),
        None if old.lines().count() != new.lines().count() => {
            Err(refuse("part of it would be lost".to_owned()).into())
        }
        None => Ok(text),
    }
}

fn explained(file: &str, reading: &Reading) -> String {
    let mut text = Vec::new();
    match &reading.job {
        Some(job) => {
            describe(&mut text, file, job);
            for (path, bytes) in layout::longer(job) {
                let (path, size) = (path.display(), print_size(bytes));
                text.push(format!("first, {path} is extended to {size}"));
            }
            for (path, making) in layout::missing(job, layout::Manner::of(file)) {
                let (path, size) = (path.display(), print_size(making.size_bytes));
                let how = if making.written { "written" } else { "made without data" };
                text.push(format!("first, {path} is {how}, {size}: it does not exist"));
            }
        }
        None => {
            let refused = reading.notes_of(Treatment::Refused).count();
            let s = if refused == 1 { "" } else { "s" };
            text.push(format!("{file} would not be run: {refused} setting{s} refused"));
        }
    }
    if !reading.cores.is_empty() {
        let cores: Vec<String> = reading.cores.iter().map(usize::to_string).collect();
        text.push(format!("on processors {}", cores.join(", ")));
    }
    let mut notes: Vec<&Note> = reading.notes.iter().collect();
    notes.sort_by_key(|note| note.treatment);
    text.extend(notes.iter().map(ToString::to_string));
    text.join("\n") + "\n"
}

fn describe(text: &mut Vec<String>, file: &str, job: &JobSpec) {
    let steps = job.steps.len();
    let (s, seed) = (if steps == 1 { "" } else { "s" }, job.seed);
    text.push(match steps {
        0 => format!("{file} creates files and runs nothing"),
        _ => format!("{file} runs {steps} step{s} with seed {seed}"),
    });
    for (number, step) in (1..).zip(&job.steps) {
        let name = if step.name.is_empty() { "" } else { " " };
        text.push(format!("step {number}{name}{}: {}", step.name, length(step)));
        step.groups.iter().for_each(|group| describe_group(text, group));
    }
}

fn length(step: &Step) -> String {
    let limited = |group: &Group| {
        let Workload { limit_bytes, limit_ios, access, .. } = &group.workload;
        limit_bytes.is_some() || limit_ios.is_some() || access.trace.is_some()
    };
    let ends = match step.groups.iter().all(limited) {
        true => " at most, until all is done",
        false => "",
    };
    let mut first = String::new();
    if step.ends_with_first {
        first.push_str(", until the first worker ends");
    }
    if let Some(steady) = step.steady {
        first.push_str(&format!(", or until {steady}"));
    }
    match step.ramp_seconds {
        s if s > 0.0 => format!("{}{ends} after {} of ramp{first}", span(step.seconds), span(s)),
        _ => format!("{}{ends}{first}", span(step.seconds)),
    }
}

/// Seconds, and beside them in the unit in which people count so many.
fn span(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    match units.into_iter().find(|(unit, _)| seconds >= 2.0 * unit) {
        Some((unit, name)) => {
            let count = (seconds / unit * 10.0).round() / 10.0;
            format!("{seconds} s ({count} {name})")
        }
        None => format!("{seconds} s"),
    }
}

fn describe_group(text: &mut Vec<String>, group: &Group) {
    let workload = &group.workload;
    let name = if group.name.is_empty() { "all" } else { &group.name };
    let each = match (group.volumes.len(), group.is_one()) {
        (0 | 1, _) => " on",
        (_, false) => " on each of",
        (_, true) if group.joins() => " on",
        (_, true) => " in turn on",
    };
    let workers = match group.workers {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    text.push(format!("  {name}: {workers}{each} {}", names(&group.volumes)));
    let mut facts = vec![format!("{} outstanding", workload.outstanding)];
    facts
        .extend(workload.refill_at.map(|low| format!("refilled at {low} in flight (iodepth_low)")));
    facts.extend(pace(&workload.pacing));
    facts.extend(range(&workload.range));
    let access = &workload.access;
    facts.extend(access.trace.iter().map(replay));
    facts.extend(places(&access.random, &access.lines));
    facts.extend(walk(access.sequential));
    facts.extend(access.zones.map(zones));
    facts.extend(access.zoned.map(zoned));
    facts.extend(access.files.as_ref().map(files));
    let run =
        if access.run_stays { "times each place" } else { "sequential I/Os from each offset" };
    facts.extend((access.run > 1).then(|| format!("{} {run}", access.run)));
    facts.extend((access.flush_every > 0).then(|| format!("flush every {}", access.flush_every)));
    facts.extend(access.trims_first.then(|| "each write after a trim of its range".to_owned()));
    let content = &workload.content;
    let share = |percent: f64, what: &str| (percent > 0.0).then(|| format!("{percent} % {what}"));
    facts.extend(share(content.compress_percent, "compressible"));
    facts.extend(content.chunk_bytes.map(|bytes| format!("in each {bytes} bytes")));
    facts.extend(share(content.dedupe_percent, "duplicate"));
    facts.extend(content.dedupe_blocks.map(|blocks| format!("of {blocks} blocks")));
    facts.extend(content.repeats.then(|| "buffers come again".to_owned()));
    facts.extend(content.pattern.as_ref().map(|pattern| format!("data {}", shortened(pattern))));
    facts.extend(workload.verify.map(compared));
    let ios = workload.limit_ios.map(|ios| format!("ends after {ios} I/Os"));
    facts.extend(ios);
    facts.extend(workload.until_full.then(|| "ends at ENOSPC".to_owned()));
    facts.extend(workload.end_flush.then(|| "a flush at the end".to_owned()));
    let limit = workload.limit_bytes.map(|bytes| format!("ends after {}", print_size(bytes)));
    facts.extend(limit);
    text.push(format!("    {}", facts.join(" · ")));
    text.extend(control::steered(workload).map(|steered| format!("    {steered}")));
    let turn = turn(group);
    if !turn.is_empty() {
        text.push(format!("    {}", turn.join(" · ")));
    }
    text.extend(access.lines.iter().map(|line| format!("    {}", line_of(line))));
    text.extend(shown::logs(&group.logs));
    text.extend(shown::figures(&group.figures));
}

/// What is replayed, and how.
fn replay(replay: &Replay) -> String {
    let mut facts = vec![format!("replays {}", replay.file)];
    if let Some(trace) = replay.trace() {
        let all = trace.facts();
        let seconds = (all.length.as_secs_f64() * 1000.0).round() / 1000.0;
        facts.push(all.to_string());
        facts.push(match (all.timed, seconds > 0.0) {
            (true, _) => format!("at the trace's times, {}", span(seconds)),
            (false, true) => format!("with pauses, {} at least", span(seconds)),
            (false, false) => "one after the other".to_owned(),
        });
    }
    let Replay { speed_percent, divide_by, align_bytes, skip, .. } = replay;
    if *speed_percent != 100 {
        facts.push(format!("{speed_percent} % as fast"));
    }
    if *divide_by > 1 {
        facts.push(format!("offsets divided by {divide_by}"));
    }
    if *align_bytes > 1 {
        facts.push(format!("offsets aligned to {}", print_size(u64::from(*align_bytes))));
    }
    if !skip.is_empty() {
        facts.push(format!("without {skip:?}"));
    }
    facts.join(", ")
}

/// The beginning of a pattern.
fn shortened(pattern: &DataPattern) -> String {
    let text = pattern.to_string();
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], pattern.len_bytes()),
        None => text,
    }
}

fn compared(verify: Verify) -> String {
    match verify {
        Verify { sample_percent: 0.0, .. } => "stamped for a later run".to_owned(),
        Verify { earlier: true, .. } => "compared with what an earlier run wrote".to_owned(),
        Verify { sample_percent: 100.0, .. } => "every read is compared".to_owned(),
        Verify { sample_percent, .. } => format!("{sample_percent} % of reads are compared"),
    }
}

/// Names of volumes; of many the first and the last.
fn names(volumes: &[String]) -> String {
    match volumes {
        [first, second, .., last] if volumes.len() > 8 => {
            format!("{first}, {second} and so on to {last}, {} in all", volumes.len())
        }
        _ => volumes.join(", "),
    }
}

/// When it begins and ends, and where it works, if that is said of it alone.
fn turn(group: &Group) -> Vec<String> {
    let When { after, delay_seconds, seconds, ramp_seconds } = &group.when;
    let mut facts = Vec::new();
    facts.extend((!after.is_empty()).then(|| format!("begins when {after} has ended")));
    match (*delay_seconds > 0.0, after.is_empty()) {
        (true, true) => facts.push(format!("begins after {}", span(*delay_seconds))),
        (true, false) => facts.push(format!("{} later", span(*delay_seconds))),
        (false, _) => {}
    }
    if *ramp_seconds > 0.0 {
        facts.push(format!("not measured for {} at first", span(*ramp_seconds)));
    }
    facts.extend(seconds.map(|seconds| format!("lasts {}", span(seconds))));
    let own = "shares its offsets with no other job";
    facts.extend(group.own_places.then(|| own.to_owned()));
    facts.extend(group.cache.drop.then(|| "page cache dropped first".to_owned()));
    facts.extend(group.cache.read.then(|| "read into the page cache first".to_owned()));
    match group.cache.expect {
        Expect::Unknown => {}
        Expect::Random => facts.push("hints random access to the kernel".to_owned()),
        Expect::Sequential => facts.push("hints sequential access to the kernel".to_owned()),
    }
    if !group.cores.is_empty() {
        let cores: Vec<String> = group.cores.iter().map(usize::to_string).collect();
        facts.push(format!("on processors {}", cores.join(", ")));
    }
    facts
}

fn pace(pacing: &Pacing) -> Option<String> {
    match pacing {
        Pacing::Closed => None,
        Pacing::Ios { per_second, arrivals } => {
            Some(format!("{per_second} I/Os per second for each worker, {arrivals:?}"))
        }
        Pacing::Bytes { per_second, arrivals } => {
            Some(format!("{per_second} bytes per second for each worker, {arrivals:?}"))
        }
    }
}

fn extent(extent: Extent) -> String {
    match extent {
        Extent::Bytes(bytes) => print_size(bytes),
        Extent::Percent(percent) => format!("{percent} %"),
    }
}

fn range(range: &Range) -> Option<String> {
    let start = extent(range.start);
    match range.length {
        Some(length) => Some(format!("{} from {start} on", extent(length))),
        None if range.start != Extent::Bytes(0) => Some(format!("from {start} to the end")),
        None => None,
    }
}

fn places(places: &Places, lines: &[Line]) -> Option<String> {
    let random = lines.iter().any(|line| line.random_percent > 0.0);
    let words = match places {
        Places::Uniform => "random places uniform".to_owned(),
        Places::Once => "random offsets, each block once before any again".to_owned(),
        Places::Zipf { exponent } => format!("random offsets, zipf {exponent}"),
        Places::Pareto { hot } => format!("random offsets, pareto {hot}"),
        Places::Normal { deviation_percent } => {
            format!("random offsets, normal {deviation_percent}")
        }
        Places::Zones { zones } => format!("random offsets in {} zones", zones.len()),
    };
    random.then_some(words)
}

fn walk(walk: Walk) -> Option<String> {
    match walk {
        Walk::Forward => None,
        Walk::Backward => Some("backward".to_owned()),
        Walk::Strided { bytes } => Some(format!("every {}", print_size(bytes))),
    }
}

fn zones(zones: ZoneWalk) -> String {
    let [transfer, range, skip] =
        [zones.transfer_bytes, zones.range_bytes, zones.skip_bytes].map(print_size);
    format!("{transfer} in each zone of {range}, then {skip} skipped")
}

fn zoned(zoned: Zoned) -> String {
    let most = match zoned.max_open {
        0 => String::new(),
        most => format!(", at most {most} open"),
    };
    let reads = if zoned.read_beyond { "anywhere" } else { "before write pointers" };
    format!("zones of the device: writes at write pointers{most}, reads {reads}")
}

fn files(files: &FileWalk) -> String {
    let FileWalk { count, ios, random } = files;
    let law = match random {
        None => "in turn".to_owned(),
        Some(Places::Zipf { exponent }) => format!("by zipf {exponent}"),
        Some(Places::Pareto { hot }) => format!("by pareto {hot}"),
        Some(Places::Normal { deviation_percent }) => format!("normal {deviation_percent:.1}"),
        Some(_) => "by chance".to_owned(),
    };
    format!("{ios} in a row on one of {count} files, which come {law}")
}

fn line_of(line: &Line) -> String {
    let mut facts = vec![print_size(line.size_bytes.into())];
    if line.share_percent < 100.0 {
        facts.insert(0, format!("{:.3} % of I/Os", line.share_percent));
    }
    let shares = [
        (line.read_percent, "reads"),
        (line.write_percent(), "writes"),
        (line.trim_percent, "trims"),
        (line.zero_percent, "zeroes"),
        (line.flush_percent, "flushes"),
        (line.random_percent, "random"),
        (line.fua_percent, "durable"),
    ];
    let shown = shares.into_iter().filter(|(percent, _)| *percent > 0.0);
    facts.extend(shown.map(|(percent, what)| format!("{percent} % {what}")));
    if let Some(align) = line.align_bytes {
        facts.push(format!("aligned to {}", print_size(align.into())));
    }
    if line.delay_us > 0 {
        facts.push(format!("{} us before each {}", line.delay_us, line.burst));
    }
    if line.reply_bytes > 0 {
        facts.push(format!("answered with {}", print_size(line.reply_bytes.into())));
    }
    facts.join(", ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn long_times_are_said_in_longer_units_too() {
        let said = [0.5, 119.0, 120.0, 5430.0, 7200.0, 172_800.0, 2_592_000.0].map(span);
        let expect = [
            "0.5 s",
            "119 s",
            "120 s (2 minutes)",
            "5430 s (90.5 minutes)",
            "7200 s (2 hours)",
            "172800 s (2 days)",
            "2592000 s (30 days)",
        ];
        assert_eq!(said, expect);
    }
}
