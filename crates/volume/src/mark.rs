//! Blocks by which several hosts find out whether they see one volume: digests of blocks that are
//! only read, and marks that are written, read by the others, and replaced by the data before.

use std::hash::{DefaultHasher, Hasher};
use std::io;

use block::Nanos;

use crate::Volume;
use crate::aside::Aside;
use crate::sample::places_of_all;

/// Bytes of a block that is read or marked.
pub const MARK_BYTES: usize = 4096;
/// Time limit of the lane's opening, and of each I/O.
const PATIENCE: Nanos = Nanos::from_secs(5);
/// Blocks of a digest, and the time limit of all its reads.
const BLOCKS: u32 = 32;
const READING: Nanos = Nanos::from_secs(2);

/// Digest of blocks at offsets that depend on the size of the volume alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockDigest {
    /// Digest of the blocks.
    pub value: u64,
    /// Number of blocks.
    pub blocks: u32,
}

/// Reads up to 32 blocks of a volume and returns their digest; `None` if the volume is too small
/// or too slow.
///
/// # Errors
///
/// The lane cannot be opened, or a read failed.
pub fn digest(volume: &dyn Volume) -> io::Result<Option<BlockDigest>> {
    let places = places_of_all(volume.geometry().bytes(), BLOCKS);
    if places.is_empty() {
        return Ok(None);
    }
    let mut aside = Aside::open(volume, 1, PATIENCE)?;
    let until = aside.now() + READING;
    let mut hasher = DefaultHasher::new();
    for place in &places {
        if aside.now() >= until {
            aside.leave()?;
            return Ok(None);
        }
        aside.ask(*place, MARK_BYTES as u32);
        aside.answers(MARK_BYTES as u32, until + PATIENCE, &mut |data| hasher.write(data))?;
    }
    aside.leave()?;
    Ok(Some(BlockDigest { value: hasher.finish(), blocks: places.len() as u32 }))
}

/// Replaces a block durably, and returns the data before.
///
/// # Errors
///
/// The lane cannot be opened, or an I/O failed; the block may have either data then.
pub fn replace(volume: &dyn Volume, offset: u64, data: &[u8]) -> io::Result<Vec<u8>> {
    let mut aside = Aside::open(volume, 1, PATIENCE)?;
    if aside.is_zoned() {
        return Err(io::Error::other("its zones are written in order"));
    }
    let (len, until) = (data.len() as u32, aside.now() + PATIENCE);
    let mut before = Vec::new();
    aside.ask(offset, len);
    aside.answers(len, until, &mut |data| before.extend_from_slice(data))?;
    aside.write(offset, data)?;
    aside.answers(0, until, &mut |_| ())?;
    aside.flush();
    aside.answers(0, until, &mut |_| ())?;
    aside.leave()?;
    Ok(before)
}

/// Reads blocks that follow each other, and passes each to the caller.
///
/// # Errors
///
/// The lane cannot be opened, or a read failed.
pub fn read(
    volume: &dyn Volume,
    offset: u64,
    blocks: u32,
    show: &mut dyn FnMut(u32, &[u8]),
) -> io::Result<()> {
    let mut aside = Aside::open(volume, 1, PATIENCE)?;
    let until = aside.now() + PATIENCE;
    for number in 0..blocks {
        aside.ask(offset + u64::from(number) * MARK_BYTES as u64, MARK_BYTES as u32);
        aside.answers(MARK_BYTES as u32, until, &mut |data| show(number, data))?;
    }
    aside.leave()
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Purpose, open};

    #[test]
    fn a_block_is_marked_read_and_restored() {
        let uri = "ram:1m".parse().unwrap();
        let volume = open(&uri, Purpose::Write).unwrap();
        let (empty, mark) = (digest(&*volume).unwrap().unwrap(), vec![7; MARK_BYTES]);
        assert_eq!(empty.blocks, BLOCKS);
        let before = replace(&*volume, 8 * MARK_BYTES as u64, &mark).unwrap();
        let seen = |offset: u64| {
            let mut found = Vec::new();
            read(&*volume, offset, 3, &mut |number, data| {
                found.extend((data == mark).then_some(number));
            })
            .unwrap();
            found
        };
        assert_eq!((seen(7 * MARK_BYTES as u64), seen(0)), (vec![1], vec![]));
        assert_eq!(replace(&*volume, 8 * MARK_BYTES as u64, &before).unwrap(), mark);
        assert_eq!(seen(7 * MARK_BYTES as u64), [0_u32; 0]);
        assert_eq!(digest(&*volume).unwrap(), Some(empty));
    }

    #[test]
    fn volumes_of_other_data_have_other_digests() {
        let [a, b] = [1, 2].map(|_| open(&"ram:1m".parse().unwrap(), Purpose::Write).unwrap());
        assert_eq!(digest(&*a).unwrap(), digest(&*b).unwrap());
        // 32 of 256 blocks: one of eight changes is seen, and all blocks are changed here.
        for block in 0..256 {
            replace(&*b, block * MARK_BYTES as u64, &[3; MARK_BYTES]).unwrap();
        }
        assert_ne!(digest(&*a).unwrap(), digest(&*b).unwrap());
        let small = open(&"ram:512".parse().unwrap(), Purpose::Read).unwrap();
        assert_eq!(digest(&*small).unwrap(), None);
    }
}
