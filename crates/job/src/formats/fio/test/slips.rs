//! Typing mistakes that fio finds.

use super::{error, job, of, refused};
use crate::formats::note::Treatment::{Differs, Ignored};

#[test]
fn what_fio_refuses_is_refused_with_a_remedy() {
    for (line, remedy) in [
        ("direct", "a value is missing: write 1 or 0"),
        ("pre_read=", "a value is missing: write 1 or 0"),
        ("group_reporting=", "a value is missing: write 1 or 0"),
        ("unlink", "a value is missing: write 1 or 0"),
        ("fadvise_hint", "write 1, 0, random or sequential"),
        ("clocksource", "a value is missing"),
        ("verify_dump", "a value is missing"),
        ("filesize=0", "a size must not be 0"),
        ("blockalign=0", "a size must not be 0"),
        ("percentage_random=101", "101 is out of range: 0 to 100 percent"),
        ("percentage_random=0,101", "101 is out of range: 0 to 100 percent"),
        ("percentage_sequential=75", "percentage_random=25"),
        ("thinktime_spin=4294967296", "at most 71m"),
        ("thinktime=2h", "at most 71m"),
    ] {
        let said = error(&format!("[a]\nfilename=/dev/x\n{line}\n"));
        assert!(said.contains(&format!("x.fio:3: `{line}`: ")), "{line}: {said}");
        assert!(said.contains(remedy), "{line}: {said}");
    }
    let said = refused("[a]\nfilename=/dev/x\nverify=1\n");
    assert!(said.contains("another checksum"), "{said}");
}

#[test]
fn names_that_fio_takes_for_1_may_stand_alone() {
    let names = "bs_unaligned norandommap time_based exitall stonewall new_group thread \
                 group_reporting zero_buffers refill_buffers exitall_on_error fixedbufs \
                 registerfiles userspace_reap hipri sqthread_poll verify_only\nverify=md5";
    let text = format!("[a]\nfilename=/dev/x\nioengine=io_uring\nruntime=1\n{names}\n");
    assert!(of(&text.replace(' ', "\n")).job.is_some());
}

#[test]
fn nothing_is_compared_where_nothing_is_stored() {
    let text = "[a]\nioengine=null\nsize=1m\nverify=md5\n";
    for words in ["rw=write", "rw=randrw", "rw=read", "rw=write\nverify_only"] {
        let text = format!("{text}{words}\n");
        let workload = &job(&text).steps[0].groups[0].workload;
        assert_eq!(workload.verify, None, "{words}");
        assert_eq!(workload.access.writes(), words == "rw=write" || words == "rw=randrw");
        let reading = of(&text);
        let said = reading.notes_of(Differs).map(ToString::to_string).collect::<String>();
        assert!(said.contains("`verify=md5`: ioengine=null stores nothing"), "{said}");
        assert_eq!(reading.notes_of(Ignored).count(), 0);
    }
}

#[test]
fn pages_of_a_map_are_whole_where_fio_wants_them() {
    let map = "[a]\nfilename=/dev/x\nioengine=mmap\nsize=1m\n";
    for words in ["bs=512", "bs=512\nsync=1", "bs=6k\nrw=write\nend_fsync=1", "direct=1"] {
        assert!(of(&format!("{map}{words}\n")).job.is_some(), "{words}");
    }
    for words in ["bs=512\ndirect=1", "bs=2k\nrw=write\nfsync=1", "bs=6k\nfdatasync=9"] {
        let said = refused(&format!("{map}{words}\n"));
        assert!(
            said.contains("x.fio:5: `bs=") && said.contains("multiples of the page size, 4096"),
            "{said}"
        );
    }
    let split = refused(&format!("{map}bssplit=512/50:4k/50\nfsync=1\n"));
    assert!(split.contains("`bssplit=512/50:4k/50`: with ioengine=mmap"), "{split}");
}

#[test]
fn what_fio_takes_is_taken_as_it_takes_it() {
    let of = |line: &str| {
        let job =
            job(&format!("[a]\nioengine=io_uring\nfilename=/dev/x\nrw=rw\nsize=1m\n{line}\n"));
        job.steps[0].groups[0].workload.clone()
    };
    assert_eq!(of("iodepth=128*1").outstanding, 128);
    let lengths =
        |line| of(line).access.lines.iter().map(|line| line.size_bytes).collect::<Vec<_>>();
    assert_eq!(lengths("bs=4k-512k"), [4096, 512 << 10]);
    assert_eq!(of("size=100%%").limit_bytes, Some(1 << 30));
    assert_eq!(of("thread=32\ntime_based=30\nruntime=1").limit_bytes, None);
    assert_eq!(of("flow=-8").flow.unwrap().weight, 8);
    assert_eq!(of("loops=-1\nruntime=1").limit_bytes, Some(u64::from(u32::MAX) << 20));
    // Each is off separately.
    assert_eq!(of("fsync=4\nfdatasync=0").access.flush_every, 4);
    assert_eq!(of("fdatasync=4\nfdatasync=0").access.flush_every, 0);
    assert_eq!(of("rwmixwrite=12.5").access.read_percent(), 88.0);
    let files = super::job("[a]\nrw=write\nnrfiles=2\nfilesize=64k-128k\n");
    assert_eq!(files.steps[0].groups[0].workload.limit_bytes, Some(192 << 10));
    let said = super::of("[a]\nfilename=/dev/x\niodepth=128*1\nhipri\n").notes;
    assert!(said.iter().any(|note| note.why.contains("the value is 128: as in fio")), "{said:?}");
    let said = super::of("[a]\nfilename=/dev/x\niodepth=4.7\n").notes;
    assert!(said.iter().any(|note| note.why.contains("ends at the decimal point")), "{said:?}");
    let said = error("[a]\nfilename=/dev/x\nsize=1.5m\n");
    assert!(said.contains("'1.5m' is not a size"), "{said}");
}

#[test]
fn a_file_that_is_not_there_is_refused_where_none_is_made() {
    let job = "[a]\nallow_file_create=0\nioengine=psync\nsize=1m\n";
    let said = refused(job);
    assert!(said.contains("`allow_file_create=0`: ") && said.contains("does not exist"), "{said}");
    assert!(of(&format!("{job}filename=/dev/x\n")).job.is_some());
    assert!(of(&job.replace("create=0", "create=1")).job.is_some());
}

#[test]
fn devices_that_keep_nothing_are_volumes_without_storage() {
    let null = job("[a]\nrw=write\nfilename=/dev/null\nsize=1m\n");
    assert_eq!(null.steps[0].groups[0].volumes, ["null:1048576"]);
}
