//! Files with secrets of CHAP, the same for both ends.

use std::path::Path;

use proto::auth::{Chance, Credentials, Secret};
use proto::iscsi::Chap;
use serde::Deserialize;

/// A file with secrets.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ChapFile {
    /// Name and secret by which an initiator proves itself.
    user: String,
    secret: String,
    /// Name and secret by which the target proves itself.
    target_user: Option<String>,
    target_secret: Option<String>,
}

/// Maximum length of a name in bytes.
//= RFC 7143 §6.1: a value is at most 255 bytes.
const NAME_MAX_BYTES: usize = 255;

/// Reads secrets of CHAP from a TOML file with `user`, `secret` and, for mutual authentication,
/// `target_user` and `target_secret`.
///
/// # Errors
///
/// A message with the path: the file is readable by others, or its content is invalid. No message
/// repeats a part of the file.
pub fn read_chap(path: &Path) -> Result<Chap, String> {
    let of = |why: String| format!("{}: {why}", path.display());
    let bytes = os::read_secret(path).map_err(|error| of(error.to_string()))?;
    parse(&bytes).map_err(of)
}

fn parse(bytes: &[u8]) -> Result<Chap, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "not a text".to_owned())?;
    let file: ChapFile = toml::from_str(text).map_err(|_| {
        "not a file of CHAP secrets: write user = \"NAME\", secret = \"SECRET\" and, for mutual \
         authentication, target_user and target_secret, a line each"
            .to_owned()
    })?;
    let initiator = credentials("", file.user, &file.secret)?;
    let target = match (file.target_user, file.target_secret) {
        (Some(user), Some(secret)) => Some(credentials("target_", user, &secret)?),
        (None, None) => None,
        _ => return Err("target_user and target_secret need each other".to_owned()),
    };
    //= RFC 7143 §12.1.3: the two directions have different secrets.
    if target.as_ref().is_some_and(|target| target.secret.equals(&initiator.secret)) {
        return Err("secret and target_secret are equal: whoever knows one proves both".to_owned());
    }
    Ok(Chap { initiator, target, chance: Chance::new(fill) })
}

fn credentials(prefix: &str, user: String, secret: &str) -> Result<Credentials, String> {
    if user.is_empty() || user.len() > NAME_MAX_BYTES || user.contains(char::is_control) {
        return Err(format!("{prefix}user needs 1 to 255 bytes without control characters"));
    }
    let secret = Secret::new(secret.as_bytes());
    let secret = secret.map_err(|error| format!("{prefix}secret: {error}"))?;
    Ok(Credentials { user, secret })
}

/// Fills a challenge with random bytes of the kernel.
fn fill(bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&os::random().to_ne_bytes()[..part.len()]);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn secrets_are_read_and_never_repeated() {
        let one = "user = 'db'\nsecret = 'twelve bytes or more'\n";
        let both = format!("{one}target_user = 't'\ntarget_secret = 'another secret'\n");
        let chap = parse(both.as_bytes()).unwrap();
        assert_eq!(chap.initiator.user, "db");
        assert!(chap.target.is_some_and(|target| target.user == "t"));
        assert!(parse(one.as_bytes()).unwrap().target.is_none());
        for (text, words) in [
            ("user = 'db'\nsecret = 'zzzshort'\n".to_owned(), "at least 12 bytes"),
            ("user = ''\nsecret = 'zzz twelve bytes'\n".to_owned(), "1 to 255"),
            (format!("{one}target_user = 't'\n"), "need each other"),
            (
                format!("{one}target_user = 't'\ntarget_secret = 'twelve bytes or more'\n"),
                "are equal",
            ),
            ("user = 'db'\nsecrt = 'zzz'\n".to_owned(), "not a file of CHAP secrets"),
            ("zzz".to_owned(), "not a file of CHAP secrets"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(words) && !error.contains("zzz"), "{error}");
        }
        assert!(parse(b"\xff").unwrap_err().contains("not a text"));
    }
}
