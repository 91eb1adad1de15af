//! Write amplification: bytes that flash wrote for each byte that the host sent.

use super::Verdict;
use super::together::Finding;

/// Bytes of a part of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amplified {
    /// Bytes that the host sent.
    pub host_bytes: u64,
    /// Bytes that the disk wrote to its media, by its own count.
    pub media_bytes: u64,
}

/// Minimum bytes for a factor: disks count in steps of some MiB.
const LEAST_BYTES: u64 = 256 << 20;
/// Ratio of the factors of a window's parts above which they have not settled.
const APART: f64 = 1.2;
/// Factor below which flash under random writes across its capacity is fresh: it moves no data to
/// make room.
const FRESH: f64 = 1.05;
/// Minimum share of the capacity for writes to count as across it.
const WIDE: f64 = 0.5;

impl Amplified {
    fn factor(self) -> Option<f64> {
        (self.host_bytes >= LEAST_BYTES).then(|| self.media_bytes as f64 / self.host_bytes as f64)
    }
}

/// Returns the finding from the parts of a window, in the order of time. `random` writes go to
/// `share` of the capacity. `None` if the disk reports nothing, or too little was written.
pub(super) fn amplified(parts: &[Amplified], random: bool, share: f64) -> Option<Finding> {
    let sum = |of: fn(&Amplified) -> u64| parts.iter().map(of).sum();
    let all = Amplified {
        host_bytes: sum(|part| part.host_bytes),
        media_bytes: sum(|part| part.media_bytes),
    };
    let factor = all.factor()?;
    let words = format!("write amplification {factor:.2} by the counters of the disk");
    let each: Vec<f64> = parts.iter().filter_map(|part| part.factor()).collect();
    if let ([first, .., last], true) = (&each[..], each.len() == parts.len())
        && first.max(*last) > APART * first.min(*last)
    {
        let words = format!(
            "{words}: {first:.2} at the start, {last:.2} at the end, so it has not \
                settled"
        );
        return Some((Verdict::Warn, words));
    }
    match random && share >= WIDE && factor < FRESH {
        true => {
            let words = format!("{words}: no garbage collection yet, as on fresh flash");
            Some((Verdict::Warn, words))
        }
        false => Some((Verdict::Pass, words)),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H07 detects: flash whose write amplification grows in the window.
    /// H07 detects: no write amplification under random writes to the whole drive.
    /// H07 accepts: constant write amplification; none for a small range or sequential writes.
    #[test]
    fn amplification_that_has_not_settled_is_said() {
        let parts = |factors: &[f64]| -> Vec<Amplified> {
            let part = |factor: &f64| Amplified {
                host_bytes: 1 << 30,
                media_bytes: (factor * f64::from(1 << 30)) as u64,
            };
            factors.iter().map(part).collect()
        };
        let of = |factors: &[f64], random, share| amplified(&parts(factors), random, share);
        let grows = of(&[1.1, 2.4], true, 1.0).unwrap();
        assert_eq!(grows.0, Verdict::Warn);
        assert!(grows.1.contains("1.10 at the start, 2.40 at the end"), "{grows:?}");
        assert_eq!(of(&[2.4, 2.6], true, 1.0).unwrap().0, Verdict::Pass);
        assert_eq!(of(&[3.0, 2.4], true, 1.0).unwrap().0, Verdict::Warn, "it falls");
        let fresh = of(&[1.0, 1.0], true, 1.0).unwrap();
        assert_eq!(fresh.0, Verdict::Warn);
        assert!(fresh.1.contains("as on fresh flash"), "{fresh:?}");
        assert_eq!(of(&[1.0], true, 1.0).unwrap().0, Verdict::Warn);
        assert_eq!(of(&[1.0, 1.0], true, 0.1).unwrap().0, Verdict::Pass, "a corner");
        assert_eq!(of(&[1.0, 1.0], false, 1.0).unwrap().0, Verdict::Pass, "in order");
        assert_eq!(of(&[], true, 1.0), None);
        let few = Amplified { host_bytes: 1 << 20, media_bytes: 1 << 22 };
        assert_eq!(amplified(&[few, few], true, 1.0), None);
    }
}
