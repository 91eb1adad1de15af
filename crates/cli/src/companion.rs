//! Child processes of this program: they end with the program, however that ends. Without this a
//! `kill -9` of a scenario would leave its targets to serve for ever.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, test_kill_process};

/// The number of the process to end with.
pub const VARIABLE: &str = "DRUMFIRE_COMPANION_OF";

/// Requests from the kernel that this process ends with the one that started it, if that is named.
/// `false` if that process has already ended.
pub fn follow() -> bool {
    let named = std::env::var(VARIABLE).ok();
    let Some(parent) = named.and_then(|text| Pid::from_raw(text.parse().ok()?)) else {
        return true;
    };
    if getppid() == Some(parent) {
        // If refused, an orderly end still reaches this process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    // A process in between, such as a script that a job runs, passes the variable on: the named
    // process still exists.
    getppid() == Some(parent) || test_kill_process(parent).is_ok()
}
