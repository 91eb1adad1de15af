//! EXTENDED COPY and what is said of it.

use block::{Fault, Op};
use proto::Target;
use proto::scsi::{Sense, cdb};

use crate::harness::{Setup, pattern};
use crate::raw::{End, Raw, Way};

/// NAA designator of the units.
fn naa(raw: &mut Raw) -> [u8; 8] {
    let tag = raw.command(1, cdb::inquiry(Some(0x83), 255), Way::Read, 255, &[]);
    let page = raw.end(tag).data;
    let at = page.windows(4).position(|head| *head == [1, 3, 0, 8]).unwrap() + 4;
    page[at..at + 8].try_into().unwrap()
}

/// A list that copies blocks within the unit: from, to, number.
fn list(raw: &mut Raw, id: u8, copies: &[(u64, u64, u16)]) -> Vec<u8> {
    let mut unit = [0; 32];
    (unit[0], unit[4], unit[5], unit[7]) = (0xe4, 1, 3, 8);
    unit[8..16].copy_from_slice(&naa(raw));
    let mut bytes = vec![id, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0, 28 * copies.len() as u8, 0, 0, 0, 0];
    bytes.extend(unit);
    for (from, to, blocks) in copies {
        bytes.extend([2, 0, 0, 24, 0, 0, 0, 0, 0, 0]);
        bytes.extend(blocks.to_be_bytes());
        bytes.extend(from.to_be_bytes());
        bytes.extend(to.to_be_bytes());
    }
    bytes
}

fn begin(raw: &mut Raw, list: &[u8]) -> u32 {
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, list.len() as u8);
    raw.command(1, cdb, Way::Write, list.len() as u32, list)
}

fn run(raw: &mut Raw, list: &[u8]) -> End {
    let tag = begin(raw, list);
    raw.end(tag)
}

fn status(raw: &mut Raw, id: u8) -> End {
    let mut cdb = [0; 16];
    (cdb[0], cdb[2], cdb[13]) = (0x84, id, 64);
    let tag = raw.command(1, cdb, Way::Read, 64, &[]);
    raw.end(tag)
}

#[test]
fn blocks_are_copied_in_order() {
    for in_place in [false, true] {
        let mut raw = Raw::ready(&Setup { in_place, ..Setup::default() }, &[]);
        let data = pattern(1, 1 << 20);
        raw.served.disk.write(0, &data);
        // Longer than a buffer; of a part of what was copied; of nothing.
        let list = list(&mut raw, 7, &[(0, 8000, 1500), (8001, 100, 2), (0, 0, 0)]);
        assert_eq!(run(&mut raw, &list).status, 0);
        let mut expect = data.clone();
        expect.copy_within(512..1536, 100 * 512);
        let mut there = vec![0; 1 << 20];
        raw.served.disk.read(0, &mut there);
        assert!(there == expect);
        there.truncate(1500 * 512);
        raw.served.disk.read(8000 * 512, &mut there);
        assert!(there == data[..1500 * 512]);
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
        // The result is told once: three segments of 751 KiB.
        let told = status(&mut raw, 7);
        assert_eq!(told.data, [0, 0, 0, 8, 1, 0, 3, 1, 0, 0, 2, 0xef]);
        assert_eq!(status(&mut raw, 7).sense, Some(Sense::cdb_field(2)));
    }
}

#[test]
fn a_copy_ends_with_its_first_failure() {
    for fails in [0, 1, 2] {
        let mut raw = Raw::ready(&Setup::default(), &[]);
        let list = list(&mut raw, 9, &[(0, 8000, 8), (8, 8008, 8)]);
        let tag = begin(&mut raw, &list);
        for _ in 0..fails {
            raw.served.take_requests();
            raw.served.complete(raw.now, 0);
        }
        raw.served.take_requests();
        raw.served.faults.push_back(Fault::Medium);
        let sense = raw.end(tag).sense.unwrap();
        assert_eq!((sense.key, sense.asc, sense.ascq), (proto::scsi::Key::CopyAborted, 0x0d, 1));
        assert_eq!(raw.served.seen.len(), fails + 1);
        let done = u8::from(fails == 2);
        assert_eq!(status(&mut raw, 9).data[4..7], [2, 0, done]);
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn a_copy_that_is_aborted_or_lost_gives_its_buffers_back() {
    for (step, lost) in [(0, false), (1, false), (0, true), (1, true)] {
        let mut raw = Raw::ready(&Setup::default(), &[]);
        let list = list(&mut raw, 9, &[(0, 8000, 8)]);
        begin(&mut raw, &list);
        for _ in 0..step {
            raw.served.take_requests();
            raw.served.complete(raw.now, 0);
        }
        raw.served.take_requests();
        if lost {
            let pool = raw.served.out.pool().clone();
            raw.served.end.abandon(&pool);
        } else {
            raw.notice(&proto::Notice::UnitReset(proto::UnitId(0)));
        }
        raw.served.complete_all(raw.now);
        assert_eq!(raw.served.seen.len(), step + 1, "nothing follows");
        assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    }
}

#[test]
fn a_reservation_keeps_copies_out() {
    let setup = Setup::default().together();
    let mut both = [1, 2].map(|number| Raw::one_of(&setup, number));
    for action in [0, 1] {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, 1, 24);
        let mut list = [0; 24];
        list[if action == 0 { 15 } else { 7 }] = 7;
        let tag = both[0].command(1, cdb, Way::Write, 24, &list);
        assert_eq!(both[0].end(tag).status, 0);
    }
    let copies = list(&mut both[1], 1, &[(0, 8, 1)]);
    assert_eq!(run(&mut both[1], &copies).status, 0x18, "the unit that is asked");
    // Through a unit that is free, to one that is not: both LUNs have one name here, and the first
    // is found.
    let mut cdb = [0; 16];
    (cdb[0], cdb[13]) = (0x83, copies.len() as u8);
    let tag = both[1].command(2, cdb, Way::Write, copies.len() as u32, &copies);
    let sense = both[1].end(tag).sense.unwrap();
    assert_eq!((sense.asc, sense.ascq), (0x0d, 1));
    assert!(both[1].served.seen.iter().all(|io| io.0 != Op::Write));
}
