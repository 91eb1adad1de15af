//! Strided zones, `zonemode=strided`, and those of a device, `zonemode=zbd`: their options and
//! effects.

use block::print_size;

use super::access;
use super::convert::Converter;
use super::job::FioJob;
use super::option::Part::Load;
use super::option::{Row, Word, flag, sets, some_word, takes, word, word_if};
use super::settings::Distribution;
use super::storage::JobFiles;
use super::value::{self, Amount};
use super::write::Written;
use crate::formats::note::Treatment::{Differs, Ignored};
use crate::spec::{Access, Extent, Group, Places, Walk, ZoneWalk, Zoned};

/// Zone options of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Zones {
    /// True for `zonemode=strided`: without a zone mode the other options have no effect.
    pub strided: bool,
    /// True for `zonemode=zbd`: the zones are the device's.
    pub device: bool,
    /// Value of `max_open_zones=`; 0 for the device's maximum.
    pub max_open: u32,
    /// Value of `job_max_open_zones=`; 0 for the device's maximum.
    pub job_max_open: u32,
    /// `read_beyond_wp`.
    pub read_beyond: bool,
    /// Value of `zonecapacity=`, for volumes without zones of their own; 0 for the whole zone.
    pub capacity_bytes: u64,
    /// `zone_reset_threshold=`, 0 to 1.
    pub reset_threshold: f64,
    /// Value of `zone_reset_frequency=`, 0 to 1; 0 to reset only full zones.
    pub reset_frequency: f64,
    /// Bytes of I/O in each zone, `zonesize=`; 0 if not given.
    pub transfer_bytes: u64,
    /// Length of each zone, `zonerange=`; 0 for the size.
    pub range_bytes: u64,
    /// Bytes between two zones, `zoneskip=`.
    pub skip_bytes: u64,
}

/// The options of zones.
pub(super) const ROWS: &[Row] = &[
    takes!("zonemode", |s, v| (s.zones.strided, s.zones.device) = v.one_of(&MODES)?)
        .writes(|w| match (w.access().zones, w.access().zoned) {
            (Some(_), _) => word("strided"),
            (None, zoned) => word_if(zoned.is_some(), "zbd"),
        })
        .tells(Load, told),
    sets!("max_open_zones", zones.max_open, |v| v.number()?).writes(|w| {
        some_word(w.access().zoned.map(|zoned| zoned.max_open).filter(|most| *most > 0))
    }),
    sets!("job_max_open_zones", zones.job_max_open, |v| v.number()?),
    flag!("read_beyond_wp", zones.read_beyond)
        .writes(|w| word_if(w.access().zoned.is_some_and(|zoned| zoned.read_beyond), 1)),
    sets!("zonecapacity|zone_capacity", zones.capacity_bytes, |v| v.size()?).writes(|w| {
        some_word(w.access().zoned.map(|zoned| zoned.capacity_bytes).filter(|bytes| *bytes > 0))
    }),
    sets!("zone_reset_threshold", zones.reset_threshold, |v| share(v.text()?)?)
        .writes(|w| share_word(w, |zoned| zoned.reset_threshold)),
    sets!("zone_reset_frequency", zones.reset_frequency, |v| share(v.text()?)?)
        .writes(|w| share_word(w, |zoned| zoned.reset_frequency)),
    sets!("zonesize", zones.transfer_bytes, |v| v.size()?).writes(|w| {
        let of_device = w.access().zoned.map(|zoned| zoned.zone_bytes).filter(|bytes| *bytes > 0);
        some_word(w.access().zones.map(|walk| walk.transfer_bytes).or(of_device))
    }),
    sets!("zonerange", zones.range_bytes, |v| v.size()?)
        .writes(|w| some_word(w.access().zones.map(|walk| walk.range_bytes))),
    sets!("zoneskip", zones.skip_bytes, |v| v.size()?)
        .writes(|w| some_word(w.access().zones.map(|walk| walk.skip_bytes))),
];

