//! A job file of fio's, run by ours and by the real fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::{Drumfire, Folder, run};

/// Time limit of a job, which takes seconds; a busy machine may take longer.
const LIMIT: Duration = Duration::from_secs(300);

/// A folder with a `job.fio` of this text.
pub fn with(text: &str) -> Folder {
    let folder = Folder::new();
    folder.file("job.fio", text.as_bytes());
    folder
}

/// Runs the job file with our program, and returns its result in fio's format.
pub fn ours(drumfire: &Drumfire, folder: &Path) -> Value {
    drumfire.run(folder, "run job.fio --out out", LIMIT).ok();
    drumfire.run(folder, "report out --as fio", LIMIT).ok().json()
}

/// Runs the job file with fio, and returns its output.
pub fn theirs(fio: &Path, folder: &Path) -> Value {
    let mut command = Command::new(fio);
    command.args(["job.fio", "--output-format=json"]).current_dir(folder);
    run(&mut command, LIMIT).ok().json()
}
