//! GET LBA STATUS, both ends: which blocks of a unit have storage.

use block::{Allocation, Extent, extents_of};

use super::condition::ready;
use super::field::{be32, be64, put};
use super::{Cdb, Plan, Sense, Unit, data};

/// Bytes before the descriptors, and of a descriptor.
const HEAD_BYTES: usize = 8;
const DESCRIPTOR_BYTES: usize = 16;
/// Most descriptors of a response: each may take some looks at the metadata of a file system.
const DESCRIPTORS_MAX: usize = 64;
/// Bytes that the initiator accepts: our responses are not longer.
pub(crate) const STATUS_BYTES: u32 = (HEAD_BYTES + DESCRIPTORS_MAX * DESCRIPTOR_BYTES) as u32;

//= SBC-4 §LBA status descriptor: 0 is mapped or unknown, 1 deallocated, 2 anchored, 3 mapped, 4
// unknown.
const MAPPED_OR_UNKNOWN: u8 = 0;
const DEALLOCATED: u8 = 1;
const ANCHORED: u8 = 2;

/// Extents from the requested block on. A unit that does not know its extents reports one,
/// "mapped or unknown", up to its end.
//= SBC-4 §GET LBA STATUS command: the first descriptor begins with the requested block, and there
// may be fewer than the allocation length has room for.
pub(super) fn get_lba_status(unit: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    ready(unit)?;
    let (first, allocation) = (be64(cdb, 2), be32(cdb, 10));
    let left = unit.geometry.blocks.checked_sub(first).filter(|left| *left > 0);
    let left = left.ok_or(Sense::LBA_OUT_OF_RANGE)?;
    // A descriptor's length has 32 bits.
    let left = left.min(u32::MAX.into());
    let block = unit.block_bytes();
    let room = (allocation as usize).saturating_sub(HEAD_BYTES) / DESCRIPTOR_BYTES;
    let most = room.clamp(1, DESCRIPTORS_MAX);
    let list = match &unit.extents {
        Some(extents) => extents_of(&**extents, first * block, left * block, most),
        None => vec![Extent { bytes: left * block, is_hole: false }],
    };
    let mut bytes = vec![0; HEAD_BYTES + list.len() * DESCRIPTOR_BYTES];
    let behind = (bytes.len() - 4) as u32;
    put(&mut bytes, 0, behind.to_be_bytes());
    let mut lba = first;
    for (index, extent) in list.into_iter().enumerate() {
        let at = HEAD_BYTES + index * DESCRIPTOR_BYTES;
        let blocks = extent.bytes / block;
        put(&mut bytes, at, lba.to_be_bytes());
        put(&mut bytes, at + 8, (blocks as u32).to_be_bytes());
        bytes[at + 12] = if extent.is_hole { DEALLOCATED } else { MAPPED_OR_UNKNOWN };
        lba += blocks;
    }
    data(bytes, allocation)
}

/// Parses a response to a request for `blocks` blocks from `first` on: blocks that it reports on,
/// and of these the holes, cut to the request. `None` if it contradicts itself or makes no
/// progress.
//= SBC-4 §GET LBA STATUS parameter data: descriptors in order, without gaps.
pub(crate) fn parse_lba_status(bytes: &[u8], first: u64, blocks: u64) -> Option<Allocation> {
    let told = be32(bytes.get(..HEAD_BYTES)?, 0) as usize;
    let behind = told.saturating_add(4).min(bytes.len());
    let descriptors = bytes.get(HEAD_BYTES..behind)?.as_chunks::<DESCRIPTOR_BYTES>().0;
    let end = first.checked_add(blocks)?;
    let (mut at, mut sum) = (first, Allocation::default());
    for (index, descriptor) in descriptors.iter().enumerate() {
        let (begin, len) = (be64(descriptor, 0), be32(descriptor, 8));
        let last = begin.checked_add(len.into())?;
        // Some targets report the extent in which the requested block lies from its own beginning.
        let follows = if index == 0 { begin <= at } else { begin == at };
        if !follows || last <= at {
            return None;
        }
        let part = last.min(end).saturating_sub(at);
        sum.bytes += part;
        match descriptor[12] & 0x0f {
            DEALLOCATED => sum.holes += part,
            // Storage is reserved, and nothing was written.
            ANCHORED => sum.zeroes += part,
            _ => {}
        }
        at = last;
        if at >= end {
            break;
        }
    }
    (sum.bytes > 0).then_some(sum)
}

#[cfg(test)]
mod test {
    use std::sync::Arc;

    use block::Extents;
    use proptest::prelude::*;

    use super::super::cdb as build;
    use super::super::test::{answer, unit};
    use super::*;

    /// Every second MiB is a hole.
    #[derive(Debug)]
    struct Striped;

