use std::io;

use crate::formats::fio::{Options, read, write};
use crate::formats::note::Treatment;
use crate::formats::{Reading, Storage, Surroundings};
use crate::spec::{Group, Skip};

const ONE: &str = "fio version 3 iolog\n0 /x add\n9 /x write 0 4096\n1000009 /x read 4096 4096\n";
const TWO: &str = "fio version 2 iolog\n/x add\n/y:1 add\n/x read 0 4096\n/y:1 wait 20 0\n\
    /y:1 trim 512 100\n";

fn reading(text: &str) -> Reading {
    let open = |path: &std::path::Path| -> io::Result<Box<dyn io::Read>> {
        match path.to_str() {
            Some("one.log") => Ok(Box::new(ONE.as_bytes())),
            Some("c:two.log") => Ok(Box::new(TWO.as_bytes())),
            Some("none.log") => Ok(Box::new(&b"fio version 3 iolog\n0 /x read 0 512\n"[..])),
            _ => Err(io::ErrorKind::NotFound.into()),
        }
    };
    let around = Surroundings { open: Box::new(open), ..Surroundings::none() };
    let volume = |storage: &Storage| match storage {
        Storage::File { path, direct, size_bytes, block_bytes, .. } => {
            Ok(format!("{path} {direct} {} {}", size_bytes.unwrap_or(0), block_bytes.unwrap_or(0)))
        }
        Storage::Nothing { size_bytes, .. } => Ok(format!("null {size_bytes}")),
        Storage::Uri(uri) => Ok(uri.clone()),
        other => Ok(format!("{other:?}")),
    };
    // All volumes exist except `new`.
    let capacity = |uri: &str| (!uri.contains("new")).then_some(1 << 30);
    let (volume, capacity, node) = (&volume, &capacity, &|_| None);
    let options = Options {
        volumes: &[],
        volume,
        capacity,
        is_far: &|_| false,
        node,
        polls: &|_| true,
        is_fio: false,
        seconds: None,
    };
    read("x.fio", text, &around, &options).unwrap_or_else(|error| panic!("{error}"))
}

fn group(text: &str) -> Group {
    let reading = reading(text);
    let job = reading.job.unwrap_or_else(|| panic!("refused: {:?}", reading.notes));
    job.steps[0].groups[0].clone()
}

