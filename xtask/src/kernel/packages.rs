//! The Debian packages that the guest is made of: downloaded and unpacked below the target folder,
//! never installed, so that the host's boot and programs stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Show};
use crate::say::say;

/// Longest time for a download or for unpacking a package.
const LIMIT: Duration = Duration::from_secs(5 * 60);

/// A package that only depends on the newest kernel.
const KERNEL: &str = "linux-image-amd64";
/// Packages of the programs that the guest runs; their libraries' packages are added.
pub const PROGRAMS: &[&str] =
    &["busybox-static", "nvme-cli", "open-iscsi", "e2fsprogs", "sg3-utils"];

/// Downloads the newest kernel of the backports to this machine's Debian into `folder`, and unpacks
/// it below its `root`, which is returned. apt's lists for these packages are saved in the folder:
/// this machine's own settings and lists stay as they are.
pub fn unpack_backported_kernel(folder: &Path) -> Result<PathBuf> {
    let about = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let release = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let release = release.context("/etc/os-release names no release")?.trim_matches('"');
    let archives = run(Command::new("apt-get").args([
        "indextargets",
        "--format",
        "$(CODENAME) $(REPO_URI)",
        "Created-By: Packages",
    ]))?;
    let mirror = archives.lines().find_map(|line| line.strip_prefix(release)?.strip_prefix(' '));
    let mirror = mirror.with_context(|| format!("apt knows no archive of {release}"))?;
    let _ = fs::remove_dir_all(folder);
    for part in ["root", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(folder.join(part)).with_context(|| folder.display().to_string())?;
    }
    let sources = folder.join("sources.list");
    fs::write(&sources, format!("deb {mirror} {release}-backports main\n"))?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        let own = [
            ("Dir::Etc::SourceList", sources.clone()),
            ("Dir::Etc::SourceParts", PathBuf::from("-")),
            ("Dir::State::Lists", folder.join("lists")),
            ("Dir::Cache", folder.join("cache")),
        ];
        for (setting, path) in own {
            command.arg("-o").arg(format!("{setting}={}", path.display()));
        }
        command.current_dir(folder);
        command
    };
    run(apt("apt-get").args(["-q", "update"]))?;
    // An archive that cannot be reached is no error to the line above.
    let unknown = || format!("{release}-backports is out of reach");
    let name = kernel(apt("apt-cache")).with_context(unknown)?;
    say!("downloading {name} of {release}-backports");
    run(apt("apt-get").arg("download").arg(name))?;
    let root = folder.join("root");
    unpack_all(folder, &root)?;
    Ok(root)
}

/// Downloads this machine's newest kernel into `folder`, likewise.
pub fn unpack_kernel(folder: &Path) -> Result<PathBuf> {
    unpack(folder, &[kernel(Command::new("apt-cache"))?])
}

/// Downloads the programs, and their libraries, into `folder`, likewise.
pub fn unpack_programs(folder: &Path) -> Result<PathBuf> {
    let mut names = libraries()?;
    names.extend(PROGRAMS.iter().map(ToString::to_string));
    unpack(folder, &names)
}

fn unpack(folder: &Path, names: &[String]) -> Result<PathBuf> {
    let _ = fs::remove_dir_all(folder);
    let root = folder.join("root");
    fs::create_dir_all(&root).with_context(|| folder.display().to_string())?;
    say!("downloading {} packages", names.len());
    run(Command::new("apt-get").arg("download").args(names).current_dir(folder))?;
    unpack_all(folder, &root)?;
    Ok(root)
}

fn unpack_all(folder: &Path, root: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)?.flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "deb") {
            run(Command::new("dpkg").arg("-x").arg(entry.path()).arg(root))?;
        }
    }
    Ok(())
}

/// The package with the newest kernel, such as `linux-image-6.1.0-56-amd64`.
fn kernel(mut apt_cache: Command) -> Result<String> {
    let depends = run(apt_cache.args(["depends", KERNEL]))?;
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let name = names.find(|name| name.starts_with("linux-image-"));
    Ok(name.with_context(|| format!("{KERNEL} depends on no kernel"))?.to_owned())
}

/// Packages of libraries that the programs need, directly or indirectly. The list has unused ones,
/// too, which installation scripts need.
fn libraries() -> Result<Vec<String>> {
    let mut command = Command::new("apt-cache");
    command.args(["depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts"]);
    command.args(["--no-breaks", "--no-replaces", "--no-enhances"]).args(PROGRAMS);
    let names = libraries_in(&run(&mut command)?);
    ensure!(!names.is_empty(), "apt-cache knows no libraries: apt-get update");
    Ok(names)
}

/// Libraries in the output of `apt-cache depends --recurse`: a package is a line that begins with
/// its name, its dependencies are indented below.
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
