//! The ledger on volumes that retain, lose, tear and erase data.

use super::*;
use block::Rng;
use job::spec::{Access, Line};

fn ledger() -> Ledger {
    let workload = Workload::new(Access::new(4096, 50.0, 100.0), 1);
    Ledger::new(&[&workload], Geometry::new(64 << 10, 512), 3, None).unwrap()
}

fn write(ledger: &Ledger, offset: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    assert!(ledger.claim(Op::Write, offset, len as u32));
    ledger.stamp(&mut data, offset);
    ledger.release(offset, len as u32, true);
    data
}

fn at_rest(ledger: &Ledger, data: &[u8], offset: u64) -> Option<FindingKind> {
    ledger.check_at_rest(data, offset).map(|finding| finding.kind)
}

#[test]
fn tells_lost_stale_torn_and_foreign_apart() {
    let ledger = ledger();
    let [first, second, elsewhere] =
        [(8192, 4096), (8192, 4096), (0, 4096)].map(|(at, len)| write(&ledger, at, len));
    let judge = |data: &[u8]| at_rest(&ledger, data, 8192);
    assert_eq!(judge(&second), None);
    assert_eq!(judge(&first), Some(FindingKind::Stale { found: 1, acknowledged: 2 }));
    assert_eq!(judge(&[0; 4096]), Some(FindingKind::Lost { acknowledged: 2 }));
    assert_eq!(judge(&elsewhere), Some(FindingKind::Foreign));
    assert_eq!(judge(&[7; 4096]), Some(FindingKind::Foreign));
    for cut in [512, 700, 2048, 3584] {
        let torn = [&second[..cut], &first[cut..]].concat();
        assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
        let torn = [&first[..cut], &second[cut..]].concat();
        assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
        let torn = [&second[..cut], &[0; 4096][cut..]].concat();
        assert_eq!(judge(&torn), Some(FindingKind::Torn), "cut at {cut}");
    }
    // Never written: anything may be there.
    assert_eq!(at_rest(&ledger, &[7; 4096], 16384), None);
    assert_eq!(at_rest(&ledger, &second, 16384), None);
}

/// A device that stores nothing must not pass because of the last run's data with the same seed.
#[test]
fn what_an_earlier_run_wrote_does_not_pass_for_this_ones() {
    let [before, now] = [ledger(), ledger()];
    let left = write(&before, 8192, 4096);
    let lost = write(&now, 8192, 4096);
    assert_eq!(at_rest(&before, &left, 8192), None);
    assert_eq!(at_rest(&now, &lost, 8192), None);
    assert_eq!(at_rest(&now, &left, 8192), Some(FindingKind::Foreign));
}

/// Memory is copied byte by byte: a read during a write may see both within a sector, and nothing
/// else.
#[test]
fn a_read_beside_a_write_may_see_parts_of_both() {
    let ledger = ledger();
    let zeroth = write(&ledger, 0, 4096);
    let first = write(&ledger, 0, 4096);
    let mut notes = Vec::with_capacity(1);
    ledger.note(0, 4096, &mut notes);
    let mut second = vec![0; 4096];
    assert!(ledger.claim(Op::Write, 0, 4096));
    ledger.stamp(&mut second, 0);
    let kind = |data: &[u8], notes: &[u32]| ledger.check(data, 0, notes).map(|found| found.kind);
    for cut in [1, 17, 20, 23, 511, 700, 4095] {
        assert_eq!(kind(&[&second[..cut], &first[cut..]].concat(), &notes), None, "{cut}");
        assert_eq!(kind(&[&first[..cut], &second[cut..]].concat(), &notes), None, "{cut}");
        // Data overwritten before the read began is wrong, and so is data never written.
        let old = [&second[..cut], &zeroth[cut..]].concat();
        // A single byte may be equal by chance.
        let told = [&first, &second].iter().all(|it| it[cut..] != zeroth[cut..]);
        assert!(kind(&old, &notes).is_some() || !told, "{cut}");
        let mut damaged = [&second[..cut], &first[cut..]].concat();
        damaged[2049] ^= 1;
        assert!(kind(&damaged, &notes).is_some(), "{cut}");
    }
    // The write has ended: a later read sees it whole.
    ledger.release(0, 4096, true);
    let torn = [&second[..700], &first[700..]].concat();
    assert_eq!(kind(&torn, &notes), None);
    ledger.note(0, 4096, &mut notes);
    assert_eq!(kind(&torn, &notes), Some(FindingKind::Torn));
}

