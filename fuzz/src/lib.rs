//! Shared by the fuzz targets: both ends of each protocol, over memory, fed with bytes; and files
//! of others.
//!
//! Each target checks more than "no panic": requests lie inside their volume, the send queue is
//! bounded, and after a disconnect every buffer is back in its pool.
#![forbid(unsafe_code)]

mod array_file;
mod cut;
mod forged_backup;
mod initiator;
mod job_file;
mod login;
mod nbd;
mod nbd_stream;
mod part_file;
mod plan_file;
mod stream;
mod target;
mod trace;
mod vhost;

pub use array_file::{read_map, read_superblock};
pub use cut::Cut;
pub use forged_backup::restore_forged;
pub use initiator::Asking;
pub use job_file::{read_fio, read_icf};
pub use login::{TARGET_NAME, login_request};
pub use nbd::{Nbd, NbdAsking};
pub use nbd_stream::{polite_answers, polite_requests};
pub use part_file::{merge_fio, merge_parts};
pub use plan_file::{read_bill, read_claims, read_parts};
pub use stream::{next_status, polite_iscsi, polite_iscsi_to, polite_nvme};
pub use target::{NvmeServer, Serving};
pub use trace::read_trace;
pub use vhost::{drive_ring, receive_as_back_end, receive_as_front_end, serve_ring};

pub use volume::try_schedule;

use block::{Chain, Piece};
use proto::Outbox;

/// The name of the subsystem behind [`NvmeServer`].
pub const SUBSYSTEM_NAME: &str = "nqn.2026-11.io.drumfire:fuzz";

/// Memory of each volume: small, so that a new one costs little, and large enough for bursts.
pub const VOLUME_BYTES: u64 = 1 << 20;

/// More than a batch of 256 KiB for every command of the window.
pub const WAITING_MAX_BYTES: usize = 64 << 20;

/// Drains an outbox, as the peer would receive it. `sent` is kept for the next call.
pub fn take(out: &mut Outbox, sent: &mut Chain) -> Vec<u8> {
    assert!(out.len_bytes() <= WAITING_MAX_BYTES, "{} bytes wait", out.len_bytes());
    out.exchange(sent);
    sent.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat()
}
