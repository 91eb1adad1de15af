//! Data in both directions, and R2T.

use super::{Common, Layout, SHORT_BYTES, Short, flag, get16, get32, kind};

/// H2CData or C2HData, without its data.
//= NVMe-TCP §3.6.2.8: Host to Controller Data Transfer.
//= NVMe-TCP §3.6.2.9: Controller to Host Data Transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data {
    /// [`kind::H2C_DATA`] or [`kind::C2H_DATA`].
    pub kind: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Offset of the data in the PDU (PDO).
    pub data_offset: u8,
    /// Length of the PDU.
    pub pdu_len: u32,
    /// Command identifier (CCCID).
    pub command: u16,
    /// TTAG of the R2T; only from the host.
    pub transfer_tag: u16,
    /// Offset in the data of the command (DATAO).
    pub offset: u32,
    /// Length of the data (DATAL).
    pub len: u32,
}

impl Data {
    /// Parses a PDU header.
    #[inline(always)]
    pub fn parse(bytes: &Short) -> Data {
        Data {
            kind: bytes[0],
            flags: bytes[1],
            data_offset: bytes[3],
            pdu_len: get32(bytes, 4),
            command: get16(bytes, 8),
            transfer_tag: get16(bytes, 10),
            offset: get32(bytes, 12),
            len: get32(bytes, 16),
        }
    }

    /// Builds a PDU header.
    #[inline(always)]
    pub fn build(&self) -> Short {
        let common = Common {
            kind: self.kind,
            flags: self.flags,
            header_len: SHORT_BYTES as u8,
            data_offset: self.data_offset,
            len: self.pdu_len,
        };
        let layout = Layout([0; SHORT_BYTES]).common(common).put16(8, self.command);
        layout.put16(10, self.transfer_tag).put32(12, self.offset).put32(16, self.len).0
    }

    /// Whether LAST_PDU is set.
    #[inline(always)]
    pub fn last(&self) -> bool {
        self.flags & flag::LAST != 0
    }

    /// Whether SUCCESS is set.
    #[inline(always)]
    pub fn success(&self) -> bool {
        self.flags & flag::SUCCESS != 0
    }
}

/// R2T: the controller solicits data.
//= NVMe-TCP §3.6.2.10: Ready to Transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadyToTransfer {
    /// Command identifier (CCCID).
    pub command: u16,
    /// TTAG, which the data repeats.
    pub transfer_tag: u16,
    /// Offset in the data of the command (R2TO).
    pub offset: u32,
    /// Length (R2TL).
    pub len: u32,
}

impl ReadyToTransfer {
    /// Parses a PDU header.
    pub fn parse(bytes: &Short) -> ReadyToTransfer {
        ReadyToTransfer {
            command: get16(bytes, 8),
            transfer_tag: get16(bytes, 10),
            offset: get32(bytes, 12),
            len: get32(bytes, 16),
        }
    }

    /// Builds a PDU header.
    pub fn build(&self) -> Short {
        let layout = Layout::new(kind::R2T).put16(8, self.command).put16(10, self.transfer_tag);
        layout.put32(12, self.offset).put32(16, self.len).0
    }
}

#[cfg(test)]
mod test {
    use super::super::test::hexadecimal;
    use super::*;

    #[test]
    fn data_golden() {
        let data = Data {
            kind: kind::H2C_DATA,
            flags: flag::LAST,
            data_offset: 24,
            pdu_len: 24 + 0x2000,
            command: 0x0102,
            transfer_tag: 0x0304,
            offset: 0x1000,
            len: 0x2000,
        };
        let bytes = hexadecimal("06 04 18 18 18200000 0201 0403 00100000 00200000");
        assert_eq!(data.build(), bytes);
        assert_eq!(Data::parse(&bytes), data);
        assert!(data.last() && !data.success());
        let answer = Data { kind: kind::C2H_DATA, flags: 0x0c, transfer_tag: 0, ..data };
        let bytes = hexadecimal("07 0c 18 18 18200000 0201 0000 00100000 00200000");
        assert_eq!(answer.build(), bytes);
        assert!(answer.last() && answer.success());
    }

    #[test]
    fn ready_to_transfer_golden() {
        let ready =
            ReadyToTransfer { command: 7, transfer_tag: 0x8001, offset: 0x40000, len: 0x20000 };
        let bytes = hexadecimal("09 00 18 00 18000000 0700 0180 00000400 00000200");
        assert_eq!(ready.build(), bytes);
        assert_eq!(ReadyToTransfer::parse(&bytes), ready);
    }
}
