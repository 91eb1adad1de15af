//! PDUs that move data: Data-Out, Data-In, R2T.

use super::layout::{At, Bits, DataLen, Place, pdu};
use super::{FINAL, HEADER_BYTES, Header, NO_TAG, Numbers, OVERFLOW, Pdu, UNDERFLOW, opcode};

pdu! {
    /// SCSI Data-Out.
    //= RFC 7143 §11.7
    DataOut inline(always), opcode::DATA_OUT;

    /// Last PDU of its sequence (F bit).
    last: bool = Bits(1, FINAL),
    /// Length of the data.
    data_len: u32 = DataLen,
    /// LUN field; only for solicited data.
    lun: [u8; 8] = At(8),
    /// ITT of the command.
    task_tag: u32 = At(16),
    /// TTT of the R2T, or [`NO_TAG`](super::NO_TAG) for unsolicited data.
    transfer_tag: u32 = At(20),
    /// ExpStatSN.
    expected_status: u32 = At(28),
    /// DataSN: number of the PDU in its sequence.
    data_number: u32 = At(36),
    /// Buffer offset.
    offset: u32 = At(40),
}

pdu! {
    /// SCSI Data-In, possibly with status. We never request an acknowledgement (A bit).
    //= RFC 7143 §11.7
    //= RFC 7143 §11.7.4: without the A bit the target transfer tag is 0xffffffff, the LUN reserved.
    DataIn inline(always), opcode::DATA_IN, At(20) => NO_TAG;

    /// Last PDU of its sequence (F bit).
    last: bool = Bits(1, FINAL),
    /// Carries status (S bit): `status`, StatSN and the residual count are valid.
    ends: bool = Bits(1, 0x01),
    /// With `ends`: the command had `residual` more bytes than expected.
    overflow: bool = Bits(1, OVERFLOW),
    /// With `ends`: the command moved `residual` fewer bytes than expected.
    underflow: bool = Bits(1, UNDERFLOW),
    /// With `ends`: SCSI status.
    status: u8 = At(3),
    /// Length of the data.
    data_len: u32 = DataLen,
    /// ITT of the command.
    task_tag: u32 = At(16),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// DataSN: number of the PDU in its command.
    data_number: u32 = At(36),
    /// Buffer offset.
    offset: u32 = At(40),
    /// Residual count.
    residual: u32 = At(44),
}

pdu! {
    /// Ready To Transfer (R2T).
    //= RFC 7143 §11.8
    ReadyToTransfer, opcode::READY_TO_TRANSFER, Bits(1, FINAL) => true;

    /// LUN field.
    lun: [u8; 8] = At(8),
    /// ITT of the command.
    task_tag: u32 = At(16),
    /// Target transfer tag (TTT), which the Data-Out PDUs repeat.
    transfer_tag: u32 = At(20),
    /// Sequence numbers.
    numbers: Numbers = At(24),
    /// R2TSN: number of the R2T in its command.
    number: u32 = At(36),
    /// Buffer offset of the requested data.
    offset: u32 = At(40),
    /// Desired data transfer length; never zero.
    len: u32 = At(44),
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::iscsi::pdu::test::{LUN, NUMBERS, answer, golden, header};

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
}
