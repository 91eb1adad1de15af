//! PDUs of text, NOP, asynchronous messages and rejects.

use super::{
    CONTINUE, FINAL, Header, IMMEDIATE, Layout, NO_TAG, Numbers, Pdu, data_len, flag, get_lun,
    get16, get32, is_immediate, opcode,
};

/// Text Request, such as SendTargets.
//= RFC 7143 §11.10
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextRequest {
    /// Immediate delivery.
    pub immediate: bool,
    /// The initiator has no more text (F bit).
    pub last: bool,
    /// The text continues in the next request (C bit).
    pub more: bool,
    /// Length of the text.
    pub data_len: u32,
    /// LUN field, copied from the response being continued.
    pub lun: [u8; 8],
    /// ITT, the same throughout an exchange.
    pub task_tag: u32,
    /// TTT of the response being continued, or [`NO_TAG`](super::NO_TAG).
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

/// Text Response.
//= RFC 7143 §11.11
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TextResponse {
    /// The target has no more text (F bit).
    pub last: bool,
    /// The text continues in the next response (C bit).
    pub more: bool,
    /// Length of the text.
    pub data_len: u32,
    /// LUN field, to be copied into the next request.
    pub lun: [u8; 8],
    /// As in the request.
    pub task_tag: u32,
    /// TTT, to be copied into the next request, or [`NO_TAG`] when `last`.
    pub transfer_tag: u32,
    /// Sequence numbers.
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

/// NOP-Out: a ping, or the response to one.
//= RFC 7143 §11.18
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopOut {
    /// Immediate delivery; always for a response.
    pub immediate: bool,
    /// Length of the ping data.
    pub data_len: u32,
    /// LUN field, copied from the NOP-In.
    pub lun: [u8; 8],
    /// ITT, or [`NO_TAG`](super::NO_TAG) if no response is wanted.
    pub task_tag: u32,
    /// TTT of the NOP-In, or [`NO_TAG`](super::NO_TAG).
    pub transfer_tag: u32,
    /// CmdSN.
    pub command_number: u32,
    /// ExpStatSN.
    pub expected_status: u32,
}

impl NopOut {
    /// The response to a ping of the target.
    //= RFC 7143 §11.18: it copies transfer tag and LUN, and is immediate.
    pub fn answer(ping: &NopIn, command_number: u32, expected_status: u32) -> NopOut {
        let (lun, transfer_tag) = (ping.lun, ping.transfer_tag);
        let (immediate, data_len, task_tag) = (true, 0, NO_TAG);
        NopOut { immediate, data_len, lun, task_tag, transfer_tag, command_number, expected_status }
    }

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

/// NOP-In: the response to a ping, or a ping.
//= RFC 7143 §11.19
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NopIn {
    /// Length of the ping data.
    pub data_len: u32,
    /// LUN field, to be copied into the response.
    pub lun: [u8; 8],
    /// ITT of the NOP-Out, or [`NO_TAG`].
    pub task_tag: u32,
    /// TTT, to be copied into the response, or [`NO_TAG`] if none is wanted.
    pub transfer_tag: u32,
    /// Sequence numbers.
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

/// Asynchronous Message.
//= RFC 7143 §11.9
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AsyncMessage {
    /// Length of the sense data.
    pub data_len: u32,
    /// LUN field; only for event 0.
    pub lun: [u8; 8],
    /// Sequence numbers.
    pub numbers: Numbers,
    /// 0 SCSI event, 1 logout requested, 2 connection will drop, 3 all will drop, 4 negotiation
    /// requested.
    pub event: u8,
    /// Three parameters, which are seconds for these events.
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

/// Reject; the rejected header follows as data.
//= RFC 7143 §11.17
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reject {
    /// Reason code.
    pub reason: u8,
    /// Length of the rejected header.
    pub data_len: u32,
    /// Sequence numbers.
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
    use crate::iscsi::pdu::test::{LUN, NUMBERS, answer, golden, header};

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
    fn nop_in_golden() {
        let first = "2080 0000 0000 0004 0001 0000 0000 0000 ffff ffff 0000 0006";
        let nop =
            NopIn { data_len: 4, lun: LUN, task_tag: NO_TAG, transfer_tag: 6, numbers: NUMBERS };
        golden(nop, NopIn::build, NopIn::parse, answer(first, [0; 12]));
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
