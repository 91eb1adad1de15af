//! A volume as an ordinary file, through FUSE, or as a block device, through ublk: for programs
//! without a client for our protocols.
//!
//! The file is a separate mount: a file system that consists of this one file. Each core that
//! serves the file has a thread with its own lane to the volume and its own channel to the kernel,
//! so nothing is shared on the way of an I/O. A block device has a queue for each such thread.
#![forbid(unsafe_code)]

mod device;
mod mount;
mod plan;
mod port;
mod queue;
mod station;
mod sync;
mod wire;
mod worker;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use os::Waker;
use volume::{OpenError, Volume};

use crate::device::Node;
pub use crate::device::attach_device;
use crate::mount::{Access, Target};
use crate::wire::Attr;
use crate::worker::Source;

/// Page size of the kernel. The kernel writes whole pages, so blocks may not be longer.
const BLOCK_MAX_BYTES: u32 = 4096;

/// Options of an attached volume.
#[derive(Clone, Debug)]
pub struct Options {
    /// Other users may access the file as its mode allows. Otherwise only the user who attached it
    /// may.
    pub allow_other: bool,
    /// Read-only, even if the volume can be written.
    pub read_only: bool,
    /// CPUs to serve on, one thread on each.
    pub cores: Vec<usize>,
}

/// Receives log lines for the user.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// A volume attached as a file or a block device, until [`Stopper::stop`] or [`detach`].
pub struct Attached {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Detaches a volume, from any thread.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
}

/// State shared by the threads.
pub(crate) struct Shared {
    place: Place,
    pub(crate) stop: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
    failed: Mutex<Option<String>>,
    /// The loss of the volume was logged.
    pub(crate) has_told: AtomicBool,
    pub(crate) log: Log,
}

/// Location of the attached volume.
pub(crate) enum Place {
    File(Target),
    Device(Node),
}

/// Why a volume cannot be attached or detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The path cannot be attached to.
    #[error("{path}: {why}", path = path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// Problem, and the remedy.
        why: String,
    },
    /// FUSE is not available.
    #[error("FUSE: {0}")]
    Fuse(String),
    /// ublk is not available.
    #[error("ublk: {0}")]
    Ublk(String),
    /// The volume failed.
    #[error(transparent)]
    Volume(#[from] OpenError),
    /// The volume's blocks are longer than a page.
    #[error(
        "cannot attach a volume with blocks of {0} bytes: the kernel writes pages of \
        {BLOCK_MAX_BYTES} bytes"
    )]
    LongBlocks(u32),
    /// A system call failed.
    #[error("cannot attach: {0}")]
    System(#[from] io::Error),
    /// A thread failed, or data written is not durable.
    #[error("{0}")]
    Failed(String),
}

/// Refuses blocks that are longer than the kernel's pages.
fn check_blocks(block_bytes: u32) -> Result<(), AttachError> {
    if block_bytes > BLOCK_MAX_BYTES { Err(AttachError::LongBlocks(block_bytes)) } else { Ok(()) }
}

/// Attaches the volume at `file`. On return the file is mounted, with the volume's size.
///
/// # Errors
///
/// Why the volume cannot be attached, with the remedy.
pub fn attach(
    volume: Arc<dyn Volume>,
    file: &Path,
    options: &Options,
    log: Log,
) -> Result<Attached, AttachError> {
    let geometry = volume.byte_geometry();
    check_blocks(geometry.block_bytes)?;
    let read_only = geometry.read_only || options.read_only;
    let backing = volume.backing().word();
    let access = Access { allow_other: options.allow_other, read_only, backing };
    let (target, channel) = mount::mount(file, access)?;
    let attr = Attr {
        size: geometry.bytes(),
        mode: 0o100_000 | if read_only { 0o400 } else { 0o600 },
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        since: target.since,
    };
    let shared = Arc::new(Shared::new(Place::File(target), log));
    let started = start(&shared, attr, &volume, channel, &options.cores);
    match started {
        Ok(threads) => Ok(Attached { shared, threads }),
        Err(error) => {
            shared.end_threads();
            if let Place::File(target) = &shared.place {
                target.unmount_by_force();
            }
            Err(error)
        }
    }
}

