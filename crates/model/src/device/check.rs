//! Checks of profiles.

use block::Op;

use super::stage::TIME_S_MAX;
use super::{Profile, Scatter, Stage, Width};
use crate::Class;

/// Maximum number of stages.
const STAGES_MAX: usize = 16;
/// Maximum number of servers of a stage.
const SERVERS_MAX: u32 = 4096;
/// Maximum queue depth of a drive.
const DEPTH_MAX: u32 = 65_536;
/// Minimum total time of an I/O, in seconds: at 0, simulated time would not advance.
pub(super) const TOTAL_S_MIN: f64 = 1e-9;

impl Profile {
    /// Checks all values of the profile.
    ///
    /// # Errors
    ///
    /// A message with the key and its range.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=STAGES_MAX).contains(&self.stages.len()) {
            return Err(format!("{} stages: 1 to {STAGES_MAX}", self.stages.len()));
        }
        if self.queue_depth.is_some_and(|depth| !(1..=DEPTH_MAX).contains(&depth)) {
            return Err(format!("queue_depth: 1 to {DEPTH_MAX}"));
        }
        let names = self.stages.iter().map(|stage| &stage.name).chain([&self.name]);
        if names.into_iter().any(|name| name.chars().any(char::is_control)) {
            return Err("a name with control characters: use letters".to_owned());
        }
        for (index, stage) in self.stages.iter().enumerate() {
            stage.check().map_err(|reason| format!("stage '{}': {reason}", stage.name))?;
            if self.stages[..index].iter().any(|other| other.name == stage.name) {
                return Err(format!("two stages are called '{}'", stage.name));
            }
        }
        for op in [Op::Read, Op::Write] {
            let total: f64 = self.stages.iter().map(|stage| stage.random_s(op, 512)).sum();
            if total < TOTAL_S_MIN {
                let word = if op == Op::Read { "read" } else { "write" };
                return Err(format!(
                    "a {word} takes {total} s: at least {TOTAL_S_MIN} s is needed"
                ));
            }
        }
        let first = Class::closed("a write", 1);
        let mut network = self.network(1);
        network.add_class(Class { route: self.route(1, 0, Op::Write, 512), ..first });
        network.check().map_err(|error| error.to_string())
    }
}

impl Stage {
    fn check(&self) -> Result<(), String> {
        if matches!(self.servers, Width::Count(count) if !(1..=SERVERS_MAX).contains(&count)) {
            return Err(format!("servers: 1 to {SERVERS_MAX}, or \"infinite\""));
        }
        for (key, value) in [("contention", self.contention), ("coherence", self.coherence)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(format!("{key} = {value}: 0 to 1"));
            }
        }
        let flush = self.flush.unwrap_or_default();
        for (key, cost) in [("read", self.read), ("write", self.write), ("flush", flush)] {
            for (part, value) in [("each_s", cost.each_s), ("per_byte_s", cost.per_byte_s)] {
                if !(0.0..=TIME_S_MAX).contains(&value) {
                    return Err(format!("{key}.{part} = {value}: 0 to {TIME_S_MAX} s"));
                }
            }
        }
        let is_alone = self.servers == Width::Count(1)
            && (self.contention, self.coherence) == (0.0, 0.0)
            && !self.shared;
        if self.head.is_some() && !is_alone {
            return Err("head: needs servers = 1, not shared, without contention".to_owned());
        }
        match self.shape {
            Scatter::Erlang(stages) if !(1..=1000).contains(&stages) => {
                Err(format!("erlang = {stages}: 1 to 1000"))
            }
            _ => Ok(()),
        }
    }
}
