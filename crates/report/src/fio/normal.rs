//! fio's normal output, line by line as in version 3.33, because programs parse it.

use std::io::{self, Write};

use stats::RunResult;

use super::document::{Direction, Disk, Job, Object, Spread};
use super::number::short;
use super::{Include, VERSION, disks, each_job, ended, options};

/// A job, and how many of fio's jobs it joins.
struct Shown {
    job: Job,
    jobs: usize,
    options: Vec<(&'static str, String)>,
}

/// Writes the text of a run, a result for each of its steps, and then the class of the result with
/// the reasons against it.
pub fn write_normal(steps: &[RunResult], out: &mut impl Write) -> io::Result<()> {
    let Some(last) = steps.last() else { return Ok(()) };
    let shown = each_job(steps, Include::default(), |job, group| {
        let options = options::made_of(group);
        Shown { job, jobs: group.workers.len(), options }
    });
    shown.iter().try_for_each(|shown| head(shown, out))?;
    let started: usize = shown.iter().map(|shown| shown.jobs).sum();
    let plural = if started == 1 { "" } else { "es" };
    writeln!(out, "{VERSION} ({} {})", last.tool.name, last.tool.version)?;
    writeln!(out, "Starting {started} process{plural}\n")?;
    let time = ended(last).1;
    for Shown { job, jobs, .. } in &shown {
        one(job, *jobs, &time, out)?;
    }
    for id in 0..=shown.last().map_or(0, |last| last.job.groupid) {
        let jobs = shown.iter().map(|shown| &shown.job).filter(|job| job.groupid == id);
        together(id, &jobs.collect::<Vec<_>>(), out)?;
    }
    disk_stats(&disks::disks(steps), out)?;
    steps.iter().try_for_each(|result| class(result, out))
}

/// The line of a job before the run.
fn head(shown: &Shown, out: &mut impl Write) -> io::Result<()> {
    let Shown { job, jobs, options } = shown;
    let of =
        |key: &str| options.iter().find(|(name, _)| *name == key).map_or("", |(_, value)| value);
    let size = block::parse_size(of("bs")).unwrap_or(4096);
    let sizes = format!("(R) {size}B-{size}B, (W) {size}B-{size}B, (T) {size}B-{size}B");
    let (name, id, rw, depth) = (&job.jobname, job.groupid, of("rw"), of("iodepth"));
    writeln!(out, "{name}: (g={id}): rw={rw}, bs={sizes}, ioengine=drumfire, iodepth={depth}")?;
    if *jobs > 1 {
        writeln!(out, "...")?;
    }
    Ok(())
}

/// All of one job.
fn one(job: &Job, jobs: usize, time: &str, out: &mut impl Write) -> io::Result<()> {
    let Job { jobname, groupid, error, .. } = job;
    let pid = std::process::id();
    writeln!(out, "{jobname}: (groupid={groupid}, jobs={jobs}): err={error:2}: pid={pid}: {time}")?;
    if let Some(desc) = &job.desc {
        writeln!(out, "  Description  : [{desc}]")?;
    }
    for (word, of) in directions(job) {
        direction(word, of, out)?;
    }
    if let Some(sync) = job.directions.sync.as_ref().filter(|sync| sync.lat_ns.samples > 0) {
        writeln!(out, "  fsync/fdatasync/sync_file_range:")?;
        spread("sync", &sync.lat_ns, out)?;
        percentiles("sync", &sync.lat_ns, out)?;
    }
    for (unit, shares) in
        [("nsec", &job.latency_ns), ("usec", &job.latency_us), ("msec", &job.latency_ms)]
    {
        latencies(unit, shares, out)?;
    }
    writeln!(
        out,
        "  cpu          : usr={:.2}%, sys={:.2}%, ctx={}, majf={}, minf={}",
        job.usr_cpu, job.sys_cpu, job.ctx, job.majf, job.minf
    )?;
    let line = |shares: &Object<&'static str, f64>| {
        let each: Vec<String> = shares.0.iter().map(|(at, of)| format!("{at}={of:.1}%")).collect();
        each.join(", ")
    };
    writeln!(out, "  IO depths    : {}", line(&job.iodepth_level))?;
    writeln!(out, "     submit    : {}", line(&job.iodepth_submit))?;
    writeln!(out, "     complete  : {}", line(&job.iodepth_complete))?;
    let ios = |of: &Option<Direction>| of.as_ref().map_or(0, |of| of.total_ios);
    let all = &job.directions;
    let sync = all.sync.as_ref().map_or(0, |sync| sync.total_ios);
    writeln!(
        out,
        "     issued rwts: total={},{},{},{sync} short=0,0,0,0 dropped=0,0,0,0",
        ios(&all.read) + ios(&all.mixed),
        ios(&all.write),
        ios(&all.trim),
    )?;
    if let (Some(total), Some(first)) = (job.total_err, job.first_error) {
        let word = io::Error::from_raw_os_error(first as i32).to_string();
        let word = word.split(" (os error").next().unwrap_or_default().to_owned();
        writeln!(out, "     errors    : total={total}, first_error={first}/<{word}>")?;
    }
    writeln!(
        out,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        job.latency_target, job.latency_window, job.latency_percentile, job.latency_depth
    )
}

