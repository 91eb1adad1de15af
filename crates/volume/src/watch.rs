//! Files of parameters that may be changed while a volume is used.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use std::thread;
use std::time::Duration;

/// How often a file is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Gives `take` the text of a file whenever that changes, as long as there is somebody who uses
/// it; of a longer text the first `bytes_max`. Without a thread, what was read first holds.
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
/// Those of the file, and `InvalidData` where it is no text.
pub(crate) fn read_short(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

/// What changes with a file: its number, time in nanoseconds and length.
fn state(path: &Path) -> Option<(u64, i64, i64, u64)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.mtime(), about.mtime_nsec(), about.len()))
}
