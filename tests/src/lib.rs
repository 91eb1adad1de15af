//! What the system tests share: programs with time limits, our target and a foreign one, folders
//! that vanish, and skips that are heard.
//!
//! Tests drive the real binary from outside. They end what they started, by its id, also when they
//! fail. What a machine cannot run is recorded as a skip with its reason.
#![forbid(unsafe_code)]

mod between;
mod drumfire;
mod folder;
mod login;
mod program;
mod record;
mod tgt;
mod verdict;

pub use between::{Between, Fate, READ_BYTES, Speech};
pub use drumfire::{Drumfire, Served};
pub use folder::Folder;
pub use login::{Client, login, pdu};
pub use program::{Finished, Running, require, run};
pub use record::{Case, case, skip};
pub use tgt::Tgt;
pub use verdict::check;

use std::net::TcpListener;

/// The first half of the name of every target that `serve --volume` makes.
pub const IQN: &str = "iqn.2026-11.io.drumfire";

/// The same for NVMe subsystems.
pub const NQN: &str = "nqn.2026-11.io.drumfire";

/// A port that nobody listens on just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    listener.local_addr().expect("a bound socket has an address").port()
}