#[test]
fn a_write_that_was_cut_off_may_be_there_or_not() {
    let ledger = ledger();
    let first = write(&ledger, 0, 4096);
    let mut second = vec![0; 4096];
    assert!(ledger.claim(Op::Write, 0, 4096));
    ledger.stamp(&mut second, 0);
    let halves = [&second[..2048], &first[2048..]].concat();
    for data in [&first, &second, &halves] {
        assert_eq!(at_rest(&ledger, data, 0), None);
    }
    assert_eq!(at_rest(&ledger, &[0; 4096], 0), Some(FindingKind::Lost { acknowledged: 1 }));
    // A failed write, too.
    ledger.release(0, 4096, false);
    assert_eq!(at_rest(&ledger, &first, 0), None);
    assert_eq!(at_rest(&ledger, &second, 0), None);
}

#[test]
fn writes_of_a_block_exclude_each_other() {
    let ledger = ledger();
    assert!(ledger.claim(Op::Write, 4096, 8192));
    assert!(!ledger.claim(Op::Write, 0, 8192) && !ledger.claim(Op::Write, 8192, 4096));
    assert!(ledger.claim(Op::Write, 0, 4096), "a claim that failed left something behind");
    ledger.release(4096, 8192, true);
    assert!(ledger.claim(Op::Write, 4096, 8192));
}

#[test]
fn a_read_may_find_what_was_written_while_it_was_in_flight() {
    let ledger = ledger();
    let mut notes = Vec::with_capacity(2);
    let old = write(&ledger, 0, 8192);
    ledger.note(0, 8192, &mut notes);
    let new = write(&ledger, 4096, 4096);
    let mixed = [&old[..4096], &new[..]].concat();
    assert_eq!(ledger.check(&old, 0, &notes), None);
    assert_eq!(ledger.check(&mixed, 0, &notes), None);
    // A read that begins now must find it.
    ledger.note(0, 8192, &mut notes);
    assert_eq!(ledger.check(&mixed, 0, &notes), None);
    let stale = FindingKind::Stale { found: 1, acknowledged: 2 };
    assert_eq!(ledger.check(&old, 0, &notes), Some(Finding { offset: 4096, kind: stale }));
}

/// A ledger of blocks that are erased, too.
fn erasing(trim_zeroes: bool) -> Ledger {
    let line = Line { trim_percent: 10.0, zero_percent: 10.0, ..Line::new(4096, 50.0, 100.0) };
    let workload = Workload::new(Access::of(vec![line]), 1);
    let geometry = Geometry { trim_zeroes, ..Geometry::new(64 << 10, 512) };
    Ledger::new(&[&workload], geometry, 3, None).unwrap()
}

fn erase(ledger: &Ledger, op: Op, offset: u64) {
    assert!(ledger.claim(op, offset, 4096));
    ledger.release(offset, 4096, true);
}

