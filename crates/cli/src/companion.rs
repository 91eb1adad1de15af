//! Processes that this program starts for itself: they end with it, however it ends. Without this a
//! `kill -9` of a scenario would leave its targets to serve for ever.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal, test_kill_process};

/// The number of the process to end with.
pub const VARIABLE: &str = "DRUMFIRE_COMPANION_OF";

/// Asks the kernel to end this process with the one that started it, if that is named. `false` when
/// that one has gone already.
pub fn follow() -> bool {
    let named = std::env::var(VARIABLE).ok();
    let Some(parent) = named.and_then(|text| Pid::from_raw(text.parse().ok()?)) else {
        return true;
    };
    if getppid() == Some(parent) {
        // If refused, an orderly end still reaches this process.
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    // Something between, as a script that a job runs, has it from its parent: that one is there.
    getppid() == Some(parent) || test_kill_process(parent).is_ok()
}