/// Returns the figures of each direction, with fio's word for the direction.
fn directions(job: &Job) -> impl Iterator<Item = (&'static str, &Direction)> {
    let all = &job.directions;
    let words =
        [("read", &all.read), ("write", &all.write), ("trim", &all.trim), ("mixed", &all.mixed)];
    let done = words.into_iter().filter_map(|(word, of)| Some((word, of.as_ref()?)));
    done.filter(|(_, of)| of.total_ios > 0)
}

fn direction(word: &str, of: &Direction, out: &mut impl Write) -> io::Result<()> {
    let iops = short(of.iops as u64, 4, false, "");
    let [binary, decimal] = [true, false].map(|binary| short(of.bw_bytes, 4, binary, "B/s"));
    let moved = short(of.io_bytes, 4, true, "B");
    writeln!(out, "  {word}: IOPS={iops}, BW={binary} ({decimal})({moved}/{}msec)", of.runtime)?;
    for (name, times) in [("slat", &of.slat_ns), ("clat", &of.clat_ns), (" lat", &of.lat_ns)] {
        spread(name, times, out)?;
    }
    percentiles("clat", &of.clat_ns, out)?;
    percentiles("lat", &of.lat_ns, out)?;
    if of.bw_samples == 0 {
        return Ok(());
    }
    // In MiB from 1,000,000 KiB on.
    let (unit, by) = if of.bw_mean > 1e6 { ("MiB", 1024.0) } else { ("KiB", 1.0) };
    let [min, max] = [of.bw_min, of.bw_max].map(|rate| (rate as f64 / by) as u64);
    writeln!(
        out,
        "   bw ({unit:>5}/s): min={min:5}, max={max:5}, per={:.2}%, avg={:5.2}, stdev={:5.2}, \
         samples={}",
        of.bw_agg,
        of.bw_mean / by,
        of.bw_dev / by,
        of.bw_samples
    )?;
    writeln!(
        out,
        "   iops        : min={:5}, max={:5}, avg={:5.2}, stdev={:5.2}, samples={}",
        of.iops_min, of.iops_max, of.iops_mean, of.iops_stddev, of.iops_samples
    )
}

/// Nanoseconds of a unit, and its name.
fn scale(min: u64, max: u64, dev: f64) -> (f64, &'static str) {
    match () {
        () if min > 2_000_000 && max > 99_999_999 && dev > 1e6 => (1e6, "(msec)"),
        () if min > 2000 && max > 99_999 && dev > 1000.0 => (1e3, "(usec)"),
        () => (1.0, "(nsec)"),
    }
}

fn spread(name: &str, times: &Spread, out: &mut impl Write) -> io::Result<()> {
    if times.samples == 0 {
        return Ok(());
    }
    let (by, unit) = scale(times.min, times.max, times.stddev);
    let number = |ns: u64| short((ns as f64 / by) as u64, 6, false, "");
    let (min, max) = (number(times.min), number(times.max));
    let (mean, stddev) = (times.mean / by, times.stddev / by);
    writeln!(
        out,
        "    {name} {unit}: min={min:>5}, max={max:>5}, avg={mean:5.2}, stdev={stddev:5.2}"
    )
}

fn percentiles(name: &str, times: &Spread, out: &mut impl Write) -> io::Result<()> {
    let Some(Object(all)) = times.percentile.as_ref().filter(|all| !all.0.is_empty()) else {
        return Ok(());
    };
    let [min, max] = [all.first(), all.last()].map(|one| one.map_or(0, |(_, ns)| *ns));
    let (thousands, unit) = match () {
        () if min > 2_000_000 && max > 99_999_999 => (2, "msec"),
        () if min > 2000 && max > 99_999 => (1, "usec"),
        () => (0, "nsec"),
    };
    let scaled = |ns: u64| (0..thousands).fold(ns, |value, _| value.div_ceil(1000));
    let width = scaled(max).to_string().len().max(5);
    let per_line = (80 - 7) / (2 + 10 + width);
    writeln!(out, "    {name} percentiles ({unit}):")?;
    for line in all.chunks(per_line) {
        let each: Vec<String> = line
            .iter()
            .map(|(at, ns)| {
                let at: f64 = at.parse().unwrap_or_default();
                format!(" {at:5.2}th=[{:>width$}]", scaled(*ns))
            })
            .collect();
        let end = if line.as_ptr_range().end == all.as_ptr_range().end { "" } else { "," };
        writeln!(out, "     |{}{end}", each.join(","))?;
    }
    Ok(())
}

