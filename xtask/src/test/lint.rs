//! Clippy while the tests are built: its driver is rustc with more lints, so no crate is compiled
//! twice. Every warning is a failure, as with `-D warnings`, but the tests run anyway.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::Value;

use super::tally::Tally;
use crate::process::{self, Show};
use crate::say;

/// Time limit of `rustc --print sysroot`.
const ASK_LIMIT: Duration = Duration::from_secs(120);

/// Environment variable that makes cargo compile the crates of the workspace with Clippy.
pub type Variable = (&'static str, PathBuf);

/// The variable that makes Clippy the compiler; calls of cargo that share a target folder all need
/// the variable, or crates are rebuilt.
///
/// # Errors
///
/// Clippy is not installed.
pub fn variable() -> Result<Variable> {
    let mut rustc = Command::new("rustc");
    let said = process::run(rustc.args(["--print", "sysroot"]), ASK_LIMIT, Show::Nothing)?;
    let driver = Path::new(said.stdout.trim()).join("bin/clippy-driver");
    ensure!(driver.is_file(), "clippy is not installed: rustup component add clippy");
    Ok(("RUSTC_WORKSPACE_WRAPPER", driver))
}

/// Warnings of the compiler, each once.
#[derive(Debug, Default)]
pub struct Warnings(BTreeSet<String>);

impl Warnings {
    /// Collects and prints the warnings in cargo's JSON messages. A library built for its tests,
    /// too, repeats its warnings.
    pub fn add(&mut self, stdout: &str) {
        for message in stdout.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let message = &message["message"];
            // A message without a span only counts the warnings.
            let places = message["spans"].as_array().is_some_and(|spans| !spans.is_empty());
            let Some(text) = message["rendered"].as_str() else { continue };
            if !places || self.0.insert(text.to_owned()) {
                say::lines(text);
            }
        }
    }

    /// A failure if there are any warnings.
    pub fn finish(self) -> Tally {
        let first = self.0.first().and_then(|text| text.lines().next());
        let count = self.0.len();
        first.map_or_else(Tally::default, |first| {
            Tally::failure(format!("clippy: {count} warnings, one of them: {first}"))
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn warnings_are_counted_once_and_what_counts_them_is_not() {
        let said = |text: &str, places: usize| {
            let spans = vec![0; places];
            let message = serde_json::json!({ "rendered": text, "spans": spans });
            serde_json::json!({ "reason": "compiler-message", "message": message }).to_string()
        };
        let artifact = serde_json::json!({ "reason": "compiler-artifact" }).to_string();
        let mut warnings = Warnings::default();
        let said = [said("warning: a\n", 1), said("warning: a\n", 1), said("warning: b\n", 2)]
            .into_iter()
            .chain([said("warning: 2 warnings emitted\n", 0), artifact, "no JSON".to_owned()]);
        warnings.add(&said.collect::<Vec<_>>().join("\n"));
        assert_eq!(warnings.0.iter().collect::<Vec<_>>(), ["warning: a\n", "warning: b\n"]);
        assert_eq!(warnings.finish().failed, ["clippy: 2 warnings, one of them: warning: a"]);
        assert_eq!(Warnings::default().finish(), Tally::default());
    }

    #[test]
    fn the_driver_is_beside_the_compiler() {
        let (name, path) = variable().unwrap();
        assert!(name == "RUSTC_WORKSPACE_WRAPPER" && path.is_file(), "{path:?}");
    }
}
