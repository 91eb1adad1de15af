//! A login that succeeds.

/// The name of the target behind [`Serving::iscsi`](crate::Serving::iscsi).
pub const TARGET_NAME: &str = "iqn.2026-11.io.drumfire:fuzz";

/// Login request, immediate.
const OPCODE: u8 = 0x43;
/// Transit, from operational negotiation to full feature.
const STRAIGHT_IN: u8 = 0x87;

/// Returns a login request with `keys` as its text, straight from operational negotiation to full
/// feature.
///
/// The bytes are written by hand: the code under test must not build its own input.
pub fn login_request(keys: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..2].copy_from_slice(&[OPCODE, STRAIGHT_IN]);
    bytes[5..8].copy_from_slice(&(keys.len() as u32).to_be_bytes()[1..]);
    // An ISID of the random kind.
    bytes[8..14].copy_from_slice(&[0x80, 0, 0, 0, 0, 1]);
    bytes.extend(keys);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}
