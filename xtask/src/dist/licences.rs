//! Licences of the libraries that are linked into the program, in one file: MIT and others require
//! this of distributors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{build, tool};

/// Beginnings of the names of files with licences.
const NAMES: &[&str] = &["license", "licence", "copying", "notice", "copyright", "unlicense"];

/// A library, as cargo knows it.
struct Library {
    /// `serde 1.0.2 (MIT OR Apache-2.0)`.
    title: String,
    folder: PathBuf,
}

/// Writes `THIRD-PARTY-LICENSES` below `work`: each text once, after the libraries that have it.
pub fn write(tree: &Path, work: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new("cargo");
    cargo.args(["metadata", "--locked", "--format-version", "1"]);
    cargo.args(["--filter-platform", &build::host()?]).current_dir(tree);
    let metadata: Value = serde_json::from_str(&tool(&mut cargo)?)?;
    let libraries = linked(&metadata, "drumfire")?;
    ensure!(libraries.len() > 50, "{} libraries are not all", libraries.len());
    let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for library in libraries {
        let found = texts_of(&library.folder)?;
        ensure!(!found.is_empty(), "{} has no file with a licence", library.title);
        for text in found {
            texts.entry(text).or_default().insert(library.title.clone());
        }
    }
    let path = work.join("THIRD-PARTY-LICENSES");
    fs::write(&path, page(&texts)).with_context(|| path.display().to_string())?;
    Ok(path)
}

fn page(texts: &BTreeMap<String, BTreeSet<String>>) -> String {
    let mut page = String::from(
        "Libraries in the program drumfire, and their licences. The program also has Rust's\n\
         standard library (MIT OR Apache-2.0), and if it is static, musl (MIT).\n",
    );
    // By the first library, so that the order follows from the list alone.
    let mut blocks: Vec<_> = texts.iter().map(|(text, titles)| (titles, text)).collect();
    blocks.sort();
    for (titles, text) in blocks {
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        let line = "=".repeat(72);
        let _ = write!(page, "\n{line}\n{}\n{line}\n\n{}\n", titles.join("\n"), text.trim_end());
    }
    page
}

/// Libraries that others published and that a package needs to run, directly or not.
fn linked(metadata: &Value, package: &str) -> Result<Vec<Library>> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = list(&metadata["packages"]);
    let nodes = list(&metadata["resolve"]["nodes"]);
    let by_id = |id: &str| packages.iter().find(|one| one["id"] == id);
    let start = packages.iter().find(|one| one["name"] == package);
    let mut rest = vec![text(&start.context("cargo knows no such package")?["id"])];
    let mut seen: BTreeSet<String> = rest.iter().cloned().collect();
    while let Some(id) = rest.pop() {
        let node = nodes.iter().find(|node| node["id"] == id.as_str());
        for dependency in node.iter().flat_map(|node| list(&node["deps"])) {
            let is_normal =
                list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null());
            let id = text(&dependency["pkg"]);
            if is_normal && seen.insert(id.clone()) {
                rest.push(id);
            }
        }
    }
    let foreign = seen.iter().filter_map(|id| by_id(id)).filter(|one| one["source"].is_string());
    let library = |one: &Value| Library {
        title: format!(
            "{} {} ({})",
            text(&one["name"]),
            text(&one["version"]),
            text(&one["license"])
        ),
        folder: PathBuf::from(text(&one["manifest_path"]))
            .parent()
            .map(Path::to_path_buf)
            .unwrap_or_default(),
    };
    Ok(foreign.map(library).collect())
}

/// The licences in a package's folder, without blanks at the ends of lines.
fn texts_of(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for name in super::names(folder)? {
        let lower = name.to_lowercase();
        let path = folder.join(&name);
        if NAMES.iter().any(|start| lower.starts_with(start)) && path.is_file() {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            texts.push(text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_only_needed_to_build_is_not_linked() {
        let metadata = serde_json::json!({
            "packages": [
                {"id": "p", "name": "drumfire", "version": "0", "source": null},
                {"id": "a", "name": "a", "version": "1", "license": "MIT", "source": "r",
                 "manifest_path": "/r/a/Cargo.toml"},
                {"id": "b", "name": "b", "version": "1", "license": "MIT", "source": "r",
                 "manifest_path": "/r/b/Cargo.toml"},
            ],
            "resolve": {"nodes": [
                {"id": "p", "deps": [
                    {"pkg": "a", "dep_kinds": [{"kind": null}]},
                    {"pkg": "b", "dep_kinds": [{"kind": "build"}]},
                ]},
            ]},
        });
        let linked = linked(&metadata, "drumfire").unwrap();
        let titles: Vec<_> = linked.iter().map(|one| one.title.as_str()).collect();
        assert_eq!(titles, ["a 1 (MIT)"]);
        assert_eq!(linked[0].folder, Path::new("/r/a"));
    }

    #[test]
    fn a_text_is_written_once() {
        let titles = |all: &[&str]| all.iter().map(ToString::to_string).collect();
        let texts = [("Be free.".to_owned(), titles(&["b 1 (MIT)", "a 1 (MIT)"]))];
        let page = page(&texts.into());
        assert_eq!(page.matches("Be free.").count(), 1);
        assert!(page.find("a 1 (MIT)").unwrap() < page.find("b 1 (MIT)").unwrap());
    }
}
