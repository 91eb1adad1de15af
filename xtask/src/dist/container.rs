//! The container image: the static program and its licences, from `packaging/container`.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::release::Release;
use super::{archive, tool};
use crate::process;
use crate::say::say;

/// Builds `drumfire-0.1.0-ARCH-oci.tar` of the files of the static archive, where `buildah` is
/// installed; checks the recipe where `hadolint` is.
pub fn make(release: &Release, tree: &Path, staged: &Path, folder: &Path) -> Result<()> {
    let recipe = tree.join("packaging/container/Containerfile");
    match process::find("hadolint") {
        Some(hadolint) => drop(tool(Command::new(hadolint).arg(&recipe))?),
        None => say!("the container's recipe is not linted: hadolint is not installed"),
    }
    let Some(buildah) = process::find("buildah") else {
        say!("no container image: apt-get install buildah");
        return Ok(());
    };
    // Images and containers are in the work folder, so none remain on this machine.
    let storage = folder.join("work/images");
    let buildah = || {
        let mut command = Command::new(&buildah);
        command.arg("--root").arg(storage.join("root")).arg("--runroot").arg(storage.join("run"));
        command.args(["--storage-driver", "vfs"]);
        command
    };
    let image = format!("localhost/drumfire:{}", release.version);
    let mut build = buildah();
    build.args(["build", "--isolation", "chroot", "--timestamp", &release.epoch, "--tag", &image]);
    build.args(["--identity-label=false", "--build-arg", &format!("VERSION={}", release.version)]);
    // Empty, and of this image alone: the archive is packed before.
    std::fs::create_dir_all(staged.join("results"))?;
    tool(build.arg("--file").arg(&recipe).arg(staged))?;
    let file = folder.join(format!("{}-{}-oci.tar", release.name(), std::env::consts::ARCH));
    let layout = folder.join("work/layout");
    tool(buildah().args(["push", &image]).arg(format!("oci:{}:{image}", layout.display())))?;
    // The time of packing would be in an archive of buildah's own.
    archive::pack(release, &layout, ".", &file)
}
