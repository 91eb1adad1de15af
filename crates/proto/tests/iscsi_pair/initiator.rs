//! The initiator against a target that says what it is told to.

use std::collections::VecDeque;

use block::{Done, Fault, Geometry, Nanos, Op, Pool, Tag};
use proto::iscsi::pdu::{
    AsyncMessage, Command, DataIn, DataOut, Header, LoginRequest, LoginResponse, LogoutRequest,
    LogoutResponse, NopIn, NopOut, Numbers, Pdu, ReadyToTransfer, Reject, Response, TextResponse,
    command_number, opcode, opcode_of, task_tag,
};
use proto::iscsi::{Discovery, InitiatorConfig, IscsiInitiator};
use proto::scsi::{Key, Sense, encode_lun};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase};

use crate::harness::{INITIATOR, PORTAL, TARGET, drain, io};
use crate::raw::{Answer, NOTHING, bytes, split, text, value};

/// The initiator, and a target that is played by the test.
struct Played {
    end: IscsiInitiator,
    out: Outbox,
    now: Nanos,
    /// StatSN of the next status, and the window.
    status: u32,
    window: u32,
    came: VecDeque<Answer>,
}

impl Played {
    fn new() -> Played {
        let config =
            InitiatorConfig { max_outstanding: 16, ..InitiatorConfig::new(INITIATOR, TARGET, 1) };
        let mut end = IscsiInitiator::new(config, Nanos(5));
        let mut out = Outbox::new(Pool::new(64, 16));
        assert_eq!((end.deadline(), end.phase()), (Some(Nanos(5)), Phase::Opening));
        end.tick(Nanos(5), &mut out).unwrap();
        let came = VecDeque::new();
        Played { end, out, now: Nanos(5), status: 1000, window: 64, came }
    }

    /// A session that is ready, with the keys as given.
    fn ready(keys: &[(&str, &str)]) -> Played {
        let mut played = Played::new();
        played.login(keys).unwrap();
        played.open(0, 0xc0);
        played
    }

    fn login(&mut self, keys: &[(&str, &str)]) -> Result<(), Ending> {
        let (header, body) = self.next();
        let request = LoginRequest::parse(&header);
        assert_eq!((request.stage, request.transit, request.next_stage), (0, true, 1));
        assert_eq!(value(&body, "InitiatorName"), Some(INITIATOR));
        assert_eq!(value(&body, "TargetName"), Some(TARGET));
        assert_eq!(value(&body, "SessionType"), Some("Normal"));
        assert_eq!(value(&body, "AuthMethod"), Some("None"));
        assert_eq!(request.isid[0], 0x80);
        let security = text(&[("AuthMethod", "None"), ("TargetPortalGroupTag", "1")]);
        self.login_response(&request, 0, &security)?;
        let (header, body) = self.next();
        let request = LoginRequest::parse(&header);
        assert_eq!((request.stage, request.next_stage), (1, 3));
        assert_eq!(value(&body, "ImmediateData"), Some("Yes"));
        assert_eq!(value(&body, "InitialR2T"), Some("No"));
        self.login_response(&request, 0, &text(keys))
    }

    fn login_response(
        &mut self,
        request: &LoginRequest,
        status: u16,
        text: &[u8],
    ) -> Result<(), Ending> {
        let response = LoginResponse {
            transit: request.transit && status == 0,
            more: false,
            stage: request.stage,
            next_stage: request.next_stage,
            version_max: 0,
            version_active: 0,
            data_len: text.len() as u32,
            isid: request.isid,
            tsih: 1,
            task_tag: request.task_tag,
            numbers: Numbers {
                status: self.take_status(),
                expected: request.command_number,
                max: request.command_number + self.window - 1,
            },
            status,
        };
        self.send(&response, text)
    }

