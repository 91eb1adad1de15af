//! Measures beside the peers: `cargo xtask perf`.

use anyhow::{Result, bail};

/// Measures and writes a page.
pub fn main(_args: &[String]) -> Result<bool> {
    bail!("not yet")
}
