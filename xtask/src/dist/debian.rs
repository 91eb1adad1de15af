//! The Debian package, by Debian's own tools and the recipe in `packaging/debian`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::release::Release;
use super::{Packing, Parts, tool};

/// Makes `drumfire_0.1.0-1_amd64.deb` of a program without symbols.
pub fn make(
    release: &Release,
    parts: &Parts,
    program: &Path,
    folder: &Path,
    packing: Packing,
) -> Result<()> {
    let Parts { tree, third_party, .. } = parts;
    let compression = match packing {
        Packing::Small => "xz",
        Packing::Fast => "none",
    };
    let debian = tree.join("debian");
    tool(Command::new("cp").arg("-r").arg(tree.join("packaging/debian")).arg(&debian))?;
    let history = fs::read_to_string(debian.join("changelog")).context("debian/changelog")?;
    let expected = format!("drumfire ({}-", release.version);
    ensure!(
        history.starts_with(&expected),
        "packaging/debian/changelog does not begin with {expected}"
    );
    let mut build = Command::new("dpkg-buildpackage");
    // Sources are an archive of their own, and who builds need not be who signs.
    build.args(["-b", "-us", "-uc", "-d"]).current_dir(tree);
    build.env("DRUMFIRE", program).env("THIRD_PARTY", third_party);
    build.env("DEB_COMPRESSION", compression).env("DEB_BUILD_OPTIONS", "noautodbgsym");
    build.env("SOURCE_DATE_EPOCH", &release.epoch).env("LC_ALL", "C.UTF-8");
    tool(&mut build)?;
    let made = tree.parent().context("sources lie in a folder")?;
    let is_package = |name: &String| name.ends_with(".deb");
    let name = super::names(made)?.into_iter().find(is_package).context("no .deb was made")?;
    fs::rename(made.join(&name), folder.join(&name))?;
    fs::remove_dir_all(&debian)?;
    Ok(())
}
