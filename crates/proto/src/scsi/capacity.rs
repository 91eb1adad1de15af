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
    bytes[14] = LBPME | LBPRZ;
    data(bytes, be32(cdb, 10))
}

/// Logical blocks per physical block, as a power of two: whatever is below works in pages of
/// 4 KiB.
//= SBC-4 §READ CAPACITY (16) parameter data: LOGICAL BLOCKS PER PHYSICAL BLOCK EXPONENT
pub(super) fn physical_exponent(unit: &Unit) -> u8 {
    12_u32.saturating_sub(unit.geometry.block_bytes.trailing_zeros()) as u8
}
