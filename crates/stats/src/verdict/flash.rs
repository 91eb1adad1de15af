//! H07: flash was in its lasting state.

use super::amplified::{Amplified, amplified};
use super::together::{Finding, kib, mib, together};
use super::{Check, Verdict};

/// A solid-state disk that a job writes, or may write, with the kernel's counts since boot and
/// before the measured window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flash {
    /// Name of the disk.
    pub disk: String,
    /// Capacity in bytes; 0 if unknown.
    pub capacity_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
    /// Completed writes.
    pub writes: u64,
    /// The job's writes; `None` if unknown.
    pub asked: Option<Writes>,
    /// Share of the capacity that the job uses, 0 to 1.
    pub share: f64,
    /// Write amplification in the parts of the window, in the order of time; empty if the disk does
    /// not report it.
    pub amplified: Vec<Amplified>,
}

/// Writes of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Writes {
    /// Mean size of a write in bytes.
    pub mean_bytes: f64,
    /// True if some of the writes are random.
    pub random: bool,
}

/// Ratio of write sizes from which on earlier writes are of another kind.
const LONGER: f64 = 4.0;

/// Number of capacities to write before flash keeps its rate.
const CAPACITIES: f64 = 2.0;

impl Flash {
    fn judge(&self) -> Finding {
        let (verdict, words) = self.before();
        let random = self.asked.is_some_and(|asked| asked.random);
        match amplified(&self.amplified, random, self.share) {
            Some((found, more)) => (verdict.worse(found), format!("{words}; {more}")),
            None => (verdict, words),
        }
    }

    /// Returns the finding on the writes before the window.
    fn before(&self) -> Finding {
        let Flash { disk, capacity_bytes: capacity, written_bytes: written, trimmed_bytes, .. } =
            self;
        let times = *written as f64 / (*capacity).max(1) as f64;
        let words = format!(
            "{disk} received {} of writes since boot, {times:.2} times its capacity (at least \
            {CAPACITIES:.0}), and {} of discards (none)",
            mib(*written),
            mib(*trimmed_bytes)
        );
        // Trimmed blocks are free again, and how much of the written data is trimmed is unknown.
        match *capacity > 0 && times >= CAPACITIES && *trimmed_bytes == 0 {
            true => {
                let (verdict, kind) = self.kind();
                (verdict, format!("{words}; {kind}"))
            }
            false => {
                let why = "earlier writes are unknown: fresh flash is faster";
                (Verdict::Unknown, format!("{words}; {why}"))
            }
        }
    }

    /// Returns whether earlier writes were of the job's kind. Writes from before the boot have no
    /// effect after two capacities.
    fn kind(&self) -> Finding {
        let Some(Writes { mean_bytes, random }) = self.asked else {
            return (
                Verdict::Unknown,
                "the access pattern of the job's writes is not known".to_owned(),
            );
        };
        if self.writes == 0 || mean_bytes <= 0.0 {
            return (Verdict::Unknown, "the sizes of earlier writes are not known".to_owned());
        }
        let before_bytes = self.written_bytes as f64 / self.writes as f64;
        // Maximum capacity share that this number of writes covers if each was as small as those of
        // the job.
        let covered = self.writes as f64 * mean_bytes / self.capacity_bytes as f64;
        let [before, now] = [before_bytes, mean_bytes].map(|bytes| kib(bytes as u64));
        match random {
            true if covered < 1.0 => {
                let words = format!(
                    "with {before} each, it was filled sequentially: random writes of {now}, as \
                    the job's, covered at most {covered:.2} of it (at least 1), and are faster \
                    until they have covered it"
                );
                (Verdict::Warn, words)
            }
            false if before_bytes * LONGER < mean_bytes => {
                let words = format!(
                    "with {before} each, it is fragmented: sequential writes of {now}, as the \
                    job's, are slower until they have covered it"
                );
                (Verdict::Warn, words)
            }
            _ => (Verdict::Pass, format!("with {before} each, like the job's of {now}")),
        }
    }

    /// Returns the fio command that brings the disk into the state of the measured job.
    fn condition(&self) -> String {
        let fio = |more: &str| {
            format!(
                "fio --name=twice --filename=/dev/{} {more} --iodepth=32 --direct=1 --loops=2 # \
                destroys all data on it",
                self.disk
            )
        };
        match self.asked {
            Some(Writes { mean_bytes, random: true }) => {
                fio(&format!("--rw=randwrite --bs={}", (mean_bytes as u64).max(512)))
            }
            _ => fio("--rw=write --bs=1m"),
        }
    }
}

/// H07: flash was written before it was measured. `others` are findings for volumes that are no
/// flash, or not written.
pub fn preconditioning(disks: &[Flash], others: Vec<Finding>) -> Check {
    let judged = disks.iter().map(Flash::judge).chain(others);
    let check = together("H07", "preconditioning", judged, "no volume was examined");
    let open = disks.iter().filter(|disk| disk.judge().0 != Verdict::Pass);
    open.fold(check, |check, disk| check.mend(disk.condition()))
}

