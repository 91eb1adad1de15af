//! Schedules of faults: kind, affected I/Os, start and repetition.
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
//!
//! [cache]                       # a write cache; without it, writes go to the volume at once
//! size = "32m"                  # any of what it holds beyond that goes to the volume
//! lies = true                   # flushes and FUA are only acknowledged
//!
//! [[fault]]
//! verb = "power-cut"
//! after_s = 60                  # when the power is cut
//! for_s = 5                     # how long it is off; without it, until there is another schedule
//! survives = 0.5                # share of the blocks in the cache that are on the medium already
//! torn = false                  # a write in the cache survives whole or not at all
//! ```
//!
//! [`Verb`] describes the verbs.

use std::path::Path;

use block::Geometry;
use serde::Deserialize;

use super::rule::{Rule, Size, Verb};
use crate::watch::{in_one_line, read_short};

/// Maximum length of a schedule, in bytes.
pub(super) const TEXT_BYTES_MAX: u64 = 1 << 16;
/// Maximum number of faults of a schedule.
const RULES_MAX: usize = 64;

/// Default size of a write cache, in bytes: as in disks.
const CACHE_BYTES: u64 = 32 << 20;
/// Maximum size of a write cache, in bytes.
const CACHE_BYTES_MAX: u64 = 4 << 30;

/// Shipped schedules, by name.
const SHIPPED: [(&str, &str); 6] = [
    ("fail-slow", include_str!("../../faults/fail-slow.toml")),
    ("dying-ssd", include_str!("../../faults/dying-ssd.toml")),
    ("lying-cache", include_str!("../../faults/lying-cache.toml")),
    ("power-cut", include_str!("../../faults/power-cut.toml")),
    ("lost-writes", include_str!("../../faults/lost-writes.toml")),
    ("none", include_str!("../../faults/none.toml")),
];

/// The faults of a volume.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Schedule {
    /// Name of the schedule; one without faults needs none.
    #[serde(default)]
    pub(super) name: String,
    /// Device that the schedule imitates.
    #[serde(default)]
    pub(super) about: String,
    /// Seed of all random choices.
    #[serde(default)]
    pub(super) seed: u64,
    /// Write cache, if the schedule has one.
    #[serde(default)]
    pub(super) cache: Option<CacheRule>,
    /// Faults, at most 64. All of them apply to each I/O, in this order. A schedule without faults,
    /// such as an empty file, heals.
    #[serde(rename = "fault", default)]
    pub(super) rules: Vec<Rule>,
}

/// A write cache.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CacheRule {
    /// Size of the cache: 1 block to 4 GiB; 32 MiB by default.
    #[serde(default)]
    size: Option<Size>,
    /// Acknowledges flushes and FUA writes without making anything durable.
    #[serde(default)]
    pub(super) lies: bool,
}

impl CacheRule {
    /// Size of the cache in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.size.map_or(CACHE_BYTES, |size| size.0)
    }
}

impl Schedule {
    /// Loads the built-in schedule of this name, or that of a file.
    ///
    /// # Errors
    ///
    /// There is no such schedule, or it is invalid; with the remedy.
    pub(super) fn load(name: &str) -> Result<Schedule, String> {
        if let Some((_, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            return Schedule::parse(text);
        }
        let text = read_short(Path::new(name), TEXT_BYTES_MAX).map_err(|error| {
            let known: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
            format!("{error}; name a file or one of {}", known.join(", "))
        })?;
        Schedule::parse(&text)
    }

    /// Whether the schedule is built in, so that it has no file that could change.
    pub(super) fn is_shipped(name: &str) -> bool {
        SHIPPED.iter().any(|(shipped, _)| *shipped == name)
    }

    /// Checks the schedule against a volume's geometry.
    pub(super) fn fits(&self, geometry: &Geometry) -> Result<(), String> {
        if self.cache.is_some() && geometry.block_bytes < 512 {
            return Err("[cache] needs blocks of at least 512 bytes: remove block=1".to_owned());
        }
        let is_stale = self.rules.iter().any(|rule| rule.verb == Verb::Stale);
        if is_stale && geometry.block_bytes < 512 {
            return Err(
                "verb = 'stale' needs blocks of at least 512 bytes: remove block=1".to_owned()
            );
        }
        Ok(())
    }

    /// Parses a schedule.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub(super) fn parse(text: &str) -> Result<Schedule, String> {
        let mut schedule: Schedule =
            toml::from_str(text).map_err(|error| in_one_line(text, &error))?;
        if schedule.rules.len() > RULES_MAX {
            return Err(format!("{} faults: maximum {RULES_MAX}", schedule.rules.len()));
        }
        if schedule.name.is_empty() && schedule.rules.is_empty() && schedule.cache.is_none() {
            "no faults".clone_into(&mut schedule.name);
        }
        if schedule.name.is_empty() || schedule.name.chars().any(char::is_control) {
            return Err("name is missing: a short description of the schedule".to_owned());
        }
        if schedule
            .cache
            .as_ref()
            .is_some_and(|cache| !(1..=CACHE_BYTES_MAX).contains(&cache.bytes()))
        {
            return Err("cache: size: 1 to 4g".to_owned());
        }
        for (index, rule) in schedule.rules.iter().enumerate() {
            rule.check().map_err(|reason| format!("fault {}: {reason}", index + 1))?;
        }
        Ok(schedule)
    }
}
