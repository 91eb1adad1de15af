//! PDUs of text, NOP, asynchronous messages and rejects.

use super::layout::{At, Bits, DataLen, Place, pdu};
use super::{CONTINUE, FINAL, HEADER_BYTES, Header, IMMEDIATE, NO_TAG, Numbers, Pdu, opcode};

pdu! {
    /// Text Request, such as SendTargets.
    //= RFC 7143 §11.10
    TextRequest, opcode::TEXT_REQUEST;

    /// Immediate delivery.
    immediate: bool = Bits(0, IMMEDIATE),
    /// The initiator has no more text (F bit).
    last: bool = Bits(1, FINAL),
    /// The text continues in the next request (C bit).
    more: bool = Bits(1, CONTINUE),
    /// Length of the text.
    data_len: u32 = DataLen,
    /// LUN field, copied from the response being continued.
    lun: [u8; 8] = At(8),
    /// ITT, the same throughout an exchange.
    task_tag: u32 = At(16),
    /// TTT of the response being continued, or [`NO_TAG`](super::NO_TAG).
    transfer_tag: u32 = At(20),
    /// CmdSN.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
}

pdu! {
    /// Text Response.
    //= RFC 7143 §11.11
    TextResponse, opcode::TEXT_RESPONSE;

    /// The target has no more text (F bit).
    last: bool = Bits(1, FINAL),
    /// The text continues in the next response (C bit).
    more: bool = Bits(1, CONTINUE),
    /// Length of the text.
    data_len: u32 = DataLen,
    /// LUN field, to be copied into the next request.
    lun: [u8; 8] = At(8),
    /// Task tag of the request.
    task_tag: u32 = At(16),
    /// TTT, to be copied into the next request, or [`NO_TAG`] when `last`.
    transfer_tag: u32 = At(20),
    /// Sequence numbers.
    numbers: Numbers = At(24),
}

pdu! {
    /// NOP-Out: a ping, or the response to one.
    //= RFC 7143 §11.18
    NopOut, opcode::NOP_OUT, Bits(1, FINAL) => true;

    /// Immediate delivery; always for a response.
    immediate: bool = Bits(0, IMMEDIATE),
    /// Length of the ping data.
    data_len: u32 = DataLen,
    /// LUN field, copied from the NOP-In.
    lun: [u8; 8] = At(8),
    /// ITT, or [`NO_TAG`](super::NO_TAG) if no response is requested.
    task_tag: u32 = At(16),
    /// TTT of the NOP-In, or [`NO_TAG`](super::NO_TAG).
    transfer_tag: u32 = At(20),
    /// CmdSN.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
}

impl NopOut {
    /// The response to a ping of the target.
    //= RFC 7143 §11.18: it copies transfer tag and LUN, and is immediate.
    pub fn answer(ping: &NopIn, command_number: u32, expected_status: u32) -> NopOut {
        let (lun, transfer_tag) = (ping.lun, ping.transfer_tag);
        let (immediate, data_len, task_tag) = (true, 0, NO_TAG);
        NopOut { immediate, data_len, lun, task_tag, transfer_tag, command_number, expected_status }
    }
}

pdu! {
    /// NOP-In: the response to a ping, or a ping.
    //= RFC 7143 §11.19
    NopIn, opcode::NOP_IN, Bits(1, FINAL) => true;

    /// Length of the ping data.
    data_len: u32 = DataLen,
    /// LUN field, to be copied into the response.
    lun: [u8; 8] = At(8),
    /// ITT of the NOP-Out, or [`NO_TAG`].
    task_tag: u32 = At(16),
    /// TTT, to be copied into the response, or [`NO_TAG`] if none is requested.
    transfer_tag: u32 = At(20),
    /// Sequence numbers.
    numbers: Numbers = At(24),
}

pdu! {
    /// Asynchronous Message.
    //= RFC 7143 §11.9
    AsyncMessage, opcode::ASYNC_MESSAGE, Bits(1, FINAL) => true, At(16) => NO_TAG;

    /// Length of the sense data.
    data_len: u32 = DataLen,
    /// LUN field; only for event 0.
    lun: [u8; 8] = At(8),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// 0 SCSI event, 1 logout requested, 2 connection will drop, 3 all will drop, 4 negotiation
    /// requested.
    event: u8 = At(36),
    /// Three parameters, which are seconds for these events.
    parameters: [u16; 3] = At(38),
}

pdu! {
    /// Reject; the rejected header follows as data.
    //= RFC 7143 §11.17
    Reject, opcode::REJECT, Bits(1, FINAL) => true, At(16) => NO_TAG;

    /// Reason code.
    reason: u8 = At(2),
    /// Length of the rejected header.
    data_len: u32 = DataLen,
    /// Sequence numbers.
    numbers: Numbers = At(24),
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
