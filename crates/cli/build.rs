//! Tells the program its version with commit and date: `drumfire --version`.
//!
//! The commit comes from the variable `DRUMFIRE_COMMIT`, which `cargo xtask dist` sets, from a
//! source archive, where `git archive` wrote it, or from git. A debug build has none: it would be
//! compiled again after each commit.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of a commit: as many as keep it unique in large repositories.
const DIGITS: usize = 12;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=DRUMFIRE_COMMIT");
    let package = std::env::var("CARGO_PKG_VERSION").expect("cargo sets it");
    let version = match commit() {
        Some(commit) => format!("{package} ({commit})"),
        None => package,
    };
    println!("cargo::rustc-env=DRUMFIRE_VERSION={version}");
}

/// Commit and date: `356d8e3c0a1b 2026-11-29`.
fn commit() -> Option<String> {
    if let Ok(given) = std::env::var("DRUMFIRE_COMMIT") {
        return Some(given);
    }
    if let Some(archived) = archived(Path::new("../../packaging/commit")) {
        return Some(archived);
    }
    let is_debug = std::env::var("PROFILE").is_ok_and(|profile| profile == "debug");
    if is_debug { None } else { committed() }
}

/// The commit in a file of a source archive; in a repository the file has a placeholder.
fn archived(path: &Path) -> Option<String> {
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).ok()?;
    short(text.lines().last()?)
}

/// The commit of the repository whose root is the root of this workspace.
fn committed() -> Option<String> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    // An unpacked archive may lie in the repository of something else.
    let same = Path::new(&root).canonicalize().ok()? == Path::new("../..").canonicalize().ok()?;
    if !same {
        return None;
    }
    let log = PathBuf::from(git(&["rev-parse", "--git-path", "logs/HEAD"])?);
    if log.is_file() {
        println!("cargo::rerun-if-changed={}", log.display());
    }
    short(&git(&["show", "-s", "--format=%H %cs", "HEAD"])?)
}

/// `HASH DATE` with fewer digits.
fn short(line: &str) -> Option<String> {
    let (hash, date) = line.split_once(' ')?;
    let is_hash = hash.len() >= DIGITS && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| format!("{} {}", &hash[..DIGITS], date.trim()))
}

/// Output of git without the end of the line; `None` if git fails or is not installed.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