#[cfg(test)]
mod test {
    use super::*;

    /// H07 detects: flash that was overwritten less than twice, or trimmed since.
    /// H07 accepts: flash that was overwritten twice and never trimmed.
    #[test]
    fn fresh_flash_is_not_known() {
        let judge = |written_bytes, trimmed_bytes| {
            let (disk, capacity_bytes) = ("nvme0n1".to_owned(), 1000);
            let asked = Some(Writes { mean_bytes: 10.0, random: true });
            let flash = Flash {
                disk,
                capacity_bytes,
                written_bytes,
                trimmed_bytes,
                writes: 200,
                asked,
                ..Flash::default()
            };
            preconditioning(&[flash], Vec::new())
        };
        assert_eq!(judge(2000, 0).verdict, Verdict::Pass);
        assert!(judge(2000, 0).mend.is_empty());
        assert_eq!(judge(1999, 0).verdict, Verdict::Unknown);
        assert_eq!(judge(9000, 1).verdict, Verdict::Unknown);
        assert_eq!(judge(0, 0).mend.len(), 1);
        assert_eq!(preconditioning(&[], Vec::new()).verdict, Verdict::Unknown);
        assert_eq!(preconditioning(&[Flash::default()], Vec::new()).verdict, Verdict::Unknown);
        let reads = vec![(Verdict::DoesNotApply, "file:a: not written".to_owned())];
        assert_eq!(preconditioning(&[], reads).verdict, Verdict::DoesNotApply);
    }

    /// H07 detects: flash that was filled sequentially, and is written at random offsets.
    /// H07 detects: flash that was written at random offsets, and is written sequentially.
    /// H07 accepts: flash that was preconditioned with the job's own access pattern.
    #[test]
    fn flash_that_was_written_otherwise_is_said() {
        const CAPACITY: u64 = 1 << 40;
        let judge = |parts: &[(u64, u64)], mean_bytes: f64, random: bool| {
            // Parts are bytes and the size of each write.
            let flash = Flash {
                disk: "nvme0n1".into(),
                capacity_bytes: CAPACITY,
                written_bytes: parts.iter().map(|(bytes, _)| bytes).sum(),
                trimmed_bytes: 0,
                writes: parts.iter().map(|(bytes, length)| bytes / length).sum(),
                asked: Some(Writes { mean_bytes, random }),
                ..Flash::default()
            };
            preconditioning(&[flash], Vec::new())
        };
        let filled = [(2 * CAPACITY, 1 << 20)];
        let lie = judge(&filled, 4096.0, true);
        assert_eq!((lie.verdict, lie.mend.len()), (Verdict::Warn, 1));
        assert!(lie.evidence.contains("covered at most 0.01 of it"), "{lie:?}");
        assert!(lie.mend[0].contains("--rw=randwrite --bs=4096"), "{lie:?}");
        let some = [filled[0], (CAPACITY / 2, 4096)];
        assert_eq!(judge(&some, 4096.0, true).verdict, Verdict::Warn, "half of it was");
        let scattered = [filled[0], (CAPACITY, 4096)];
        assert_eq!(judge(&scattered, 4096.0, true).verdict, Verdict::Pass);
        assert_eq!(judge(&[(2 * CAPACITY, 4096)], 4096.0, true).verdict, Verdict::Pass);
        let in_order = judge(&[(2 * CAPACITY, 4096)], f64::from(1 << 20), false);
        assert_eq!(in_order.verdict, Verdict::Warn);
        assert!(in_order.evidence.contains("is fragmented"), "{in_order:?}");
        assert_eq!(judge(&filled, f64::from(1 << 20), false).verdict, Verdict::Pass);
        assert_eq!(judge(&filled, 65_536.0, false).verdict, Verdict::Pass);
    }

    /// The disk's counts make a result worse, and never better.
    #[test]
    fn the_disks_own_count_is_heard() {
        let judge = |written_bytes, factor: u64| {
            let part = Amplified { host_bytes: 1 << 30, media_bytes: factor << 30 };
            let flash = Flash {
                disk: "nvme0n1".into(),
                capacity_bytes: 1 << 30,
                written_bytes,
                writes: 1 << 20,
                asked: Some(Writes { mean_bytes: 4096.0, random: true }),
                share: 1.0,
                amplified: vec![part],
                ..Flash::default()
            };
            preconditioning(&[flash], Vec::new())
        };
        let settled = judge(4 << 30, 3);
        assert_eq!(settled.verdict, Verdict::Pass);
        assert!(settled.evidence.contains("write amplification 3.00"), "{settled:?}");
        assert_eq!(judge(4 << 30, 1).verdict, Verdict::Warn);
        assert_eq!(judge(0, 3).verdict, Verdict::Unknown);
    }
}
