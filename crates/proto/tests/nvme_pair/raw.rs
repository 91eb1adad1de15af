//! A host of raw bytes: sends any PDU, and returns the answers PDU by PDU.

use block::Nanos;
use proto::Target;
use proto::crc32c::crc32c;
use proto::nvme::pdu::{
    Command, CommandBuilder, Completion, InitRequest, Status, fabrics, header_len, kind,
};

use crate::joined::HOST_ID;
use crate::server::{HOST_NQN, NQN, Peer, Server};

/// A PDU that came: header and data, digests checked and taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pdu {
    pub header: Vec<u8>,
    pub data: Vec<u8>,
}

impl Pdu {
    pub fn kind(&self) -> u8 {
        self.header[0]
    }

    pub fn flags(&self) -> u8 {
        self.header[1]
    }

    pub fn completion(&self) -> Completion {
        assert_eq!(self.kind(), kind::CAPSULE_RESP, "{self:?}");
        Completion::parse(self.header[..].first_chunk().unwrap())
    }

    pub fn status(&self) -> Status {
        self.completion().status
    }

    pub fn u16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.header[at], self.header[at + 1]])
    }

    pub fn u32(&self, at: usize) -> u32 {
        u32::from(self.u16(at)) | u32::from(self.u16(at + 2)) << 16
    }
}

/// A host and the connection that it has.
pub struct Raw {
    pub server: Server,
    pub peer: Peer,
    pub digests: [bool; 2],
    /// Other connections, such as the admin queue, that must stay.
    pub kept: Vec<Peer>,
}

impl Raw {
    /// Opens a connection without any bytes sent.
    pub fn fresh(mut server: Server) -> Raw {
        let peer = server.accept();
        Raw { server, peer, digests: [false; 2], kept: Vec::new() }
    }

    /// Opens a connection whose ICReq was answered.
    pub fn open(server: Server) -> Raw {
        let mut raw = Raw::fresh(server);
        raw.send(&init(0, [false; 2]));
        let answer = raw.pdus();
        assert_eq!(answer[0].kind(), kind::IC_RESP);
        raw
    }

    /// An admin queue of an enabled controller.
    pub fn admin(server: Server) -> Raw {
        let mut raw = Raw::open(server);
        let answer = raw.ask(connect(0, 31), &connect_data(0xffff, NQN));
        assert!(answer.status().is_success());
        raw.enable();
        raw
    }

    /// An admin queue of an enabled controller, of a host that has these queues, too.
    pub fn admin_beside(server: Server, queues: &mut [&mut Peer]) -> Raw {
        let mut raw = Raw::open(server);
        raw.command(connect(0, 31), &connect_data(0xffff, NQN));
        introduce(&mut raw.peer, raw.server.now, queues);
        assert!(raw.pdus()[0].status().is_success());
        raw.enable();
        raw
    }

    /// An I/O queue, and the admin queue that must stay.
    pub fn io(server: Server) -> (Raw, Peer) {
        let admin = Raw::admin(server);
        let cntlid = admin.peer.end.controller_id().unwrap();
        let mut raw = Raw::open(admin.server);
        let answer = raw.ask(connect(1, 127), &connect_data(cntlid, NQN));
        assert!(answer.status().is_success(), "{}", answer.status());
        (raw, admin.peer)
    }

    pub fn enable(&mut self) {
        let answer = self.ask(property_set(7, 0x14, 0x0046_0001), &[]);
        assert!(answer.status().is_success());
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.peer.receive(&mut self.server, bytes, usize::MAX);
    }

    /// Sends a command, with data if there is some.
    pub fn command(&mut self, command: CommandBuilder, data: &[u8]) {
        let bytes = capsule(command, data, self.digests);
        self.send(&bytes);
    }

    /// Sends a command and takes its only answer.
    pub fn ask(&mut self, command: CommandBuilder, data: &[u8]) -> Pdu {
        self.command(command, data);
        let mut pdus = self.pdus();
        assert_eq!(pdus.len(), 1, "{pdus:?}");
        pdus.remove(0)
    }

    /// Sends a command and takes the data that it is answered by.
    pub fn ask_data(&mut self, command: CommandBuilder) -> Vec<u8> {
        self.command(command, &[]);
        let pdus = self.pdus();
        let (last, data) = pdus.split_last().unwrap();
        assert!(last.status().is_success(), "{}", last.status());
        let expect = Command(&command.build()).id();
        assert_eq!(last.completion().command, expect);
        data.iter().flat_map(|pdu| pdu.data.clone()).collect()
    }

    /// Returns the PDUs since the last call.
    pub fn pdus(&mut self) -> Vec<Pdu> {
        parse(&self.peer.sent(), self.digests)
    }

