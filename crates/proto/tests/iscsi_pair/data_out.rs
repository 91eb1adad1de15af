//! Data-Out: immediate, unsolicited, solicited; and all errors in it.

use block::Op;
use proto::iscsi::TargetConfig;
use proto::iscsi::pdu::{DataOut, ReadyToTransfer, Reject, opcode, opcode_of};
use proto::scsi::{Sense, cdb};

use crate::harness::{Setup, pattern};
use crate::raw::{Answer, End, NOTHING, Raw, Way, end_of};

/// Returns a target that requests bursts of 2 KiB after 1 KiB unsolicited.
fn raw(keys: &[(&str, &str)]) -> Raw {
    let target =
        TargetConfig { first_burst_bytes: 1024, max_burst_bytes: 2048, ..TargetConfig::default() };
    let mut all = vec![("FirstBurstLength", "1024"), ("MaxBurstLength", "2048")];
    all.extend(keys);
    Raw::ready(&Setup { target, ..Setup::default() }, &all)
}

const SOLICITED: [(&str, &str); 2] = [("InitialR2T", "Yes"), ("ImmediateData", "No")];
const UNSOLICITED: [(&str, &str); 2] = [("InitialR2T", "No"), ("ImmediateData", "Yes")];

/// The one R2T that came.
fn ready(raw: &mut Raw) -> ReadyToTransfer {
    let (header, _) = raw.one();
    assert_eq!(opcode_of(&header), opcode::READY_TO_TRANSFER);
    ReadyToTransfer::parse(&header)
}

/// Data for an R2T, all of it in one PDU.
fn answer(ready: &ReadyToTransfer) -> DataOut {
    DataOut {
        last: true,
        data_len: ready.len,
        lun: ready.lun,
        task_tag: ready.task_tag,
        transfer_tag: ready.transfer_tag,
        expected_status: 0,
        data_number: 0,
        offset: ready.offset,
    }
}

fn unsolicited(task_tag: u32, number: u32, offset: u32, len: u32, last: bool) -> DataOut {
    DataOut {
        last,
        data_len: len,
        task_tag,
        transfer_tag: NOTHING,
        data_number: number,
        offset,
        ..DataOut::default()
    }
}

/// A write of `len` bytes with immediate data, and whether more comes unsolicited.
fn write(raw: &mut Raw, len: u32, data: &[u8], last: bool) -> u32 {
    let cdb = cdb::write10(0, (len / 512) as u16, false);
    let mut command = raw.command_pdu(1, cdb, Way::Write, len, data);
    command.last = last;
    raw.send(&command, data).unwrap();
    command.task_tag
}

fn sense(raw: &mut Raw, tag: u32) -> Option<Sense> {
    let End { sense, .. } = raw.end(tag);
    sense
}

fn rejected(answers: &[Answer]) -> Vec<u8> {
    let rejects = answers.iter().filter(|answer| opcode_of(&answer.0) == opcode::REJECT);
    rejects.map(|answer| Reject::parse(&answer.0).reason).collect()
}

/// Checks that the session still works, and that the volume had exactly `writes` writes.
fn goes_on(raw: &mut Raw, writes: usize) {
    assert_eq!(raw.served.seen.iter().filter(|seen| seen.0 == Op::Write).count(), writes);
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
    let tag = write(raw, 512, &[], true);
    match ready_or_end(raw, tag) {
        Some(asked) => {
            raw.send(&answer(&asked), &[9; 512]).unwrap();
            assert_eq!(sense(raw, tag), None);
        }
        None => panic!("a write without data asks for it"),
    }
}

fn ready_or_end(raw: &mut Raw, _tag: u32) -> Option<ReadyToTransfer> {
    let answers = raw.answers();
    let ready = answers.iter().find(|answer| opcode_of(&answer.0) == opcode::READY_TO_TRANSFER);
    ready.map(|answer| ReadyToTransfer::parse(&answer.0))
}

