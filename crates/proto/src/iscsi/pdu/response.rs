//! What a target sends.

use super::{
    CONTINUE, FINAL, Header, Layout, NO_TAG, Pdu, data_len, flag, get_lun, get16, get32, opcode,
};

/// The counters that every answer of a target carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// StatSN. Reserved in Data-In without status; the next one, not used up, in R2T and in
    /// NOP-In without a task tag.
    pub status: u32,
    /// ExpCmdSN: the next command number that is wanted.
    pub expected: u32,
    /// MaxCmdSN: the last one that may be used.
    pub max: u32,
}

impl Numbers {
    /// The counters of any answer.
    #[inline(always)]
    pub fn parse(header: &Header) -> Numbers {
        Numbers { status: get32(header, 24), expected: get32(header, 28), max: get32(header, 32) }
    }

    #[inline(always)]
    fn put(self, layout: Layout<'_>) {
        layout.put32(24, self.status).put32(28, self.expected).put32(32, self.max);
    }
}

/// How far the data moved fell short of, or went beyond, what the initiator expected.
const OVERFLOW: u8 = 0x04;
const UNDERFLOW: u8 = 0x02;

/// The end of a SCSI command.
//= RFC 7143 §11.4
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// `residual` more bytes could have been moved.
    pub overflow: bool,
    /// `residual` fewer bytes than expected were moved.
    pub underflow: bool,
    /// 0 completed at the target, 1 target failure.
    pub response: u8,
    /// SCSI status, when completed.
    pub status: u8,
    /// Length of the sense data and the two bytes before it.
    pub data_len: u32,
    /// The task.
    pub task_tag: u32,
    /// The counters.
    pub numbers: Numbers,
    /// How many Data-In and R2T went before.
    pub data_count: u32,
    /// See above.
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

/// Data of a read, and possibly its end.
//= RFC 7143 §11.7
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataIn {
    /// Ends its burst.
    pub last: bool,
    /// Is the end of the command: `status`, StatSN and the residual count.
    pub ends: bool,
    /// With `ends`: `residual` more bytes could have been moved.
    pub overflow: bool,
    /// With `ends`: `residual` fewer bytes than expected were moved.
    pub underflow: bool,
    /// With `ends`: SCSI status.
    pub status: u8,
    /// Length of the data.
    pub data_len: u32,
    /// The task.
    pub task_tag: u32,
    /// The counters.
    pub numbers: Numbers,
    /// Number of the PDU in its command.
    pub data_number: u32,
    /// Where the data belongs.
    pub offset: u32,
    /// See above.
    pub residual: u32,
}

impl DataIn {
    /// From a header.
    #[inline(always)]
    pub fn parse(header: &Header) -> DataIn {
        DataIn {
            last: header[1] & FINAL != 0,
            ends: header[1] & 0x01 != 0,
            overflow: header[1] & OVERFLOW != 0,
            underflow: header[1] & UNDERFLOW != 0,
            status: header[3],
            data_len: data_len(header),
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            data_number: get32(header, 36),
            offset: get32(header, 40),
            residual: get32(header, 44),
        }
    }
}

impl Pdu for DataIn {
    /// No acknowledgement is ever asked for, so the transfer tag names nothing.
    //= RFC 7143 §11.7.4: without the A bit the target transfer tag is 0xffffffff, the LUN reserved.
    #[inline(always)]
    fn write(&self, header: &mut Header) {
        let over = flag(self.overflow, OVERFLOW) | flag(self.underflow, UNDERFLOW);
        let flags = flag(self.last, FINAL) | flag(self.ends, 0x01) | over;
        let layout = Layout::new(header, opcode::DATA_IN, flags)
            .put(3, [self.status])
            .data_len(self.data_len)
            .put32(16, self.task_tag)
            .put32(20, NO_TAG)
            .put32(36, self.data_number)
            .put32(40, self.offset)
            .put32(44, self.residual);
        self.numbers.put(layout);
    }
}

/// The target is ready for a burst of data.
//= RFC 7143 §11.8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// Which logical unit.
    pub lun: [u8; 8],
    /// The task.
    pub task_tag: u32,
    /// To be copied into the data.
    pub transfer_tag: u32,
    /// The counters.
    pub numbers: Numbers,
    /// Number of the R2T in its command.
    pub number: u32,
    /// Where the burst begins.
    pub offset: u32,
    /// How long it is; never zero.
    pub len: u32,
}

