//! Activity of the block devices under the volumes, summed over all steps.

use std::collections::BTreeMap;

use serde_json::Value;
use stats::RunResult;

use super::document::Disk;
use crate::group;

/// Each device once, by its name. Its share of busy time is that of all steps' windows. A step of
/// jobs that all say `disk_util=0` shows none.
pub(super) fn disks(steps: &[RunResult]) -> Vec<Disk> {
    let whole_s: f64 = steps.iter().map(|step| step.totals.seconds).sum();
    let mut disks: BTreeMap<&str, Disk> = BTreeMap::new();
    for step in steps.iter().filter(|step| shows(step)) {
        let part = step.totals.seconds / whole_s.max(f64::MIN_POSITIVE);
        for device in &step.devices {
            let disk = disks.entry(&device.name).or_default();
            disk.name.clone_from(&device.name);
            disk.read_ios += device.reads;
            disk.write_ios += device.writes;
            disk.read_merges += device.merged_reads;
            disk.write_merges += device.merged_writes;
            disk.read_ticks += device.read_ms;
            disk.write_ticks += device.write_ms;
            disk.in_queue += device.queue_ms;
            disk.util += device.busy_percent * part;
        }
    }
    disks.into_values().collect()
}

fn shows(step: &RunResult) -> bool {
    let said = |figures: &Value| figures.get("disks").and_then(Value::as_bool).unwrap_or(true);
    let groups = group::entries(step);
    groups.is_empty() || groups.iter().any(|group| said(group.figures))
}

#[cfg(test)]
mod test {
    use stats::{DeviceUse, Totals};

    use super::*;

    #[test]
    fn jobs_may_want_none() {
        let mut step = crate::sample::counted();
        step.devices = vec![DeviceUse { name: "vda".into(), ..DeviceUse::default() }];
        assert_eq!(disks(std::slice::from_ref(&step)).len(), 1);
        step.spec["steps"][0]["groups"][0]["figures"] = serde_json::json!({ "disks": false });
        assert!(disks(&[step]).is_empty());
    }

    #[test]
    fn steps_are_added_up() {
        let step = |seconds, reads, busy_percent| {
            let device =
                DeviceUse { name: "vda".into(), reads, busy_percent, ..DeviceUse::default() };
            let totals = Totals { seconds, ..Totals::default() };
            RunResult { totals, devices: vec![device], ..RunResult::default() }
        };
        let found = disks(&[step(1.0, 10, 100.0), step(3.0, 5, 20.0)]);
        let [disk] = &found[..] else { panic!("{found:?}") };
        assert_eq!((disk.name.as_str(), disk.read_ios), ("vda", 15));
        assert!((disk.util - 40.0).abs() < 1e-9, "{disk:?}");
        assert!(disks(&[RunResult::default()]).is_empty());
    }
}
