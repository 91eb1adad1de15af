//! Whether I/O goes around the page cache, and what lies below it.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// What is memory of this host below a file or device, whatever its `O_DIRECT` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beneath {
    /// A file system or disk that is nothing else, by its name.
    Memory(String),
    /// A loop device that reads and writes its own file through the page cache, by its name.
    Cached(String),
    /// Perhaps: below this layer nothing can be followed.
    Hidden(String),
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
    /// What is memory below it, or may be.
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
            let cache = "uses the page cache, so memory is measured too";
            return (Verdict::Warn, format!("{name} {cache} ({why})"));
        }
        match &self.beneath {
            Some(Beneath::Memory(what)) => {
                let words = "O_DIRECT bypasses nothing, the file is in memory";
                return (Verdict::Warn, format!("{name}: {words} ({what})"));
            }
            Some(Beneath::Cached(disk)) => {
                let words = "O_DIRECT, but below it the page cache keeps the file of";
                return (Verdict::Warn, format!("{name}: {words} {disk}"));
            }
            Some(Beneath::Hidden(_)) | None => {}
        }
        let (verdict, words) = self.cached();
        match &self.beneath {
            Some(Beneath::Hidden(layer)) => {
                (verdict.worse(Verdict::Unknown), format!("{words}; {}", hidden(layer)))
            }
            _ => (verdict, words),
        }
    }

    /// What became of the page cache.
    fn cached(&self) -> Finding {
        let name = &self.name;
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

/// What is said of a layer below which nothing can be followed.
pub(super) fn hidden(layer: &str) -> String {
    format!("below {layer} nothing can be followed: it may be memory")
}

/// H01: I/O goes around the page cache where that was asked for. `others` are what is known of
/// volumes that are no files.
pub fn direct_io(files: &[Opened], others: Vec<Finding>) -> Check {
    let judged = files.iter().map(Opened::judge).chain(others);
    let check = together("H01", "direct-io", judged, "no volume was looked at");
    let disks = files.iter().filter(|file| file.had).filter_map(|file| match &file.beneath {
        Some(Beneath::Cached(disk)) => Some(disk),
        _ => None,
    });
    let command = |disk: &String| format!("losetup --direct-io=on /dev/{disk}");
    disks.map(command).fold(check, Check::mend)
}

#[cfg(test)]
mod test {
    use super::*;

    /// Lie of H01: the page cache grows by 9 MiB while 8 GiB are read around it.
    /// Twin of H01: it grows by 8 MiB, below a thousandth.
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
            direct_io(&[file], Vec::new())
        };
        assert_eq!(opened(true, true, 8 << 20).verdict, Verdict::Pass);
        assert_eq!(opened(true, true, 9 << 20).verdict, Verdict::Fail);
        assert_eq!(opened(true, true, -(9 << 20)).verdict, Verdict::Pass);
        assert!(opened(true, false, 0).evidence.contains("refuses O_DIRECT"));
        assert!(opened(false, false, 0).evidence.contains("by request"));
        assert_eq!(direct_io(&[], Vec::new()).verdict, Verdict::Unknown);
        let memory = (Verdict::DoesNotApply, "ram:1g: memory of this process".to_owned());
        assert_eq!(direct_io(&[], vec![memory]).verdict, Verdict::DoesNotApply);
    }

    /// Lie of H01: tmpfs below the file; a loop device through the page cache.
    /// Lie of H01: a layer that hides what is below it.
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
            direct_io(&[file], Vec::new())
        };
        let memory = judge(Beneath::Memory("tmpfs".into()));
        assert_eq!((memory.verdict, memory.mend.len()), (Verdict::Warn, 0));
        assert!(memory.evidence.contains("in memory (tmpfs)"), "{memory:?}");
        let cached = judge(Beneath::Cached("loop7".into()));
        assert_eq!(cached.verdict, Verdict::Warn);
        assert_eq!(cached.mend, ["losetup --direct-io=on /dev/loop7"]);
        let hidden = judge(Beneath::Hidden("loop7 on /memfd:x (deleted)".into()));
        assert_eq!(hidden.verdict, Verdict::Unknown);
        assert!(
            hidden.evidence.ends_with(
                "below loop7 on /memfd:x (deleted) nothing can be followed: it may be memory"
            ),
            "{hidden:?}"
        );
    }
}