impl ReadyToTransfer {
    /// From a header.
    pub fn parse(header: &Header) -> ReadyToTransfer {
        ReadyToTransfer {
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            numbers: Numbers::parse(header),
            number: get32(header, 36),
            offset: get32(header, 40),
            len: get32(header, 44),
        }
    }
}

impl Pdu for ReadyToTransfer {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::READY_TO_TRANSFER, FINAL)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag)
            .put32(36, self.number)
            .put32(40, self.offset)
            .put32(44, self.len);
        self.numbers.put(layout);
    }
}

/// The answer to a ping, or a ping.
//= RFC 7143 §11.19
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopIn {
    /// Length of the data sent back.
    pub data_len: u32,
    /// To be copied into the answer.
    pub lun: [u8; 8],
    /// The ping that is answered, or [`NO_TAG`].
    pub task_tag: u32,
    /// To be copied into the answer, or [`NO_TAG`] when none is wanted.
    pub transfer_tag: u32,
    /// The counters.
    pub numbers: Numbers,
}

impl NopIn {
    /// From a header.
    pub fn parse(header: &Header) -> NopIn {
        NopIn {
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            numbers: Numbers::parse(header),
        }
    }
}

impl Pdu for NopIn {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::NOP_IN, FINAL)
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag);
        self.numbers.put(layout);
    }
}

/// A step of a login.
//= RFC 7143 §11.13
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoginResponse {
    /// The target agrees to go on to `next_stage`.
    pub transit: bool,
    /// The text goes on in the next response.
    pub more: bool,
    /// Current stage, as in the request.
    pub stage: u8,
    /// Next stage, as in the request. Only with `transit`.
    pub next_stage: u8,
    /// Highest version of the protocol that the target speaks.
    pub version_max: u8,
    /// The version in use.
    pub version_active: u8,
    /// Length of the text.
    pub data_len: u32,
    /// As in the request.
    pub isid: [u8; 6],
    /// The target's part of the session's name, when the login is complete.
    pub tsih: u16,
    /// As in the request.
    pub task_tag: u32,
    /// The counters.
    pub numbers: Numbers,
    /// Status class in the high byte, detail in the low one; zero is success.
    pub status: u16,
}

impl LoginResponse {
    /// From a header.
    pub fn parse(header: &Header) -> LoginResponse {
        LoginResponse {
            transit: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            stage: header[1] >> 2 & 3,
            next_stage: header[1] & 3,
            version_max: header[2],
            version_active: header[3],
            data_len: data_len(header),
            isid: *header[8..].first_chunk().expect("a header has 48 bytes"),
            tsih: get16(header, 14),
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            status: get16(header, 36),
        }
    }
}

impl Pdu for LoginResponse {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.transit, FINAL) | flag(self.more, CONTINUE);
        let stages = self.stage << 2 | self.next_stage;
        let layout = Layout::new(header, opcode::LOGIN_RESPONSE, flags | stages)
            .put(2, [self.version_max, self.version_active])
            .data_len(self.data_len)
            .put(8, self.isid)
            .put(14, self.tsih.to_be_bytes())
            .put32(16, self.task_tag)
            .put(36, self.status.to_be_bytes());
        self.numbers.put(layout);
    }
}

/// An answer in text.
//= RFC 7143 §11.11
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextResponse {
    /// The target has said everything.
    pub last: bool,
    /// The text goes on in the next response.
    pub more: bool,
    /// Length of the text.
    pub data_len: u32,
    /// Which logical unit, to be copied.
    pub lun: [u8; 8],
    /// As in the request.
    pub task_tag: u32,
    /// To be copied into the next request, or [`NO_TAG`] when `last`.
    pub transfer_tag: u32,
    /// The counters.
    pub numbers: Numbers,
}

impl TextResponse {
    /// From a header.
    pub fn parse(header: &Header) -> TextResponse {
        TextResponse {
            last: header[1] & FINAL != 0,
            more: header[1] & CONTINUE != 0,
            data_len: data_len(header),
            lun: get_lun(header),
            task_tag: get32(header, 16),
            transfer_tag: get32(header, 20),
            numbers: Numbers::parse(header),
        }
    }
}

