//! Zones of a zoned device.

/// A zone; units are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Start.
    pub start: u64,
    /// Distance to the next zone.
    pub bytes: u64,
    /// Writable capacity.
    pub capacity: u64,
    /// Distance from its start to the write pointer.
    pub written: u64,
    /// Whether the zone must be written at the write pointer; otherwise anywhere.
    pub sequential: bool,
    /// Whether the zone is open.
    pub open: bool,
    /// Whether the zone is neither offline nor read-only.
    pub usable: bool,
}

impl Zones {
    /// Returns emulated zones of a length and a capacity for a volume without zones: all are empty.
    pub fn emulated(bytes: u64, zone_bytes: u64, capacity: u64) -> Zones {
        let zone = |number: u64| Zone {
            start: number * zone_bytes,
            bytes: zone_bytes,
            capacity,
            written: 0,
            sequential: true,
            open: false,
            usable: true,
        };
        let zones = (0..bytes / zone_bytes.max(1)).map(zone).collect();
        Zones { zones, max_open: 0 }
    }
}

/// All zones of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zones {
    /// In order of their starts.
    pub zones: Vec<Zone>,
    /// Maximum number of open zones; 0 for no limit.
    pub max_open: u32,
}
