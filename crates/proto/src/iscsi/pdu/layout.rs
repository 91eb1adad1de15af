//! Offsets of fields in a header, and [`pdu!`](pdu), which makes a PDU from a table of its fields.
//!
//! All functions are inlined and all offsets are constants: loads and stores of the fields remain.

use super::{Header, Numbers, get16, get32};

/// A place in a header for values of one type.
pub(super) trait Place<T> {
    fn get(self, header: &Header) -> T;

    /// Fills in the place, which is zero before.
    fn put(self, header: &mut Header, value: T);
}

/// The bits of a mask in a byte: a flag, or a number from the lowest of them on.
pub(super) struct Bits(pub usize, pub u8);

/// The bytes from an offset on.
pub(super) struct At(pub usize);

/// Length of the data segment; there are never additional header segments.
pub(super) struct DataLen;

impl Place<bool> for Bits {
    #[inline(always)]
    fn get(self, header: &Header) -> bool {
        header[self.0] & self.1 != 0
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: bool) {
        header[self.0] |= if value { self.1 } else { 0 };
    }
}

impl Place<u8> for Bits {
    #[inline(always)]
    fn get(self, header: &Header) -> u8 {
        (header[self.0] & self.1) >> self.1.trailing_zeros()
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: u8) {
        header[self.0] |= value << self.1.trailing_zeros();
    }
}

impl<const N: usize> Place<[u8; N]> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> [u8; N] {
        *header[self.0..].first_chunk().expect("a header has 48 bytes")
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: [u8; N]) {
        header[self.0..self.0 + N].copy_from_slice(&value);
    }
}

impl Place<u8> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> u8 {
        header[self.0]
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: u8) {
        header[self.0] = value;
    }
}

impl Place<u16> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> u16 {
        get16(header, self.0)
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: u16) {
        self.put(header, value.to_be_bytes());
    }
}

impl Place<[u16; 3]> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> [u16; 3] {
        [0, 2, 4].map(|next| get16(header, self.0 + next))
    }

    #[inline(always)]
    fn put(self, header: &mut Header, [first, second, third]: [u16; 3]) {
        At(self.0).put(header, first);
        At(self.0 + 2).put(header, second);
        At(self.0 + 4).put(header, third);
    }
}

impl Place<u32> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> u32 {
        get32(header, self.0)
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: u32) {
        self.put(header, value.to_be_bytes());
    }
}

impl Place<Numbers> for At {
    #[inline(always)]
    fn get(self, header: &Header) -> Numbers {
        let [status, expected, max] = [0, 4, 8].map(|next| get32(header, self.0 + next));
        Numbers { status, expected, max }
    }

    #[inline(always)]
    fn put(self, header: &mut Header, value: Numbers) {
        At(self.0).put(header, value.status);
        At(self.0 + 4).put(header, value.expected);
        At(self.0 + 8).put(header, value.max);
    }
}

impl Place<u32> for DataLen {
    #[inline(always)]
    fn get(self, header: &Header) -> u32 {
        super::data_len(header)
    }

    #[inline(always)]
    fn put(self, header: &mut Header, len: u32) {
        debug_assert!(len < 1 << 24, "{len} bytes of data do not fit into a PDU");
        At(4).put(header, len);
    }
}

/// A PDU: its opcode, its constant fields, then one field per line with its offset. PDUs of the I/O
/// path are `inline(always)`; the others would only make their callers longer.
macro_rules! pdu {
    (
        $(#[$doc:meta])*
        $name:ident $($inline:meta)?, $opcode:expr $(, $fixed:expr => $value:expr)*;
        $($(#[$field_doc:meta])* $field:ident: $type:ty = $place:expr,)+
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl $name {
            /// Reads the fields from a header.
            $(#[$inline])?
            pub fn parse(header: &Header) -> $name {
                $name { $($field: $place.get(header),)+ }
            }
        }

        impl Pdu for $name {
            $(#[$inline])?
            fn write(&self, header: &mut Header) {
                *header = [0; HEADER_BYTES];
                header[0] = $opcode;
                $($fixed.put(header, $value);)*
                $($place.put(header, self.$field);)+
            }
        }
    };
}
pub(super) use pdu;
