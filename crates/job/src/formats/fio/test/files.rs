//! Features of existing job files: names of files, engines, rates of both directions.

use super::*;

fn volumes(words: &str) -> Vec<(Vec<String>, u32)> {
    let job = job(&format!("[a]\nrw=write\nsize=8m\nioengine=psync\n{words}\n"));
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    let path = |uri: &String| uri["file:".len()..uri.find('?').unwrap()].to_owned();
    groups.map(|group| (group.volumes.iter().map(path).collect(), group.workers)).collect()
}

#[test]
fn files_are_called_by_their_format() {
    let of = |words| volumes(words).into_iter().map(|(names, _)| names).collect::<Vec<_>>();
    assert_eq!(of("numjobs=2"), [["a.0.0", "a.1.0"]]);
    assert_eq!(
        of("filename_format=x-$JobNum.$clientuid.bin\nnumjobs=2"),
        [["x-0..bin", "x-1..bin"]]
    );
    let many = of("filename_format=$jobnum/$jobname.$filenum\nnrfiles=2\nnumjobs=2\ndirectory=d");
    assert_eq!(many, [["d/0/a.0", "d/0/a.1"], ["d/1/a.0", "d/1/a.1"]]);
    // Without `$jobnum` clones share a file, as with a named one.
    assert_eq!(volumes("filename_format=x.$filenum\nnumjobs=3"), [(vec!["x.0".to_owned()], 3)]);
    // A file left by an earlier run has a size.
    let left = "[a]\nioengine=psync\nrw=read\nfilename_format=x$jobnum\n";
    assert!(super::of(&format!("{left}directory=/dev/\n")).job.is_some());
    assert!(super::of(left).job.is_none());
    // A named file has its name.
    assert_eq!(of("filename=b\nfilename_format=c"), [["b"]]);
    assert!(super::of("[a]\nsize=1m\nfilename_format=x?$jobnum\n").job.is_none());
}

#[test]
fn engines_that_touch_pages_become_calls() {
    let of = |words: &str| super::of(&format!("[a]\nfilename=/dev/x\nsize=8m\n{words}\n"));
    let mapped = of("ioengine=mmap\ndirect=1\niodepth=8");
    let differs = mapped.notes_of(Treatment::Differs).map(|note| note.text.clone());
    assert_eq!(differs.collect::<Vec<_>>(), ["ioengine=mmap", "iodepth=8"]);
    let group = mapped.job.unwrap().steps[0].groups[0].clone();
    assert!(group.volumes[0].contains("direct=false"), "{:?}", group.volumes);
    assert_eq!(group.workload.outstanding, 1);
    let plain = of("ioengine=mmap\ndirect=1\nioengine=psync").job.unwrap();
    assert!(plain.steps[0].groups[0].volumes[0].contains("direct=true"));
    let spliced = of("ioengine=splice\ndirect=1");
    assert_eq!(spliced.notes_of(Treatment::Differs).count(), 1);
    assert!(spliced.job.unwrap().steps[0].groups[0].volumes[0].contains("direct=true"));
}

#[test]
fn rates_of_both_directions_make_the_mix() {
    let of = |words: &str| {
        let reading = super::of(&format!("[a]\nfilename=/dev/x\nsize=8m\nrw=randrw\n{words}\n"));
        let differs = reading.notes_of(Treatment::Differs).count();
        let workload = reading.job.as_ref()?.steps[0].groups[0].workload.clone();
        Some((workload.access.read_percent().round(), workload.pacing, differs))
    };
    let ios = |per_second| Pacing::Ios { per_second, arrivals: Default::default() };
    assert_eq!(of("rate_iops=400\nrwmixread=70"), Some((50.0, ios(800.0), 1)));
    assert_eq!(of("rate_iops=500,100"), Some((83.0, ios(600.0), 0)));
    assert_eq!(of("rate_iops=700,300\nrwmixread=70"), Some((70.0, ios(1000.0), 0)));
    // Bytes per second of 4k and 12k: three reads for each write.
    let (reads, pacing, _) = of("rate=12k,12k\nbs=4k,12k").unwrap();
    assert!(reads == 75.0 && matches!(pacing, Pacing::Bytes { .. }), "{reads} {pacing:?}");
    assert_eq!(of("rate=12k,"), None);
    assert_eq!(of("rate_iops=0,5"), None);
}

#[test]
fn trims_may_be_longer_than_a_buffer() {
    let job = |rw: &str| of(&format!("[a]\nfilename=/dev/x\nrw={rw}\nbs=512m\nsize=1g\n")).job;
    assert!(job("trim").is_some() && job("write").is_none());
}

/// The number of I/Os is that of fio 3.33, of 8 MiB in 4 KiB: fio starts again only when a hole
/// passes the end.
#[test]
fn holes_of_any_length_end_as_with_fio() {
    let of = |words: &str| {
        let file = if words.contains("/dev/x") { "" } else { "filename=x\n" };
        let job = job(&format!("[a]\n{file}size=8m\n{words}\n"));
        let workload = job.steps[0].groups[0].workload.clone();
        let line = &workload.access.lines[0];
        (workload.limit_bytes.unwrap() / u64::from(line.size_bytes), line.align())
    };
    assert_eq!(of("rw=read:4k"), (2048, 4096));
    assert_eq!(of("rw=read:2k"), (1365, 2048));
    assert_eq!(of("rw=write:512\nloops=2"), (2 * 1820, 512));
    assert_eq!(of("rw=read:20m"), (2048, 4096));
    assert_eq!(of("rw=read:-8k"), (2048, 4096));
    // The end of the file counts, not that of its part.
    assert_eq!(of("rw=read:4k\noffset=32k"), (1024, 4096));
    assert_eq!(of("rw=read:4k\nfilename=/dev/x"), (1024, 4096));
    assert_eq!(of("rw=read:20m\nfilename=/dev/x"), (1, 4096));
}
