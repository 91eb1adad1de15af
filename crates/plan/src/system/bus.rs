//! What each drive hangs on, where the bill says so: SATA, SAS or PCI Express of a generation.

use super::Builder;
use crate::bill::Group;
use crate::wire;
use catalogue::Part;

/// A link of one drive.
pub(super) struct Bus<'a> {
    pub part: &'a Part,
    /// Payload, in the direction of the data.
    pub bytes_per_s: f64,
}

impl<'a> Builder<'a> {
    /// The link of SATA or SAS of each drive of a group. PCI Express has packets of its own.
    pub(super) fn bus(&mut self, group: &Group) -> Option<Bus<'a>> {
        let part = Some(self.part(group.bus.as_deref()?));
        let part = part.filter(|part| !part.id.starts_with("pcie"))?;
        let symbols = self.figure(part, "symbol_rate")?;
        let coding = self.figure(part, "coding")?;
        let framing = match part.id.starts_with("sas") {
            true => wire::SAS_PAYLOAD_BYTES / (wire::SAS_PAYLOAD_BYTES + wire::SAS_FRAME_BYTES),
            false => self.figure(part, "framing").unwrap_or(1.0),
        };
        Some(Bus { part, bytes_per_s: symbols * coding / 8.0 * framing })
    }

    /// How long an I/O holds the link of its drive, which carries reads and writes one after the
    /// other; 0 where nothing is said of it.
    pub(super) fn bus_seconds(&mut self, group: &Group) -> f64 {
        let Some(bus) = self.bus(group) else { return 0.0 };
        self.remark(&format!(
            "each drive behind {}: {}B/s of data at most",
            bus.part.id,
            block::Rate(bus.bytes_per_s)
        ));
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        (reads + writes * (before + after)) * self.bill.work.size_bytes / bus.bytes_per_s
    }

    /// The generation of PCI Express that the bill says a drive has, if it does.
    pub(super) fn bus_generation(&self, group: &Group) -> Option<f64> {
        let bus = group.bus.as_deref().filter(|_| group.adapter.is_none())?;
        self.part(bus).id.strip_prefix("pcie-")?.parse().ok()
    }
}
