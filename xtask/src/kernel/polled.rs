//! Files that our own program needs to run in the guest, and a disk with poll queues for the guest:
//! few machines have such a disk to spare.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::cpio::Archive;
use crate::process::{self, Show};

/// Size of the disk: enough for 2,000 offsets of 4 KiB, and small enough to be filled in seconds.
const DISK_BYTES: u64 = 8 << 20;

/// Adds programs below `host/`, and their shared libraries below `host/lib`: those of this machine,
/// which may be newer than the guest's.
pub fn add_programs<'a>(
    archive: &mut Archive,
    programs: impl Iterator<Item = &'a Path>,
) -> Result<()> {
    let read = |path: &Path| fs::read(path).with_context(|| path.display().to_string());
    let name_of = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut linked = BTreeSet::new();
    for program in programs {
        archive.file(&format!("host/{}", name_of(program)), &read(program)?);
        let mut ldd = Command::new("ldd");
        let outcome = process::run(ldd.arg(program), Duration::from_secs(300), Show::Nothing)?;
        ensure!(outcome.success(), "ldd: {}", outcome.stderr.trim());
        linked.extend(libraries(&outcome.stdout));
    }
    for library in linked {
        archive.file(&format!("host/lib/{}", name_of(&library)), &read(&library)?);
    }
    Ok(())
}

/// Paths in the output of `ldd`: `libc.so.6 => /lib/libc.so.6 (0x7f00)`, and without an arrow the
/// loader.
fn libraries(said: &str) -> Vec<PathBuf> {
    let words =
        said.lines().filter_map(|line| line.split_whitespace().find(|w| w.starts_with('/')));
    words.map(PathBuf::from).collect()
}

/// Creates an empty disk image; returns qemu's arguments to attach it as NVMe.
pub fn disk(file: &Path) -> Result<[String; 4]> {
    let made = File::create(file).and_then(|file| file.set_len(DISK_BYTES));
    made.with_context(|| file.display().to_string())?;
    // A comma in a value is doubled.
    let path = file.display().to_string().replace(',', ",,");
    let drive = format!("file={path},if=none,id=polled,format=raw");
    let [option, device] = ["-device", "nvme,serial=polled,drive=polled"].map(str::to_owned);
    Ok(["-drive".to_owned(), drive, option, device])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn libraries_are_found_in_what_ldd_says() {
        let said = "\
\tlinux-vdso.so.1 (0x00007ffc)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f5f)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f60)
";
        let wanted = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(libraries(said), wanted.map(PathBuf::from));
    }
}
