//! Bus of each drive, if the bill names one: SATA, SAS or PCI Express of a generation.

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
    /// Returns the SATA or SAS link of each drive of a group. PCI Express has packets of its own.
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

    /// Returns the time for which an I/O occupies the link of its drive, which carries reads and
    /// writes one after the other; 0 if the bill names none.
    pub(super) fn bus_seconds(&mut self, group: &Group) -> f64 {
        let Some(bus) = self.bus(group) else { return self.lane_seconds(group) };
        self.remark(&format!(
            "each drive behind {}: {}B/s of data at most",
            bus.part.id,
            block::Rate(bus.bytes_per_s)
        ));
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let (pieces, length) = self.pieces(group, drive);
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        (reads * pieces + writes * (before + after)) * length / bus.bytes_per_s
    }

    /// Returns the time on the lanes that an adapter gives each NVMe drive; 0 if it does not
    /// specify them.
    fn lane_seconds(&mut self, group: &Group) -> f64 {
        let Some(adapter) = group.adapter.as_deref().map(|id| self.part(id)) else { return 0.0 };
        let drive = self.part(group.drive.as_deref().unwrap_or_default());
        let nvme = drive.interface == "pcie";
        let Some(lanes) = nvme.then(|| self.figure(adapter, "drive_lanes")).flatten() else {
            return 0.0;
        };
        let generation = [drive, adapter].map(|part| part.value("generation"));
        let Some(generation) = generation.into_iter().flatten().reduce(f64::min) else {
            return 0.0;
        };
        let Some(link) = self.bill.catalogue.parts.get(&format!("pcie-{generation}")) else {
            return 0.0;
        };
        let Some(lane_bytes_per_s) = wire::line_bytes_per_s(link, 1) else { return 0.0 };
        let lane = wire::Pcie {
            lane_bytes_per_s,
            generation: generation as u32,
            lanes: lanes as u32,
            payload_max: group.payload_max,
            long_addresses: group.long_addresses,
        };
        let (reads, writes) = self.shares();
        let (before, after) = self.written(group);
        let bytes = lane.read_bytes(self.bill.work.size_bytes);
        // Reads and writes use opposite directions.
        (reads + writes * before).max(writes * after) * bytes / lane.packet_bytes_per_s()
    }

    /// Returns the PCI Express generation that the bill gives a drive, if any.
    pub(super) fn bus_generation(&self, group: &Group) -> Option<f64> {
        let bus = group.bus.as_deref().filter(|_| group.adapter.is_none())?;
        self.part(bus).id.strip_prefix("pcie-")?.parse().ok()
    }
}
