//! Exit codes, on which scripts rely.

use std::fmt::Display;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

use rustix::io::Errno;
use stats::{RunResult, Verdict};

/// The meaning of an exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done.
    Good,
    /// 1: failure.
    Failed,
    /// 2: the arguments make no sense.
    Usage,
    /// 3: an honesty check failed, and `--strict` was given.
    Dishonest,
    /// 4: a requested bound is missed, or a claim cannot be met.
    Missed,
    /// 5: data miscompare.
    Mismatch,
    /// 6: the result is partial.
    Partial,
    /// 130: interrupted.
    Interrupted,
    /// fio's exit code: the number of failed jobs, 1 to 255.
    Jobs(u8),
}

impl Exit {
    /// Converts to the result of `main`.
    pub fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// The number.
    pub fn number(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Dishonest => 3,
            Exit::Missed => 4,
            Exit::Mismatch => 5,
            Exit::Partial => 6,
            Exit::Interrupted => 130,
            Exit::Jobs(failed) => failed,
        }
    }

    /// The more severe of two exits.
    pub fn worse(self, other: Exit) -> Exit {
        let order = [
            Exit::Mismatch,
            Exit::Interrupted,
            Exit::Partial,
            Exit::Failed,
            Exit::Usage,
            Exit::Dishonest,
            Exit::Missed,
        ];
        let found = order.into_iter().find(|exit| *exit == self || *exit == other);
        found.unwrap_or(Exit::Good)
    }

    /// Exit for a result: its most severe problem.
    pub fn of_result(result: &RunResult, interrupted: bool, strict: bool) -> Exit {
        let failed =
            |code: &str| result.checks.iter().any(|c| c.code == code && c.verdict == Verdict::Fail);
        let any_failed = result.checks.iter().any(|check| check.verdict == Verdict::Fail);
        match () {
            () if failed("H05") => Exit::Mismatch,
            () if interrupted => Exit::Interrupted,
            () if result.partial.is_some() => Exit::Partial,
            () if result.totals.errors > 0 => Exit::Failed,
            () if strict && any_failed => Exit::Dishonest,
            () => Exit::Good,
        }
    }
}

/// An error that the arguments are to blame for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub String);

/// Error for a file that the user names. A missing file, one of the wrong type and one with invalid
/// content are wrong arguments; a read error of the disk is a failure.
pub fn of_file(name: impl Display, error: io::Error) -> anyhow::Error {
    let words = format!("cannot read {name}");
    match is_named_wrongly(&error) {
        true => UsageError(format!("{words}: {error}")).into(),
        false => anyhow::Error::new(error).context(words),
    }
}

/// Whether the name is the cause: nothing exists there, or no file with text.
fn is_named_wrongly(error: &io::Error) -> bool {
    use ErrorKind::{
        InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory, NotFound,
    };
    [NotFound, IsADirectory, NotADirectory, InvalidData, InvalidInput, InvalidFilename]
        .contains(&error.kind())
}

/// An error with its causes, each once, and the memory limit that caused it, if there is one.
pub fn words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words += &format!(": {cause}");
        }
    }
    let is_memory = |cause: &(dyn std::error::Error + 'static)| {
        // EAGAIN: no thread could be started.
        let io = cause.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        matches!(io.map(Errno::from_raw_os_error), Some(Errno::NOMEM | Errno::AGAIN))
    };
    if error.chain().any(is_memory) {
        words += &os::address_limit_words().unwrap_or_default();
    }
    words
}

/// Exit for an error: wrong arguments or a failure. An error is a wrong argument if the user can
/// fix it on the command line or in a named file; all others are failures.
pub fn of_error(error: &anyhow::Error) -> Exit {
    let usage = error.chain().any(|cause| {
        cause.is::<UsageError>()
            || cause.is::<volume::UriError>()
            || matches!(
                cause.downcast_ref::<load::RunError>(),
                Some(
                    load::RunError::Access { .. }
                        | load::RunError::Nothing(_)
                        | load::RunError::Model(_)
                )
            )
            || matches!(
                cause.downcast_ref::<serve::ServeError>(),
                Some(
                    serve::ServeError::Names(_)
                        | serve::ServeError::Subsystems(_)
                        | serve::ServeError::HostsOfNothing(..)
                        | serve::ServeError::HostName(..)
                        | serve::ServeError::NamespaceZero(_)
                        | serve::ServeError::DoubleLun(..)
                        | serve::ServeError::Exports(_)
                        | serve::ServeError::NoSuchVolume(_)
                )
            )
            || matches!(
                cause.downcast_ref::<volume::OpenError>(),
                Some(
                    volume::OpenError::HoldsData(_)
                        | volume::OpenError::Precious { .. }
                        | volume::OpenError::InUse { .. }
                        | volume::OpenError::Locked { .. }
                        | volume::OpenError::TooSmall(..)
                        | volume::OpenError::Profile(_)
                        | volume::OpenError::Schedule { .. }
                        | volume::OpenError::SameData(..)
                )
            )
            || matches!(
                cause.downcast_ref::<volume::OpenError>(),
                Some(volume::OpenError::Array(error)) if error.is_usage()
            )
            || matches!(
                cause.downcast_ref::<volume::OpenError>(),
                Some(volume::OpenError::File { error, .. }) if is_named_wrongly(error)
            )
    });
    if usage { Exit::Usage } else { Exit::Failed }
}
