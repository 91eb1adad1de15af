//! H08: the used part of a volume is larger than the caches.

use super::together::{Finding, LISTED, mib, together};
use super::{Check, Verdict};

/// Medium of a volume, as far as caches matter.
#[derive(Clone, Debug, PartialEq)]
pub enum Medium {
    /// Memory of this process, by its name, with the largest CPU cache in bytes.
    Memory {
        /// Size of the largest CPU cache in bytes; `None` if unknown.
        cache_bytes: Option<u64>,
    },
    /// Memory of a target.
    TargetMemory,
    /// Memory of this host that looks like a disk.
    Beneath(String),
    /// A file through the page cache of a host.
    PageCache {
        /// Memory of the host in bytes; 0 if unknown.
        memory_bytes: u64,
        /// Bytes used by all volumes that use the page cache.
        all_bytes: u64,
    },
    /// A disk with direct I/O.
    Disk {
        /// Name of the disk.
        name: String,
        /// True if the system reports that the disk is rotational.
        rotational: Option<bool>,
    },
    /// A model, whose latencies are chosen.
    Emulated,
    /// Unknown medium of a target or another program.
    Elsewhere,
    /// Unknown medium of a target; read latencies decided whether a cache served the job (H25).
    Probed(Verdict),
}

/// Use of a volume by a job.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkingSet {
    /// Name of the volume.
    pub name: String,
    /// Bytes of the volume that may be used.
    pub used_bytes: u64,
    /// Bytes of these that receive nine of ten I/Os; all, unless the distribution has hot offsets.
    pub hot_bytes: u64,
    /// Size of the volume in bytes.
    pub volume_bytes: u64,
    /// Maximum I/O size in bytes.
    pub longest_bytes: u64,
    /// Medium of the volume.
    pub medium: Medium,
}

/// Minimum share of a volume; less is a corner of it.
const CORNER_SHARE: f64 = 0.01;
/// Minimum ratio to the memory for I/O through the page cache: five, as MLPerf Storage requires.
const MEMORIES: u64 = 5;
/// Caches of drives: HDDs have up to 256 MiB, and solid-state ones have their maps in memory and
/// little data.
const DISK_CACHE_BYTES: [u64; 2] = [64 << 20, 256 << 20];

impl WorkingSet {
    fn judge(&self) -> Finding {
        let WorkingSet { name, used_bytes: used, volume_bytes: volume, .. } = self;
        let (verdict, words) = self.medium();
        // A volume of one block has no other offset.
        let single = *used <= self.longest_bytes && used < volume;
        let hot = self.hot_bytes;
        let small = if single {
            Some(format!("all I/Os go to the same {}", size(*used)))
        } else if (*used as f64) < CORNER_SHARE * *volume as f64 {
            Some(format!("only {} of {} are used (at least 1 %)", size(*used), size(*volume)))
        } else if hot < *used && (hot as f64) < CORNER_SHARE * *volume as f64 {
            let words = "90 % of the I/Os go to";
            Some(format!("{words} {} of {} (at least 1 %)", size(hot), size(*volume)))
        } else {
            None
        };
        match small {
            Some(small) if verdict == Verdict::Warn => {
                (Verdict::Warn, format!("{name}: {small}; {words}"))
            }
            Some(small) => (Verdict::Warn, format!("{name}: {small}: fits into a cache")),
            None => (verdict, format!("{name}: {words}")),
        }
    }