#[test]
fn bursts_are_asked_for_in_order() {
    let mut raw = raw(&SOLICITED);
    let data = pattern(1, 5120);
    let tag = write(&mut raw, 5120, &[], true);
    for (number, (offset, len)) in [(0, 2048), (2048, 2048), (4096, 1024)].into_iter().enumerate() {
        let asked = ready(&mut raw);
        assert_eq!((asked.number, asked.offset, asked.len), (number as u32, offset, len));
        assert_eq!(asked.task_tag, tag);
        assert_ne!(asked.transfer_tag, NOTHING);
        // In three PDUs, the last one empty.
        let half = asked.len / 2;
        let from = offset as usize;
        let first = DataOut { last: false, data_len: half, ..answer(&asked) };
        raw.send(&first, &data[from..from + half as usize]).unwrap();
        let second = DataOut { data_number: 1, offset: offset + half, ..first };
        raw.send(&second, &data[from + half as usize..from + len as usize]).unwrap();
        let third =
            DataOut { last: true, data_number: 2, offset: offset + len, data_len: 0, ..first };
        raw.send(&third, &[]).unwrap();
    }
    assert_eq!(sense(&mut raw, tag), None);
    let mut there = vec![0; 5120];
    raw.served.disk.read(0, &mut there);
    assert!(there == data);
    goes_on(&mut raw, 1);
}

#[test]
fn immediate_then_unsolicited_then_solicited() {
    let mut raw = raw(&UNSOLICITED);
    let data = pattern(1, 4096);
    let tag = write(&mut raw, 4096, &data[..512], false);
    raw.send(&unsolicited(tag, 0, 512, 256, false), &data[512..768]).unwrap();
    assert!(raw.answers().is_empty());
    raw.send(&unsolicited(tag, 1, 768, 256, true), &data[768..1024]).unwrap();
    let asked = ready(&mut raw);
    assert_eq!((asked.offset, asked.len), (1024, 2048));
    raw.send(&answer(&asked), &data[1024..3072]).unwrap();
    let asked = ready(&mut raw);
    assert_eq!((asked.offset, asked.len), (3072, 1024));
    raw.send(&answer(&asked), &data[3072..]).unwrap();
    assert_eq!(sense(&mut raw, tag), None);
    let mut there = vec![0; 4096];
    raw.served.disk.read(0, &mut there);
    assert!(there == data);
    goes_on(&mut raw, 1);
}

#[test]
fn several_commands_send_unsolicited_data_in_turns() {
    let mut raw = raw(&UNSOLICITED);
    let tags: Vec<u32> = (0..3).map(|_| write(&mut raw, 1024, &[], false)).collect();
    for (number, offset, last) in [(0, 0, false), (1, 512, true)] {
        for tag in tags.iter().rev() {
            raw.send(&unsolicited(*tag, number, offset, 512, last), &[5; 512]).unwrap();
        }
    }
    raw.served.complete_all(raw.now);
    assert_eq!(raw.answers().len(), 3);
    goes_on(&mut raw, 3);
}

/// Regression class "unvalidated transfer tag / out-of-state data".
#[test]
fn unknown_transfer_tags_are_rejected() {
    let mut raw = raw(&SOLICITED);
    let tag = write(&mut raw, 512, &[], true);
    let asked = ready(&mut raw);
    for transfer_tag in [asked.transfer_tag ^ 0xffff, 0xffff, 0x0000_7fff, NOTHING] {
        let data = DataOut { transfer_tag, ..answer(&asked) };
        raw.send(&data, &[6; 512]).unwrap();
        let answers = raw.answers();
        assert_eq!(rejected(&answers), [0x09], "{transfer_tag:#x}");
        assert_eq!(answers[0].1.len(), 48);
    }
    // A tag of a former use of the slot is data that comes late.
    let data = DataOut { transfer_tag: asked.transfer_tag ^ 0x10000, ..answer(&asked) };
    raw.send(&data, &[6; 512]).unwrap();
    assert!(raw.answers().is_empty());
    // The right tag with another task's.
    let data = DataOut { task_tag: tag ^ 1, ..answer(&asked) };
    raw.send(&data, &[6; 512]).unwrap();
    assert_eq!(rejected(&raw.answers()), [0x09]);
    assert!(raw.served.seen.is_empty());
    raw.send(&answer(&asked), &[7; 512]).unwrap();
    assert_eq!(sense(&mut raw, tag), None);
    // The same tag again, after its burst has ended.
    raw.send(&answer(&asked), &[8; 512]).unwrap();
    assert!(raw.answers().is_empty());
    let mut there = [0; 512];
    raw.served.disk.read(0, &mut there);
    assert_eq!(there, [7; 512]);
    goes_on(&mut raw, 1);
}

