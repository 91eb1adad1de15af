//! The logs that a job of fio wants beside its result, under fio's names.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use load::spec::JobSpec;
use stats::RunResult;

use crate::exit::UsageError;
use crate::folder;

/// Refuses logs in folders that are not there: at the end of a run it is too late.
pub fn check(job: &JobSpec) -> Result<(), UsageError> {
    let groups = job.steps.iter().flat_map(|step| &step.groups);
    for name in groups.flat_map(|group| group.logs.names()) {
        let folder = Path::new(name).parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            let folder = folder.display();
            let why = format!("a log is to be {name}_…: make the folder {folder}, or name another");
            return Err(UsageError(why));
        }
    }
    Ok(())
}

/// Writes the logs of all steps so far.
pub fn write(steps: &[RunResult]) -> Result<()> {
    for (path, text) in report::fio::logs(steps) {
        folder::write_file(Path::new(&path), |out| Ok(out.write_all(text.as_bytes())?))?;
    }
    Ok(())
}
