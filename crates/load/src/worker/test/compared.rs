//! Data that workers compare: damage is found, and overlapping I/O is none.

use super::*;
use crate::content::data_pattern;
use crate::ledger::FindingKind;

fn verified() -> Workload {
    // Sizes that overlap, on a volume so small that they often do.
    let line = |size, share_percent| Line {
        share_percent,
        align_bytes: Some(4096),
        ..Line::new(size, 50.0, 90.0)
    };
    let access = Access::of(vec![line(4096, 60.0), line(16384, 30.0), line(65536, 10.0)]);
    Workload { verify: Some(Verify::default()), ..Workload::new(access, 32) }
}

#[test]
fn overlapping_io_is_no_mismatch() {
    let workload = verified();
    let mut worker = worker(Lane::new(50 * US, 400 * US), &workload);
    let done = run(&mut worker, Nanos(50 * MS));
    assert_eq!(worker.trouble, None);
    assert!(!worker.filling() && done.ios() > 5_000, "{}", done.ios());
}

/// A block still being written when its turn comes again is waited for: passes stay whole.
#[test]
fn each_place_is_written_once_a_pass_while_data_are_compared() {
    let access = Access { random: Places::Once, ..Access::new(64 << 10, 0.0, 100.0) };
    let workload = Workload {
        verify: Some(Verify::default()),
        limit_bytes: Some(40 * BYTES),
        ..Workload::new(access, 32)
    };
    let mut worker = worker(Lane::new(50 * US, 400 * US), &workload);
    let done = run(&mut worker, Nanos::from_secs(5));
    assert!(worker.is_finished());
    assert_eq!((done.write.bytes, done.displaced), (40 * BYTES, 0));
    let mut passes = Vec::new();
    worker.verify.as_ref().unwrap().ledger.note(0, BYTES as u32, &mut passes);
    assert!(passes.iter().all(|writes| *writes == 41), "{passes:?}");
}

/// A distribution that repeats an offset cannot do so during verification, which is counted.
#[test]
fn writes_that_go_elsewhere_are_counted() {
    let random = Places::Zipf { exponent: 2.0 };
    let access = Access { random, ..Access::new(4096, 0.0, 100.0) };
    let plain = Workload::new(access, 32);
    let verified = Workload { verify: Some(Verify::default()), ..plain.clone() };
    let displaced = |workload: &Workload| {
        let done = run(&mut worker(Lane::new(50 * US, 0), workload), Nanos(20 * MS));
        done.displaced as f64 / done.write.ios as f64
    };
    assert_eq!(displaced(&plain), 0.0);
    let share = displaced(&verified);
    assert!((0.3..1.0).contains(&share), "{share}");
}

/// The finding on a misbehaving lane.
fn found(lane: Lane, wrong: Wrong, workload: &Workload) -> Finding {
    lane.wrong.set(wrong);
    let mut worker = worker(lane, workload);
    run(&mut worker, Nanos(100 * MS));
    match worker.take_trouble() {
        Some(Trouble::Mismatch(finding)) => finding,
        other => panic!("{wrong:?} was not found: {other:?}"),
    }
}

#[test]
fn every_kind_of_damage_is_found() {
    for wrong in [Wrong::Loses, Wrong::Misplaces, Wrong::Tears] {
        let finding = found(Lane::new(50 * US, 400 * US), wrong, &verified());
        let fits = match finding.kind {
            FindingKind::Stale { .. } => true,
            FindingKind::Torn => wrong == Wrong::Tears,
            FindingKind::Foreign => wrong == Wrong::Misplaces,
            kind => panic!("{wrong:?} was taken for {kind:?}"),
        };
        assert!(fits, "{wrong:?} was taken for {finding}");
    }
}

/// Returns a verified workload with erasures among the writes.
fn erasing() -> Workload {
    let mut workload = verified();
    for line in &mut workload.access.lines {
        (line.trim_percent, line.zero_percent) = (10.0, 5.0);
    }
    workload
}

