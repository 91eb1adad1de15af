//! A volume of another process on this host, over vhost-user: rings in shared memory.
//!
//! One connection serves all lanes, each with a queue of its own. Its memory is sealed and belongs
//! to this process, so a device that dies or lies cannot take it away.

mod lane;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use block::{Geometry, Lane, Nanos, Pool};
use os::{Clock, Core, Event, UnixLink};
use proto::Ending;
use proto::vhost_user::{Attachment, FrontEnd, FrontEndPhase, Known, QUEUES_MOST, QueueStart};
use proto::virtio::{DriverQueue, RingViolation};

use self::lane::VhostLane;
use crate::{Ground, OpenError, Uri, Volume};

/// Descriptors of a queue, and requests in flight with indirect descriptors.
const QUEUE_SIZE: u16 = 256;
/// Data of a request.
const SLOT_BYTES: u64 = Pool::LARGE_BYTES as u64;
/// Time limit for each answer of the device when it is opened.
const OPENING: Nanos = Nanos::from_secs(10);
/// Address of the memory in descriptors and ring addresses, which is not ours to tell.
const BASE: u64 = 1 << 32;

/// A device of another process.
pub(crate) struct Vhost {
    device: Arc<Device>,
}

/// State that all lanes share.
struct Device {
    path: PathBuf,
    geometry: Geometry,
    known: Known,
    link: UnixLink,
    /// The connection is lost.
    dead: AtomicBool,
    /// Queues without a lane.
    free: Mutex<Vec<Line>>,
    queues: usize,
}

/// A queue and its events.
struct Line {
    queue: DriverQueue,
    kick: Event,
    call: Event,
}

impl Device {
    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Whether the device has closed the connection. A device that has started its queues sends
    /// nothing else.
    fn has_closed(&self) -> bool {
        let received = self.link.receive(&mut [0; 64], &mut Vec::new());
        if !matches!(received, Ok(None)) {
            self.dead.store(true, Ordering::Relaxed);
        }
        self.is_dead()
    }

    fn uri(&self) -> String {
        Uri::VhostUser { path: self.path.clone() }.to_string()
    }

    /// Returns a queue, for the next lane.
    fn give_back(&self, line: Line) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

impl Vhost {
    /// Connects, and starts all queues of the device.
    pub(crate) fn open(path: &Path) -> Result<Vhost, OpenError> {
        let uri = Uri::VhostUser { path: path.to_owned() }.to_string();
        let link = UnixLink::connect(path)
            .map_err(|error| OpenError::Connect { address: path.display().to_string(), error })?;
        let opening = Opening { link, end: FrontEnd::new(), clock: Clock::get() };
        let device = opening.open(path.to_owned());
        let refused = |ending: Ending| OpenError::Refused { uri, ending: ending.to_string() };
        Ok(Vhost { device: Arc::new(device.map_err(refused)?) })
    }
}

/// A device that is being opened.
struct Opening {
    link: UnixLink,
    end: FrontEnd,
    clock: Clock,
}

impl Opening {
    fn open(mut self, path: PathBuf) -> Result<Device, Ending> {
        let known = loop {
            match self.end.phase() {
                FrontEndPhase::Known(known) => break known,
                _ => self.exchange(None)?,
            }
        };
        let refused = |why: &str| Ending::Refused(why.to_owned());
        let geometry = known.config.geometry(known.features);
        let geometry = geometry.ok_or_else(|| refused("the device's capacity makes no volume"))?;
        let bytes = DriverQueue::bytes(QUEUE_SIZE, SLOT_BYTES, known.features);
        let count = known.queues.min(known.config.queues.max(1)).min(QUEUES_MOST);
        let total = bytes * u64::from(count);
        let out_of = |error: std::io::Error| Ending::Refused(format!("no memory: {error}"));
        let (memory, window) = os::share_memory(c"drumfire", total).map_err(out_of)?;
        let mut lines = Vec::new();
        for at in 0..u64::from(count) {
            let part = window.part(at * bytes, bytes).ok_or_else(|| refused("no memory"))?;
            let base = BASE + at * bytes;
            let queue = DriverQueue::new(part, base, QUEUE_SIZE, SLOT_BYTES, known.features)
                .map_err(|violation: RingViolation| refused(&violation.to_string()))?;
            let kick = Event::new().map_err(out_of)?;
            let call = Event::new().map_err(out_of)?;
            lines.push(Line { queue, kick, call });
        }
        let start = |line: &Line| {
            let (size, addresses) = (line.queue.size(), line.queue.addresses());
            QueueStart { size, addresses }
        };
        let starts: Vec<QueueStart> = lines.iter().map(start).collect();
        self.end.start(BASE, total, &starts);
        while self.end.phase() != FrontEndPhase::Ready {
            self.exchange(Some((&memory, &lines)))?;
        }
        self.send(Some((&memory, &lines)))?;
        // The first lane has the first queue.
        lines.reverse();
        Ok(Device {
            path,
            geometry,
            known,
            link: self.link,
            dead: AtomicBool::new(false),
            queues: lines.len(),
            free: Mutex::new(lines),
        })
    }

