//! `--trace`: activity of each core of a run, as a file for Perfetto.

use std::path::PathBuf;

use anyhow::Result;
use job::spec::JobSpec;
use load::Recording;

use crate::args;
use crate::bench::Maker;
use crate::exit::UsageError;
use crate::folder::Place;
use crate::{folder, output};

/// Default name of the file in a run's folder.
const FILE: &str = "trace.json";
/// Maximum seconds of a recording: the memory holds only the end of longer ones.
const LONGEST_S: f64 = 3600.0;

/// Duration of the recording of the cores, and its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    seconds: f64,
    file: Option<PathBuf>,
}

/// `2s`, or `2s:FILE`.
pub fn parse(text: &str) -> Result<Traced, String> {
    let (time, file) = match text.split_once(':') {
        Some((_, "")) => return Err("a file name is missing after the colon".to_owned()),
        Some((time, file)) => (time, Some(PathBuf::from(file))),
        None => (text, None),
    };
    let seconds = args::seconds(time)?;
    if !(seconds > 0.0 && seconds <= LONGEST_S) {
        return Err(format!("'{time}': above 0 and at most an hour"));
    }
    Ok(Traced { seconds, file })
}

impl Traced {
    /// Refuses jobs without cores, and several runs for one file.
    pub fn check(&self, job: &JobSpec) -> Result<(), UsageError> {
        if Maker::of(job)? == Maker::Simulate {
            let why = "--trace records CPU cores, which a simulation does not have";
            return Err(UsageError(why.to_owned()));
        }
        let Some(file) = &self.file else { return Ok(()) };
        if job.steps.len() > 1 {
            let why = "--trace: each step writes a file in its folder: remove the file name";
            return Err(UsageError(why.to_owned()));
        }
        let above = file.parent().filter(|above| !above.as_os_str().is_empty());
        if file.is_dir() || above.is_some_and(|above| !above.is_dir()) {
            let why =
                format!("--trace: cannot write {}: its folder does not exist", file.display());
            return Err(UsageError(why));
        }
        Ok(())
    }

    /// Recording for one run.
    pub fn recording(&self) -> Recording {
        Recording::new(self.seconds)
    }

    /// Warning for readers of the result.
    pub fn warning(&self) -> String {
        let seconds = self.seconds;
        format!(
            "the activity of the cores was recorded for {seconds} s (--trace), which lowers the \
            rate a little"
        )
    }

    /// Writes the recording, and prints its path.
    pub fn keep(&self, recording: &Recording, place: &Place) -> Result<()> {
        let cores = recording.take();
        if cores.is_empty() {
            output::note("drumfire: --trace: the measured window did not start: no trace");
            return Ok(());
        }
        let path = self.file.clone().unwrap_or_else(|| place.now.join(FILE));
        folder::write_file(&path, |out| Ok(report::activity::write(&cores, out)?))?;
        let left_out: u64 = cores.iter().map(|core| core.left_out).sum();
        let left_out = match left_out {
            0 => String::new(),
            count => format!("; the {count} oldest slices were dropped"),
        };
        let path = self.file.clone().unwrap_or_else(|| place.home.join(FILE));
        let path = path.display();
        output::note(format_args!("drumfire: open {path} in https://ui.perfetto.dev{left_out}"));
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_time_and_a_file_may_be_told() {
        let traced =
            |seconds, file: Option<&str>| Traced { seconds, file: file.map(PathBuf::from) };
        assert_eq!(parse("2s"), Ok(traced(2.0, None)));
        assert_eq!(parse("500ms:a:b.json"), Ok(traced(0.5, Some("a:b.json"))));
        for wrong in ["", "0", "-1s", "2x", "2s:", "nan", "2h"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
