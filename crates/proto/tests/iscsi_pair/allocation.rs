//! GET LBA STATUS: both ends joined, and the initiator against a scripted target.

use std::sync::Arc;

use block::{Allocation, Extent, Extents};
use proto::scsi::Sense;
use proto::{Ending, Initiator, Phase};

use crate::harness::{Pair, Rng, Setup, drain};
use crate::played::Played;

const MIB: u64 = 1 << 20;

/// Every second MiB is a hole.
#[derive(Debug)]
struct Striped;

impl Extents for Striped {
    fn at(&self, offset: u64, len: u64) -> Extent {
        let left = MIB - offset % MIB;
        Extent { bytes: left.min(len), is_hole: offset / MIB % 2 == 1 }
    }
}

#[test]
fn holes_are_reported_wherever_the_stream_is_cut() {
    for (block_bytes, chunk) in [(512, 1), (4096, 100), (512, usize::MAX)] {
        let bytes = 100 * MIB;
        let extents = Some(Arc::new(Striped) as Arc<dyn Extents>);
        let setup = Setup { bytes, block_bytes, extents, ..Setup::default() };
        let mut pair = Pair::new(&setup);
        (pair.chunk, pair.rng) = (chunk, (chunk == 100).then_some(Rng(7)));
        pair.open();
        let (mut at, mut sum, mut questions) = (0, Allocation::default(), 0);
        while at < bytes {
            assert!(pair.initiator.ask_allocation(at, bytes - at, &mut pair.out));
            assert!(!pair.initiator.ask_allocation(0, 512, &mut pair.out), "one at a time");
            pair.drive();
            let told = pair.initiator.take_allocation().unwrap().unwrap();
            assert_eq!(pair.initiator.take_allocation(), None, "once");
            at += told.bytes;
            sum.add(told);
            questions += 1;
        }
        assert_eq!(sum, Allocation { bytes, holes: bytes / 2, zeroes: 0 });
        assert_eq!(questions, 2, "64 extents in an answer");
        assert!(pair.write(0, &[7; 4096]).is_ok(), "the session goes on");
        pair.assert_idle();
    }
}

#[test]
fn a_unit_that_does_not_know_reports_no_hole() {
    let mut pair = Pair::ready(&Setup::default());
    assert!(pair.initiator.ask_allocation(MIB, 4 * MIB, &mut pair.out));
    pair.drive();
    let all = Allocation { bytes: 4 * MIB, holes: 0, zeroes: 0 };
    assert_eq!(pair.initiator.take_allocation(), Some(Some(all)));
}

/// The response to a question about the first 64 KiB.
fn asked(answer: impl FnOnce(&mut Played, u32) -> Result<(), Ending>) -> Played {
    let mut played = Played::ready(&[]);
    assert!(played.end.ask_allocation(0, 64 << 10, &mut played.out));
    let tag = played.command(|cdb| cdb[..2] == [0x9e, 0x12]).task_tag;
    answer(&mut played, tag).unwrap();
    played
}

#[test]
fn a_target_may_refuse_or_ask_to_wait() {
    let mut played = asked(|played, tag| played.check_condition(tag, Sense::INVALID_OPCODE));
    assert_eq!(played.end.take_allocation(), Some(None));
    assert!(matches!(played.end.phase(), Phase::Ready(_)));
    // An attention is met by asking again.
    let mut played = asked(|played, tag| played.check_condition(tag, Sense::LUN_RESET));
    assert_eq!(played.end.take_allocation(), None);
    assert!(!played.came.is_empty() || !drain(&mut played.out).is_empty(), "asked again");
}

#[test]
fn a_target_that_contradicts_itself_is_left() {
    let status = |list: &[(u64, u32, u8)]| {
        let mut bytes = vec![0; 8];
        bytes[..4].copy_from_slice(&(4 + 16 * list.len() as u32).to_be_bytes());
        for (lba, blocks, state) in list {
            bytes.extend(lba.to_be_bytes());
            bytes.extend(blocks.to_be_bytes());
            bytes.extend([*state, 0, 0, 0]);
        }
        bytes
    };
    let answered = |data: Vec<u8>| {
        let mut played = Played::ready(&[]);
        assert!(played.end.ask_allocation(0, 64 << 10, &mut played.out));
        let tag = played.command(|cdb| cdb[..2] == [0x9e, 0x12]).task_tag;
        played.data(tag, &data, true).map(|()| played.end.take_allocation())
    };
    let half = Allocation { bytes: 64 << 10, holes: 32 << 10, zeroes: 0 };
    assert_eq!(answered(status(&[(0, 64, 0), (64, 9999, 1)])), Ok(Some(Some(half))));
    for bad in [
        status(&[]),
        status(&[(0, 0, 1)]),
        status(&[(1, 10, 1)]),
        status(&[(0, 10, 1), (5, 20, 1)]),
        status(&[(0, 10, 1), (20, 5, 1)]),
        status(&[(0, 10, 1), (10, 0, 1)]),
        vec![0; 7],
        vec![0xff; 23],
    ] {
        let result = answered(bad.clone());
        assert!(matches!(result, Err(Ending::Violation(_))), "{bad:?}: {result:?}");
    }
}
