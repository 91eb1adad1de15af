//! Job files: what a run's folder keeps so that the run can be repeated.

use std::path::Path;

use anyhow::{Context, Result};
use load::Access;
use serde::Deserialize;

use crate::args::Run;
use crate::exit::UsageError;

/// What is to be run, from the command line or from a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobFile {
    /// The command that the file came from; only for people.
    #[serde(default, rename = "command")]
    _command: String,
    /// A volume for each worker.
    pub volumes: Vec<String>,
    /// What each does.
    pub access: Access,
    /// I/Os that each keeps under way.
    pub outstanding: u32,
    /// Length of the measured window.
    pub seconds: f64,
    /// Time before it.
    pub ramp_seconds: f64,
    /// Decides every random choice.
    pub seed: u64,
    /// Compare every read.
    #[serde(default)]
    pub verify: bool,
}

impl JobFile {
    /// The job that the command line asks for: that of a file, if the one thing named is one, or
    /// that of its flags.
    pub fn of(run: &Run) -> Result<JobFile> {
        if let [only] = &run.volumes[..]
            && only.ends_with(".toml")
            && !only.starts_with("file:")
        {
            return JobFile::read(Path::new(only));
        }
        let each = |uri: &String| std::iter::repeat_n(uri.clone(), run.workers as usize);
        Ok(JobFile {
            _command: String::new(),
            volumes: run.volumes.iter().flat_map(each).collect(),
            access: run.drive.access()?,
            outstanding: run.drive.outstanding,
            seconds: run.drive.seconds,
            ramp_seconds: run.drive.ramp,
            seed: run.drive.seed,
            verify: run.verify,
        })
    }

    fn read(path: &Path) -> Result<JobFile> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        // The parser's message names line and column and shows the line.
        let job = toml::from_str(&text).map_err(|error| UsageError(error.to_string()));
        job.with_context(|| path.display().to_string())
    }
}

/// The command line of this process, as a shell would take it.
pub fn command() -> String {
    let plain =
        |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c));
    let quoted = |word: String| match plain(&word) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words = std::env::args().skip(1).map(quoted);
    std::iter::once("drumfire".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_what_a_run_keeps_and_names_what_it_does_not_know() {
        let text = "command = 'x'\nvolumes = ['null:1t']\noutstanding = 3\nseconds = 1.0\n\
            ramp_seconds = 0.0\nseed = 9\n[access]\nsize_bytes = 512\nread_percent = 70.0\n\
            random_percent = 100.0\n";
        let job: JobFile = toml::from_str(text).unwrap();
        assert_eq!((job.volumes.len(), job.outstanding, job.seed), (1, 3, 9));
        assert!(!job.verify);
        let wrong = text.replace("outstanding", "outstandin");
        let error = toml::from_str::<JobFile>(&wrong).unwrap_err().to_string();
        assert!(error.contains("line 3") && error.contains("outstandin"), "{error}");
    }
}
