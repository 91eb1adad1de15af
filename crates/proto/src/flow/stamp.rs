//! Read position of a peer: data before it may be overwritten in memory lent to a socket.

use crate::Outbox;

/// Stamps of data sent by an initiator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamps {
    /// Stamp of the last data sent, and of the last data that the target has read.
    sent: u32,
    read: u32,
}

impl Stamps {
    /// The stamp of a command: a target that completes it has read all that was sent up to now.
    #[inline(always)]
    pub(crate) fn next(&mut self, out: &mut Outbox) -> u32 {
        self.sent = self.sent.wrapping_add(1);
        out.stamp(self.sent);
        self.sent
    }

    /// The command with this stamp was completed without an error: the target has read its data.
    #[inline(always)]
    pub(crate) fn completed(&mut self, stamp: u32) {
        if stamp.wrapping_sub(self.read) as i32 > 0 {
            self.read = stamp;
        }
    }

    /// Tells the outbox how far the target has read.
    #[inline(always)]
    pub(crate) fn acknowledge(&self, out: &mut Outbox) {
        out.acknowledge(self.read);
    }
}
