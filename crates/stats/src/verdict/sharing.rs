//! H17: no other program used the disks of a run.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// I/O of a disk in the window by any program, and the I/O that we issued. Bytes and times are of
/// reads and of writes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Shared {
    /// Name of the disk.
    pub disk: String,
    /// Bytes that we issued.
    pub asked: [u64; 2],
    /// Bytes that the device below our volumes moved: the disk or a part of it.
    pub device: [u64; 2],
    /// Bytes that the whole disk moved.
    pub whole: [u64; 2],
    /// True if this process was charged no more than it issued: additional reads of the device are
    /// I/O of others.
    pub charged: bool,
    /// Total time of the device's I/Os, in milliseconds.
    pub took_ms: [u64; 2],
}

/// Maximum difference between counts of one window, as a share.
const APART_SHARE: f64 = 0.02;
/// Maximum share of bytes of others, relative to ours.
const OTHERS_SHARE: f64 = 0.05;
/// Maximum share of the total time for I/Os of others.
const TIME_SHARE: f64 = 0.1;
/// Bytes per second up to which other I/O is a journal, or a log file.
const LEAST_BYTES_PER_S: f64 = 1e6;

impl Shared {
    /// Returns the bytes that others moved for certain: in a direction that we did not use, and in
    /// other parts of the disk.
    fn others(&self) -> [u64; 2] {
        [0, 1].map(|way| {
            let beside = self.whole[way].saturating_sub(self.device[way]);
            let unasked = match self.asked[way] {
                0 => self.device[way],
                // Journals and arrays write more than was issued; no layer adds direct reads.
                asked if way == 0 && self.charged => {
                    let more = self.device[way].saturating_sub(asked);
                    // The window and the readings of the device are not the same instants.
                    if more as f64 > APART_SHARE * asked as f64 { more } else { 0 }
                }
                _ => 0,
            };
            beside + unasked
        })
    }

    fn judge(&self, seconds: f64) -> Finding {
        let [read, written] = self.others();
        let (others, ours) = (read + written, self.asked[0] + self.asked[1]);
        let quiet = (Verdict::Pass, format!("{}: little use by other programs", self.disk));
        if ours == 0 || (others as f64) < LEAST_BYTES_PER_S * seconds {
            return quiet;
        }
        let all_ms: u64 = self.took_ms.iter().sum();
        let unasked = (0..2).filter(|way| self.asked[*way] == 0).map(|way| self.took_ms[way]);
        let long = unasked.sum::<u64>() as f64 > TIME_SHARE * all_ms as f64;
        let much = others as f64 > OTHERS_SHARE * ours as f64;
        if !much && !long {
            return quiet;
        }
        let words = format!(
            "other programs read {} from {disk} and wrote {} to it, compared with {} of this run \
            (at most 5 %)",
            mib(read),
            mib(written),
            mib(ours),
            disk = self.disk,
        );
        (Verdict::Warn, words)
    }
}

/// H17 by the disks: other programs that used them in `seconds`. `others` are findings for volumes
/// whose disks report nothing.
pub fn disks_shared(disks: &[Shared], seconds: f64, others: Vec<Finding>) -> Check {
    let judged = disks.iter().map(|disk| disk.judge(seconds)).chain(others);
    let check = together("H17", "nobody-else", judged, "no volume was examined");
    match check.verdict {
        Verdict::Warn => check.mend(
            "iotop -obP -n 3 # as root: lists the processes that read \
            and write",
        ),
        _ => check,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// H17 detects: another process writes during the reads.
    #[test]
    fn writes_beside_our_reads_are_said() {
        let read = 400 * MIB;
        let disk = |written: u64, write_ms: u64| Shared {
            disk: "vda".into(),
            asked: [read, 0],
            device: [read, written],
            whole: [read, written],
            took_ms: [1000, write_ms],
            charged: false,
        };
        let shared = |disks: &[Shared]| disks_shared(disks, 5.0, Vec::new());
        assert_eq!(shared(&[disk(0, 0), disk(2 * MIB, 900)]).verdict, Verdict::Pass);
        assert_eq!(shared(&[disk(19 * MIB, 100)]).verdict, Verdict::Pass);
        assert_eq!(shared(&[]).verdict, Verdict::Unknown);
        let found = shared(&[disk(3400 * MIB, 100)]);
        assert_eq!((found.code.as_str(), found.verdict), ("H17", Verdict::Warn));
        assert!(found.evidence.contains("wrote 3400.0 MiB"), "{found:?}");
        // Few bytes that take long.
        assert_eq!(shared(&[disk(10 * MIB, 200)]).verdict, Verdict::Warn);
    }

    /// H17 detects: another partition of the disk is used.
    #[test]
    fn other_parts_of_the_disk_are_others() {
        let disk = |whole: u64| Shared {
            disk: "vda".into(),
            asked: [400 * MIB, 400 * MIB],
            device: [400 * MIB, 900 * MIB],
            whole: [whole, 900 * MIB],
            took_ms: [10, 10],
            charged: false,
        };
        // H03 reports additional I/O in our own direction.
        let verdict = |whole| disks_shared(&[disk(whole)], 1.0, Vec::new()).verdict;
        assert_eq!(verdict(400 * MIB), Verdict::Pass);
        assert_eq!(verdict(500 * MIB), Verdict::Warn);
    }

    /// H17 detects: another process reads the same disk.
    /// H17 accepts: read-ahead of the run's own reads.
    #[test]
    fn reads_beside_our_reads_are_said() {
        let verdict = |charged, device: u64| {
            let disk = Shared {
                disk: "vda".into(),
                asked: [400 * MIB, 0],
                device: [device, 0],
                whole: [device, 0],
                took_ms: [10, 0],
                charged,
            };
            disks_shared(&[disk], 1.0, Vec::new()).verdict
        };
        assert_eq!(
            [verdict(true, 500 * MIB), verdict(false, 500 * MIB)],
            [Verdict::Warn, Verdict::Pass]
        );
        assert_eq!(verdict(true, 410 * MIB), Verdict::Pass);
    }
}
