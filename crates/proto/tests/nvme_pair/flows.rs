//! Data of writes: R2Ts and data at the target, and H2CData of the initiator.

use proptest::prelude::*;
use proto::Endpoint;
use proto::nvme::pdu::{CommandBuilder, Data, Status, flag, io, kind};

use crate::raw::{Pdu, Raw};
use crate::server::Server;

/// An H2CData without digests.
pub fn host_data(command: u16, tag: u16, offset: u32, data: &[u8], last: bool) -> Vec<u8> {
    let len = data.len() as u32;
    let header = Data {
        kind: kind::H2C_DATA,
        flags: if last { flag::LAST } else { 0 },
        data_offset: 24,
        pdu_len: 24 + len,
        command,
        transfer_tag: tag,
        offset,
        len,
    };
    [&header.build()[..], data].concat()
}

/// Returns a write whose data needs R2Ts.
pub fn write(id: u16, start: u64, blocks: u32, len: u32) -> CommandBuilder {
    CommandBuilder::new(io::WRITE, id, 1).range(start, blocks).transport(len)
}

/// The only PDU that came, an R2T: tag, offset, length.
pub fn ready(raw: &mut Raw) -> (u16, u32, u32) {
    let pdus = raw.pdus();
    let [pdu] = &pdus[..] else { panic!("{pdus:?}") };
    assert_eq!(pdu.kind(), kind::R2T);
    (pdu.u16(10), pdu.u32(12), pdu.u32(16))
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| ((i * 7) >> 3) as u8).collect()
}

#[test]
fn a_write_is_asked_for_part_by_part() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let data = content(600 << 10);
    raw.command(write(5, 16, 1200, 600 << 10), &[]);
    let mut tags = Vec::new();
    for expect in [(0, 256 << 10), (256 << 10, 256 << 10), (512 << 10, 88 << 10)] {
        let (tag, offset, len) = ready(&mut raw);
        assert_eq!((offset, len), expect);
        tags.push(tag);
        let part = &data[offset as usize..(offset + len) as usize];
        for (at, piece) in (offset..).step_by(100_000).zip(part.chunks(100_000)) {
            let last = at as usize + piece.len() == (offset + len) as usize;
            raw.send(&host_data(5, tag, at, piece, last));
        }
    }
    let pdus = raw.pdus();
    assert_eq!((pdus.len(), pdus[0].status()), (1, Status::SUCCESS));
    assert!(raw.server.stores[0].bytes(16 * 512, data.len()) == data);
    assert_eq!(raw.server.pool.lent(), [0, 0]);
}

#[test]
fn the_next_part_is_asked_for_while_the_last_is_written() {
    let (mut raw, _admin) = Raw::io(Server::apart());
    let data = content(1 << 20);
    let peer = &mut raw.peer;
    let bytes = crate::raw::capsule(write(5, 0, 2048, 1 << 20), &[], [false; 2]);
    peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
    for part in 0..4_usize {
        let (tag, offset, len) = ready(&mut raw);
        let range = offset as usize..(offset + len) as usize;
        assert_eq!(range.start, part << 18);
        let bytes = host_data(5, tag, offset, &data[range], true);
        let peer = &mut raw.peer;
        peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
        // The volume holds all of its I/Os.
        raw.server.hold(peer);
    }
    assert!(raw.pdus().is_empty());
    raw.server.release(&mut raw.peer);
    assert_eq!(raw.pdus()[0].status(), Status::SUCCESS);
    assert!(raw.server.stores[0].bytes(0, data.len()) == data);
}

