//! Storage protocols as pure state machines, both ends of each.
//!
//! Bytes come in by [`Endpoint::receive`], in any split of the stream; bytes go out through an
//! [`Outbox`]. There are no sockets, clocks and threads here: their owner (`serve`,
//! `volume::remote`, or a test that joins both ends in memory) passes `now` and carries the bytes.
//! A peer's bytes never cause a panic, an allocation of a size that the peer claims, or a hang.
#![forbid(unsafe_code)]

mod ascii;
pub mod auth;
pub mod crc32c;
mod disk_id;
mod endpoint;
mod flow;
mod instance;
pub mod iscsi;
pub mod nbd;
pub mod nvme;
mod offers;
mod outbox;
mod peers;
pub mod scsi;
pub mod vhost_user;
pub mod virtio;

pub use disk_id::DiskId;
pub use endpoint::{
    Attention, Ending, Endpoint, Fence, Fencing, Initiator, Moved, Notice, Phase, Request, Target,
    TasksEnd, Unanswered, UnitId, Violation,
};
pub use flow::IO_TIMEOUT;
pub use instance::{Instance, Instances};
pub use offers::Offers;
pub use outbox::{InPlace, Outbox};
pub use peers::{Arrival, Peers};
