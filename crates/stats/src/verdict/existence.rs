//! H02: the data that the job reads were written before.

use super::together::{LISTED, mib, together};
use super::{Check, Verdict};

/// Source of the data that a volume returns to readers.
#[derive(Clone, Debug, PartialEq)]
pub enum Existence {
    /// None: nothing is stored, and reads return what their buffer held.
    Nothing,
    /// Memory of this process.
    Memory,
    /// A file, by its extent map: the bytes of the driven range, those reserved but never written,
    /// and those without an extent. `exact` if the file system distinguishes reserved from written.
    Mapped {
        /// Bytes of the driven range.
        bytes: u64,
        /// Bytes reserved but never written.
        unwritten: u64,
        /// Bytes without an extent.
        holes: u64,
        /// True if reserved and written extents are distinguishable.
        exact: bool,
        /// Blocks that were sampled, and those of them that are zero.
        looked: [u32; 2],
    },
    /// A device without an extent map: the zero blocks of a sample.
    Sampled {
        /// Sampled blocks.
        blocks: u32,
        /// Sampled blocks that are zero.
        zero: u32,
    },
    /// Another host, which does not report it.
    Elsewhere,
    /// Unknown, for the given reason.
    Unknown(String),
}

/// Input of H02 for one volume.
#[derive(Clone, Debug, PartialEq)]
pub struct Readable {
    /// Name of the volume.
    pub name: String,
    /// Source of its data.
    pub existence: Existence,
    /// True if the job reads the volume.
    pub reads: bool,
}

impl Readable {
    fn judge(&self) -> (Verdict, String) {
        let name = &self.name;
        if !self.reads {
            return (Verdict::Pass, format!("{name}: not read"));
        }
        match &self.existence {
            Existence::Nothing => {
                (Verdict::Warn, format!("{name}: stores nothing, reads return no data"))
            }
            Existence::Memory => {
                (Verdict::Pass, format!("{name}: memory of this process, not a device"))
            }
            Existence::Elsewhere => {
                (Verdict::Unknown, format!("{name}: cannot be checked from the initiator"))
            }
            Existence::Unknown(why) => (Verdict::Unknown, format!("{name}: {why}")),
            Existence::Mapped { bytes, unwritten, holes, exact, looked } => {
                let (mapped, words) = map(*bytes, *unwritten, *holes, *exact);
                let [blocks, zero] = *looked;
                let few = zero == 0 || f64::from(zero) < ZERO_SHARE * f64::from(blocks);
                match few {
                    true => (mapped, format!("{name}: {words}")),
                    false => (
                        mapped.worse(Verdict::Warn),
                        format!(
                            "{name}: {words}; {zero} of {blocks} sampled blocks are all zeroes, \
                            which storage need not store or read"
                        ),
                    ),
                }
            }
            Existence::Sampled { blocks, zero } => {
                let verdict = match zero {
                    _ if *blocks == 0 => Verdict::Unknown,
                    0 => Verdict::Pass,
                    _ => Verdict::Warn,
                };
                let words = "sampled blocks are all zeroes";
                (verdict, format!("{name}: {zero} of {blocks} {words}"))
            }
        }
    }
}

/// Maximum share of holes for a warning, in percent: the rest is what was measured.
const HOLES_PERCENT: f64 = 5.0;
/// Share of zero blocks in a file from which on they are no accident.
const ZERO_SHARE: f64 = 0.05;

/// Returns the verdict on the extent map of a file.
fn map(bytes: u64, unwritten: u64, holes: u64, exact: bool) -> (Verdict, String) {
    let missing = unwritten + holes;
    let percent = missing as f64 / bytes.max(1) as f64 * 100.0;
    match (missing, exact) {
        (0, true) => (Verdict::Pass, format!("all {} written", mib(bytes))),
        (0, false) => (Verdict::Pass, format!("{} without holes, by SEEK_HOLE", mib(bytes))),
        _ => {
            let few = percent <= HOLES_PERCENT;
            let digits = if percent < 0.1 { 4 } else { 1 };
            let words = format!(
                "{percent:.digits$} % of {} was never written ({} of holes, {} reserved only) and \
                 reads as zeroes without the device (at most {HOLES_PERCENT:.0} % is a warning)",
                mib(bytes),
                mib(holes),
                mib(unwritten),
            );
            (if few { Verdict::Warn } else { Verdict::Fail }, words)
        }
    }
}

