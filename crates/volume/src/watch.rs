//! Watches parameter files that may change while a volume is used.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

/// Interval at which a file is checked.
const LOOK: Duration = Duration::from_millis(100);

/// Passes the text of a file to `take` whenever the file changes, at most `bytes_max` of it, as
/// long as the receiver exists. If no thread can be started, changes are not noticed.
pub(crate) fn watch<T: Send + Sync + 'static>(
    path: PathBuf,
    bytes_max: u64,
    user: Weak<T>,
    take: fn(&T, Result<String, String>),
) {
    let mut seen = state(&path);
    let body = move || {
        while let Some(user) = user.upgrade() {
            let now = state(&path);
            if now.is_some() && now != seen {
                seen = now;
                take(&user, read_short(&path, bytes_max).map_err(|error| error.to_string()));
            }
            drop(user);
            thread::sleep(LOOK);
        }
    };
    let _ = thread::Builder::new().name("parameters".to_owned()).spawn(body);
}

/// The text of a file, at most `bytes_max` of it.
///
/// # Errors
///
/// Errors of the file, `InvalidData` if it is not UTF-8, and `InvalidInput` for anything but a
/// regular file: reading a pipe could block for ever.
pub(crate) fn read_short(path: &Path, bytes_max: u64) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut text = String::new();
    File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

/// Describes a TOML error in one line, with its line number.
pub(crate) fn in_one_line(text: &str, error: &toml::de::Error) -> String {
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let words = error.message().lines().collect::<Vec<_>>().join("; ");
    format!("line {line}: {words}")
}

/// Identifies a version of a file: inode, time in nanoseconds and length.
fn state(path: &Path) -> Option<(u64, i64, i64, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
}
