//! The text files of the repository.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::source::Source;

/// Folders without files of ours, anywhere.
const FOREIGN: &[&str] = &["target", ".git", "drumfire-runs", "corpus", "artifacts", "fixtures"];

/// Extensions of text files.
const TEXT: &[&str] = &["rs", "toml", "md", "run", "yml", "yaml", "json", "icf", "fio"];

/// One text file.
pub struct File {
    /// Path from the root, with `/`.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

impl File {
    /// The two views of Rust text.
    pub fn source(&self) -> Source {
        Source::new(&self.text)
    }

    /// The crate that the file belongs to: `block` for `crates/block/src/io.rs`.
    pub fn crate_name(&self) -> Option<&str> {
        self.path.strip_prefix("crates/")?.split('/').next()
    }
}

/// All text files, and the names of the others, in order of their paths.
#[derive(Default)]
pub struct Tree {
    /// Files that were read.
    pub files: Vec<File>,
    /// Every path, folders included, as link targets.
    pub paths: Vec<String>,
}

impl Tree {
    /// Reads everything below `root`. Needs no git: CI may run on a bare copy.
    pub fn read(root: &Path) -> Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree of fixtures.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let file =
            |(path, text): &(&str, &str)| File { path: (*path).into(), text: (*text).into() };
        let paths = files.iter().map(|(path, _)| (*path).into()).collect();
        Tree { files: files.iter().map(file).collect(), paths }
    }

    /// The Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.path.ends_with(".rs"))
    }

    /// The file at exactly this path.
    pub fn at(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    fn read_folder(&mut self, folder: &Path, prefix: &str) -> Result<()> {
        let entries = fs::read_dir(folder).with_context(|| format!("reading {folder:?}"))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if FOREIGN.contains(&name.as_str()) {
                continue;
            }
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                self.read_folder(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() && TEXT.iter().any(|end| ends_with(&name, end)) {
                // Files that are not UTF-8 are data, whatever their extension.
                if let Ok(text) = fs::read_to_string(entry.path()) {
                    self.files.push(File { path: path.clone(), text });
                }
            }
            self.paths.push(path);
        }
        Ok(())
    }
}

fn ends_with(name: &str, end: &str) -> bool {
    name == end || name.strip_suffix(end).is_some_and(|stem| stem.ends_with('.'))
}
