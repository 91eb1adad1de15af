//! Programs without symbols, and their symbols and line tables in a file apart.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::release::Release;
use super::tool;

/// Copies a program without symbols into a folder.
pub fn strip(program: &Path, folder: &Path) -> Result<PathBuf> {
    let stripped = folder.join("drumfire");
    tool(Command::new("objcopy").arg("--strip-all").arg(program).arg(&stripped))?;
    Ok(stripped)
}

/// Copies a program without symbols below `work` of the folder and writes its symbols to
/// `drumfire-0.1.0-TARGET.debug.xz`. A debugger finds them by their name, in the program's
/// folder or below `/usr/lib/debug`.
pub fn split(program: &Path, target: &str, release: &Release, folder: &Path) -> Result<PathBuf> {
    let place = folder.join("work").join(target);
    std::fs::create_dir_all(&place)?;
    let stripped = place.join("drumfire");
    let debug = format!("{}-{target}.debug", release.name());
    let objcopy = || {
        let mut command = Command::new("objcopy");
        command.current_dir(&place);
        command
    };
    tool(
        objcopy().args(["--only-keep-debug", "--compress-debug-sections"]).arg(program).arg(&debug),
    )?;
    let link = format!("--add-gnu-debuglink={debug}");
    tool(objcopy().args(["--strip-all", &link]).arg(program).arg(&stripped))?;
    tool(Command::new("mv").arg(place.join(&debug)).arg(folder))?;
    tool(Command::new("xz").args(["-T1", "-1", "-f"]).arg(folder.join(&debug)))?;
    Ok(stripped)
}
