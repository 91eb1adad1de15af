//! Whether devices counted the I/O that was issued.

use super::together::{mib, together};
use super::{Check, Verdict};

/// What one device was asked, and what it counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Name of the device.
    pub name: String,
    /// Every file on it goes around the page cache.
    pub direct: bool,
    /// Bytes of the I/Os that were done to files on it: read, written.
    pub issued: [u64; 2],
    /// Bytes that the device says it read and wrote meanwhile; `None` if it does not count.
    pub device: Option<[u64; 2]>,
    /// I/Os that it counted.
    pub device_ios: u64,
    /// Bytes under way at the ends of the window, which may count on one side only.
    pub slack: u64,
}

/// What a difference between the two counts means.
const MORE: &str = "more than was asked: others use it, too, or the kernel reads ahead";
const LESS: &str = "less than was asked: something above the device answered";

/// Counters may differ by this share: the ends of the window are not the same instant.
const AGREE: f64 = 0.02;
/// A device that saw less than this share of direct I/O did not answer it.
const ABSENT: f64 = 0.5;

impl Counted {
    fn judge(&self) -> (Verdict, String) {
        let name = &self.name;
        let Some(device) = self.device else {
            return (Verdict::Unknown, format!("{name} has no counters"));
        };
        let mut verdict = Verdict::Pass;
        let mut words = Vec::new();
        let mut why = None;
        for (way, index) in [("read", 0), ("wrote", 1)] {
            let (issued, seen) = (self.issued[index], device[index]);
            if issued == 0 {
                continue;
            }
            let share = seen as f64 / issued as f64;
            words.push(format!(
                "{way} {} of {} that were asked ({:.1} %)",
                mib(seen),
                mib(issued),
                share * 100.0
            ));
            let compared = self.compare(issued, seen);
            if compared != Verdict::Pass && compared == verdict.worse(compared) {
                why = Some(if seen > issued { MORE } else { LESS });
            }
            verdict = verdict.worse(compared);
        }
        if words.is_empty() {
            words.push("nothing was asked of it".to_owned());
        }
        let why = why.map_or_else(String::new, |why| format!(" ({why}; at most 2 % apart)"));
        (verdict, format!("{name} {} in {} I/Os{why}", words.join(", "), self.device_ios))
    }

    fn compare(&self, issued: u64, seen: u64) -> Verdict {
        let margin = (AGREE * issued as f64) as u64 + self.slack;
        match () {
            () if seen.abs_diff(issued) <= margin => Verdict::Pass,
            () if self.direct && (seen as f64) < ABSENT * issued as f64 => Verdict::Fail,
            () => Verdict::Warn,
        }
    }
}

/// H03: devices counted the I/O that was issued. `process` is what this process moved to and from
/// storage by the kernel's account (read, written), which nobody else's I/O disturbs. `None` if no
/// volume lies on a device of this host.
pub fn counters_agree(devices: &[Counted], process: Option<[u64; 2]>) -> Option<Check> {
    if devices.is_empty() {
        return None;
    }
    let mut check = together("H03", "device-counters", devices.iter().map(Counted::judge), "");
    if let Some([read, written]) = process {
        let words = format!("; this process fetched {} and stored {}", mib(read), mib(written));
        check.evidence.push_str(&words);
        // Somebody else's I/O may hide from the device's counters that ours is missing.
        let counting = || devices.iter().filter(|one| one.direct && one.device.is_some());
        let asked = |way: usize| counting().map(|one| one.issued[way]).sum::<u64>();
        let slack = counting().map(|one| one.slack).sum::<u64>();
        let absent = |asked: u64, had: u64| ((had + slack) as f64) < ABSENT * asked as f64;
        if absent(asked(0), read) || absent(asked(1), written) {
            check.verdict = Verdict::Fail;
        }
    }
    Some(check)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_device_must_have_seen_it() {
        let counted = |direct, seen: u64, process| {
            let device = Counted {
                name: "vda".into(),
                direct,
                issued: [100_000_000, 0],
                device: Some([seen, 55]),
                device_ios: 17,
                slack: 1000,
            };
            counters_agree(&[device], process).unwrap()
        };
        let by_others = counted(true, 103_000_000, Some([4096, 0]));
        assert_eq!(by_others.verdict, Verdict::Fail, "{by_others:?}");
        let counted = |direct, seen| counted(direct, seen, Some([seen, 0]));
        assert_eq!(counted(true, 98_000_000).verdict, Verdict::Pass);
        assert_eq!(counted(true, 97_998_000).verdict, Verdict::Warn);
        let more = counted(true, 103_000_000);
        assert_eq!(more.verdict, Verdict::Warn);
        assert!(more.evidence.contains("others use it, too"), "{more:?}");
        let lie = counted(true, 69_632);
        assert_eq!(lie.verdict, Verdict::Fail);
        assert!(lie.evidence.contains("in 17 I/Os (less than was asked"), "{lie:?}");
        assert_eq!(counted(false, 0).verdict, Verdict::Warn);
        assert_eq!(counters_agree(&[], None), None);
    }
}
