//! A clone that goes from one of its files to the next, `file_service_type`.

use super::access;
use super::convert::Converter;
use super::job::FioJob;
use super::lengths;
use super::settings::{Distribution, Engine, Service, Settings};
use super::storage::JobFiles;
use super::value::Amount;
use crate::formats::note::Treatment::Differs;
use crate::spec::{FileWalk, Places, Range, Stripes};

/// Standard deviation of fio's normal distribution, a sum of twelve uniform numbers, in percent of
/// all files.
const BELL_PERCENT: f64 = 100.0 / 12.0;

/// Returns whether a clone goes from one file to the next: it has fewer I/Os in flight than files,
/// or generated file names, or an order of files other than in turn, or a number of I/Os that is
/// not divisible by the files. Otherwise a worker for each file does the same with less effort.
pub(super) fn together(settings: &Settings, files: u32) -> bool {
    let said = match settings.service {
        Service::Turns(count) | Service::Random(count) => count > 1,
        Service::ByLaw(_) => true,
        Service::OneByOne => false,
    };
    let few = settings.files.is_empty() || settings.in_flight() < files;
    files > 1 && (few || said || is_uneven(settings, files))
}

/// Returns whether workers for each file would do another number of I/Os than one that goes from
/// file to file, if a job can do that.
fn is_uneven(settings: &Settings, files: u32) -> bool {
    let Some(size) = one_size(settings) else { return false };
    let files = u64::from(files);
    let each = match (settings.file_size, settings.size) {
        (Some(Amount::Bytes(each)), _) => each,
        (None, Some(Amount::Bytes(all))) => all / files,
        _ => 0,
    };
    let parted = settings.most_ios.is_some_and(|ios| !ios.is_multiple_of(files));
    parted || !each.is_multiple_of(size)
}

/// Returns the I/O size of a job that can go from file to file.
fn one_size(settings: &Settings) -> Option<u64> {
    let size = access::size(settings).filter(|size| is_plain(settings) && *size > 0)?;
    // I/Os of one size are aligned to it.
    settings.align_bytes.iter().flatten().all(|align| *align == size).then_some(size)
}

fn is_plain(settings: &Settings) -> bool {
    let plain = settings.offset == Amount::Bytes(0) && settings.mix.hole_bytes == 0;
    plain && settings.engine != Engine::Nothing
}

/// Returns the files of a clone that goes from one file to the next.
pub(super) fn striped(
    converter: &mut Converter<'_>,
    job: &FioJob,
    volumes: Vec<String>,
    files: u32,
    part_bytes: Option<u64>,
) -> Option<JobFiles> {
    let settings = &job.settings;
    let several = access::size(settings).is_none() && settings.align_bytes == [None; 3];
    let least = Some(lengths::least(settings)).filter(|_| several && is_plain(settings));
    let Some(size) = one_size(settings).or(least) else {
        let why = "several files cannot be combined with offset, holes and blockalign";
        converter.refuse(job, "nrfiles", why);
        return None;
    };
    let part = part_bytes.map(|bytes| bytes / size * size).filter(|bytes| *bytes > 0);
    let service = service(converter, job, files);
    let bytes = if several { None } else { stripe(settings, &service, size, part) };
    let (bytes, turns) = match (bytes, part) {
        (Some(bytes), _) => (bytes, None),
        (None, Some(part)) => {
            (part, Some(walk(converter, job, &service, files, (part / size).max(1))))
        }
        (None, None) if settings.mix.random && !several => {
            let why = "files are chosen at random, all equally often, because their size is \
                       unknown";
            converter.note(job, "file_service_type", Differs, why);
            (size, None)
        }
        (None, None) => {
            let why = "the size of the files is unknown: set size";
            converter.refuse(job, "file_service_type", why);
            return None;
        }
    };
    let stripes = Some(Stripes { bytes, share_bytes: part });
    let part_bytes = part.and_then(|bytes| bytes.checked_mul(u64::from(files)));
    let (own_files, range) = (false, Range::WHOLE);
    let whole_bytes = None;
    Some(JobFiles { volumes, own_files, files: 1, stripes, turns, range, part_bytes, whole_bytes })
}

/// Returns the order of files, considering how many are open at once.
fn service(converter: &mut Converter<'_>, job: &FioJob, files: u32) -> Service {
    let settings = &job.settings;
    match (&settings.service, settings.open_files) {
        // With one open file, the next one is opened when the last one is done.
        (Service::Turns(_), Some(1)) => Service::OneByOne,
        (service, Some(open)) if open < files && *service != Service::OneByOne => {
            let why = "all files are open at once, and all are used";
            converter.note(job, "openfiles", Differs, why);
            service.clone()
        }
        (service, _) => service.clone(),
    }
}

/// Returns the stripe length in which all files are one volume for a sequential worker, or for one
/// with random offsets over all; `None` if the worker must know its current file.
fn stripe(settings: &Settings, service: &Service, size: u64, part: Option<u64>) -> Option<u64> {
    let random = settings.mix.random;
    match service {
        Service::Turns(count) if !random => {
            let bytes = size.checked_mul(u64::from(*count))?;
            part.is_none_or(|part| part.is_multiple_of(bytes)).then_some(bytes)
        }
        Service::OneByOne if !random => part,
        Service::Random(1) if random && settings.distribution == Distribution::Uniform => {
            Some(size)
        }
        _ => None,
    }
}

