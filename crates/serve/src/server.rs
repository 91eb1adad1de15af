//! Starting and stopping a server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use block::print_size;
use os::{OpenRingError, SharedThread};
use proto::iscsi::DirectoryError;
use proto::nbd::NbdExportsError;
use proto::nvme::{NqnError, SubsystemsError};

use crate::config::ServeConfig;
use crate::log::Log;
use crate::protocol::{Protocol, Protocols};
use crate::shared::Shared;
use crate::thread::{self, Listeners, Thread};

/// A running server, stopped on drop.
pub struct Server {
    pub(crate) shared: Arc<Shared>,
    iscsi: Vec<SocketAddr>,
    nvme_tcp: Vec<SocketAddr>,
    nbd: Vec<SocketAddr>,
    threads: Vec<Thread>,
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use.
    #[error("{0} is already in use: choose another port, or 0 for any free port")]
    Taken(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] io::Error),
    /// Invalid names of targets.
    #[error(transparent)]
    Names(#[from] DirectoryError),
    /// Invalid names of subsystems.
    #[error(transparent)]
    Subsystems(#[from] SubsystemsError),
    /// Invalid names of NBD exports.
    #[error(transparent)]
    Exports(#[from] NbdExportsError),
    /// Hosts are listed for an unknown subsystem.
    #[error("access is restricted for '{0}', which is not served over {1}")]
    HostsOfNothing(String, Protocol),
    /// An invalid host NQN.
    #[error("host '{0}'")]
    HostName(String, #[source] NqnError),
    /// LUN 0 as a namespace: NVMe counts from 1.
    #[error("LUN 0 of '{0}' cannot be an NVMe namespace: NSIDs start at 1")]
    NamespaceZero(String),
    /// A LUN was given twice.
    #[error("LUN {1} of target '{0}' is used twice")]
    DoubleLun(String, u8),
    /// All places for volumes are taken.
    #[error("no place is left for another volume: remove one first")]
    Full,
    /// A volume of this name is being removed.
    #[error("volume '{0}' is being removed: add it when that has ended")]
    Leaving(String),
    /// A volume to remove is not served.
    #[error("no volume is called '{0}'")]
    NoSuchVolume(String),
    /// The memory budget is too small for its cores.
    #[error(
        "{bytes} of memory are too little for the number of cores: minimum {least}",
        bytes = print_size(*bytes),
        least = print_size(*least)
    )]
    LittleMemory {
        /// The budget.
        bytes: u64,
        /// The minimum.
        least: u64,
    },
    /// A core's io_uring could not be opened.
    #[error(transparent)]
    Ring(#[from] OpenRingError),
    /// A thread could not be started.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

impl Server {
    /// Starts a server. Every portal listens when this returns.
    pub fn start(config: ServeConfig, log: Log) -> Result<Server, ServeError> {
        let mut listeners: Vec<Listeners> = config.cores.iter().map(|_| vec![]).collect();
        let mut bind = |addresses: &[SocketAddr], protocol| {
            let bind = |address| listen(address, protocol, &config.cores, &mut listeners);
            addresses.iter().copied().map(bind).collect::<Result<Vec<_>, _>>()
        };
        let iscsi = bind(&config.iscsi, Protocol::Iscsi)?;
        let nvme_tcp = bind(&config.nvme_tcp, Protocol::NvmeTcp)?;
        let nbd = bind(&config.nbd, Protocol::Nbd)?;
        let protocols = Protocols::new(&config, &iscsi, &nvme_tcp)?;
        let shared = Arc::new(Shared::new(protocols, &config, log)?);
        let mut server = Server { shared, iscsi, nvme_tcp, nbd, threads: Vec::new() };
        for (index, (cpu, listeners)) in config.cores.iter().zip(listeners).enumerate() {
            let cpus = (*cpu, config.idle_cores.clone());
            server.threads.push(thread::start(&server.shared, index, cpus, listeners)?);
        }
        Ok(server)
    }

    /// Calls `tell` with the reason as soon as a core fails, on any thread. The other cores
    /// continue until the server is dropped.
    pub fn on_failure(&self, tell: impl Fn(&str) + Send + Sync + 'static) {
        self.shared.on_failure(Box::new(tell));
    }

    /// Listen addresses for iSCSI, in the order of the configuration, with the ports that were
    /// picked.
    pub fn iscsi(&self) -> &[SocketAddr] {
        &self.iscsi
    }

    /// Listen addresses for NVMe/TCP.
    pub fn nvme_tcp(&self) -> &[SocketAddr] {
        &self.nvme_tcp
    }

    /// Listen addresses for NBD.
    pub fn nbd(&self) -> &[SocketAddr] {
        &self.nbd
    }

    /// Begins the end: every core asks its peers to leave. Dropping the server waits for that.
    pub fn stop(&self) {
        self.shared.stop();
        self.threads.iter().for_each(|thread| thread.waker.wake());
    }

    /// Number of connections.
    pub fn connection_count(&self) -> usize {
        self.shared.connection_count()
    }

    /// Memory of connections, used and allowed, in bytes.
    pub fn memory_bytes(&self) -> [u64; 2] {
        let budget = self.shared.budget();
        [budget.held_bytes(), budget.limit_bytes()]
    }

    /// Thread ids of the cores, to read their CPU time.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.threads.iter().map(|thread| thread.id).collect()
    }

    /// The cores' threads, to run other loops on them.
    pub fn shared_threads(&self) -> Vec<SharedThread> {
        self.threads.iter().map(|thread| thread.shared.clone()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take() {
                // A thread that panicked has reported it itself.
                let _ = handle.join();
            }
        }
    }
}

/// Time that a port in use is tried again for: the port of a killed server is free only when the
/// kernel has ended its rings, which takes a moment.
const PATIENCE: Duration = Duration::from_secs(1);
/// Patience while no live process has the port: on a busy host the kernel takes longer.
const PATIENCE_ENDING: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// One listener per core on the same port; returns the addresses.
fn listen(
    address: SocketAddr,
    protocol: Protocol,
    cores: &[usize],
    listeners: &mut [Listeners],
) -> Result<SocketAddr, ServeError> {
    let steer: Vec<_> = cores.iter().map(|cpu| (cores.len() > 1).then_some(*cpu)).collect();
    let taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    // Pauses alone are counted: clocks are read in `os`.
    let mut waited = Duration::ZERO;
    let waits = |waited: Duration| {
        waited < PATIENCE || waited < PATIENCE_ENDING && os::port::is_ending(address.port())
    };
    let sockets = loop {
        match os::listen(address, &steer) {
            Err(error) if taken(&error) && waits(waited) => {
                std::thread::sleep(PAUSE);
                waited += PAUSE;
            }
            Err(error) if taken(&error) => return Err(ServeError::Taken(address)),
            Err(error) => return Err(ServeError::Listen(address, error)),
            Ok(sockets) => break sockets,
        }
    };
    let bound = sockets.first().map_or(Ok(address), TcpListener::local_addr)?;
    for (socket, listeners) in sockets.into_iter().zip(listeners) {
        listeners.push((socket, protocol));
    }
    Ok(bound)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_port_that_is_about_to_be_free_is_waited_for() {
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap();
        let mut listeners = [Vec::new()];
        let refused = listen(address, Protocol::Nbd, &[0], &mut listeners);
        assert!(matches!(refused, Err(ServeError::Taken(_))));
        let frees = std::thread::spawn(move || {
            std::thread::sleep(10 * PAUSE);
            drop(other);
        });
        let bound = listen(address, Protocol::Nbd, &[0], &mut listeners).unwrap();
        assert_eq!((bound, listeners[0].len()), (address, 1));
        frees.join().unwrap();
    }
}
