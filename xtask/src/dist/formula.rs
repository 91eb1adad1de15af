//! Homebrew's formula, with the address and the checksum of the source archive.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::release::Release;
use super::tool;
use crate::say::say;

/// Fills in `packaging/homebrew/drumfire.rb`. Without an address there is none to fill in.
pub fn make(
    release: &Release,
    tree: &Path,
    source: &Path,
    base_url: Option<&str>,
    folder: &Path,
) -> Result<()> {
    let Some(base_url) = base_url else {
        say!("no formula: it needs --base-url URL");
        return Ok(());
    };
    let sum = tool(Command::new("sha256sum").arg(source))?;
    let sum = sum.split(' ').next().context("sha256sum prints a sum")?;
    let template = fs::read_to_string(tree.join("packaging/homebrew/drumfire.rb"))?;
    fs::write(folder.join("drumfire.rb"), filled(&template, base_url, &release.version, sum))?;
    Ok(())
}

fn filled(template: &str, base_url: &str, version: &str, sum: &str) -> String {
    let filled = template.replace("@BASE_URL@", base_url).replace("@VERSION@", version);
    filled.replace("@SHA256@", sum)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn no_placeholder_is_left() {
        let path = crate::root().join("packaging/homebrew/drumfire.rb");
        let template = fs::read_to_string(path).unwrap();
        let formula = filled(&template, "https://example.org/r", "0.1.0", &"ab".repeat(32));
        assert!(formula.contains("url \"https://example.org/r/drumfire-0.1.0.tar.gz\""));
        assert!(formula.contains(&"ab".repeat(32)) && !formula.contains('@'), "{formula}");
    }
}
