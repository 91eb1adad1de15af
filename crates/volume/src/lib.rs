//! Volumes. [`open`] opens one; a [`Volume`] then gives each core a [`Lane`].
#![forbid(unsafe_code)]

pub mod array;
mod aside;
mod call;
mod chap;
pub mod delay;
mod dial;
mod events;
mod fault;
mod file;
mod ground;
mod guard;
mod hidden;
mod hold;
mod lifetime;
mod losses;
mod many;
pub mod mark;
mod mirror;
mod null;
mod ram;
pub mod remote;
mod sample;
mod striped;
mod sync;
mod timed;
mod uri;
mod vhost;
mod watch;

use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use block::{Allocation, Backing, Extents, Geometry, Lane, Memory, Nanos, print_size};
use os::Core;
use os::cgroup::MemoryRoom;

pub use crate::chap::read_chap;
pub use crate::dial::{discover_iscsi, discover_nbd, discover_nvme};
pub use crate::fault::try_schedule;
pub use crate::ground::{FileGround, Ground, Leaf, Looked, SAMPLES, Several};
pub use crate::guard::{is_named, may_destroy};
pub use crate::hidden::Hidden;
pub use crate::hold::Locks;
pub use crate::lifetime::{DataLocation, Lifetime};
pub use crate::many::{await_open, open_all};
pub use crate::sample::sample;
pub use crate::timed::{TimedReads, Timing, time_reads};
pub use crate::uri::{ArrayUri, FileUri, IscsiUri, NbdUri, NvmeUri, Session, Uri, UriError};

/// Decides whether targets solicit the data of a volume's writes.
pub trait Gate: Send + Sync {
    /// Whether the gate withholds R2Ts at this time.
    fn is_shut(&self, now: Nanos) -> bool;
}

/// A volume: block storage of some kind.
pub trait Volume: Send + Sync {
    /// Geometry of the volume.
    fn geometry(&self) -> Geometry;

    /// Geometry for peers that count in bytes: the exact size, also of an image whose size is no
    /// multiple of the block. Other peers see the last block padded with zeroes, and cannot write
    /// that block.
    fn byte_geometry(&self) -> Geometry {
        self.geometry()
    }

    /// Opens a core's lane to the volume. May block, at most for the timeout of a login.
    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError>;