const MODES: [(&str, (bool, bool)); 3] =
    [("none", (false, false)), ("strided", (true, false)), ("zbd", (false, true))];

fn share(text: &str) -> Result<f64, String> {
    let share = value::fraction(text)?;
    if share <= 1.0 { Ok(share) } else { Err(format!("{text} is out of range: 0 to 1")) }
}

fn share_word(w: &Written<'_>, of: fn(&Zoned) -> f64) -> Word {
    some_word(w.access().zoned.as_ref().map(of).filter(|share| *share > 0.0))
}

fn told(group: &Group) -> Option<String> {
    let Access { zones, zoned, .. } = &group.workload.access;
    let strided = zones.map(|zones| {
        let [transfer, range, skip] =
            [zones.transfer_bytes, zones.range_bytes, zones.skip_bytes].map(print_size);
        format!("{transfer} in each zone of {range}, then {skip} skipped")
    });
    let of_device = zoned.map(|zoned| {
        let most = match zoned.max_open {
            0 => String::new(),
            most => format!(", at most {most} open"),
        };
        let reads = if zoned.read_beyond { "anywhere" } else { "before write pointers" };
        let early = (zoned.reset_frequency > 0.0).then(|| {
            let (share, from) = (zoned.reset_frequency * 100.0, zoned.reset_threshold * 100.0);
            format!(", {share} % of writes reset their zone once {from} % of the range is written")
        });
        let early = early.unwrap_or_default();
        let each = match zoned.zone_bytes {
            0 => String::new(),
            bytes if zoned.capacity_bytes > 0 => {
                let capacity = print_size(zoned.capacity_bytes);
                format!(" of {} with a capacity of {capacity}", print_size(bytes))
            }
            bytes => format!(" of {}", print_size(bytes)),
        };
        format!("zones of the device{each}: writes at write pointers{most}, reads {reads}{early}")
    });
    strided.or(of_device)
}

/// Restricts the access of a job to its zones.
pub(super) fn zones(
    converter: &mut Converter<'_>,
    job: &FioJob,
    place: &JobFiles,
    access: &mut Access,
) {
    let settings = &job.settings;
    let zones = settings.zones;
    if zones.device {
        return zoned(converter, job, place, access);
    }
    let Some(walk) = walk(converter, job, place) else { return };
    let size = access::size(settings);
    let longest = u64::from(access.longest_bytes());
    if walk.range_bytes < longest {
        let why = format!(
            "a zone of {} bytes is smaller than an I/O of {longest} bytes",
            walk.range_bytes
        );
        return converter.refuse(job, key(job, "zonerange"), &why);
    }
    let random = access.lines.iter().any(|line| line.random_percent > 0.0);
    // One I/O in each zone: a walk with holes is the same, and all volumes support it.
    if !random && !access.apart && size == Some(zones.transfer_bytes) {
        access.sequential = match walk.distance_bytes() == zones.transfer_bytes {
            true => Walk::Forward,
            false => Walk::Strided { bytes: walk.distance_bytes() },
        };
        return;
    }
    if size.is_none_or(|size| !walk.range_bytes.is_multiple_of(size)) {
        let why = "no I/O crosses the end of its zone; in fio the last one may";
        converter.note(job, key(job, "zonerange"), Differs, why);
    }
    if access.apart {
        let why = "reads and writes move to the next zone together; in fio one of them may remain";
        converter.note(job, "zonesize", Differs, why);
    }
    if random && settings.clones > 1 && !settings.files.is_empty() {
        let why = "clones on one volume start in different zones; in fio all start in the first";
        converter.note(job, "numjobs", Differs, why);
    }
    access.zones = Some(walk);
}