    /// Sends all messages, and receives a part of the next.
    fn exchange(&mut self, attached: Option<(&OwnedFd, &[Line])>) -> Result<(), Ending> {
        self.send(attached)?;
        let end = self.clock.now() + OPENING;
        let mut bytes = [0; 1024];
        loop {
            let wants = self.end.wants().min(bytes.len());
            match self.link.receive(&mut bytes[..wants], &mut Vec::new()) {
                Ok(Some(0)) => return Err(lost("the device closed the connection")),
                Ok(Some(count)) => return self.end.receive(&bytes[..count]),
                Ok(None) => {}
                Err(error) => return Err(lost(&error.to_string())),
            }
            let now = self.clock.now();
            if now >= end {
                return Err(Ending::TimedOut("the device did not answer"));
            }
            self.link.await_readable(end.since(now)).map_err(|error| lost(&error.to_string()))?;
        }
    }

    fn send(&mut self, attached: Option<(&OwnedFd, &[Line])>) -> Result<(), Ending> {
        while let Some((bytes, attachment)) = self.end.output() {
            let fd = attachment.zip(attached).and_then(|(attachment, (memory, lines))| {
                Some(match attachment {
                    Attachment::Memory => memory.as_fd(),
                    Attachment::Kick(queue) => lines.get(usize::from(queue))?.kick.as_fd(),
                    Attachment::Call(queue) => lines.get(usize::from(queue))?.call.as_fd(),
                })
            });
            let fds: Vec<BorrowedFd<'_>> = fd.into_iter().collect();
            self.link.send(&bytes, &fds).map_err(|error| lost(&error.to_string()))?;
        }
        Ok(())
    }
}

fn lost(why: &str) -> Ending {
    Ending::Refused(why.to_owned())
}

impl Volume for Vhost {
    fn geometry(&self) -> Geometry {
        self.device.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let device = &self.device;
        let refused = |ending: String| OpenError::Refused { uri: device.uri(), ending };
        if device.has_closed() {
            return Err(refused("the device closed the connection".to_owned()));
        }
        let line = device.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(line) = line else {
            let count = device.queues;
            return Err(refused(format!("all {count} queues of the device are in use")));
        };
        let lane = VhostLane::new(core, Arc::clone(device), line);
        Ok(Box::new(lane.map_err(|error| refused(error.to_string()))?))
    }

    fn io_timeout(&self) -> Option<Nanos> {
        Some(proto::IO_TIMEOUT)
    }

    fn kind(&self) -> &'static str {
        "remote"
    }

    fn transport(&self) -> &'static str {
        "vhost-user"
    }

    fn ground(&self) -> Ground {
        Ground::Elsewhere
    }
}