    /// Starts to open a lane, without blocking on name resolution or connections. The lane can be
    /// used when it is [open](Lane::is_open), and is [broken](Lane::broken) if the opening failed;
    /// until then poll the lane when it [wakes](Lane::wake). [`await_open`] waits for many lanes.
    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.lane(core)
    }

    /// Volumes below this one, if any; properties that this volume does not define are theirs.
    fn below(&self) -> Vec<&dyn Volume> {
        Vec::new()
    }

    /// Gate that withholds the targets' R2Ts; most volumes have none.
    fn gate(&self) -> Option<Arc<dyn Gate>> {
        None
    }

    /// Like [`begin_lane`](Self::begin_lane), with hints for the kernel, for a file or device in
    /// the page cache.
    fn hinted_lane(&self, core: &Core, _: Hints) -> Result<Box<dyn Lane>, OpenError> {
        self.begin_lane(core)
    }

    /// Reads a range of the volume into the page cache, if the volume uses the cache. Ends early
    /// when `goes_on` says no. Returns the bytes read.
    /// # Errors
    ///
    /// Errors of the file.
    fn read_in(&self, _: Range<u64>, _goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        Ok(0)
    }

    /// Whether a flush on one lane covers writes that completed on other lanes. If not, data may be
    /// stored through one lane only.
    fn flushes_all(&self) -> bool {
        self.below().iter().all(|volume| volume.flushes_all())
    }

    /// Kind of the volume in one or two words: "RAM", "file".
    fn kind(&self) -> &'static str;

    /// The transport of its I/Os: "local", "iSCSI", "NVMe/TCP".
    fn transport(&self) -> &'static str {
        self.below().first().map_or("local", |volume| volume.transport())
    }

    /// Backing store of the volume, as far as a server may report it to peers: that of the part
    /// whose backing store is the least certain.
    fn backing(&self) -> Backing {
        let parts = self.below().into_iter().map(|volume| volume.backing());
        parts.reduce(Backing::with).unwrap_or_default()
    }

    /// Emulated drive and the quality of its calibration, or the injected faults, in a sentence;
    /// `None` for a medium or memory.
    fn emulates(&self) -> Option<String> {
        self.backing().imitates().map(str::to_owned)
    }

    /// Remarks that a user should know before using the volume, a sentence each: a file system
    /// without locks, a padded last block.
    fn remarks(&self) -> Vec<String> {
        self.below().into_iter().flat_map(|volume| volume.remarks()).collect()
    }

    /// Faults injected so far and other events of this volume alone, a sentence each.
    fn own_incidents(&self) -> Vec<String> {
        Vec::new()
    }

    /// Events of this volume and of its inner volumes, in a sentence; `None` if there are none.
    fn incidents(&self) -> Option<String> {
        let mut all = self.own_incidents();
        all.extend(self.below().into_iter().filter_map(|volume| volume.incidents()));
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Failures below the volume that may not have failed any I/O.
    fn hidden(&self) -> Vec<Hidden> {
        self.below().into_iter().flat_map(|volume| volume.hidden()).collect()
    }

    /// Events of its legs since the last call, a line each, for the server's log.
    fn news(&self) -> Vec<String> {
        self.below().into_iter().flat_map(|volume| volume.news()).collect()
    }

    /// Time-out of an I/O on its lanes, the longest of all; `None` if the system below decides.
    fn io_timeout(&self) -> Option<Nanos> {
        self.below().into_iter().filter_map(|volume| volume.io_timeout()).max()
    }

    /// Time after the opening in which unanswered changes of an earlier process may still be
    /// executed; zero if none can.
    fn fence_time(&self) -> Nanos {
        self.below().into_iter().map(|volume| volume.fence_time()).max().unwrap_or(Nanos(0))
    }

    /// Backing store of the data.
    fn ground(&self) -> Ground {
        Ground::Elsewhere
    }

    /// Holes of the volume, for a server to report; `None` if they are not known.
    fn extents(&self) -> Option<Arc<dyn Extents>> {
        None
    }

    /// The target's report on ranges of whole blocks: holes, and zeroes that need no medium.
    /// `None` of a volume that is not remote, or if the protocol or the target has no answer. May
    /// block for seconds; the answer may be of a part of the ranges.
    ///
    /// # Errors
    ///
    /// There is no connection, or the target breaks the rules of the protocol.
    fn allocation(&self, _ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        Ok(None)
    }

    /// The volume's bytes, if they are memory of this process and nothing is in between: a server
    /// may access them without a lane.
    fn memory(&self) -> Option<Memory> {
        None
    }
}

/// Hints for the kernel when a lane of a file is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// Drop the file's cached pages first.
    pub drop_cached: bool,
    /// Access is random (true) or sequential (false).
    pub random: Option<bool>,
}

/// The purpose of opening a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Read the volume.
    Read,
    /// Overwrite the volume, if it holds no data.
    Write,
    /// Overwrite the volume, whatever data it holds.
    Destroy,
    /// Store clients' data.
    Store,
}

impl Purpose {
    /// Whether anything will be written.
    pub fn writes(self) -> bool {
        self != Purpose::Read
    }
}

