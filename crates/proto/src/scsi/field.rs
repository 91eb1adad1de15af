//! Big-endian fields of CDBs, parameter lists and parameter data.
//!
//! Every function panics if the bytes are too few; callers know their lengths: a CDB is an array,
//! and parameter data is sized before it is filled.

/// The 16-bit field at `at`.
#[inline]
pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 24-bit field at `at`.
#[inline]
pub(super) fn be24(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([0, bytes[at], bytes[at + 1], bytes[at + 2]])
}

/// The 32-bit field at `at`.
#[inline]
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The 64-bit field at `at`.
#[inline]
pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Writes `value`, the big-endian bytes of a number, at `at`.
#[inline]
pub(super) fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

/// Writes `text` at `at`, left-aligned, padded with spaces or cut to `len`.
///
/// Unprintable characters become dots.
//= SPC-4 §ASCII data field requirements: codes 20h to 7Eh, left-aligned, padded with spaces.
pub(super) fn put_ascii(bytes: &mut [u8], at: usize, len: usize, text: &str) {
    let printable = text.bytes().map(|b| if matches!(b, 0x20..=0x7e) { b } else { b'.' });
    let padded = printable.chain(std::iter::repeat(b' '));
    bytes[at..at + len].iter_mut().zip(padded).for_each(|(to, from)| *to = from);
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_are_big_endian() {
        let bytes = [0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(be16(&bytes, 1), 0x0102);
        assert_eq!(be24(&bytes, 1), 0x01_0203);
        assert_eq!(be32(&bytes, 1), 0x0102_0304);
        assert_eq!(be64(&bytes, 1), 0x0102_0304_0506_0708);
        let mut out = [0; 4];
        put(&mut out, 1, 0x0a0b_u16.to_be_bytes());
        assert_eq!(out, [0, 0x0a, 0x0b, 0]);
    }

    #[test]
    fn text_is_padded_cut_and_printable() {
        let mut out = [0; 6];
        put_ascii(&mut out, 1, 4, "a\né");
        assert_eq!(&out, b"\0a...\0");
        put_ascii(&mut out, 0, 6, "ab");
        assert_eq!(&out, b"ab    ");
    }
}
