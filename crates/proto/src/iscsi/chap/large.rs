//! Binary values of keys.
//= RFC 7143 §6.1: large-binary-values are hexadecimal (0x) or base64 (0b).

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Maximum length of a value in bytes.
//= RFC 7143 §12.1.3: CHAP_C and CHAP_R have at most 1024 bytes.
const VALUE_MAX_BYTES: usize = 1024;
/// Maximum length of the text of a value.
pub(in crate::iscsi) const LARGE_MAX_BYTES: usize = 2 + 2 * VALUE_MAX_BYTES;

/// Returns the hexadecimal form.
pub(super) fn encode(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    std::iter::once("0x".to_owned()).chain(digits).collect()
}

/// Parses a value; `None` if it is invalid or too long.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let (form, rest) = text.split_at_checked(2)?;
    let bytes = match form {
        "0x" | "0X" => decode_hexadecimal(rest)?,
        "0b" | "0B" => STANDARD.decode(rest).ok()?,
        _ => return None,
    };
    (bytes.len() <= VALUE_MAX_BYTES).then_some(bytes)
}

fn decode_hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn both_forms_are_read() {
        for (text, bytes) in [
            ("0x5a00ff", Some(&[0x5a, 0, 0xff][..])),
            ("0X5A", Some(&[0x5a])),
            ("0bWgD/", Some(&[0x5a, 0, 0xff])),
            ("0x", Some(&[])),
            ("0x5", None),
            ("0x5g", None),
            ("0x+5", None),
            ("0b====", None),
            ("0bWg", None),
            ("5a", None),
            ("0", None),
            ("", None),
            ("é", None),
        ] {
            assert_eq!(decode(text).as_deref(), bytes, "{text}");
        }
        let most = vec![7; VALUE_MAX_BYTES];
        assert_eq!(decode(&encode(&most)), Some(most.clone()));
        assert_eq!(decode(&encode(&[&most[..], &[7]].concat())), None);
        assert_eq!(encode(&most).len(), LARGE_MAX_BYTES);
    }
}
