//! Stamps of verified data: every 512 bytes identify themselves.
//!
//! A stamp holds the run's identity, the offset on the volume, the write count of that offset, and
//! a CRC-32C over all 512 bytes. The rest is noise, different for each write.

use block::splitmix;
use crc_fast::CrcAlgorithm;

/// Length of a stamped sector.
pub(crate) const SECTOR: usize = 512;
/// Offsets of the fields.
const OWNER: usize = 0;
const PLACE: usize = 8;
const GENERATION: usize = 16;
const CHECKSUM: usize = 20;
const NOISE: usize = 24;

/// The content of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sector {
    /// The given write of this run to this offset, by write count.
    Ours(u32),
    /// Zeroes.
    Empty,
    /// A stamp of another offset or run.
    Foreign,
    /// Parts that do not match.
    Torn,
}

/// The content of a sector of which only the offset is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// A whole stamp of this offset: owner, and number of the write.
    Whole(u64, u32),
    /// A whole stamp of this other offset.
    Elsewhere(u64),
    /// Begins as a stamp of this offset, and continues differently.
    Torn,
    /// No stamp.
    Nothing,
}

/// The identity of a run's stamps.
pub(crate) fn owner(seed: u64) -> u64 {
    let mut state = seed ^ 0x6472_756d_6669_7265;
    splitmix(&mut state)
}

/// Stamps one sector at offset `place` of the volume.
pub(crate) fn write(sector: &mut [u8], owner: u64, place: u64, generation: u32) {
    sector[OWNER..PLACE].copy_from_slice(&owner.to_le_bytes());
    sector[PLACE..GENERATION].copy_from_slice(&place.to_le_bytes());
    sector[GENERATION..CHECKSUM].copy_from_slice(&generation.to_le_bytes());
    let mut state = owner ^ place ^ u64::from(generation) << 32;
    for word in sector[NOISE..].chunks_exact_mut(8) {
        word.copy_from_slice(&splitmix(&mut state).to_le_bytes());
    }
    let sum = checksum(sector);
    sector[CHECKSUM..NOISE].copy_from_slice(&sum.to_le_bytes());
}

/// Classifies a sector read from offset `place` of the volume.
pub(crate) fn read(sector: &[u8], owner: u64, place: u64) -> Sector {
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("4 bytes"));
    match half(CHECKSUM) == checksum(sector) {
        true if word(OWNER) == owner && word(PLACE) == place => Sector::Ours(half(GENERATION)),
        true => Sector::Foreign,
        false if sector.iter().all(|byte| *byte == 0) => Sector::Empty,
        // The beginning has this run's stamp, so the rest is other data.
        false if word(OWNER) == owner => Sector::Torn,
        // Ends like our stamps: the end of our noise under another beginning.
        false => Sector::Foreign,
    }
}

/// Classifies a sector at offset `place` of the volume, from any run.
pub(crate) fn look(sector: &[u8], place: u64) -> Left {
    let word = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("4 bytes"));
    match half(CHECKSUM) == checksum(sector) {
        true if word(PLACE) == place => Left::Whole(word(OWNER), half(GENERATION)),
        true => Left::Elsewhere(word(PLACE)),
        // Zeroes at offset 0 begin like a stamp of it, too.
        false if word(PLACE) == place && word(OWNER) != 0 => Left::Torn,
        false => Left::Nothing,
    }
}

/// CRC-32C of everything but itself.
fn checksum(sector: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(&sector[..CHECKSUM]);
    digest.update(&sector[NOISE..]);
    digest.finalize() as u32
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn tells_what_a_sector_holds() {
        let owner = owner(5);
        let mut sector = [0_u8; SECTOR];
        assert_eq!(read(&sector, owner, 0), Sector::Empty);
        write(&mut sector, owner, 8192, 3);
        assert_eq!(read(&sector, owner, 8192), Sector::Ours(3));
        assert_eq!(read(&sector, owner, 8704), Sector::Foreign);
        assert_eq!(read(&sector, super::owner(6), 8192), Sector::Foreign);
        let mut older = [0_u8; SECTOR];
        write(&mut older, owner, 8192, 2);
        for cut in [20, 24, 32, 256, 511] {
            let mut torn = sector;
            torn[cut..].copy_from_slice(&older[cut..]);
            assert_eq!(read(&torn, owner, 8192), Sector::Torn, "cut at {cut}");
        }
        for bit in (0..SECTOR * 8).step_by(7) {
            let mut flipped = sector;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = read(&flipped, owner, 8192);
            assert!(matches!(found, Sector::Torn | Sector::Foreign), "bit {bit}: {found:?}");
        }
        assert_eq!(read(&[0x55; SECTOR], owner, 8192), Sector::Foreign);
    }

    #[test]
    fn tells_what_was_left_by_anybody() {
        let mut sector = [0_u8; SECTOR];
        assert_eq!(look(&sector, 0), Left::Nothing);
        write(&mut sector, 77, 8192, 3);
        assert_eq!(look(&sector, 8192), Left::Whole(77, 3));
        assert_eq!(look(&sector, 512), Left::Elsewhere(8192));
        for bit in (0..SECTOR * 8).step_by(7) {
            let mut flipped = sector;
            flipped[bit / 8] ^= 1 << (bit % 8);
            let found = look(&flipped, 8192);
            assert!(matches!(found, Left::Torn | Left::Nothing), "bit {bit}: {found:?}");
        }
        assert_eq!(look(&[0x55; SECTOR], 8192), Left::Nothing);
    }
}
