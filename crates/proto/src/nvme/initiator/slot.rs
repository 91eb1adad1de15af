//! What a queue keeps of an I/O in flight. Its slot is the identifier of its command.

use block::Fault;

/// How far the commands of an I/O are.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Why it fails, whatever the target says.
    pub(super) fault: Option<Fault>,
    /// Bytes that earlier commands for it did, and those that the command in flight is for.
    pub(super) done: u32,
    pub(super) part: u32,
    /// Bytes of data of that command that were moved.
    pub(super) moved: u32,
    /// Of the last data in the outbox.
    pub(super) stamp: u32,
}
