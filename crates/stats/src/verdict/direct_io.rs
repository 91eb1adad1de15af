//! H01: I/O bypasses the page cache, and the layers below are no memory.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// Memory of this host below a file or device, even with `O_DIRECT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beneath {
    /// A file system or disk in memory, by its name.
    Memory(String),
    /// A loop device that reads and writes its own file through the page cache, by its name.
    Cached(String),
    /// Possibly memory: below this layer nothing can be followed.
    Hidden(String),
}

/// A file's open flags, and its growth in the page cache.
#[derive(Clone, Debug, PartialEq)]
pub struct Opened {
    /// Name of the file.
    pub name: String,
    /// True if the job requested to bypass the page cache.
    pub asked: bool,
    /// True if the kernel reports that the file bypasses the page cache.
    pub had: bool,
    /// Memory below the file, if there is or may be any.
    pub beneath: Option<Beneath>,
    /// Bytes by which the file's share of the page cache grew; `None` if unknown or not known yet.
    pub cache_growth_bytes: Option<i64>,
    /// Bytes moved; `None` before a run.
    pub moved_bytes: Option<u64>,
}

/// Maximum growth of the page cache as a share of the moved bytes.
const CACHED_SHARE: f64 = 0.001;
/// Growth up to which the page cache shows nothing: a page or two of metadata.
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
                let words = "O_DIRECT, but a lower layer caches in the page cache the file of";
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

    /// Returns the finding on the page cache.
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

/// Returns the words for a layer below which nothing can be followed.
pub(super) fn hidden(layer: &str) -> String {
    format!("the layers below {layer} are not visible: it may be memory")
}

/// H01: I/O bypasses the page cache if the job requests it. `others` are findings for volumes that
/// are no files.
pub fn direct_io(files: &[Opened], others: Vec<Finding>) -> Check {
    let judged = files.iter().map(Opened::judge).chain(others);
    let check = together("H01", "direct-io", judged, "no volume was examined");
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

    /// H01 detects: the page cache grows by 9 MiB while the job reads 8 GiB.
    /// H01 accepts: the page cache grows by 8 MiB, below a thousandth of the reads.
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

    /// H01 detects: tmpfs below the file; a loop device through the page cache.
    /// H01 detects: a layer that hides the layers below it.
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
                "the layers below loop7 on /memfd:x (deleted) are not visible: it may be memory"
            ),
            "{hidden:?}"
        );
    }
}
