//! Bounded least squares: finds the parameters of a model from what was measured.

use crate::ModelError;

/// A parameter to be fitted.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// For messages.
    pub name: String,
    /// First guess, between the bounds.
    pub start: f64,
    /// Lowest value allowed.
    pub low: f64,
    /// Highest value allowed.
    pub high: f64,
    /// What was known before: mean and standard deviation, in the units of the parameter.
    pub prior: Option<(f64, f64)>,
}

/// The outcome of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The parameters, in the order given.
    pub values: Vec<f64>,
    /// Their standard errors; infinite for a parameter that the data say nothing about, 0 for one
    /// that stands at a bound.
    pub errors: Vec<f64>,
    /// Root mean square of the residuals of the data (without the priors).
    pub rms: f64,
    /// Iterations used.
    pub iterations: u32,
}

/// Minimises the squares of `residuals` within the bounds (Levenberg–Marquardt, projected).
///
/// `residuals` writes one number per measured point, best relative: (model − measured) / measured.
///
/// # Errors
///
/// [`ModelError::Invalid`] for bounds, priors or residuals that are no numbers,
/// [`ModelError::Diverged`] when it does not settle.
pub fn least_squares(
    _parameters: &[Parameter],
    _residuals: impl FnMut(&[f64], &mut Vec<f64>),
) -> Result<Fit, ModelError> {
    todo!()
}
