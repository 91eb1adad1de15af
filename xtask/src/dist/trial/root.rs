//! A clean root: Debian's essential packages, the reader of manual pages, completion of bash.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::super::tool;
use crate::say::say;
use crate::target_folder;

/// Packages besides the essential ones.
const MORE: &str = "bash-completion,man-db";
/// Paths that change whenever a package is installed or removed.
const CHANGING: &[&str] =
    &["var/cache/", "var/lib/dpkg/", "var/log/", "tmp/", "run/", "var/lib/systemd/"];

/// A root below the target folder.
pub struct Root {
    path: PathBuf,
    /// File that exists while the root is unchanged.
    clean: PathBuf,
}

impl Root {
    /// Makes it, unless there is one that is clean.
    pub fn provide() -> Result<Root> {
        let path = target_folder().join("dist-root");
        let clean = path.with_extension("clean");
        if fs::remove_file(&clean).is_err() {
            let _ = fs::remove_dir_all(&path);
            let (suite, mirror) = archive()?;
            say!("making a root of {suite}");
            let mut make = Command::new("mmdebstrap");
            make.args(["--quiet", "--variant=essential", &format!("--include={MORE}")]);
            // Manual pages are wanted here, whatever this machine's own settings leave out.
            tool(make.arg(suite).arg(&path).arg(mirror))?;
        }
        Ok(Root { path, clean })
    }

    /// Path on this machine.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Notes that it is clean: the next time it needs not be made.
    pub fn keep(&self) -> Result<()> {
        fs::write(&self.clean, "").with_context(|| self.clean.display().to_string())
    }

    /// Copies a file into it.
    pub fn copy(&self, from: &Path, to: &str) -> Result<()> {
        fs::copy(from, self.path.join(to)).with_context(|| from.display().to_string())?;
        Ok(())
    }

    /// Runs a script in the root, with separate mounts and a network that end with the script.
    pub fn run(&self, script: &str) -> Result<String> {
        let outside = "\
            mount -t proc proc \"$0/proc\" && mount --rbind /sys \"$0/sys\" && \
            mount --rbind /dev \"$0/dev\" && ip link set lo up && \
            exec chroot \"$0\" /bin/sh -c \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--net", "--pid", "--fork", "--kill-child"]);
        command.args(["sh", "-c", outside]).arg(&self.path).arg(script);
        command.env_clear().env("LC_ALL", "C.UTF-8");
        tool(command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    /// All paths that do not change with every package.
    pub fn paths(&self) -> Result<BTreeSet<String>> {
        let found = tool(Command::new("find").arg(&self.path).args(["-xdev", "-printf", "%P\n"]))?;
        let lasts = |path: &&str| !CHANGING.iter().any(|start| path.starts_with(start));
        let mut paths: BTreeSet<String> = found.lines().filter(lasts).map(str::to_owned).collect();
        // Records of dpkg and its helpers have the package's name.
        let kept = |path: &&str| path.contains("drumfire");
        paths.extend(found.lines().filter(kept).map(str::to_owned));
        Ok(paths)
    }
}

/// The release of this machine's Debian and an archive that apt has it from.
fn archive() -> Result<(String, String)> {
    let about = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let release = release.context("/etc/os-release names no release")?.trim_matches('"');
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages"]);
    let archives = tool(&mut apt)?;
    let mirror = archives.lines().find_map(|line| line.strip_prefix(release)?.strip_prefix(' '));
    let mirror = mirror.with_context(|| format!("apt knows no archive of {release}"))?;
    Ok((release.to_owned(), mirror.to_owned()))
}
