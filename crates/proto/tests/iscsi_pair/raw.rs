//! A scripted initiator for a target.

use block::Nanos;
use proto::iscsi::pdu::{
    Command, DataIn, Header, LoginRequest, LoginResponse, NO_TAG, Pdu, Response, data_len, opcode,
    opcode_of, task_tag,
};
use proto::scsi::{Sense, decode_sense, encode_lun};
use proto::{Ending, Endpoint, Notice, Target};

use crate::harness::{INITIATOR, Served, Setup, TARGET, drain};

/// A PDU as it came.
pub type Answer = (Header, Vec<u8>);

pub struct Raw {
    pub served: Served,
    pub now: Nanos,
    /// CmdSN of the next command, and the StatSN that comes next.
    pub number: u32,
    pub status: u32,
    pub next_tag: u32,
}

/// The end of a command.
#[derive(Debug, PartialEq)]
pub struct End {
    pub status: u8,
    pub sense: Option<Sense>,
    /// Positive when more, negative when less than expected could have been moved.
    pub residual: i64,
    pub data: Vec<u8>,
}

impl Raw {
    pub fn new(setup: &Setup) -> Raw {
        let served = Served::new(setup);
        Raw { served, now: Nanos(0), number: 10, status: 0, next_tag: 100 }
    }

    /// Returns a target in full feature phase, with these keys in addition to the names.
    pub fn logged_in(setup: &Setup, keys: &[(&str, &str)]) -> Raw {
        let mut raw = Raw::new(setup);
        let mut all = vec![("InitiatorName", INITIATOR), ("TargetName", TARGET)];
        all.extend(keys);
        raw.login(&text(&all)).unwrap();
        raw
    }

    /// One of several initiators of a server, by number, with unit attentions out of the way.
    pub fn one_of(setup: &Setup, number: u32) -> Raw {
        let mut raw = Raw::new(&Setup { connection: number, ..setup.clone() });
        let name = format!("{INITIATOR}-{number}");
        let keys = [("InitiatorName", &*name), ("TargetName", TARGET)];
        raw.login(&text(&keys)).unwrap();
        raw.at_ease();
        raw
    }

    /// Logs in, and clears unit attentions.
    pub fn ready(setup: &Setup, keys: &[(&str, &str)]) -> Raw {
        let mut raw = Raw::logged_in(setup, keys);
        raw.at_ease();
        raw
    }

    fn at_ease(&mut self) {
        for lun in [1, 2] {
            let tag = self.command(lun, [0; 16], Way::None, 0, &[]);
            assert_eq!(self.end(tag).sense, Some(Sense::POWER_ON_RESET));
        }
    }

    /// Asks for full feature phase in one step.
    pub fn knock(&mut self, text: &[u8], isid: [u8; 6]) {
        let request = LoginRequest {
            transit: true,
            stage: 1,
            next_stage: 3,
            data_len: text.len() as u32,
            isid,
            task_tag: 1,
            connection: 3,
            command_number: self.number,
            ..LoginRequest::default()
        };
        self.send(&request, text).unwrap();
    }

    /// Goes there. The text of the answer, or the status.
    pub fn login(&mut self, text: &[u8]) -> Result<Vec<u8>, u16> {
        self.knock(text, [0x80, 1, 2, 3, 4, 5]);
        let (header, text) = self.one();
        let response = LoginResponse::parse(&header);
        self.status = response.numbers.status.wrapping_add(1);
        if response.status != 0 {
            return Err(response.status);
        }
        assert_eq!((response.transit, response.next_stage), (true, 3));
        Ok(text)
    }

    /// Sends a PDU with its data.
    pub fn send(&mut self, pdu: &impl Pdu, data: &[u8]) -> Result<(), Ending> {
        let header = pdu.build();
        assert_eq!(data_len(&header) as usize, data.len(), "the header says how much follows");
        self.send_bytes(&bytes(&header, data))
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        self.served.end.receive(self.now, bytes, &mut self.served.out)
    }

    /// The server has told its other connections, of which none had anything to do.
    pub fn told(&mut self) -> Vec<Notice> {
        let mut notices = self.served.end.take_notices();
        notices.retain(|notice| !matches!(notice, Notice::TasksEnd(_)));
        self.served.end.drained(self.now, &mut self.served.out);
        notices
    }

    /// Gives the end a notice of another connection.
    pub fn notice(&mut self, notice: &Notice) {
        self.served.end.notice(notice, &mut || true, &mut self.served.out);
    }

    /// Gives the end a notice after the initiator has closed the connection.
    pub fn notice_when_closed(&mut self, notice: &Notice) {
        self.served.end.notice(notice, &mut || false, &mut self.served.out);
    }

    pub fn tag(&mut self) -> u32 {
        self.next_tag += 1;
        self.next_tag
    }

