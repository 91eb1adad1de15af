//! fio's engines that move no data: they create, stat, truncate and unlink files, or keep a core
//! busy.

use std::borrow::Cow;
use std::ops::Range;

use super::convert::Converter;
use super::job::FioJob;
use super::laid_out::file_of;
use super::option::{Row, sets};
use super::settings::{Engine, Mix, Sizes};
use super::storage::{self, ENDLESS_BYTES};
use super::value::Amount;
use super::{extents, lengths};
use crate::formats::reading::Storage;
use crate::spec::LaidOut;

/// The options of `cpuio`.
pub(super) const ROWS: &[Row] = &[
    sets!("cpuload", calls.load, |v| v.number::<u64>()?.min(100)),
    sets!("cpuchunks|cpuchunk", calls.chunk_us, |v| v.count::<u32>()?.into()),
];

/// Engines, each with its kind of call.
pub(super) const ENGINES: [(&str, &str); 6] = [
    ("cpuio", SPIN),
    ("falloc", "allocate"),
    ("ftruncate", "truncate"),
    ("filecreate", "create"),
    ("filestat", "stat"),
    ("filedelete", "delete"),
];
const SPIN: &str = "spin";
/// Maximum number of files laid out for a job that stats or unlinks them.
const LAID_OUT_MAX: u64 = 1 << 20;

/// Values of the options.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// `cpuload`, in percent.
    pub load: u64,
    /// `cpuchunks` in microseconds.
    pub chunk_us: u64,
    /// Size in bytes of each of several numbered files.
    pub each_bytes: Option<u64>,
}

/// Returns the job with an offset for each call instead of files.
pub(super) fn as_ios<'a>(converter: &mut Converter<'_>, job: Cow<'a, FioJob>) -> Cow<'a, FioJob> {
    let Engine::Calls(kind) = job.settings.engine else { return job };
    let mut job = job.into_owned();
    let settings = &mut job.settings;
    let Calls { load, chunk_us, .. } = settings.calls;
    let numbered = settings.files.is_empty() && matches!(kind, "create" | "stat" | "delete");
    if kind == SPIN {
        (settings.size, settings.file_size) = (Some(Amount::Bytes(ENDLESS_BYTES)), None);
        (settings.mix, settings.nr_files) = (Mix::default(), 1);
        settings.sizes = [const { Sizes::Fixed(512) }; 3];
        settings.control.think_us = (chunk_us * (100 - load)).checked_div(load).unwrap_or(0);
        settings.control.think_ios = Some(1);
    } else if numbered {
        let (files, least) = (u64::from(settings.nr_files), lengths::least(settings));
        let each = match (settings.file_size, settings.size) {
            (Some(Amount::Bytes(each)), _) => each,
            (_, Some(Amount::Bytes(all))) => all / files / least * least,
            _ => least,
        };
        settings.calls.each_bytes = Some(each.max(1));
        settings.size = each.checked_mul(files).map(Amount::Bytes);
        (settings.file_size, settings.nr_files) = (None, 1);
    }
    if kind == SPIN && load == 0 {
        converter.refuse(&job, "ioengine", "cpuio needs a load in percent: set cpuload=50");
    } else if kind != SPIN && !converter.options.is_fio {
        let why = "this engine creates, truncates or removes files: run the job with `drumfire \
                   fio`";
        converter.refuse(&job, "ioengine", why);
    }
    Cow::Owned(job)
}

/// Returns the volumes that represent the job's files, and whether each clone has its own.
pub(super) fn storages(
    converter: &mut Converter<'_>,
    job: &FioJob,
    kind: &str,
    clones: Range<u32>,
) -> Option<(Vec<Storage>, bool)> {
    let settings = &job.settings;
    if kind == SPIN {
        let call = format!("{kind},{},", settings.calls.chunk_us);
        return Some((vec![Storage::Calls { size_bytes: ENDLESS_BYTES, call }], false));
    }
    let (names, own_files) = storage::names(converter, job, clones)?;
    let files = if own_files { 1 } else { names.len() as u32 };
    let Some(size_bytes) = extents::length(settings, files, 0, None).filter(|size| *size > 0)
    else {
        converter.refuse(job, "size", "this engine needs a size in bytes");
        return None;
    };
    let each = settings.calls.each_bytes.unwrap_or(size_bytes);
    if kind != "create" && size_bytes / each > LAID_OUT_MAX / u64::from(settings.clones) {
        converter.refuse(job, "nrfiles", "more than 1048576 files to lay out");
        return None;
    }
    let mut storages = Vec::new();
    for path in names.iter().map(|name| storage::path(settings, name)) {
        // The files must exist, as fio lays them out.
        let laid_out = if kind == "create" { 0 } else { size_bytes / each };
        let written = settings.mix.reads || kind != "allocate";
        for path in (0..laid_out).map(|number| path.replace("$filenum", &number.to_string())) {
            let grows = true;
            converter.laid_out.take(LaidOut { written, grows, ..file_of(path, each) });
        }
        storages.push(Storage::Calls { size_bytes, call: format!("{kind},{each},{path}") });
    }
    Some((storages, own_files))
}

