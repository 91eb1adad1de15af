//! States of a region, and the events that change them.

/// State of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Region {
    /// Never written: zero on all legs.
    Unwritten,
    /// Equal and durable on all legs.
    Clean,
    /// A writer needs it dirty; the map on the legs does not show that yet.
    Asked,
    /// Written, perhaps in part: after a crash the legs may differ here.
    Dirty,
    /// Dirty, and not written since the keeper's last look.
    Cooling,
    /// Legs that are in are identical in this region, and a joining leg may lack data: one of them
    /// is read, and the resync copies from it.
    Behind,
    /// Legs that are in may differ in this region, after a crash or a failed write: as above, and
    /// the region is copied before it is read.
    Unsettled,
}

/// An event of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A writer arrives.
    Write,
    /// The map on the legs records it as dirty.
    Marked,
    /// The keeper looks for regions that are no longer written.
    Look,
    /// Not written since the last look, and all legs were flushed.
    Flushed,
    /// A leg that may have missed writes gets writes again.
    Joined,
    /// A write succeeded on some legs and failed on others.
    Differs,
    /// The resync copied the region.
    Copied,
    /// The array is opened again.
    Opened,
}

/// Next state of a region; the same state if nothing changes.
pub const fn next(region: Region, event: Event) -> Region {
    use Region::{Asked, Behind, Clean, Cooling, Dirty, Unsettled, Unwritten};
    match (region, event) {
        (Unwritten | Clean, Event::Write) => Asked,
        (Cooling, Event::Write) => Dirty,
        (Asked, Event::Marked) => Dirty,
        (Dirty, Event::Look) => Cooling,
        (Cooling, Event::Flushed) => Clean,
        (Dirty | Cooling, Event::Joined) => Behind,
        (Dirty | Cooling | Behind, Event::Differs | Event::Opened) => Unsettled,
        // The write of the map may have reached a leg.
        (Asked, Event::Opened) => Unsettled,
        (Behind | Unsettled, Event::Copied) => Dirty,
        (same, _) => same,
    }
}

impl Region {
    pub(super) const ALL: [Region; 7] = [
        Region::Unwritten,
        Region::Clean,
        Region::Asked,
        Region::Dirty,
        Region::Cooling,
        Region::Behind,
        Region::Unsettled,
    ];

    pub(super) fn of(code: u8) -> Region {
        Region::ALL[usize::from(code) % Region::ALL.len()]
    }

    /// Whether data may be written: the map on the legs marks the region dirty.
    pub(super) fn is_marked(self) -> bool {
        matches!(self, Region::Dirty | Region::Cooling | Region::Behind | Region::Unsettled)
    }

    /// Whether the resync has to copy the region.
    pub(in super::super) fn is_behind(self) -> bool {
        matches!(self, Region::Behind | Region::Unsettled)
    }

    /// The region's two bits on a leg: written, dirty.
    pub(in super::super) fn bits(self) -> u8 {
        match self {
            Region::Unwritten => 0,
            Region::Clean => 1,
            _ => 3,
        }
    }

    pub(super) fn of_bits(bits: u8) -> Region {
        match bits & 3 {
            0 => Region::Unwritten,
            1 => Region::Clean,
            _ => Region::Dirty,
        }
    }
}