/// Restricts a job to the zones of its device.
fn zoned(converter: &mut Converter<'_>, job: &FioJob, place: &JobFiles, access: &mut Access) {
    let settings = &job.settings;
    let (zones, law) = (settings.zones, &settings.distribution);
    let partly = access.lines.iter().any(|line| !matches!(line.random_percent, 0.0 | 100.0));
    let several = place.files > 1 || place.stripes.is_some();
    let verified = settings.verify.method().is_some() && settings.mix.writes;
    let again = settings.loops != 1 || settings.time_based;
    let looped = settings.loops != 1 && access.lines[0].read_percent == 100.0;
    for (word, against, why) in [
        ("zoneskip", zones.skip_bytes > 0, "all zones of a device are used: remove zoneskip"),
        (
            "percentage_random",
            partly,
            "with zonemode=zbd all I/Os are random or none: set rw instead",
        ),
        ("filename", several, "zonemode=zbd needs one device: use a separate job for each"),
        (
            "numjobs",
            settings.clones > 1 && !several && settings.offset_increment == Amount::Bytes(0),
            "clones need separate zones: set offset_increment",
        ),
        (
            "rw",
            settings.mix.trims || settings.mix.hole_bytes != 0,
            "zones are reset, not trimmed: set rw=write",
        ),
        ("sync", settings.durable, "not supported with zonemode=zbd: use fsync"),
        (
            "random_distribution",
            *law != Distribution::Uniform,
            "zones are chosen uniformly: remove random_distribution",
        ),
        (
            "verify",
            verified && settings.mix.reads,
            "verify needs all zones written before mixed reads: use separate jobs",
        ),
        (
            "verify",
            verified && (again || zones.reset_frequency > 0.0),
            "verify cannot be combined with zone resets: the job must end by its size",
        ),
        (
            "zonecapacity",
            zones.capacity_bytes > zones.transfer_bytes,
            "zonecapacity exceeds zonesize",
        ),
        ("loops", looped, "reads end at the last zone: use time_based"),
    ] {
        if against {
            return converter.refuse(job, word, why);
        }
    }
    let limits = [zones.max_open, zones.job_max_open].into_iter();
    let max_open = limits.filter(|most| *most > 0).min().unwrap_or(0);
    let zone_bytes = zones.transfer_bytes;
    if access.random != Places::Once {
        access.random = Places::Uniform;
    }
    access.zoned = Some(Zoned {
        zone_bytes,
        capacity_bytes: zones.capacity_bytes,
        max_open,
        read_beyond: zones.read_beyond,
        reset_threshold: if zones.reset_frequency > 0.0 { zones.reset_threshold } else { 0.0 },
        reset_frequency: zones.reset_frequency,
    });
}