/// Opens the volume that `uri` names.
pub fn open(uri: &Uri, purpose: Purpose) -> Result<Arc<dyn Volume>, OpenError> {
    Ok(match uri {
        Uri::Null { .. } if purpose == Purpose::Store && uri.calls_on_files() => {
            return Err(OpenError::Calls(uri.to_string()));
        }
        Uri::Null { bytes, block_bytes, call } => {
            call.iter().try_for_each(|call| call.ask(*bytes))?;
            Arc::new(null::Null { call: call.clone(), ..null::Null::new(*bytes, *block_bytes) })
        }
        Uri::Ram { bytes, block_bytes, fill, .. } => {
            Arc::new(ram::Ram::new(*bytes, *block_bytes, *fill)?)
        }
        Uri::File(file) => Arc::new(file::FileVolume::open(file, purpose)?),
        Uri::Delay { profile, inner } => {
            Arc::new(delay::Delay::open(profile, open(inner, purpose)?)?)
        }
        Uri::Stripe { chunk_bytes, parts } => {
            all_differ(parts)?;
            let wanted: Vec<(Uri, Purpose)> =
                parts.iter().map(|part| (part.clone(), purpose)).collect();
            Arc::new(striped::Striped::whole(open_all(&wanted)?, *chunk_bytes)?)
        }
        Uri::Mirror { legs } => {
            all_differ(legs)?;
            let wanted: Vec<(Uri, Purpose)> =
                legs.iter().map(|leg| (leg.clone(), purpose)).collect();
            let names = legs.iter().map(Uri::to_string).collect();
            Arc::new(mirror::Mirror::open(open_all(&wanted)?, names, purpose)?)
        }
        Uri::Array(array) => {
            all_differ(&array.legs)?;
            Arc::new(array::ArrayVolume::open(array, purpose)?)
        }
        Uri::Fault { schedule, inner } => {
            Arc::new(fault::Faulty::open(schedule, open(inner, purpose)?)?)
        }
        Uri::Iscsi(iscsi) => Arc::new(remote::Remote::open(dial::IscsiDial::new(iscsi.clone()))?),
        Uri::Nbd(nbd) => Arc::new(remote::Remote::open(nbd.clone())?),
        Uri::VhostUser { path } => Arc::new(vhost::Vhost::open(path)?),
        Uri::Nvme(nvme) => Arc::new(remote::Remote::open(dial::NvmeDial::open(nvme)?)?),
    })
}

/// Refuses the same data twice in one volume: a write to one part would appear in the other.
fn all_differ(parts: &[Uri]) -> Result<(), OpenError> {
    let places: Vec<_> = parts.iter().map(|part| (part, DataLocation::of(part))).collect();
    for (index, (part, place)) in places.iter().enumerate() {
        let same = |(_, other): &&(&Uri, Option<DataLocation>)| match (place, other) {
            (Some(place), Some(other)) => place.overlaps(other),
            _ => false,
        };
        if let Some((other, _)) = places[..index].iter().find(same) {
            return Err(OpenError::SameData(other.to_string(), part.to_string()));
        }
    }
    Ok(())
}

/// Stripes several volumes (RAID-0): stripes of `stripe_bytes` over the first `share_bytes` of
/// each, or over the size of the smallest.
///
/// # Errors
///
/// No stripe fits on each volume, or a stripe is not a multiple of their blocks.
pub fn striped(
    parts: Vec<Arc<dyn Volume>>,
    stripe_bytes: u64,
    share_bytes: Option<u64>,
) -> Result<Arc<dyn Volume>, OpenError> {
    Ok(Arc::new(striped::Striped::new(parts, stripe_bytes, share_bytes)?))
}

/// Concatenates several volumes. Each begins at a multiple of the whole's size divided by their
/// number; offsets past the end of a shorter one are invalid.
///
/// # Errors
///
/// One of the volumes has no blocks.
pub fn joined(parts: Vec<Arc<dyn Volume>>) -> Result<Arc<dyn Volume>, OpenError> {
    Ok(Arc::new(striped::Striped::joined(parts)?))
}

