//! What can be wrong with a network, or with what was asked of it.

/// Why a network was refused or could not be solved. The message names the place and the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// A value outside its range.
    #[error("{place}: {problem}")]
    Invalid {
        /// Which station, class, step or key.
        place: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// Open classes ask more of a station than it can do.
    #[error("station '{station}' is asked for {utilisation:.3} of what it can do: lower the rate")]
    Overload {
        /// Name of the station.
        station: String,
        /// Offered work over capacity, at least 1.
        utilisation: f64,
    },
    /// Queueing theory has no answer for a route that holds or forks.
    #[error("class '{class}' {what}: simulate it, or take its bounds")]
    NotProductForm {
        /// Name of the class.
        class: String,
        /// The part of the route or of the station that is beyond theory.
        what: &'static str,
    },
    /// More work or memory than a solver allows itself.
    #[error("{what} exceeds the limit of {limit}: {remedy}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit.
        limit: u64,
        /// What to do instead.
        remedy: &'static str,
    },
    /// An iteration did not settle.
    #[error("{what} did not converge within {iterations} iterations")]
    Diverged {
        /// Which iteration.
        what: &'static str,
        /// How many were tried.
        iterations: u32,
    },
    /// A profile that is no TOML, or has a key that is unknown or wrong.
    #[error("profile: {0}")]
    Profile(String),
}

impl ModelError {
    /// An [`ModelError::Invalid`].
    pub(crate) fn invalid(place: impl Into<String>, problem: impl Into<String>) -> ModelError {
        ModelError::Invalid { place: place.into(), problem: problem.into() }
    }
}