#[cfg(test)]
mod test {
    use super::super::test::refused;
    use super::super::{Options, read};
    use crate::formats::surroundings::Surroundings;
    use crate::spec::JobSpec;

    fn job(text: &str) -> JobSpec {
        let options = Options {
            volumes: &[],
            volume: &|storage| Ok(format!("{storage:?}")),
            capacity: &|_| None,
            is_far: &|_| false,
            node: &|_| None,
            polls: &|_| true,
            is_fio: true,
            seconds: None,
        };
        let reading = read("x.fio", text, &Surroundings::none(), &options).unwrap();
        reading.job.unwrap_or_else(|| panic!("{:?}", reading.notes))
    }

    #[test]
    fn a_file_has_a_place_of_its_own() {
        let text = "[a]\nioengine=filecreate\nfilesize=8k\nnrfiles=10\nnumjobs=2\niodepth=4\n";
        let made = job(text);
        let group = &made.steps[0].groups[0];
        let volumes = ["create,8192,a.0.$filenum", "create,8192,a.1.$filenum"];
        assert!(
            group.volumes.iter().zip(volumes).all(|(uri, call)| uri.contains(call)),
            "{made:?}"
        );
        assert_eq!((group.workload.outstanding, group.workload.limit_bytes), (1, Some(81_920)));
        assert!(made.laid_out.is_empty());
        let all = job("[a]\nioengine=filecreate\nnrfiles=4\nsize=40k\nrw=write\n");
        assert!(all.steps[0].groups[0].volumes[0].contains("create,8192,"), "{all:?}");
        let stat = job("[a]\nioengine=filestat\nnrfiles=2\ndirectory=d\n");
        let paths: Vec<&str> = stat.laid_out.iter().map(|file| &*file.path).collect();
        assert_eq!(paths, ["d/a.0.0", "d/a.0.1"]);
        assert!(stat.laid_out.iter().all(|file| file.written && file.size_bytes == 4096));
    }

    #[test]
    fn a_file_that_is_allocated_or_cut_is_one_volume() {
        let made = job("[a]\nioengine=falloc\nfilename=x\nsize=1m\nbs=64k\nrw=write\n");
        assert!(made.steps[0].groups[0].volumes[0].contains("allocate,1048576,x"), "{made:?}");
        assert!(!made.laid_out[0].written && made.laid_out[0].size_bytes == 1 << 20);
        let read = job("[a]\nioengine=falloc\nfilename=x\nsize=1m\n");
        assert!(read.laid_out[0].written);
    }

    #[test]
    fn a_load_is_a_chunk_and_a_pause() {
        let text = "[a]\nioengine=cpuio\nruntime=1\nrw=randwrite\n";
        let made = job(&format!("{text}cpuload=40\ncpuchunks=10000\n"));
        let group = &made.steps[0].groups[0];
        assert!(group.volumes[0].contains("spin,10000,"), "{made:?}");
        let think = group.workload.think.unwrap();
        assert_eq!((think.pause_us, think.spin_us, think.after_ios), (15_000, 0, 1));
        assert!(!group.workload.writes());
        let whole = job(&format!("{text}cpuload=100\n"));
        assert_eq!(whole.steps[0].groups[0].workload.think, None);
        assert!(refused(text).contains("cpuload=50"));
    }

    #[test]
    fn files_and_programs_are_for_the_command_line() {
        let why = refused("[a]\nioengine=filedelete\nnrfiles=2\nexec_prerun=true\n");
        assert!(why.contains("run the job with `drumfire fio`"), "{why}");
        let many = refused("[a]\nioengine=filestat\nnrfiles=70000\nnumjobs=16\n");
        assert!(many.contains("more than 1048576 files"), "{many}");
        assert!(why.contains("`exec_prerun=true`: only `drumfire fio` starts programs"), "{why}");
    }
}
