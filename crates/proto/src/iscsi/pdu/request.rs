//! What an initiator sends.

use super::{
    CONTINUE, FINAL, Header, IMMEDIATE, Layout, Pdu, data_len, flag, get_lun, get16, get32,
    is_immediate, opcode,
};

/// A SCSI command.
//= RFC 7143 §11.3
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Deliver it at once, whatever its CmdSN.
    pub immediate: bool,
    /// No unsolicited Data-Out follows.
    pub last: bool,
    /// Data may come back.
    pub read: bool,
    /// Data goes out.
    pub write: bool,
    /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    pub attribute: u8,
    /// Length of the immediate data.
    pub data_len: u32,
    /// Which logical unit.
    pub lun: [u8; 8],
    /// The initiator's name for the task.
    pub task_tag: u32,
    /// How many bytes the initiator expects to move.
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

/// Data of a write.
//= RFC 7143 §11.7
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataOut {
    /// Ends its burst.
    pub last: bool,
    /// Length of the data.
    pub data_len: u32,
    /// Which logical unit; only when solicited.
    pub lun: [u8; 8],
    /// The task.
    pub task_tag: u32,
    /// The R2T that asked for it, or [`NO_TAG`](super::NO_TAG).
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub expected_status: u32,
    /// Number of the PDU in its burst.
    pub data_number: u32,
    /// Where the data belongs.
    pub offset: u32,
}

impl DataOut {
    /// From a header.
    #[inline(always)]
    pub fn parse(header: &Header) -> DataOut {
        DataOut {
            last: header[1] & FINAL != 0,
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            expected_status: get32(header, 28),
            data_number: get32(header, 36),
            offset: get32(header, 40),
        }
    }
}

impl Pdu for DataOut {
    #[inline(always)]
    fn write(&self, header: &mut Header) {
        Layout::new(header, opcode::DATA_OUT, flag(self.last, FINAL))
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag)
            .put32(28, self.expected_status)
            .put32(36, self.data_number)
            .put32(40, self.offset);
    }
}