impl Pdu for TextResponse {
    fn write(&self, header: &mut Header) {
        let flags = flag(self.last, FINAL) | flag(self.more, CONTINUE);
        let layout = Layout::new(header, opcode::TEXT_RESPONSE, flags)
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, self.task_tag)
            .put32(20, self.transfer_tag);
        self.numbers.put(layout);
    }
}

/// The answer to a logout.
//= RFC 7143 §11.15
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogoutResponse {
    /// 0 closed, 1 connection not found, 2 recovery not supported, 3 clean-up failed.
    pub response: u8,
    /// As in the request.
    pub task_tag: u32,
    /// The counters.
    pub numbers: Numbers,
    /// Seconds to wait before the initiator tries to come back.
    pub time_to_wait: u16,
    /// Seconds after which tasks are forgotten.
    pub time_to_retain: u16,
}

impl LogoutResponse {
    /// From a header.
    pub fn parse(header: &Header) -> LogoutResponse {
        LogoutResponse {
            response: header[2],
            task_tag: get32(header, 16),
            numbers: Numbers::parse(header),
            time_to_wait: get16(header, 40),
            time_to_retain: get16(header, 42),
        }
    }
}

impl Pdu for LogoutResponse {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::LOGOUT_RESPONSE, FINAL)
            .put(2, [self.response])
            .put32(16, self.task_tag)
            .put(40, self.time_to_wait.to_be_bytes())
            .put(42, self.time_to_retain.to_be_bytes());
        self.numbers.put(layout);
    }
}

