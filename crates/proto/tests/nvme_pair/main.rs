//! Both ends of NVMe/TCP, joined in memory: every PDU, every split of the stream, all digests; and
//! each end alone against malicious peers.
//!
//! `joined` and `server` are the bench, `raw` a host of bytes; the other files are tests.

mod admin;
mod bugs;
mod comeback;
mod copy;
mod discovery;
mod events;
mod fabrics;
mod flows;
mod fused;
mod golden;
mod hogs;
mod hosts;
mod ios;
mod joined;
mod random;
mod raw;
mod reserve;
mod server;
mod stops;
mod target_io;
mod unanswered;