/// Starts the threads and waits until each has opened its lane.
fn start(
    shared: &Arc<Shared>,
    attr: Attr,
    volume: &Arc<dyn Volume>,
    channel: os::FuseChannel,
    cores: &[usize],
) -> Result<Vec<JoinHandle<()>>, AttachError> {
    let agreed = worker::shake_hands(&channel)?;
    let queues = if agreed.has_ring() { os::cpu::possible() } else { 0 };
    let queues = share_out(queues, cores);
    let mut channels = vec![channel];
    for _ in 1..queues.len() {
        channels.push(channels[0].another()?);
    }
    let attr = Arc::new(Mutex::new(attr));
    let mut threads = Vec::new();
    for (index, (channel, queues)) in channels.into_iter().zip(queues).enumerate() {
        let (tell, told) = mpsc::channel();
        let (shared, attr, volume) = (Arc::clone(shared), Arc::clone(&attr), Arc::clone(volume));
        let cpu = cores.get(index).copied();
        let source = Source { channel, queues };
        let body = move || worker::run(&shared, &attr, &*volume, source, cpu, &tell);
        threads.push(std::thread::Builder::new().name(format!("file {index}")).spawn(body)?);
        let died = |_| AttachError::Failed("a thread ended during startup".to_owned());
        told.recv().map_err(died)??;
    }
    Ok(threads)
}

/// Queues of each thread: that of the CPU on which it runs, and its share of the others.
fn share_out(queues: usize, cores: &[usize]) -> Vec<Vec<u16>> {
    let mut shares = vec![Vec::new(); cores.len().max(1)];
    for queue in 0..queues {
        let own = cores.iter().position(|cpu| *cpu == queue);
        let share = own.unwrap_or(queue % shares.len());
        shares[share].push(queue as u16);
    }
    shares
}

impl Attached {
    /// Canonical path of the file or device.
    pub fn file(&self) -> &Path {
        match &self.shared.place {
            Place::File(target) => &target.path,
            Place::Device(node) => &node.path,
        }
    }

    /// A handle that detaches the volume.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared) }
    }

    /// Waits until the volume is detached or stopped, and all data is durable.
    ///
    /// # Errors
    ///
    /// A thread or a flush failed.
    pub fn wait(self) -> Result<(), AttachError> {
        for thread in self.threads {
            if thread.join().is_err() {
                self.shared.fail("a thread panicked".to_owned());
            }
        }
        match &self.shared.place {
            Place::File(target) => target.forget(),
            Place::Device(node) => node.forget(),
        }
        let failed = self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |why| Err(AttachError::Failed(why)))
    }
}

impl Stopper {
    /// Flushes the file or device, detaches it and ends the threads. Programs that still have it
    /// open get errors from now on, which is logged.
    pub fn stop(&self) {
        let Shared { place, log, .. } = &*self.shared;
        let synced = match place {
            Place::File(target) => target.sync(),
            Place::Device(node) => node.sync(),
        };
        if let Err(error) = synced {
            self.shared.fail(format!("written data may be lost: {error}"));
        }
        match place {
            Place::File(target) => {
                if let Err(error) = target.unmount() {
                    if error.raw_os_error() == Some(rustix::io::Errno::BUSY.raw_os_error()) {
                        log("the file is still in use: its users get I/O errors from now on");
                    }
                    target.unmount_by_force();
                }
            }
            Place::Device(node) => {
                if let Err(error) = node.stop(log) {
                    self.shared.fail(error.to_string());
                }
            }
        }
        self.shared.end_threads();
    }
}

/// Makes written data of an attached file or block device durable, and detaches it.
///
/// # Errors
///
/// Nothing is attached at the path, the volume is in use, or written data could not be made
/// durable.
pub fn detach(path: &Path) -> Result<(), AttachError> {
    match device::number_of(path) {
        Some(number) => device::detach(path, number),
        None => mount::detach(path),
    }
}

impl Shared {
    fn new(place: Place, log: Log) -> Shared {
        Shared {
            place,
            stop: AtomicBool::new(false),
            wakers: Mutex::default(),
            failed: Mutex::default(),
            has_told: AtomicBool::new(false),
            log,
        }
    }

    fn end_threads(&self) {
        self.stop.store(true, Ordering::Release);
        for waker in self.wakers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            waker.wake();
        }
    }

    pub(crate) fn wakes(&self, waker: Waker) {
        self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(waker);
    }

    /// Records the first failure.
    pub(crate) fn fail(&self, why: String) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
    }
}

#[cfg(test)]
mod test {
    use super::share_out;

    #[test]
    fn every_queue_has_a_thread_and_that_of_its_own_cpu_if_there_is_one() {
        assert_eq!(share_out(4, &[0, 1]), [vec![0, 2], vec![1, 3]]);
        assert_eq!(share_out(4, &[3]), [vec![0, 1, 2, 3]]);
        assert_eq!(share_out(4, &[3, 2]), [vec![0, 3], vec![1, 2]]);
        assert_eq!(share_out(0, &[0, 1]), [Vec::<u16>::new(), Vec::new()]);
        assert_eq!(share_out(1, &[]), [vec![0]]);
    }
}
