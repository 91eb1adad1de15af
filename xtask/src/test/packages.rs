//! The programs that system tests are run against: installed where that is ours to do.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};

use super::tally::Tally;
use crate::process::{self, Outcome, Show};
use crate::say::say;
use crate::target_folder;

/// Longest time for a download or an installation.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// A Debian package and a program that shows whether it is there.
const PACKAGES: &[(&str, &str)] = &[
    ("fio", "fio"),
    ("tgt", "tgtd"),
    ("libiscsi-bin", "iscsi-ls"),
    ("qemu-utils", "qemu-img"),
    ("fuse3", "fusermount3"),
    ("libnbd-bin", "nbdcopy"),
    ("nbdkit", "nbdkit"),
    // Look at pages and metrics.
    ("chromium", "chromium"),
    ("prometheus", "promtool"),
    // Take completions.
    ("zsh", "zsh"),
    ("fish", "fish"),
    // Makes a file system that compresses.
    ("btrfs-progs", "mkfs.btrfs"),
    // Make packages, and a clean root to install them in.
    ("debhelper", "dh"),
    ("mmdebstrap", "mmdebstrap"),
    ("rpm", "rpmbuild"),
    // Ranks on many hosts: a launcher, the library to build with, and hosts to make.
    ("openmpi-bin", "mpirun"),
    ("libopenmpi-dev", "mpicc"),
    ("iproute2", "ip"),
    ("slurm-client", "srun"),
    ("slurmctld", "slurmctld"),
    ("slurmd", "slurmd"),
    // Compiles libFuzzer.
    ("g++", "c++"),
];

/// The package with qemu's iSCSI driver, and where the driver lies in it.
const QEMU_DRIVER: &str = "qemu-block-extra";

/// Installs missing programs, as root on Debian; elsewhere lists them. Never fails: a program that
/// is still missing causes a skip in its tests.
pub fn provide(install: bool) -> Result<Tally> {
    let missing = || PACKAGES.iter().filter(|(_, program)| process::find(program).is_none());
    let mut names: Vec<&str> = missing().map(|(package, _)| *package).collect();
    if names.contains(&"qemu-utils") {
        names.push(QEMU_DRIVER);
    }
    let able = may_install(install);
    if !names.is_empty() && able {
        apt_install(&names)?;
    }
    if able && process::find("qemu-img").is_some() && qemu_driver().is_none() {
        unpack_qemu()?;
    }
    let missing: Vec<&str> = missing().map(|(package, _)| *package).collect();
    if missing.is_empty() {
        say!("all programs are there");
    } else {
        say!("missing, tests that want them will be skipped: {}", missing.join(" "));
        say!("    remedy: apt-get install {}", missing.join(" "));
    }
    Ok(Tally::default())
}

/// Returns the program of a package; installs it first if it is missing and we may. The error has
/// the missing program and the remedy.
pub fn program(package: &str, program: &str, install: bool) -> Result<PathBuf, String> {
    let words = |error| format!("{error:#}");
    if process::find(program).is_none() && may_install(install) {
        apt_install(&[package]).map_err(words)?;
        if process::find(program).is_none() {
            return unpack_program(package, program).map_err(words);
        }
    }
    let missing = || format!("{program} is missing: apt-get install {package}");
    process::find(program).ok_or_else(missing)
}

/// Updates the archive's package lists, which may be absent, as in container images, or outdated.
pub fn update(install: bool) -> Result<bool> {
    Ok(may_install(install) && apt(&["update", "-q"])?.success())
}

fn may_install(install: bool) -> bool {
    let root = rustix::process::geteuid().is_root();
    install && root && process::find("apt-get").is_some()
}

/// Returns variables for the system tests with programs outside the usual places.
pub fn variables() -> Vec<(&'static str, PathBuf)> {
    let ours = own_qemu();
    let image = ours.join("usr/bin/qemu-img");
    let mut variables = match driver_below(&ours.join("usr")) {
        Some(driver) if image.is_file() => {
            let folder = driver.parent().map(PathBuf::from).unwrap_or_default();
            vec![("DRUMFIRE_QEMU_IMG", image), ("QEMU_MODULE_DIR", folder)]
        }
        _ => Vec::new(),
    };
    // Unpacked for the kernel's checks.
    let system = target_folder().join("interop/qemu-system-x86/qemu-system-x86_64");
    if system.is_file() {
        variables.push(("DRUMFIRE_QEMU_SYSTEM", system));
    }
    variables
}

/// Installs packages, but none for which another one would be removed.
fn apt_install(packages: &[&str]) -> Result<()> {
    say!("installing {}", packages.join(" "));
    let args = [&["install", "-y", "-q", "--no-install-recommends", "--no-remove"], packages];
    let args = args.concat();
    // Lists may be absent, as in container images, or older than the archive.
    if !apt(&args)?.success() && apt(&["update", "-q"])?.success() {
        let outcome = apt(&args)?;
        if !outcome.success() {
            say!("apt-get install: {}\n{}", outcome.ending(), outcome.stderr.trim_end());
        }
    }
    Ok(())
}

