//! Written data, their I/O sizes, and their verification.

use super::*;

#[test]
fn what_is_compared_is_written_before_read_later_or_both() {
    let of = |words: &str| {
        let reading = of(&format!("[a]\nsize=1m\nfilename=/dev/x\n{words}\n"));
        let notes = reading.notes_of(Treatment::Differs).count();
        let job = reading.job.unwrap_or_else(|| panic!("{words}: {:?}", reading.notes));
        let workload = job.steps[0].groups[0].workload.clone();
        let verify = workload.verify.map(|v| (v.fill, v.sample_percent, v.earlier));
        let pattern = workload.content.pattern.map(|pattern| pattern.to_string());
        (verify, workload.access.read_percent(), pattern.unwrap_or_default(), notes)
    };
    let none = String::new;
    assert_eq!(of("rw=write\nverify=md5"), (Some((false, 100.0, false)), 0.0, none(), 1));
    let unread = Some((false, 0.0, false));
    assert_eq!(of("rw=write\nverify=md5\ndo_verify=0"), (unread, 0.0, none(), 1));
    assert_eq!(of("rw=rw\nverify=md5\ndo_verify=0"), (unread, 50.0, none(), 1));
    assert_eq!(of("rw=rw\nverify=md5"), (Some((true, 100.0, false)), 50.0, none(), 1));
    // Data that are only read are verified in any case, as in fio.
    let earlier = Some((false, 100.0, true));
    assert_eq!(of("rw=read\nverify=md5\ndo_verify=0"), (earlier, 100.0, none(), 1));
    let only = "verify=md5\nverify_only\nfsync=3\nend_fsync=1\nrate_iops=9";
    assert_eq!(of(&format!("rw=randwrite\n{only}")), (earlier, 100.0, none(), 1));
    let by = |words: &str| of(&format!("rw=read\n{words}"));
    let pattern = "verify_pattern=0xAb\"c\"";
    let text = || "0xab63".to_owned();
    assert_eq!(by(&format!("verify=pattern\n{pattern}")), (earlier, 100.0, text(), 0));
    assert_eq!(by(pattern), (earlier, 100.0, text(), 1));
    assert_eq!(by(&format!("verify=md5\n{pattern}")), (earlier, 100.0, none(), 2));
    assert_eq!(by(&format!("verify=null\n{pattern}")), (None, 100.0, none(), 0));
    let buffers = "buffer_pattern=0xab63\nzero_buffers";
    assert_eq!(of(&format!("rw=rw\n{buffers}")), (None, 50.0, text(), 0));
    assert_eq!(by(&format!("verify=md5\n{buffers}")), (earlier, 100.0, none(), 1));
    let stamps = of("rw=write\nverify=md5\nbuffer_compress_percentage=30");
    assert_eq!(stamps, (Some((false, 100.0, false)), 0.0, none(), 2));
}

#[test]
fn what_was_written_is_read_again_when_fio_does() {
    let of = |words: &str| {
        let job = job(&format!("[a]\nsize=1m\nfilename=/dev/x\nverify=md5\n{words}\n"));
        job.steps[0].groups[0].workload.verify.map_or(0, |verify| verify.read_back_bytes)
    };
    assert_eq!(of("rw=write"), 1 << 20);
    assert_eq!(of("rw=randwrite\nloops=3"), 1 << 20);
    assert_eq!(of("rw=randrw\nbs=64k"), 1 << 20);
    assert_eq!(of("rw=randwrite\nbssplit=4k/50:16k/50\nruntime=9\ntime_based"), 1 << 20);
    assert_eq!(of("rw=randwrite\nruntime=9\ntime_based\nverify_backlog=10"), 40960);
    // Sequential jobs that end by time, open loops, offsets that repeat, and data without
    // verification.
    assert_eq!(of("rw=write\nruntime=9\ntime_based"), 0);
    assert_eq!(of("rw=write\nrate_iops=9"), 0);
    assert_eq!(of("rw=randwrite\nnorandommap"), 0);
    assert_eq!(of("rw=write\ndo_verify=0"), 0);
    assert_eq!(of("rw=read"), 0);
}

