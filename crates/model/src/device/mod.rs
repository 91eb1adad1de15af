//! A drive: what it takes for an I/O, stage by stage, as a [`Profile`] in TOML, and as a
//! [`Machine`] in the time of its caller.
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
//! A stage may charge for a flush (`flush = { each_s = 2e-3 }`; otherwise it takes as long as a
//! write of no bytes), and have a reserve of bytes that writes use up: fresh flash is fast until
//! its erased blocks run out, and slow while it makes new ones.
//!
//! ```toml
//! reserve = { capacity = 8e9, low = 1e9, high = 2e9, refill_per_s = 50e6, slowdown = 3 }
//! ```
//!
//! A stage with one server may be a disk. What it takes for a read or a write depends then on where
//! the last one ended, beside what the stage charges anyway, and of several that wait the one comes
//! first that the head can begin with soonest. The whole volume is the whole disk.
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
//! A stage may lose by the universal scalability law: `contention = 0.02, coherence = 0.0`. The
//! table `[calibration]` stands in profiles that were fitted to measurements and says to which.
//! Percentiles mean something with `scatter = true` in it, and nothing without.

use serde::{Deserialize, Serialize};

mod check;
mod machine;
mod network;
mod stage;

pub use machine::{Machine, Way, Ways};
pub use stage::{Cost, Infinite, Scatter, Stage, Width};

/// Profiles that come along, by name.
const SHIPPED: [(&str, &str); 3] = [
    ("x25-m", include_str!("../../profiles/x25-m.toml")),
    ("sas-15k", include_str!("../../profiles/sas-15k.toml")),
    ("disk-15k", include_str!("../../profiles/disk-15k.toml")),
];

/// The names of the profiles that come along.
pub fn shipped_names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// What a drive takes for an I/O.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// What it is called.
    pub name: String,
    /// Where its figures come from, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Most I/Os in the drive at once, 1 to 65536; further ones wait in front.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<u32>,
    /// What it was fitted to; absent in what nobody has measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
    /// The way of an I/O, 1 to 16.
    #[serde(rename = "stage")]
    pub stages: Vec<Stage>,
}

/// Median error on held-out runs beyond which a fit predicts nothing, in percent.
pub const HELD_OUT_ERROR_PERCENT_MAX: f64 = 15.0;

/// How a profile was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// The runs.
    pub source: String,
    /// Points that it was fitted to.
    pub fitted: u32,
    /// Their median error, in percent.
    pub fit_error_percent: f64,
    /// Points that were held out.
    pub held_out: u32,
    /// Their median error, in percent.
    pub held_out_error_percent: f64,
    /// How times scatter was measured too, and percentiles mean something.
    pub scatter: bool,
}

impl Profile {
    /// The profile that comes along under this name; `None` if there is none.
    ///
    /// # Panics
    ///
    /// If it does not load, which a test of this crate rules out.
    pub fn shipped(name: &str) -> Option<Profile> {
        let (_, text) = SHIPPED.iter().find(|(shipped, _)| *shipped == name)?;
        Some(Profile::parse(text).expect("a test has read it"))
    }

    /// Whether a fit is good enough to answer with: its own held-out runs say.
    ///
    /// # Errors
    ///
    /// Why not, beyond [`HELD_OUT_ERROR_PERCENT_MAX`].
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

    /// What its percentiles rest on; `None` if on nothing that was measured.
    pub fn scatter_is_known(&self) -> Option<&str> {
        self.calibration.as_ref().filter(|fitted| fitted.scatter).map(|fitted| &*fitted.source)
    }

    /// Reads a profile.
    ///
    /// # Errors
    ///
    /// The reason, with line or key.
    pub fn parse(text: &str) -> Result<Profile, String> {
        let profile: Profile = toml::from_str(text).map_err(|error| error.to_string())?;
        profile.check()?;
        Ok(profile)
    }

    /// Writes it so that [`parse`](Self::parse) reads the same one.
    ///
    /// # Errors
    ///
    /// The reason, when [`check`](Self::check) refuses it.
    pub fn print(&self) -> Result<String, String> {
        self.check()?;
        toml::to_string(self).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod test;
