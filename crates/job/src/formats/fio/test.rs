//! Job files and their conversion.

mod data;
mod files;
mod logs;
mod parts;
mod rows;
mod slips;

use super::*;
use crate::formats::note::Treatment;
use crate::formats::reading::Storage;
use crate::spec::{Expect, Extent, Pacing, Places, Quantity, Walk};

/// Returns a name for a storage that shows all its properties.
pub(super) fn name(storage: &Storage) -> Result<String, String> {
    Ok(match storage {
        Storage::File { path, block_bytes, size_bytes, direct, iopoll, sqpoll } => {
            let path =
                if *block_bytes == Some(1) { format!("any byte of {path}") } else { path.clone() };
            let polls = match (iopoll, sqpoll) {
                (false, false) => "",
                (true, false) => "&iopoll",
                (false, true) => "&sqpoll",
                (true, true) => "&both",
            };
            format!("file:{path}?size={}&direct={direct}{polls}", size_bytes.unwrap_or(0))
        }
        Storage::Nothing { size_bytes, .. } => format!("null:{size_bytes}"),
        Storage::Memory { size_bytes, name, .. } => format!("memory:{size_bytes} {name}"),
        Storage::Uri(uri) => uri.clone(),
        Storage::Remote(remote) => format!("{remote:?}"),
        several => format!("{several:?}"),
    })
}

pub(super) fn storage(uri: &str) -> Option<Storage> {
    if let Some(size) = uri.strip_prefix("null:") {
        return Some(Storage::nothing(size.parse().ok()?));
    }
    let (path, rest) = uri.strip_prefix("file:")?.split_once("?size=")?;
    let (size, rest) = rest.split_once("&direct=")?;
    let (direct, polls) = rest.split_once('&').unwrap_or((rest, ""));
    let size_bytes = size.parse().ok().filter(|size| *size > 0);
    let (path, direct) = (path.to_owned(), direct.parse().ok()?);
    let (iopoll, sqpoll) =
        (["iopoll", "both"].contains(&polls), ["sqpoll", "both"].contains(&polls));
    Some(Storage::File { path, block_bytes: None, size_bytes, direct, iopoll, sqpoll })
}

fn with(text: &str, around: &Surroundings<'_>) -> Result<Reading, FormatError> {
    let capacity = |uri: &str| uri.contains("/dev/").then_some(1 << 30);
    let node = |number| (number < 2).then(|| vec![2 * number, 2 * number + 1]);
    let (volume, capacity) = (&name, &capacity);
    let options = Options {
        volumes: &[],
        volume,
        capacity,
        is_far: &|_| false,
        node: &node,
        polls: &|_| true,
        is_fio: false,
        seconds: None,
    };
    read("x.fio", text, around, &options)
}