#[test]
fn trims_are_no_mismatch_whatever_the_volume_promises() {
    for trim_zeroes in [true, false] {
        let workload = erasing();
        let lane = Lane { trim_zeroes, ..Lane::new(50 * US, 400 * US) };
        let mut worker = worker(lane, &workload);
        let done = run(&mut worker, Nanos(60 * MS));
        assert_eq!(worker.trouble, None, "zeroes promised: {trim_zeroes}");
        assert!(!worker.filling() && done.ios() > 5_000, "{}", done.ios());
    }
}

#[test]
fn trims_that_are_not_done_or_go_too_far_are_found() {
    for (wrong, trim_zeroes) in
        [(Wrong::Keeps, true), (Wrong::TrimsMore, true), (Wrong::TrimsMore, false)]
    {
        let lane = Lane { trim_zeroes, ..Lane::new(50 * US, 400 * US) };
        let finding = found(lane, wrong, &erasing());
        let fits = match finding.kind {
            FindingKind::Kept { .. } => wrong == Wrong::Keeps,
            FindingKind::Lost { .. } | FindingKind::Torn => wrong == Wrong::TrimsMore,
            kind => panic!("{wrong:?} was taken for {kind:?}"),
        };
        assert!(fits, "{wrong:?} was taken for {finding}");
    }
}

/// A pattern instead of stamps.
fn patterned(text: &str) -> Workload {
    let access = Access::new(4096, 50.0, 100.0);
    let content = Content { pattern: Some(data_pattern(text)), ..Content::default() };
    Workload { verify: Some(Verify::default()), content, ..Workload::new(access, 32) }
}

#[test]
fn a_pattern_is_written_and_every_place_of_it_is_known() {
    for text in ["0xdeadbeef", "\"abc\"", "%o0xff"] {
        let workload = patterned(text);
        let mut worker = worker(Lane::new(50 * US, 400 * US), &workload);
        let done = run(&mut worker, Nanos(20 * MS));
        assert_eq!(worker.trouble, None, "{text}");
        assert!(!worker.filling() && done.ios() > 1_000, "{}", done.ios());
    }
    // A misplaced write is found by its offset alone.
    let finding = found(Lane::new(50 * US, 400 * US), Wrong::Misplaces, &patterned("%o"));
    assert!(matches!(finding.kind, FindingKind::Differs { .. }), "{finding}");
    let said = finding.to_string();
    assert!(said.contains(": differs, 0x") && said.contains("where the pattern has"), "{said}");
}

#[test]
fn what_an_earlier_run_left_is_read_and_compared() {
    let earlier = Verify { fill: false, earlier: true, ..Verify::default() };
    for text in [None, Some("%o")] {
        let wrote = Workload { access: Access::new(4096, 0.0, 0.0), ..verified() };
        let content = Content { pattern: text.map(data_pattern), ..Content::default() };
        let limit_bytes = Some(BYTES);
        let wrote = Workload { content, limit_bytes, ..wrote };
        let mut lane = Lane::new(50 * US, 0);
        let geometry = block::Lane::geometry(&lane);
        let ledger = Ledger::new(&[&wrote], geometry, 3, None).unwrap();
        for (place, block) in (0..).step_by(4096).zip(lane.memory.chunks_mut(4096)) {
            assert!(ledger.claim(Op::Write, place, 4096));
            ledger.stamp(block, place);
        }
        let mut reads = Workload { verify: Some(earlier), ..wrote };
        reads.access.lines[0].read_percent = 100.0;
        let damaged = [None, Some(77_777)];
        for at in damaged {
            if let Some(at) = at {
                lane.memory[at] ^= 1;
            }
            let memory = lane.memory.clone();
            let mut reader = worker(Lane { memory, ..Lane::new(50 * US, 0) }, &reads);
            run(&mut reader, Nanos::from_secs(1));
            match (at, reader.take_trouble()) {
                (None, None) => assert!(reader.is_finished()),
                (Some(at), Some(Trouble::Mismatch(finding))) => {
                    assert_eq!(finding.offset, at as u64 / 4096 * 4096, "{finding}");
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_sample_is_compared_too() {
    let verify = Verify { sample_percent: 5.0, ..Verify::default() };
    let workload = Workload { verify: Some(verify), ..verified() };
    found(Lane::new(50 * US, 400 * US), Wrong::Misplaces, &workload);
}
