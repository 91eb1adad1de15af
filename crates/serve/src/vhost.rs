//! A server of vhost-user: a Unix socket for each volume, whose drivers share their rings.
//!
//! Each volume belongs to a thread, which polls the rings of all its drivers as long as they bring
//! requests, and then sleeps until a driver notifies it.

mod session;
mod thread;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use os::{OpenRingError, SharedThread, UnixPort};
use volume::Volume;

use crate::config::Export;
use crate::log::Log;

/// Configuration of a server of vhost-user.
pub struct VhostConfig {
    /// Volumes, each with its name and whether drivers may only read it.
    pub volumes: Vec<VhostVolume>,
    /// Folder of the sockets, which exists.
    pub folder: PathBuf,
    /// CPUs to serve on, one thread each.
    pub cores: Vec<usize>,
}

/// A volume to serve.
#[derive(Clone)]
pub struct VhostVolume {
    /// Name of its socket, without `.sock`.
    pub name: String,
    /// The volume and its identity.
    pub export: Export,
    /// Drivers cannot write.
    pub read_only: bool,
}

/// Why a server of vhost-user could not be started.
#[derive(Debug, thiserror::Error)]
pub enum VhostError {
    /// Another server listens at the socket.
    #[error("{}: another server has it", .0.display())]
    Taken(PathBuf),
    /// A socket cannot be opened.
    #[error("{path}: {why}", path = .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// Reason of the failure.
        why: io::Error,
    },
    /// A volume has no whole sector.
    #[error("volume '{0}' is smaller than a sector of 512 bytes")]
    TooSmall(String),
    /// A core's io_uring could not be opened.
    #[error(transparent)]
    Ring(#[from] OpenRingError),
    /// A thread could not be started.
    #[error("cannot start")]
    Start(#[from] io::Error),
}

/// A volume and its socket.
struct Door {
    port: UnixPort,
    name: String,
    volume: Arc<dyn Volume>,
    disk: proto::virtio::Disk,
}

/// A running server, stopped on drop.
pub struct VhostServer {
    sockets: Vec<PathBuf>,
    ends: Arc<AtomicBool>,
    threads: Vec<thread::Thread>,
}

impl VhostServer {
    /// Starts a server. Every socket listens when this returns. `failed` gets the reason if a
    /// thread cannot serve any more.
    ///
    /// # Errors
    ///
    /// A socket or thread cannot be opened.
    pub fn start(
        config: VhostConfig,
        log: Log,
        failed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<VhostServer, VhostError> {
        let mut of_cores: Vec<Vec<Door>> = config.cores.iter().map(|_| Vec::new()).collect();
        let mut sockets = Vec::new();
        let count = of_cores.len().max(1);
        for (index, volume) in config.volumes.into_iter().enumerate() {
            let door = open(&config.folder, volume)?;
            sockets.push(door.port.path().to_owned());
            if let Some(doors) = of_cores.get_mut(index % count) {
                doors.push(door);
            }
        }
        let ends = Arc::new(AtomicBool::new(false));
        let (log, failed) = (Arc::new(log), Arc::new(failed));
        let mut server = VhostServer { sockets, ends, threads: Vec::new() };
        for (cpu, doors) in config.cores.into_iter().zip(of_cores) {
            if doors.is_empty() {
                continue;
            }
            let failed: Arc<dyn Fn(&str) + Send + Sync> = failed.clone();
            let thread = thread::start(cpu, doors, &server.ends, &log, failed)?;
            server.threads.push(thread);
        }
        Ok(server)
    }

    /// Paths of the sockets, in the order of the volumes.
    pub fn sockets(&self) -> &[PathBuf] {
        &self.sockets
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

impl Drop for VhostServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        for thread in &mut self.threads {
            thread.waker.wake();
            if let Some(handle) = thread.handle.take() {
                // A thread that panicked has printed its message.
                let _ = handle.join();
            }
        }
    }
}

/// Opens the socket of a volume.
fn open(folder: &std::path::Path, volume: VhostVolume) -> Result<Door, VhostError> {
    let VhostVolume { name, export, read_only } = volume;
    let mut geometry = export.volume.byte_geometry();
    if geometry.bytes() < proto::virtio::SECTOR_BYTES {
        return Err(VhostError::TooSmall(name));
    }
    geometry.read_only |= read_only;
    let mut serial = [0; 20];
    for (to, from) in serial.iter_mut().zip(export.disk.serial().bytes()) {
        *to = from;
    }
    let path = folder.join(format!("{name}.sock"));
    let port = UnixPort::open(&path).map_err(|why| match why.kind() {
        io::ErrorKind::AddrInUse => VhostError::Taken(path),
        _ => VhostError::Socket { path, why },
    })?;
    let disk = proto::virtio::Disk { geometry, memory: export.volume.memory(), serial };
    Ok(Door { port, name, volume: export.volume, disk })
}

#[cfg(test)]
mod test;
