//! Errors of networks, solvers and simulations.

/// Why a network is refused or not solved. The message names the place and the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A value outside its range.
    #[error("{place}: {problem}")]
    Invalid {
        /// The station, class, step or key.
        place: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Open classes overload a station.
    #[error("station '{station}' is asked for {utilisation:.3} of what it can do: lower the rate")]
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
        /// The step or station that has none.
        what: &'static str,
    },
    /// Beyond a solver's limit of work or memory.
    #[error("{what} exceeds the limit of {limit}: {remedy}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: u64,
        /// What to do instead.
        remedy: &'static str,
    },
    /// An iteration did not converge.
    #[error("{what} did not converge within {iterations} iterations")]
    Diverged {
        /// The iteration.
        what: &'static str,
        /// Its number of steps.
        iterations: u32,
    },
}

impl ModelError {
    /// An [`ModelError::Invalid`].
    pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> ModelError {
        ModelError::Invalid { place: place.into(), problem: problem.into() }
    }
}
