//! The RPM package, by `rpmbuild` and the recipe in `packaging/rpm`.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::release::Release;
use super::{Packing, Parts, tool};

/// Makes `drumfire-0.1.0-1.x86_64.rpm` of a program without symbols.
pub fn make(
    release: &Release,
    parts: &Parts,
    program: &Path,
    folder: &Path,
    packing: Packing,
) -> Result<()> {
    let Parts { source, third_party, .. } = parts;
    // Every version of rpm reads gzip.
    let payload = match packing {
        Packing::Small => "w9.gzdio",
        Packing::Fast => "w1.gzdio",
    };
    let top = folder.join("work/rpm");
    fs::create_dir_all(&top)?;
    let define = |name: &str, value: &Path| format!("{name} {}", value.display());
    let mut build = Command::new("rpmbuild");
    build.arg("-bb").env("SOURCE_DATE_EPOCH", &release.epoch).env("LC_ALL", "C.UTF-8");
    let sources = source.parent().context("an archive lies in a folder")?;
    for definition in [
        define("_topdir", &top),
        define("_sourcedir", sources),
        define("_rpmdir", &top.join("made")),
        define("program", program),
        define("third_party", third_party),
        format!("release_version {}", release.version),
        format!("_binary_payload {payload}"),
    ] {
        build.arg("--define").arg(definition);
    }
    build.arg(
        top.parent().context("work")?.join(release.name()).join("packaging/rpm/drumfire.spec"),
    );
    tool(&mut build)?;
    let made = top.join("made").join(std::env::consts::ARCH);
    for name in super::names(&made)? {
        fs::rename(made.join(&name), folder.join(&name))?;
    }
    Ok(())
}
