//! The Debian packages that the guest is made of: downloaded and unpacked below the target folder,
//! never installed, so that the host's boot and programs stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Show};

/// Longest time for a download or for unpacking a package.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// A package that only depends on the newest kernel.
const KERNEL: &str = "linux-image-amd64";
/// Whose programs the guest runs, with the packages of their libraries.
pub const PROGRAMS: &[&str] =
    &["busybox-static", "nvme-cli", "open-iscsi", "e2fsprogs", "sg3-utils"];

/// Downloads the packages into `folder` and unpacks them below its `root`, which is returned.
pub fn unpack(folder: &Path) -> Result<PathBuf> {
    let mut names = libraries()?;
    names.push(kernel()?);
    names.extend(PROGRAMS.iter().map(ToString::to_string));
    let _ = fs::remove_dir_all(folder);
    let root = folder.join("root");
    fs::create_dir_all(&root).with_context(|| folder.display().to_string())?;
    println!("downloading {} packages", names.len());
    run(Command::new("apt-get").arg("download").args(&names).current_dir(folder))?;
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg").arg("-x").arg(entry.path()).arg(&root))?;
        }
    }
    Ok(root)
}

/// The package with the newest kernel, such as `linux-image-6.1.0-56-amd64`.
fn kernel() -> Result<String> {
    let depends = run(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let name = names.find(|name| name.starts_with("linux-image-"));
    Ok(name.with_context(|| format!("{KERNEL} depends on no kernel"))?.to_owned())
}

/// The packages of libraries that the programs need, directly or not. More is named than is used:
/// installation scripts have needs of their own.
fn libraries() -> Result<Vec<String>> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"]);
    command.args(["--no-breaks", "--no-replaces", "--no-enhances"]).args(PROGRAMS);
    let names = libraries_in(&run(&mut command)?);
    ensure!(!names.is_empty(), "apt-cache knows no libraries: apt-get update");
    Ok(names)
}

/// The libraries in what `apt-cache depends --recurse` says: a package is a line that begins with
/// its name, what it depends on is indented below.
fn libraries_in(depends: &str) -> Vec<String> {
    let is_library = |name: &&str| {
        let of_c = name.starts_with("lib") || *name == "zlib1g";
        of_c && !name.contains("perl") && !name.contains(':')
    };
    depends.lines().filter(is_library).map(str::to_owned).collect()
}

/// Runs a program that must succeed; returns its stdout.
fn run(command: &mut Command) -> Result<String> {
    let outcome = process::run(command, LIMIT, Show::Nothing)?;
    if !outcome.success() {
        let said = outcome.stderr.trim().lines().last().unwrap_or_default();
        let name = command.get_program().to_string_lossy().into_owned();
        bail!("{name}: {}: {said}", outcome.ending());
    }
    Ok(outcome.stdout)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn finds_libraries_among_what_programs_depend_on() {
        let depends = "\
nvme-cli
  Depends: libc6
  Depends: libnvme1
libc6
  Depends: libgcc-s1
zlib1g
perl
libfile-find-rule-perl
libc6:i386
<debconf-2.0>
";
        assert_eq!(libraries_in(depends), ["libc6", "zlib1g"]);
    }

    #[test]
    fn a_program_that_fails_says_why() {
        let error = run(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("because"), "{error}");
    }
}
