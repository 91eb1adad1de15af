//! NVMe qualified names.

use crate::ascii::is_authority;

/// Why an NQN is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NqnError {
    /// Longer than the standard allows, or empty.
    #[error("an NQN has 1 to 223 bytes")]
    Length,
    /// Neither of the two forms.
    #[error("an NQN is nqn.YYYY-MM.reversed.domain:anything, such as nqn.2026-01.org.example:disk")]
    Form,
    /// The part after `nqn.2014-08.org.nvmexpress:uuid:` is not a UUID.
    #[error("nqn.2014-08.org.nvmexpress:uuid: is followed by a UUID")]
    Uuid,
    /// A character that no name may contain.
    #[error("an NQN has no control characters")]
    Character,
}

/// The most bytes in a name.
//= NVMe base §4.7: an NQN is at most 223 bytes long.
pub const NQN_MAX_BYTES: usize = 223;

/// The NQN of every portal's discovery service.
//= NVMe-oF §Discovery service: the well-known discovery service NQN.
pub const DISCOVERY_NQN: &str = "nqn.2014-08.org.nvmexpress.discovery";

/// The prefix of NQNs of the second form.
const UUID_PREFIX: &str = "nqn.2014-08.org.nvmexpress:uuid:";

/// Checks the NQN of a foreign subsystem. Targets accept any text, so users have chosen any.
pub fn check_peer_nqn(name: &str) -> Result<(), NqnError> {
    if name.is_empty() || name.len() > NQN_MAX_BYTES {
        return Err(NqnError::Length);
    }
    if name.chars().any(char::is_control) { Err(NqnError::Character) } else { Ok(()) }
}

/// Checks the NQN of a subsystem or host of ours.
///
/// The well-known [`DISCOVERY_NQN`] is valid, though it has no colon.
//= NVMe base §4.7: a date, a reversed domain and a string after a colon; or a UUID.
pub fn check_nqn(name: &str) -> Result<(), NqnError> {
    check_peer_nqn(name)?;
    if name == DISCOVERY_NQN {
        return Ok(());
    }
    if let Some(uuid) = name.strip_prefix(UUID_PREFIX) {
        return if is_uuid(uuid) { Ok(()) } else { Err(NqnError::Uuid) };
    }
    let rest = name.strip_prefix("nqn.").ok_or(NqnError::Form)?;
    let (authority, string) = rest.split_once(':').ok_or(NqnError::Form)?;
    let well_formed = is_authority(authority) && !string.is_empty();
    if well_formed { Ok(()) } else { Err(NqnError::Form) }
}

/// Whether `text` is five groups of 8, 4, 4, 4 and 12 hexadecimal digits.
fn is_uuid(text: &str) -> bool {
    let hexadecimal = |part: &str| part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lens = text.split('-').map(|part| if hexadecimal(part) { part.len() } else { 0 });
    lens.eq([8, 4, 4, 4, 12])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn knows_both_forms() {
        for name in [
            "nqn.2014-08.com.example:nvme.host.sys.xyz",
            "nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6",
            "nqn.2026-01.io.drumfire:Grün",
            DISCOVERY_NQN,
        ] {
            assert_eq!(check_nqn(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn peers_may_be_called_anything() {
        for name in ["plain-name", "nqn.test:disk", "nqn.2014-13.com.example:a", "ü", "a b"] {
            assert_eq!(check_peer_nqn(name), Ok(()), "{name}");
        }
        let long = "x".repeat(NQN_MAX_BYTES + 1);
        assert_eq!(check_peer_nqn(&long), Err(NqnError::Length));
        assert_eq!(check_peer_nqn(&long[1..]), Ok(()));
        assert_eq!(check_peer_nqn(""), Err(NqnError::Length));
        assert_eq!(check_peer_nqn("a\0"), Err(NqnError::Character));
    }

    #[test]
    fn says_what_is_wrong() {
        let long = format!("nqn.2014-08.com.example:{}", "x".repeat(200));
        for (name, error) in [
            ("", NqnError::Length),
            (&long, NqnError::Length),
            ("iqn.2014-08.com.example:a", NqnError::Form),
            ("nqn.2014-08.com.example", NqnError::Form),
            ("nqn.2014-08.com.example:", NqnError::Form),
            ("nqn.2014-13.com.example:a", NqnError::Form),
            ("nqn.2014-08.com..example:a", NqnError::Form),
            ("nqn.2014-ü8.com:a", NqnError::Form),
            ("nqn.14-08.com.example:a", NqnError::Form),
            ("nqn.2014-08.org.nvmexpress:uuid:f81d4fae", NqnError::Uuid),
            ("nqn.2014-08.com.example:a\0", NqnError::Character),
        ] {
            assert_eq!(check_nqn(name), Err(error), "{name}");
        }
        assert_eq!(check_nqn(&long[..NQN_MAX_BYTES]), Ok(()));
    }
}
