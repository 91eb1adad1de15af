//! Zones one after the other, `zonemode=strided`: what its settings say, and what becomes of them.

use super::access;
use super::convert::Converter;
use super::job::FioJob;
use super::option::{Row, Wrong, sets};
use super::settings::Distribution;
use super::storage::JobFiles;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec::{Access, Extent, Walk, ZoneWalk};

/// What a job says of zones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// `zonemode=strided`: without it the others say nothing.
    pub strided: bool,
    /// Bytes that are moved in each, `zonesize=`; 0 where none is given.
    pub transfer_bytes: u64,
    /// Length of each, `zonerange=`; 0 for the size.
    pub range_bytes: u64,
    /// What is between two, `zoneskip=`.
    pub skip_bytes: u64,
}

/// The options that say so.
pub(super) const ROWS: &[Row] = &[
    sets!("zonemode", zones.strided, |v| mode(v.text()?)?),
    sets!("zonesize", zones.transfer_bytes, |v| v.size()?),
    sets!("zonerange", zones.range_bytes, |v| v.size()?),
    sets!("zoneskip", zones.skip_bytes, |v| v.size()?),
];

fn mode(text: &str) -> Result<bool, Wrong> {
    match text {
        "none" => Ok(false),
        "strided" => Ok(true),
        "zbd" => {
            let why = "zonemode=zbd is not supported: zones of devices are not known here, only \
                       zonemode=strided";
            Err(Wrong::Unsupported(why.to_owned()))
        }
        _ => Err(format!("'{text}' is none of none, strided, zbd").into()),
    }
}

/// Makes the access of a job stay in its zones.
pub(super) fn zones(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    access: &mut Access,
) {
    let settings = &job.settings;
    let zones = settings.zones;
    let Some(walk) = walk(converter, job, place) else { return };
    let size = access::size(settings);
    let longest = u64::from(access.longest_bytes());
    if walk.range_bytes < longest {
        let why =
            format!("a zone of {} bytes is shorter than an I/O of {longest}", walk.range_bytes);
        return converter.refuse(job, key(job, "zonerange"), &why);
    }
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    // One I/O in each: a walk with holes is the same, and all volumes know it.
    if !random && !access.apart && size == Some(zones.transfer_bytes) {
        access.sequential = match walk.distance_bytes() == zones.transfer_bytes {
            true => Walk::Forward,
            false => Walk::Strided { bytes: walk.distance_bytes() },
        };
        return;
    }
    if size.is_none_or(|size| !walk.range_bytes.is_multiple_of(size)) {
        let why = "no I/O goes beyond the end of its zone; with fio the last one may";
        converter.note(job, key(job, "zonerange"), Differs, why);
    }
    if access.apart {
        let why = "reads and writes go to the next zone together; with fio one of them may stay";
        converter.note(job, "zonesize", Differs, why);
    }
    if random && settings.clones > 1 && !settings.files.is_empty() {
        let why = "clones on one volume begin in zones of their own; with fio all begin in the \
                   first";
        converter.note(job, "numjobs", Differs, why);
    }
    access.zones = Some(walk);
}

/// The zones, if there are any and nothing is against them.
fn walk(converter: &mut Converter<'_>, job: &FioJob, place: &JobFiles) -> Option<ZoneWalk> {
    let settings = &job.settings;
    let zones = settings.zones;
    match (zones.strided, zones.transfer_bytes) {
        (false, 0) => {
            if zones.range_bytes > 0 || zones.skip_bytes > 0 {
                let why = "without zonemode=strided it says nothing, as with fio";
                converter.note(job, key(job, "zonerange"), Ignored, why);
            }
            return None;
        }
        (false, _) => {
            let why = "without zonemode=strided fio takes no zonesize: say both";
            converter.refuse(job, "zonesize", why);
            return None;
        }
        (true, 0) => {
            converter.refuse(job, "zonemode", "zonemode=strided wants a zonesize");
            return None;
        }
        (true, _) => {}
    }
    if place.files > 1 || place.stripes.is_some() {
        match settings.open_files {
            Some(1) => converter.refuse(job, "zonemode", "zones are those of one file"),
            _ => {
                let why = "with several files open there are no zones, as with fio";
                converter.note(job, "zonemode", Ignored, why);
            }
        }
        return None;
    }
    let range_bytes = if zones.range_bytes > 0 { zones.range_bytes } else { zones.transfer_bytes };
    let (mix, law) = (settings.mix, &settings.distribution);
    for (word, against, why) in [
        ("rw", mix.hole_bytes != 0, "holes beside zones are not supported: use zoneskip"),
        ("rw", mix.trims && mix.writes, "trims and writes in turn have no zones"),
        ("random_distribution", *law != Distribution::Uniform, "within zones places are uniform"),
    ] {
        if against {
            converter.refuse(job, word, why);
            return None;
        }
    }
    whole_file(converter, job, place);
    let (transfer_bytes, skip_bytes) = (zones.transfer_bytes, zones.skip_bytes);
    Some(ZoneWalk { transfer_bytes, range_bytes, skip_bytes })
}