/// Unpacks a package and its missing libraries into the target folder, and returns a script that
/// starts its program with these libraries.
fn unpack_program(package: &str, program: &str) -> Result<PathBuf> {
    let folder = target_folder().join("interop").join(package);
    let script = folder.join(program);
    if script.is_file() {
        return Ok(script);
    }
    let plan = apt(&["install", "-s", "-q", "--no-install-recommends", package])?;
    let names = installed_by(&plan.stdout);
    ensure!(!names.is_empty(), "apt-get install {package}: {}", plan.stderr.trim_end());
    say!("unpacking {} packages of {package} below {}", names.len(), folder.display());
    std::fs::create_dir_all(&folder)?;
    let mut command = Command::new("apt-get");
    command.arg("download").args(names).current_dir(&folder);
    let outcome = process::run(&mut command, LIMIT, Show::Nothing)?;
    ensure!(outcome.success(), "apt-get download: {}", outcome.stderr.trim_end());
    unpack_all(&folder)?;
    let (usr, arch) = (folder.join("usr"), std::env::consts::ARCH);
    let (usr, libraries) = (usr.display(), usr.join(format!("lib/{arch}-linux-gnu")));
    let libraries = libraries.display();
    let text = format!(
        "#!/bin/sh\nLD_LIBRARY_PATH='{libraries}' exec '{usr}/bin/{program}' -L '{usr}/share/qemu' \
         -L '{usr}/share/seabios' \"$@\"\n"
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

/// The packages, each with its version, that a simulated `apt-get install` would install.
fn installed_by(plan: &str) -> Vec<String> {
    let name = |line: &str| {
        // "Inst seabios (1.16.2-1 Debian:12.5/stable [all])"; an installed version comes first.
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.split_once('(')?.1.split(' ').next()?;
        Some(format!("{name}={version}"))
    };
    plan.lines().filter_map(name).collect()
}

/// Unpacks all packages of a folder into it.
fn unpack_all(folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "deb") {
            let mut command = Command::new("dpkg");
            command.arg("-x").arg(entry.path()).arg(folder);
            process::run(&mut command, LIMIT, Show::Nothing)?;
        }
    }
    Ok(())
}

fn apt(args: &[&str]) -> Result<Outcome> {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    process::run(&mut command, LIMIT, Show::Nothing)
}

/// Fetches qemu-img and its iSCSI driver as a pair into the target folder.
///
/// The driver loads only into the qemu that it was built with, and the installed one may come from
/// elsewhere: replacing it is not ours to do.
fn unpack_qemu() -> Result<()> {
    let folder = own_qemu();
    if driver_below(&folder.join("usr")).is_some() {
        return Ok(());
    }
    std::fs::create_dir_all(&folder)?;
    say!("unpacking qemu-img with its iSCSI driver below {}", folder.display());
    let fetch = || -> Result<bool> {
        let Some(version) = driver_version() else { return Ok(false) };
        let pair = ["qemu-utils", QEMU_DRIVER].map(|package| format!("{package}={version}"));
        let mut command = Command::new("apt-get");
        command.arg("download").args(pair).current_dir(&folder);
        Ok(process::run(&mut command, LIMIT, Show::Nothing)?.success())
    };
    let fetched = fetch()? || (apt(&["update", "-q"])?.success() && fetch()?);
    if !fetched {
        say!("no qemu with an iSCSI driver to be had");
        return Ok(());
    }
    unpack_all(&folder)
}

/// Returns the archive's version of the driver, which may be older than the installed qemu.
fn driver_version() -> Option<String> {
    let mut command = Command::new("apt-cache");
    let outcome = process::run(command.args(["madison", QEMU_DRIVER]), LIMIT, Show::Nothing);
    // "qemu-block-extra | 1:7.2+dfsg-7 | source"
    outcome.ok()?.stdout.split('|').nth(1).map(|version| version.trim().to_string())
}

fn own_qemu() -> PathBuf {
    target_folder().join("interop/qemu")
}

/// The iSCSI driver of the installed qemu.
fn qemu_driver() -> Option<PathBuf> {
    driver_below(&PathBuf::from("/usr"))
}

/// The driver below a folder like `/usr`, whatever the processor is called.
fn driver_below(usr: &Path) -> Option<PathBuf> {
    let folders = std::fs::read_dir(usr.join("lib")).ok()?.flatten();
    let drivers = folders.map(|folder| folder.path().join("qemu/block-iscsi.so"));
    let mut all = drivers.chain([usr.join("lib/qemu/block-iscsi.so")]);
    all.find(|driver| driver.is_file())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_would_be_installed_has_its_version() {
        let plan = "NOTE: This is only a simulation!\n\
            Remv qemu-utils [1:10.0.2+ds-2]\n\
            Inst seabios (1.16.2-1 Debian:12.5/stable [all])\n\
            Inst libpcre2-8-0 [10.42-1] (10.42-1+deb12u2 Debian:12.5/stable [amd64]) []\n\
            Conf seabios (1.16.2-1 Debian:12.5/stable [all])\n";
        assert_eq!(installed_by(plan), ["seabios=1.16.2-1", "libpcre2-8-0=10.42-1+deb12u2"]);
        assert!(installed_by("0 upgraded, 0 newly installed").is_empty());
    }
}
