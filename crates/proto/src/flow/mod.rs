//! Flow of commands, for all protocols: tables of slots, time-outs, parts of reads and writes, and
//! the limits of a connection.
//!
//! An initiator stores its I/Os in an [`IoTable`]; a target stores its commands in [`Slots`] and
//! its exchange with volumes in a [`Backlog`]. All of these are generic over the protocol's part of
//! a slot and monomorphized: there are no virtual calls.

mod backlog;
mod collect;
mod leftovers;
mod outstanding;
mod ranges;
mod segment;
mod slots;
mod stamp;
mod timeout;
mod transfer;

pub(crate) use backlog::{
    Backlog, IOS_PER_COMMAND, has_room_by_reference, is_full, part_begin, part_tag, slot_of,
};
pub(crate) use collect::Collector;
pub(crate) use leftovers::{Leftover, Leftovers};
pub(crate) use outstanding::{IoTable, Outstanding, lacks_buf};
pub(crate) use ranges::{CLEAR_BYTES_MAX, Ranges};
pub(crate) use segment::{DIGEST_BYTES, DataEnd, DataSegment};
pub(crate) use slots::Slots;
pub(crate) use stamp::Stamps;
pub use timeout::IO_TIMEOUT;
pub(crate) use timeout::{Age, IoTimeout, PingTimeout, later, ping_timeout};
pub(crate) use transfer::Transfer;