    /// Answers the first questions; the mode parameter header has these two bits.
    fn open(&mut self, device: u8, lbpme: u8) {
        let attention = Sense::POWER_ON_RESET;
        let tag = self.command(|cdb| cdb[0] == 0x00).task_tag;
        self.check_condition(tag, attention).unwrap();
        let tag = self.command(|cdb| cdb[0] == 0x00).task_tag;
        self.good(tag).unwrap();
        let tag = self.command(|cdb| cdb[0] == 0x9e).task_tag;
        let mut capacity = [0; 32];
        capacity[6..8].copy_from_slice(&[0x0f, 0xff]);
        capacity[10] = 2;
        capacity[14] = lbpme;
        self.data(tag, &capacity, true).unwrap();
        let tag = self.command(|cdb| cdb[0] == 0x1a).task_tag;
        let mut mode = vec![23, 0, device | 0x10, 0, 0x08, 0x12, 0x04];
        mode.resize(24, 0);
        self.data(tag, &mode, true).unwrap();
        let Phase::Ready(geometry) = self.end.phase() else { panic!("not ready") };
        let read_only = device & 0x80 != 0;
        let (block_bytes, blocks, volatile) = (512, 0x1000, true);
        assert_eq!(geometry, Geometry { block_bytes, blocks, read_only, volatile });
    }

    fn numbers(&self) -> Numbers {
        let expected = self.next_number();
        Numbers { status: self.status, expected, max: expected + self.window - 1 }
    }

    fn next_number(&self) -> u32 {
        1
    }

    fn take_status(&mut self) -> u32 {
        self.status += 1;
        self.status - 1
    }

    fn send(&mut self, pdu: &impl Pdu, data: &[u8]) -> Result<(), Ending> {
        let bytes = bytes(&pdu.build(), data);
        self.end.receive(self.now, &bytes, &mut self.out)
    }

    /// The next PDU that came.
    fn next(&mut self) -> Answer {
        self.came.extend(split(&drain(&mut self.out)));
        self.came.pop_front().expect("a PDU")
    }

    fn nothing(&mut self) {
        self.came.extend(split(&drain(&mut self.out)));
        assert!(self.came.is_empty(), "{:x?}", self.came);
    }

    /// The next PDU is a command like this.
    fn command(&mut self, fits: impl Fn(&[u8; 16]) -> bool) -> Command {
        let (header, _) = self.next();
        assert_eq!(opcode_of(&header), opcode::COMMAND);
        let command = Command::parse(&header);
        assert!(fits(&command.cdb), "{:x?}", command.cdb);
        assert_eq!(command.lun, encode_lun(1));
        command
    }

    fn response(&mut self, tag: u32, status: u8, data: &[u8]) -> Result<(), Ending> {
        let numbers = Numbers { status: self.take_status(), ..self.numbers() };
        let response = Response {
            status,
            task_tag: tag,
            numbers,
            data_len: data.len() as u32,
            ..Response::default()
        };
        self.send(&response, data)
    }

    fn good(&mut self, tag: u32) -> Result<(), Ending> {
        self.response(tag, 0, &[])
    }

    fn check_condition(&mut self, tag: u32, sense: Sense) -> Result<(), Ending> {
        let mut data = vec![0, 18];
        data.extend(sense.encode_fixed());
        self.response(tag, 2, &data)
    }

    fn data_in(&mut self, tag: u32, data: &[u8], ends: bool) -> DataIn {
        let status = if ends { self.take_status() } else { 0 };
        let numbers = Numbers { status, ..self.numbers() };
        let data_len = data.len() as u32;
        DataIn { last: true, ends, data_len, task_tag: tag, numbers, ..DataIn::default() }
    }

    fn data(&mut self, tag: u32, data: &[u8], ends: bool) -> Result<(), Ending> {
        let pdu = self.data_in(tag, data, ends);
        self.send(&pdu, data)
    }

    fn read(&mut self, len: u32) -> u32 {
        let buf = self.out.pool().take(len as usize);
        self.end.submit(self.now, io(Op::Read, 0, len, buf), &mut self.out);
        self.command(|cdb| cdb[0] == 0x88).task_tag
    }

    fn write(&mut self, len: u32) -> Answer {
        let buf = self.out.pool().take(len as usize);
        self.end.submit(self.now, io(Op::Write, 0, len, buf), &mut self.out);
        self.next()
    }

    fn done(&mut self) -> Result<(), Fault> {
        let done: Vec<Done> = self.end.done().drain(..).collect();
        assert_eq!(done.len(), 1);
        done.into_iter().next().unwrap().result
    }

    fn violates(result: Result<(), Ending>) {
        assert!(matches!(result, Err(Ending::Violation(_))), "{result:?}");
    }
}

