//! Whether flash was in the state that it keeps.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// A solid-state disk that a job writes, or one that may be, and what the kernel counted of it
/// since it started, before the measured window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Flash {
    /// Its name.
    pub disk: String,
    /// Its capacity in bytes; 0 if not known.
    pub capacity_bytes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
    /// Bytes that were trimmed.
    pub trimmed_bytes: u64,
}

/// So many times its capacity is written to flash before it keeps its rate.
const CAPACITIES: f64 = 2.0;

impl Flash {
    fn judge(&self) -> Finding {
        let Flash { disk, capacity_bytes: capacity, written_bytes: written, trimmed_bytes } = self;
        let times = *written as f64 / (*capacity).max(1) as f64;
        let words = format!(
            "{disk} took {} of writes since the system started, {times:.2} times its capacity (at \
             least {CAPACITIES:.0}), and {} of trims (none)",
            mib(*written),
            mib(*trimmed_bytes)
        );
        // What is trimmed is free again, and how much of what was written is trimmed nobody knows.
        match *capacity > 0 && times >= CAPACITIES && *trimmed_bytes == 0 {
            true => (Verdict::Pass, words),
            false => {
                let why = "earlier writes are unknown: fresh flash is faster";
                (Verdict::Unknown, format!("{words}; {why}"))
            }
        }
    }
}

/// H07: flash was written before it was measured. `others` are what is known of volumes that are no
/// flash, or not written.
pub fn preconditioning(disks: &[Flash], others: Vec<Finding>) -> Check {
    let judged = disks.iter().map(Flash::judge).chain(others);
    let check = together("H07", "preconditioning", judged, "no volume was looked at");
    let open = disks.iter().filter(|disk| disk.judge().0 != Verdict::Pass);
    open.fold(check, |check, Flash { disk, .. }| {
        check.mend(format!(
            "fio --name=twice --filename=/dev/{disk} --rw=write --bs=1m --iodepth=32 --direct=1 \
             --loops=2 # destroys all that is on it"
        ))
    })
}

#[cfg(test)]
mod test {
    use super::*;

    /// Lie of H07: flash that was written less than twice, or trimmed since.
    /// Twin of H07: written twice, never trimmed.
    #[test]
    fn fresh_flash_is_not_known() {
        let judge = |written_bytes, trimmed_bytes| {
            let (disk, capacity_bytes) = ("nvme0n1".to_owned(), 1000);
            let flash = Flash { disk, capacity_bytes, written_bytes, trimmed_bytes };
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
}
