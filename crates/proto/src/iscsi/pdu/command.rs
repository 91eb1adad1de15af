//! PDUs of SCSI commands and task management.

use super::{
    FINAL, Header, IMMEDIATE, Layout, Numbers, OVERFLOW, Pdu, UNDERFLOW, data_len, flag, get_lun,
    get32, is_immediate, opcode,
};

/// SCSI Command.
//= RFC 7143 §11.3
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Immediate delivery (I bit).
    pub immediate: bool,
    /// No unsolicited Data-Out follows (F bit).
    pub last: bool,
    /// The command may return data (R bit).
    pub read: bool,
    /// The command sends data (W bit).
    pub write: bool,
    /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    pub attribute: u8,
    /// Length of the immediate data.
    pub data_len: u32,
    /// LUN field.
    pub lun: [u8; 8],
    /// Initiator task tag (ITT).
    pub task_tag: u32,
    /// Expected data transfer length.
    pub expected_len: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
    /// The command descriptor block.
    pub cdb: [u8; 16],
}

impl Command {
    /// From a header.
    #[inline(always)]
    pub fn parse(header: &Header) -> Command {
        Command {
            immediate: is_immediate(header),
            last: header[1] & FINAL != 0,
            read: header[1] & 0x40 != 0,
            write: header[1] & 0x20 != 0,
            attribute: header[1] & 0x07,
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            expected_len: get32(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
            cdb: *header.last_chunk().expect("a header has 48 bytes"),
        }
    }
}

impl Pdu for Command {
    #[inline(always)]
    fn write(&self, header: &mut Header) {
        let flags = flag(self.last, FINAL) | flag(self.read, 0x40) | flag(self.write, 0x20);
        Layout::new(
            header,
            opcode::COMMAND | flag(self.immediate, IMMEDIATE),
            flags | self.attribute,
        )
        .data_len(self.data_len)
        .put(8, self.lun)
        .put32(16, self.task_tag)
        .put32(20, self.expected_len)
        .put32(24, self.command_number)
        .put32(28, self.expected_status)
        .put(32, self.cdb);
    }
}

/// SCSI Response.
//= RFC 7143 §11.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The command had `residual` more bytes than expected.
    pub overflow: bool,
    /// The command moved `residual` fewer bytes than expected.
    pub underflow: bool,
    /// 0 completed at the target, 1 target failure.
    pub response: u8,
    /// SCSI status, when completed.
    pub status: u8,
    /// Length of the sense data and the two bytes before it.
    pub data_len: u32,
    /// ITT of the command.
    pub task_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
    /// Number of Data-In PDUs and R2Ts sent for it (ExpDataSN).
    pub data_count: u32,
    /// Residual count.
    pub residual: u32,
}

impl Response {
    /// From a header.
    #[inline(always)]
    pub fn parse(header: &Header) -> Response {
        Response {
            overflow: header[1] & OVERFLOW != 0,
            underflow: header[1] & UNDERFLOW != 0,
            response: header[2],
            status: header[3],
            data_len: data_len(header),
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            data_count: get32(header, 36),
            residual: get32(header, 44),
        }
    }
}

impl Pdu for Response {
    #[inline(always)]
    fn write(&self, header: &mut Header) {
        let flags = flag(self.overflow, OVERFLOW) | flag(self.underflow, UNDERFLOW);
        let layout = Layout::new(header, opcode::RESPONSE, FINAL | flags)
            .put(2, [self.response, self.status])
            .data_len(self.data_len)
            .put32(16, self.task_tag)
            .put32(36, self.data_count)
            .put32(44, self.residual);
        self.numbers.put(layout);
    }
}

