//! Fit of a profile to results of sweeps: the times of drive, link and cores that explain them.
//!
//! | sweep | determines |
//! |---|---|
//! | outstanding 1, 2, 4 … | times of medium and controller, width of the medium |
//! | sizes | time of the link for a byte |
//! | reads and writes | both for each direction |
//! | drives | their shared resource: the link |
//! | cores | time of the CPU, its contention and coherence |
//!
//! Means are fitted, by queueing theory; the variance of times is that of I/Os at depth 1. Every
//! third point is held out, and its error is reported together with that of the fit.

mod fit;
mod point;

use model::device::Profile;
use serde::Serialize;

use crate::verify::Tag;
use catalogue::Kind;

pub use fit::calibrate;
pub use point::Point;

/// Minimum number of points: four to fit and two to hold out.
pub const POINTS_MIN: usize = 6;
/// Maximum number of points; more would take minutes and add nothing.
pub const POINTS_MAX: usize = 2000;

/// The result of a fit.
#[derive(Clone, Debug)]
pub struct Calibrated {
    /// The profile.
    pub profile: Profile,
    /// The fitted parameters.
    pub parameters: Vec<Fitted>,
    /// Every point with its error.
    pub rows: Vec<Row>,
    /// Remarks for the reader.
    pub remarks: Vec<String>,
}

/// A parameter of a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// Name, such as "medium.read.each_s".
    pub name: &'static str,
    /// Value in the unit of its name.
    pub value: f64,
    /// Kind: `fit` to the runs; that of the catalogue if the runs do not determine the parameter;
    /// `guess` if neither does.
    pub kind: Kind,
    /// 95 % confidence interval at the fitted width of the medium; `None` if undetermined.
    pub interval: Option<(f64, f64)>,
    /// The catalogue's value.
    pub prior: Option<Prior>,
}

/// Prior of a parameter, in the unit of its name.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Prior {
    /// Value of the catalogue's figure.
    pub mean: f64,
    /// Standard deviation: the figure's interval is two of them on either side.
    pub error: f64,
    /// Kind of the figure.
    pub kind: Kind,
}

/// A point and the profile's value for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The run.
    pub point: Point,
    /// `PRED` if the point was held out, so that its error is that of a prediction; otherwise
    /// `FIT`.
    pub tag: Tag,
    /// IOPS of the profile.
    pub model_iops: f64,
    /// (model − measured) / measured.
    pub error: f64,
}

/// Reason why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// Result that cannot be used.
    #[error("{name}: {reason}")]
    Run {
        /// Name of the result.
        name: String,
        /// Reason and remedy.
        reason: String,
    },
    /// Points that do not determine a profile.
    #[error("{0}")]
    Points(String),
    /// Profile tried by the fit that the model refused.
    #[error(transparent)]
    Model(#[from] model::ModelError),
}
