//! Syntax of iSCSI names.

use crate::ascii::is_authority;

/// Why a name is not an iSCSI name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Longer than the standard allows, or empty.
    #[error("a name has 1 to 223 bytes")]
    Length,
    /// Not one of the three forms.
    #[error("a name begins with iqn., eui. or naa., such as iqn.2026-01.org.example:disk1")]
    Form,
    /// The date or the naming authority of an `iqn.` name is missing or malformed.
    #[error("an iqn name is iqn.YYYY-MM.reversed.domain[:anything]")]
    Authority,
    /// An `eui.` name without 16, or a `naa.` name without 16 or 32, hexadecimal digits.
    #[error("eui. is followed by 16, naa. by 16 or 32 hexadecimal digits")]
    Digits,
    /// A character that no name may contain.
    #[error("a name has lower-case letters, digits, '.', '-' and ':' only")]
    Character,
}

/// The most bytes in a name.
//= RFC 7143 §4.2.7.2: iSCSI names are at most 223 bytes.
pub const NAME_MAX_BYTES: usize = 223;

/// Checks that `name` is valid for a target or an initiator.
///
/// Letters must already be lower case: a peer that compares bytes must find the name we announce.
//= RFC 7143 §4.2.7.2: prepared names have ASCII dash, dot, colon, lower-case letters and digits.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() || name.len() > NAME_MAX_BYTES {
        return Err(NameError::Length);
    }
    // Letters beyond ASCII were prepared by the user; we do not fold them.
    let allowed = |c: char| !c.is_ascii() || matches!(c, 'a'..='z' | '0'..='9' | '-' | '.' | ':');
    if !name.chars().all(allowed) || name.chars().any(char::is_whitespace) {
        return Err(NameError::Character);
    }
    let hexadecimal = |digits: &str, lens: &[usize]| {
        lens.contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    match name.split_at_checked(4) {
        Some(("iqn.", rest)) => check_authority(rest),
        Some(("eui.", rest)) if hexadecimal(rest, &[16]) => Ok(()),
        Some(("naa.", rest)) if hexadecimal(rest, &[16, 32]) => Ok(()),
        Some(("eui." | "naa.", _)) => Err(NameError::Digits),
        _ => Err(NameError::Form),
    }
}

/// Checks `YYYY-MM.domain[:anything]`.
//= RFC 7143 §4.2.7.3: a date, a dot, the reversed domain name, and optionally a colon and a string.
fn check_authority(rest: &str) -> Result<(), NameError> {
    let authority = rest.split(':').next().unwrap_or_default();
    if is_authority(authority) { Ok(()) } else { Err(NameError::Authority) }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn knows_the_three_forms() {
        for name in [
            "iqn.2026-01.org.drumfire:volume-1",
            "iqn.2001-04.com.example",
            "iqn.2001-04.com.example:storage:diskarrays-sn-a8675309",
            "eui.02004567a425678d",
            "naa.52004567ba64678d",
            "naa.62004567ba64678d0123456789abcdef",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        let long = format!("iqn.2001-04.com.example:{}", "x".repeat(200));
        for (name, error) in [
            ("", NameError::Length),
            (&long, NameError::Length),
            ("disk1", NameError::Form),
            ("iqn", NameError::Form),
            ("iqn.", NameError::Authority),
            ("iqn.2001-13.com.example", NameError::Authority),
            ("iqn.2001-04.", NameError::Authority),
            ("iqn.2001-04.com..example", NameError::Authority),
            ("iqn.2001-04:disk", NameError::Authority),
            ("eui.02004567a425678", NameError::Digits),
            ("naa.1", NameError::Digits),
            ("iqn.2001-04.com.example:A", NameError::Character),
            ("iqn.2001-04.com.example:a b", NameError::Character),
            ("iqn.2001-04.com.example:a\u{3000}b", NameError::Character),
            ("iqn.2001-04.com.example:a,b", NameError::Character),
        ] {
            assert_eq!(check_name(name), Err(error), "{name}");
        }
        assert_eq!(check_name(&long[..NAME_MAX_BYTES]), Ok(()));
    }
}
