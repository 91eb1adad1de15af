//! Findings on volumes that a check does not examine: the check does not apply, or nothing is
//! known.

use stats::Verdict;
use stats::verdict::Finding;
use volume::{Ground, Volume};

use super::Witness;
use super::seen::Seen;

impl Seen {
    /// Returns that a check does not apply to the volume, and why.
    pub(super) fn unasked_for(&self, why: &str) -> Finding {
        (Verdict::DoesNotApply, format!("{}: {why}", self.name))
    }

    /// Returns that the answer to a check is unknown for the volume, and why.
    pub(super) fn untold(&self, why: &str) -> Finding {
        (Verdict::Unknown, format!("{}: {why}", self.name))
    }

    /// A file in memory.
    pub(super) fn is_in_memory(&self) -> bool {
        self.file().is_some_and(|file| file.stack.memory().is_some())
    }
}

/// Whether any part of a volume is behind a connection.
pub(super) fn any_is_remote(volume: &dyn Volume) -> bool {
    let below = volume.below();
    volume.transport() != "local" || below.into_iter().any(any_is_remote)
}

pub(super) fn all_are_remote(volume: &dyn Volume) -> bool {
    let below = volume.below();
    match below.is_empty() {
        true => volume.transport() != "local",
        false => below.into_iter().all(all_are_remote),
    }
}

impl Witness {
    /// Returns the finding on each volume that is not examined: whether it may be on a device of
    /// this host.
    pub(super) fn asides(&self, is_looked_at: impl Fn(&Seen) -> bool) -> Vec<Finding> {
        let others = self.volumes.iter().filter(|seen| !is_looked_at(seen));
        others.map(|seen| self.aside(seen)).collect()
    }

    pub(super) fn aside(&self, seen: &Seen) -> Finding {
        let is_target = matches!(seen.ground, Ground::Target(_));
        let is_remote = is_target || all_are_remote(&*seen.volume);
        match &seen.ground {
            Ground::Nothing => seen.unasked_for("stores nothing"),
            Ground::Memory => seen.unasked_for("memory of this process"),
            Ground::File(_) if seen.is_in_memory() => seen.unasked_for("in memory, without a disk"),
            Ground::File(_) => seen.untold("its disk is not known"),
            _ if seen.in_target_memory() => seen.unasked_for("memory of the target"),
            _ if is_remote && self.has_targets => {
                seen.untold("storage below its target, in this process, is not examined")
            }
            _ if is_remote => seen.unasked_for("remote, not a device of this host"),
            _ => seen.untold("its storage is not known"),
        }
    }
}