    impl Extents for Striped {
        fn at(&self, offset: u64, len: u64) -> Extent {
            let left = (1 << 20) - offset % (1 << 20);
            Extent { bytes: left.min(len), is_hole: offset >> 20 & 1 == 1 }
        }
    }

    fn status(unit: &Unit, first: u64) -> Result<Plan, Sense> {
        unit.plan(&build::get_lba_status(first, 24))
    }

    #[test]
    fn without_extents_every_block_is_mapped_or_unknown() {
        let small = unit(1 << 20, 512);
        let mut expect = vec![0; 24];
        (expect[3], expect[15], expect[18], expect[19]) = (20, 5, 0x07, 0xfb);
        assert_eq!(status(&small, 5), Ok(Plan::Data(expect)));
        assert_eq!(status(&small, 2048), Err(Sense::LBA_OUT_OF_RANGE));
        assert_eq!(status(&small, u64::MAX), Err(Sense::LBA_OUT_OF_RANGE));
        let Ok(Plan::Data(huge)) = status(&unit(1 << 60, 512), 0) else { panic!("refused") };
        assert_eq!(huge[16..20], [0xff; 4]);
    }

    #[test]
    fn holes_are_reported_as_far_as_there_is_room() {
        for block in [512, 4096] {
            let unit = unit(200 << 20, block).of_extents(Some(Arc::new(Striped)));
            let blocks = (1 << 20) / u64::from(block);
            let long = answer(&unit, &build::get_lba_status(0, STATUS_BYTES));
            assert_eq!((long.len(), be32(&long, 0)), (STATUS_BYTES as usize, STATUS_BYTES - 4));
            let told = parse_lba_status(&long, 0, 200 * blocks);
            let all = Allocation { bytes: 64 * blocks, holes: 32 * blocks, zeroes: 0 };
            assert_eq!(told, Some(all));
            let part = Allocation { bytes: 2 * blocks, holes: blocks, zeroes: 0 };
            assert_eq!(parse_lba_status(&long, 0, 2 * blocks), Some(part), "cut to the request");
            let short = answer(&unit, &build::get_lba_status(blocks + 8, 39));
            assert_eq!((short.len(), be32(&short, 0)), (24, 20), "one descriptor");
            assert_eq!((be64(&short, 8), short[20]), (blocks + 8, DEALLOCATED));
            assert_eq!(u64::from(be32(&short, 16)), blocks - 8);
        }
    }

    #[test]
    fn descriptors_follow_each_other() {
        let of = |list: &[(u64, u32, u8)]| {
            let mut bytes = vec![0; 8];
            for (lba, blocks, state) in list {
                bytes.extend(lba.to_be_bytes());
                bytes.extend(blocks.to_be_bytes());
                bytes.extend([*state, 0, 0, 0]);
            }
            let behind = bytes.len() as u32 - 4;
            put(&mut bytes, 0, behind.to_be_bytes());
            bytes
        };
        let parse = |list: &[(u64, u32, u8)]| parse_lba_status(&of(list), 100, 50);
        let sum = |bytes, holes, zeroes| Some(Allocation { bytes, holes, zeroes });
        assert_eq!(parse(&[(100, 10, 0), (110, 5, 1), (115, 5, 2)]), sum(20, 5, 5));
        assert_eq!(parse(&[(100, 10, 3), (110, u32::MAX, 1)]), sum(50, 40, 0));
        assert_eq!(parse(&[(90, 20, 1)]), sum(10, 10, 0), "from its own beginning");
        assert_eq!(parse(&[(100, 50, 1), (7, 7, 1)]), sum(50, 50, 0), "the rest is not wanted");
        for bad in [
            &[][..],
            &[(100, 0, 1)],
            &[(90, 10, 1)],
            &[(101, 10, 1)],
            &[(u64::MAX, 10, 1)],
            &[(100, 10, 1), (105, 10, 1)],
            &[(100, 10, 1), (111, 10, 1)],
            &[(100, 10, 1), (110, 0, 1)],
        ] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
        let mut longer = of(&[(100, 10, 1)]);
        put(&mut longer, 0, u32::MAX.to_be_bytes());
        assert_eq!(parse_lba_status(&longer, 100, 50), sum(10, 10, 0), "as much as has come");
        assert_eq!(parse_lba_status(&longer[..23], 100, 50), None, "a descriptor that is cut");
        assert_eq!(parse_lba_status(&longer[..7], 100, 50), None);
    }

    proptest! {
        #[test]
        fn any_response_is_survived(bytes: Vec<u8>, first: u64, blocks: u64) {
            if let Some(told) = parse_lba_status(&bytes, first, blocks) {
                prop_assert!(0 < told.bytes && told.bytes <= blocks);
                prop_assert!(told.holes + told.zeroes <= told.bytes);
            }
        }
    }
}
