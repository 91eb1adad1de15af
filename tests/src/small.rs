//! A file system that is full.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::{Folder, require, run, skip};

const LIMIT: Duration = Duration::from_secs(60);

/// Calls `act` in a file system of 4 MiB; skips if this user may not mount one.
pub fn in_small_file_system(act: impl FnOnce(&Path)) {
    let (Some(mount), Some(umount)) = (require("mount"), require("umount")) else { return };
    let folder = Folder::new();
    let mut command = Command::new(mount);
    command.args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"]).arg(folder.path());
    let mounted = run(&mut command, LIMIT);
    if mounted.code != Some(0) {
        return skip(&format!("cannot mount: {}", mounted.stderr.trim()));
    }
    struct Mounted<'a>(&'a Path, &'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new(self.0).arg("-l").arg(self.1).status();
        }
    }
    let _mounted = Mounted(&umount, folder.path());
    act(folder.path());
}
