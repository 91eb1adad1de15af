//! The vocabulary of block I/O, shared by all other crates.
//!
//! A [`Lane`] is one core's queue to a volume. An [`Io`] goes in with its buffer, and is returned
//! as exactly one [`Done`]. This crate does no I/O, reads no clock and has no protocols.

mod account;
mod activity;
mod allocation;
mod backing;
mod budget;
mod buf;
mod chain;
mod connection;
mod copy;
mod count;
mod edges;
mod geometry;
mod immediate;
mod io;
mod kept;
mod landing;
mod lane;
mod lap;
mod memory;
mod near;
mod pages;
mod plant;
mod pool;
mod random;
mod size;
mod text;
mod time;
mod window;
mod zone;

pub use account::Account;
pub use activity::{Activity, Doing, Stretch};
pub use allocation::{Allocation, Extent, Extents, extents_of};
pub use backing::{BACKING_BYTES_MAX, Backing};
pub use budget::Budget;
pub use buf::{Arena, ArenaHold, Buf};
pub use chain::{Chain, Piece};
pub use connection::Connection;
pub use copy::prefetch_value;
pub use count::Count;
pub use edges::{EDGES, EDGES_NS, bucket_of};
pub use geometry::Geometry;
pub use immediate::{Ahead, Batch, Change, Immediate};
pub use io::{Cause, Done, Fault, Io, Op, Tag};
pub use kept::Memories;
pub use landing::Landing;
pub use lane::{Lane, idle_look};
pub use lap::Lap;
pub use memory::{CopyAhead, Memory};
pub use near::{hint, mistakes, nearest};
pub use plant::*;
pub use pool::Pool;
pub use random::{Rng, splitmix};
pub use size::{Rate, SizeError, parse_size, print_size};
pub use text::{Text, printable, steers};
pub use time::Nanos;
pub use window::Window;
pub use zone::{Zone, Zones};
