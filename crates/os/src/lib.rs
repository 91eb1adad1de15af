//! Linux: one io_uring reactor per core with sockets, files and a clock, and system counters. No
//! protocols.
//!
//! This is the only crate that calls io_uring. The ring owns buffers passed to the kernel until
//! their completion, so no caller can free or touch them too early.
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod addresses;
mod aio;
mod cached;
mod calls;
pub mod cgroup;
mod clock;
mod companion;
mod connecting;
mod core;
pub mod counters;
pub mod cpu;
mod crowd;
mod device;
mod direct;
mod echo;
mod errno;
mod event;
mod extents;
mod file;
mod folder;
mod fuse;
mod fuse_ring;
mod guest;
mod heat;
mod image_lock;
pub mod kernel_files;
mod listener;
mod mount;
pub mod namespaces;
mod new_file;
mod open;
mod passthrough;
mod pipe;
mod polled;
pub mod port;
mod progress;
mod random;
mod reactor;
mod receive;
mod record;
mod reference;
mod refill;
mod rest;
mod ring;
pub mod sample;
mod scheduling;
mod secret_file;
mod segments;
mod shared_memory;
mod signals;
mod socket;
mod stack;
mod ublk;
mod ublk_control;
mod unix;
mod wait;
mod waker;
pub mod wall;
mod watch;
mod wear;
mod words;
mod zones;

pub use crate::clock::Clock;
pub use crate::companion::{Companion, Job, SharedCompanion, SharedThread, SharedTime, Turned};
pub use crate::connecting::Connecting;
pub use crate::core::{Core, Token};
pub use crate::device::{Device, DeviceCounters, DeviceSettings, file_system};
pub use crate::echo::program_round_trip;
pub use crate::errno::{address_limit_words, errno_words, files_remedy, is_full, is_protected};
pub use crate::event::{Event, EventSet};
pub use crate::extents::{Extents, cached_bytes, next_data};
pub use crate::file::{File, FileDone, FileOp, FileOpKind};
pub use crate::folder::{
    Draft, Entry, FileAbout, FileId, FileKind, Folder, append_to, handle_path, new_file, to_write,
    trusted_place, update,
};
pub use crate::fuse::FuseChannel;
pub use crate::fuse_ring::{FuseMessage, FuseRing};
pub use crate::heat::Pace;
pub use crate::image_lock::{ImageLock, LockError};
pub use crate::listener::{Listener, listen};
pub use crate::new_file::NewFile;
pub use crate::open::{FileState, O_DIRECT, OpenFile, allocate};
pub use crate::passthrough::{Namespace, NvmeStatus, block_twin};
pub use crate::polled::{Polling, io_workers, poll_threads};
pub use crate::progress::{keep_unsent, peer_room_until};
pub use crate::random::random;
pub use crate::reactor::{Reactor, ReactorListener, ReactorSocket, ReactorStream};
pub use crate::refill::{Arming, Refill};
pub use crate::rest::{IdleState, Rest, idle_driver};
pub use crate::ring::{Features, OpenRingError};
pub use crate::scheduling::Scheduling;
pub use crate::secret_file::read_secret;
pub use crate::segments::{Segments, own_segments};
pub use crate::shared_memory::{ShareError, map_shared, share_memory};
pub use crate::signals::heed_signals;
pub use crate::socket::{Chunk, End, Socket, connect};
pub use crate::stack::{ATTACHED, Stack};
pub use crate::ublk::{UblkOp, UblkQueue, UblkRequest};
pub use crate::ublk_control::{UblkControl, UblkDevice, UblkInfo, UblkShape, UblkWish};
pub use crate::unix::{UnixLink, UnixPort};
pub use crate::waker::Waker;
pub use crate::words::Words;
pub use crate::zones::{reset_zone, zones_of};
