//! Schedules of faults: what goes wrong with which I/Os, from when on, and how often.
//!
//! ```toml
//! name = "a disk that gets slow and forgets a flush"
//! seed = 7                      # the same seed, the same choice of I/Os and blocks
//!
//! [[fault]]
//! verb = "slow"
//! op = ["read", "write"]        # or one word; without it, all that the verb can do something to
//! range = ["1g", "2g"]          # I/Os that touch it; without it, the whole volume
//! after_s = 10                  # counted from the first lane, or from when the file was changed
//! for_s = 2                     # without it, for good
//! every_s = 30                  # again and again
//! chance = 0.01                 # of each I/O; without it, each
//! count = 100                   # at most so many I/Os
//! add_s = [1.0, 2.0]            # seconds more, drawn evenly; or one number
//! factor = 10                   # times as long
//!
//! [[fault]]
//! verb = "error"
//! op = "flush"
//! fault = "medium"              # or "no-space", "read-only", "disconnected"
//! count = 1
//! sticky = true                 # once it has struck, it strikes always
//! ```
//!
//! What the verbs do stands at [`Verb`](super::rule::Verb).

use std::path::Path;

use serde::Deserialize;

use super::rule::Rule;

/// Longest text that is read, in bytes.
const TEXT_MAX: u64 = 1 << 16;
/// Most faults of a schedule.
const RULES_MAX: usize = 64;

/// Schedules that come along, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("fail-slow", include_str!("../../faults/fail-slow.toml")),
    ("dying-ssd", include_str!("../../faults/dying-ssd.toml")),
    ("lost-writes", include_str!("../../faults/lost-writes.toml")),
];

/// What goes wrong with a volume.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schedule {
    /// What it is called.
    pub(super) name: String,
    /// What it imitates, in words.
    #[serde(default)]
    pub(super) about: String,
    /// Seed of all chance in it.
    #[serde(default)]
    pub(super) seed: u64,
    /// The faults, 1 to 64. Each I/O is held against all of them, in this order.
    #[serde(rename = "fault")]
    pub(super) rules: Vec<Rule>,
}

impl Schedule {
    /// The schedule that comes along under this name, or that of a file.
    ///
    /// # Errors
    ///
    /// With the remedy, when there is none or it makes no sense.
    pub(super) fn load(name: &str) -> Result<Schedule, String> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Schedule::parse(text);
        }
        let text = read_short(Path::new(name)).map_err(|error| {
            let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!("{error}; name a file, or one of {}", known.join(", "))
        })?;
        Schedule::parse(&text)
    }

    /// Whether it comes along, so that no file of it can change.
    pub(super) fn is_shipped(name: &str) -> bool {
        SHIPPED.iter().any(|(shipped, _)| *shipped == name)
    }

    /// Reads a schedule.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub(super) fn parse(text: &str) -> Result<Schedule, String> {
        let schedule: Schedule = toml::from_str(text).map_err(|error| error.to_string())?;
        if !(1..=RULES_MAX).contains(&schedule.rules.len()) {
            return Err(format!("{} faults: 1 to {RULES_MAX}", schedule.rules.len()));
        }
        if schedule.name.is_empty() || schedule.name.chars().any(char::is_control) {
            return Err("name: say in words what it is".to_owned());
        }
        for (index, rule) in schedule.rules.iter().enumerate() {
            rule.check().map_err(|reason| format!("fault {}: {reason}", index + 1))?;
        }
        Ok(schedule)
    }
}

/// The text of a schedule's file.
pub(super) fn read_short(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    std::fs::File::open(path)?.take(TEXT_MAX).read_to_string(&mut text)?;
    Ok(text)
}
