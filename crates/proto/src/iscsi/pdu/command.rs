//! PDUs of SCSI commands and task management.

use super::layout::{At, Bits, DataLen, Place, pdu};
use super::{FINAL, HEADER_BYTES, Header, IMMEDIATE, Numbers, OVERFLOW, Pdu, UNDERFLOW, opcode};

pdu! {
    /// SCSI Command.
    //= RFC 7143 §11.3
    Command inline(always), opcode::COMMAND;

    /// Immediate delivery (I bit).
    immediate: bool = Bits(0, IMMEDIATE),
    /// No unsolicited Data-Out follows (F bit).
    last: bool = Bits(1, FINAL),
    /// The command may return data (R bit).
    read: bool = Bits(1, 0x40),
    /// The command sends data (W bit).
    write: bool = Bits(1, 0x20),
    /// Task attribute: 0 untagged, 1 simple, 2 ordered, 3 head of queue, 4 ACA.
    attribute: u8 = Bits(1, 0x07),
    /// Length of the immediate data.
    data_len: u32 = DataLen,
    /// LUN field.
    lun: [u8; 8] = At(8),
    /// Initiator task tag (ITT).
    task_tag: u32 = At(16),
    /// Expected data transfer length.
    expected_len: u32 = At(20),
    /// CmdSN.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
    /// The command descriptor block.
    cdb: [u8; 16] = At(32),
}

pdu! {
    /// SCSI Response.
    //= RFC 7143 §11.4
    Response inline(always), opcode::RESPONSE, Bits(1, FINAL) => true;

    /// The command had `residual` more bytes than expected.
    overflow: bool = Bits(1, OVERFLOW),
    /// The command moved `residual` fewer bytes than expected.
    underflow: bool = Bits(1, UNDERFLOW),
    /// 0 completed at the target, 1 target failure.
    response: u8 = At(2),
    /// SCSI status, when completed.
    status: u8 = At(3),
    /// Length of the sense data and the two bytes before it.
    data_len: u32 = DataLen,
    /// ITT of the command.
    task_tag: u32 = At(16),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// Number of Data-In PDUs and R2Ts sent for it (ExpDataSN).
    data_count: u32 = At(36),
    /// Residual count.
    residual: u32 = At(44),
}

pdu! {
    /// Task Management Function Request.
    //= RFC 7143 §11.5
    TaskRequest, opcode::TASK_REQUEST, Bits(1, FINAL) => true;

    /// Immediate delivery.
    immediate: bool = Bits(0, IMMEDIATE),
    /// 1 abort task, 2 abort task set, 3 clear ACA, 4 clear task set, 5 LUN reset, 6 and 7 target
    /// warm and cold reset, 8 task reassign.
    function: u8 = Bits(1, 0x7f),
    /// LUN field.
    lun: [u8; 8] = At(8),
    /// ITT of the request.
    task_tag: u32 = At(16),
    /// ITT of the task to abort, or [`NO_TAG`](super::NO_TAG).
    referenced_tag: u32 = At(20),
    /// CmdSN.
    command_number: u32 = At(24),
    /// ExpStatSN.
    expected_status: u32 = At(28),
    /// CmdSN of the task to abort.
    referenced_number: u32 = At(32),
}

pdu! {
    /// Task Management Function Response.
    //= RFC 7143 §11.6
    TaskResponse, opcode::TASK_RESPONSE, Bits(1, FINAL) => true;

    /// 0 complete, 1 no such task, 2 no such LUN, 5 not supported, 255 rejected.
    response: u8 = At(2),
    /// ITT of the request.
    task_tag: u32 = At(16),
    /// Sequence numbers.
    numbers: Numbers = At(24),
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
