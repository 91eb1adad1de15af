//! Malformed parts of several hosts, and results of other tools.

use report::{json, others, sound};
use stats::merge::Merge;

/// Reads a part and merges it with itself as another host's: it is refused, or the merged result
/// has both, agrees with itself, and can be read back.
pub fn merge_parts(bytes: &[u8]) {
    let Ok(part) = json::read(bytes) else { return };
    if sound::doubt(&part).is_some() {
        return;
    }
    let mut other = part.clone();
    let Some(of) = &mut other.part else { return };
    of.host.push('2');
    other.seed = part.seed.wrapping_add(1);
    let mut merge = Merge::default();
    if merge.add(part.clone()).is_err() {
        return;
    }
    // A name may be too long by one.
    if merge.add(other).is_err() {
        return;
    }
    let merged = merge.finish(Some(3)).expect("two of three parts");
    assert_eq!(merged.totals.ios, 2 * part.totals.ios);
    assert_eq!((merged.hosts.len(), merged.partial.is_some()), (2, true));
    for latency in [&merged.totals.latency_ns, &merged.totals.read.latency_ns] {
        assert!(latency.min <= latency.max, "{latency:?}");
        assert_eq!(latency.p50.filter(|p50| Some(*p50) > latency.max), None, "{latency:?}");
    }
    let mut text = Vec::new();
    json::write(&merged, &mut text).expect("memory takes it");
    assert_eq!(json::seal(&text).expect("it is JSON"), json::Seal::Whole);
}

/// Reads a result of fio and merges it: refused with its name, or every percentile is one of the
/// histogram.
pub fn merge_fio(bytes: &[u8]) {
    let entries = match others::read_fio("noise.json", bytes) {
        Ok(entries) => entries,
        Err(why) => return assert!(why.starts_with("noise.json"), "{why}"),
    };
    let Ok(all) = others::together(&entries) else { return };
    for of in &all {
        assert_eq!(of.samples, of.bins.values().sum::<u64>());
        assert!(of.percentiles.iter().all(|row| of.bins.contains_key(&row.merged_ns)), "{of:?}");
    }
    others::painted("fio", 1, &all, report::Paint::PLAIN);
}
