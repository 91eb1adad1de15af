//! fio's terse format: a line of semicolons for each job, in its versions 3 to 5.

use std::io::{self, Write};

use stats::{Origin, RunResult};

use super::document::{Direction, Disk, Job, Object, Spread};
use super::figures::Figures;
use super::{Include, VERSION, disks, each_job};

/// Percentiles of a line, whether there are as many or not.
const PERCENTILES: usize = 20;

/// Writes a line for each job of a run, a result for each of its steps. `version` is 3, 4 or 5.
pub fn write_terse(steps: &[RunResult], version: u32, out: &mut impl Write) -> io::Result<()> {
    let disks = disks::disks(steps);
    // The last field is the description, which people write and read.
    let origin = steps.iter().map(|result| result.origin).find(|it| *it != Origin::Measured);
    let lines = each_job(steps, Include::default(), |mut job, group| {
        if let Some(origin) = origin {
            let words = job.desc.take().map_or(String::new(), |words| format!(": {words}"));
            job.desc = Some(format!("{}{words}", origin.word()));
        }
        let figures = Figures::of(group.figures);
        let shows = figures.of_completion || figures.of_whole;
        let named = figures.percentiles.iter().map(|percent| format!("{percent:.6}"));
        let wanted: Vec<String> = named.filter(|_| shows).collect();
        line(&job, &wanted, &disks, version).join(";")
    });
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn line(job: &Job, wanted: &[String], disks: &[Disk], version: u32) -> Vec<String> {
    let (name, id, error) = (&job.jobname, job.groupid, job.error);
    let mut fields = vec![format!("{version};{VERSION};{name};{id};{error}")];
    let all = &job.directions;
    // Version 3 knows no trims; without directions apart there is one, of all of them together.
    let trim = all.trim.as_ref().filter(|_| version > 3);
    let ways = [all.read.as_ref(), all.write.as_ref(), trim, all.mixed.as_ref()];
    ways.into_iter().flatten().for_each(|way| direction(way, wanted, version, &mut fields));
    let Job { usr_cpu, sys_cpu, ctx, majf, minf, .. } = job;
    fields.push(format!("{usr_cpu:.6}%;{sys_cpu:.6}%;{ctx};{majf};{minf}"));
    let shares = |of: &Object<&'static str, f64>, places: usize| -> Vec<String> {
        of.0.iter().map(|(_, share)| format!("{share:.places$}%")).collect()
    };
    fields.extend(shares(&job.iodepth_level, 1));
    fields.extend(shares(&job.latency_us, 2));
    fields.extend(shares(&job.latency_ms, 2));
    for disk in disks {
        let Disk { name, read_ios, write_ios, read_merges, write_merges, .. } = disk;
        let Disk { read_ticks, write_ticks, in_queue, util, .. } = disk;
        fields.push(format!("{name};{read_ios};{write_ios};{read_merges};{write_merges}"));
        fields.push(format!("{read_ticks};{write_ticks};{in_queue};{util:.2}%"));
    }
    if let (Some(total), Some(first)) = (job.total_err, job.first_error) {
        fields.push(format!("{total};{first}"));
    }
    fields.extend(job.desc.clone());
    fields
}

/// Appends the fields of a direction. `wanted` are the percentiles of the job, empty if it shows
/// none.
fn direction(of: &Direction, wanted: &[String], version: u32, fields: &mut Vec<String>) {
    let Direction { io_kbytes, bw, runtime, .. } = of;
    fields.push(format!("{io_kbytes};{bw};{};{runtime}", of.iops as u64));
    spread(&of.slat_ns, fields);
    spread(&of.clat_ns, fields);
    let listed = of.lat_ns.percentile.as_ref().or(of.clat_ns.percentile.as_ref());
    let listed = listed.map_or(&[][..], |list| &list.0);
    fields.extend(listed.iter().map(|(percent, ns)| format!("{percent}%={}", ns / 1000)));
    // As in fio, a direction without I/Os lists its percentiles as 0.
    let wanted = if listed.is_empty() { wanted } else { &[] };
    fields.extend(wanted.iter().map(|percent| format!("{percent}%=0")));
    fields.extend((listed.len() + wanted.len()..PERCENTILES).map(|_| "0%=0".to_owned()));
    spread(&of.lat_ns, fields);
    let Direction { bw_min, bw_max, bw_agg, bw_mean, bw_dev, bw_samples, .. } = of;
    fields.push(format!("{bw_min};{bw_max};{bw_agg:.6}%;{bw_mean:.6};{bw_dev:.6}"));
    if version == 5 {
        let Direction { iops_min, iops_max, iops_mean, iops_stddev, iops_samples, .. } = of;
        fields.push(format!("{bw_samples};{iops_min};{iops_max};{iops_mean:.6};{iops_stddev:.6}"));
        fields.push(iops_samples.to_string());
    }
}

/// In microseconds.
fn spread(of: &Spread, fields: &mut Vec<String>) {
    let (min, max) = (of.min / 1000, of.max / 1000);
    fields.push(format!("{min};{max};{:.6};{:.6}", of.mean / 1000.0, of.stddev / 1000.0));
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn fields(version: u32) -> Vec<String> {
        let mut out = Vec::new();
        write_terse(&[sample::counted()], version, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.trim_end().split(';').map(str::to_owned).collect()
    }

    #[test]
    fn fields_stand_where_fio_has_them() {
        let line = fields(3);
        assert_eq!(&line[..2], ["3", "fio-3.33"]);
        // Reads and writes: KiB, KiB/s, I/Os per second, milliseconds.
        assert_eq!(&line[5..9], ["8000", "4000", "1000", "2000"]);
        assert_eq!(&line[13..15], ["100", "100"], "least and longest in microseconds");
        assert_eq!(line[17..37].iter().filter(|field| field.contains("%=")).count(), PERCENTILES);
        assert_eq!(line[23], "50.000000%=99");
        assert_eq!(line[46 + 2], "500");
    }

    #[test]
    fn figures_of_a_model_say_so_in_the_last_field() {
        let mut result = sample::counted();
        let mut last = |origin| {
            result.origin = origin;
            let mut out = Vec::new();
            write_terse(&[result.clone()], 3, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            text.trim_end().rsplit(';').next().unwrap().to_owned()
        };
        assert_eq!(last(Origin::Emulated), "emulated");
        assert_eq!(last(Origin::Simulated), "simulated");
        assert_ne!(last(Origin::Measured), "measured");
    }

    #[test]
    fn a_direction_without_ios_names_its_percentiles() {
        let line = fields(4);
        let trims = &line[46 + 41..];
        let names: Vec<&String> = trims.iter().filter(|field| field.contains("%=")).collect();
        assert_eq!((names[0].as_str(), names[6].as_str()), ("1.000000%=0", "50.000000%=0"));
        assert_eq!((names[17].as_str(), names.len()), ("0%=0", PERCENTILES));
    }

    #[test]
    fn later_versions_have_trims_and_rates() {
        let [three, four, five] = [3, 4, 5].map(|version| fields(version).len());
        assert_eq!((four - three, five - four), (41, 18));
    }
}
