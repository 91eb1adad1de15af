//! Joining the ranks that a launcher started.

use crate::{Fleet, Launched};

/// Whether this build has an MPI library.
pub const HAS_MPI: bool = cfg!(feature = "mpi");

/// Why a rank cannot join.
#[derive(Debug)]
pub enum JoinError {
    /// The build has no MPI library.
    Without(Launched),
    /// The MPI library refuses.
    Mpi(String),
    /// The launcher started other ranks than the library sees: it is of another MPI.
    OtherMpi {
        /// Ranks that the library sees.
        size: i32,
        /// Start of this process: by a launcher, or alone.
        launched: Launched,
    },
    /// A thread could not be started.
    Thread(std::io::Error),
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JoinError::Without(launched) => {
                write!(f, "{} started {} processes: no MPI here", launched.by, launched.size)
            }
            JoinError::Mpi(error) => write!(f, "MPI: {error}"),
            JoinError::OtherMpi { size, launched } => write!(
                f,
                "{} started {} processes, and the MPI library of this program sees {size}: use the \
                 launcher of the MPI that the program was built with",
                launched.by, launched.size
            ),
            JoinError::Thread(error) => write!(f, "cannot start a thread: {error}"),
        }
    }
}

impl std::error::Error for JoinError {}

impl From<std::io::Error> for JoinError {
    fn from(error: std::io::Error) -> JoinError {
        JoinError::Thread(error)
    }
}

/// Joins the ranks that a launcher started. Only the calling thread may use the result.
///
/// # Errors
///
/// The build has no MPI; the library refuses, or it belongs to another launcher.
pub fn join(launched: Launched) -> Result<Box<dyn Fleet>, JoinError> {
    #[cfg(feature = "mpi")]
    return crate::mpi::Mpi::join(launched);
    #[cfg(not(feature = "mpi"))]
    Err(JoinError::Without(launched))
}
