//! PDUs that move data: Data-Out, Data-In, R2T.

use super::{
    FINAL, Header, Layout, NO_TAG, Numbers, OVERFLOW, Pdu, UNDERFLOW, data_len, flag, get_lun,
    get32, opcode,
};

/// SCSI Data-Out.
//= RFC 7143 §11.7
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataOut {
    /// Last PDU of its sequence (F bit).
    pub last: bool,
    /// Length of the data.
    pub data_len: u32,
    /// LUN field; only for solicited data.
    pub lun: [u8; 8],
    /// ITT of the command.
    pub task_tag: u32,
    /// TTT of the R2T, or [`NO_TAG`](super::NO_TAG) for unsolicited data.
    pub transfer_tag: u32,
    /// ExpStatSN.
    pub expected_status: u32,
    /// DataSN: number of the PDU in its sequence.
    pub data_number: u32,
    /// Buffer offset.
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

/// SCSI Data-In, possibly with status.
//= RFC 7143 §11.7
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataIn {
    /// Last PDU of its sequence (F bit).
    pub last: bool,
    /// Carries status (S bit): `status`, StatSN and the residual count are valid.
    pub ends: bool,
    /// With `ends`: the command had `residual` more bytes than expected.
    pub overflow: bool,
    /// With `ends`: the command moved `residual` fewer bytes than expected.
    pub underflow: bool,
    /// With `ends`: SCSI status.
    pub status: u8,
    /// Length of the data.
    pub data_len: u32,
    /// ITT of the command.
    pub task_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
    /// DataSN: number of the PDU in its command.
    pub data_number: u32,
    /// Buffer offset.
    pub offset: u32,
    /// Residual count.
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
    /// We never ask for an acknowledgement (A bit).
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

/// Ready To Transfer (R2T).
//= RFC 7143 §11.8
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// LUN field.
    pub lun: [u8; 8],
    /// ITT of the command.
    pub task_tag: u32,
    /// Target transfer tag (TTT), which the Data-Out PDUs repeat.
    pub transfer_tag: u32,
    /// Sequence numbers.
    pub numbers: Numbers,
    /// R2TSN: number of the R2T in its command.
    pub number: u32,
    /// Buffer offset of the requested data.
    pub offset: u32,
    /// Desired data transfer length; never zero.
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
