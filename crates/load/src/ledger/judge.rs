//! Compares blocks with the versions that they may hold.

use super::{Erased, FindingKind, Ledger};
use crate::stamp::{self, SECTOR, Sector};

/// Maximum number of writes of a block during one read that are distinguished.
const OVERLAPPING_MAX: u32 = 64;

impl Ledger {
    /// Compares a block with the `least` and the `most` version allowed. Blocks never written are
    /// not compared.
    pub(super) fn judge(
        &self,
        data: &[u8],
        place: u64,
        least: u32,
        most: u32,
    ) -> Option<FindingKind> {
        let sectors = || (place..).step_by(SECTOR).zip(data.chunks_exact(SECTOR));
        let read = |(place, sector)| stamp::read(sector, self.owner, place);
        if least == 0 && most == 0 {
            return None;
        }
        if let Some(patterned) = &self.patterned {
            // All writes of a block have the same data, but the first may be in flight.
            return patterned.judge(data, place).filter(|_| least > 0);
        }
        let erased = self.erased(place);
        let last = erased.trimmed.max(erased.zeroed);
        // An erasure acknowledged last, or begun since, may be visible.
        let may_be_empty = last > 0 && last >= least;
        if !self.trim_zeroes && erased.trimmed > 0 && erased.trimmed >= least {
            return self.judge_trimmed(data, place, most, erased);
        }
        let mut first = None;
        let mut empty = 0;
        for sector in sectors().map(read) {
            match sector {
                Sector::Ours(found) if found > most => {
                    return Some(FindingKind::Future { found, begun: most });
                }
                Sector::Ours(found) => {
                    let same = *first.get_or_insert(found) == found;
                    // While writes may be in flight, the block may mix them.
                    if found < least && may_be_empty && last == least {
                        return Some(FindingKind::Kept { found, erased: least });
                    }
                    if found < least || (!same && most == least) {
                        return Some(
                            match data.len() == SECTOR
                                || sectors().map(read).all(|s| s == Sector::Ours(found))
                            {
                                true => FindingKind::Stale { found, acknowledged: least },
                                false => FindingKind::Torn,
                            },
                        );
                    }
                }
                Sector::Torn => return Some(FindingKind::Torn),
                // Data from before the first write.
                Sector::Empty | Sector::Foreign if least == 0 => {}
                Sector::Foreign => return Some(FindingKind::Foreign),
                Sector::Empty if may_be_empty => {}
                Sector::Empty => empty += 1,
            }
        }
        match (empty, first) {
            (0, _) => None,
            (_, None) => Some(FindingKind::Lost { acknowledged: least }),
            (_, Some(_)) => Some(FindingKind::Torn),
        }
    }

    /// Compares a block trimmed without guaranteed zeroes: any data it ever held is fine, but not
    /// data never written to it.
    fn judge_trimmed(
        &self,
        data: &[u8],
        place: u64,
        most: u32,
        erased: Erased,
    ) -> Option<FindingKind> {
        (place..).step_by(SECTOR).zip(data.chunks_exact(SECTOR)).find_map(|(place, sector)| {
            match stamp::read(sector, self.owner, place) {
                Sector::Ours(found) if found > most => {
                    Some(FindingKind::Future { found, begun: most })
                }
                Sector::Ours(_) | Sector::Empty => None,
                Sector::Torn => Some(FindingKind::Torn),
                //= NVMe base §DLFEAT: all ones are a third possible content of deallocated blocks.
                Sector::Foreign if sector.iter().all(|byte| *byte == 0xff) => None,
                // Data from before the trim, if never written.
                Sector::Foreign if !erased.written => None,
                Sector::Foreign => Some(FindingKind::Foreign),
            }
        })
    }

    /// Whether a block is a valid mix while being written: memory volumes copy byte by byte, so one
    /// sector may hold parts of several writes. Every byte must come from one of them.
    #[cold]
    pub(super) fn is_between(&self, data: &[u8], place: u64, least: u32, most: u32) -> bool {
        if most <= least || self.patterned.is_some() {
            return false;
        }
        let erased = self.erased(place);
        let older = !self.trim_zeroes && erased.trimmed > 0 && erased.trimmed >= least;
        // Data from before the first write is unknown, and so is the content after a trim.
        if least == 0 || older || most - least > OVERLAPPING_MAX {
            return true;
        }
        let last = erased.trimmed.max(erased.zeroed);
        let may_be_empty = last > 0 && last >= least;
        let mut sectors = (place..).step_by(SECTOR).zip(data.chunks_exact(SECTOR));
        sectors.all(|(place, sector)| {
            let mut explained = [false; SECTOR];
            let mut explain = |possible: &[u8; SECTOR]| {
                let bytes = sector.iter().zip(possible).zip(&mut explained);
                bytes.for_each(|((seen, possible), explained)| *explained |= seen == possible);
            };
            if may_be_empty {
                explain(&[0; SECTOR]);
            }
            for generation in least..=most {
                let mut possible = [0; SECTOR];
                stamp::write(&mut possible, self.owner, place, generation);
                explain(&possible);
            }
            explained.iter().all(|explained| *explained)
        })
    }
}
