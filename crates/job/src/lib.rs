//! What is to be done, as documents: jobs, presets, sweeps and traces, and the files of fio and
//! Iometer.
//!
//! A [`JobSpec`](spec::JobSpec) says who drives what and how, and can be kept, sent and run
//! again. [`formats`] reads and writes it in the words of other tools, [`presets`] has it by name,
//! [`sweep`] makes many of one, and a [`trace`] is I/Os that somebody did once. Nothing here opens
//! a volume, starts a thread or reads a clock: `load` runs what this crate describes.
#![forbid(unsafe_code)]

pub mod formats;
pub mod presets;
pub mod spec;
pub mod sweep;
pub mod trace;