fn said(text: &str, treatment: Treatment) -> String {
    let reading = reading(text);
    assert_eq!(reading.job.is_none(), treatment == Treatment::Refused, "{:?}", reading.notes);
    reading.notes_of(treatment).map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_job_replays_its_trace_on_the_files_that_it_names() {
    let one = group("[a]\nread_iolog=one.log\niodepth=8\nioengine=libaio\ndirect=1\nnumjobs=3\n");
    assert_eq!((one.volumes, one.workers), (vec!["/x true 0 0".to_owned()], 3));
    let access = &one.workload.access;
    assert_eq!((one.workload.outstanding, access.read_percent()), (8, 50.0));
    assert!(one.workload.is_paced() && access.writes() && access.lines.is_empty());
    assert_eq!((access.size_bytes(), access.longest_bytes()), (Some(4096), 4096));
    // Two files are two volumes of one worker. Unaligned offsets use the page cache.
    let two = group("[a]\nread_iolog=c\\:two.log\nsize=1m\n");
    assert_eq!(two.volumes, ["/x false 0 1", "/y:1 false 0 1"]);
    let new = group("[a]\nread_iolog=one.log\nreplay_redirect=/new\nfilesize=1m\n");
    assert_eq!(new.volumes, ["/new false 1048576 0"]);
    assert!(two.joins() && two.is_one() && !two.workload.is_paced());
    let redirected = group("[a]\nread_iolog=c\\:two.log\nreplay_redirect=/dev/z:1\n");
    assert_eq!((redirected.joins(), &*redirected.volumes[0]), (false, "/dev/z:1 false 0 1"));
    let nothing = group("[a]\nread_iolog=c\\:two.log\nioengine=null\n");
    assert_eq!(nothing.volumes, ["null 4096"]);
}

#[test]
fn settings_of_the_replay_go_all_the_way() {
    let words = "[a]\nread_iolog=one.log\nreplay_redirect=/z\nreplay_time_scale=50\n\
        replay_scale=2\nreplay_align=4k\nreplay_skip=trim,sync\nend_fsync=1\n";
    let replay = group(words).workload.access.trace.unwrap();
    assert_eq!((replay.stalls, replay.speed_percent, replay.divide_by), (true, 50, 2));
    assert_eq!((replay.align_bytes, &replay.skip[..]), (4096, &[Skip::Trim, Skip::Sync][..]));
    assert!(group(words).workload.end_flush);
    let facts = replay.trace().unwrap().facts().clone();
    assert_eq!((facts.length.0, facts.end_bytes()), (2_000_000_000, 4096));
    let at_once = group(
        "[a]\nread_iolog=one.log\nreplay_no_stall=1\niodepth_low=1\niodepth=4\n\
        ioengine=io_uring\n",
    );
    assert!(!at_once.workload.is_paced() && at_once.workload.refill_at == Some(1));
}

#[test]
fn what_comes_out_otherwise_is_said() {
    let differs = said("[a]\nread_iolog=one.log\nreplay_skip=read\n", Treatment::Differs);
    assert!(differs.contains("x.fio:2") && differs.contains("planned for its time"), "{differs}");
    assert!(differs.contains("x.fio:3") && differs.contains("retain their times"), "{differs}");
    let waits = said("[a]\nread_iolog=c\\:two.log\n", Treatment::Differs);
    assert!(waits.contains("waits count from the start of the job"), "{waits}");
    let text = "[global]\nrw=randread\nbs=8k\n[a]\nread_iolog=one.log\nread_iolog_chunked=1\n\
        time_based\nruntime=5\nfilename=/q\nloops=3\n";
    let ignored = said(text, Treatment::Ignored);
    for line in [2, 3, 6, 7, 9, 10] {
        assert!(ignored.contains(&format!("x.fio:{line}:")), "{line}: {ignored}");
    }
    let refused =
        |words: &str| said(&format!("[a]\nread_iolog=one.log\n{words}\n"), Treatment::Refused);
    for (words, why) in [
        ("rate_iops=9", "x.fio:3: `rate_iops=9`: a trace has its own times"),
        ("thinktime=9", "its own pauses"),
        ("verify=md5", "cannot be verified"),
        ("sync=dsync", "its own flushes"),
        ("directory=/d", "the paths of its files"),
        ("iodepth_low=1\niodepth=4", "determines when I/Os start"),
        ("merge_blktrace_file=x", "blktrace"),
        ("read_iolog=a:b", "name one file"),
        ("read_iolog=-", "stdin is not supported"),
        (
            "replay_redirect=/new",
            "/new does not exist or cannot be opened: create the file, or \
                                  set filesize",
        ),
        ("read_iolog=gone.log", "cannot read the trace gone.log"),
        ("read_iolog=none.log", "none.log:2: `0 /x read 0 512`: the file has no earlier add"),
    ] {
        let said = refused(words);
        assert!(said.contains(why), "{words}: {said}");
    }
    for words in ["replay_align=3", "replay_time_scale=0", "replay_skip=flush", "replay_scale=x"] {
        let around = Surroundings::none();
        let (capacity, node) = (&|_: &str| None, &|_| None);
        let volume = &|_: &Storage| Err(String::new());
        let options = Options {
            volumes: &[],
            volume,
            capacity,
            is_far: &|_| false,
            node,
            polls: &|_| true,
            is_fio: false,
            seconds: None,
        };
        let error = read("x.fio", &format!("[a]\n{words}\n"), &around, &options).unwrap_err();
        assert_eq!(error.at.line, 2, "{error}");
    }
    // No trace at all.
    assert_eq!(group("[a]\nread_iolog=0\nfilename=/z\nsize=1m\n").workload.access.trace, None);
}

#[test]
fn what_is_written_is_the_same_job() {
    for words in [
        "read_iolog=one.log\nreplay_skip=read\nreplay_time_scale=300\nnumjobs=2",
        "read_iolog=c\\:two.log\nruntime=9\nreplay_no_stall=1\nreplay_scale=3",
        "read_iolog=c\\:two.log\nreplay_redirect=/p:q\nreplay_align=512\ndirect=1",
    ] {
        let text = format!("[a]\nioengine=io_uring\n{words}\n");
        let storage = |uri: &str| {
            let words: Vec<&str> = uri.split(' ').collect();
            let [path, direct, size, block] = words[..] else { return None };
            Some(Storage::File {
                path: path.to_owned(),
                direct: direct.parse().ok()?,
                size_bytes: size.parse().ok().filter(|size| *size > 0),
                block_bytes: block.parse().ok().filter(|block| *block > 0),
                iopoll: false,
                sqpoll: false,
            })
        };
        let job = |text: &str| reading(text).job.unwrap().without_options();
        let first = job(&text);
        let written = write(&first, &storage).unwrap();
        assert_eq!(job(&written), first, "{written}");
    }
}
