//! NVMe/TCP: an association is an admin queue, kept alive here, and a queue for each lane.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use block::{Geometry, Nanos};
use os::Clock;
use proto::nvme::{
    Association, NvmeAdmin, NvmeDiscovery, NvmeInitiatorConfig, NvmeQueue, SubsystemKind,
};

use super::wire::Wire;
use super::{Dial, connect, connect_error};
use crate::OpenError;
use crate::uri::{NvmeUri, Uri};

/// Our own name, for targets that log or allow hosts by name.
const HOST_NQN: &str = "nqn.2026-11.io.drumfire:host";
/// Queues that are asked for: as many lanes as a volume may have.
const QUEUES: u16 = 64;
/// I/Os under way on a queue.
const QUEUE_DEPTH: u16 = 1023;

/// A subsystem with an open association. Clones are the same one; the last to go ends it.
#[derive(Clone)]
pub(crate) struct NvmeDial(Arc<Inner>);

struct Inner {
    uri: NvmeUri,
    config: NvmeInitiatorConfig,
    open: Mutex<Arc<Open>>,
    /// Held while a new association is made, which takes longer than a core may wait.
    renewing: Mutex<()>,
}

/// An association.
struct Open {
    association: Association,
    /// Numbers of queues that no lane has, the longest unused first: the controller may still be
    /// busy with the end of the last.
    free_queues: Mutex<VecDeque<u16>>,
    keeper: Keeper,
}

impl NvmeDial {
    /// Connects the admin queue and learns what it has to tell.
    pub(crate) fn open(uri: &NvmeUri) -> Result<NvmeDial, OpenError> {
        let config = NvmeInitiatorConfig {
            header_digest: uri.header_digest,
            data_digest: uri.data_digest,
            queues: QUEUES,
            queue_depth: QUEUE_DEPTH,
            ..NvmeInitiatorConfig::new(HOST_NQN, host_id(), &uri.subsystem, uri.nsid)
        };
        let open = Mutex::new(Arc::new(Open::new(uri, &config)?));
        let inner = Inner { uri: uri.clone(), config, open, renewing: Mutex::new(()) };
        Ok(NvmeDial(Arc::new(inner)))
    }
}

impl Inner {
    fn open(&self) -> MutexGuard<'_, Arc<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    fn new(uri: &NvmeUri, config: &NvmeInitiatorConfig) -> Result<Open, OpenError> {
        let (keeper, association) = Keeper::start(uri, config)?;
        let free_queues = Mutex::new((1..=association.queues).collect());
        Ok(Open { association, free_queues, keeper })
    }

    fn free_queues(&self) -> MutexGuard<'_, VecDeque<u16>> {
        self.free_queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number for this host: the same for all associations of this process.
fn host_id() -> [u8; 16] {
    let mut id = *b"drumfire\0\0\0\0\0\0\0\x01";
    id[8..12].copy_from_slice(&std::process::id().to_be_bytes());
    id
}

impl Dial for NvmeDial {
    type End = NvmeQueue;
    type Place = QueueNumber;

    fn geometry(&self) -> Result<Geometry, OpenError> {
        Ok(self.0.open().association.geometry)
    }

    fn initiator(&self, now: Nanos) -> Result<(NvmeQueue, QueueNumber), String> {
        let open = Arc::clone(&self.0.open());
        if let Some(why) = open.keeper.ended() {
            return Err(why);
        }
        let queues = open.association.queues;
        let number = open.free_queues().pop_front();
        let number = number.ok_or_else(|| format!("the controller allows {queues} I/O queues"))?;
        let end = NvmeQueue::new(&self.0.config, &open.association, number, now);
        Ok((end, QueueNumber { open, number }))
    }

    /// Opens a new association if the old one has ended. The lanes of a volume break together:
    /// the first that comes here does it, the others wait for it.
    fn renew(&self) -> Result<(), OpenError> {
        let _renewing = self.0.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = self.0.open().keeper.ended().is_some();
        if ended {
            let fresh = Arc::new(Open::new(&self.0.uri, &self.0.config)?);
            let stale = std::mem::replace(&mut *self.0.open(), fresh);
            // Its thread is joined here, not under the lock.
            drop(stale);
        }
        Ok(())
    }

