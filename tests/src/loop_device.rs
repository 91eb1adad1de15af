//! Loop devices for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{require, run, skip};

const LIMIT: Duration = Duration::from_secs(60);

/// A loop device over a file, detached on drop.
#[derive(Debug)]
pub struct Loop {
    path: String,
    losetup: PathBuf,
}

impl Loop {
    /// Attaches a loop device. Without root or loop devices, the calling test is recorded as
    /// skipped.
    pub fn over(file: &Path) -> Option<Loop> {
        Loop::with(file, &[])
    }

    /// Attaches a loop device with direct I/O.
    pub fn direct(file: &Path) -> Option<Loop> {
        Loop::with(file, &["--direct-io=on"])
    }

    fn with(file: &Path, more: &[&str]) -> Option<Loop> {
        let losetup = require("losetup")?;
        let mut command = Command::new(&losetup);
        let made = run(command.args(["--find", "--show"]).args(more).arg(file), LIMIT);
        if made.code != Some(0) {
            skip(&format!("no loop device: {}", made.stderr.trim()));
            return None;
        }
        Some(Loop { path: made.stdout.trim().to_owned(), losetup })
    }

    /// Takes over a loop device that `losetup` created elsewhere.
    pub fn made(path: &str) -> Option<Loop> {
        Some(Loop { path: path.to_owned(), losetup: require("losetup")? })
    }

    /// Path of the device, such as `/dev/loop0`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Attribute of the device in `/sys/block`.
    pub fn told(&self, file: &str) -> String {
        let text = std::fs::read_to_string(self.setting(file)).unwrap_or_default();
        text.trim().to_owned()
    }

    /// Path of its attribute in `/sys/block`.
    pub fn setting(&self, file: &str) -> PathBuf {
        let name = Path::new(&self.path).file_name().expect("a device has a name");
        Path::new("/sys/block").join(name).join(file)
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let gone = Command::new(&self.losetup).args(["--detach", &self.path]).status();
        assert!(gone.is_ok_and(|status| status.success()), "{} stays", self.path);
    }
}
