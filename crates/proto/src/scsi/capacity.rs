//! READ CAPACITY.

use super::condition::ready;
use super::field::{be32, put};
use super::{Cdb, Plan, Sense, Unit, data};

/// Logical block provisioning management enabled: UNMAP and WRITE SAME with UNMAP work.
const LBPME: u8 = 0x80;
/// Trimmed blocks read as zeroes.
const LBPRZ: u8 = 0x40;

//= SBC-4 §READ CAPACITY (10) command: FFFFFFFFh if the address needs more than 32 bits.
pub(super) fn read_capacity_10(unit: &Unit, _: &Cdb) -> Result<Plan, Sense> {
    ready(unit)?;
    let last = unit.geometry.blocks - 1;
    let mut bytes = vec![0; 8];
    put(&mut bytes, 0, u32::try_from(last).unwrap_or(u32::MAX).to_be_bytes());
    put(&mut bytes, 4, unit.geometry.block_bytes.to_be_bytes());
    Ok(Plan::Data(bytes))
}

//= SBC-4 §READ CAPACITY (16) command
pub(super) fn read_capacity_16(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    ready(unit)?;
    let mut bytes = vec![0; 32];
    put(&mut bytes, 0, (unit.geometry.blocks - 1).to_be_bytes());
    put(&mut bytes, 8, unit.geometry.block_bytes.to_be_bytes());
    bytes[13] = physical_exponent(unit);
    bytes[14] = LBPME | if unit.geometry.trim_zeroes { LBPRZ } else { 0 };
    data(bytes, be32(cdb, 10))
}

/// Logical blocks per physical block, as a power of two: storage below works in pages of 4 KiB.
//= SBC-4 §READ CAPACITY (16) parameter data: LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT
pub(super) fn physical_exponent(unit: &Unit) -> u8 {
    12_u32.saturating_sub(unit.geometry.block_bytes.trailing_zeros()) as u8
}

#[cfg(test)]
mod test {
    use super::super::cdb as build;
    use super::super::test::{answer, refusal, unit};
    use super::*;

    #[test]
    fn ten_golden() {
        let ten = |bytes, block| answer(&unit(bytes, block), &build::read_capacity10());
        assert_eq!(ten(1 << 30, 512), [0, 0x1f, 0xff, 0xff, 0, 0, 2, 0]);
        assert_eq!(ten(0x1_0000_0000 * 512, 512), [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]);
        assert_eq!(ten(0x1_0000_0001 * 512, 512), [0xff, 0xff, 0xff, 0xff, 0, 0, 2, 0]);
        assert_eq!(ten(65536, 65536), [0, 0, 0, 0, 0, 1, 0, 0]);
    }

    #[test]
    fn sixteen_golden() {
        let mut expect = [0; 32];
        expect[4..15].copy_from_slice(&[0, 0x1f, 0xff, 0xff, 0, 0, 2, 0, 0, 3, 0xc0]);
        let small = unit(1 << 30, 512);
        assert_eq!(answer(&small, &build::read_capacity16(32)), expect);
        for len in 0..32 {
            assert_eq!(answer(&small, &build::read_capacity16(len)), expect[..len as usize]);
        }
        let huge = answer(&unit(1 << 63, 4096), &build::read_capacity16(u32::MAX));
        assert_eq!(huge[..15], [0, 7, 255, 255, 255, 255, 255, 255, 0, 0, 0x10, 0, 0, 0, 0xc0]);
        assert_eq!(huge.len(), 32);
    }

    #[test]
    fn physical_blocks_are_4k_at_least() {
        let exponents =
            [512, 1024, 2048, 4096, 8192, 65536].map(|b| physical_exponent(&unit(0, b)));
        assert_eq!(exponents, [3, 2, 1, 0, 0, 0]);
    }

    #[test]
    fn no_blocks_no_capacity() {
        let none = unit(0, 512);
        assert_eq!(refusal(&none, &build::read_capacity10()), Sense::MEDIUM_NOT_PRESENT);
        assert_eq!(refusal(&none, &build::read_capacity16(32)), Sense::MEDIUM_NOT_PRESENT);
    }

    #[test]
    fn other_service_actions_are_invalid() {
        assert_eq!(refusal(&unit(512, 512), &[0x9e, 0x11]), Sense::cdb_bit(1, 4));
    }
}
