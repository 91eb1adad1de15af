//! The data of commands, both ways, and the leave to send it.

use super::{
    FINAL, Header, Layout, NO_TAG, Numbers, OVERFLOW, Pdu, UNDERFLOW, data_len, flag, get_lun,
    get32, opcode,
};

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