#[test]
fn data_before_it_is_asked_for_and_after_all_came() {
    let mut raw = raw(&SOLICITED);
    // While the volume works, the slot expects no data.
    let tag = write(&mut raw, 512, &[], true);
    let asked = ready(&mut raw);
    raw.send(&answer(&asked), &[7; 512]).unwrap();
    raw.served.take_requests();
    raw.send(&answer(&asked), &[8; 512]).unwrap();
    assert_eq!(rejected(&raw.answers()), [0x09]);
    assert_eq!(sense(&mut raw, tag), None);
    // Nor does that of a read.
    let read = raw.command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    let data = DataOut { task_tag: read, transfer_tag: NOTHING, ..answer(&asked) };
    raw.send(&data, &[9; 512]).unwrap();
    assert_eq!(rejected(&raw.answers()), [0x09]);
    assert_eq!(raw.end(read).data, [7; 512]);
    goes_on(&mut raw, 1);
}

#[test]
fn offsets_that_overlap_leave_gaps_or_leave_the_burst() {
    for (offset, len) in
        [(512, 1024), (1, 2048), (0, 2049), (2048, 512), (u32::MAX, 1), (u32::MAX - 511, 512)]
    {
        let mut raw = raw(&SOLICITED);
        let tag = write(&mut raw, 4096, &[], true);
        let asked = ready(&mut raw);
        let data = DataOut { offset, data_len: len, ..answer(&asked) };
        raw.send(&data, &vec![7; len as usize]).unwrap();
        let expect = Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA);
        assert_eq!(sense(&mut raw, tag), expect, "{offset} {len}");
        goes_on(&mut raw, 0);
    }
}

#[test]
fn the_same_bytes_twice() {
    let mut raw = raw(&SOLICITED);
    let tag = write(&mut raw, 2048, &[], true);
    let asked = ready(&mut raw);
    let first = DataOut { last: false, data_len: 512, ..answer(&asked) };
    raw.send(&first, &[1; 512]).unwrap();
    raw.send(&DataOut { data_number: 1, ..first }, &[2; 512]).unwrap();
    // The task fails, but not before the burst has ended.
    raw.served.complete_all(raw.now);
    assert!(raw.answers().is_empty());
    let rest = DataOut { last: true, data_number: 2, offset: 512, data_len: 1536, ..first };
    raw.send(&rest, &[3; 1536]).unwrap();
    assert_eq!(sense(&mut raw, tag), Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA));
    goes_on(&mut raw, 0);
}

#[test]
fn bursts_that_are_too_short_or_too_long() {
    for len in [0, 1024, 2044, 2560] {
        let mut raw = raw(&SOLICITED);
        let tag = write(&mut raw, 4096, &[], true);
        let asked = ready(&mut raw);
        raw.send(&DataOut { data_len: len, ..answer(&asked) }, &vec![1; len as usize]).unwrap();
        assert_eq!(sense(&mut raw, tag), Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA), "{len}");
        goes_on(&mut raw, 0);
    }
}

#[test]
fn wrong_data_numbers_do_not_end_well() {
    for numbers in [[0, 0], [27, 28], [u32::MAX, 0], [1, 0]] {
        for keys in [SOLICITED, UNSOLICITED] {
            let mut raw = raw(&keys);
            let solicited = keys == SOLICITED;
            let tag = write(&mut raw, 1024, &[], solicited);
            let first = if solicited {
                DataOut { last: false, data_len: 512, ..answer(&ready(&mut raw)) }
            } else {
                unsolicited(tag, 0, 0, 512, false)
            };
            let pdu = DataOut { data_number: numbers[0], ..first };
            raw.send(&pdu, &[1; 512]).unwrap();
            let pdu = DataOut { data_number: numbers[1], offset: 512, last: true, ..first };
            raw.send(&pdu, &[1; 512]).unwrap();
            let end = sense(&mut raw, tag);
            assert!(end.is_some(), "{numbers:?}");
            assert_eq!(raw.served.seen, []);
        }
    }
}

