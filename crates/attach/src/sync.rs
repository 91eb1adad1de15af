//! Syncing a file or device that this process serves itself.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Has the kernel write what is dirty, and the volume flush. Another process waits for that: a
/// thread that waits for an answer of its own process cannot be killed, and if the volume hangs,
/// would keep the process from ever ending. That process ends as soon as this one does.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    // A Ctrl-C for us is not for it.
    let said =
        Command::new("sync").arg("--").arg(path).stdin(Stdio::null()).process_group(0).output()?;
    match said.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&said.stderr);
            let words = words.trim().rsplit_once(": ").map_or(words.trim(), |(_, why)| why);
            Err(io::Error::other(words.to_owned()))
        }
    }
}
