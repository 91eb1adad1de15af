//! Checks of storage: that data exist, that they came from the device, that counters agree.

use super::{Check, Verdict};

/// Where the data come from that a volume's readers get.
#[derive(Clone, Debug, PartialEq)]
pub enum Existence {
    /// Nothing is stored: reads return what their buffer held.
    Nothing,
    /// Memory of this process.
    Memory,
    /// A file, by its map: bytes in the range that is driven, of them reserved but never written,
    /// and without any place. `exact` if the file system tells reserved from written.
    Mapped {
        /// All of it.
        bytes: u64,
        /// Reserved, never written.
        unwritten: u64,
        /// Without a place.
        holes: u64,
        /// Both can be told apart.
        exact: bool,
    },
    /// A device without a map: of so many blocks that were looked at, so many held only zeroes.
    Sampled {
        /// Looked at.
        blocks: u32,
        /// Of them zero.
        zero: u32,
    },
    /// Another host knows.
    Elsewhere,
    /// It could not be found out, and why.
    Unknown(String),
}

/// A volume before H02.
#[derive(Clone, Debug, PartialEq)]
pub struct Readable {
    /// Its name.
    pub name: String,
    /// Where its data come from.
    pub existence: Existence,
    /// The job reads it.
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
                (Verdict::Warn, format!("{name}: stores nothing, its reads return no data"))
            }
            Existence::Memory => {
                (Verdict::Pass, format!("{name}: memory of this process, not a device"))
            }
            Existence::Elsewhere => (
                Verdict::Unknown,
                format!("{name}: only its target knows what of it was ever written"),
            ),
            Existence::Unknown(why) => (Verdict::Unknown, format!("{name}: {why}")),
            Existence::Mapped { bytes, unwritten, holes, exact } => {
                let missing = unwritten + holes;
                let percent = missing as f64 / (*bytes).max(1) as f64 * 100.0;
                match (missing, exact) {
                    (0, true) => (Verdict::Pass, format!("{name}: all {} written", mib(*bytes))),
                    (0, false) => (
                        Verdict::Pass,
                        format!("{name}: {} without holes, by SEEK_HOLE", mib(*bytes)),
                    ),
                    _ => (
                        Verdict::Fail,
                        format!(
                            "{name}: {percent:.1} % of {} was never written ({} of holes, {} \
                             reserved only) and reads as zeroes without the device",
                            mib(*bytes),
                            mib(*holes),
                            mib(*unwritten),
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
                let words = "blocks that were looked at hold only zeroes";
                (verdict, format!("{name}: {zero} of {blocks} {words}"))
            }
        }
    }
}

/// H02: what is read exists. A hole or a reserved extent answers at the speed of memory, whatever
/// O_DIRECT says.
pub fn data_exists(volumes: &[Readable]) -> Check {
    let judged = volumes.iter().map(Readable::judge);
    let check = together("H02", "data-exist", judged, "no volume was looked at");
    let failed = volumes.iter().filter(|volume| volume.judge().0 == Verdict::Fail);
    failed.take(LISTED).fold(check, |check, volume| {
        check.mend(format!("drumfire run {} --size 1m --rw write --verify --destroy", volume.name))
    })
}

/// What is memory of this host below a file or device, whatever its `O_DIRECT` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beneath {
    /// A file system or disk that is nothing else, by its name.
    Memory(String),
    /// A loop device that reads and writes its own file through the page cache, by its name.
    Cached(String),
}

/// How a file was opened, and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Its name.
    pub name: String,
    /// It was to go around the page cache.
    pub asked: bool,
    /// It does, as the kernel says.
    pub had: bool,
    /// What is memory below it.
    pub beneath: Option<Beneath>,
    /// Bytes by which its share of the page cache grew; `None` if not known or not yet.
    pub cache_growth_bytes: Option<i64>,
    /// Bytes that were moved; `None` before a run.
    pub moved_bytes: Option<u64>,
}

/// The page cache may take this share of what was moved.
const CACHED_SHARE: f64 = 0.001;
/// A page or two of metadata are no sign.
const CACHED_SLACK_BYTES: i64 = 1 << 20;

impl Opened {
    fn judge(&self) -> (Verdict, String) {
        let name = &self.name;
        if !self.had {
            let why = if self.asked { "its file system refuses O_DIRECT" } else { "by request" };
            let cache = "goes through the page cache, memory is part of what is measured";
            return (Verdict::Warn, format!("{name} {cache} ({why})"));
        }
        match &self.beneath {
            Some(Beneath::Memory(what)) => {
                let words = "O_DIRECT goes around nothing, what it lies on is memory";
                return (Verdict::Warn, format!("{name}: {words} ({what})"));
            }
            Some(Beneath::Cached(disk)) => {
                let words = "O_DIRECT, but below it the page cache keeps the file of";
                return (Verdict::Warn, format!("{name}: {words} {disk}"));
            }
            None => {}
        }
        let (Some(growth), Some(moved)) = (self.cache_growth_bytes, self.moved_bytes) else {
            let state = if self.moved_bytes.is_none() { Verdict::Pass } else { Verdict::Unknown };
            return (state, format!("{name}: open with O_DIRECT"));
        };
        let words = format!(
            "{name}: O_DIRECT, {} moved, page cache {:+.1} MiB",
            mib(moved),
            growth as f64 / (1 << 20) as f64
        );
        let bad = growth > CACHED_SLACK_BYTES && growth as f64 > CACHED_SHARE * moved as f64;
        (if bad { Verdict::Fail } else { Verdict::Pass }, words)
    }
}

