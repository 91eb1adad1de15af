//! A scripted target for our initiator.

use std::collections::VecDeque;

use block::{Done, Fault, Geometry, Nanos, Op, Pool};
use proto::iscsi::pdu::{
    Command, DataIn, LoginRequest, LoginResponse, Numbers, Pdu, Response, opcode, opcode_of,
};
use proto::iscsi::{InitiatorConfig, IscsiInitiator};
use proto::scsi::{Sense, encode_lun};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase};

use crate::harness::{INITIATOR, TARGET, drain, io};
use crate::raw::{Answer, bytes, split, text, value};

/// The initiator, and a target that is played by the test.
pub struct Played {
    pub end: IscsiInitiator,
    pub out: Outbox,
    pub now: Nanos,
    /// StatSN of the next status, and the window.
    pub status: u32,
    pub window: u32,
    pub came: VecDeque<Answer>,
}

/// A Device Identification page with one NAA name.
pub const DESIGNATION: [u8; 16] =
    [0, 0x83, 0, 12, 0x01, 0x03, 0, 8, 0x60, 0x01, 0x40, 0x50, 0, 0, 0, 1];

impl Played {
    pub fn new() -> Played {
        Played::with(InitiatorConfig::new(INITIATOR, TARGET, 1))
    }

    pub fn with(config: InitiatorConfig) -> Played {
        let config = InitiatorConfig { max_outstanding: 16, ..config };
        let mut end = IscsiInitiator::new(config, Nanos(5));
        let mut out = Outbox::new(Pool::new(64, 16));
        assert_eq!((end.deadline(), end.phase()), (Some(Nanos(5)), Phase::Opening));
        end.tick(Nanos(5), &mut out).unwrap();
        let came = VecDeque::new();
        Played { end, out, now: Nanos(5), status: 1000, window: 64, came }
    }

    /// A session that is ready, with the keys as given.
    pub fn ready(keys: &[(&str, &str)]) -> Played {
        let mut played = Played::new();
        played.login(keys).unwrap();
        played.open(0, 0xc0);
        played
    }

    pub fn login(&mut self, keys: &[(&str, &str)]) -> Result<(), Ending> {
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

    /// Sends a response without status, whose text may continue.
    pub fn login_part(
        &mut self,
        request: &LoginRequest,
        text: &[u8],
        more: bool,
    ) -> Result<(), Ending> {
        let numbers = Numbers { status: self.take_status(), ..self.numbers() };
        let response = LoginResponse {
            transit: request.transit && !more,
            more,
            stage: request.stage,
            next_stage: if more { 0 } else { request.next_stage },
            data_len: text.len() as u32,
            task_tag: request.task_tag,
            numbers,
            ..LoginResponse::default()
        };
        self.send(&response, text)
    }

    pub fn login_response(
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

    /// Answers the first questions: the device-specific byte of the mode parameter header, and the
    /// provisioning bits of the capacity.
    pub fn open(&mut self, device: u8, lbpme: u8) {
        self.open_with(device | 0x10, lbpme);
    }

    /// Answers the first questions, with forced unit access if the byte has the bit.
    pub fn open_with(&mut self, device: u8, lbpme: u8) {
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
        let mut mode = vec![23, 0, device, 0, 0x08, 0x12, 0x04];
        mode.resize(24, 0);
        self.data(tag, &mode, true).unwrap();
        let tag = self.command(|cdb| cdb[0] == 0x12).task_tag;
        let mut inquiry = [0; 36];
        inquiry[8..32].copy_from_slice(b"LIO-ORG RAMDISK-MCP     ");
        self.data(tag, &inquiry, true).unwrap();
        assert_eq!(self.end.product(), Some("LIO-ORG RAMDISK-MCP"));
        let tag = self.command(|cdb| cdb[..3] == [0x12, 1, 0x83]).task_tag;
        self.data(tag, &DESIGNATION, true).unwrap();
        assert_eq!(self.end.identity().as_deref(), Some("naa.6001405000000001"));
        let Phase::Ready(geometry) = self.end.phase() else { panic!("not ready") };
        let read_only = device & 0x80 != 0;
        let (block_bytes, blocks, volatile) = (512, 0x1000, true);
        let trim_zeroes = lbpme & 0xc0 == 0xc0;
        assert_eq!(geometry, Geometry { block_bytes, blocks, read_only, volatile, trim_zeroes });
    }

    pub fn numbers(&self) -> Numbers {
        let expected = self.next_number();
        Numbers { status: self.status, expected, max: expected + self.window - 1 }
    }

    pub fn next_number(&self) -> u32 {
        1
    }

    pub fn take_status(&mut self) -> u32 {
        self.status += 1;
        self.status - 1
    }

    pub fn send(&mut self, pdu: &impl Pdu, data: &[u8]) -> Result<(), Ending> {
        let bytes = bytes(&pdu.build(), data);
        self.end.receive(self.now, &bytes, &mut self.out)
    }

    /// The next PDU that came.
    pub fn next(&mut self) -> Answer {
        self.came.extend(split(&drain(&mut self.out)));
        self.came.pop_front().expect("a PDU")
    }

    pub fn nothing(&mut self) {
        self.came.extend(split(&drain(&mut self.out)));
        assert!(self.came.is_empty(), "{:x?}", self.came);
    }

    /// The next PDU is a command like this.
    pub fn command(&mut self, fits: impl Fn(&[u8; 16]) -> bool) -> Command {
        let (header, _) = self.next();
        assert_eq!(opcode_of(&header), opcode::COMMAND);
        let command = Command::parse(&header);
        assert!(fits(&command.cdb), "{:x?}", command.cdb);
        assert_eq!(command.lun, encode_lun(1));
        command
    }

    pub fn response(&mut self, tag: u32, status: u8, data: &[u8]) -> Result<(), Ending> {
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

    pub fn good(&mut self, tag: u32) -> Result<(), Ending> {
        self.response(tag, 0, &[])
    }

    pub fn check_condition(&mut self, tag: u32, sense: Sense) -> Result<(), Ending> {
        let mut data = vec![0, 18];
        data.extend(sense.encode_fixed());
        self.response(tag, 2, &data)
    }

    pub fn data_in(&mut self, tag: u32, data: &[u8], ends: bool) -> DataIn {
        let status = if ends { self.take_status() } else { 0 };
        let numbers = Numbers { status, ..self.numbers() };
        let data_len = data.len() as u32;
        DataIn { last: true, ends, data_len, task_tag: tag, numbers, ..DataIn::default() }
    }

    pub fn data(&mut self, tag: u32, data: &[u8], ends: bool) -> Result<(), Ending> {
        let pdu = self.data_in(tag, data, ends);
        self.send(&pdu, data)
    }

    pub fn read(&mut self, len: u32) -> u32 {
        let buf = self.out.pool().take(len as usize);
        self.end.submit(self.now, io(Op::Read, 0, len, buf), &mut self.out);
        self.command(|cdb| cdb[0] == 0x88).task_tag
    }

    pub fn write(&mut self, len: u32) -> Answer {
        let buf = self.out.pool().take(len as usize);
        self.end.submit(self.now, io(Op::Write, 0, len, buf), &mut self.out);
        self.next()
    }

    pub fn done(&mut self) -> Result<(), Fault> {
        let done: Vec<Done> = self.end.done().drain(..).collect();
        assert_eq!(done.len(), 1);
        done.into_iter().next().unwrap().result
    }

    pub fn violates(result: Result<(), Ending>) {
        assert!(matches!(result, Err(Ending::Violation(_))), "{result:?}");
    }
}
