//! Errors of networks, solvers and simulations.

/// Error of a network, a solver or a simulation. The message names the station or class and the
/// remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A value is outside its range.
    #[error("{place}: {problem}")]
    Invalid {
        /// Station, class, step or key of the value.
        place: String,
        /// Error of the value, with its valid range.
        problem: String,
    },
    /// Open classes overload a station.
    #[error("station '{station}' has a utilisation of {utilisation:.3}, maximum 1: lower the rate")]
    Overload {
        /// Name of the station.
        station: String,
        /// Offered work over capacity, at least 1.
        utilisation: f64,
    },
    /// A route that holds or forks has no product form.
    #[error("class '{class}' {what}: simulate it, or take its bounds")]
    NotProductForm {
        /// Name of the class.
        class: String,
        /// Step or station without product form.
        what: &'static str,
    },
    /// A solver's limit of work or memory is exceeded.
    #[error("{what} exceeds the limit of {limit}: {remedy}")]
    TooLarge {
        /// Quantity that is too large.
        what: String,
        /// Limit of the quantity.
        limit: u64,
        /// Alternative for the caller.
        remedy: &'static str,
    },
    /// An iteration did not converge.
    #[error("{what} did not converge within {iterations} iterations")]
    Diverged {
        /// Name of the iteration.
        what: &'static str,
        /// Maximum number of steps.
        iterations: u32,
    },
}

impl ModelError {
    /// Returns a [`ModelError::Invalid`].
    pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> ModelError {
        ModelError::Invalid { place: place.into(), problem: problem.into() }
    }
}