/// Why a volume could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel refused a file.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file of secrets cannot be used.
    #[error("{0}")]
    Secret(String),
    /// The file holds data that the job would overwrite.
    #[error(
        "{path} holds data: give --destroy to overwrite it",
        path = .0.display()
    )]
    HoldsData(PathBuf),
    /// The device holds data that the job would overwrite, or may hold such data.
    #[error(
        "{path} is a device that holds {what}: give --destroy={path} to overwrite it{serial}",
        path = path.display(),
        serial = serial.as_ref().map(|s| format!(", or --destroy={s}")).unwrap_or_default()
    )]
    Precious {
        /// The device.
        path: PathBuf,
        /// Content of the device, such as "a GPT partition table".
        what: String,
        /// Serial number of the device.
        serial: Option<String>,
    },
    /// Another process uses the device.
    #[error(
        "{path} is in use and will not be written: {by}; unmount it, or stop the process that \
        has it open",
        path = path.display()
    )]
    InUse {
        /// The device.
        path: PathBuf,
        /// Process that uses the device.
        by: String,
    },
    /// Another owner has the file or device open.
    #[error(
        "{path} is in use: {by} {does} it; close it there, or add ?lock=off to the URI if both \
        may use it at once",
        path = path.display(),
        does = if *writes { "writes" } else { "reads" }
    )]
    Locked {
        /// The file or device.
        path: PathBuf,
        /// Description of the owner.
        by: String,
        /// Whether the owner writes.
        writes: bool,
    },
    /// The profile of an emulated drive cannot be used.
    #[error(transparent)]
    Profile(delay::ProfileError),
    /// A leg of a plain mirror outlives the mirror.
    #[error(
        "mirror: {0} outlives the mirror, but a plain mirror does not save which legs are stale: \
        after a restart it could read from a stale leg. Serve a mirror of ram: volumes or an \
        array:, or drive this mirror with `drumfire run`"
    )]
    Forgets(String),
    /// The volume's I/Os are metadata calls on files, which clients of a server may not make.
    #[error("{0}: metadata engine: only `drumfire run --destroy` supports it")]
    Calls(String),
    /// The legs make no array.
    #[error(transparent)]
    Array(#[from] array::ArrayError),
    /// A leg of an array cannot be used.
    #[error("{leg}: {why}")]
    Leg {
        /// The leg.
        leg: String,
        /// Reason of the failure.
        why: String,
    },
    /// The fault schedule cannot be used.
    #[error("fault schedule {name}: {reason}")]
    Schedule {
        /// The name as given.
        name: String,
        /// The problem and its fix.
        reason: String,
    },
    /// The file or device does not support polled I/O.
    #[error("{path}: {why}", path = path.display())]
    Polling {
        /// The file or device.
        path: PathBuf,
        /// Reason and remedy.
        why: String,
    },
    /// Two parts of a volume are the same.
    #[error("{0} and {1} are the same data: name each part once")]
    SameData(String, String),
    /// Smaller than a block.
    #[error("{0} is smaller than one block of {1} bytes")]
    TooSmall(String, u32),
    /// Not enough memory.
    #[error(
        "{wanted} of memory are needed, {available} are available{why}: make the volume smaller",
        wanted = print_size(*wanted),
        available = print_size(room.available_bytes >> 20 << 20),
        why = room.limit.as_ref().map_or(String::new(), |limit| format!(" ({limit})"))
    )]
    NoMemory {
        /// Memory in use by the volume, and by all other RAM volumes of this process.
        wanted: u64,
        /// On this host, or in this cgroup.
        room: MemoryRoom,
    },
    /// The system refused memory.
    #[error("no memory: {0}{limit}", limit = os::address_limit_words().unwrap_or_default())]
    Memory(io::Error),
    /// The connection failed.
    #[error("cannot connect to {address}: {error}{remedy}", remedy = os::files_remedy(error))]
    Connect {
        /// The address.
        address: String,
        /// Error of the connection.
        error: io::Error,
    },
    /// The target refused the connection, or speaks another protocol.
    #[error("{uri}: {ending}")]
    Refused {
        /// The volume.
        uri: String,
        /// Response of the target, or the violation of the protocol.
        ending: String,
    },
    /// The target sends the login to another address, and has done so before.
    #[error("{uri}: {ending}")]
    Moved {
        /// The volume.
        uri: String,
        /// Host and port of the other address.
        address: String,
        /// Response of the target.
        ending: String,
    },
}
