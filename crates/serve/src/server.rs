//! Starting and stopping a server.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use block::Pool;
use os::{Core, Listener, OpenRingError, Waker};
use proto::UnitId;
use proto::iscsi::{Directory, DirectoryError, TargetConfig, TargetEntry};
use proto::scsi::{Identity, Unit};

use crate::config::{Export, ServeConfig};
use crate::log::Log;
use crate::portal::Portal;
use crate::shared::Shared;

/// Small and large buffers that a core lends at most: 64 MiB and 64 MiB.
const POOL: (usize, usize) = (4096, 256);

/// A running server. Dropping it stops it.
pub struct Server {
    shared: Arc<Shared>,
    iscsi: Vec<SocketAddr>,
    threads: Vec<Thread>,
}

struct Thread {
    id: i32,
    waker: Waker,
    handle: Option<JoinHandle<()>>,
}

/// Why a server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The port is in use.
    #[error("{0} is in use by another program: choose another port, or port 0 for a free one")]
    Taken(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, #[source] io::Error),
    /// The names of the targets.
    #[error(transparent)]
    Names(#[from] DirectoryError),
    /// A LUN was given twice.
    #[error("LUN {1} of target '{0}' was given twice")]
    DoubleLun(String, u8),
    /// A core's reactor.
    #[error(transparent)]
    Ring(#[from] OpenRingError),
    /// A thread.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
}

impl Server {
    /// Starts to serve. When it returns, every portal listens.
    pub fn start(config: ServeConfig, log: Log) -> Result<Server, ServeError> {
        let directory = directory(&config.exports)?;
        let iscsi = TargetConfig {
            max_commands: config.limits.commands,
            login_timeout: config.limits.login_timeout,
            ..TargetConfig::default()
        };
        let volumes = config.exports.iter().map(|export| Arc::clone(&export.volume)).collect();
        let shared = Arc::new(Shared::new(directory, iscsi, volumes, config.limits, log));
        let mut listeners: Vec<Vec<TcpListener>> = config.cores.iter().map(|_| vec![]).collect();
        let mut addresses = Vec::new();
        for address in &config.iscsi {
            addresses.push(listen(*address, &config.cores, &mut listeners)?);
        }
        let mut server = Server { shared, iscsi: addresses, threads: Vec::new() };
        for (cpu, listeners) in config.cores.iter().zip(listeners) {
            server.threads.push(start_thread(&server.shared, *cpu, listeners)?);
        }
        Ok(server)
    }

    /// Where iSCSI is spoken, in the order of the configuration, with the ports that were picked.
    pub fn iscsi(&self) -> &[SocketAddr] {
        &self.iscsi
    }

    /// Numbers of the threads that serve, for their use of the processors.
    pub fn thread_ids(&self) -> Vec<i32> {
        self.threads.iter().map(|thread| thread.id).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stop();
        for thread in &mut self.threads {
            thread.waker.wake();
            if let Some(handle) = thread.handle.take() {
                // A thread that panicked has said so itself.
                let _ = handle.join();
            }
        }
    }
}

/// One listener per core on the same port; returns where they listen.
fn listen(
    address: SocketAddr,
    cores: &[usize],
    listeners: &mut [Vec<TcpListener>],
) -> Result<SocketAddr, ServeError> {
    let fail = |error: io::Error| match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::Taken(address),
        _ => ServeError::Listen(address, error),
    };
    if os::is_taken(address).map_err(fail)? {
        return Err(ServeError::Taken(address));
    }
    let mut bound = address;
    for (cpu, listeners) in cores.iter().zip(listeners) {
        let steer = (cores.len() > 1).then_some(*cpu);
        let listener = os::listen(bound, steer).map_err(fail)?;
        bound = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(bound)
}

fn start_thread(
    shared: &Arc<Shared>,
    cpu: usize,
    listeners: Vec<TcpListener>,
) -> Result<Thread, ServeError> {
    let shared = Arc::clone(shared);
    let (started, wait) = mpsc::channel();
    let body = move || {
        let set_up = || -> Result<(Portal, Waker), ServeError> {
            os::cpu::pin(cpu)?;
            let core = Core::open(Pool::new(POOL.0, POOL.1))?;
            let (waker, _) = core.waker()?;
            let listeners = listeners.into_iter().map(|listener| Listener::new(&core, listener));
            let listeners = listeners.collect::<io::Result<Vec<_>>>()?;
            Ok((Portal::new(core, Arc::clone(&shared), listeners), waker))
        };
        match set_up() {
            Ok((portal, waker)) => {
                let _ = started.send(Ok((os::sample::thread_id(), waker)));
                if let Err(error) = portal.run() {
                    shared.log.say(os::Clock::get().now(), &format!("core {cpu} stops: {error}"));
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    let handle = std::thread::Builder::new().name(format!("target {cpu}")).spawn(body)?;
    let died = |_| io::Error::other("the thread ended before it began");
    let (id, waker) = wait.recv().map_err(died)??;
    Ok(Thread { id, waker, handle: Some(handle) })
}

/// The targets that `exports` name; a unit's id is its place in the list.
fn directory(exports: &[Export]) -> Result<Directory, ServeError> {
    let mut targets: Vec<TargetEntry> = Vec::new();
    for (index, export) in exports.iter().enumerate() {
        let known = targets.iter().position(|target| target.name == export.target);
        let at = known.unwrap_or_else(|| {
            let (name, alias) = (export.target.clone(), String::new());
            targets.push(TargetEntry { name, units: Vec::new(), alias });
            targets.len() - 1
        });
        let units = &mut targets[at].units;
        let lun = usize::from(export.lun);
        if units.len() <= lun {
            units.resize(lun + 1, None);
        }
        let product = export.volume.kind().to_uppercase();
        let identity = Identity { serial: export.serial.clone(), product };
        let (geometry, in_place) = (export.volume.geometry(), export.volume.in_place());
        let unit = Unit::new(UnitId(index as u32), geometry, in_place, identity);
        if units[lun].replace(unit).is_some() {
            return Err(ServeError::DoubleLun(export.target.clone(), export.lun));
        }
    }
    Ok(Directory::new(targets)?)
}
