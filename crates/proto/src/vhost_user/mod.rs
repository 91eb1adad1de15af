//! vhost-user: the messages by which a driver (front-end) shares its rings with a device
//! (back-end) over a Unix socket, both ends, for block devices.
//!
//! Descriptors come next to the bytes, so an end asks for [one message's bytes at a
//! time](Assembly::wants). The owner carries bytes and descriptors, and maps memory.

mod back_end;
mod front_end;
#[cfg(test)]
mod test;
mod wire;

pub use back_end::{BackEnd, Order, QueueSetup, Region};
pub use front_end::{Attachment, FrontEnd, FrontEndPhase, Known, QueueStart};
pub use wire::{Assembly, QUEUES_MOST};

use crate::endpoint::Violation;

/// A message that breaks a rule, at an offset of the message.
#[cold]
fn broken<T>(rule: &'static str, at: usize) -> Result<T, Violation> {
    Err(Violation { rule, at })
}
