//! Writer of a job of ours as an Iometer configuration, as far as Iometer supports it.
//!
//! The caller reads the written file again: only what cannot be written is refused here.

use std::fmt::Write;

use super::file::TEST_TYPES;
use crate::spec::{Content, Extent, Group, JobSpec, Line, Pacing, Places, Range, Step, Walk};

/// Version that all releases from 2008 on read.
const VERSION: &str = "Version 1.1.0";
/// Unit of positions, in bytes.
const SECTOR_BYTES: u64 = 512;

/// Writes a job.
pub fn write(job: &JobSpec) -> Result<String, String> {
    let first = job.steps.first().ok_or("the job has no steps")?;
    if !job.laid_out.is_empty() {
        return Err("Iometer does not support laid-out files".to_owned());
    }
    job.steps.iter().try_for_each(|step| same_shape(first, step))?;
    let mut text = format!("{VERSION}\n");
    setup(&mut text, job, first)?;
    specs(&mut text, job)?;
    managers(&mut text, job, first)?;
    line(&mut text, VERSION);
    Ok(text)
}

fn line(text: &mut String, line: &str) {
    text.push_str(line);
    text.push('\n');
}

/// Checks that workers and times are the same in all tests; only access specifications may change.
fn same_shape(first: &Step, step: &Step) -> Result<(), String> {
    if (step.seconds, step.ramp_seconds) != (first.seconds, first.ramp_seconds) {
        return Err("Iometer needs the same run time and ramp up time in all tests".to_owned());
    }
    let shape = |group: &Group| {
        let workload = &group.workload;
        (group.volumes.clone(), group.workers, workload.outstanding, workload.range)
    };
    let same = step.groups.len() == first.groups.len()
        && step.groups.iter().zip(&first.groups).all(|(a, b)| shape(a) == shape(b));
    match same {
        true => Ok(()),
        false => Err("Iometer needs the same workers in all tests".to_owned()),
    }
}

fn setup(text: &mut String, job: &JobSpec, step: &Step) -> Result<(), String> {
    let seconds = whole(step.seconds, "the run time in seconds")?;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let ramp = whole(step.ramp_seconds, "the ramp up time in seconds")?;
    let description = job.name.replace(['\n', '\r', '\''], " ");
    let test = TEST_TYPES[0].0;
    let _ = write!(
        text,
        "'TEST SETUP {rule}\n'Test Description\n\t{description}\n'Run Time\n\
         '\thours      minutes    seconds\n\t{hours:<11}{minutes:<11}{}\n\
         'Ramp Up Time (s)\n\t{ramp}\n'Default Disk Workers to Spawn\n\t0\n\
         'Default Network Workers to Spawn\n\t0\n'Record Results\n\tALL\n\
         'Worker Cycling\n'\tstart      step       step type\n\t1          1          LINEAR\n\
         'Disk Cycling\n'\tstart      step       step type\n\t1          1          LINEAR\n\
         'Queue Depth Cycling\n'\tstart      end        step       step type\n\
         \t1          32         2          EXPONENTIAL\n'Test Type\n\t{test}\n\
         'END test setup\n",
        seconds % 60,
        rule = "=".repeat(68),
    );
    Ok(())
}

/// Writes the specifications: each group of each step has its own.
fn specs(text: &mut String, job: &JobSpec) -> Result<(), String> {
    line(text, &format!("'ACCESS SPECIFICATIONS {}", "=".repeat(57)));
    for (number, step) in (1..).zip(&job.steps) {
        for (index, group) in step.groups.iter().enumerate() {
            plain(group)?;
            line(text, "'Access specification name,default assignment");
            line(text, &format!("\t{},NONE", spec_name(number, index, step)));
            line(text, "'size,% of size,% reads,% random,delay,burst,align,reply");
            for access in &group.workload.access.lines {
                line(text, &spec_line(access)?);
            }
        }
    }
    line(text, "'END access specifications");
    Ok(())
}

fn spec_name(number: usize, index: usize, step: &Step) -> String {
    let name = step.name.replace(['\n', '\r', ',', '\''], " ");
    format!("{number}.{} {}", index + 1, name.trim()).trim_end().to_owned()
}

