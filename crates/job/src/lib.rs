//! Documents of work: jobs, presets, sweeps and traces, and the files of fio and Iometer.
//!
//! A [`JobSpec`](spec::JobSpec) describes workers, volumes and workloads, and can be saved, sent
//! and run again. [`formats`] reads and writes jobs in the formats of other tools, [`presets`] has
//! jobs by name, [`sweep`] derives many from one, and a [`trace`] is recorded I/O. Nothing here
//! opens a volume, starts a thread or reads a clock: `load` runs the jobs of this crate.
#![forbid(unsafe_code)]

pub mod formats;
pub mod presets;
pub mod spec;
pub mod sweep;
pub mod trace;