#[test]
fn opens_reads_writes_and_closes() {
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    played.data(tag, &[7; 512], true).unwrap();
    assert_eq!(played.done(), Ok(()));
    let (header, body) = played.write(512);
    let command = Command::parse(&header);
    assert_eq!((command.data_len, command.last, command.write), (512, true, true));
    assert_eq!((command.cdb[0], body.len()), (0x8a, 512));
    played.good(command.task_tag).unwrap();
    assert_eq!(played.done(), Ok(()));
    played.end.close(played.now, &mut played.out);
    let (header, _) = played.next();
    assert_eq!((opcode_of(&header), played.end.phase()), (opcode::LOGOUT_REQUEST, Phase::Closing));
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let answer =
        LogoutResponse { task_tag: task_tag(&header), numbers, ..LogoutResponse::default() };
    played.send(&answer, &[]).unwrap();
    assert_eq!((played.end.phase(), played.end.deadline()), (Phase::Closed, None));
}

#[test]
fn refusals_are_told_in_words() {
    for (status, text, words) in [
        (0x0203, &b""[..], "not found"),
        (0x0201, b"", "authentication"),
        (0x0202, b"", "access list"),
        (0x0101, b"TargetAddress=192.0.2.7:3260,1\0", "192.0.2.7:3260"),
        (0x0301, b"", "not operational"),
        (0x0302, b"", "out of resources"),
        (0x0299, b"", "refuses"),
        (0x0377, b"", "failed"),
    ] {
        let mut played = Played::new();
        let request = LoginRequest::parse(&played.next().0);
        let ending = played.login_response(&request, status, text).unwrap_err();
        let Ending::Refused(said) = ending else { panic!("{ending:?}") };
        assert!(said.contains(words) && said.contains(&format!("{status:#06x}")), "{said}");
    }
    // The target wants CHAP, or cannot do the digests.
    let mut played = Played::new();
    let request = LoginRequest::parse(&played.next().0);
    let ending = played.login_response(&request, 0, b"AuthMethod=CHAP\0").unwrap_err();
    assert!(ending.to_string().contains("CHAP"), "{ending}");
    for answer in [("MaxBurstLength", "16777215"), ("HeaderDigest", "CRC32C"), ("DataDigest", "x")]
    {
        let ending = Played::new().login(&[answer]).unwrap_err();
        assert!(ending.to_string().contains(answer.0), "{ending}");
    }
}

#[test]
fn what_a_target_may_answer_to_an_offer() {
    for keys in [
        &[("InitialR2T", "Yes"), ("ImmediateData", "No"), ("X-target", "1")][..],
        &[("MaxBurstLength", "Reject"), ("FirstBurstLength", "NotUnderstood")],
        &[("ErrorRecoveryLevel", "Irrelevant"), ("MaxRecvDataSegmentLength", "512")],
        &[("TargetAlias", "x"), ("HeaderDigest", "None"), ("MaxOutstandingR2T", "4")],
    ] {
        Played::ready(keys);
    }
}

#[test]
fn a_unit_that_cannot_be_used_is_told_in_words() {
    for (sense, words) in [
        (Sense::LOGICAL_UNIT_NOT_SUPPORTED, "no LUN 1"),
        (Sense::MEDIUM_NOT_PRESENT, "no medium"),
        (Sense::INTERNAL_TARGET_FAILURE, "cannot be used"),
    ] {
        let mut played = Played::new();
        played.login(&[]).unwrap();
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        let ending = played.check_condition(tag, sense).unwrap_err();
        assert!(ending.to_string().contains(words), "{ending}");
    }
    // One that is not ready yet is asked again; in the end it takes too long.
    let mut played = Played::new();
    played.login(&[]).unwrap();
    for _ in 0..10 {
        let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
        played.check_condition(tag, Sense::BECOMING_READY).unwrap();
        played.nothing();
        played.now = played.end.deadline().unwrap();
        played.end.tick(played.now, &mut played.out).unwrap();
    }
    played.now = Nanos::from_secs(16);
    let ending = played.end.tick(played.now, &mut played.out).unwrap_err();
    assert!(matches!(ending, Ending::TimedOut(_)));
}