#[test]
fn data_that_was_not_agreed_on() {
    // Immediate data in spite of ImmediateData=No.
    let mut no = raw(&SOLICITED);
    let tag = write(&mut no, 1024, &[1; 512], true);
    assert_eq!(sense(&mut no, tag), Some(Sense::UNEXPECTED_UNSOLICITED_DATA));
    goes_on(&mut no, 0);
    // Unsolicited data in spite of InitialR2T=Yes: it is awaited, then refused.
    let tag = write(&mut no, 1024, &[], false);
    no.served.complete_all(no.now);
    assert!(no.answers().is_empty());
    no.send(&unsolicited(tag, 0, 0, 512, true), &[1; 512]).unwrap();
    assert_eq!(sense(&mut no, tag), Some(Sense::UNEXPECTED_UNSOLICITED_DATA));
    goes_on(&mut no, 1);
    // More than FirstBurstLength.
    let mut yes = raw(&UNSOLICITED);
    let tag = write(&mut yes, 4096, &[1; 1536], true);
    assert_eq!(sense(&mut yes, tag), Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA));
    let tag = write(&mut yes, 4096, &[1; 512], false);
    yes.send(&unsolicited(tag, 0, 512, 1024, true), &[1; 1024]).unwrap();
    assert_eq!(sense(&mut yes, tag), Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA));
    // More than the command expects.
    let tag = write(&mut yes, 512, &[1; 1024], true);
    assert_eq!(sense(&mut yes, tag), Some(Sense::NOT_ENOUGH_UNSOLICITED_DATA));
    goes_on(&mut yes, 0);
}

#[test]
fn unsolicited_data_of_a_refused_command_is_awaited() {
    let mut raw = raw(&UNSOLICITED);
    let cdb = cdb::write16(1 << 40, 2, false);
    let mut command = raw.command_pdu(1, cdb, Way::Write, 1024, &[1; 512]);
    command.last = false;
    raw.send(&command, &[1; 512]).unwrap();
    raw.served.complete_all(raw.now);
    assert!(raw.answers().is_empty());
    raw.send(&unsolicited(command.task_tag, 0, 512, 512, true), &[1; 512]).unwrap();
    assert_eq!(sense(&mut raw, command.task_tag), Some(Sense::LBA_OUT_OF_RANGE));
    goes_on(&mut raw, 0);
}

#[test]
fn more_data_than_the_command_writes() {
    // Two blocks of data for a command of one: unsolicited data exceeds the buffer.
    let mut raw = raw(&UNSOLICITED);
    let data = pattern(3, 1024);
    let cdb = cdb::write10(0, 1, false);
    let mut command = raw.command_pdu(1, cdb, Way::Write, 1024, &data[..300]);
    command.last = false;
    raw.send(&command, &data[..300]).unwrap();
    raw.send(&unsolicited(command.task_tag, 0, 300, 400, false), &data[300..700]).unwrap();
    raw.send(&unsolicited(command.task_tag, 1, 700, 324, true), &data[700..]).unwrap();
    let end = raw.end(command.task_tag);
    assert_eq!((end.status, end.residual), (0, -512));
    let mut there = [0; 1024];
    raw.served.disk.read(0, &mut there);
    assert!(there[..512] == data[..512] && there[512..] == [0; 512]);
    // The same for collected data of a command.
    let list = cdb::unmap_list(&[(0, 1)]);
    let mut command = raw.command_pdu(1, cdb::unmap(24), Way::Write, 1024, &list);
    command.last = false;
    raw.send(&command, &list).unwrap();
    raw.send(&unsolicited(command.task_tag, 0, 24, 1000, true), &[1; 1000]).unwrap();
    let end = raw.end(command.task_tag);
    assert_eq!((end.status, end.residual), (0, 24 - 1024));
    goes_on(&mut raw, 1);
}

#[test]
fn a_collected_parameter_list_may_be_asked_for() {
    let mut raw = raw(&SOLICITED);
    raw.served.disk.write(0, &[7; 1024]);
    let tag = raw.command(1, cdb::unmap(24), Way::Write, 24, &[]);
    let asked = ready(&mut raw);
    assert_eq!((asked.offset, asked.len), (0, 24));
    raw.send(&answer(&asked), &cdb::unmap_list(&[(1, 1)])).unwrap();
    assert_eq!(sense(&mut raw, tag), None);
    let mut there = [0; 1024];
    raw.served.disk.read(0, &mut there);
    assert!(there[..512] == [7; 512] && there[512..] == [0; 512]);
}