pub(super) fn of(text: &str) -> Reading {
    with(text, &Surroundings::none()).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the job, without the options from which it was read.
pub(super) fn job(text: &str) -> crate::spec::JobSpec {
    let reading = of(text);
    reading.job.unwrap_or_else(|| panic!("refused: {:?}", reading.notes)).without_options()
}

/// Applies one option.
pub(super) fn take(
    name: &str,
    value: Option<&str>,
    settings: &mut settings::Settings,
) -> Result<(), FormatError> {
    let (key, text) = (name.to_owned(), name.to_owned());
    let at = crate::formats::note::Location { file: "x.fio".into(), line: 1 };
    let setting = lines::Setting { at, key, value: value.map(str::to_owned), text };
    option::apply(&setting, settings, &Surroundings::none())
}

/// Returns the treatments of an option that is not applied unchanged.
pub(super) fn notes(line: &str) -> Vec<Treatment> {
    let mut settings = settings::Settings::usual();
    let (name, value) =
        line.split_once('=').map_or((line, None), |(name, value)| (name, Some(value)));
    take(name, value, &mut settings).unwrap_or_else(|error| panic!("{error}"));
    settings.notes.iter().map(|note| note.treatment).collect()
}

pub(super) fn error(text: &str) -> String {
    with(text, &Surroundings::none()).unwrap_err().to_string()
}

pub(super) fn refused(text: &str) -> String {
    let reading = of(text);
    assert_eq!(reading.job, None);
    let notes = reading.notes_of(Treatment::Refused);
    notes.map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

const NULL: &str = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=5\n";

#[test]
fn jobs_inherit_and_wait_for_each_other() {
    let text = "; a comment\n[global]\nioengine=io_uring # another\nfilename=/dev/a:/dev/b\n\
        direct=1\nruntime=1m\ntime_based\nbs=8k\n[one]\nrw=randread\niodepth=4\n[two]\n\
        numjobs=3\nrw=write\n[global]\nbs=16k\n[three]\nstonewall\nrw=rw\nrwmixread=70\n";
    let job = job(text);
    assert_eq!(job.steps.len(), 2);
    let [one, two] = &job.steps[0].groups[..] else { panic!("{job:?}") };
    assert_eq!(one.volumes, ["file:/dev/a?size=0&direct=true", "file:/dev/b?size=0&direct=true"]);
    // The queue depth is that of both files together.
    assert_eq!((one.workers, one.workload.outstanding, two.workers), (1, 2, 3));
    assert_eq!(one.workload.access.random, Places::Once);
    assert_eq!((two.workload.access.read_percent(), job.steps[0].seconds), (0.0, 60.0));
    let three = &job.steps[1].groups[0];
    assert_eq!(three.workload.access.size_bytes(), Some(16384));
    assert_eq!(three.workload.access.read_percent(), 70.0);
    assert!(three.workload.access.apart);
}

#[test]
fn sizes_and_shares_become_lines() {
    let one = |words: &str| {
        let job = job(&format!("{NULL}[a]\n{words}\n"));
        job.steps[0].groups[0].workload.access.clone()
    };
    let shares = |access: &crate::spec::Access| {
        let lines = access.lines.iter();
        lines.map(|l| (l.size_bytes, l.share_percent, l.read_percent)).collect::<Vec<_>>()
    };
    let split = one("rw=randrw\nrwmixread=80\nbssplit=512/10:4k/90");
    assert_eq!(shares(&split), [(512, 10.0, 80.0), (4096, 90.0, 80.0)]);
    assert_eq!((split.lines[1].align(), &split.random), (512, &Places::Once));
    // Sequential I/Os between random ones continue where the last one ended.
    let mixed = one("rw=randrw\npercentage_random=60\nbssplit=512/10:4k/90");
    assert_eq!(mixed.random, Places::Uniform);
    let apart = one("rw=rw\nrwmixwrite=25\nbs=4k,8k");
    assert_eq!(shares(&apart), [(4096, 75.0, 100.0), (8192, 25.0, 0.0)]);
    // 4k, 8k, and larger ones clamped to 10k.
    let range = one("rw=randread\nbsrange=4k-10k");
    assert_eq!(range.lines.iter().map(|l| l.size_bytes).collect::<Vec<_>>(), [4096, 8192, 10240]);
    assert!((range.lines[2].share_percent - 20.0).abs() < 1e-9);
    assert_eq!(one("rw=read:4k").sequential, Walk::Strided { bytes: 8192 });
    assert_eq!(one("rw=read:-8k").sequential, Walk::Backward);
    assert_eq!(one("rw=randread:8\nnorandommap").run, 8);
    let most = one("rw=randread\npercentage_random=60");
    assert_eq!(most.lines[0].random_percent, 60.0);
    assert_eq!(one("rw=randtrim").lines[0].trim_percent, 100.0);
}

#[test]
fn rates_limits_and_parts_are_kept() {
    let workload = |text: &str| job(text).steps[0].groups[0].workload.clone();
    let rated = workload(&format!("{NULL}[a]\nrw=randrw\nrwmixread=75\nrate_iops=300,100\n"));
    let Pacing::Ios { per_second, .. } = rated.pacing else { panic!("{rated:?}") };
    assert_eq!((per_second, rated.limit_bytes), (400.0, None));
    let bounded = "[a]\nioengine=null\nsize=1m\nloops=3\noffset=1m\n";
    let bounded = workload(bounded);
    assert_eq!(bounded.limit_bytes, Some(3 << 20));
    // A ramp and a first pass for verification are compatible with a size.
    for words in ["ramp_time=5", "rw=randrw\nverify=md5"] {
        let job = job(&format!("[a]\nioengine=null\nsize=3m\n{words}\n"));
        assert_eq!(job.steps[0].groups[0].workload.limit_bytes, Some(3 << 20), "{words}");
    }
    assert_eq!(bounded.range.start, Extent::Bytes(1 << 20));
    let device = "[a]\nfilename=/dev/a\nsize=50%\nio_size=10%\n";
    // A tenth of the half that is used.
    assert_eq!(workload(device).limit_bytes, Some((1 << 29) / 10));
    let parts = job("[a]\nfilename=/dev/a\nsize=1m\noffset_increment=2m\nnumjobs=3\n");
    let starts: Vec<Extent> =
        parts.steps[0].groups.iter().map(|group| group.workload.range.start).collect();
    assert_eq!(starts, [0, 2 << 20, 4 << 20].map(Extent::Bytes));
    let own = job("[a]\ndirectory=/d\nsize=1m\nnumjobs=2\n");
    let own = &own.steps[0].groups[0];
    assert_eq!(own.volumes[1], "file:/d/a.1.0?size=1048576&direct=false");
    assert_eq!(own.workers, 1);
}

#[test]
fn a_clone_with_a_part_of_its_own_has_only_its_own_file() {
    let apart = job("[a]\nsize=1m\noffset_increment=1m\nnumjobs=3\n");
    let of = |group: &crate::spec::Group| (group.volumes.clone(), group.workload.range.start);
    let expected = |clone: u64| {
        let uri = format!("file:a.{clone}.0?size={}&direct=false", (clone + 1) << 20);
        (vec![uri], Extent::Bytes(clone << 20))
    };
    let found: Vec<_> = apart.steps[0].groups.iter().map(of).collect();
    assert_eq!(found, [0, 1, 2].map(expected));
    // The maximum number of workers is still read at once.
    let most = job("[a]\nsize=1m\noffset_increment=4k\nnumjobs=65536\n");
    assert_eq!(most.steps[0].groups.len(), 65536);
}

#[test]
fn any_length_goes_through_the_page_cache() {
    let volume = |words: &str| {
        job(&format!("[a]\nsize=22m\nrw=write\n{words}\n")).steps[0].groups[0].volumes[0].clone()
    };
    assert_eq!(volume("bs=2300"), "file:any byte of a.0.0?size=23068672&direct=false");
    assert_eq!(volume("bs=4k\noffset=100"), "file:any byte of a.0.0?size=23068772&direct=false");
    assert_eq!(volume("bs=2300\ndirect=1"), "file:a.0.0?size=23068672&direct=true");
    let said = refused("[a]\nsize=1m\nbs=100\nverify=md5\n");
    assert!(said.contains("x.fio:3: `bs=100`: verify needs block sizes"), "{said}");
}

#[test]
fn a_clone_goes_from_file_to_file() {
    let of = |words: &str| job(&format!("[a]\nsize=1m\nnrfiles=4\nrw=write\n{words}\n"));
    let turns = of("numjobs=2\niodepth=8\nioengine=libaio").steps.remove(0);
    let names = |group: &crate::spec::Group| group.volumes.concat();
    let of_clone = |clone: u32| {
        let file = |n: u32| format!("file:a.{clone}.{n}?size=262144&direct=false");
        (0..4).map(file).collect::<String>()
    };
    let found: Vec<String> = turns.groups.iter().map(names).collect();
    assert_eq!(found, [of_clone(0), of_clone(1)]);
    let first = &turns.groups[0];
    let stripes = |bytes| Some(crate::spec::Stripes { bytes, share_bytes: Some(262144) });
    // One queue depth and one size for all.
    assert_eq!((first.stripes, first.workload.outstanding), (stripes(4096), 8));
    assert_eq!((first.workload.limit_bytes, turns.workers()), (Some(1 << 20), 2));
    let stripes_of = |words: &str| of(words).steps[0].groups[0].stripes;
    assert_eq!(stripes_of("file_service_type=roundrobin:4"), stripes(16384));
    assert_eq!(stripes_of("file_service_type=sequential"), stripes(262144));
    assert_eq!(stripes_of("openfiles=1"), stripes(262144));
    assert_eq!(stripes_of("rw=randread\nfile_service_type=random"), stripes(4096));
    // Named files: one worker for each, if each has its own I/O in flight.
    let named = |depth: u32| {
        let text = format!("[a]\nfilename=/dev/a:/dev/b\nioengine=libaio\niodepth={depth}\n");
        let group = job(&text).steps.remove(0).groups.remove(0);
        (group.stripes.is_some(), group.workload.outstanding)
    };
    assert_eq!((named(1), named(4)), ((true, 1), (false, 2)));
}

#[test]
fn a_job_ends_when_it_is_steady() {
    let of = |words: &str| of(&format!("{NULL}[a]\n{words}\n"));
    let steady = |words: &str| of(words).job.unwrap().steps[0].steady;
    let words = "ss=iops_slope:0.3%\nss_dur=30m\nss_ramp=10s\nss_interval=10";
    let found = steady(words).unwrap();
    assert_eq!((found.of, found.slope, found.percent), (Quantity::Iops, true, true));
    assert_eq!((found.below, found.values(), found.after_seconds), (0.3, 180, 10.0));
    // fio checks nothing without a duration.
    assert_eq!((steady("ss=iops:10%"), steady("rw=read")), (None, None));
    let clones = of("numjobs=2\nss=bw:1%\nss_dur=9");
    assert_eq!(clones.notes_of(Treatment::Differs).count(), 1);
    let apart = refused(&format!("{NULL}[a]\nss=bw:1%\nss_dur=9\n[b]\n"));
    assert!(apart.contains("the same steadystate"), "{apart}");
}

#[test]
fn the_page_cache_is_treated_as_by_fio() {
    let cache = |words: &str| {
        let group = job(&format!("[a]\nsize=1m\n{words}\n")).steps.remove(0).groups.remove(0);
        (group.cache.drop, group.cache.expect)
    };
    assert_eq!(cache("rw=randread"), (true, Expect::Random));
    assert_eq!(cache("rw=read"), (true, Expect::Sequential));
    let other = cache("rw=read\ninvalidate=0\nfadvise_hint=random");
    assert_eq!(other, (false, Expect::Random));
    assert_eq!(cache("rw=randread\nfadvise_hint=0"), (true, Expect::Unknown));
    for none in ["direct=1", "ioengine=null"] {
        assert_eq!(cache(none), (false, Expect::Unknown), "{none}");
    }
    let first = job("[a]\nsize=1m\ninvalidate=0\nfilename=/dev/x\n");
    let written = write(&first, &storage).unwrap();
    assert_eq!(job(&written).steps[0].groups[0].cache, first.steps[0].groups[0].cache);
}

#[test]
fn without_a_runtime_a_job_ends_by_its_size() {
    let reading = of("[a]\nioengine=null\nsize=1m\ntime_based\n");
    assert!(
        reading
            .notes_of(Treatment::Ignored)
            .any(|note| note.to_string().contains("without a runtime"))
    );
    let job = reading.job.expect("it is run");
    assert_eq!(job.steps[0].groups[0].workload.limit_bytes, Some(1 << 20));
}

#[test]
fn a_delay_comes_before_the_ramp() {
    let text = format!("{NULL}ramp_time=3\nstartdelay=2\n[a]\n[b]\nrw=randread\n");
    let step = job(&text).steps.remove(0);
    assert_eq!((step.ramp_seconds, step.seconds), (5.0, 5.0));
    assert!(step.groups.iter().all(|group| group.when.delay_seconds == 2.0), "{step:?}");
    assert!(step.groups.iter().all(|group| group.when.seconds.is_none()), "{step:?}");
    let first = job(&text);
    assert_eq!(job(&write(&first, &storage).unwrap()), first);
}

#[test]
fn jobs_begin_and_end_in_their_turn() {
    let text = format!(
        "{NULL}[a]\n[b]\nstartdelay=2\nruntime=9\n[c]\nwait_for=b\nstartdelay=1\n\
         [d]\nnumjobs=3\nstartdelay=1-3\n[e]\nstonewall\nwait_for=a\nnumber_ios=7\nexitall\n"
    );
    let job = job(&text);
    let [first, second] = &job.steps[..] else { panic!("{job:?}") };
    let when = |group: &crate::spec::Group| {
        (group.when.after.clone(), group.when.delay_seconds, group.when.seconds)
    };
    let found: Vec<_> = first.groups[..3].iter().map(when).collect();
    let none = String::new;
    let expected = [
        (none(), 0.0, Some(5.0)),
        (none(), 2.0, Some(9.0)),
        // The job that it waits for may end sooner.
        ("b".to_owned(), 1.0, Some(5.0)),
    ];
    assert_eq!((found, first.seconds), (expected.to_vec(), 2.0 + 9.0 + 1.0 + 5.0));
    let drawn: Vec<f64> = first.groups[3..].iter().map(|g| g.when.delay_seconds).collect();
    assert!(drawn.iter().all(|s| (1.0..=3.0).contains(s)), "{drawn:?}");
    assert!(drawn.len() == 3 && drawn[0] != drawn[1], "{drawn:?}");
    // The job that it waits for has ended before the stonewall.
    assert_eq!((when(&second.groups[0]), second.seconds), ((none(), 0.0, None), 5.0));
    assert_eq!(second.groups[0].workload.limit_ios, Some(7));
    assert!(first.ends_with_first && second.ends_with_first);
    // One length for all is the default.
    let plain = self::job(&format!("{NULL}[a]\n[b]\n"));
    assert!(plain.steps[0].groups.iter().all(|group| group.when == Default::default()));
}

#[test]
fn jobs_may_have_processors_of_their_own() {
    let cores = |text: &str| {
        let reading = of(&format!("{NULL}{text}"));
        let groups = reading.job.unwrap().steps.remove(0).groups;
        let groups: Vec<Vec<usize>> = groups.into_iter().map(|group| group.cores).collect();
        (reading.cores, groups)
    };
    let apart = cores("[a]\ncpus_allowed=1,3\n[b]\nnuma_cpu_nodes=1\n[c]\n");
    assert_eq!(apart, (vec![], vec![vec![1, 3], vec![2, 3], vec![]]));
    assert_eq!(cores("cpumask=5\n[a]\n[b]\n"), (vec![0, 2], vec![vec![], vec![]]));
}

#[test]
fn only_what_writes_ends_with_a_flush() {
    let flushes =
        |words: &str| job(&format!("{NULL}[a]\n{words}\n")).steps[0].groups[0].workload.end_flush;
    assert!(flushes("rw=write\nend_fsync=1") && flushes("rw=randrw\nfsync_on_close=1"));
    assert!(!flushes("rw=read\nend_fsync=1") && !flushes("rw=write\nend_fsync=0"));
}

#[test]
fn a_synchronous_engine_has_one_in_flight_and_says_so() {
    let reading = of("[a]\nfilename=/dev/a\nioengine=psync\niodepth=16\n");
    assert_eq!(reading.job.unwrap().steps[0].groups[0].workload.outstanding, 1);
    let said = reading.notes[0].to_string();
    assert!(said.contains("differs x.fio:4: `iodepth=16`"), "{said}");
}

#[test]
fn polls_where_fio_does() {
    let volume = |words: &str| {
        let text = format!("[a]\nfilename=/dev/a\ndirect=1\nioengine={words}\n");
        job(&text).steps[0].groups[0].volumes[0].clone()
    };
    let plain = "file:/dev/a?size=0&direct=true";
    assert_eq!(volume("io_uring\nhipri"), format!("{plain}&iopoll"));
    assert_eq!(volume("io_uring\nsqthread_poll=1"), format!("{plain}&sqpoll"));
    assert_eq!(volume("io_uring\nhipri=1\nsqthread_poll"), format!("{plain}&both"));
    assert_eq!(volume("pvsync2\nhipri"), format!("{plain}&iopoll"));
    assert_eq!(volume("pvsync2\nhipri\nbuffered=1"), "file:/dev/a?size=0&direct=false");
    assert_eq!(volume("io_uring\nhipri=0\nsqthread_poll=0"), plain);
    let thread = of("[a]\nfilename=/dev/a\nioengine=io_uring\nsqthread_poll_cpu=1\n");
    assert_eq!(thread.notes_of(Treatment::Differs).count(), 1);
}

#[test]
fn what_would_not_be_as_it_stands_is_named() {
    for (words, line, part) in [
        ("ioengine=libpmem\nfilename=/dev/a", 7, "memory accesses"),
        ("ioengine=rdma", 7, "the engine rdma is not supported"),
        ("verify=crc8\nrw=randtrim", 7, "the method crc8"),
        ("rw=trimwrite\nbs=4k,8k,4k", 8, "the same block size"),
        ("rw=trimwrite\nrate_iops=5", 8, "rw=trimwrite cannot be combined"),
        ("rw=trimwrite\nverify=crc32c", 8, "trims are not verified"),
        ("verify=pattern", 7, "a verify_pattern is missing"),
        ("verify_only", 7, "verify_only needs verify"),
        ("rw=randrw\nverify=md5\nverify_only=1", 9, "a mix of reads and writes"),
        ("rw=write\nverify=md5\nverify_only=1", 9, "a job that ends by its size"),
        ("rw=randwrite\nbs=4k,8k\nbssplit=4k:8k\nverify_pattern=%o", 10, "a single I/O size"),
        ("no_such_option=1", 7, "unknown fio option"),
        ("rw=randrw\nrate_iops=100,", 8, "for both reads and writes, or for neither"),
        ("flow_watermark=5", 7, "no longer"),
        ("nrfiles=2\noffset=4k\nrw=rw\nioengine=psync", 7, "cannot be combined with offset"),
    ] {
        // Verified data need a volume that stores them.
        let stored = NULL.replace("ioengine=null", "filename=/dev/x");
        let global = if words.contains("verify") { &stored } else { NULL };
        let said = refused(&format!("{global}[a]\n{words}\n"));
        assert!(said.contains(part) && said.contains(&format!("x.fio:{line}")), "{said}");
    }
    let buffers = of(&format!("{NULL}[a]\nrw=write\nscramble_buffers=0\nunlink=1\n"));
    assert_eq!(buffers.notes_of(Treatment::Differs).count(), 2);
    let reading = of(&format!("{NULL}[a]\ndisable_lat=1\nthread\n[b]\nrw=randread\n"));
    assert_eq!(reading.notes_of(Treatment::Ignored).count(), 2);
    assert!(reading.job.is_some());
    let nobody = refused(&format!("{NULL}[a]\n[b]\nwait_for=c\n"));
    assert!(nobody.contains("x.fio:8: `wait_for=c`: no earlier job is named c"), "{nobody}");
    let node = refused(&format!("{NULL}[a]\nnuma_cpu_nodes=0,7\n"));
    assert!(node.contains("no CPUs on NUMA node 7"), "{node}");
}

#[test]
fn what_cannot_be_read_names_its_line() {
    for (text, part) in [
        ("rw=read\n", "x.fio:1: `rw=read`: option outside"),
        ("[a\n", "[NAME]"),
        ("[a]\n=4\n", "x.fio:2: `=4`"),
        ("[a]\nbs=4q\n", "x.fio:2: `bs=4q`: '4q' is not a size"),
        ("[a]\nrw=sideways\n", "unknown value 'sideways': one of read"),
        ("[a]\ninclude more.fio\n", "cannot read more.fio"),
        ("[a]\nfilename=${DISK}\n", "the environment variable DISK is not set"),
        ("[a]\nsize=8*$mb_memory/0\n", "is not a valid expression"),
        ("[global]\nbs=4k\n", "no job"),
        ("", "no job"),
        ("[a]\niodepth=0\n", "at least 1"),
        ("[a]\nbs\n", "a value is missing"),
        ("[a]\nbuffer_pattern=%o\n", "x.fio:2: `buffer_pattern=%o`: %o is valid in verify"),
        ("[a]\nverify_pattern=abcd\n", "'abcd' is not part of a pattern"),
        ("[a]\nverify_pattern='none'\n", "cannot read none"),
    ] {
        let said = error(text);
        assert!(said.contains(part), "{said}");
    }
    assert!(error(&format!("[a]\n{}\n", "x".repeat(9000))).contains("8192"));
    assert!(error(&format!("[{}]\n", "x".repeat(300))).contains("255"));
}

#[test]
fn files_variables_and_the_host_come_in() {
    let around = Surroundings {
        read: Box::new(|path| match path.to_str() {
            Some("more.fio") => Ok("bs=2k\ninclude deep.fio\n".to_owned()),
            Some("deep.fio") => Ok("iodepth=${DEPTH}\n".to_owned()),
            Some("self.fio") => Ok("include self.fio\n".to_owned()),
            Some("many.fio") => Ok("include none.fio\n".repeat(200)),
            Some("none.fio") => Ok(String::new()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        }),
        variable: Box::new(|name| (name == "DEPTH").then(|| "7".to_owned())),
        memory_mib: 512,
        ..Surroundings::none()
    };
    let text = format!("{NULL}[a]\ninclude more.fio\nio_size=2*$mb_memory*1024\n");
    let reading = with(&text, &around).unwrap();
    let workload = &reading.job.unwrap().steps[0].groups[0].workload;
    assert_eq!((workload.access.size_bytes(), workload.outstanding), (Some(2048), 7));
    let endless = with("[a]\ninclude self.fio\n", &around).unwrap_err().to_string();
    assert!(endless.contains("self.fio:1") && endless.contains("8 deep"), "{endless}");
    let many = with("[a]\ninclude many.fio\ninclude many.fio\n", &around).unwrap_err().to_string();
    assert!(many.contains("many.fio:55") && many.contains("256 files"), "{many}");
}

#[test]
fn what_is_written_is_read_as_the_same_job() {
    for words in [
        "rw=randrw\nrwmixread=80\nbssplit=512/10:4k/90\nbuffer_compress_percentage=30",
        "rw=rw\nbs=4k,8k\nrwmixread=30\nfsync=8\nsync=dsync",
        "rw=read:12k\nnumjobs=4\nramp_time=2\nthinktime=50\nthinktime_blocks=3",
        "rw=randread:4\nrandom_distribution=zipf:1.2\npercentage_random=40",
        "rw=randwrite\nrandom_distribution=zoned_abs:60/256m:40/768m\nrate=10m\nkb_base=1000",
        "rw=randread\nba=512\nbs=4k\nrate_iops=500\nrate_process=poisson\niodepth=32",
        "rw=randrw\nverify=crc32c\nrandseed=77",
        "rw=randwrite\nverify=md5",
        "rw=randwrite\nverify=md5\ndo_verify=0",
        "rw=randrw\nverify=md5\ndo_verify=0",
        "rw=randread\nverify=md5",
        "rw=randrw\nverify=pattern\nverify_pattern=0xff%o\"abcd\"-12",
        "rw=write\nbuffer_compress_percentage=40\nbuffer_compress_chunk=64k",
        "rw=randread:4\nrw_sequencer=identical\nnorandommap",
        "rw=write\nbuffer_pattern=\"abc\"\nbuffer_compress_percentage=40",
        "rw=read:-8k\nruntime=1500ms",
        "rw=randwrite\nend_fsync=1\nnumber_ios=500\nstartdelay=2500ms\ntime_based=0",
        "rw=randwrite\nruntime=7\nexitall",
        "rw=randrw\npercentile_list=99.9:5\nlat_percentiles=1\nunified_rw_reporting=both",
        "rw=trim\noffset=1m\nsize=2m\ntime_based=0\nio_size=8m",
        "rw=randread\nzonemode=strided\nzonesize=1m\nzonerange=256k\nzoneskip=64k",
        "thinktime=1s\nthinktime_spin=1ms\nthinktime_iotime=2\nrate=1m\nrate_ignore_thinktime=1",
        "thinktime=9\nthinktime_blocks=3\nthinktime_iotime=2\nthinktime_blocks_type=issue",
        "rw=rw\nrate_iops_min=10,20\nrate_cycle=300\nmax_latency=5s,1s,7ms",
        "latency_target=700\nlatency_window=9s\nlatency_percentile=99.9\nlatency_run=1",
        "flow=3\nflow_id=9\nflow_sleep=100\nrate_min=1k",
        "rw=write\nzonemode=strided\nzonesize=4k\nzonerange=16k",
        "rw=randread\nioengine=io_uring\nfilename=/dev/x\npre_read=1",
    ] {
        let stored = NULL.replace("ioengine=null", "filename=/dev/x");
        let global = if words.contains("verify") { &stored } else { NULL };
        let text = format!("{global}[a]\n{words}\n[b]\nstonewall\n{words}\n");
        let first = job(&text);
        let written = write(&first, &storage).unwrap_or_else(|why| panic!("{words}: {why}"));
        assert_eq!(job(&written), first, "{written}");
    }
    let text =
        format!("{NULL}[a]\ncpus_allowed=0,2\nruntime=2\n[b]\nstartdelay=1\n[c]\nwait_for=a\n");
    let first = job(&text);
    assert_eq!(job(&write(&first, &storage).unwrap()), first);
}

#[test]
fn volumes_behind_the_file_stand_for_its_own() {
    let volumes = ["ram:1g".to_owned(), "ram:2g".to_owned()];
    let text = "[global]\nruntime=1\ntime_based\n[a]\nfilename=/dev/a\n[b]\nfilename=/dev/b\n";
    let read_with = |volumes| {
        let (volume, capacity) = (&name, &|_: &str| None);
        let options = Options {
            volumes,
            volume,
            capacity,
            is_far: &|_| false,
            node: &|_| None,
            polls: &|_| true,
            is_fio: false,
            seconds: None,
        };
        read("x.fio", text, &Surroundings::none(), &options).unwrap()
    };
    let job = read_with(&volumes).job.unwrap();
    let [a, b] = &job.steps[0].groups[..] else { panic!("{job:?}") };
    assert_eq!((&a.volumes[0], &b.volumes[0]), (&volumes[0], &volumes[1]));
    let few = read_with(&volumes[..1]);
    assert!(few.job.is_none() && few.notes[0].why.contains("names 2 volumes"), "{few:?}");
}
