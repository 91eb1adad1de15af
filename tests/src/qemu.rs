//! QEMU's tools as clients.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::{require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);

/// qemu-img with its iSCSI driver: the one that the task runner unpacked, or the installed one.
pub fn qemu_img() -> Option<PathBuf> {
    let image = std::env::var_os("DRUMFIRE_QEMU_IMG").map(PathBuf::from);
    let image = image.or_else(|| require("qemu-img"))?;
    // Nothing listens at this port: with a driver the connection fails, without one qemu reports an
    // unknown protocol.
    let probe = run(Command::new(&image).args(["info", "iscsi://127.0.0.1:1/x/1"]), LIMIT);
    if probe.stderr.contains("load module") || probe.stderr.contains("Unknown protocol") {
        skip("qemu-img has no iSCSI driver: apt-get install qemu-block-extra");
        return None;
    }
    Some(image)
}

/// A virtual machine's qemu: the one that the task runner unpacked, or the installed one.
pub fn qemu_system() -> Option<PathBuf> {
    let system = std::env::var_os("DRUMFIRE_QEMU_SYSTEM").map(PathBuf::from);
    system.or_else(|| require("qemu-system-x86_64"))
}

/// `qemu-io` of the same build, which loads the same driver; skips as [`qemu_img`] does.
pub fn qemu_io() -> Option<PathBuf> {
    let program = qemu_img()?.with_file_name("qemu-io");
    if !program.exists() {
        skip("qemu-io is not installed: apt-get install qemu-utils");
        return None;
    }
    Some(program)
}

/// `qemu-nbd` of the same build; skips as [`qemu_img`] does.
pub fn qemu_nbd() -> Option<PathBuf> {
    let beside = qemu_img()?.with_file_name("qemu-nbd");
    if beside.exists() { Some(beside) } else { require("qemu-nbd") }
}
