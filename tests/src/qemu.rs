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
    // Nobody listens there. A driver says so; without it qemu says that.
    let probe = run(Command::new(&image).args(["info", "iscsi://127.0.0.1:1/x/1"]), LIMIT);
    if probe.stderr.contains("load module") || probe.stderr.contains("Unknown protocol") {
        skip("qemu-img has no iSCSI driver: apt-get install qemu-block-extra");
        return None;
    }
    Some(image)
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

/// A call of `qemu-storage-daemon` with its iSCSI driver: beside the `qemu-img` that the task runner
/// unpacked, or the installed one with the modules of its own build. Without one, the calling test
/// is recorded as skipped.
pub fn qemu_storage_daemon() -> Option<Command> {
    let beside = qemu_img()?.with_file_name("qemu-storage-daemon");
    let installed = require("qemu-storage-daemon")?;
    let own_modules = |path: &PathBuf| {
        let mut command = Command::new(path);
        // Where nothing is, they are looked for where the build has its own.
        command.env("QEMU_MODULE_DIR", "/");
        command
    };
    let found = [Command::new(beside), own_modules(&installed)].into_iter().find_map(|probe| {
        let program = PathBuf::from(probe.get_program());
        let is_plain = probe.get_envs().next().is_none();
        let call = || if is_plain { Command::new(&program) } else { own_modules(&program) };
        // Nobody listens there, which a driver says.
        let node = "driver=iscsi,transport=tcp,portal=127.0.0.1:1,target=x,lun=1,node-name=x";
        let exists = program.exists();
        let said = exists.then(|| run(call().args(["--blockdev", node]), LIMIT).stderr)?;
        (!said.contains("Unknown driver")).then(call)
    });
    if found.is_none() {
        skip("qemu-storage-daemon has no iSCSI driver: apt-get install qemu-block-extra");
    }
    found
}
