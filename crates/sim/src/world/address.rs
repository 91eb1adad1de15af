//! Names of targets, and the units that they have.

/// Names that differ in more than one bit.
pub(super) const NAMES: [&str; 9] =
    ["ash", "birch", "cedar", "dogwood", "elderberry", "fir", "ginkgo-tree", "hazel", "ironwood"];

/// Address of a unit: its target's name after `iqn.` or `nqn.`, and LUN or NSID.
#[derive(Clone, Debug)]
pub(crate) struct Address {
    pub(crate) target: String,
    pub(crate) lun: u8,
}

/// The address of a unit where this many share a target.
pub(crate) fn address(together: u64, unit: usize) -> Address {
    let together = together as usize;
    let target = format!("2026-11.io.sim:{}", NAMES[unit / together]);
    Address { target, lun: (unit % together + 1) as u8 }
}
