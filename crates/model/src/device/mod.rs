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
//! A stage with one server may be a disk. The time of a read or write then also depends on where
//! the last one ended, and the head serves waiting I/Os by shortest access time first. The volume
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

/// Names of the shipped profiles.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Service times of a drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// Source of its figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Maximum number of I/Os in the drive, 1 to 65536; further ones wait in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// How it was fitted; `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// Stages in the order of an I/O's path, 1 to 16.
    #[serde(rename = "stage")]
    pub stages: Vec<Stage>,
}

/// Median error on held-out runs, in percent, beyond which a fit is unusable.
pub const HELD_OUT_ERROR_PERCENT_MAX: f64 = 15.0;

/// How a profile was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The measured runs.
    pub source: String,
    /// Number of points fitted.
    pub fitted: u32,
    /// Their median error, in percent.
    pub fit_error_percent: f64,
    /// Number of points held out.
    pub held_out: u32,
    /// Their median error, in percent.
    pub held_out_error_percent: f64,
    /// The scatter of times was measured, too: percentiles are valid.
    pub scatter: bool,
}

impl Profile {
    /// The shipped profile of this name, if there is one.
    ///
    /// # Panics
    ///
    /// If it is invalid, which a test of this crate rules out.
    pub fn shipped(name: &str) -> Option<Profile> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Profile::parse(text).expect("a test has read it"))
    }

    /// Whether the fit is good enough, by its held-out runs.
    ///
    /// # Errors
    ///
    /// Beyond [`HELD_OUT_ERROR_PERCENT_MAX`].
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

    /// The source of its percentiles; `None` if not measured.
    pub fn scatter_is_known(&self) -> Option<&str> {
        self.calibration.as_ref().filter(|fitted| fitted.scatter).map(|fitted| &*fitted.source)
    }

    /// Parses a profile.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    /// Prints it so that [`parse`](Self::parse) reads the same one.
    ///
    /// # Errors
    ///
    /// [`check`](Self::check) refuses it.
    pub fn print(&self) -> Result<String, String> {
        self.check()?;
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod test;
