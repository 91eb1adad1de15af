//! Verifies data of an earlier run without its ledger: only the data itself is known.
//!
//! A stamp does not show whether it is of the *last* write to its block, nor of which run: a lost
//! overwrite is not detected. To find that, compare with the ledger that the run left.

use block::{Geometry, Rng};

use super::frame::Frame;
use super::patterned::Patterned;
use super::{Finding, FindingKind};
use crate::stamp::{self, Left, SECTOR};
use job::spec::Workload;

/// Verifies a worker's reads.
#[derive(Debug)]
pub(crate) struct Earlier {
    patterned: Option<Patterned>,
    frame: Frame,
    /// Share of verified reads, of 2³².
    sample: u64,
    rng: Rng,
}

impl Earlier {
    /// For a workload that verifies existing data.
    pub(crate) fn of(workload: &Workload, geometry: Geometry, rng: Rng) -> Option<Earlier> {
        let verify = workload.verify.filter(|verify| verify.earlier)?;
        Some(Earlier {
            patterned: Patterned::of(workload, geometry),
            frame: Frame::of(&[workload], geometry),
            sample: (verify.sample_percent / 100.0 * (1_u64 << 32) as f64).round() as u64,
            rng,
        })
    }

    /// The first wrong block of a read, if this read is verified.
    pub(crate) fn check(&mut self, data: &[u8], offset: u64) -> Option<Finding> {
        if !self.rng.chance(self.sample) {
            return None;
        }
        // A read may begin within a block, if the volume ends with a shorter one.
        let unit = self.frame.unit;
        let (mut place, mut data) = (offset, data);
        while !data.is_empty() {
            let left = unit - (place - self.frame.start) % unit;
            let (block, rest) = data.split_at(data.len().min(left as usize));
            if let Some(kind) = self.judge(block, place) {
                return Some(Finding { offset: place, kind });
            }
            (place, data) = (place + block.len() as u64, rest);
        }
        None
    }

    fn judge(&self, block: &[u8], place: u64) -> Option<FindingKind> {
        if let Some(patterned) = &self.patterned {
            return patterned.judge(block, place);
        }
        let mut first = None;
        for (place, sector) in (place..).step_by(SECTOR).zip(block.chunks_exact(SECTOR)) {
            match stamp::look(sector, place) {
                Left::Whole(owner, generation) => {
                    // All parts must come from one write.
                    if *first.get_or_insert((owner, generation)) != (owner, generation) {
                        return Some(FindingKind::Torn);
                    }
                }
                Left::Elsewhere(place) => return Some(FindingKind::Misplaced { place }),
                Left::Torn => return Some(FindingKind::Torn),
                Left::Nothing if first.is_some() => return Some(FindingKind::Torn),
                Left::Nothing => return Some(FindingKind::Unstamped),
            }
        }
        None
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use job::spec::{Access, Verify};

    fn earlier(pattern: Option<&str>) -> Earlier {
        let mut workload = Workload::new(Access::new(4096, 100.0, 0.0), 1);
        workload.verify = Some(Verify { fill: false, earlier: true, ..Verify::default() });
        workload.content.pattern = pattern.map(crate::content::data_pattern);
        Earlier::of(&workload, Geometry::new(64 << 10, 512), Rng::new(1, 1)).unwrap()
    }

    fn stamped(owner: u64, place: u64, generation: u32) -> Vec<u8> {
        let mut data = vec![0; 4096];
        for (place, sector) in (place..).step_by(SECTOR).zip(data.chunks_exact_mut(SECTOR)) {
            stamp::write(sector, owner, place, generation);
        }
        data
    }

    #[test]
    fn stamps_say_by_themselves_whether_they_belong_together() {
        let mut earlier = earlier(None);
        let mut kind = |data: &[u8]| earlier.check(data, 8192).map(|finding| finding.kind);
        let right = stamped(5, 8192, 3);
        assert_eq!(kind(&right), None);
        // An older write, or one of another run, passes unnoticed.
        assert_eq!((kind(&stamped(5, 8192, 1)), kind(&stamped(6, 8192, 9))), (None, None));
        assert_eq!(kind(&[0; 4096]), Some(FindingKind::Unstamped));
        assert_eq!(kind(&[7; 4096]), Some(FindingKind::Unstamped));
        let misplaced = FindingKind::Misplaced { place: 4096 };
        assert_eq!(kind(&stamped(5, 4096, 3)), Some(misplaced));
        for cut in [512, 700, 3584] {
            for other in [stamped(5, 8192, 2), stamped(6, 8192, 3), vec![0; 4096]] {
                let torn = [&right[..cut], &other[cut..]].concat();
                assert_eq!(kind(&torn), Some(FindingKind::Torn), "cut at {cut}");
            }
        }
        for bit in (0..4096 * 8).step_by(101) {
            let mut flipped = right.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(kind(&flipped).is_some(), "bit {bit}");
        }
        let both = [right, stamped(5, 0, 1)].concat();
        let second = earlier.check(&both, 8192).unwrap();
        assert_eq!(second.offset, 12288);
        assert!(second.to_string().contains("byte 12288: misplaced"), "{second}");
    }

    #[test]
    fn every_byte_of_a_pattern_counts() {
        for pattern in ["0xdeadbeef", "%o", "\"abc\"%o0x01"] {
            let mut earlier = earlier(Some(pattern));
            let mut right = vec![0; 4096];
            crate::content::data_pattern(pattern).fill(&mut right, 8192);
            assert_eq!(earlier.check(&right, 8192), None);
            for at in (0..4096).step_by(97) {
                let mut wrong = right.clone();
                wrong[at] = !wrong[at];
                let (found, wanted) = (wrong[at], right[at]);
                let kind = FindingKind::Differs { at: 8192 + at as u64, found, wanted };
                assert_eq!(earlier.check(&wrong, 8192), Some(Finding { offset: 8192, kind }));
            }
        }
    }
}
