//! Helpers of the system tests: programs with time limits, our target and a third-party one,
//! temporary folders, and recorded skips.
//!
//! Tests drive the real binary from outside. They stop the processes that they started, by process
//! ID, also if they fail. A test that a machine cannot run is recorded as skipped, with the reason.
#![forbid(unsafe_code)]

mod apart;
mod between;
mod cached_disk;
mod control_group;
mod drumfire;
mod far;
pub mod fio;
mod folder;
mod late_disk;
mod login;
mod loop_device;
mod mpi;
mod nbd;
mod patience;
mod program;
mod qemu;
mod record;
mod rounds;
mod screen;
mod small;
mod terminal;
mod tgt;
mod under_way;
mod verdict;
mod wired;
mod witness;

pub use apart::Apart;
pub use between::{Between, Fate, READ_BYTES, Speech};
pub use cached_disk::{CachedDisk, Shape};
pub use control_group::ControlGroup;
pub use drumfire::{Drumfire, Served};
pub use far::{Below, Far, Server};
pub use folder::Folder;
pub use late_disk::LateDisk;
pub use login::{Client, login, pdu};
pub use loop_device::Loop;
pub use mpi::{Mpi, rank_of, seconds_of_mishaps};
pub use nbd::{Nbd, NbdCommand};
pub use patience::Patience;
pub use program::{Finished, Running, require, run};
pub use qemu::{qemu_img, qemu_io, qemu_nbd, qemu_system};
pub use record::{Case, case, skip};
pub use rounds::rounds;
pub use screen::Screen;
pub use small::in_small_file_system;
pub use terminal::{OnTerminal, Terminal};
pub use tgt::Tgt;
pub use under_way::{await_second, under_way};
pub use verdict::check;
pub use wired::Wired;
pub use witness::{Chance, UNIT_BYTES, Witness};

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU16, Ordering};

/// The first half of the name of every target that `serve --volume` makes.
pub const IQN: &str = "iqn.2026-11.io.drumfire";

/// Prefix of the names of NVMe subsystems.
pub const NQN: &str = "nqn.2026-11.io.drumfire";

/// A port on which nobody listens now, outside of the kernel's ephemeral range: an ephemeral port
/// could be assigned to another program before the caller uses it, or while a target is away. No
/// other test gets the port while this program runs.
pub fn free_port() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    static OURS: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    // Below the ephemeral range, starting at a different port in each test.
    let begin = (std::process::id() as u16).wrapping_mul(16);
    loop {
        let next = begin.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed));
        let port = 10_000 + next % 20_000;
        let Some(claim) = claim(port) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            OURS.lock().expect("a list is only made longer").push(claim);
            return port;
        }
    }
}

/// Claims a port among the tests of this host, until the kernel ends the claim with this process.
fn claim(port: u16) -> Option<UnixListener> {
    let name = SocketAddr::from_abstract_name(format!("drumfire-test-port-{port}"));
    UnixListener::bind_addr(&name.expect("the name is short")).ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_port_is_given_once() {
        let ports: Vec<u16> = (0..50).map(|_| free_port()).collect();
        let others: std::collections::BTreeSet<&u16> = ports.iter().collect();
        assert_eq!(others.len(), 50, "{ports:?}");
        assert!(ports.iter().all(|port| claim(*port).is_none()), "another test may claim one");
    }
}
