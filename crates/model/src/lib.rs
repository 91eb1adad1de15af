//! Queueing models: the throughput and latency of systems of devices.
//!
//! A [`Network`] has stations (servers with a queue) and classes (routes with service times). One
//! description serves several methods: [`bounds`](laws::bounds), computed instantly; [`solve`], for
//! means by queueing theory; and discrete-event simulation by [`simulate`], for results beyond
//! theory: percentiles, stations held while others work, forks, state. An [`Emulation`] runs the
//! simulation in its caller's time. This crate has no knowledge of hardware, does no I/O and reads
//! no clock.
//!
//! The model and its limits are described on two pages: `docs/model.md`.
//!
//! ```
//! use model::{Class, Method, Network, Run, Service, Station, laws, simulate, solve};
//!
//! # fn main() -> Result<(), model::ModelError> {
//! let mut network = Network::default();
//! let cores = network.add_station(Station::servers("cores", 8));
//! let drive = network.add_station(Station::servers("drive", 1));
//! network.add_class(
//!     Class::closed("read", 32)
//!         .visit(cores, Service::exponential(6.6e-6))
//!         .visit(drive, Service::exponential(1.0 / 35e3)),
//! );
//! let bounds = laws::bounds(&network)?;
//! assert_eq!(bounds.classes[0].bottleneck, Some(drive));
//! let theory = solve(&network, Method::Auto)?;
//! assert!(theory.throughput_per_s() <= bounds.throughput_per_s_high);
//! let run = Run { seed: 1, warmup: 1_000, requests: 20_000 };
//! let simulated = simulate(&network, run, |_done| ())?;
//! assert!(simulated.throughput_per_s[0].holds(theory.throughput_per_s()));
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

pub mod device;
pub mod fit;
pub mod laws;
pub mod usl;

mod check;
mod dist;
mod error;
mod head;
mod network;
mod queue;
mod simulate;
mod solve;
mod time;

pub use dist::{Service, Shape};
pub use error::ModelError;
pub use head::{Extent, Head};
pub use network::{
    Class, ClassId, Network, Reserve, Servers, Source, Station, StationId, Step, Visit,
};
pub use simulate::{Completion, Emulation, Estimate, Run, Simulated, simulate};
pub use solve::{Caveat, ClassResult, Method, Solution, StationResult, solve};
pub use time::Picos;
