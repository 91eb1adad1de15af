//! Many processes as one measurement.
//!
//! Rank 0 leads: it hands out an order, measures how far the clocks of the others are from its own,
//! names one instant for all, and gathers the parts. The others follow. Both are state machines
//! over messages ([`Leader`], [`Follower`]): they read no clock and no socket, so whole fleets run
//! in virtual time. [`lead`] and [`follow`] run them on a thread.
//!
//! A [`Fleet`] only carries messages. Barrier, broadcast, gather and reduction are made of them,
//! because a collective call of MPI never returns once a rank is gone.
#![forbid(unsafe_code)]

mod clocks;
mod control;
mod follower;
mod join;
mod launched;
mod leader;
mod message;
#[cfg(feature = "mpi")]
mod mpi;

pub use self::clocks::{Bounded, Offset, Relation, Trip};
pub use self::control::{Follow, Lead, Now, STUCK, follow, lead};
pub use self::follower::{Follower, Heard};
pub use self::join::{HAS_MPI, JoinError, join};
pub use self::launched::{Launched, forget_launcher, launched};
pub use self::leader::{Began, Event, Fate, Leader, Outcome};
pub use self::message::{BODY_MAX_BYTES, Message};

use block::Nanos;

/// Interval of signs of life.
pub const BEAT: Nanos = Nanos::from_millis(500);
/// Silence after which a rank is lost.
pub const SILENCE: Nanos = Nanos::from_secs(6);
/// Time limit for the first message of all ranks: launchers start before all names resolve.
pub const GATHERING: Nanos = Nanos::from_secs(60);

/// Way to the other ranks. Messages between two ranks arrive whole and in order. No call blocks.
pub trait Fleet {
    /// Number of this process, from 0.
    fn rank(&self) -> u32;

    /// Number of processes.
    fn size(&self) -> u32;

    /// Sends a message, now or as soon as the way is free.
    fn send(&mut self, to: u32, message: Vec<u8>);

    /// Returns the next message and the rank that sent it.
    fn receive(&mut self) -> Option<(u32, Vec<u8>)>;

    /// Returns whether messages wait to be sent.
    fn is_sending(&self) -> bool;

    /// Ends the connection. `whole`: every rank is there and ends, too.
    fn end(self: Box<Self>, whole: bool);
}

/// A fleet of one process, which has nobody to talk to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Solo;

impl Fleet for Solo {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        1
    }

    fn send(&mut self, _to: u32, _message: Vec<u8>) {}

    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        None
    }

    fn is_sending(&self) -> bool {
        false
    }

    fn end(self: Box<Self>, _whole: bool) {}
}
