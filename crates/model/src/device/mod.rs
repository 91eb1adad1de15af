//! Drives: the service times of an I/O, stage by stage, as a [`Profile`] in TOML, and as a
//! [`Machine`] in its caller's time.
//!
//! ```toml
//! name = "a drive on a shared link"
//! queue_depth = 32                 # more I/Os wait in front; without it there is no such limit
//!
//! [[stage]]
//! name = "medium"
//! servers = 10                     # or "infinite": nobody waits
//! read = { each_s = 65e-6 }
//! write = { each_s = 85e-6, per_byte_s = 1e-9 }
//! shape = { erlang = 4 }           # or "fixed", or "exponential", which is the default
//!
//! [[stage]]
//! name = "link"
//! servers = 1
//! shared = true                    # one for all drives; otherwise each drive has its own
//! read = { per_byte_s = 4e-9 }
//! write = { per_byte_s = 4e-9 }
//! ```
//!
//! A stage may have a time for flushes (`flush = { each_s = 2e-3 }`; by default that of a write of
//! no bytes), and a reserve of bytes that writes consume: fresh flash is fast until its erased
//! blocks run out, and slow during garbage collection.
//!
//! ```toml
//! reserve = { capacity = 8e9, low = 1e9, high = 2e9, refill_per_s = 50e6, slowdown = 3 }
//! ```
//!
//! A stage with one server may be a disk. The time of a read or write then also depends on the end
//! of the last access, and the head serves waiting I/Os by shortest access time first. The volume
//! spans the whole disk.
//!
//! ```toml
//! [stage.head]
//! rpm = 15000
//! bytes_per_s = 100e6              # under the head
//! settle_s = 0.2e-3                # to the next track
//! average_seek_s = 2.9e-3
//! full_seek_s = 6e-3               # from one end to the other
//! write_settle_s = 0.4e-3          # more for a seek before a write
//! ahead_bytes = 8e6                # what an idle head reads on into its buffer
//! ```
//!
//! A stage may follow the universal scalability law: `contention = 0.02, coherence = 0.0`. Fitted
//! profiles have a table `[calibration]` that names the measurements. Their percentiles are valid
//! only with `scatter = true` in it.

use serde::{Deserialize, Serialize};

mod check;
mod machine;
mod network;
mod stage;

pub use machine::{Machine, Way, Ways};
pub use stage::{Cost, Infinite, Scatter, Stage, Width};

/// Shipped profiles, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("x25-m", include_str!("../../profiles/x25-m.toml")),
    ("sas-15k", include_str!("../../profiles/sas-15k.toml")),
    ("disk-15k", include_str!("../../profiles/disk-15k.toml")),
];

/// Returns the names of the shipped profiles.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Service times of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Name of the profile.
    pub name: String,
    /// Source of the profile's figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Maximum number of I/Os in the drive, 1 to 65536; further I/Os wait in front of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// Calibration of the profile; `None` if its figures were not fitted to measurements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Stages in the order of an I/O's path, 1 to 16.
    #[serde(rename = "stage")]
    pub stages: Vec<Stage>,
}

/// Median error on held-out runs, in percent, beyond which a fit is unusable.
pub const HELD_OUT_ERROR_PERCENT_MAX: f64 = 15.0;

/// Calibration of a profile by measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The measured runs.
    pub source: String,
    /// Number of fitted points.
    pub fitted: u32,
    /// Median error of the fitted points, in percent.
    pub fit_error_percent: f64,
    /// Number of held-out points.
    pub held_out: u32,
    /// Median error of the held-out points, in percent.
    pub held_out_error_percent: f64,
    /// True if the distribution of times was measured as well: percentiles are valid.
    pub scatter: bool,
}

impl Profile {
    /// Returns the shipped profile of this name, if there is one.
    ///
    /// # Panics
    ///
    /// If the shipped profile is invalid, which a test of this crate rules out.
    pub fn shipped(name: &str) -> Option<Profile> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Profile::parse(text).expect("a test has read it"))
    }

    /// Checks whether the fit is good enough, by its error on held-out runs.
    ///
    /// # Errors
    ///
    /// A message if the median error exceeds [`HELD_OUT_ERROR_PERCENT_MAX`].
    pub fn usable(&self) -> Result<(), String> {
        match &self.calibration {
            Some(fitted) if fitted.held_out_error_percent > HELD_OUT_ERROR_PERCENT_MAX => {
                Err(format!(
                    "profile {} is not usable: its fit is off by {:.0} % on runs that it did not \
                     see, {HELD_OUT_ERROR_PERCENT_MAX:.0} % at most are allowed; sweep again on a \
                     quiet host, longer and with more sizes",
                    self.name, fitted.held_out_error_percent
                ))
            }
            _ => Ok(()),
        }
    }

    /// Returns the source of the profile's percentiles; `None` if they were not measured.
    pub fn scatter_is_known(&self) -> Option<&str> {
        self.calibration.as_ref().filter(|fitted| fitted.scatter).map(|fitted| &*fitted.source)
    }

    /// Parses and checks a profile.
    ///
    /// # Errors
    ///
    /// A message with the reason and the line or key.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    /// Formats the profile as TOML; [`parse`](Self::parse) returns the same profile.
    ///
    /// # Errors
    ///
    /// A message if [`check`](Self::check) refuses the profile.
    pub fn print(&self) -> Result<String, String> {
        self.check()?;
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod test;
