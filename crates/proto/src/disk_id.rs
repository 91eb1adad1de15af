//! The identity of a disk: 128 bits, from which iSCSI and NVMe/TCP derive their identifiers. Hosts
//! take two devices with the same identifiers for two paths to one disk (multipath), so these bits
//! must be unique across all servers.

use std::fmt;

/// Identity of a disk: a UUID of version 8.
///
/// Its text and all names derived from it start with the same digits: the serial number `3f1c09…`,
/// the NAA name `33f1c09…` and the UUID `3f1c09…` are one disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiskId([u8; 16]);

/// The low half of the first octet of an OUI that no registry gave: a local address, not a group's,
/// in the quadrant of IEEE 802c that administrators assign from (X is 1, Y and Z are 0).
const LOCAL: u8 = 0x02;

impl DiskId {
    /// Returns the identity with these bits, six of which become the UUID's version and variant.
    //= RFC 9562 §5.8: version 8, variant 10b.
    pub fn new(mut bits: [u8; 16]) -> DiskId {
        bits[6] = bits[6] & 0x0f | 0x80;
        bits[8] = bits[8] & 0x3f | 0x80;
        DiskId(bits)
    }

    /// The UUID, in the order of its text.
    pub fn uuid(self) -> [u8; 16] {
        self.0
    }

    /// The serial number: 20 hexadecimal digits, the most that NVMe has room for.
    pub fn serial(self) -> String {
        self.0[..10].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A locally assigned NAA name: 3h, and 60 bits.
    //= SPC-4 §NAA Locally Assigned designator format: NAA 3h.
    pub fn naa(self) -> u64 {
        0x3 << 60 | u64::from_be_bytes(self.half()) >> 4
    }

    /// An NGUID that says that it was not given by the IEEE.
    //= NVMe base §NGUID: big-endian, with an OUI in bytes 8 to 10.
    pub fn nguid(self) -> [u8; 16] {
        let mut id = self.0;
        id[8] = id[8] & 0xf0 | LOCAL;
        id
    }

    /// Identifier with fewer digits.
    //= NVMe base §EUI64: big-endian, begins with an OUI.
    pub fn eui64(self) -> [u8; 8] {
        let mut id = self.half();
        id[0] = id[0] & 0xf0 | LOCAL;
        id
    }

    fn half(self) -> [u8; 8] {
        *self.0.first_chunk().expect("16 bytes have 8")
    }
}

impl fmt::Display for DiskId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            let dash = if [4, 6, 8, 10].contains(&at) { "-" } else { "" };
            write!(to, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn all_forms_golden() {
        let id = DiskId::new(*b"\x3f\x1c\x09\xab\xcd\xef\x01\x23\xf5\x67\x89\xab\xcd\xef\x01\x23");
        assert_eq!(id.to_string(), "3f1c09ab-cdef-8123-b567-89abcdef0123");
        assert_eq!(id.serial(), "3f1c09abcdef8123b567");
        assert_eq!(id.naa(), 0x33f1_c09a_bcde_f812);
        assert_eq!(id.nguid()[..8], id.uuid()[..8]);
        assert_eq!(id.nguid()[8..], *b"\xb2\x67\x89\xab\xcd\xef\x01\x23");
        assert_eq!(id.eui64(), *b"\x32\x1c\x09\xab\xcd\xef\x81\x23");
    }

    proptest! {
        #[test]
        fn all_forms_are_legal(bits: [u8; 16]) {
            let id = DiskId::new(bits);
            prop_assert_eq!(DiskId::new(id.uuid()), id);
            prop_assert_eq!((id.uuid()[6] >> 4, id.uuid()[8] >> 6), (8, 0b10));
            prop_assert_eq!(id.naa() >> 60, 3);
            prop_assert!(id.serial().len() == 20);
            prop_assert!(id.serial().bytes().all(|byte| byte.is_ascii_hexdigit()));
            // Not a group address, local, and in the quadrant that belongs to no company.
            prop_assert_eq!((id.nguid()[8] & 0x0f, id.eui64()[0] & 0x0f), (2, 2));
            prop_assert_eq!(id.to_string().len(), 36);
        }
    }
}