#[test]
fn a_wrong_data_digest_is_rejected_and_fails_the_command() {
    let keys = [("DataDigest", "CRC32C"), ("InitialR2T", "No"), ("ImmediateData", "Yes")];
    let mut raw = Raw::logged_in(&Setup::default(), &keys);
    let mut tags = Vec::new();
    for good in [true, false] {
        for _ in 0..2 {
            let cdb = cdb::write10(0, 1, false);
            let command = raw.command_pdu(1, cdb, Way::Write, 512, &[3; 512]);
            let mut stream = crate::raw::bytes(&proto::iscsi::pdu::Pdu::build(&command), &[3; 512]);
            let digest = proto::crc32c::crc32c(&[3; 512]) ^ u32::from(!good);
            stream.extend(digest.to_le_bytes());
            // Once as a whole, once in parts.
            let chunk = if tags.len() % 2 == 0 { stream.len() } else { 100 };
            stream.chunks(chunk).for_each(|part| raw.send_bytes(part).unwrap());
            tags.push(command.task_tag);
        }
    }
    raw.served.complete_all(raw.now);
    let answers = answers_with_digest(&mut raw);
    assert_eq!(rejected(&answers), [0x02, 0x02]);
    let senses: Vec<_> =
        tags.iter().map(|tag| end_of(*tag, answers.clone()).0.unwrap().sense).collect();
    // The first reports the power-on, the second is good.
    let corrupt = Some(Sense::DATA_OUT_CRC_ERROR);
    assert_eq!(senses, [Some(Sense::POWER_ON_RESET), None, corrupt, corrupt]);
    assert_eq!(raw.served.seen.len(), 1);
    assert_eq!(raw.served.out.pool().lent(), [0, 0]);
}

/// Returns answers whose data is followed by a digest.
fn answers_with_digest(raw: &mut Raw) -> Vec<Answer> {
    let stream = crate::harness::drain(&mut raw.served.out);
    let (mut bytes, mut answers) = (&stream[..], Vec::new());
    while let Some((header, rest)) = bytes.split_first_chunk::<48>() {
        let len = proto::iscsi::pdu::data_len(header) as usize;
        let tail = if len == 0 { 0 } else { len.next_multiple_of(4) + 4 - len };
        answers.push((*header, rest[..len].to_vec()));
        bytes = &rest[len + tail..];
    }
    answers
}

#[test]
fn a_wrong_header_digest_ends_the_connection() {
    let mut raw = Raw::logged_in(&Setup::default(), &[("HeaderDigest", "CRC32C")]);
    let command = raw.command_pdu(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    let header = proto::iscsi::pdu::Pdu::build(&command);
    let mut stream = header.to_vec();
    stream.extend((proto::crc32c::crc32c(&header) ^ 1).to_le_bytes());
    assert!(raw.send_bytes(&stream).is_err());
}

#[test]
fn segments_beyond_what_was_declared_end_the_connection() {
    let target = TargetConfig { max_recv_data_segment_bytes: 4096, ..TargetConfig::default() };
    let mut raw = Raw::ready(&Setup { target, ..Setup::default() }, &UNSOLICITED);
    let cdb = cdb::write10(0, 9, false);
    let command = raw.command_pdu(1, cdb, Way::Write, 4608, &[0; 4608]);
    assert!(raw.send(&command, &[0; 4608]).is_err());
}

#[test]
fn immediate_data_land_in_memory_as_a_whole_or_not_at_all() {
    let data = pattern(3, 4096);
    let read = |raw: &Raw| {
        let mut there = vec![0; 4096];
        raw.served.disk.read(0, &mut there);
        there
    };
    for cut in [0, 47, 48, 49, 2000, 48 + 4095, 48 + 4096] {
        let mut raw = Raw::ready(&Setup { in_place: true, ..Setup::default() }, &[]);
        let cdb = cdb::write10(0, 8, false);
        let command = raw.command_pdu(1, cdb, Way::Write, 4096, &data);
        let bytes = crate::raw::bytes(&proto::iscsi::pdu::Pdu::build(&command), &data);
        raw.send_bytes(&bytes[..cut]).unwrap();
        let landed = read(&raw) == data;
        assert_eq!(landed, cut == bytes.len());
        assert!(landed || read(&raw) == [0; 4096], "cut at {cut}");
        raw.send_bytes(&bytes[cut..]).unwrap();
        raw.served.complete_all(raw.now);
        assert!(read(&raw) == data, "cut at {cut}");
        assert_eq!(raw.end(command.task_tag).status, 0);
        assert_eq!(raw.served.out.pool().lent(), [0, 0], "cut at {cut}");
    }
}
