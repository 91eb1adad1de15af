//! H04: storage cannot reduce the data.

use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// Ways in which written data could be reduced.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reducible {
    /// Share that a compressor saves, 0 to 100.
    pub compress_percent: f64,
    /// Share of blocks that equal others, 0 to 100.
    pub dedupe_percent: f64,
    /// True if all writes are one pattern, or end in it.
    pub patterned: bool,
    /// True if buffers are written repeatedly, each time with few new bytes.
    pub repeats: bool,
}

/// Storage of a file's data: bytes by its extent map, and samples of its blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Written bytes of the range.
    pub bytes: u64,
    /// Compressed bytes of these.
    pub compressed: u64,
    /// Bytes of these in extents of the device that other parts of the range share.
    pub repeated: u64,
    /// Blocks of the range that were sampled.
    pub looked: u32,
    /// Sampled blocks that equal others, or repeat a few bytes.
    pub alike: u32,
}

/// Input of H04 for one volume.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Data {
    /// Name of the volume.
    pub name: String,
    /// Data that the job writes to the volume, if it does.
    pub written: Option<Reducible>,
    /// True if the job reads the volume.
    pub reads: bool,
    /// Storage of the data that the job reads, if known.
    pub read: Option<Kept>,
}

/// Minimum reduced share; less is a header, or one block of many.
const KEPT_SHARE: f64 = 0.02;
/// Minimum share of identical sampled blocks for a finding; a smaller share may be chance.
const ALIKE_SHARE: f64 = 0.05;

impl Reducible {
    fn findings(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.patterned {
            found.push("writes repeat one pattern".to_owned());
        }
        if self.compress_percent > 0.0 && !self.patterned {
            found.push(format!("{:.0} % of each write is compressible", self.compress_percent));
        }
        if self.dedupe_percent > 0.0 {
            found.push(format!("{:.0} % of the blocks are duplicates", self.dedupe_percent));
        }
        if self.repeats {
            found.push("buffers are rewritten unchanged".to_owned());
        }
        found
    }
}

impl Kept {
    fn findings(&self) -> Vec<String> {
        let much = |bytes: u64| bytes as f64 > KEPT_SHARE * self.bytes as f64;
        let mut found = Vec::new();
        if much(self.compressed) {
            found.push(format!("its file system stores {} compressed", mib(self.compressed)));
        }
        if much(self.repeated) {
            let words = "share blocks with other parts of the file: the device stores them once";
            found.push(format!("{} of {} {words}", mib(self.repeated), mib(self.bytes)));
        }
        if self.alike > 0 && f64::from(self.alike) >= ALIKE_SHARE * f64::from(self.looked) {
            let words = "sampled blocks are duplicates, or repeat a few bytes";
            found.push(format!("{} of {} {words}", self.alike, self.looked));
        }
        found
    }
}

impl Data {
    fn judge(&self) -> Finding {
        let name = &self.name;
        let written = self.written.iter().flat_map(Reducible::findings);
        let found: Vec<String> = written.chain(self.read.iter().flat_map(Kept::findings)).collect();
        if !found.is_empty() {
            let words = "storage may transfer and store less than counted";
            return (Verdict::Warn, format!("{name}: {}: {words}", found.join(", ")));
        }
        let (verdict, words) = match (self.written, self.read) {
            (_, None) if self.reads => {
                (Verdict::Unknown, "the stored form of the data read is not known")
            }
            (Some(_), _) => (Verdict::Pass, "writes are neither compressible nor duplicates"),
            (None, Some(kept)) if kept.bytes > 0 => {
                (Verdict::Pass, "reads are neither compressed nor shared")
            }
            (None, Some(_)) => (Verdict::Pass, "no two sampled blocks are equal"),
            (None, None) => (Verdict::DoesNotApply, "no data is read or written"),
        };
        (verdict, format!("{name}: {words}"))
    }
}

/// H04: the data cannot be reduced. `others` are findings for volumes that store data unchanged.
pub fn content(volumes: &[Data], others: Vec<Finding>) -> Check {
    let judged = volumes.iter().map(Data::judge).chain(others);
    together("H04", "content", judged, "no volume was examined")
}

#[cfg(test)]
mod test {
    use super::*;

    fn written(reducible: Reducible) -> Verdict {
        let (name, written) = ("file:a".into(), Some(reducible));
        content(&[Data { name, written, ..Data::default() }], Vec::new()).verdict
    }

    /// H04 detects: duplicates, compressible data, a pattern, repeated buffers.
    /// H04 accepts: random data.
    #[test]
    fn writes_that_can_be_reduced_are_said() {
        let none = Reducible::default();
        assert_eq!(written(none), Verdict::Pass);
        assert_eq!(written(Reducible { dedupe_percent: 1.0, ..none }), Verdict::Warn);
        assert_eq!(written(Reducible { compress_percent: 50.0, ..none }), Verdict::Warn);
        assert_eq!(written(Reducible { patterned: true, ..none }), Verdict::Warn);
        assert_eq!(written(Reducible { repeats: true, ..none }), Verdict::Warn);
        assert_eq!(content(&[Data::default()], Vec::new()).verdict, Verdict::DoesNotApply);
        // Written data say nothing about the data that are read.
        let both = Data { written: Some(none), reads: true, ..Data::default() };
        assert_eq!(content(&[both], Vec::new()).verdict, Verdict::Unknown);
        assert_eq!(content(&[], Vec::new()).verdict, Verdict::Unknown);
    }

    /// H04 detects: a file that is stored compressed, or in extents that another file shares.
    /// H04 accepts: 2 % of the file compressed or shared.
    #[test]
    fn files_that_are_kept_smaller_are_said() {
        let read = |compressed, repeated| {
            let read = Some(Kept { bytes: 200 << 20, compressed, repeated, ..Kept::default() });
            let name = "file:a".into();
            content(&[Data { name, written: None, reads: true, read }], Vec::new())
        };
        assert_eq!(read(0, 0).verdict, Verdict::Pass);
        assert_eq!(read(4096, 4 << 20).verdict, Verdict::Pass);
        assert!(read(200 << 20, 0).evidence.contains("stores 200.0 MiB compressed"));
        let shared = read(0, 199 << 20);
        assert_eq!(shared.verdict, Verdict::Warn);
        assert!(shared.evidence.contains("199.0 MiB of 200.0 MiB share blocks"), "{shared:?}");
    }

    /// H04 detects: one of twenty blocks equals another, or repeats a few bytes.
    /// H04 accepts: one of 64 blocks equals another.
    #[test]
    fn what_is_alike_where_it_is_read_is_said() {
        let read = |looked, alike| {
            let read = Some(Kept { looked, alike, ..Kept::default() });
            let name = "file:a".into();
            content(&[Data { name, written: None, reads: true, read }], Vec::new())
        };
        assert_eq!([read(64, 0), read(64, 1)].map(|check| check.verdict), [Verdict::Pass; 2]);
        let alike = read(20, 1);
        assert_eq!(alike.verdict, Verdict::Warn);
        assert!(alike.evidence.contains("1 of 20 sampled blocks"), "{alike:?}");
    }
}
