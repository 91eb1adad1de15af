//! Builds with the profile `dist`: what packages hold and what `cargo xtask perf` measures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::process::{self, Show};
use crate::target_folder;

/// Link-time optimisation over all crates takes ten minutes on two quiet cores. Five builds on two
/// cores were not done after 40 minutes.
const LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
const RUSTC_LIMIT: Duration = Duration::from_secs(60);

/// Builds with the profile `dist` for a target, such as `x86_64-unknown-linux-gnu`; `what` are
/// cargo's arguments that select a package. Returns the folder of the programs.
///
/// The bytes depend on sources, compiler and target only: paths of this machine are replaced, and
/// the flags do not reach build scripts, because a target is named.
pub fn build(target: &str, what: &[&str]) -> Result<PathBuf> {
    build_in(&crate::root(), target, what, &[])
}

/// Builds the sources below `root` likewise, with more variables of the environment. Programs of
/// another root than this repository's lie below its own `target`.
pub fn build_in(
    root: &Path,
    target: &str,
    what: &[&str],
    variables: &[(&str, String)],
) -> Result<PathBuf> {
    let folder = if root == crate::root() { target_folder() } else { root.join("target") };
    let mut command = Command::new("cargo");
    command.args(["build", "--locked", "--profile", "dist", "--target", target]).args(what);
    command.arg("--target-dir").arg(&folder).current_dir(root);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut flags = flags(root, &cargo_home()?);
    if target.ends_with("-musl") {
        // Addresses of a program that may lie anywhere: 12 KB instead of 290.
        flags += "\x1f-Clink-arg=-Wl,-z,pack-relative-relocs";
    }
    command.env("CARGO_ENCODED_RUSTFLAGS", flags);
    let outcome = process::run(&mut command, LIMIT, Show::Lines)?;
    if !outcome.success() {
        bail!("cargo build {} for {target}: {}", what.join(" "), outcome.ending());
    }
    Ok(folder.join(target).join("dist"))
}

/// Flags that replace paths of this machine, separated as cargo wants them.
fn flags(root: &Path, cargo_home: &Path) -> String {
    let remap = |from: &Path, to: &str| format!("--remap-path-prefix={}={to}", from.display());
    // The last one that matches counts: cargo's folder may lie below the repository's.
    [remap(root, "/drumfire"), remap(cargo_home, "/cargo")].join("\x1f")
}

fn cargo_home() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os("CARGO_HOME") {
        return Ok(PathBuf::from(named));
    }
    let home = std::env::home_dir().context("no home folder: set CARGO_HOME")?;
    Ok(home.join(".cargo"))
}

/// The target of this machine, as the compiler names it.
pub fn host() -> Result<String> {
    let mut command = Command::new("rustc");
    let version = process::run(command.arg("-vV"), RUSTC_LIMIT, Show::Nothing)?.stdout;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc -vV names no host")?.to_string())
}

/// Whether the compiler's standard library for a target is installed.
pub fn is_installed(target: &str) -> Result<bool> {
    let mut command = Command::new("rustc");
    command.args(["--print", "target-libdir", "--target", target]);
    let printed = process::run(&mut command, RUSTC_LIMIT, Show::Nothing)?.stdout;
    Ok(Path::new(printed.trim()).is_dir())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn paths_of_this_machine_are_replaced() {
        let flags = flags(Path::new("/x/a b/drumfire"), Path::new("/x/a b/.cargo"));
        let flags: Vec<_> = flags.split('\x1f').collect();
        assert_eq!(
            flags,
            [
                "--remap-path-prefix=/x/a b/drumfire=/drumfire",
                "--remap-path-prefix=/x/a b/.cargo=/cargo"
            ]
        );
        assert!(host().unwrap().contains("-linux-"));
    }
}