#[test]
fn what_was_erased_is_empty_or_what_the_volume_may_keep() {
    for (op, zeroes) in [(Op::Trim, true), (Op::Trim, false), (Op::WriteZeroes, false)] {
        let ledger = erasing(zeroes);
        let judge = |data: &[u8]| at_rest(&ledger, data, 8192);
        let first = write(&ledger, 8192, 4096);
        let second = write(&ledger, 8192, 4096);
        erase(&ledger, op, 8192);
        assert_eq!(judge(&[0; 4096]), None);
        let may_keep = op == Op::Trim && !zeroes;
        for (found, old) in [(1, &first), (2, &second)] {
            let kept = Some(FindingKind::Kept { found, erased: 3 });
            let half = [&old[..2048], &[0; 2048]].concat();
            assert_eq!(judge(old), kept.filter(|_| !may_keep), "{op:?} {zeroes}");
            assert_eq!(judge(&half), kept.filter(|_| !may_keep), "{op:?} {zeroes}");
        }
        assert_eq!(judge(&[0xff; 4096]).is_none(), may_keep);
        assert_eq!(judge(&[7; 4096]), Some(FindingKind::Foreign));
        // From the next write on everything is normal again.
        let third = write(&ledger, 8192, 4096);
        assert_eq!(judge(&third), None);
        assert_eq!(judge(&[0; 4096]), Some(FindingKind::Lost { acknowledged: 4 }));
        let stale = FindingKind::Stale { found: 2, acknowledged: 4 };
        assert_eq!(judge(&second), Some(stale), "{op:?} {zeroes}");
    }
}

#[test]
fn an_erasure_in_flight_may_be_there_or_not() {
    let ledger = erasing(true);
    let mut notes = Vec::new();
    let old = write(&ledger, 0, 4096);
    ledger.note(0, 4096, &mut notes);
    assert!(ledger.claim(Op::Trim, 0, 4096));
    assert_eq!(ledger.check(&old, 0, &notes), None);
    assert_eq!(ledger.check(&[0; 4096], 0, &notes), None);
    ledger.release(0, 4096, true);
    let new = write(&ledger, 0, 4096);
    // The read began before all that.
    let empty = vec![0; 4096];
    for data in [&old, &new, &empty] {
        assert_eq!(ledger.check(data, 0, &notes), None);
    }
    ledger.note(0, 4096, &mut notes);
    let lost = FindingKind::Lost { acknowledged: 3 };
    assert_eq!(ledger.check(&[0; 4096], 0, &notes), Some(Finding { offset: 0, kind: lost }));
}

#[test]
fn what_was_never_written_is_anything_until_it_must_be_zeroes() {
    for zeroes in [false, true] {
        let ledger = erasing(zeroes);
        erase(&ledger, Op::Trim, 0);
        let foreign = Some(FindingKind::Foreign).filter(|_| zeroes);
        assert_eq!(at_rest(&ledger, &[7; 4096], 0), foreign);
        assert_eq!(at_rest(&ledger, &[0; 4096], 0), None);
    }
}

/// Random changes of a volume that erases within the rules, and one planted violation.
#[test]
fn a_planted_mistake_is_found_and_nothing_else() {
    for seed in 0..40 {
        let zeroes = seed % 2 == 0;
        let (ledger, mut rng) = (erasing(zeroes), Rng::new(seed, 1));
        let mut volume = vec![0_u8; 64 << 10];
        for _ in 0..200 {
            let offset = rng.below(16) * 4096;
            let at = offset as usize..offset as usize + 4096;
            match rng.below(4) {
                0 | 1 => volume[at.clone()].copy_from_slice(&write(&ledger, offset, 4096)),
                2 => {
                    erase(&ledger, Op::WriteZeroes, offset);
                    volume[at.clone()].fill(0);
                }
                _ => {
                    erase(&ledger, Op::Trim, offset);
                    let keeps = !zeroes && rng.below(2) == 0;
                    if !keeps {
                        volume[at.clone()].fill(0);
                    }
                }
            }
            assert_eq!(at_rest(&ledger, &volume[at], offset), None, "seed {seed}");
        }
        // A block that certainly holds a write, so that every mistake leaves a trace.
        let before = write(&ledger, 4096, 4096);
        let mistake = [Op::Write, Op::WriteZeroes, Op::Trim][rng.below(3) as usize];
        match mistake {
            Op::Write => drop(write(&ledger, 4096, 4096)),
            op => erase(&ledger, op, 4096),
        }
        let allowed = mistake == Op::Trim && !zeroes;
        let found = at_rest(&ledger, &before, 4096);
        assert_eq!(found.is_none(), allowed, "seed {seed}, {mistake:?}: {found:?}");
    }
}