fn latencies(
    unit: &str,
    shares: &Object<&'static str, f64>,
    out: &mut impl Write,
) -> io::Result<()> {
    let some: Vec<String> = shares
        .0
        .iter()
        .filter(|(_, share)| *share > 0.0)
        .map(|(edge, share)| format!("{edge}={share:.2}%"))
        .collect();
    for line in some.chunks(5) {
        writeln!(out, "  lat ({unit})   : {}", line.join(", "))?;
    }
    Ok(())
}

/// Writes the sums over the jobs of a group.
fn together(id: u32, jobs: &[&Job], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nRun status group {id} (all jobs):")?;
    for (word, name) in [("read", "READ"), ("write", "WRITE"), ("trim", "TRIM"), ("mixed", "MIXED")]
    {
        let each = jobs.iter().copied().flat_map(directions);
        let all: Vec<&Direction> = each.filter(|(is, _)| *is == word).map(|(_, of)| of).collect();
        let (Some(first), Some(last)) =
            (all.iter().map(|of| of.runtime).min(), all.iter().map(|of| of.runtime).max())
        else {
            continue;
        };
        let bytes: u64 = all.iter().map(|of| of.io_bytes).sum();
        let rate = (bytes as f64 * 1000.0 / last.max(1) as f64) as u64;
        let least = all.iter().map(|of| of.bw_bytes).min().unwrap_or(0);
        let most = all.iter().map(|of| of.bw_bytes).max().unwrap_or(0);
        let [binary, decimal] = [true, false]
            .map(|binary| [rate, least, most].map(|rate| short(rate, 4, binary, "B/s")));
        let [moved, si] = [true, false].map(|binary| short(bytes, 4, binary, "B"));
        let ([rate, least, most], [rate_si, least_si, most_si]) = (binary, decimal);
        writeln!(
            out,
            "{name:>7}: bw={rate} ({rate_si}), {least}-{most} ({least_si}-{most_si}), \
             io={moved} ({si}), run={first}-{last}msec"
        )?;
    }
    Ok(())
}

fn disk_stats(disks: &[Disk], out: &mut impl Write) -> io::Result<()> {
    if disks.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nDisk stats (read/write):")?;
    for disk in disks {
        let Disk { name, read_ios, write_ios, read_merges, write_merges, .. } = disk;
        writeln!(
            out,
            "  {name}: ios={read_ios}/{write_ios}, merge={read_merges}/{write_merges}, \
             ticks={}/{}, in_queue={}, util={:.2}%",
            disk.read_ticks, disk.write_ticks, disk.in_queue, disk.util
        )?;
    }
    Ok(())
}

/// Writes the honesty checks, which fio does not have.
fn class(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let origin = result.origin.with(result.kind);
    writeln!(out, "\nHonesty checks: {} ({origin})", result.class.word())?;
    let speaks = |check: &&stats::Check| {
        matches!(check.verdict, stats::Verdict::Fail | stats::Verdict::Warn)
    };
    for check in result.checks.iter().filter(speaks) {
        let (word, code, name) = (check.verdict.word(), &check.code, &check.name);
        writeln!(out, "  {word} {code} {name}: {}", check.evidence)?;
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    #[test]
    fn a_run_looks_as_with_fio() {
        let mut out = Vec::new();
        write_normal(&[sample::counted()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        for line in [
            "  read: IOPS=1000, BW=4000KiB/s (4096kB/s)(8000KiB/2000msec)",
            "  write: IOPS=500, BW=",
            "    clat percentiles (",
            "     |  1.00th=[",
            "  lat (usec)   : 100=66.67%",
            "  cpu          : usr=",
            "  IO depths    : 1=",
            "     issued rwts: total=2000,1000,0,",
            "\nRun status group 0 (all jobs):\n   READ: bw=4000KiB/s (4096kB/s), ",
            "\nHonesty checks: ",
        ] {
            assert!(text.contains(line), "{line:?} is not in\n{text}");
        }
        assert!(!text.contains("NaN") && !text.contains("=inf"), "{text}");
    }

    #[test]
    fn nothing_done_is_said_without_a_division() {
        let mut out = Vec::new();
        write_normal(&[RunResult::default()], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(!text.contains("NaN"), "{text}");
    }
}
