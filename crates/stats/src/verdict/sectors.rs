//! H18: writes are whole physical blocks of a disk.

use super::together::{Finding, together};
use super::{Check, Verdict};

/// A disk that a job writes with direct I/O, and its block sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sectors {
    /// Name of the disk.
    pub disk: String,
    /// Logical block size in bytes; `None` if the disk does not report it.
    pub logical_bytes: Option<u64>,
    /// Physical block size in bytes; `None` if the disk does not report it.
    pub physical_bytes: Option<u64>,
    /// Alignment of the writes: every write begins at a multiple of this many bytes of the volume,
    /// and its size is a multiple of it; `None` if offsets are unknown, as those of a trace.
    pub unit_bytes: Option<u64>,
    /// Bytes from the beginning of the volume, or of its partition, to the first physical block;
    /// `None` if there is no aligned offset.
    pub offset_bytes: Option<u64>,
}

/// Returns the greatest common divisor; that of 0 and another number is the other one.
pub fn common_unit(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common_unit(b, a % b) }
}

impl Sectors {
    fn judge(&self) -> Finding {
        let disk = &self.disk;
        let Some(physical) = self.physical_bytes.filter(|bytes| *bytes > 0) else {
            return (Verdict::Unknown, format!("{disk}: its physical block size is not reported"));
        };
        let logical = self.logical_bytes.unwrap_or(1);
        let smallest = self.unit_bytes.unwrap_or(logical);
        let placed = self.offset_bytes.map(|offset| common_unit(smallest, offset));
        let is_whole = |bytes: u64| bytes > 0 && bytes.is_multiple_of(physical);
        match (self.unit_bytes, placed) {
            (_, Some(bytes)) if is_whole(bytes) => {
                (Verdict::Pass, format!("{disk}: writes are whole blocks of {physical} bytes"))
            }
            (None, _) => {
                let words = format!(
                    "{disk}: physical blocks of {physical} bytes, and the offsets of a trace are \
                    not examined"
                );
                (Verdict::Unknown, words)
            }
            (Some(unit), _) if is_whole(unit) => {
                let words = format!(
                    "{disk}: physical blocks of {physical} bytes, and the volume is not aligned \
                    to them: every write is a read-modify-write (read, changed and written)"
                );
                (Verdict::Warn, words)
            }
            (Some(unit), _) => {
                let words = format!(
                    "{disk}: writes in units of {unit} bytes, but physical blocks of {physical}: \
                    a partial block is a read-modify-write (the disk reads, changes and writes \
                    all of it)"
                );
                (Verdict::Warn, words)
            }
        }
    }

    /// Returns the command that aligns the writes.
    fn mend(&self) -> Option<String> {
        let (physical, unit) = (self.physical_bytes?, self.unit_bytes?);
        (self.judge().0 == Verdict::Warn).then(|| match unit.is_multiple_of(physical) {
            true => format!("parted /dev/{} align-check optimal 1 # for each partition", self.disk),
            false => format!("drumfire run … --size {physical} # and offsets at multiples of it"),
        })
    }
}

/// H18 for disks that emulate logical blocks smaller than their physical ones (512e). `None` if
/// nothing is written with direct I/O.
pub fn whole_sectors(disks: &[Sectors]) -> Option<Check> {
    let judged = disks.iter().map(Sectors::judge);
    let check = together("H18", "block-layer", judged, "");
    (!disks.is_empty()).then(|| disks.iter().filter_map(Sectors::mend).fold(check, Check::mend))
}

#[cfg(test)]
mod test {
    use super::*;

    /// Returns a disk with logical blocks of 512 bytes and physical blocks of 4096.
    fn emulating() -> Sectors {
        Sectors {
            disk: "sda".into(),
            logical_bytes: Some(512),
            physical_bytes: Some(4096),
            unit_bytes: Some(4096),
            offset_bytes: Some(0),
        }
    }

    fn judge(disk: Sectors) -> Check {
        whole_sectors(&[disk]).expect("a disk is written")
    }

    /// H18 detects: a partition that is not aligned to physical blocks.
    /// H18 accepts: writes of whole blocks; a disk with physical blocks of 512 bytes.
    #[test]
    fn writes_of_a_part_of_a_block_are_said() {
        let small = judge(Sectors { unit_bytes: Some(512), ..emulating() });
        assert_eq!((small.verdict, small.mend.len()), (Verdict::Warn, 1));
        assert!(small.evidence.contains("in units of 512 bytes"), "{small:?}");
        assert!(small.mend[0].contains("--size 4096"), "{small:?}");
        let beside = judge(Sectors { offset_bytes: Some(3584), ..emulating() });
        assert_eq!(beside.verdict, Verdict::Warn);
        assert!(beside.evidence.contains("is not aligned to them"), "{beside:?}");
        assert!(beside.mend[0].starts_with("parted /dev/sda"), "{beside:?}");
        assert_eq!(judge(Sectors { offset_bytes: None, ..emulating() }).verdict, Verdict::Warn);
        for (unit, physical) in [(4096, 4096), (12_288, 4096), (512, 512), (8192, 512)] {
            let (unit_bytes, physical_bytes) = (Some(unit), Some(physical));
            let whole = judge(Sectors { unit_bytes, physical_bytes, ..emulating() });
            assert_eq!(whole.verdict, Verdict::Pass, "{whole:?}");
            assert!(whole.mend.is_empty());
        }
        assert_eq!(judge(Sectors { unit_bytes: Some(6144), ..emulating() }).verdict, Verdict::Warn);
    }

    #[test]
    fn what_is_not_shown_is_not_known() {
        let untold = judge(Sectors { physical_bytes: None, ..emulating() });
        assert_eq!(untold.verdict, Verdict::Unknown);
        let trace = Sectors { unit_bytes: None, ..emulating() };
        assert_eq!(judge(trace.clone()).verdict, Verdict::Unknown);
        // Every possible offset is that of a whole block.
        let native = Sectors { logical_bytes: Some(4096), ..trace };
        assert_eq!(judge(native.clone()).verdict, Verdict::Pass);
        assert_eq!(judge(Sectors { logical_bytes: None, ..native }).verdict, Verdict::Unknown);
        assert_eq!(whole_sectors(&[]), None);
    }

    #[test]
    fn units_are_common_divisors() {
        assert_eq!(
            [(0, 4096), (4096, 0), (4096, 6144), (512, 3584), (1, 512)]
                .map(|(a, b)| common_unit(a, b)),
            [4096, 4096, 2048, 512, 1]
        );
    }
}
