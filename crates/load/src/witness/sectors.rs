//! Physical blocks of the disks that are written, and the units of the writes.

use std::collections::BTreeMap;

use block::Geometry;
use job::spec::{Line, Walk, Workload};
use os::{Device, DeviceSettings};
use stats::Check;
use stats::verdict::{self, Sectors, common_unit};

use super::Witness;
use super::seen::Seen;

/// Returns the greatest number of bytes that divides offset and size of every write of these
/// workloads; `None` if a trace has the offsets, 0 for workloads without writes.
pub(super) fn unit<'a>(
    workloads: impl Iterator<Item = &'a Workload>,
    geometry: Geometry,
) -> Option<u64> {
    let mut unit = 0;
    for workload in workloads.filter(|workload| workload.access.writes()) {
        let access = &workload.access;
        if access.trace.is_some() {
            return None;
        }
        let (start, _) = workload.range.on(geometry);
        let stride = if let Walk::Strided { bytes } = access.sequential { bytes } else { 0 };
        let lines = access.lines.iter().filter(|line| stores(line));
        let own = lines.fold(0, |unit, line| {
            let parts = [line.size_bytes, line.align(), line.reply_bytes];
            parts.into_iter().fold(unit, |unit, part| common_unit(unit, u64::from(part)))
        });
        if own > 0 {
            unit = [own, start, stride].into_iter().fold(unit, common_unit);
        }
    }
    Some(unit)
}

/// Whether a line has writes that carry data.
fn stores(line: &Line) -> bool {
    line.share_percent > 0.0
        && (line.write_percent() > 0.0 || line.zero_percent > 0.0 || line.reply_bytes > 0)
}

impl Witness {
    /// Returns H18, for disks that emulate blocks smaller than their physical ones.
    pub(super) fn sectors(&self) -> Option<Check> {
        let mut disks: BTreeMap<&str, Sectors> = BTreeMap::new();
        for seen in &self.volumes {
            let file = seen.file().filter(|file| file.direct && file.stack.memory().is_none());
            let device = file.and_then(|file| file.device.as_ref());
            let (Some(device), true) = (device, seen.asked.writes && seen.unit_bytes != Some(0))
            else {
                continue;
            };
            let one = of_volume(seen, device);
            match disks.get_mut(device.disk.as_str()) {
                Some(disk) => add(disk, one),
                None => drop(disks.insert(&device.disk, one)),
            }
        }
        verdict::whole_sectors(&disks.into_values().collect::<Vec<_>>())
    }
}

/// The disk of a volume, with the largest blocks of all below it that its writes reach as they are.
fn of_volume(seen: &Seen, top: &Device) -> Sectors {
    let stack = seen.file().map(|file| &file.stack);
    // The page cache below a loop device writes pages.
    let whole = stack.is_some_and(|stack| stack.cached_disk().is_none());
    let below = stack.map_or(&[][..], |stack| &stack.devices).iter().filter(|_| whole);
    let below = below.filter(|device| device.name != top.name);
    let mut disk = level(top, &top.settings());
    for device in below {
        let other = level(device, &device.settings());
        disk.physical_bytes = disk.physical_bytes.max(other.physical_bytes);
        disk.offset_bytes = both(disk.offset_bytes, other.offset_bytes);
    }
    Sectors { unit_bytes: seen.unit_bytes, ..disk }
}

fn level(device: &Device, settings: &DeviceSettings) -> Sectors {
    Sectors {
        disk: device.disk.clone(),
        logical_bytes: settings.logical_bytes,
        physical_bytes: settings.physical_bytes,
        unit_bytes: None,
        offset_bytes: device.offset_bytes(),
    }
}

/// Another volume on the same disk.
fn add(disk: &mut Sectors, other: Sectors) {
    disk.physical_bytes = disk.physical_bytes.max(other.physical_bytes);
    disk.unit_bytes = both(disk.unit_bytes, other.unit_bytes);
    disk.offset_bytes = both(disk.offset_bytes, other.offset_bytes);
}

fn both(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| common_unit(one, other))
}

#[cfg(test)]
mod test {
    use job::spec::{Access, Extent, Range};

    use super::*;

    fn of(lines: Vec<Line>, start: u64) -> Option<u64> {
        let mut workload = Workload::new(Access::of(lines), 1);
        workload.range = Range { start: Extent::Bytes(start), length: None };
        unit([&workload].into_iter(), Geometry::new(1 << 30, 512))
    }

    #[test]
    fn writes_have_a_unit() {
        let (reads, writes) = (Line::new(512, 100.0, 100.0), Line::new(8192, 0.0, 100.0));
        assert_eq!(of(vec![reads], 0), Some(0), "nothing is written");
        assert_eq!(of(vec![reads, writes], 0), Some(8192), "reads may be shorter");
        let beside = Line { align_bytes: Some(512), ..writes };
        assert_eq!(of(vec![beside], 0), Some(512));
        assert_eq!(of(vec![writes], 4096), Some(4096), "the range begins there");
        let flushes = Line { flush_percent: 100.0, ..Line::new(512, 0.0, 100.0) };
        assert_eq!(of(vec![flushes, writes], 0), Some(8192));
        let answers = Line { reply_bytes: 1024, ..Line::new(4096, 100.0, 100.0) };
        assert_eq!(of(vec![answers], 0), Some(1024));
        let mut strided = Workload::new(Access::of(vec![writes]), 1);
        strided.access.sequential = Walk::Strided { bytes: 12_288 };
        assert_eq!(unit([&strided].into_iter(), Geometry::new(1 << 30, 512)), Some(4096));
        let trace = Access::replaying(job::spec::Replay::new("a".to_owned()));
        let trace = Workload::new(trace, 1);
        assert_eq!(unit([&trace].into_iter(), Geometry::new(1 << 30, 512)), Some(0), "not read");
    }
}