/// H02: the data exist. A hole or a reserved extent answers at the speed of memory, whatever
/// O_DIRECT says.
pub fn data_exists(volumes: &[Readable]) -> Check {
    let judged = volumes.iter().map(Readable::judge);
    let check = together("H02", "data-exist", judged, "no volume was checked");
    let mapped = |volume: &&Readable| matches!(volume.existence, Existence::Mapped { .. });
    let bad = |volume: &&Readable| matches!(volume.judge().0, Verdict::Warn | Verdict::Fail);
    let failed = volumes.iter().filter(mapped).filter(bad);
    failed.take(LISTED).fold(check, |check, volume| {
        check.mend(format!("drumfire run {} --size 1m --rw write --verify --destroy", volume.name))
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn readable(existence: Existence) -> Readable {
        Readable { name: "file:a".into(), existence, reads: true }
    }

    /// Lie of H02: 5 % of a file are a hole, or all of it only reserved.
    /// Twin of H02: all of it was written.
    #[test]
    fn a_hole_is_no_data() {
        let mapped = |unwritten, holes| {
            let (bytes, exact, looked) = (1 << 30, true, [64, 0]);
            readable(Existence::Mapped { bytes, unwritten, holes, exact, looked })
        };
        assert_eq!(data_exists(&[mapped(0, 0)]).verdict, Verdict::Pass);
        let few = data_exists(&[mapped(0, 0), mapped(0, 4096)]);
        assert_eq!((few.verdict, few.mend.len()), (Verdict::Warn, 1));
        assert!(few.evidence.contains("0.0004 % of 1024.0 MiB"), "{few:?}");
        assert_eq!(data_exists(&[mapped(50 << 20, 0)]).verdict, Verdict::Warn);
        let hole = data_exists(&[mapped(0, 0), mapped(0, 52 << 20)]);
        assert_eq!(hole.verdict, Verdict::Fail);
        assert!(hole.mend[0].contains("--rw write"), "{hole:?}");
        let reserved = data_exists(&[mapped(1 << 30, 0)]);
        assert_eq!(reserved.verdict, Verdict::Fail);
        assert!(reserved.evidence.contains("100.0 %"), "{reserved:?}");
        let unread = Readable { reads: false, ..mapped(0, 4096) };
        assert_eq!(data_exists(&[unread]).verdict, Verdict::Pass);
        assert_eq!(data_exists(&[]).verdict, Verdict::Unknown);
    }

    #[test]
    fn many_volumes_are_one_line() {
        let of = |volumes: usize| {
            let mapped = |holes| {
                let (bytes, unwritten, looked) = (8192, 0, [2, 0]);
                Existence::Mapped { bytes, unwritten, holes, exact: true, looked }
            };
            let one = |n: usize| Readable {
                name: format!("file:{n}"),
                existence: mapped(if n < 3 { 4096 } else { 0 }),
                reads: true,
            };
            data_exists(&(0..volumes).rev().map(one).collect::<Vec<_>>())
        };
        let check = of(50);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Fail, 2));
        // The worst findings are first.
        assert!(check.evidence.starts_with("file:2: 50.0 %"), "{check:?}");
        assert!(check.evidence.contains(" is a warning) (and of 2 more); "), "{check:?}");
        assert!(check.evidence.ends_with(" written (and of 46 more)"), "{check:?}");
        assert_eq!(check.evidence.matches("file:").count(), 2, "{check:?}");
        assert!(!of(2).evidence.contains("; …"));
    }

    /// Lie of H02: 4 of 64 blocks are zeroes.
    /// Twin of H02: 3 of them are.
    #[test]
    fn a_file_of_zeroes_is_said() {
        let zeroes = |zero, exact| {
            let (bytes, looked) = (1 << 30, [64, zero]);
            let mapped = Existence::Mapped { bytes, unwritten: 0, holes: 0, exact, looked };
            data_exists(&[readable(mapped)])
        };
        assert_eq!([0, 3].map(|zero| zeroes(zero, true).verdict), [Verdict::Pass; 2]);
        assert_eq!([4, 64].map(|zero| zeroes(zero, false).verdict), [Verdict::Warn; 2]);
        assert!(zeroes(64, true).evidence.contains("64 of 64 sampled blocks"));
    }

    #[test]
    fn says_what_is_no_file() {
        let verdict = |existence| data_exists(&[readable(existence)]).verdict;
        assert_eq!(verdict(Existence::Nothing), Verdict::Warn);
        assert_eq!(verdict(Existence::Memory), Verdict::Pass);
        assert_eq!(verdict(Existence::Elsewhere), Verdict::Unknown);
        assert_eq!(verdict(Existence::Sampled { blocks: 64, zero: 0 }), Verdict::Pass);
        assert_eq!(verdict(Existence::Sampled { blocks: 64, zero: 1 }), Verdict::Warn);
        assert_eq!(verdict(Existence::Sampled { blocks: 0, zero: 0 }), Verdict::Unknown);
    }
}
