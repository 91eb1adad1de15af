//! Syncing a file or device that this process serves itself.

use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Makes the kernel write back dirty pages, and the volume flush. A child process waits for
/// completion: a thread that waits for a reply of its own process cannot be killed, and if the
/// volume hangs, would keep the process from ever ending. The child ends as soon as this process
/// does.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    wait(Command::new("sync").arg("--").arg(path))
}

/// Like [`sync`], for a file that only this user and group may open, called by root.
pub(crate) fn sync_as(path: &Path, (user, group): (u32, u32)) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    // Root may get a handle, through which the user can open the file without access to its path.
    let handle = rustix::fs::open(path, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let mut command = Command::new("sync");
    wait(command.arg("--").arg(path).uid(user).gid(group).current_dir("/"))
}

fn wait(sync: &mut Command) -> io::Result<()> {
    // A Ctrl-C for this process must not reach the child.
    let said = sync.env("LC_ALL", "C").stdin(Stdio::null()).process_group(0).output()?;
    match said.status.success() {
        true => Ok(()),
        false => {
            let words = String::from_utf8_lossy(&said.stderr);
            let words = words.trim().rsplit_once(": ").map_or(words.trim(), |(_, why)| why);
            // The server of the file has died.
            let is_it = |errno: &Errno| io::Error::from(*errno).to_string().starts_with(words);
            let dead = [Errno::NOTCONN, Errno::CONNABORTED].into_iter().find(is_it);
            Err(dead
                .filter(|_| !words.is_empty())
                .map_or_else(|| io::Error::other(words.to_owned()), io::Error::from))
        }
    }
}
