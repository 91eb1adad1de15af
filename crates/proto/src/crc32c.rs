//! The checksum of iSCSI and NVMe/TCP digests.
//= RFC 7143 §13.1: CRC-32C, the Castagnoli polynomial.

use crc_fast::{CrcAlgorithm::Crc32Iscsi, Digest, checksum};

/// Returns the CRC-32C of `bytes`, as the number whose little-endian bytes are the digest on the
/// wire.
pub fn crc32c(bytes: &[u8]) -> u32 {
    checksum(Crc32Iscsi, bytes) as u32
}

/// A CRC-32C that is fed piece by piece.
#[derive(Clone, Debug)]
pub struct Crc32c(Digest);

impl Crc32c {
    /// Returns the checksum state of zero bytes.
    pub fn new() -> Crc32c {
        Crc32c(Digest::new(Crc32Iscsi))
    }

    /// Adds more bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The value over all bytes so far.
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c::new()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    //= RFC 7143 §A.4 (test vectors of RFC 3720 §B.4)
    #[test]
    fn knows_the_vectors_of_the_standard() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let rising: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&rising), 0x46dd_794e);
        let mut pieces = Crc32c::new();
        rising.chunks(5).for_each(|chunk| pieces.update(chunk));
        assert_eq!(pieces.value(), 0x46dd_794e);
    }
}