#[test]
fn duplicates_and_chunks_are_those_of_the_file() {
    let of = |words: &str| {
        let job = job(&format!("[a]\nsize=80m\nioengine=null\nrw=write\n{words}\n"));
        let content = job.steps[0].groups[0].workload.content.clone();
        (content.compress_percent, content.chunk_bytes, content.dedupe_blocks)
    };
    let compress = "buffer_compress_percentage=40";
    assert_eq!(of(compress), (40.0, Some(512), None));
    assert_eq!(of(&format!("{compress}\nbuffer_compress_chunk=4k")), (40.0, None, None));
    assert_eq!(of(&format!("{compress}\nzero_buffers")), (40.0, Some(512), None));
    assert_eq!(of("zero_buffers\nbuffer_compress_chunk=1k"), (100.0, None, None));
    assert_eq!(of("dedupe_percentage=30\ndedupe_mode=repeat"), (0.0, None, None));
    let set = "dedupe_percentage=30\ndedupe_mode=working_set";
    assert_eq!(of(set), (0.0, None, Some(1024)));
    let set = format!("{set}\ndedupe_working_set_percentage=50\ndedupe_global=1");
    assert_eq!(of(&set), (0.0, None, Some(10240)));
}

#[test]
fn lengths_go_by_the_order_of_places_or_are_any() {
    let reading = |words: &str| of(&format!("[a]\nsize=8m\nioengine=psync\n{words}\n"));
    let lines = |words: &str| {
        let job = reading(words).job.unwrap_or_else(|| panic!("{words}"));
        let lines = job.steps[0].groups[0].workload.access.lines.clone();
        let of = |l: crate::spec::Line| {
            (l.size_bytes, l.align(), l.share_percent, l.random_percent, l.read_percent)
        };
        lines.into_iter().map(of).collect::<Vec<_>>()
    };
    let by_order = "bs=4k,16k\nbs_is_seq_rand=1";
    assert_eq!(lines(&format!("rw=write\n{by_order}")), [(4096, 4096, 100.0, 0.0, 0.0)]);
    // Random writes are aligned to their own size.
    let random = lines(&format!("rw=randread\n{by_order}"));
    assert_eq!(random, [(16384, 4096, 100.0, 100.0, 100.0)]);
    let both = lines(&format!("rw=randwrite\npercentage_random=75\n{by_order}"));
    let expected = [(4096, 4096, 25.0, 0.0, 0.0), (16384, 16384, 75.0, 100.0, 0.0)];
    assert_eq!(both, expected);
    let any = lines("rw=write\nbsrange=500-1500\nbs_unaligned");
    assert_eq!((any.len(), any[0].0, any[1].0, any[1000].0), (1001, 500, 501, 1500));
    assert!((any[0].2 - 100.0 / 1500.0).abs() < 1e-9 && any[0].1 == 1, "{:?}", any[0]);
    assert!((any.iter().map(|line| line.2).sum::<f64>() - 100.0).abs() < 1e-6);
    let many = reading("rw=randread\nbsrange=512-64k\nbs_unaligned");
    let spread = many.notes_of(Treatment::Differs).any(|note| note.why.contains("evenly"));
    assert!(spread && many.job.is_some());
    for (words, part) in [
        ("bsrange=512-4k\nbs_unaligned\ndirect=1", "page cache: set direct=0"),
        ("bsrange=512-4k\nbs_unaligned\nverify=md5", "multiples of 512"),
        ("bsrange=1-64k", "has 65536 sizes"),
        ("rw=randread:2\nbs_is_seq_rand=1", "per random offset"),
    ] {
        let said = refused(&format!("[a]\nsize=8m\nioengine=psync\n{words}\n"));
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn clones_that_write_are_compared() {
    let clones = |words: &str| {
        let reading = of(&format!(
            "[a]\nfilename=/dev/x\nnumjobs=3\nsize=1m\nrw=randwrite\nverify=meta\n{words}\n"
        ));
        let mut notes = reading.notes_of(Treatment::Differs);
        let all = notes.any(|note| note.why.contains("the last write of any clone"));
        let job = reading.job.as_ref().unwrap_or_else(|| panic!("{words}: {:?}", reading.notes));
        let groups = job.steps[0].groups.iter();
        let each = groups.map(|group| (group.workers, group.workload.verify.is_some()));
        (each.collect::<Vec<_>>(), all)
    };
    assert_eq!(clones(""), (vec![(3, true)], true));
    // Each clone has its own part, as in fio.
    assert_eq!(clones("offset_increment=1m"), (vec![(1, true); 3], false));
}