    /// Returns the finding on the medium.
    fn medium(&self) -> Finding {
        let used = self.hot_bytes;
        let warn = |words| (Verdict::Warn, words);
        let pass = |words| (Verdict::Pass, words);
        let unknown = |words: &str| (Verdict::Unknown, words.to_owned());
        match &self.medium {
            Medium::Memory { cache_bytes: None } => {
                unknown("memory of this process; the size of the CPU caches is not known")
            }
            Medium::PageCache { memory_bytes: 0, .. } => {
                unknown("uses the page cache of a host with unknown memory size")
            }
            Medium::Memory { cache_bytes: Some(cache) } if used < *cache => warn(format!(
                "{} of memory fit into the CPU cache of {}, so the CPU cache is measured",
                size(used),
                size(*cache)
            )),
            Medium::Memory { .. } => pass("memory of this process, not a disk".to_owned()),
            Medium::TargetMemory => pass("memory of the target, not a disk".to_owned()),
            Medium::Beneath(what) => warn(format!("the whole range is in memory ({what})")),
            Medium::PageCache { memory_bytes, all_bytes } => {
                let wanted = memory_bytes.saturating_mul(MEMORIES);
                let words = format!(
                    "{} in total use the page cache of a host with {} of memory (at least {}, \
                    five times the memory)",
                    size(*all_bytes),
                    size(*memory_bytes),
                    size(wanted)
                );
                if *all_bytes < wanted { warn(words) } else { pass(words) }
            }
            Medium::Disk { name, rotational } => {
                let words = format!("{} are used, bypassing the page cache", size(used));
                let [least, most] = DISK_CACHE_BYTES;
                let wanted = if *rotational == Some(true) { most } else { least };
                match used < wanted {
                    true => warn(format!(
                        "{words}: the cache of a disk like {name} may hold them (at least {})",
                        size(wanted)
                    )),
                    false if rotational.is_none() && used < most => unknown(&format!(
                        "{words}: if {name} is an HDD, its cache may hold them (at least {})",
                        size(most)
                    )),
                    false => pass(words),
                }
            }
            Medium::Emulated => (
                Verdict::DoesNotApply,
                "an emulated drive: its model has no other cache".to_owned(),
            ),
            Medium::Elsewhere => unknown("the caches in front of its data are not known here"),
            Medium::Probed(Verdict::Pass) if used < DISK_CACHE_BYTES[0] => warn(format!(
                "{} are used: the cache of a disk may hold them (at least {})",
                size(used),
                size(DISK_CACHE_BYTES[0])
            )),
            Medium::Probed(Verdict::Pass) => pass(format!(
                "{} are used, and no cache served the job, according to read latencies (H25)",
                size(used)
            )),
            Medium::Probed(Verdict::Warn | Verdict::Fail) => {
                warn("a cache served the job, according to read latencies (H25)".to_owned())
            }
            Medium::Probed(_) => unknown(
                "the caches in front of its data are not known here, nor from read \
                    latencies (H25)",
            ),
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => mib(bytes),
    }
}

/// H08: the used range is larger than the caches above it. `others` are findings for volumes that
/// store nothing.
pub fn working_set(volumes: &[WorkingSet], others: Vec<Finding>) -> Check {
    let judged = volumes.iter().map(WorkingSet::judge).chain(others);
    let check = together("H08", "working-set", judged, "no volume was examined");
    let is_cached = |it: &&WorkingSet| matches!(it.medium, Medium::PageCache { .. });
    let commands = volumes.iter().filter(is_cached).take(LISTED);
    let commands = commands.filter(|it| it.judge().0 == Verdict::Warn);
    let direct = |it: &WorkingSet| format!("drumfire run '{}'", around(&it.name));
    commands.map(direct).fold(check, Check::mend)
}

/// H08 for volumes that are the same by different names: each name, with the first name of the same
/// volume; `untold` are volumes that cannot be distinguished from others. `None` if all are
/// different.
pub fn distinct(same: &[(String, String)], untold: &[String]) -> Option<Check> {
    let one = |(name, first): &(String, String)| {
        let words = format!("{name}: same volume as {first}: the use of both is counted for each");
        (Verdict::Warn, words)
    };
    let alone = |name: &String| {
        (Verdict::Unknown, format!("{name}: it is not known whether another volume is the same"))
    };
    let judged: Vec<Finding> = same.iter().map(one).chain(untold.iter().map(alone)).collect();
    (!judged.is_empty()).then(|| together("H08", "working-set", judged.into_iter(), ""))
}

/// Returns the name of a volume with direct I/O.
fn around(name: &str) -> String {
    match name.contains("direct=0") {
        true => name.replace("direct=0", "direct=1"),
        false if name.contains('?') => format!("{name}&direct=1"),
        false => format!("{name}?direct=1"),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn of(used: u64, medium: Medium) -> Check {
        let (name, volume_bytes) = ("file:a".to_owned(), 20_000 * MIB);
        let longest_bytes = 4096;
        working_set(
            &[WorkingSet {
                name,
                used_bytes: used,
                hot_bytes: used,
                volume_bytes,
                longest_bytes,
                medium,
            }],
            Vec::new(),
        )
    }

    fn disk(rotational: Option<bool>) -> Medium {
        Medium::Disk { name: "vda".into(), rotational }
    }

    /// H08 detects: every I/O uses one block; 1 % of a volume.
    /// H08 accepts: 256 MiB of a disk.
    #[test]
    fn a_corner_of_a_volume_is_said() {
        let one = of(4096, disk(None));
        assert_eq!(one.verdict, Verdict::Warn);
        assert!(one.evidence.contains("all I/Os go to the same 4.0 KiB"), "{one:?}");
        let corner = of(199 * MIB, disk(None));
        assert!(corner.evidence.contains("only 199.0 MiB of 20000.0 MiB"), "{corner:?}");
        assert_eq!(of(256 * MIB, disk(Some(true))).verdict, Verdict::Pass);
        // On a target with unknown caches, a corner is still a corner.
        assert_eq!(of(199 * MIB, Medium::Elsewhere).verdict, Verdict::Warn);
        assert_eq!(of(256 * MIB, Medium::Elsewhere).verdict, Verdict::Unknown);
        assert_eq!(of(256 * MIB, Medium::Emulated).verdict, Verdict::DoesNotApply);
        assert_eq!(of(199 * MIB, Medium::Emulated).verdict, Verdict::Warn);
    }

    #[test]
    fn what_has_two_names_is_said() {
        assert_eq!(distinct(&[], &[]), None);
        assert_eq!(distinct(&[], &["file:b".into()]).unwrap().verdict, Verdict::Unknown);
        let check = distinct(&[("file:b".into(), "file:a".into())], &[]).unwrap();
        assert_eq!(check.verdict, Verdict::Warn);
        assert!(check.evidence.starts_with("file:b: same volume as file:a"), "{check:?}");
    }

    /// H08 detects: a working set smaller than a drive's cache, or than five times the memory.
    /// H08 accepts: a working set of five times the memory.
    #[test]
    fn caches_are_held_against_it() {
        let small = |used: u64, rotational| {
            let medium = disk(rotational);
            let set = WorkingSet {
                name: "file:a".into(),
                used_bytes: used,
                hot_bytes: used,
                volume_bytes: used,
                longest_bytes: 4096,
                medium,
            };
            working_set(&[set], Vec::new()).verdict
        };
        let unknown = [64, 255, 256].map(|mib| small(mib * MIB, None));
        assert_eq!(unknown, [Verdict::Unknown, Verdict::Unknown, Verdict::Pass]);
        assert_eq!(small(63 * MIB, Some(false)), Verdict::Warn);
        assert_eq!(small(64 * MIB, Some(false)), Verdict::Pass);
        assert_eq!(small(64 * MIB, Some(true)), Verdict::Warn);
        let cached = |all: u64| {
            let medium = Medium::PageCache { memory_bytes: 1000 * MIB, all_bytes: all };
            of(5000 * MIB, medium)
        };
        let untold = Medium::PageCache { memory_bytes: 0, all_bytes: 5000 * MIB };
        assert_eq!(of(5000 * MIB, untold).verdict, Verdict::Unknown);
        assert_eq!(cached(5000 * MIB).verdict, Verdict::Pass);
        let held = cached(4999 * MIB);
        assert_eq!((held.verdict, held.mend.len()), (Verdict::Warn, 1));
        assert_eq!(around("file:a?size=1g&direct=0"), "file:a?size=1g&direct=1");
    }

    /// H08 detects: nine of ten I/Os use 4 MiB of 20 GB.
    /// H08 accepts: nine of ten I/Os use 300 MiB.
    #[test]
    fn hot_places_are_the_working_set() {
        let of = |hot_bytes: u64| {
            let (name, used_bytes) = ("file:a".to_owned(), 20_000 * MIB);
            let (volume_bytes, longest_bytes, medium) = (used_bytes, 4096, disk(Some(false)));
            working_set(
                &[WorkingSet { name, used_bytes, hot_bytes, volume_bytes, longest_bytes, medium }],
                Vec::new(),
            )
        };
        let hot = of(4 * MIB);
        assert_eq!(hot.verdict, Verdict::Warn, "{hot:?}");
        assert!(hot.evidence.contains("90 % of the I/Os go to 4.0 MiB of 20000.0 MiB"), "{hot:?}");
        assert_eq!(of(300 * MIB).verdict, Verdict::Pass);
    }

    /// H08 detects: a target's cache served the job; 16 MiB of a remote volume.
    /// H08 accepts: no cache of a target served the job, and 64 MiB are used.
    #[test]
    fn what_reads_took_tells_of_remote_volumes() {
        let of = |mib: u64, verdict| {
            let (name, used_bytes) = ("nvme://a".to_owned(), mib * MIB);
            let (hot_bytes, volume_bytes, longest_bytes) = (used_bytes, used_bytes, 4096);
            let medium = Medium::Probed(verdict);
            working_set(
                &[WorkingSet { name, used_bytes, hot_bytes, volume_bytes, longest_bytes, medium }],
                Vec::new(),
            )
        };
        assert_eq!(of(64, Verdict::Pass).verdict, Verdict::Pass);
        assert_eq!(of(16, Verdict::Pass).verdict, Verdict::Warn);
        assert_eq!(of(64, Verdict::Warn).verdict, Verdict::Warn);
        assert_eq!(of(64, Verdict::Unknown).verdict, Verdict::Unknown);
        assert_eq!(of(64, Verdict::DoesNotApply).verdict, Verdict::Unknown);
    }

    /// H08 detects: 16 MiB of memory below a CPU cache of 32 MiB; memory below a file.
    /// H08 accepts: 64 MiB of that memory.
    #[test]
    fn memory_is_told_as_memory() {
        let cache = Medium::Memory { cache_bytes: Some(32 * MIB) };
        let volume = |used: u64, medium: Medium| {
            let (volume_bytes, longest_bytes) = (used, 4096);
            let set = WorkingSet {
                name: "m".into(),
                used_bytes: used,
                hot_bytes: used,
                volume_bytes,
                longest_bytes,
                medium,
            };
            working_set(&[set], Vec::new())
        };
        let untold = Medium::Memory { cache_bytes: None };
        assert_eq!(volume(64 * MIB, untold).verdict, Verdict::Unknown);
        assert_eq!(volume(16 * MIB, cache.clone()).verdict, Verdict::Warn);
        let large = volume(64 * MIB, cache);
        assert_eq!(large.verdict, Verdict::Pass);
        assert!(large.evidence.contains("memory"), "{large:?}");
        let target = volume(16 * MIB, Medium::TargetMemory);
        assert_eq!(target.verdict, Verdict::Pass);
        assert!(target.evidence.contains("memory of the target"), "{target:?}");
        let beneath = volume(64 * MIB, Medium::Beneath("loop0 on tmpfs".into()));
        assert_eq!(beneath.verdict, Verdict::Warn);
        assert!(beneath.evidence.contains("memory (loop0 on tmpfs)"), "{beneath:?}");
    }
}
