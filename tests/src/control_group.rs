//! Control groups for tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::skip;

/// A cgroup (v1 or v2) with one setting, removed on drop.
#[derive(Debug)]
pub struct ControlGroup(PathBuf);

/// Setting of a version: controller, file, value.
type Setting<'a> = [&'a str; 3];

impl ControlGroup {
    /// Creates a cgroup. If the system refuses, the calling test is recorded as skipped.
    pub fn with(v1: Setting<'_>, v2: Setting<'_>) -> Option<ControlGroup> {
        let name = format!("drumfire-test-{}-{}", std::process::id(), crate::free_port());
        let root = Path::new("/sys/fs/cgroup");
        let old = root.join(v1[0]).join("cgroup.procs").exists();
        let (folder, [controller, file, text]) = match old {
            true => (root.join(v1[0]).join(&name), v1),
            false => (root.join(&name), v2),
        };
        let group = match std::fs::create_dir(&folder) {
            Ok(()) => ControlGroup(folder),
            Err(error) => {
                skip(&format!("no control group with {controller}: {error}"));
                return None;
            }
        };
        if let Err(error) = std::fs::write(group.0.join(file), text) {
            skip(&format!("no control group with {controller}: {file}: {error}"));
            return None;
        }
        Some(group)
    }

    /// Path of the cgroup.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Wraps a command so that it runs inside the cgroup.
    pub fn put(&self, inner: &Command) -> Command {
        let mut command = Command::new("sh");
        let procs = self.0.join("cgroup.procs");
        let enter = r#"echo $$ > "$0" && exec "$@""#;
        command.args(["-c", enter]).arg(procs).arg(inner.get_program()).args(inner.get_args());
        if let Some(folder) = inner.get_current_dir() {
            command.current_dir(folder);
        }
        command
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // A leftover without processes is harmless.
        let _ = std::fs::remove_dir(&self.0);
    }
}