    /// All PDUs that came.
    pub fn answers(&mut self) -> Vec<Answer> {
        self.served.take_requests();
        split(&drain(&mut self.served.out))
    }

    /// The only PDU that came.
    pub fn one(&mut self) -> Answer {
        let mut answers = self.answers();
        assert_eq!(answers.len(), 1, "one answer, not {answers:x?}");
        answers.remove(0)
    }

    /// Sends a command with immediate data, and no other unless it is sent later.
    pub fn command(
        &mut self,
        lun: u16,
        cdb: [u8; 16],
        way: Way,
        expected: u32,
        data: &[u8],
    ) -> u32 {
        let command = self.command_pdu(lun, cdb, way, expected, data);
        self.send(&command, data).unwrap();
        command.task_tag
    }

    pub fn command_pdu(
        &mut self,
        lun: u16,
        cdb: [u8; 16],
        way: Way,
        expected: u32,
        data: &[u8],
    ) -> Command {
        let number = self.number;
        self.number += 1;
        Command {
            immediate: false,
            last: true,
            read: matches!(way, Way::Read | Way::Both),
            write: matches!(way, Way::Write | Way::Both),
            attribute: 1,
            data_len: data.len() as u32,
            lun: encode_lun(lun),
            task_tag: self.tag(),
            expected_len: expected,
            command_number: number,
            expected_status: self.status,
            cdb,
        }
    }

    /// Lets the disk work, and returns how the command ended.
    pub fn end(&mut self, tag: u32) -> End {
        self.served.complete_all(self.now);
        let answers = self.answers();
        let (end, rest) = end_of(tag, answers);
        assert!(rest.is_empty(), "{rest:x?}");
        end.expect("the command has ended")
    }
}

/// Flags of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    None,
    Read,
    Write,
    Both,
}

/// A PDU in bytes, without digests.
pub fn bytes(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut bytes = header.to_vec();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A stream without digests as PDUs.
pub fn split(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (header, rest) = bytes.split_first_chunk::<48>().expect("a whole header");
        let len = data_len(header) as usize;
        answers.push((*header, rest[..len].to_vec()));
        bytes = &rest[len.next_multiple_of(4)..];
    }
    answers
}

/// Outcome of a command, and the PDUs of others.
pub fn end_of(tag: u32, answers: Vec<Answer>) -> (Option<End>, Vec<Answer>) {
    let (mut data, mut end, mut others) = (Vec::new(), None, Vec::new());
    let signed = |over: bool, under: bool, count: u32| {
        assert!(!(over && under) && (over || under || count == 0));
        if over { i64::from(count) } else { -i64::from(count) }
    };
    let mut data_count = 0;
    for (header, body) in answers {
        if task_tag(&header) != tag {
            others.push((header, body));
            continue;
        }
        assert!(end.is_none(), "nothing follows a status");
        match opcode_of(&header) {
            opcode::DATA_IN => {
                let pdu = DataIn::parse(&header);
                assert_eq!(pdu.offset as usize, data.len());
                assert_eq!((pdu.data_number, pdu.data_len as usize), (data_count, body.len()));
                data_count += 1;
                data.extend(body);
                if pdu.ends {
                    assert!(pdu.last);
                    let residual = signed(pdu.overflow, pdu.underflow, pdu.residual);
                    end = Some((pdu.status, None, residual));
                }
            }
            opcode::RESPONSE => {
                let pdu = Response::parse(&header);
                assert_eq!(pdu.response, 0);
                let sense = (!body.is_empty()).then(|| {
                    assert_eq!(usize::from(u16::from_be_bytes([body[0], body[1]])), body.len() - 2);
                    decode_sense(&body[2..]).unwrap()
                });
                assert_eq!(sense.is_some(), pdu.status == 2);
                let residual = signed(pdu.overflow, pdu.underflow, pdu.residual);
                end = Some((pdu.status, sense, residual));
            }
            _ => others.push((header, body)),
        }
    }
    (end.map(|(status, sense, residual)| End { status, sense, residual, data }), others)
}

/// Pairs as text.
pub fn text(pairs: &[(&str, &str)]) -> Vec<u8> {
    pairs.iter().flat_map(|(key, value)| format!("{key}={value}\0").into_bytes()).collect()
}

/// The value of a key in a text.
pub fn value<'a>(text: &'a [u8], key: &str) -> Option<&'a str> {
    let mut values = values(text, key);
    let value = values.pop();
    assert!(values.is_empty(), "{key} twice");
    value
}

pub fn values<'a>(text: &'a [u8], key: &str) -> Vec<&'a str> {
    let pairs = text.split(|byte| *byte == 0).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.filter_map(|pair| pair.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// A tag that names nothing.
pub const NOTHING: u32 = NO_TAG;
