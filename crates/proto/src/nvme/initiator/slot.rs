//! State of an I/O in flight. Its slot is the command identifier.

use block::Fault;

/// Progress of an I/O's commands.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Fault of the I/O, even if the completion reports success.
    pub(super) fault: Option<Fault>,
    /// Bytes done by earlier commands, and bytes of the one in flight.
    pub(super) done: u32,
    pub(super) part: u32,
    /// Bytes of that command's data moved.
    pub(super) moved: u32,
    /// Stamp of the last data in the outbox.
    pub(super) stamp: u32,
}
