//! Tests of every row: `explain` reports its setting, and the written option is read as the same.

use std::collections::BTreeSet;
use std::io;

use super::super::option::{self, Does, Row};
use super::super::told;
use super::*;
use crate::spec::{JobSpec, Reported};

/// Jobs in which options have an effect.
const BASES: [&str; 11] = [
    "ioengine=null\nsize=64m\ntime_based\nruntime=5\n[a]",
    "ioengine=null\nsize=64m\nrw=randrw\n[a]",
    "ioengine=libaio\niodepth=8\nfilename=/dev/x\nrw=randwrite\nsize=64m\n[a]",
    "ioengine=libaio\niodepth=8\nfilename=/dev/x\nrw=write\ndirect=1\nverify=pattern\n\
     verify_pattern=0xab\nsize=64m\n[a]",
    "ioengine=io_uring\nfilename=/dev/x:/dev/y\nrw=randread:2\nsize=64m\nthinktime=9\n[a]",
    "ioengine=io_uring\nfilename=/dev/x\nrw=rw\nthinktime=9\nrate=1m,1m\nrate_min=1k,1k\nflow=2\n\
     zonemode=strided\nzonesize=1m\nwrite_hist_log=h\nlog_hist_msec=9\nwrite_bw_log=b\n[a]",
    "ioengine=io_uring\nfilename=/dev/x\nrw=randread\nzonemode=zbd\nruntime=9\nss=iops:3%\n\
     ss_dur=4\nlatency_target=5ms\niodepth=4\nwrite_lat_log=w\n[a]",
    "ioengine=psync\nfilename=/dev/x\nrw=write\nnumjobs=2\nsize=64m\nfsync=4\nbsrange=4k-16k\n[a]",
    "ioengine=psync\nfilename=/dev/x\nsize=64m\n[a]\n[b]",
    "ioengine=psync\nsize=64m\n[a]",
    "read_iolog=one.log\n[a]",
];

/// Values, each valid for some option.
const VALUES: [&str; 43] = [
    "",
    "0",
    "1",
    "2",
    "64",
    "128k",
    "1m",
    "5",
    "4k",
    "8k",
    "64k",
    "3",
    "25%",
    "50",
    "99.5",
    "9ms",
    "7s",
    "1,2",
    "1k,2k",
    "2-5",
    "4k-8k",
    "4k/30:8k/70",
    "randwrite",
    "rw:8k",
    "read",
    "zipf:1.2",
    "random",
    "roundrobin:3",
    "none",
    "zbd",
    "strided",
    "mixed",
    "poisson",
    "identical",
    "issue",
    "working_set",
    "md5",
    "iops_slope:2%",
    "bw:9%",
    "io_uring",
    "dsync",
    "0xff",
    "a",
];
/// Number of valid values to try per option.
const TRIED: usize = 6;

/// Options without which another option has no effect.
const BESIDE: [(&str, &str); 15] = [
    ("zone_reset_threshold", "zone_reset_frequency=1"),
    ("zonecapacity", "zonemode=zbd\nzonesize=1m"),
    ("fill_device", "rw=write"),
    ("rw_sequencer", "rw=randread:2"),
    ("dedupe_mode", "dedupe_percentage=50"),
    ("dedupe_working_set_percentage", "dedupe_percentage=50\ndedupe_mode=working_set"),
    ("buffer_compress_chunk", "buffer_compress_percentage=50"),
    ("steadystate", "ss_dur=8"),
    ("zonerange", "zonemode=strided\nzonesize=128k"),
    ("zoneskip", "zonemode=strided\nzonesize=128k"),
    ("openfiles", "nrfiles=3\nrw=randwrite"),
    ("bs_unaligned", "bsrange=4k-8k\nrw=randwrite"),
    ("bs_is_seq_rand", "bs=4k,8k"),
    ("kb_base", "bs=4k"),
    ("offset_align", "offset=25%"),
];

/// Values that are valid for one option only.
const OWN: [(&str, &str); 6] = [
    ("wait_for", "a"),
    ("read_iolog", "one.log"),
    ("kb_base", "1000"),
    ("replay_redirect", "/dev/z"),
    ("filename_format", "f.$jobnum"),
    ("spdk_json_conf", "conf.json"),
];

/// Options with tests elsewhere: one removed from fio, one that only refuses, two that only set
/// what our buffers are anyway, and those of `cpuio` and of volumes on other hosts
/// ([here](super::super::calls) and [here](super::super::remote)).
const ELSEWHERE: [&str; 11] = [
    "cpuload",
    "cpuchunks",
    "percentage_sequential",
    "allow_file_create",
    "refill_buffers",
    "scramble_buffers",
    "spdk_json_conf",
    "hostnqn",
    "initiator",
    "digest_enable",
    "uri",
];
/// Options whose effect here has no fio option: `explain --as` refuses them. Files of one worker, a
/// set of duplicates in blocks, unaligned sizes.
const UNWRITTEN: [&str; 6] = [
    "nrfiles",
    "openfiles",
    "file_service_type",
    "dedupe_mode",
    "dedupe_working_set_percentage",
    "bs_unaligned",
];
/// Options that are not always read back as the same job, as `explain --as` notices: clones with
/// disjoint parts are several jobs then, random and sequential I/Os of different sizes are two
/// directions, and a trace on `ioengine=null` has the size that it needs.
const LOSSY: [&str; 4] = ["offset_increment", "file_append", "bs_is_seq_rand", "read_iolog"];