/// A ping, or the answer to one.
//= RFC 7143 §11.18
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopOut {
    /// Deliver it at once; always so for an answer.
    pub immediate: bool,
    /// Length of the data to be sent back.
    pub data_len: u32,
    /// Copied from the NOP-In that is answered.
    pub lun: [u8; 8],
    /// Names the ping, or [`NO_TAG`](super::NO_TAG) when no answer is wanted.
    pub task_tag: u32,
    /// Copied from the NOP-In that is answered, or [`NO_TAG`](super::NO_TAG).
    pub transfer_tag: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl NopOut {
    /// From a header.
    pub fn parse(header: &Header) -> NopOut {
        NopOut {
            immediate: is_immediate(header),
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for NopOut {
    fn write(&self, header: &mut Header) {
        Layout::new(header, opcode::NOP_OUT | flag(self.immediate, IMMEDIATE), FINAL)
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag)
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// A step of a login.
//= RFC 7143 §11.12
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginRequest {
    /// The initiator is ready to go on to `next_stage`.
    pub transit: bool,
    /// The text goes on in the next request.
    pub more: bool,
    /// Current stage: 0 security, 1 operational.
    pub stage: u8,
    /// Next stage: 1 operational, 3 full feature phase. Only with `transit`.
    pub next_stage: u8,
    /// Highest version of the protocol that the initiator speaks.
    pub version_max: u8,
    /// Lowest version.
    pub version_min: u8,
    /// Length of the text.
    pub data_len: u32,
    /// The initiator's part of the session's name.
    pub isid: [u8; 6],
    /// The target's part; zero for a new session.
    pub tsih: u16,
    /// The same throughout a login.
    pub task_tag: u32,
    /// The initiator's name for the connection.
    pub connection: u16,
    /// CmdSN: the first of the session.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl LoginRequest {
    /// From a header.
    pub fn parse(header: &Header) -> LoginRequest {
        LoginRequest {
            transit: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            stage: header[1] >> 2 & 3,
            next_stage: header[1] & 3,
            version_max: header[2],
            version_min: header[3],
            data_len: data_len(header),
            isid: *header[8..].first_chunk().expect("a header has 48 bytes"),
            tsih: get16(header, 14),
            task_tag: get32(header, 16),
            connection: get16(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for LoginRequest {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.transit, FINAL) | flag(self.more, CONTINUE);
        let stages = self.stage << 2 | self.next_stage;
        Layout::new(header, opcode::LOGIN_REQUEST | IMMEDIATE, flags | stages)
            .put(2, [self.version_max, self.version_min])
            .data_len(self.data_len)
            .put(8, self.isid)
            .put(14, self.tsih.to_be_bytes())
            .put32(16, self.task_tag)
            .put(20, self.connection.to_be_bytes())
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// A request in text, such as for the list of targets.
//= RFC 7143 §11.10
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRequest {
    /// Deliver it at once.
    pub immediate: bool,
    /// The initiator has said everything.
    pub last: bool,
    /// The text goes on in the next request.
    pub more: bool,
    /// Length of the text.
    pub data_len: u32,
    /// Which logical unit, copied from the response that is continued.
    pub lun: [u8; 8],
    /// The same throughout an exchange.
    pub task_tag: u32,
    /// Copied from the response that is continued, or [`NO_TAG`](super::NO_TAG).
    pub transfer_tag: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl TextRequest {
    /// From a header.
    pub fn parse(header: &Header) -> TextRequest {
        TextRequest {
            immediate: is_immediate(header),
            last: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for TextRequest {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.last, FINAL) | flag(self.more, CONTINUE);
        Layout::new(header, opcode::TEXT_REQUEST | flag(self.immediate, IMMEDIATE), flags)
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag)
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// A request to end the session or a connection.
//= RFC 7143 §11.14
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogoutRequest {
    /// Deliver it at once.
    pub immediate: bool,
    /// 0 close the session, 1 close the connection, 2 remove it for recovery.
    pub reason: u8,
    /// Names the request.
    pub task_tag: u32,
    /// Which connection; not for reason 0.
    pub connection: u16,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl LogoutRequest {
    /// From a header.
    pub fn parse(header: &Header) -> LogoutRequest {
        LogoutRequest {
            immediate: is_immediate(header),
            reason: header[1] & 0x7f,
            task_tag: get32(header, 16),
            connection: get16(header, 20),
            command_number: get32(header, 24),
            expected_status: get32(header, 28),
        }
    }
}

impl Pdu for LogoutRequest {
    fn write(&self, header: &mut Header) {
        let opcode = opcode::LOGOUT_REQUEST | flag(self.immediate, IMMEDIATE);
        Layout::new(header, opcode, FINAL | self.reason)
            .put32(16, self.task_tag)
            .put(20, self.connection.to_be_bytes())
            .put32(24, self.command_number)
            .put32(28, self.expected_status);
    }
}

/// A task management request.
//= RFC 7143 §11.5
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskRequest {
    /// Deliver it at once.
    pub immediate: bool,
    /// 1 abort task, 2 abort task set, 3 clear ACA, 4 clear task set, 5 LUN reset, 6 and 7 target
    /// warm and cold reset, 8 task reassign.
    pub function: u8,
    /// Which logical unit.
    pub lun: [u8; 8],
    /// Names the request.
    pub task_tag: u32,
    /// The task to be aborted, or [`NO_TAG`](super::NO_TAG).
    pub referenced_tag: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
    /// CmdSN of the task to be aborted.
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

#[cfg(test)]
mod test {
    use super::*;
    use crate::iscsi::pdu::test::{golden, header};

    const LUN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];

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
    fn data_out_golden() {
        let mut expect = header("0580 0000 0000 0400 0001 0000 0000 0000 0000 0002 0000 0003");
        expect[28..32].copy_from_slice(&[0, 0, 0, 4]);
        expect[36..44].copy_from_slice(&[0, 0, 0, 5, 0, 1, 0, 0]);
        let data = DataOut {
            last: true,
            data_len: 1024,
            lun: LUN,
            task_tag: 2,
            transfer_tag: 3,
            expected_status: 4,
            data_number: 5,
            offset: 65536,
        };
        golden(data, DataOut::build, DataOut::parse, expect);
    }

    #[test]
    fn nop_out_golden() {
        let mut expect = header("4080 0000 0000 0007 0001 0000 0000 0000 ffff ffff 0000 0003");
        expect[24..32].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 5]);
        let nop = NopOut {
            immediate: true,
            data_len: 7,
            lun: LUN,
            task_tag: u32::MAX,
            transfer_tag: 3,
            command_number: 4,
            expected_status: 5,
        };
        golden(nop, NopOut::build, NopOut::parse, expect);
    }

    #[test]
    fn login_request_golden() {
        let mut expect = header("4387 0201 0000 0055 4001 0203 0405 0607 0000 0008 0009 0000");
        expect[24..32].copy_from_slice(&[0, 0, 0, 10, 0, 0, 0, 11]);
        let login = LoginRequest {
            transit: true,
            more: false,
            stage: 1,
            next_stage: 3,
            version_max: 2,
            version_min: 1,
            data_len: 0x55,
            isid: [0x40, 1, 2, 3, 4, 5],
            tsih: 0x0607,
            task_tag: 8,
            connection: 9,
            command_number: 10,
            expected_status: 11,
        };
        golden(login, LoginRequest::build, LoginRequest::parse, expect);
    }

    #[test]
    fn text_request_golden() {
        let mut expect = header("0440 0000 0000 0010 0001 0000 0000 0000 0000 0002 ffff ffff");
        expect[24..32].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 5]);
        let text = TextRequest {
            immediate: false,
            last: false,
            more: true,
            data_len: 16,
            lun: LUN,
            task_tag: 2,
            transfer_tag: u32::MAX,
            command_number: 4,
            expected_status: 5,
        };
        golden(text, TextRequest::build, TextRequest::parse, expect);
    }

    #[test]
    fn logout_request_golden() {
        let mut expect = header("4681 0000 0000 0000 0000 0000 0000 0000 0000 0002 0003 0000");
        expect[24..32].copy_from_slice(&[0, 0, 0, 4, 0, 0, 0, 5]);
        let logout = LogoutRequest {
            immediate: true,
            reason: 1,
            task_tag: 2,
            connection: 3,
            command_number: 4,
            expected_status: 5,
        };
        golden(logout, LogoutRequest::build, LogoutRequest::parse, expect);
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
}
