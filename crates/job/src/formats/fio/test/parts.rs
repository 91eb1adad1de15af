//! Used part of a file, and the amount of I/O in it, compared with fio 3.33.

use super::*;

/// Returns the size with which the file is created, and the amount of I/O in bytes and I/Os.
fn of_file(words: &str) -> (u64, Option<u64>, Option<u64>) {
    let job = job(&format!("[a]\nfilename=x\n{words}\n"));
    let group = &job.steps[0].groups[0];
    let size = group.volumes[0].split_once("?size=").unwrap().1;
    let size = size.split_once('&').unwrap().0.parse().unwrap();
    (size, group.workload.limit_bytes, group.workload.limit_ios)
}

#[test]
fn a_file_ends_where_filesize_says() {
    assert_eq!(of_file("filesize=1m\noffset=64k"), (1 << 20, Some(960 << 10), None));
    assert_eq!(of_file("filesize=1m\noffset=64k\nsize=256k"), (1 << 20, Some(256 << 10), None));
    assert_eq!(of_file("filesize=1m\noffset=64k\nio_size=50%"), (1 << 20, Some(480 << 10), None));
    assert_eq!(of_file("filesize=1m\nsize=100k\nio_size=50%"), (1 << 20, Some(100 << 10), None));
    assert_eq!(of_file("filesize=1m\nsize=50%"), (512 << 10, Some(512 << 10), None));
    let reading = of("[a]\nfilename=x\nfilesize=64k\noffset=65k\n");
    assert!(reading.job.is_none());
}

#[test]
fn a_share_of_what_is_not_there_is_nothing() {
    let reading = of("[a]\nsize=256k\noffset=25%\n");
    assert!(reading.notes[0].why.contains("is 0, as in fio"), "{:?}", reading.notes);
    let group = &reading.job.unwrap().steps[0].groups[0];
    assert_eq!(group.workload.range.start, Extent::Bytes(0));
    let there = job("[a]\nfilename=/dev/x\nsize=256k\noffset=25%\n");
    assert_eq!(there.steps[0].groups[0].workload.range.start, Extent::Bytes(1 << 28));
    // A previous job creates the file.
    let made = job("[a]\nrw=write\nfilename=x\nsize=1m\n[b]\nfilename=x\nsize=4k\noffset=50%\n");
    assert_eq!(made.steps[0].groups[1].workload.range.start, Extent::Bytes(1 << 19));
}

#[test]
fn the_last_one_fits_only_where_places_run_out() {
    let bytes = |words: &str| of_file(words).1;
    assert_eq!(bytes("size=10k"), Some(8192));
    assert_eq!(bytes("size=10k\nrw=randwrite"), Some(8192));
    // The limit is passed by the third I/O.
    assert_eq!(bytes("size=10k\nrw=randwrite\nnorandommap"), Some(10240));
    assert_eq!(bytes("size=10k\nfilesize=1m"), Some(10240));
    assert_eq!(bytes("size=10k\nrw=randread\nnorandommap\nloops=2"), Some(20480));
    assert_eq!(bytes("size=10k\nbsrange=4k-4k"), Some(8192));
    assert_eq!(bytes("size=66k\nrw=rw"), Some(66 << 10));
    assert_eq!(bytes("size=66k\nrw=randrw"), Some(64 << 10));
}

#[test]
fn a_file_of_several_jobs_is_as_long_as_the_longest_wants() {
    let job = job("[a]\nrw=write\nfilename=x\nsize=64k\n[b]\nfilename=x\nsize=1m\nstonewall\n");
    let groups: Vec<_> = job.steps.iter().flat_map(|step| &step.groups).collect();
    assert!(groups[0].volumes[0].contains("size=1048576"), "{:?}", groups[0].volumes);
    assert_eq!(groups[0].volumes, groups[1].volumes);
    assert_eq!(groups[0].workload.limit_bytes, Some(64 << 10));
}

#[test]
fn one_io_fits() {
    for words in ["size=132k\nbs=64k\nio_size=25%", "size=2k", "filesize=6k\noffset=4k"] {
        let reading = of(&format!("[a]\nfilename=x\n{words}\n"));
        let refused = reading.notes_of(Treatment::Refused).next().expect(words);
        assert!(refused.why.contains("smaller than one I/O"), "{words}: {refused:?}");
    }
    assert_eq!(of_file("size=132k\nbs=64k\nio_size=33k").1, Some(33 << 10));
}

#[test]
fn an_io_size_is_reached_after_all_loops() {
    let kib = |words: &str| of_file(&format!("size=64k\n{words}")).1.unwrap() >> 10;
    assert_eq!(kib("io_size=256k\nloops=2"), 256);
    assert_eq!(kib("io_size=256k\nloops=8"), 512);
    assert_eq!(kib("io_size=32k\nloops=3"), 96);
    assert_eq!(kib("io_size=100k\nloops=2\nrw=randread"), 128);
    assert_eq!(kib("io_size=256k\nloops=8\nrw=randread\nnorandommap"), 2048);
}

#[test]
fn a_number_of_ios_is_that_of_each_loop() {
    assert_eq!(of_file("size=1m\nnumber_ios=3\nloops=3").2, Some(9));
}

#[test]
fn files_are_called_by_their_section() {
    let job = job("[a]\nname=other\nsize=1m\n");
    let group = &job.steps[0].groups[0];
    assert_eq!(group.name, "other");
    assert!(group.volumes[0].starts_with("file:a.0.0?"), "{:?}", group.volumes);
}

#[test]
fn shares_come_before_ranges_before_a_length() {
    let sizes = |words: &str| {
        let job = job(&format!("[global]\n{words}\n[a]\nfilename=/dev/x\nbs=4k\n"));
        let lines = &job.steps[0].groups[0].workload.access.lines;
        lines.iter().map(|line| line.size_bytes).collect::<Vec<_>>()
    };
    assert_eq!(sizes("bs=8k"), [4096]);
    assert_eq!(sizes("bsrange=8k-16k"), [8192, 16384]);
    assert_eq!(sizes("bssplit=1k/50:2k/50"), [1024, 2048]);
    let reading = of("[global]\nbsrange=8k-16k\n[a]\nblocksize=4k\nfilename=/dev/x\n");
    let note = reading.notes_of(Treatment::Ignored).next().unwrap();
    assert!(note.text == "blocksize=4k" && note.why.contains("overrides bs"), "{note:?}");
    let both = of("[a]\nbsrange=8k-16k\nbssplit=4k/100\nfilename=/dev/x\n");
    // Only the shares count after a range, and before one that leaves them unchanged, as in fio.
    assert_eq!(both.job.unwrap().steps[0].groups[0].workload.access.lines[0].size_bytes, 4096);
    assert_eq!(sizes("bssplit=1k/50:2k/50\nbsrange=512-1m"), [1024, 2048]);
    let cut = of("[a]\nbssplit=4k/100\nbsrange=8k-16k\nfilename=/dev/x\n");
    assert!(cut.job.is_none() && cut.notes[0].why.contains("remove one"), "{:?}", cut.notes);
}

#[test]
fn a_new_group_is_kept_with_the_first_clone() {
    let text = "[global]\ngroup_reporting\nsize=1m\noffset_increment=1m\nnumjobs=2\n\
                [a]\n[b]\nnew_group\ndescription=two words\n";
    let job = job(text);
    let groups = &job.steps[0].groups;
    let begins: Vec<bool> = groups.iter().map(|group| group.figures.begins).collect();
    assert_eq!(begins, [false, false, true, false]);
    assert_eq!(groups[2].figures.description, "two words");
}
