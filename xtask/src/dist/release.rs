//! Identity of a release: version, commit and date.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::tool;

/// Digits of a commit in names and versions, as in the program's own build script.
const DIGITS: usize = 12;

/// A state of the repository, with all that it says of itself.
pub struct Release {
    /// The version of the workspace: `0.1.0`.
    pub version: String,
    /// Whether files that git knows differ from the commit.
    pub dirty: bool,
    /// Time of the commit in seconds since 1970: the time of everything that is made.
    pub epoch: String,
    /// Root of the repository.
    pub root: PathBuf,
    /// Tree for `git archive`.
    pub tree: String,
    commit: String,
    date: String,
}

impl Release {
    /// The state of the repository at `root`.
    pub fn read(root: &Path) -> Result<Release> {
        let git = |args: &[&str]| tool(Command::new("git").args(args).current_dir(root));
        let head = git(&["show", "-s", "--format=%H %cs %ct", "HEAD"])?;
        let [commit, date, epoch] = fields(&head).context("git show prints another form")?;
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let dirty = !changes.trim().is_empty();
        // A commit of the changed files that no branch has.
        let changed = if dirty { git(&["stash", "create"])? } else { String::new() };
        let tree = if dirty { changed.trim() } else { commit }.to_owned();
        ensure!(!tree.is_empty(), "git stash create made no commit");
        Ok(Release {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            dirty,
            epoch: epoch.to_owned(),
            root: root.to_path_buf(),
            tree,
            commit: commit[..DIGITS].to_owned(),
            date: date.to_owned(),
        })
    }

    /// Commit and date in the program's format: `356d8e3c0a1b 2026-11-29`.
    pub fn commit_and_date(&self) -> String {
        let dirty = if self.dirty { "-dirty" } else { "" };
        format!("{}{dirty} {}", self.commit, self.date)
    }

    /// Name and version: `drumfire-0.1.0`.
    pub fn name(&self) -> String {
        format!("drumfire-{}", self.version)
    }
}

/// Commit, date and seconds of a line.
fn fields(line: &str) -> Option<[&str; 3]> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let fields: [&str; 3] = fields.try_into().ok()?;
    let is_hash = fields[0].len() >= DIGITS && fields[0].bytes().all(|b| b.is_ascii_hexdigit());
    is_hash.then_some(fields)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_line_of_git_has_three_fields() {
        let line = "356d8e3c0a1b2c3d4e5f60718293a4b5c6d7e8f9 2026-11-29 1795910400\n";
        assert_eq!(fields(line).unwrap()[1..], ["2026-11-29", "1795910400"]);
        assert!(fields("fatal: no 1").is_none() && fields("").is_none());
    }
}