/// Returns the walk from file to file, with `count` I/Os in each.
fn walk(
    converter: &mut Converter<'_>,
    job: &FioJob,
    service: &Service,
    count: u32,
    ios_of_each: u64,
) -> FileWalk {
    let (ios, random) = match service {
        Service::Turns(ios) => (*ios, None),
        Service::OneByOne => (u32::try_from(ios_of_each).unwrap_or(u32::MAX), None),
        Service::Random(ios) => (*ios, Some(Places::Uniform)),
        Service::ByLaw(law) => (1, Some(by_law(converter, job, law))),
    };
    FileWalk { count, ios, random }
}

fn by_law(converter: &mut Converter<'_>, job: &FioJob, law: &Distribution) -> Places {
    if matches!(law, Distribution::Zipf(_) | Distribution::Pareto(_)) {
        let why = "the first file is the most popular; in fio the seed determines which";
        converter.note(job, "file_service_type", Differs, why);
    }
    match law {
        Distribution::Zipf(exponent) => Places::Zipf { exponent: *exponent },
        Distribution::Pareto(hot) => Places::Pareto { hot: *hot },
        Distribution::Normal(percent) => {
            let why = "a normal distribution with fio's standard deviation; fio's is a sum of \
                       uniform numbers, with other tails";
            converter.note(job, "file_service_type", Differs, why);
            let added = percent / 12_f64.sqrt();
            Places::Normal { deviation_percent: BELL_PERCENT.hypot(added) }
        }
        Distribution::Uniform | Distribution::Zones(_) => Places::Uniform,
    }
}

#[cfg(test)]
mod test {
    use super::super::test::{job, of, refused};
    use super::*;

    const FILES: &str = "[a]\nioengine=psync\nsize=1m\nnrfiles=4\n";

    fn turns(words: &str) -> (Option<FileWalk>, u64) {
        let job = job(&format!("{FILES}{words}\n"));
        let group = &job.steps[0].groups[0];
        let stripes = group.stripes.unwrap();
        assert_eq!(stripes.share_bytes, Some(256 << 10));
        assert_eq!(group.workload.limit_bytes, Some(1 << 20));
        (group.workload.access.files.clone(), stripes.bytes)
    }

    fn walk(ios: u32, random: Option<Places>) -> (Option<FileWalk>, u64) {
        (Some(FileWalk { count: 4, ios, random }), 256 << 10)
    }

    #[test]
    fn files_come_as_the_job_says() {
        assert_eq!(turns("file_service_type=roundrobin:8"), (None, 32 << 10));
        assert_eq!(turns("file_service_type=sequential"), (None, 256 << 10));
        assert_eq!(turns("file_service_type=roundrobin:3"), walk(3, None));
        assert_eq!(turns("rw=randread\nfile_service_type=roundrobin:8"), walk(8, None));
        assert_eq!(turns("rw=randread\nfile_service_type=sequential"), walk(64, None));
        assert_eq!(turns("rw=randread\nfile_service_type=random"), (None, 4096));
        let chance = || Some(Places::Uniform);
        assert_eq!(turns("file_service_type=random"), walk(1, chance()));
        assert_eq!(turns("rw=randrw\nfile_service_type=random:5"), walk(5, chance()));
        let zipf = Places::Zipf { exponent: 1.3 };
        assert_eq!(turns("file_service_type=zipf:1.3"), walk(1, Some(zipf)));
        let pareto = Places::Pareto { hot: 0.2 };
        assert_eq!(turns("file_service_type=pareto"), walk(1, Some(pareto)));
        let (normal, _) = turns("file_service_type=gauss:20");
        let Some(Places::Normal { deviation_percent }) = normal.unwrap().random else { panic!() };
        assert!((deviation_percent - 10.138).abs() < 0.001, "{deviation_percent}");
    }

    #[test]
    fn named_files_with_a_law_have_one_worker() {
        let of = |words: &str| {
            let text = "[a]\nioengine=io_uring\niodepth=8\nfilename=/dev/x:/dev/y\nsize=1m\n";
            let job = job(&format!("{text}{words}\n"));
            job.steps[0].groups[0].workload.access.files.clone()
        };
        assert_eq!(of(""), None);
        assert_eq!(of("file_service_type=random:2").unwrap().count, 2);
        assert_eq!(of("file_service_type=zipf").unwrap().count, 2);
    }

    #[test]
    fn sizes_may_differ() {
        assert_eq!(turns("rw=randread\nbsrange=1k-4k"), walk(1, None));
        assert_eq!(turns("bssplit=4k/50:16k/50\nfile_service_type=sequential"), walk(64, None));
        let reading = of(&format!("{FILES}rw=randrw\nbsrange=1k-4k\n"));
        let said = |note: &&crate::formats::note::Note| note.why.contains("offsets of a file");
        assert_eq!(reading.notes_of(Differs).filter(said).count(), 1, "{:?}", reading.notes);
        assert!(
            refused(&format!("{FILES}bsrange=1k-4k\noffset=4k\n")).contains("combined with offset")
        );
    }

    #[test]
    fn what_is_not_exact_is_said() {
        let reading = of(&format!("{FILES}file_service_type=normal\nopenfiles=2\n"));
        assert_eq!(reading.notes_of(Differs).count(), 2, "{:?}", reading.notes);
        let centre = refused(&format!("{FILES}file_service_type=zipf:1.2/0.5\n"));
        assert!(centre.contains("a centre of the distribution"), "{centre}");
    }
}
