//! `cargo xtask test --changed`: unit tests of the packages that were changed since `main`, or are
//! changed in the working tree, and of their dependents. Of the system tests, the changed ones.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::tally::Tally;
use super::{BUILD_LIMIT, SYSTEM_LIMIT, UNIT_LIMIT, cargo, packages};
use crate::process::{self, Show};
use crate::{root, target_folder};

/// Package of the system tests, which drives the binary and depends on no other.
const SYSTEM: &str = "drumfire-tests";
/// Time limit for queries to git and cargo.
const ASK_LIMIT: Duration = Duration::from_secs(120);

/// A package of the workspace.
struct Package {
    name: String,
    /// Folder of the package, from the root, with a slash at its end.
    folder: String,
    /// Packages that this one needs, also for its tests.
    needs: Vec<String>,
}

/// Tests to run.
pub struct Changed {
    packages: Vec<String>,
    system: Vec<String>,
}

impl Changed {
    /// Changes of this branch and the working tree.
    pub fn find() -> Result<Changed> {
        let files = changed_files()?;
        let workspace = workspace()?;
        let packages = touched(&workspace, &files).into_iter().filter(|name| *name != SYSTEM);
        let packages = packages.map(str::to_owned).collect();
        Ok(Changed { packages, system: system_tests(&files) })
    }

    /// Runs the unit tests of the packages.
    pub fn unit(&self) -> Result<Tally> {
        if self.packages.is_empty() {
            return Ok(Tally::default());
        }
        let mut args = vec!["test", "--no-fail-fast"];
        self.packages.iter().for_each(|name| args.extend(["-p", name]));
        Ok(Tally::of_cargo_test("unit tests", &cargo(&args, &[], UNIT_LIMIT)?))
    }

    /// Runs the system tests that were changed, with a debug build.
    pub fn system(&self) -> Result<Tally> {
        if self.system.is_empty() {
            return Ok(Tally::default());
        }
        let built = cargo(&["build", "-p", "drumfire"], &[], BUILD_LIMIT)?;
        ensure!(built.success(), "build of drumfire: {}", built.ending());
        let mut variables = packages::variables();
        variables.push(("DRUMFIRE_BIN", target_folder().join("debug/drumfire")));
        let mut args = vec!["test", "-p", SYSTEM, "--no-fail-fast", "--"];
        args.extend(self.system.iter().map(String::as_str));
        Ok(Tally::of_cargo_test("system tests", &cargo(&args, &variables, SYSTEM_LIMIT)?))
    }
}

/// Files that differ from the merge base with `main`, in commits or in the working tree.
fn changed_files() -> Result<Vec<String>> {
    let base = ask("git", &["merge-base", "HEAD", "main"])?;
    let mut files = ask("git", &["diff", "--name-only", base.trim()])?;
    files += &ask("git", &["ls-files", "--others", "--exclude-standard"])?;
    Ok(files.lines().map(str::to_owned).collect())
}

fn workspace() -> Result<Vec<Package>> {
    let text = ask("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&text).context("what cargo metadata says")?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let root = root();
    let package = |of: &Value| {
        let folder = Path::new(of["manifest_path"].as_str()?).parent()?;
        let needs = of["dependencies"].as_array()?.iter();
        Some(Package {
            name: of["name"].as_str()?.to_owned(),
            folder: format!("{}/", folder.strip_prefix(&root).ok()?.display()),
            needs: needs.filter_map(|it| Some(it["name"].as_str()?.to_owned())).collect(),
        })
    };
    packages.iter().map(package).collect::<Option<_>>().context("a package without a name")
}

/// Packages that contain the files, and all their dependents; all packages if the workspace's
/// manifest or lock file is among the files.
fn touched<'a>(packages: &'a [Package], files: &[String]) -> BTreeSet<&'a str> {
    let of_all = |file: &String| file == "Cargo.toml" || file == "Cargo.lock";
    let inside = |package: &&Package| {
        files.iter().any(|file| of_all(file) || file.starts_with(&package.folder))
    };
    let mut touched: BTreeSet<&str> =
        packages.iter().filter(inside).map(|package| package.name.as_str()).collect();
    loop {
        let depends = |package: &&Package| {
            !touched.contains(package.name.as_str())
                && package.needs.iter().any(|name| touched.contains(name.as_str()))
        };
        let more: Vec<&str> =
            packages.iter().filter(depends).map(|package| package.name.as_str()).collect();
        if more.is_empty() {
            return touched;
        }
        touched.extend(more);
    }
}

/// Prefixes of the names of the system tests in these files. A file is a module, and so is a
/// folder.
fn system_tests(files: &[String]) -> Vec<String> {
    let name = |file: &String| {
        let name = file.strip_prefix("tests/tests/")?.strip_suffix(".rs")?;
        let module = format!("{}::", name.split('/').next()?);
        root().join(file).exists().then_some(module)
    };
    files.iter().filter_map(name).collect::<BTreeSet<_>>().into_iter().collect()
}

fn ask(program: &str, args: &[&str]) -> Result<String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(root());
    let outcome = process::run(&mut command, ASK_LIMIT, Show::Nothing)?;
    ensure!(outcome.success(), "{program} {}: {}", args.join(" "), outcome.stderr.trim());
    Ok(outcome.stdout)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_depends_on_a_change_is_tested_too() {
        let package = |name: &str, folder: &str, needs: &[&str]| Package {
            name: name.to_owned(),
            folder: folder.to_owned(),
            needs: needs.iter().map(ToString::to_string).collect(),
        };
        let packages = [
            package("block", "crates/block/", &["serde"]),
            package("job", "crates/job/", &["block"]),
            package("cli", "crates/cli/", &["job"]),
            package("model", "crates/model/", &["block"]),
            package(SYSTEM, "tests/", &[]),
        ];
        let touched = |file: &str| {
            touched(&packages, &[file.to_owned()]).into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(touched("crates/job/src/spec/run.rs"), "cli job");
        assert_eq!(touched("crates/block/Cargo.toml"), "block cli job model");
        assert_eq!(touched("docs/guide/load.md"), "");
        assert_eq!(touched("tests/tests/race.rs"), SYSTEM);
        assert_eq!(touched("Cargo.lock"), "block cli drumfire-tests job model");
    }

    #[test]
    fn this_workspace_is_read_as_it_is() {
        let packages = workspace().unwrap();
        let of = |name: &str| packages.iter().find(|package| package.name == name).unwrap();
        assert_eq!(of("drumfire-job").folder, "crates/job/");
        assert!(of("drumfire").needs.contains(&"drumfire-job".to_owned()));
        let files = ["tests/tests/gone.rs", "tests/src/lib.rs", "tests/tests/fio_bdev.rs"];
        assert_eq!(system_tests(&files.map(str::to_owned)), ["fio_bdev::"]);
        let folder = ["tests/tests/database/mod.rs", "tests/tests/database/postgres.rs"];
        assert_eq!(system_tests(&folder.map(str::to_owned)), ["database::"]);
    }
}