/// fio goes on behind the part of a file that `size` gives it, up to the end of the file.
fn whole_file(converter: &mut Converter<'_>, job: &FioJob, place: &JobFiles) {
    let (Extent::Bytes(start), Some(Extent::Bytes(length))) =
        (place.range.start, place.range.length)
    else {
        return;
    };
    let end = start.saturating_add(length);
    let longer = |uri: &String| (converter.options.capacity)(uri).is_some_and(|all| all > end);
    if place.volumes.iter().any(longer) {
        let why = "behind the last zone within it comes the first; fio goes on to the end of the \
                   file";
        converter.note(job, "size", Differs, why);
    }
}

/// The setting to blame for the length of a zone: `given`, or what stands for it.
fn key(job: &FioJob, given: &'static str) -> &'static str {
    match (job.settings.zones.range_bytes, job.settings.zones.skip_bytes) {
        (0, 1..) if job.settings.zones.transfer_bytes == 0 => "zoneskip",
        (0, _) => "zonesize",
        _ => given,
    }
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused};
    use super::*;
    use crate::formats::note::Treatment;

    const NULL: &str = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=5\n[a]\n";

    fn access(words: &str) -> Access {
        job(&format!("{NULL}{words}\n")).steps[0].groups[0].workload.access.clone()
    }

    #[test]
    fn zones_are_those_of_the_file() {
        let words = "rw=randread\nzonemode=strided\nzonesize=32k\nzonerange=16k\nzoneskip=1m";
        let zones = access(words).zones.unwrap();
        let all = (zones.transfer_bytes, zones.range_bytes, zones.skip_bytes);
        assert_eq!(all, (32 << 10, 16 << 10, 1 << 20));
        // Without a length it is the size.
        let zones = access("rw=write\nzonemode=strided\nzonesize=2m").zones.unwrap();
        assert_eq!((zones.range_bytes, zones.skip_bytes), (2 << 20, 0));
    }

    #[test]
    fn one_io_in_each_zone_is_a_walk_with_holes() {
        let words = "zonemode=strided\nzonesize=4k\nzonerange=8k\nzoneskip=4k";
        let one = access(words);
        assert_eq!((one.zones, one.sequential), (None, Walk::Strided { bytes: 12 << 10 }));
        assert_eq!(access("zonemode=strided\nzonesize=4k").sequential, Walk::Forward);
        assert!(access(&format!("{words}\nrw=randread")).zones.is_some());
    }

    #[test]
    fn what_fio_refuses_or_leaves_out_is_so_here() {
        for (words, why) in [
            ("zonesize=1m", "say both"),
            ("zonemode=none\nzonesize=1m", "say both"),
            ("zonemode=strided", "wants a zonesize"),
            ("zonemode=zbd\nzonesize=1m", "zonemode=zbd is not supported"),
            ("zonemode=strided\nzonesize=1m\nzonerange=2k", "zone of 2048 bytes is shorter"),
            ("zonemode=strided\nzonesize=1m\nrw=read:8k", "holes beside zones"),
            ("zonemode=strided\nzonesize=1m\nrw=randread\nrandom_distribution=zipf:1.1", "uniform"),
        ] {
            let said = refused(&format!("{NULL}{words}\n"));
            assert!(said.contains(why), "{words}: {said}");
        }
        let none = of(&format!("{NULL}zonerange=1m\n"));
        assert_eq!(none.notes_of(Treatment::Ignored).count(), 1, "{:?}", none.notes);
        assert_eq!(none.job.unwrap().steps[0].groups[0].workload.access.zones, None);
        let mixed = of(&format!("{NULL}rw=rw\nzonemode=strided\nzonesize=1m\nzonerange=7k\n"));
        assert_eq!(mixed.notes_of(Treatment::Differs).count(), 2, "{:?}", mixed.notes);
    }
}
