//! VIRTIO 1.2: split virtqueues and the block device, both ends.
//!
//! The rings are in memory that the peer may change at any time. Each word is read once, checked
//! against its bounds, and only the copy is used.

mod chain;
mod device;
mod driver;
mod guest;
mod split;
#[cfg(test)]
mod test;
mod wire;

pub use chain::{Chain, Piece};
pub use device::{BlockQueue, Disk, Taken};
pub use driver::{Completed, DriverQueue};
pub use guest::{Area, GuestMemory};
pub use split::{Addresses, SplitDevice, SplitDriver, Windows};
pub use wire::{Config, F_EVENT_IDX, F_INDIRECT, F_VERSION_1, Features, SECTOR_BYTES};

/// A rule of VIRTIO that the peer broke in the shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingViolation {
    /// The clause, such as `VIRTIO 1.2 §2.7.5: …`.
    pub rule: &'static str,
    /// The part of the ring.
    pub place: Place,
}

/// A place in a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A word of the available ring: its index.
    Available(u16),
    /// A word of the used ring: its index.
    Used(u16),
    /// A descriptor of the table: its number.
    Descriptor(u16),
    /// A descriptor of an indirect table: its number.
    Indirect(u16),
    /// The memory table: number of the region.
    Region(u16),
    /// The addresses of the ring.
    Addresses,
}

impl std::fmt::Display for RingViolation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.place {
            Place::Available(at) => write!(f, "entry {at} of the available ring")?,
            Place::Used(at) => write!(f, "entry {at} of the used ring")?,
            Place::Descriptor(at) => write!(f, "descriptor {at}")?,
            Place::Indirect(at) => write!(f, "descriptor {at} of an indirect table")?,
            Place::Region(at) => write!(f, "memory region {at}")?,
            Place::Addresses => f.write_str("the addresses of the ring")?,
        }
        write!(f, ": {}", self.rule)
    }
}

impl std::error::Error for RingViolation {}

/// A violation at a place.
#[cold]
fn broken<T>(rule: &'static str, place: Place) -> Result<T, RingViolation> {
    Err(RingViolation { rule, place })
}