/// H01: I/O goes around the page cache where that was asked for. `None` if no volume is a file.
pub fn direct_io(files: &[Opened]) -> Option<Check> {
    let judged = files.iter().map(Opened::judge);
    let check = (!files.is_empty()).then(|| together("H01", "direct-io", judged, ""))?;
    let disks = files.iter().filter(|file| file.had).filter_map(|file| match &file.beneath {
        Some(Beneath::Cached(disk)) => Some(disk),
        _ => None,
    });
    let command = |disk: &String| format!("losetup --direct-io=on /dev/{disk}");
    Some(disks.map(command).fold(check, Check::mend))
}

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

/// More things than these are counted, not listed: fifty volumes are one line all the same.
const LISTED: usize = 2;

/// One check out of several things: the worst verdict, and what was found of each.
pub(super) fn together(
    code: &str,
    name: &str,
    judged: impl Iterator<Item = (Verdict, String)>,
    nothing: &str,
) -> Check {
    let mut all: Vec<(Verdict, String)> = judged.collect();
    if all.is_empty() {
        return Check::new(code, name, Verdict::Unknown, nothing);
    }
    let verdict = all.iter().fold(Verdict::Pass, |worst, (verdict, _)| worst.worse(*verdict));
    // The worst first: those are what a reader must see.
    all.sort_by_key(|(one, _)| std::cmp::Reverse(one.rank()));
    let more = all.len().saturating_sub(LISTED);
    let listed: Vec<String> = all.into_iter().take(LISTED).map(|(_, words)| words).collect();
    let mut words = listed.join("; ");
    if more > 0 {
        words += &format!("; … and {more} more");
    }
    Check::new(code, name, verdict, words)
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

#[cfg(test)]
mod test {
    use super::*;

    fn readable(existence: Existence) -> Readable {
        Readable { name: "file:a".into(), existence, reads: true }
    }

    #[test]
    fn a_hole_is_no_data() {
        let mapped = |unwritten, holes| {
            let bytes = 1 << 30;
            readable(Existence::Mapped { bytes, unwritten, holes, exact: true })
        };
        assert_eq!(data_exists(&[mapped(0, 0)]).verdict, Verdict::Pass);
        let hole = data_exists(&[mapped(0, 0), mapped(0, 4096)]);
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
            let mapped =
                |holes| Existence::Mapped { bytes: 8192, unwritten: 0, holes, exact: true };
            let one = |n: usize| Readable {
                name: format!("file:{n}"),
                existence: mapped(if n < 3 { 4096 } else { 0 }),
                reads: true,
            };
            data_exists(&(0..volumes).rev().map(one).collect::<Vec<_>>())
        };
        let check = of(50);
        assert_eq!((check.verdict, check.mend.len()), (Verdict::Fail, 2));
        // The worst stand first.
        assert!(check.evidence.starts_with("file:2: 50.0 %"), "{check:?}");
        assert!(check.evidence.ends_with("; … and 48 more"), "{check:?}");
        assert_eq!(check.evidence.matches("file:").count(), 2, "{check:?}");
        assert!(!of(2).evidence.contains("more"));
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

    #[test]
    fn the_page_cache_shows() {
        let opened = |asked, had, growth| {
            let file = Opened {
                name: "file:a".into(),
                asked,
                had,
                beneath: None,
                cache_growth_bytes: Some(growth),
                moved_bytes: Some(1 << 33),
            };
            direct_io(&[file]).unwrap()
        };
        assert_eq!(opened(true, true, 8 << 20).verdict, Verdict::Pass);
        assert_eq!(opened(true, true, 9 << 20).verdict, Verdict::Fail);
        assert_eq!(opened(true, true, -(9 << 20)).verdict, Verdict::Pass);
        assert!(opened(true, false, 0).evidence.contains("refuses O_DIRECT"));
        assert!(opened(false, false, 0).evidence.contains("by request"));
        assert_eq!(direct_io(&[]), None);
    }

    #[test]
    fn memory_below_a_file_is_said() {
        let judge = |beneath| {
            let file = Opened {
                name: "file:a".into(),
                asked: true,
                had: true,
                beneath: Some(beneath),
                cache_growth_bytes: Some(0),
                moved_bytes: Some(1 << 33),
            };
            direct_io(&[file]).unwrap()
        };
        let memory = judge(Beneath::Memory("tmpfs".into()));
        assert_eq!((memory.verdict, memory.mend.len()), (Verdict::Warn, 0));
        assert!(memory.evidence.contains("is memory (tmpfs)"), "{memory:?}");
        let cached = judge(Beneath::Cached("loop7".into()));
        assert_eq!(cached.verdict, Verdict::Warn);
        assert_eq!(cached.mend, ["losetup --direct-io=on /dev/loop7"]);
    }

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