#[test]
fn a_write_that_fails_takes_its_data_first() {
    for in_capsule in [true, false] {
        let (mut raw, _admin) = Raw::io(Server::apart());
        raw.server.stores[0].fault = Some(block::Fault::Medium);
        let data = content(8192);
        if in_capsule {
            raw.command(write(1, 0, 16, 8192), &data);
        } else {
            raw.command(write(1, 0, 16, 8192), &[]);
            let (tag, ..) = ready(&mut raw);
            raw.send(&host_data(1, tag, 0, &data, true));
        }
        assert_eq!(raw.pdus()[0].status(), Status::WRITE_FAULT);
        // A refusal at once must not take the data for the next PDU.
        raw.command(write(2, 1 << 40, 16, 8192), &data);
        assert_eq!(raw.pdus()[0].status(), Status::LBA_OUT_OF_RANGE);
        raw.server.stores[0].fault = None;
        raw.command(write(3, 0, 16, 8192), &data);
        assert_eq!(raw.pdus()[0].status(), Status::SUCCESS);
        assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
}

#[test]
fn lengths_that_do_not_fit_are_refused() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let mut status = |command: CommandBuilder, data: &[u8]| {
        raw.command(command, data);
        let pdus: Vec<Pdu> = raw.pdus();
        assert_eq!(pdus.len(), 1, "{pdus:?}");
        pdus[0].status()
    };
    let data = content(8192);
    assert_eq!(status(write(1, 0, 16, 4096), &[]), Status::SGL_LENGTH_INVALID);
    assert_eq!(status(write(1, 0, 16, 16384), &[]), Status::SGL_LENGTH_INVALID);
    assert_eq!(status(write(1, 0, 8, 0), &data), Status::SGL_LENGTH_INVALID);
    // A long write with all of its data declared as in-capsule data.
    let long = write(1, 0, 2048, 0).capsule(0, 72, 72 + 512);
    let mut bytes = [&long[..], &[1; 512]].concat();
    bytes[40..44].copy_from_slice(&(1_u32 << 20).to_le_bytes());
    bytes[47] = 1;
    raw.send(&bytes);
    assert_eq!(raw.pdus()[0].status(), Status::SGL_LENGTH_INVALID);
    let mut status = |command: CommandBuilder, data: &[u8]| {
        raw.command(command, data);
        raw.pdus()[0].status()
    };
    let offset = write(1, 0, 16, 0).field(24, 16_u64.to_le_bytes());
    assert_eq!(status(offset, &data), Status::SGL_OFFSET_INVALID);
    // In-capsule data is declared, but missing.
    assert_eq!(status(write(1, 0, 16, 8192).field(39, [1]), &[]), Status::SGL_LENGTH_INVALID);
    for kind in [0x00, 0x40, 0x5b, 0x0f, 0x30] {
        let command = write(1, 0, 16, 8192).field(39, [kind]);
        assert_eq!(status(command, &[]), Status::SGL_TYPE_INVALID, "{kind:#x}");
    }
    let read = CommandBuilder::new(io::READ, 1, 1).range(0, 16).transport(8192);
    assert_eq!(status(read.field(39, [1]), &[]), Status::SGL_TYPE_INVALID);
    assert_eq!(status(read.transport(512), &[]), Status::SGL_LENGTH_INVALID);
}

#[test]
fn transfer_tags_change_with_every_command() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let mut tags = Vec::new();
    for round in 0..4 {
        raw.command(write(round, 0, 1, 512), &[]);
        let (tag, ..) = ready(&mut raw);
        raw.send(&host_data(round, tag, 0, &[0; 512], true));
        assert_eq!(raw.pdus()[0].status(), Status::SUCCESS);
        assert!(!tags.contains(&tag));
        tags.push(tag);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Data of several writes may come in PDUs of any length, one command's between another's.
    #[test]
    fn writes_may_be_mixed(
        lens in prop::collection::vec(1_usize..700, 1..6),
        pieces in prop::collection::vec((0_usize..6, 1_usize..100_000), 1..60),
        chunk in 1_usize..5000,
    ) {
        let (mut raw, _admin) = Raw::io(Server::usual());
        let mut writes = Vec::new();
        for (id, blocks) in lens.iter().enumerate() {
            let command = write(id as u16, id as u64 * 1000, *blocks as u32, *blocks as u32 * 512);
            raw.command(command, &[]);
            writes.push((ready(&mut raw), 0_u32, content(blocks * 512 + id)));
        }
        let rest = (0..writes.len()).cycle().map(|which| (which, 256 << 10));
        for (which, len) in pieces.into_iter().chain(rest.take(writes.len() * 4)) {
            let id = which % writes.len();
            let ((tag, offset, asked), moved, data) = &mut writes[id];
            let end = *offset + *asked;
            let next = end.min(*moved + len as u32);
            if next == *moved {
                continue;
            }
            let range = *moved as usize..next as usize;
            let bytes = host_data(id as u16, *tag, *moved, &data[range], next == end);
            raw.peer.receive(&mut raw.server, &bytes, chunk);
            prop_assert_eq!(&raw.peer.ended, &None);
            *moved = next;
            for pdu in raw.pdus() {
                match pdu.kind() {
                    kind::R2T => {
                        let id = usize::from(pdu.u16(8));
                        writes[id].0 = (pdu.u16(10), pdu.u32(12), pdu.u32(16));
                    }
                    _ => prop_assert_eq!(pdu.status(), Status::SUCCESS),
                }
            }
        }
        for (id, blocks) in lens.iter().enumerate() {
            let stored = raw.server.stores[0].bytes(id as u64 * 1000 * 512, blocks * 512);
            prop_assert!(stored == writes[id].2[..blocks * 512]);
        }
        prop_assert_eq!(raw.server.pool.lent(), [0, 0]);
    }
}
