//! The bill of materials: `drumfire-0.1.0.cdx.json`, in the form CycloneDX.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::release::Release;
use super::{build, tool};
use crate::process::{self, Show};
use crate::say::say;
use crate::target_folder;

/// OWASP's tool for cargo, in a fixed version: another one may write other bytes.
const TOOL: &str = "cargo-cyclonedx";
const VERSION: &str = "0.5.9";
/// Fewer libraries than this are not the whole program.
const FEWEST: usize = 50;

/// Writes the bill of the program and the libraries that are linked into it.
pub fn make(release: &Release, tree: &Path, folder: &Path) -> Result<()> {
    let tool_path = provide()?;
    let package = tree.join("crates/cli");
    let mut command = Command::new(tool_path);
    command.args(["cyclonedx", "--format", "json", "--spec-version", "1.5", "--no-build-deps"]);
    command.args(["--target", &build::host()?, "--override-filename", "bill"]);
    command.arg("--manifest-path").arg(package.join("Cargo.toml")).current_dir(tree);
    command.env("SOURCE_DATE_EPOCH", &release.epoch);
    tool(&mut command)?;
    let text = fs::read_to_string(package.join("bill.json")).context("cargo-cyclonedx's file")?;
    let count = libraries(&text)?;
    ensure!(count >= FEWEST, "a bill of {count} libraries is not the whole program's");
    // The folder of the sources would be in the references of our own packages.
    let text = text.replace(&tree.display().to_string(), "/drumfire");
    fs::write(folder.join(format!("{}.cdx.json", release.name())), text)?;
    Ok(())
}

/// The tool, compiled once below the target folder.
fn provide() -> Result<PathBuf> {
    let root = target_folder().join("tools");
    let path = root.join("bin").join(TOOL);
    let version = |path: &Path| {
        let outcome = process::run(
            Command::new(path).arg("cyclonedx").arg("--version"),
            super::LIMIT,
            Show::Nothing,
        );
        outcome.is_ok_and(|outcome| outcome.stdout.trim().ends_with(VERSION))
    };
    if !(path.is_file() && version(&path)) {
        say!("compiling {TOOL} {VERSION}");
        let mut install = Command::new("cargo");
        install.args(["install", "--locked", "--debug", "--version", VERSION, TOOL, "--root"]);
        tool(install.arg(&root))?;
    }
    Ok(path)
}

/// Number of libraries in a bill; each has a name, a version and a package URL.
fn libraries(text: &str) -> Result<usize> {
    let bill: Value = serde_json::from_str(text).context("the bill is no JSON")?;
    ensure!(bill["bomFormat"] == "CycloneDX", "the bill is not in the form CycloneDX");
    let components = bill["components"].as_array().context("the bill has no components")?;
    let whole = |one: &&Value| ["name", "version", "purl"].iter().all(|key| one[*key].is_string());
    let count = components.iter().filter(whole).count();
    ensure!(count == components.len(), "a library of the bill lacks name, version or purl");
    Ok(count)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_bill_lists_whole_libraries() {
        let of = |component: &str| {
            libraries(&format!(r#"{{"bomFormat":"CycloneDX","components":[{component}]}}"#))
        };
        assert_eq!(of("").unwrap(), 0);
        assert_eq!(of(r#"{"name":"a","version":"1","purl":"pkg:cargo/a@1"}"#).unwrap(), 1);
        assert!(of(r#"{"name":"a","version":"1"}"#).is_err());
        assert!(libraries("{}").is_err());
    }
}
