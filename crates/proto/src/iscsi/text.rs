//! The key=value pairs of login and text PDUs.

use super::chap::LARGE_MAX_BYTES;

/// Why a text is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextError {
    /// The last pair is not terminated.
    Unterminated,
    /// The pair has no `=`.
    NoValue,
    /// The key is empty, too long or has invalid characters.
    Key,
    /// The value is not UTF-8 or too long.
    Value,
}

/// The longest key name.
//= RFC 7143 §6.1: a key name is at most 63 bytes.
const KEY_MAX_BYTES: usize = 63;

/// The longest value of the keys that we support.
//= RFC 7143 §6.1: a value is at most 255 bytes unless its key says otherwise.
const VALUE_MAX_BYTES: usize = 255;

/// The pairs of a text, in order.
///
/// Empty pairs are skipped: some initiators count their padding as text.
pub(super) fn pairs(text: &[u8]) -> impl Iterator<Item = Result<(&str, &str), TextError>> {
    //= RFC 7143 §6.1: every pair, including the last, is followed by one null.
    let (whole, rest) = text.split_at(text.iter().rposition(|b| *b == 0).map_or(0, |at| at + 1));
    let pairs = whole.split(|byte| *byte == 0).filter(|pair| !pair.is_empty()).map(pair);
    pairs.chain((!rest.is_empty()).then_some(Err(TextError::Unterminated)))
}

fn pair(bytes: &[u8]) -> Result<(&str, &str), TextError> {
    let at = bytes.iter().position(|byte| *byte == b'=').ok_or(TextError::NoValue)?;
    let (key, value) = (&bytes[..at], &bytes[at + 1..]);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b".-+@_#".contains(byte);
    if key.is_empty() || key.len() > KEY_MAX_BYTES || !key.iter().all(allowed) {
        return Err(TextError::Key);
    }
    let max = if key.starts_with(b"CHAP_") { LARGE_MAX_BYTES } else { VALUE_MAX_BYTES };
    if value.len() > max {
        return Err(TextError::Value);
    }
    let key = std::str::from_utf8(key).expect("checked to be ASCII");
    Ok((key, std::str::from_utf8(value).map_err(|_| TextError::Value)?))
}

/// Appends a pair to a text.
pub(super) fn put(text: &mut Vec<u8>, key: &str, value: &str) {
    text.extend_from_slice(key.as_bytes());
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    text.push(0);
}

/// Parses a decimal or hexadecimal number.
//= RFC 7143 §6.1: hexadecimal constants begin with 0x or 0X; decimal ones do not begin with 0.
pub(super) fn number(value: &str) -> Option<u32> {
    let hexadecimal = value.strip_prefix("0x").or_else(|| value.strip_prefix("0X"));
    let (digits, radix) = hexadecimal.map_or((value, 10), |digits| (digits, 16));
    // `from_str_radix` would accept a sign.
    let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u32::from_str_radix(digits, radix).ok() } else { None }
}

/// Parses a boolean, which is case-sensitive.
pub(super) fn boolean(value: &str) -> Option<bool> {
    match value {
        "Yes" => Some(true),
        "No" => Some(false),
        _ => None,
    }
}

/// Formats a boolean.
pub(super) fn yes_no(value: bool) -> &'static str {
    if value { "Yes" } else { "No" }
}

#[cfg(test)]
mod test {
    use super::*;

    fn all(text: &[u8]) -> Result<Vec<(&str, &str)>, TextError> {
        pairs(text).collect()
    }

    #[test]
    fn reads_pairs() {
        assert_eq!(all(b""), Ok(vec![]));
        assert_eq!(all(b"A=1\0"), Ok(vec![("A", "1")]));
        assert_eq!(all(b"A=1\0\0\0B==\0\0"), Ok(vec![("A", "1"), ("B", "=")]));
        assert_eq!(all(b"X-a.b#c@d=\0"), Ok(vec![("X-a.b#c@d", "")]));
    }

    #[test]
    fn refuses_what_is_no_pair() {
        let long_key = [&[b'k'; 64][..], b"=v\0"].concat();
        let long_value = [b"k=", &[b'v'; 256][..], b"\0"].concat();
        for (text, error) in [
            (&b"A=1"[..], TextError::Unterminated),
            (b"A=1\0B=2", TextError::Unterminated),
            (b"A\0", TextError::NoValue),
            (b"=1\0", TextError::Key),
            (b"a b=1\0", TextError::Key),
            (b"\xc3\xa9=1\0", TextError::Key),
            (&long_key, TextError::Key),
            (&long_value, TextError::Value),
            (b"A=\xff\0", TextError::Value),
        ] {
            assert_eq!(all(text), Err(error), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn reads_numbers() {
        for (text, value) in [
            ("0", Some(0)),
            ("262144", Some(262_144)),
            ("0x40000", Some(262_144)),
            ("0X1f", Some(31)),
            ("4294967295", Some(u32::MAX)),
            ("4294967296", None),
            ("", None),
            ("0x", None),
            ("-1", None),
            ("+1", None),
            ("1f", None),
            ("1 ", None),
        ] {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
