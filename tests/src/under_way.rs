//! Runs that are certainly in flight: measured for a second, with more to come.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::Running;

/// Time limit: a loaded machine takes longer.
const LIMIT: Duration = Duration::from_secs(300);

/// Starts a run of ours, and returns when its first measured second is over.
pub fn under_way(command: &mut Command) -> Running {
    let folder = command.get_current_dir().expect("a run has a folder").to_owned();
    let name = format!("under-way-{}.jsonl", crate::free_port());
    let mut running = Running::start(command.args(["--json-lines", &name]));
    await_second(&mut running, &folder.join(name));
    running
}

/// Waits until a run has written its first measured second as a JSON line to this file.
pub fn await_second(running: &mut Running, lines: &Path) {
    running.await_that(LIMIT, |_| {
        let text = std::fs::read_to_string(lines).ok()?;
        let whole = text.rsplit_once('\n')?.0;
        let measured = |line: &str| line.contains(r#""phase":"run""#);
        whole.lines().any(measured).then_some(())
    });
}