/// Returns the job of a file, if it is valid, and the notes on an option.
fn job_of(text: &str, key: &str) -> Option<(JobSpec, Vec<String>)> {
    let open = |path: &std::path::Path| -> io::Result<Box<dyn io::Read>> {
        match path.ends_with("one.log") {
            true => {
                Ok(Box::new(&b"fio version 3 iolog\n0 /dev/x add\n9 /dev/x write 0 4096\n"[..]))
            }
            false => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let around = Surroundings { open: Box::new(open), ..Surroundings::none() };
    let reading = with(text, &around).ok()?;
    let notes = reading.notes.iter().filter(|note| note.text.starts_with(key));
    let notes = notes.map(ToString::to_string).collect();
    let mut job = reading.job?.without_options();
    let groups = job.steps.iter_mut().flat_map(|step| &mut step.groups);
    groups.filter(|_| !reading.cores.is_empty()).for_each(|g| g.cores.clone_from(&reading.cores));
    Some((job, notes))
}

/// Returns the parts that `explain --as` preserves: sizes of existing files, and numbers of logs,
/// are not among them.
fn plain(mut job: JobSpec) -> JobSpec {
    for group in job.steps.iter_mut().flat_map(|step| &mut step.groups) {
        (group.reported, group.logs.jobs) = (Reported::Group, 1);
        // The option has no effect without flushes.
        group.figures.flushes |= group.workload.access.flush_every == 0;
        for uri in &mut group.volumes {
            if let Some((path, rest)) = uri.clone().split_once("?size=") {
                let way = rest.split_once('&').map_or("", |(_, way)| way);
                *uri = format!("{}?{way}", path.replace("any byte of ", ""));
            }
        }
    }
    job
}

/// Returns valid lines that set an option.
fn lines(row: &Row) -> Vec<String> {
    let key = row.name();
    let own = OWN.iter().filter(|(name, _)| *name == key).map(|(_, value)| *value);
    let mut seen = BTreeSet::new();
    let takes = |value: &&str| {
        let mut settings = settings::Settings::usual();
        let value = Some(*value).filter(|value| !value.is_empty());
        let taken = take(key, value, &mut settings).is_ok();
        let refused = settings.notes.iter().any(|note| note.treatment == Treatment::Refused);
        settings.notes.clear();
        taken && !refused && seen.insert(format!("{settings:?}"))
    };
    let taken = own.chain(VALUES).filter(takes).take(TRIED);
    taken.map(|value| format!("{key}={value}").trim_end_matches('=').to_owned()).collect()
}

/// Tries a line in a job; returns whether it has an effect, and whether it is written.
fn tried(base: &str, key: &str, line: &str) -> (bool, bool) {
    let Some((before, _)) = job_of(base, "\0") else { return (false, false) };
    let Some((after, notes)) = job_of(&format!("{base}{line}\n"), key) else {
        return (false, false);
    };
    if before == after {
        return (!notes.is_empty(), false);
    }
    let is_told = told("x", &before) != told("x", &after);
    assert!(is_told || !notes.is_empty(), "explain says nothing of {line} in\n{base}");
    (true, is_same(&after, key, line))
}

/// Returns whether a job is written. A written job is read as the same.
fn is_same(job: &JobSpec, key: &str, line: &str) -> bool {
    let Ok(text) = write(job, &storage) else { return false };
    let again = job_of(&text, "\0").map(|(job, _)| plain(job));
    let same = again.as_ref() == Some(&plain(job.clone()));
    assert!(same || LOSSY.contains(&key), "{line} is another job in\n{text}");
    same
}

#[test]
fn each_option_is_told_and_written_as_it_is_read() {
    for row in option::all().filter(|row| matches!(row.does, Does::Sets(_))) {
        let key = row.name();
        let beside = BESIDE.iter().find(|(name, _)| *name == key).map_or("", |(_, line)| line);
        let lines = lines(row);
        let tries = BASES.iter().flat_map(|base| lines.iter().map(move |line| (base, line)));
        let (mut acts, mut written) = (false, false);
        for (base, line) in tries {
            let (did, same) = tried(&format!("[global]\n{base}\n{beside}\n"), key, line);
            acts |= did;
            written |= same;
        }
        assert!(acts || ELSEWHERE.contains(&key), "{key} does nothing: {lines:?}");
        let unwritten = UNWRITTEN.contains(&key) || ELSEWHERE.contains(&key);
        assert_eq!(written, !unwritten, "whether {key} is written: {lines:?}");
    }
}