    fn patience(&self) -> Option<Nanos> {
        self.0.uri.reconnect_seconds.map(|seconds| Nanos::from_secs(seconds.into()))
    }

    fn address(&self) -> &str {
        &self.0.uri.address
    }

    fn uri(&self) -> String {
        Uri::Nvme(self.0.uri.clone()).to_string()
    }

    fn transport(&self) -> &'static str {
        "NVMe/TCP"
    }
}

/// The number of a queue, free for another when this is dropped.
pub(crate) struct QueueNumber {
    open: Arc<Open>,
    number: u16,
}

impl Drop for QueueNumber {
    fn drop(&mut self) {
        self.open.free_queues().push_back(self.number);
    }
}

/// The thread that keeps an association alive. Dropping it ends the association.
struct Keeper {
    closing: Arc<AtomicBool>,
    ended: Arc<Mutex<Option<String>>>,
    waker: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the thread, which connects and learns what there is to know.
    fn start(
        uri: &NvmeUri,
        config: &NvmeInitiatorConfig,
    ) -> Result<(Keeper, Association), OpenError> {
        let stream = connect(&uri.address)?;
        let failed = |error| connect_error(&uri.address, error);
        let (waker, woken) = UnixStream::pair().map_err(failed)?;
        let (closing, ended) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let (close, end, config) = (Arc::clone(&closing), Arc::clone(&ended), config.clone());
        let (opened, wait) = mpsc::channel();
        let body = move || {
            let result = keep(stream, woken, &config, &close, &opened);
            *end.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
        };
        let thread = std::thread::Builder::new().name("nvme admin".to_owned()).spawn(body);
        let thread = Some(thread.map_err(failed)?);
        let keeper = Keeper { closing, ended, waker: Some(waker), thread };
        match wait.recv() {
            Ok(association) => Ok((keeper, association)),
            Err(_) => {
                let ending = keeper.ended().unwrap_or_else(|| "the admin queue ended".to_owned());
                Err(OpenError::Refused { uri: Uri::Nvme(uri.clone()).to_string(), ending })
            }
        }
    }

    /// Why the association has ended, if it has.
    fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Opens an association, tells what was learned, and keeps it alive until it is to be closed.
fn keep(
    stream: TcpStream,
    woken: UnixStream,
    config: &NvmeInitiatorConfig,
    close: &AtomicBool,
    opened: &mpsc::Sender<Association>,
) -> Result<(), String> {
    let clock = Clock::get();
    let mut wire = Wire::new(stream, Some(woken)).map_err(|error| error.to_string())?;
    let mut admin = NvmeAdmin::new(config, clock.now());
    let mut told = false;
    while !close.load(Ordering::Acquire) {
        let result = wire.step(&mut admin, clock);
        if close.load(Ordering::Acquire) {
            break;
        }
        result?;
        if !told && let Some(association) = admin.ready() {
            told = opened.send(association.clone()).is_ok();
        }
    }
    wire.close(&mut admin, clock);
    Ok(())
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        // Ends the wait that the thread may be in.
        self.waker = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Asks the discovery service at `address` which subsystems there are: their names with their
/// addresses.
pub fn discover_nvme(address: &str) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let clock = Clock::get();
    let mut wire =
        Wire::new(connect(address)?, None).map_err(|error| connect_error(address, error))?;
    let mut end = NvmeDiscovery::new(HOST_NQN, host_id(), clock.now());
    loop {
        let result = wire.step(&mut end, clock);
        if let Some(entries) = end.entries() {
            let storage = entries.into_iter().filter(|entry| entry.kind == SubsystemKind::Nvm);
            let row = |entry: proto::nvme::DiscoveryEntry| {
                (entry.nqn, vec![format!("{}:{}", entry.traddr, entry.trsvcid)])
            };
            return Ok(storage.map(row).collect());
        }
        result.map_err(|ending| OpenError::Refused { uri: address.to_owned(), ending })?;
    }
}