/// Refuses features that Iometer does not have.
fn plain(group: &Group) -> Result<(), String> {
    let (workload, access) = (&group.workload, &group.workload.access);
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    for (what, fits) in [
        ("a rate", workload.pacing == Pacing::Closed),
        ("distributions of random offsets", !random || access.random == Places::Uniform),
        (
            "strides, backward I/O and several I/Os per offset",
            access.sequential == Walk::Forward && access.run == 1,
        ),
        ("separate offsets for reads and writes", !access.apart),
        ("flushes", access.flush_every == 0),
        ("trims", !access.trims_first),
        ("zones visited in order", access.zones.is_none()),
        ("zoned devices", access.zoned.is_none()),
        ("files within a volume", access.files.is_none()),
        ("refill_at", workload.refill_at.is_none()),
        ("data content settings", workload.content == Content::default()),
        ("verification", workload.verify.is_none()),
        ("traces", workload.access.trace.is_none()),
        ("a limit in bytes", workload.limit_bytes.is_none()),
        ("a limit in I/Os", workload.limit_ios.is_none()),
        ("a flush at the end", !workload.end_flush),
        ("think time", workload.think.is_none()),
        ("minimum rates and maximum latencies", workload.demands.is_none()),
        ("a queue depth search", workload.depth_search.is_none()),
        ("flow control between workers", workload.flow.is_none()),
        ("several workers in one group", group.workers == 1),
    ] {
        if !fits {
            return Err(format!("Iometer does not support {what}"));
        }
    }
    Ok(())
}

fn spec_line(access: &Line) -> Result<String, String> {
    let others =
        [access.trim_percent, access.zero_percent, access.flush_percent, access.fua_percent];
    if others.iter().any(|percent| *percent > 0.0) {
        return Err("Iometer supports reads and writes only".to_owned());
    }
    if !access.delay_us.is_multiple_of(1000) {
        return Err(format!(
            "Iometer needs delays in whole milliseconds, not {} us",
            access.delay_us
        ));
    }
    Ok(format!(
        "\t{},{},{},{},{},{},{},{}",
        access.size_bytes,
        whole(access.share_percent, "the share of a line")?,
        whole(access.read_percent, "the share of reads")?,
        whole(access.random_percent, "the share of random I/Os")?,
        access.delay_us / 1000,
        access.burst,
        access.align(),
        access.reply_bytes,
    ))
}

fn managers(text: &mut String, job: &JobSpec, first: &Step) -> Result<(), String> {
    line(text, &format!("'MANAGER LIST {}", "=".repeat(66)));
    line(text, "'Manager ID, manager name\n\t1,drumfire\n'Manager network address\n\t");
    for (index, group) in first.groups.iter().enumerate() {
        let name = group.name.replace(['\n', '\r', '\''], " ");
        let name = if name.is_empty() { format!("Worker {}", index + 1) } else { name };
        let depth = group.workload.outstanding;
        let (sectors, start) = sectors(&group.workload.range)?;
        let _ = write!(
            text,
            "'Worker\n\t{name}\n'Worker type\n\tDISK\n'Default target settings for worker\n\
             'Number of outstanding IOs,test connection rate,transactions per connection,\
             use fixed seed,fixed seed value\n\t{depth},DISABLED,1,ENABLED,{}\n\
             'Disk maximum size,starting sector,Data pattern\n\t{sectors},{start},2\n\
             'End default target settings for worker\n'Assigned access specs\n",
            job.seed
        );
        for (number, step) in (1..).zip(&job.steps) {
            line(text, &format!("\t{}", spec_name(number, index, step)));
        }
        line(text, "'End assigned access specs\n'Target assignments");
        for volume in &group.volumes {
            let odd = volume.starts_with('\'') || volume.contains(['\n', '\r']);
            if odd || volume.trim() != volume || volume.is_empty() {
                return Err(format!("'{volume}' cannot be the name of a target"));
            }
            line(text, &format!("'Target\n\t{volume}\n'Target type\n\tDISK\n'End target"));
        }
        line(text, "'End target assignments\n'End worker");
    }
    line(text, "'End manager\n'END manager list");
    Ok(())
}

/// Returns the number of sectors, 0 for all, and the first of them.
fn sectors(range: &Range) -> Result<(u64, u64), String> {
    let of = |extent: Extent| match extent {
        Extent::Bytes(bytes) if bytes.is_multiple_of(SECTOR_BYTES) => Ok(bytes / SECTOR_BYTES),
        Extent::Bytes(bytes) => {
            Err(format!("Iometer needs whole sectors of 512 bytes, not {bytes} bytes"))
        }
        Extent::Percent(_) => Err("Iometer needs a range in bytes, not in percent".to_owned()),
    };
    let length = range.length.map_or(Ok(0), of)?;
    Ok((length, of(range.start)?))
}

/// Returns a number as in Iometer: without a fraction.
fn whole(value: f64, what: &str) -> Result<u64, String> {
    match value.fract() == 0.0 && (0.0..=1e15).contains(&value) {
        true => Ok(value as u64),
        false => Err(format!("{what} is {value}: Iometer accepts whole numbers only")),
    }
}
