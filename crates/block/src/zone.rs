//! Zones of a device that is written from a write pointer on.

/// One of them, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Where it begins.
    pub start: u64,
    /// From there to the next one.
    pub bytes: u64,
    /// What of it can be written.
    pub capacity: u64,
    /// From its beginning to the write pointer.
    pub written: u64,
    /// It is written from the write pointer on; otherwise anywhere.
    pub sequential: bool,
    /// It was begun to be written, and is kept open for that.
    pub open: bool,
    /// It is neither offline nor read-only.
    pub usable: bool,
}

/// All zones of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// In the order of their places.
    pub zones: Vec<Zone>,
    /// How many may be open at once; 0 for any number.
    pub max_open: u32,
}