/// Returns the zones, if there are any and nothing prevents them.
fn walk(converter: &mut Converter<'_>, job: &FioJob, place: &JobFiles) -> Option<ZoneWalk> {
    let settings = &job.settings;
    let zones = settings.zones;
    match (zones.strided, zones.transfer_bytes) {
        (false, 0) => {
            if zones.range_bytes > 0 || zones.skip_bytes > 0 {
                let why = "no effect without zonemode=strided, as in fio";
                converter.note(job, key(job, "zonerange"), Ignored, why);
            }
            return None;
        }
        (false, _) => {
            let why = "fio accepts zonesize with zonemode=strided or zbd only: set zonemode";
            converter.refuse(job, "zonesize", why);
            return None;
        }
        (true, 0) => {
            converter.refuse(job, "zonemode", "zonemode=strided needs a zonesize");
            return None;
        }
        (true, _) => {}
    }
    if place.files > 1 || place.stripes.is_some() {
        match settings.open_files {
            Some(1) => converter.refuse(job, "zonemode", "zonemode=strided needs a single file"),
            _ => {
                let why = "no effect with several open files, as in fio";
                converter.note(job, "zonemode", Ignored, why);
            }
        }
        return None;
    }
    let range_bytes = if zones.range_bytes > 0 { zones.range_bytes } else { zones.transfer_bytes };
    let (mix, law) = (settings.mix, &settings.distribution);
    for (word, against, why) in [
        ("rw", mix.hole_bytes != 0, "holes cannot be combined with zones: use zoneskip"),
        ("rw", mix.trims && mix.writes, "rw=trimwrite cannot be combined with zones"),
        (
            "random_distribution",
            *law != Distribution::Uniform,
            "offsets within zones are uniform: remove random_distribution",
        ),
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

/// Notes that fio continues past the part of a file that `size` gives it, up to the end of the
/// file.
fn whole_file(converter: &mut Converter<'_>, job: &FioJob, place: &JobFiles) {
    let (Extent::Bytes(start), Some(Extent::Bytes(length))) =
        (place.range.start, place.range.length)
    else {
        return;
    };
    let end = start.saturating_add(length);
    let longer = |uri: &String| (converter.options.capacity)(uri).is_some_and(|all| all > end);
    if place.volumes.iter().any(longer) {
        let why = "after the last zone within the size the first zone follows; fio continues to \
                   the end of the file";
        converter.note(job, "size", Differs, why);
    }
}

/// Returns the option that determines the length of a zone: `given`, or its default.
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
        // The default length is the size.
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
    fn zones_of_a_device_are_asked_of_it() {
        let words =
            "rw=randwrite\nzonemode=zbd\nzonesize=1m\nmax_open_zones=4\njob_max_open_zones=2";
        let zoned = access(words).zoned.unwrap();
        assert_eq!((zoned.zone_bytes, zoned.max_open, zoned.read_beyond), (1 << 20, 2, false));
        // Zones are drawn as often as blocks of them would be.
        assert_eq!(access(words).random, Places::Once);
        assert_eq!(access(&format!("{words}\nnorandommap")).random, Places::Uniform);
        let words = "rw=write\nzonemode=zbd\nzonesize=1m\nzonecapacity=768k\nfsync=8\n\
                     zone_reset_threshold=.5\nzone_reset_frequency=.25\nbsrange=4k-64k";
        let early = access(words);
        let zoned = early.zoned.unwrap();
        assert_eq!((zoned.reset_threshold, zoned.reset_frequency), (0.5, 0.25));
        assert_eq!((zoned.capacity_bytes, early.flush_every), (768 << 10, 8));
        assert_eq!(early.lines.len(), 16);
        let reads = access("rw=read\nzonemode=zbd\nread_beyond_wp=1").zoned.unwrap();
        assert_eq!((reads.zone_bytes, reads.max_open, reads.read_beyond), (0, 0, true));
        for (words, why) in [
            ("zoneskip=1m", "remove zoneskip"),
            ("rw=randwrite\npercentage_random=50", "set rw"),
            ("rw=write\nnumjobs=2", "set offset_increment"),
            ("rw=randtrim", "reset, not trimmed"),
            ("rw=write\nsync=1", "use fsync"),
            ("rw=randread\nrandom_distribution=zipf:1.1", "uniformly"),
            ("zonecapacity=1m", "exceeds zonesize"),
            ("ignore_zone_limits=1", "zone limits of the device"),
        ] {
            let said = refused(&format!("{NULL}zonemode=zbd\n{words}\n"));
            assert!(said.contains(why), "{words}: {said}");
        }
        // With ioengine=null nothing is verified anyway.
        let verified = "[a]\nfilename=/dev/a\nsize=1g\nrw=write\nverify=crc32c\nzonemode=zbd\n";
        assert!(of(verified).job.is_some());
        for (words, why) in [
            ("rw=rw", "use separate jobs"),
            ("loops=2", "end by its size"),
            ("zone_reset_frequency=.1", "end by its size"),
        ] {
            let said = refused(&format!("{verified}{words}\n"));
            assert!(said.contains(why), "{words}: {said}");
        }
    }

    #[test]
    fn what_fio_refuses_or_leaves_out_is_so_here() {
        for (words, why) in [
            ("zonesize=1m", "set zonemode"),
            ("zonemode=none\nzonesize=1m", "set zonemode"),
            ("zonemode=strided", "needs a zonesize"),
            ("zonemode=strided\nzonesize=1m\nzonerange=2k", "zone of 2048 bytes is smaller"),
            ("zonemode=strided\nzonesize=1m\nrw=read:8k", "combined with zones"),
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