/// Task Management Function Request.
//= RFC 7143 §11.5
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRequest {
    /// Immediate delivery.
    pub immediate: bool,
    /// 1 abort task, 2 abort task set, 3 clear ACA, 4 clear task set, 5 LUN reset, 6 and 7 target
    /// warm and cold reset, 8 task reassign.
    pub function: u8,
    /// LUN field.
    pub lun: [u8; 8],
    /// ITT of the request.
    pub task_tag: u32,
    /// ITT of the task to abort, or [`NO_TAG`](super::NO_TAG).
    pub referenced_tag: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
    /// CmdSN of the task to abort.
    pub referenced_number: u32,
}

impl TaskRequest {
    /// From a header.
    pub fn parse(header: &Header) -> TaskRequest {
        TaskRequest {
            immediate: is_immediate(header),
            function: header[1] & 0x7f,
            lun: get_lun(header),
            task_tag: get32(header, 16),
            referenced_tag: get32(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
            referenced_number: get32(header, 32),
        }
    }
}

impl Pdu for TaskRequest {
    fn write(&self, header: &mut Header) {
        let opcode = opcode::TASK_REQUEST | flag(self.immediate, IMMEDIATE);
        Layout::new(header, opcode, FINAL | self.function)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.referenced_tag)
            .put32(24, self.command_number)
            .put32(28, self.expected_status)
            .put32(32, self.referenced_number);
    }
}

/// Task Management Function Response.
//= RFC 7143 §11.6
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskResponse {
    /// 0 complete, 1 no such task, 2 no such LUN, 5 not supported, 255 rejected.
    pub response: u8,
    /// ITT of the request.
    pub task_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
}

impl TaskResponse {
    /// From a header.
    pub fn parse(header: &Header) -> TaskResponse {
        TaskResponse {
            response: header[2],
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
        }
    }
}

impl Pdu for TaskResponse {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::TASK_RESPONSE, FINAL)
            .put(2, [self.response])
            .put32(16, self.task_tag);
        self.numbers.put(layout);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::iscsi::pdu::test::{LUN, NUMBERS, answer, golden, header};

    #[test]
    fn command_golden() {
        let mut expect = header("c1a1 0000 0000 0200 0001 0000 0000 0000 0000 00a1 0000 1000");
        expect[24..32].copy_from_slice(&[0, 0, 0, 9, 0, 0, 0, 8]);
        expect[32..].copy_from_slice(&[0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0]);
        expect[0] = 0x41;
        let command = Command {
            immediate: true,
            last: true,
            read: false,
            write: true,
            attribute: 1,
            data_len: 512,
            lun: LUN,
            task_tag: 0xa1,
            expected_len: 4096,
            command_number: 9,
            expected_status: 8,
            cdb: [0x8a, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 8, 0, 0],
        };
        golden(command, Command::build, Command::parse, expect);
    }

    #[test]
    fn response_golden() {
        let first = "2182 0002 0000 0014 0000 0000 0000 0000 0000 0005 0000 0000";
        let expect = answer(first, [0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 2, 0]);
        let response = Response {
            overflow: false,
            underflow: true,
            response: 0,
            status: 2,
            data_len: 20,
            task_tag: 5,
            numbers: NUMBERS,
            data_count: 6,
            residual: 512,
        };
        golden(response, Response::build, Response::parse, expect);
    }

    #[test]
    fn task_request_golden() {
        let mut expect = header("4285 0000 0000 0000 0001 0000 0000 0000 0000 0002 0000 0003");
        expect[24..36].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 6]);
        let request = TaskRequest {
            immediate: true,
            function: 5,
            lun: LUN,
            task_tag: 2,
            referenced_tag: 3,
            command_number: 4,
            expected_status: 5,
            referenced_number: 6,
        };
        golden(request, TaskRequest::build, TaskRequest::parse, expect);
    }

    #[test]
    fn task_response_golden() {
        let first = "2280 ff00 0000 0000 0000 0000 0000 0000 0000 0005 0000 0000";
        let response = TaskResponse { response: 255, task_tag: 5, numbers: NUMBERS };
        golden(response, TaskResponse::build, TaskResponse::parse, answer(first, [0; 12]));
    }
}