/// The answer to a task management request.
//= RFC 7143 §11.6
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskResponse {
    /// 0 complete, 1 no such task, 2 no such LUN, 5 not supported, 255 rejected.
    pub response: u8,
    /// As in the request.
    pub task_tag: u32,
    /// The counters.
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

/// News that nobody asked for.
//= RFC 7143 §11.9
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncMessage {
    /// Length of the sense data.
    pub data_len: u32,
    /// Which logical unit; only for event 0.
    pub lun: [u8; 8],
    /// The counters.
    pub numbers: Numbers,
    /// 0 SCSI event, 1 log out please, 2 connection will drop, 3 all will drop, 4 negotiate please.
    pub event: u8,
    /// Three parameters: seconds, for the events above.
    pub parameters: [u16; 3],
}

impl AsyncMessage {
    /// From a header.
    pub fn parse(header: &Header) -> AsyncMessage {
        AsyncMessage {
            data_len: data_len(header),
            lun: get_lun(header),
            numbers: Numbers::parse(header),
            event: header[36],
            parameters: [38, 40, 42].map(|at| get16(header, at)),
        }
    }
}

impl Pdu for AsyncMessage {
    fn write(&self, header: &mut Header) {
        let [first, second, third] = self.parameters.map(u16::to_be_bytes);
        let layout = Layout::new(header, opcode::ASYNC_MESSAGE, FINAL)
            .data_len(self.data_len)
            .put(8, self.lun)
            .put32(16, NO_TAG)
            .put(36, [self.event])
            .put(38, first)
            .put(40, second)
            .put(42, third);
        self.numbers.put(layout);
    }
}

/// A PDU was not taken; its header follows as data.
//= RFC 7143 §11.17
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reject {
    /// Why, by the table of the standard.
    pub reason: u8,
    /// Length of the header that follows.
    pub data_len: u32,
    /// The counters.
    pub numbers: Numbers,
}

impl Reject {
    /// From a header.
    pub fn parse(header: &Header) -> Reject {
        Reject { reason: header[2], data_len: data_len(header), numbers: Numbers::parse(header) }
    }
}

impl Pdu for Reject {
    fn write(&self, header: &mut Header) {
        let layout = Layout::new(header, opcode::REJECT, FINAL)
            .put(2, [self.reason])
            .data_len(self.data_len)
            .put32(16, NO_TAG);
        self.numbers.put(layout);
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::iscsi::pdu::test::{golden, header};

    const LUN: [u8; 8] = [0, 1, 0, 0, 0, 0, 0, 0];
    const NUMBERS: Numbers = Numbers { status: 0x21, expected: 0x22, max: 0x23 };

    /// The first 24 bytes as given, the counters, and the last twelve.
    fn answer(first: &str, last: [u8; 12]) -> Header {
        let mut expect = header(first);
        expect[24..36].copy_from_slice(&[0, 0, 0, 0x21, 0, 0, 0, 0x22, 0, 0, 0, 0x23]);
        expect[36..].copy_from_slice(&last);
        expect
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
    fn data_in_golden() {
        let first = "2585 0000 0000 1000 0000 0000 0000 0000 0000 0005 ffff ffff";
        let expect = answer(first, [0, 0, 0, 6, 0, 0, 0x10, 0, 0, 0, 2, 0]);
        let data = DataIn {
            last: true,
            ends: true,
            overflow: true,
            underflow: false,
            status: 0,
            data_len: 4096,
            task_tag: 5,
            numbers: NUMBERS,
            data_number: 6,
            offset: 4096,
            residual: 512,
        };
        golden(data, DataIn::build, DataIn::parse, expect);
    }

    #[test]
    fn ready_to_transfer_golden() {
        let first = "3180 0000 0000 0000 0001 0000 0000 0000 0000 0005 0000 0006";
        let expect = answer(first, [0, 0, 0, 7, 0, 1, 0, 0, 0, 4, 0, 0]);
        let ready = ReadyToTransfer {
            lun: LUN,
            task_tag: 5,
            transfer_tag: 6,
            numbers: NUMBERS,
            number: 7,
            offset: 65536,
            len: 262_144,
        };
        golden(ready, ReadyToTransfer::build, ReadyToTransfer::parse, expect);
    }

    #[test]
    fn nop_in_golden() {
        let first = "2080 0000 0000 0004 0001 0000 0000 0000 ffff ffff 0000 0006";
        let nop =
            NopIn { data_len: 4, lun: LUN, task_tag: NO_TAG, transfer_tag: 6, numbers: NUMBERS };
        golden(nop, NopIn::build, NopIn::parse, answer(first, [0; 12]));
    }

    #[test]
    fn login_response_golden() {
        let first = "2381 0000 0000 0055 4001 0203 0405 0607 0000 0008 0000 0000";
        let expect = answer(first, [2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        let login = LoginResponse {
            transit: true,
            more: false,
            stage: 0,
            next_stage: 1,
            version_max: 0,
            version_active: 0,
            data_len: 0x55,
            isid: [0x40, 1, 2, 3, 4, 5],
            tsih: 0x0607,
            task_tag: 8,
            numbers: NUMBERS,
            status: 0x0203,
        };
        golden(login, LoginResponse::build, LoginResponse::parse, expect);
    }

    #[test]
    fn text_response_golden() {
        let first = "2440 0000 0000 0010 0001 0000 0000 0000 0000 0005 0000 0006";
        let text = TextResponse {
            last: false,
            more: true,
            data_len: 16,
            lun: LUN,
            task_tag: 5,
            transfer_tag: 6,
            numbers: NUMBERS,
        };
        golden(text, TextResponse::build, TextResponse::parse, answer(first, [0; 12]));
    }

    #[test]
    fn logout_response_golden() {
        let first = "2680 0100 0000 0000 0000 0000 0000 0000 0000 0005 0000 0000";
        let expect = answer(first, [0, 0, 0, 0, 0, 2, 0, 20, 0, 0, 0, 0]);
        let logout = LogoutResponse {
            response: 1,
            task_tag: 5,
            numbers: NUMBERS,
            time_to_wait: 2,
            time_to_retain: 20,
        };
        golden(logout, LogoutResponse::build, LogoutResponse::parse, expect);
    }

    #[test]
    fn task_response_golden() {
        let first = "2280 ff00 0000 0000 0000 0000 0000 0000 0000 0005 0000 0000";
        let response = TaskResponse { response: 255, task_tag: 5, numbers: NUMBERS };
        golden(response, TaskResponse::build, TaskResponse::parse, answer(first, [0; 12]));
    }

    #[test]
    fn async_message_golden() {
        let first = "3280 0000 0000 0000 0001 0000 0000 0000 ffff ffff 0000 0000";
        let expect = answer(first, [1, 0, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0]);
        let message = AsyncMessage {
            data_len: 0,
            lun: LUN,
            numbers: NUMBERS,
            event: 1,
            parameters: [2, 3, 4],
        };
        golden(message, AsyncMessage::build, AsyncMessage::parse, expect);
    }

    #[test]
    fn reject_golden() {
        let first = "3f80 0400 0000 0030 0000 0000 0000 0000 ffff ffff 0000 0000";
        let reject = Reject { reason: 4, data_len: 48, numbers: NUMBERS };
        golden(reject, Reject::build, Reject::parse, answer(first, [0; 12]));
    }
}
