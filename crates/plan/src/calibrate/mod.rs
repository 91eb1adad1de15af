//! From results of sweeps to a profile: which times of a drive, a link and cores explain them.
//!
//! | sweep | tells |
//! |---|---|
//! | outstanding 1, 2, 4 … | times of medium and controller, how wide the medium is |
//! | sizes | time of the link for a byte |
//! | reads and writes | both for either direction |
//! | drives | what they share: the link |
//! | cores | time of the processor, its contention and coherence |
//!
//! Means decide, by queueing theory; the scatter of times is that of lone I/Os. Every third point
//! is held out, and its error stands beside that of the fit.

mod fit;
mod point;

use model::device::Profile;
use serde::Serialize;

use crate::verify::Tag;
use catalogue::Kind;

pub use fit::calibrate;
pub use point::Point;

/// Fewest points: four to fit and two to hold out.
pub const POINTS_MIN: usize = 6;
/// Most points; more would take minutes and say nothing new.
pub const POINTS_MAX: usize = 2000;

/// What a fit came to.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The profile.
    pub profile: Profile,
    /// What was fitted.
    pub parameters: Vec<Fitted>,
    /// Every point with its error.
    pub rows: Vec<Row>,
    /// What a reader should know.
    pub remarks: Vec<String>,
}

/// A parameter of a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// As "medium.read.each_s".
    pub name: &'static str,
    /// In the unit of its name.
    pub value: f64,
    /// How it is known: `fit` by the runs; as the catalogue knows it where the runs say nothing;
    /// `guess` where neither does.
    pub kind: Kind,
    /// Its 95 % interval, with the width of the medium as it is; `None` if nothing tells it.
    pub interval: Option<(f64, f64)>,
    /// What the catalogue says.
    pub prior: Option<Prior>,
}

/// What is believed of a parameter before any run, in the unit of its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prior {
    /// The value of the catalogue's figure.
    pub mean: f64,
    /// Standard deviation: the figure's interval is two of them to either side.
    pub error: f64,
    /// How the figure is known.
    pub kind: Kind,
}

/// A point and what the profile says about it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was run.
    pub point: Point,
    /// `PRED` if it was held out, so that its error is that of a prediction; otherwise `FIT`.
    pub tag: Tag,
    /// I/Os per second by the profile.
    pub model_iops: f64,
    /// (model − measured) / measured.
    pub error: f64,
}

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// A result that says nothing about a drive.
    #[error("{name}: {reason}")]
    Run {
        /// Which.
        name: String,
        /// Why, and what would.
        reason: String,
    },
    /// All together say too little.
    #[error("{0}")]
    Points(String),
    /// The model refused what the fit tried.
    #[error(transparent)]
    Model(#[from] model::ModelError),
}
