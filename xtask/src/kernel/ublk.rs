//! The second guest: our volumes as block devices, by the ublk driver of a newer kernel.
//!
//! Debian 12's kernel is built without that driver, the one of its backports has it. It is used
//! with the first guest's programs. See `ublk.sh` for what it does.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::cpio::Archive;
use super::{Guest, Missing, SCRIPT, Target, boot, initramfs, judge, packages, show_end};
use crate::say::say;
use crate::test::tally::Tally;

/// What the guest runs, behind the first guest's tools.
const CHECKS: &str = include_str!("ublk.sh");
/// With this line the first guest's script ends its tools and begins with a protocol.
const TOOLS_END: &str = "# --- NVMe/TCP\n";

/// Modules in the order in which they are wanted.
const MODULES: &[&str] = &["virtio_pci", "virtio_net", "crc32c_generic", "ext4", "ublk_drv"];

/// The names of all checks.
pub fn names() -> impl Iterator<Item = String> {
    let made = CHECKS.lines().filter_map(|line| line.strip_prefix("check "));
    made.filter_map(|rest| rest.split(' ').next()).map(str::to_owned)
}

/// Runs the guest against the first one's build. A kernel that cannot be had is a skip of all its
/// checks.
pub fn test(first: &Guest) -> Result<Tally> {
    let (kernel, modules) = match provide(first) {
        Ok(parts) => parts,
        Err(Missing(why)) => {
            say!("skipped: {why}");
            let mut tally = Tally::default();
            names().for_each(|name| tally.skip(format!("kernel {name}"), why.as_str()));
            return Ok(tally);
        }
    };
    let target = Target::start(&first.drumfire)?;
    let guest = Guest {
        drumfire: first.drumfire.clone(),
        fio: None,
        qemu: first.qemu.clone(),
        kernel,
        initramfs: first.initramfs.clone(),
    };
    let mut archive = fs::read(&first.initramfs)?;
    archive.extend(fs::read(modules)?);
    let outcome = boot(&guest, &target, archive, &script(), &[])?;
    let tally = judge(&outcome, names());
    show_end(&tally, &outcome);
    Ok(tally)
}

fn script() -> String {
    let tools = SCRIPT.split(TOOLS_END).next().unwrap_or_default();
    format!("{tools}\n{CHECKS}")
}

/// The kernel, and an archive of its modules, from what an earlier run kept where it can.
fn provide(first: &Guest) -> Result<(PathBuf, PathBuf), Missing> {
    let folder = first.initramfs.with_file_name("ublk");
    let (kernel, modules) = (folder.join("vmlinuz"), folder.join("modules.cpio"));
    // Written last: what an interrupted run left behind is not taken for whole.
    let (stamp, recipe) = (folder.join("recipe"), format!("{MODULES:?}"));
    if !fs::read_to_string(&stamp).is_ok_and(|kept| kept == recipe) {
        make(&folder, &kernel, &modules)
            .and_then(|()| Ok(fs::write(&stamp, recipe)?))
            .map_err(|error| Missing(format!("no kernel with ublk can be had: {error:#}")))?;
    }
    Ok((kernel, modules))
}

fn make(folder: &Path, kernel: &Path, modules: &Path) -> Result<()> {
    let unpacked = folder.join("packages");
    let root = packages::unpack_backport(&unpacked)?;
    fs::copy(initramfs::kernel(&root)?, kernel)?;
    let mut archive = Archive::default();
    initramfs::add_modules(&mut archive, &root, "ublk", MODULES)?;
    fs::write(modules, archive.finish())?;
    Ok(fs::remove_dir_all(&unpacked)?)
}

#[cfg(test)]
mod test {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_script_has_the_first_guests_tools_and_each_check_once() {
        let script = script();
        for tool in ["check() {", "make_files() {", "check_files() {", "plug_in() {", "bounded() {"]
        {
            assert_eq!(script.matches(&format!("\n{tool}")).count(), 1, "{tool}");
        }
        assert!(!script.contains("nvme_discover"));
        let all: Vec<String> = names().collect();
        assert!(all.len() > 20 && all.iter().all(|name| name.starts_with("ublk-")), "{all:?}");
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