#[test]
fn falls_back_where_a_unit_does_not_know_the_question() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x00).task_tag;
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x9e).task_tag;
    played.check_condition(tag, Sense::INVALID_OPCODE).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x25).task_tag;
    // In two parts, the status apart.
    played.data(tag, &[0, 0, 0, 99], false).unwrap();
    let mut second = played.data_in(tag, &[0, 0, 2, 0], false);
    (second.offset, second.data_number) = (4, 1);
    played.send(&second, &[0, 0, 2, 0]).unwrap();
    played.good(tag).unwrap();
    let tag = played.command(|cdb| cdb[0] == 0x1a).task_tag;
    played.check_condition(tag, Sense::INVALID_FIELD_IN_CDB).unwrap();
    let Phase::Ready(geometry) = played.end.phase() else { panic!("not ready") };
    assert_eq!((geometry.blocks, geometry.volatile, geometry.read_only), (100, true, false));
}

#[test]
fn a_protected_unit_refuses_writes_without_asking() {
    let mut played = Played::new();
    played.login(&[]).unwrap();
    played.open(0x80, 0);
    let buf = played.out.pool().take(512);
    played.end.submit(played.now, io(Op::Write, 0, 512, buf), &mut played.out);
    assert_eq!(played.done(), Err(Fault::ReadOnly));
    played.nothing();
}

