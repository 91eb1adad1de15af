//! Tries packages: installed, used and removed in a root that has nothing but a small Debian; the
//! static program in a root that has nothing at all; and the container image.

mod container;
mod empty;
mod root;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::tool;
use crate::process;
use crate::say::say;
use root::Root;

/// Script that uses an installed package, in the root.
const USE: &str = include_str!("use.sh");

/// Why packages cannot be made and tried on this machine; `None` if they can.
pub fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("a clean root needs root".into());
    }
    let packages = [
        ("debhelper", "dh"),
        ("dpkg-dev", "dpkg-buildpackage"),
        ("mmdebstrap", "mmdebstrap"),
        ("rpm", "rpmbuild"),
    ];
    let missing = packages.iter().filter(|(_, program)| process::find(program).is_none());
    let missing: Vec<&str> = missing.map(|(package, _)| *package).collect();
    let remedy = format!("apt-get install {}", missing.join(" "));
    (!missing.is_empty()).then_some(remedy)
}

/// Makes the clean root, unless there is one.
pub fn prepare() -> Result<()> {
    Root::provide()?.keep()
}

/// Tries all packages of a folder. True if nothing fails.
pub fn all(folder: &Path) -> Result<bool> {
    if let Some(missing) = missing() {
        say!("packages were not tried: {missing}");
        return Ok(false);
    }
    let (deb, rpm) = (find(folder, ".deb")?, find(folder, ".rpm")?);
    let fixed = find(folder, "-static.tar.gz")?;
    ensure!(
        deb.is_some() || rpm.is_some() || fixed.is_some(),
        "nothing to try in {}",
        folder.display()
    );
    let mut good = true;
    if deb.is_some() || rpm.is_some() {
        let root = Root::provide()?;
        good &= said("deb", deb, |package| debian(&root, package));
        good &= said("rpm", rpm, |package| redhat(&root, package));
        if good {
            root.keep()?;
        }
    }
    good &= said("static", fixed, empty::run);
    good &= said("container", find(folder, "-oci.tar")?, container::run);
    Ok(good)
}

/// Tries a package and prints the outcome. True unless the package fails.
fn said(name: &str, package: Option<PathBuf>, work: impl FnOnce(&Path) -> Result<String>) -> bool {
    let Some(package) = package else {
        say!("{name}: none was made");
        return true;
    };
    let began = Instant::now();
    match work(&package) {
        Ok(words) => say!("{name}: {words} ({:.1} s)", began.elapsed().as_secs_f64()),
        Err(error) => {
            say!("{name}: FAILED: {error:#}");
            return false;
        }
    }
    true
}

/// Installs the Debian package, uses it, and purges it.
fn debian(root: &Root, package: &Path) -> Result<String> {
    let before = root.paths()?;
    root.copy(package, "tmp/drumfire.deb")?;
    root.run("dpkg --install /tmp/drumfire.deb && rm /tmp/drumfire.deb")?;
    let between = root.paths()?;
    let installed = between.difference(&before).count();
    let said = root.run(USE)?;
    root.run("dpkg --purge drumfire")?;
    nothing_left(&before, root)?;
    Ok(format!("{installed} paths installed, used, nothing left after dpkg --purge\n{said}"))
}

/// Installs the RPM package, starts the program, and erases it.
fn redhat(root: &Root, package: &Path) -> Result<String> {
    let before = root.paths()?;
    let rpm = || {
        let mut command = Command::new("rpm");
        // Only dpkg knows the libraries of the root.
        command.arg("--root").arg(root.path()).args(["--dbpath", "/tmp/rpm", "--nodeps"]);
        command
    };
    tool(rpm().arg("--install").arg(package))?;
    let said = root.run("drumfire --version && drumfire completions bash | grep -q complete")?;
    tool(rpm().args(["--erase", "drumfire"]))?;
    root.run("rm -rf /tmp/rpm")?;
    nothing_left(&before, root)?;
    Ok(format!("installed, started, nothing left after rpm --erase: {}", said.trim()))
}

/// Fails if a path was not there before, or is no longer there.
fn nothing_left(before: &std::collections::BTreeSet<String>, root: &Root) -> Result<()> {
    let after = root.paths()?;
    let changed: Vec<&str> = before.symmetric_difference(&after).map(String::as_str).collect();
    ensure!(changed.is_empty(), "left or lost: {}", changed.join(", "));
    Ok(())
}

/// The file of a folder whose name ends so.
fn find(folder: &Path, ending: &str) -> Result<Option<PathBuf>> {
    let mut names = super::names(folder)?.into_iter();
    Ok(names.find(|name| name.ends_with(ending)).map(|name| folder.join(name)))
}
