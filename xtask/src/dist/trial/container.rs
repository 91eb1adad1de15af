//! The container image, run as its users run it: by its own entry point, as its own user.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::super::tool;
use crate::process;
use crate::target_folder;

/// Runs the program of an image by its name, with its version and a race.
pub fn run(image: &Path) -> Result<String> {
    let buildah = process::find("buildah").context("apt-get install buildah")?;
    let storage = target_folder().join("dist-images");
    let _ = std::fs::remove_dir_all(&storage);
    let buildah = || {
        let mut command = Command::new(&buildah);
        command.arg("--root").arg(storage.join("root")).arg("--runroot").arg(storage.join("run"));
        command.args(["--storage-driver", "vfs"]);
        command
    };
    // The default profile of containers forbids io_uring.
    let mut from = buildah();
    from.args(["from", "--security-opt", "seccomp=unconfined"]);
    let name = tool(from.arg(format!("oci-archive:{}", image.display())))?;
    let name = name.trim();
    let config = |key: &str| -> Result<String> {
        let format = format!("{{{{.OCIv1.Config.{key}}}}}");
        tool(buildah().args(["inspect", "--type", "container", "--format", &format, name]))
    };
    let (entry, user) = (config("Entrypoint")?, config("User")?);
    ensure!(entry.trim() == "[/drumfire]", "the entry point is {}", entry.trim());
    ensure!(user.trim() == "65534:65534", "the user is {}", user.trim());
    let inside = |args: &[&str]| {
        let mut command = buildah();
        command.args(["run", "--isolation", "chroot", name, "--", "drumfire"]).args(args);
        tool(&mut command)
    };
    let version = inside(&["--version"])?;
    let race = inside(&["race", "--seconds", "1", "--ramp", "1"])?;
    ensure!(race.contains("IOPS"), "race printed no rate:\n{race}");
    std::fs::remove_dir_all(&storage)?;
    let rate = race.lines().find(|line| line.contains("IOPS measured")).unwrap_or_default();
    Ok(format!("{}, as user {}: {rate}", version.trim(), user.trim()))
}
