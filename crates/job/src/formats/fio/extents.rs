//! Parts of files that a job uses: sizes and offsets, in bytes or in percent of a file.

use super::convert::Converter;
use super::job::FioJob;
use super::lengths;
use super::settings::Settings;
use super::value::Amount;
use crate::formats::note::Treatment;
use crate::spec::{Extent, Range};

/// Returns the offset of a clone's part.
pub(super) fn offset(converter: &mut Converter<'_>, job: &FioJob, part: u32) -> Option<Amount> {
    let settings = &job.settings;
    let offset = match (settings.offset, settings.offset_increment) {
        (offset, Amount::Bytes(0)) => Some(offset),
        (Amount::Bytes(start), Amount::Bytes(step)) => {
            let moved = step.checked_mul(u64::from(part)).and_then(|far| far.checked_add(start));
            moved.map(Amount::Bytes)
        }
        (Amount::Percent(start), Amount::Percent(step)) => {
            let moved = u64::from(start) + u64::from(step) * u64::from(part);
            u32::try_from(moved).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        (Amount::Bytes(0), Amount::Percent(step)) => {
            let moved = u64::from(step) * u64::from(part);
            u32::try_from(moved).ok().filter(|percent| *percent <= 100).map(Amount::Percent)
        }
        _ => None,
    };
    if offset.is_none() {
        let why = "offset and offset_increment must both be in bytes or both in percent, and \
                   within the volume";
        converter.refuse(job, "offset_increment", why);
    }
    offset
}

/// Returns the offset in bytes of a part in a file of `real` bytes: as in fio a percentage is that
/// of the existing file, rounded up to a multiple of the smallest I/O size.
pub(super) fn start(settings: &Settings, offset: Amount, real: Option<u64>) -> u64 {
    match offset {
        Amount::Bytes(start) => start,
        Amount::Percent(percent) => {
            let align = match settings.offset_align {
                0 => lengths::least(settings),
                align => align,
            };
            let start = share(percent, real.unwrap_or(0));
            start.checked_next_multiple_of(align.max(1)).unwrap_or(start)
        }
    }
}

/// Returns the used length of each of `files` files from `start` on, of which one has `real` bytes:
/// `size` is the total of all, `filesize` the size of each.
pub(super) fn length(
    settings: &Settings,
    files: u32,
    start: u64,
    real: Option<u64>,
) -> Option<u64> {
    let whole = match (settings.file_size, settings.size) {
        (Some(Amount::Bytes(each)), _) => each,
        (None, Some(Amount::Bytes(all))) => return Some(all / u64::from(files.max(1))),
        _ => real?,
    };
    let left = whole.saturating_sub(start);
    match settings.size {
        Some(Amount::Percent(percent)) if percent < 100 => {
            let bytes = share(percent, whole).min(left);
            Some(bytes - bytes % lengths::least(settings).max(1))
        }
        _ => Some(left),
    }
}

/// Returns the part of each of `files` files with these sizes, as far as known, and the length of
/// the part, if known.
pub(super) fn part(
    converter: &mut Converter<'_>,
    job: &FioJob,
    files: u32,
    offset: Amount,
    real: &[Option<u64>],
) -> Option<(Range, Option<u64>)> {
    let settings = &job.settings;
    let least = real.iter().flatten().min().copied();
    let same = real.windows(2).all(|pair| pair[0] == pair[1]);
    let made = least.is_none() && converter.options.volumes.is_empty();
    let begin = start(settings, offset, least);
    if let (Some(Amount::Bytes(each)), true) = (settings.file_size, begin > 0)
        && begin >= each
    {
        converter.refuse(job, "offset", "the offset is past the end of the file (filesize)");
        return None;
    }
    if let (Amount::Percent(1..), true) = (offset, made) {
        let key = if job.sets("offset") { "offset" } else { "offset_increment" };
        let why = "a percentage of a file that does not exist yet is 0, as in fio";
        converter.note(job, key, Treatment::Ignored, why);
    }
    let begin_at = match offset {
        // fio begins at the first byte of a missing file.
        Amount::Percent(_) if same && (least.is_some() || made) => Extent::Bytes(begin),
        Amount::Percent(_) if settings.offset_align > 0 => {
            let why = "an offset in percent needs files of one known size: set the offset in bytes";
            converter.refuse(job, "offset_align", why);
            return None;
        }
        Amount::Percent(percent) => Extent::Percent(f64::from(percent)),
        Amount::Bytes(begin) => Extent::Bytes(begin),
    };
    let said = settings.file_size.is_some() || matches!(settings.size, Some(Amount::Bytes(_)));
    if !said && !same {
        let why = "files of different sizes are each used up to the size of the smallest; fio \
                   uses each file to its end";
        converter.note(job, "filename", Treatment::Differs, why);
    }
    let bytes = length(settings, files, begin, least);
    let length = match (settings.file_size, settings.size) {
        (None, None) => None,
        (None, Some(Amount::Percent(percent))) => Some(Extent::Percent(f64::from(percent))),
        _ => bytes.map(Extent::Bytes),
    };
    Some((Range { start: begin_at, length }, bytes))
}

fn share(percent: u32, bytes: u64) -> u64 {
    (u128::from(bytes) * u128::from(percent) / 100) as u64
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused};
    use crate::formats::note::Treatment;
    use crate::spec::Extent;

    const GIB: u64 = 1 << 30;

    /// Returns the beginning of a job's part, its length, and the bytes after which the job ends.
    fn part(words: &str) -> (Extent, Option<Extent>, u64) {
        let job = job(&format!("[a]\nioengine=psync\n{words}\n"));
        let workload = &job.steps[0].groups[0].workload;
        (workload.range.start, workload.range.length, workload.limit_bytes.unwrap())
    }

    fn file(words: &str) -> String {
        let job = job(&format!("[a]\nioengine=psync\nfilename=x\n{words}\n"));
        job.steps[0].groups[0].volumes[0].clone()
    }

    /// The device of these tests has 1 GiB.
    #[test]
    fn a_share_of_a_file_is_all_that_is_done() {
        let (_, length, ends) = part("filename=/dev/x\nsize=33%\nbs=64k");
        assert_eq!(length, Some(Extent::Percent(33.0)));
        assert_eq!(ends, GIB * 33 / 100 / 65536 * 65536);
        // The part never extends past the end.
        assert_eq!(part("filename=/dev/x\nsize=50%\noffset=768m").2, GIB / 4);
        assert_eq!(part("filename=/dev/x\nio_size=25%\nsize=50%").2, GIB / 8);
        let cut = part("filename=x\nfilesize=4m\nsize=50%\noffset=3m");
        assert_eq!(cut, (Extent::Bytes(3 << 20), Some(Extent::Bytes(1 << 20)), 1 << 20));
        assert_eq!(part("filename=x\nfilesize=4m\nsize=50%").2, 2 << 20);
        assert_eq!(file("filesize=4m\nsize=50%"), "file:x?size=2097152&direct=false");
        assert_eq!(file("filesize=4m\noffset=1m"), "file:x?size=4194304&direct=false");
        assert_eq!(part("nrfiles=2\nfilesize=4m\nsize=50%").2, 4 << 20);
        let behind = refused("[a]\nfilename=x\nfilesize=1m\noffset=1m\n");
        assert!(behind.contains("x.fio:4: `offset=1m`: the offset is past the end"), "{behind}");
        assert!(refused("[a]\nfilename=x\nsize=50%\n").contains("the end of the job is unknown"));
    }

    #[test]
    fn a_beginning_in_percent_is_aligned_upwards() {
        let begin = |words: &str| match part(&format!("filename=/dev/x\n{words}")).0 {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => panic!("{percent} %"),
        };
        let tenth: u64 = GIB / 10;
        assert_eq!(begin("offset=10%"), tenth.next_multiple_of(4096));
        assert_eq!(begin("offset=10%\nbs=64k,16k"), tenth.next_multiple_of(16384));
        assert_eq!(begin("offset=10%\nbs=64k,16k,32k"), tenth.next_multiple_of(16384));
        assert_eq!(begin("offset=10%\noffset_align=1m"), tenth.next_multiple_of(1 << 20));
        // An offset in bytes is not rounded.
        assert_eq!(begin("offset=100k\noffset_align=64k"), 100 << 10);
        // A missing file begins with its first byte.
        assert_eq!(part("filename=x\nsize=1m\noffset=10%").0, Extent::Bytes(0));
        let text = "[a]\nfilename=/dev/x:y\nrw=read\noffset=10%\noffset_align=64k\nsize=8m\n";
        assert!(refused(text).contains("offset_align"));
    }

    #[test]
    fn clones_begin_at_shares_of_their_own() {
        let words = "filename=/dev/x\noffset_increment=10%\noffset_align=1m\nnumjobs=3\nsize=1m";
        let job = job(&format!("[a]\nioengine=psync\n{words}\n"));
        let begins = job.steps[0].groups.iter().map(|group| group.workload.range.start);
        let at = |clone: u64| Extent::Bytes((GIB * clone / 10).next_multiple_of(1 << 20));
        assert_eq!(begins.collect::<Vec<_>>(), [at(0), at(1), at(2)]);
    }

    #[test]
    fn files_of_several_lengths_are_named() {
        let reading = of("[m]\nfilename=y\nsize=1m\nrw=write\n[a]\nfilename=/dev/x:y\nsize=50%\n");
        let differs = reading.notes_of(Treatment::Differs);
        assert!(differs.map(|note| note.to_string()).any(|text| text.contains("different sizes")));
        assert!(reading.job.is_some());
    }
}