#[test]
fn trims_by_what_the_unit_promises() {
    for (lbpme, op, code, flags, expected) in [
        (0xc0, Op::Trim, 0x42, 0, 24),
        (0x80, Op::Trim, 0x93, 0x08, 512),
        (0x00, Op::WriteZeroes, 0x93, 0, 512),
        (0xc0, Op::WriteZeroes, 0x93, 0x08, 512),
    ] {
        let mut played = Played::new();
        played.login(&[]).unwrap();
        played.open(0, lbpme);
        played.end.submit(played.now, io(op, 512, 1024, None), &mut played.out);
        let command = Command::parse(&played.next().0);
        assert_eq!((command.cdb[0], command.expected_len), (code, expected), "{op:?} {lbpme:x}");
        if code == 0x93 {
            assert_eq!(command.cdb[1], flags);
        }
        played.good(command.task_tag).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

#[test]
fn sends_as_much_unasked_as_was_agreed_on() {
    // Keys; immediate, then unsolicited in segments of.
    for (keys, immediate, unasked) in [
        (&[("InitialR2T", "No"), ("ImmediateData", "Yes")][..], 8192, &[8192, 8192, 8192][..]),
        (&[("InitialR2T", "No"), ("ImmediateData", "No")], 0, &[8192; 4]),
        (&[("InitialR2T", "Yes"), ("ImmediateData", "Yes")], 8192, &[]),
        (&[("InitialR2T", "Yes"), ("ImmediateData", "No")], 0, &[]),
    ] {
        let mut all = keys.to_vec();
        all.push(("FirstBurstLength", "32768"));
        let mut played = Played::ready(&all);
        let (header, body) = played.write(100 << 10);
        let command = Command::parse(&header);
        assert_eq!((body.len(), command.last), (immediate, unasked.is_empty()), "{keys:?}");
        let mut offset = immediate as u32;
        for (number, len) in unasked.iter().enumerate() {
            let data = DataOut::parse(&played.next().0);
            assert_eq!((data.transfer_tag, data.data_number), (NOTHING, number as u32));
            assert_eq!((data.offset, data.data_len), (offset, *len));
            assert_eq!(data.last, number + 1 == unasked.len());
            offset += len;
        }
        played.nothing();
        // The rest in two bursts.
        for (number, len) in [(0, 20_000), (1, (100 << 10) - 20_000 - offset)] {
            let ready = ReadyToTransfer {
                lun: encode_lun(1),
                task_tag: command.task_tag,
                transfer_tag: 0x55 + number,
                numbers: played.numbers(),
                number,
                offset,
                len,
            };
            played.send(&ready, &[]).unwrap();
            let end = offset + len;
            while offset < end {
                let data = DataOut::parse(&played.next().0);
                assert_eq!((data.transfer_tag, data.offset), (0x55 + number, offset));
                assert_eq!(data.lun, encode_lun(1));
                offset += data.data_len;
                assert_eq!(data.last, offset == end);
            }
            played.nothing();
        }
        played.good(command.task_tag).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

#[test]
fn hostile_requests_for_data() {
    let keys = [("InitialR2T", "Yes"), ("ImmediateData", "No"), ("MaxBurstLength", "4096")];
    for (number, offset, len, stale) in [
        (0, 512, 512, false),
        (0, 0, 8193, false),
        (0, 0, 4097, false),
        (0, 0, 0, false),
        (1, 0, 512, false),
        (0, 0, u32::MAX, false),
        (0, u32::MAX, 2, false),
        (0, 0, 512, true),
    ] {
        let mut played = Played::ready(&keys);
        let (header, _) = played.write(8192);
        let task_tag = task_tag(&header) ^ if stale { 0x10000 } else { 0 };
        let (lun, transfer_tag, numbers) = ([0; 8], 1, played.numbers());
        let ready = ReadyToTransfer { lun, task_tag, transfer_tag, numbers, number, offset, len };
        Played::violates(played.send(&ready, &[]));
    }
    // For a read.
    let mut played = Played::ready(&keys);
    let task_tag = played.read(512);
    let (lun, transfer_tag, numbers) = ([0; 8], 1, played.numbers());
    let ready =
        ReadyToTransfer { lun, task_tag, transfer_tag, numbers, number: 0, offset: 0, len: 512 };
    Played::violates(played.send(&ready, &[]));
}

#[test]
fn hostile_data() {
    for case in 0..8 {
        let mut played = Played::ready(&[]);
        let tag = if case == 7 { task_tag(&played.write(512).0) } else { played.read(1024) };
        let mut pdu = played.data_in(tag, &[1; 512], false);
        match case {
            0 => pdu.task_tag ^= 0x10000,
            1 => pdu.task_tag = 0x0fff,
            2 => pdu.offset = 512,
            3 => pdu.offset = u32::MAX,
            4 => pdu.data_number = 1,
            5 => pdu.data_len = 1028,
            6 => pdu.task_tag = NOTHING,
            _ => {}
        }
        let data = vec![1; pdu.data_len as usize];
        Played::violates(played.send(&pdu, &data));
    }
    // The same data twice.
    let mut played = Played::ready(&[]);
    let tag = played.read(1024);
    played.data(tag, &[1; 512], false).unwrap();
    Played::violates(played.data(tag, &[1; 512], false));
    // A status twice, and one that does not come next.
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.done(), Ok(()));
    Played::violates(played.good(tag));
    let tag = Played::ready(&[]).read(512);
    let mut played = Played::ready(&[]);
    played.status += 1;
    let same = played.read(512);
    assert_eq!(tag & 0xffff, same & 0xffff);
    Played::violates(played.good(same));
}

#[test]
fn short_reads_and_residuals_are_errors() {
    let mut played = Played::ready(&[]);
    let tag = played.read(1024);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
    let tag = played.read(1024);
    played.good(tag).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
    let tag = task_tag(&played.write(512).0);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let response =
        Response { underflow: true, residual: 512, task_tag: tag, numbers, ..Response::default() };
    played.send(&response, &[]).unwrap();
    assert_eq!(played.done(), Err(Fault::Medium));
}

#[test]
fn sense_becomes_a_fault() {
    let mut played = Played::ready(&[]);
    for (sense, result) in [
        (Sense::UNRECOVERED_READ_ERROR, Err(Fault::Medium)),
        (Sense::LBA_OUT_OF_RANGE, Err(Fault::OutOfRange)),
        (Sense::INVALID_OPCODE, Err(Fault::Unsupported)),
        (Sense::WRITE_PROTECTED, Err(Fault::ReadOnly)),
        (Sense::MISCOMPARE, Err(Fault::Miscompare)),
        (Sense::ABORTED_COMMAND, Err(Fault::Aborted)),
        (Sense::BECOMING_READY, Err(Fault::Medium)),
        (Sense::new(Key::RecoveredError, 0x17, 0), Ok(())),
    ] {
        let tag = task_tag(&played.write(512).0);
        played.check_condition(tag, sense).unwrap();
        assert_eq!(played.done(), result, "{sense}");
    }
    for (status, result) in [(0x18, Fault::Medium), (0x40, Fault::Aborted), (0x30, Fault::Medium)] {
        let tag = task_tag(&played.write(512).0);
        played.response(tag, status, &[]).unwrap();
        assert_eq!(played.done(), Err(result), "{status:#x}");
    }
}

#[test]
fn a_busy_target_is_asked_again_a_few_times() {
    for status in [0x08, 0x28] {
        let mut played = Played::ready(&[]);
        let mut tag = task_tag(&played.write(512).0);
        let mut pauses = Vec::new();
        for _ in 0..10 {
            played.response(tag, status, &[]).unwrap();
            played.nothing();
            let due = played.end.deadline().unwrap();
            pauses.push(due.0 - played.now.0);
            played.now = due;
            played.end.tick(due, &mut played.out).unwrap();
            let (header, body) = played.next();
            assert_eq!((opcode_of(&header), body.len()), (opcode::COMMAND, 512));
            assert_ne!(task_tag(&header), tag, "a fresh name for every try");
            tag = task_tag(&header);
        }
        assert!(pauses.windows(2).all(|pair| pair[1] == 2 * pair[0]), "{pauses:?}");
        played.response(tag, status, &[]).unwrap();
        assert_eq!(played.done(), Err(Fault::Medium));
        // A unit attention is over once it was told: at once again.
        let tag = played.read(512);
        played.check_condition(tag, Sense::CAPACITY_CHANGED).unwrap();
        let tag = played.command(|cdb| cdb[0] == 0x88).task_tag;
        played.data(tag, &[1; 512], true).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
}

#[test]
fn the_window_of_the_target_is_obeyed() {
    let mut played = Played::new();
    played.window = 8;
    played.login(&[]).unwrap();
    played.open(0, 0);
    // Four questions were asked since; the window has not moved.
    let used = played.end.room();
    assert!(used < 8, "{used}");
    for tag in 0..used as u64 {
        let buf = played.out.pool().take(512);
        let io = block::Io { tag: Tag(tag), ..io(Op::Read, 0, 512, buf) };
        played.end.submit(played.now, io, &mut played.out);
    }
    assert_eq!(played.end.room(), 0);
    let first = played.next().0;
    let last = (1..used).map(|_| played.next().0).last().unwrap();
    assert_eq!(command_number(&last), 8);
    // An answer that opens it by two; an older one does not close it.
    played.window = 10;
    let tag = task_tag(&first);
    played.data(tag, &[1; 512], true).unwrap();
    assert_eq!(played.end.room(), 2);
    played.window = 3;
    let nop = NopIn {
        data_len: 0,
        lun: [0; 8],
        task_tag: NOTHING,
        transfer_tag: NOTHING,
        numbers: played.numbers(),
    };
    played.send(&nop, &[]).unwrap();
    assert_eq!(played.end.room(), 2);
}

#[test]
fn pings_and_news_of_the_target() {
    let mut played = Played::ready(&[]);
    let numbers = played.numbers();
    let (lun, task_tag, transfer_tag) = (encode_lun(1), NOTHING, 0x1234);
    let nop = NopIn { data_len: 3, lun, task_tag, transfer_tag, numbers };
    played.send(&nop, b"abc").unwrap();
    let (header, _) = played.next();
    let answer = NopOut::parse(&header);
    assert_eq!((answer.task_tag, answer.transfer_tag, answer.lun), (NOTHING, 0x1234, lun));
    assert!(answer.immediate);
    // A ping of ours that was never sent is not answered.
    let mut bad = Played::ready(&[]);
    Played::violates(bad.send(&NopIn { task_tag: 5, data_len: 0, ..nop }, &[]));
    // The target drops the connection.
    for event in [2, 3] {
        let mut played = Played::ready(&[]);
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        let message = AsyncMessage { event, numbers, ..AsyncMessage::default() };
        assert!(matches!(played.send(&message, &[]), Err(Ending::Refused(_))));
    }
    // It wants us to log out: once the I/Os have ended, or time is up.
    for waits in [false, true] {
        let mut played = Played::ready(&[]);
        let tag = played.read(512);
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        let parameters = [0, 0, 3];
        let message = AsyncMessage { event: 1, numbers, parameters, ..AsyncMessage::default() };
        played.send(&message, &[]).unwrap();
        assert_eq!((played.end.phase(), played.end.room()), (Phase::Closing, 0));
        played.nothing();
        if waits {
            played.data(tag, &[1; 512], true).unwrap();
            assert_eq!(played.done(), Ok(()));
        } else {
            played.now = played.end.deadline().unwrap();
            played.end.tick(played.now, &mut played.out).unwrap();
        }
        let (header, _) = played.next();
        assert_eq!(LogoutRequest::parse(&header).reason, 0);
    }
    // A rejection ends the session.
    let mut played = Played::ready(&[]);
    let numbers = Numbers { status: played.take_status(), ..played.numbers() };
    let reject = Reject { reason: 4, data_len: 48, numbers };
    assert!(matches!(played.send(&reject, &[0; 48]), Err(Ending::Refused(_))));
}

#[test]
fn a_target_that_says_nothing_times_out() {
    let mut played = Played::new();
    let due = played.end.deadline().unwrap();
    assert!(matches!(played.end.tick(due, &mut played.out), Err(Ending::TimedOut(_))));
    let mut played = Played::ready(&[]);
    played.end.close(played.now, &mut played.out);
    let due = played.end.deadline().unwrap();
    assert!(matches!(played.end.tick(due, &mut played.out), Err(Ending::TimedOut(_))));
    // Before there is a session there is nothing to log out of.
    let mut played = Played::new();
    played.end.close(played.now, &mut played.out);
    assert_eq!(played.end.phase(), Phase::Closed);
}

#[test]
fn endless_answers_end_the_session() {
    let mut played = Played::new();
    let mut request = LoginRequest::parse(&played.next().0);
    request.transit = false;
    let ended = (0..100).find_map(|_| {
        let result = played.login_response(&request, 0, &[]);
        if result.is_ok() {
            played.next();
        }
        result.err()
    });
    assert!(matches!(ended, Some(Ending::Refused(_))));
    // Sense data of 8 KiB and more.
    let mut played = Played::ready(&[]);
    let tag = played.read(512);
    Played::violates(played.response(tag, 2, &[0; 9000]));
}

#[test]
fn opcodes_of_an_initiator_are_not_a_target_s() {
    for code in (0..64_u8).filter(|code| !(0x20..0x27).contains(code)) {
        let mut played = Played::ready(&[]);
        let mut header: Header = [0; 48];
        header[0] = code;
        header[16..20].copy_from_slice(&NOTHING.to_be_bytes());
        let result = played.end.receive(played.now, &header, &mut played.out);
        assert!(result.is_err() || code == opcode::ASYNC_MESSAGE, "{code:#x}");
    }
}

#[test]
fn discovery_lists_targets_and_their_addresses() {
    let setup = crate::harness::Setup::default();
    for chunk in [1, 7, 48, 1000] {
        let mut target = setup.target();
        let mut discovery = Discovery::new(INITIATOR, Nanos(0));
        let (mut up, mut down) = (Outbox::new(Pool::new(8, 8)), Outbox::new(Pool::new(8, 8)));
        assert!(discovery.targets().is_none());
        discovery.tick(Nanos(0), &mut up).unwrap();
        for _ in 0..10 {
            for part in drain(&mut up).chunks(chunk) {
                target.receive(Nanos(0), part, &mut down).unwrap();
            }
            for part in drain(&mut down).chunks(chunk) {
                discovery.receive(Nanos(0), part, &mut up).unwrap();
            }
        }
        let expect = [crate::harness::OTHER_TARGET, TARGET]
            .map(|name| (name.to_owned(), vec![PORTAL.to_owned()]));
        assert_eq!(discovery.targets().unwrap(), expect);
        assert!(discovery.finished() && proto::Target::finished(&target));
        assert_eq!(discovery.deadline(), None);
    }
}

#[test]
fn a_portal_that_does_not_play_along() {
    let (mut up, now) = (Outbox::new(Pool::new(8, 8)), Nanos(0));
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let late = discovery.deadline().unwrap();
    assert!(matches!(discovery.tick(late, &mut up), Err(Ending::TimedOut(_))));
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let text = TextResponse { last: true, ..TextResponse::default() };
    assert!(discovery.receive(now, &text.build(), &mut up).is_err());
    let mut discovery = Discovery::new(INITIATOR, now);
    discovery.tick(now, &mut up).unwrap();
    let refusal = LoginResponse { status: 0x0301, ..LoginResponse::default() };
    let ending = discovery.receive(now, &refusal.build(), &mut up).unwrap_err();
    assert!(ending.to_string().contains("0x0301"), "{ending}");
}