    /// Why the connection is over: status and information of the C2HTermReq that came last.
    pub fn fatal(&mut self) -> (u16, u32) {
        assert!(self.peer.ended.is_some(), "the connection goes on");
        let last = self.pdus().pop().expect("a last word");
        assert_eq!(last.kind(), kind::C2H_TERM_REQ, "{last:?}");
        (last.u16(8), last.u32(10))
    }
}

/// Delivers the notices of a new connection to these queues, then continues the connection.
pub fn introduce(new: &mut Peer, now: Nanos, queues: &mut [&mut Peer]) {
    for notice in new.end.take_notices() {
        queues.iter_mut().for_each(|it| it.end.notice(&notice, &mut || true, &mut it.out));
    }
    new.end.drained(now, &mut new.out);
}

/// Cuts a stream that is whole.
pub fn parse(bytes: &[u8], digests: [bool; 2]) -> Vec<Pdu> {
    let mut rest = bytes;
    let mut pdus = Vec::new();
    while !rest.is_empty() {
        let len = u32::from_le_bytes(*rest[4..].first_chunk().unwrap()) as usize;
        let (pdu, behind) = rest.split_at(len);
        rest = behind;
        let head = header_len(pdu[0]).unwrap();
        assert_eq!(usize::from(pdu[2]), head);
        let protected = pdu[0] >= kind::CAPSULE_CMD;
        let header_digest = protected && digests[0];
        assert_eq!(pdu[1] & 1 != 0, header_digest);
        if header_digest {
            assert_eq!(pdu[head..head + 4], crc32c(&pdu[..head]).to_le_bytes());
        }
        let begins = if pdu[0] == kind::C2H_DATA {
            usize::from(pdu[3])
        } else {
            head + if header_digest { 4 } else { 0 }
        };
        let mut data = &pdu[begins..];
        if protected && digests[1] && pdu[0] == kind::C2H_DATA {
            assert!(pdu[1] & 2 != 0);
            let (content, digest) = data.split_at(data.len() - 4);
            assert_eq!(digest, crc32c(content).to_le_bytes());
            data = content;
        }
        pdus.push(Pdu { header: pdu[..head].to_vec(), data: data.to_vec() });
    }
    pdus
}

pub fn init(alignment: u8, digests: [bool; 2]) -> [u8; 128] {
    let [header_digest, data_digest] = digests;
    InitRequest { version: 0, alignment, header_digest, data_digest, max_r2t: 0 }.build()
}

/// Returns a command capsule, with its data if there is any.
pub fn capsule(command: CommandBuilder, data: &[u8], digests: [bool; 2]) -> Vec<u8> {
    let digest = |on: bool| if on { 4 } else { 0 };
    let start = 72 + digest(digests[0]);
    let has_data = !data.is_empty();
    let flags = u8::from(digests[0]) | (u8::from(digests[1] && has_data) << 1);
    let len = start + data.len() + if has_data { digest(digests[1]) } else { 0 };
    let command = if has_data { command.in_capsule(data.len() as u32) } else { command };
    let offset = if has_data { start as u8 } else { 0 };
    let header = command.capsule(flags, offset, len as u32);
    let mut bytes = header.to_vec();
    if digests[0] {
        bytes.extend(crc32c(&header).to_le_bytes());
    }
    bytes.extend(data);
    if digests[1] && has_data {
        bytes.extend(crc32c(data).to_le_bytes());
    }
    bytes
}

/// A Connect command for a queue of `size` + 1 entries.
pub fn connect(queue: u16, size: u16) -> CommandBuilder {
    let command = CommandBuilder::fabrics(fabrics::CONNECT, 0);
    command.field(42, queue.to_le_bytes()).field(44, size.to_le_bytes())
}

pub fn connect_data(controller: u16, subsystem: &str) -> Vec<u8> {
    let mut data = vec![0; 1024];
    data[..16].copy_from_slice(&HOST_ID);
    data[16..18].copy_from_slice(&controller.to_le_bytes());
    data[256..256 + subsystem.len()].copy_from_slice(subsystem.as_bytes());
    data[512..512 + HOST_NQN.len()].copy_from_slice(HOST_NQN.as_bytes());
    data
}

pub fn property_set(id: u16, offset: u32, value: u64) -> CommandBuilder {
    let command = CommandBuilder::fabrics(fabrics::PROPERTY_SET, id);
    command.field(44, offset.to_le_bytes()).field(48, value.to_le_bytes())
}

pub fn property_get(id: u16, offset: u32, eight: u8) -> CommandBuilder {
    let command = CommandBuilder::fabrics(fabrics::PROPERTY_GET, id);
    command.field(40, [eight]).field(44, offset.to_le_bytes())
}
