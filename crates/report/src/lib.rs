//! Show: renderings of a result, and of a run in progress.
//!
//! Every rendering is a pure function of a [`stats::RunResult`] or a [`stats::live::Snapshot`] into
//! a given writer; logs in fio's format are a function of [`stats::Record`]s. Other data cannot be
//! shown. [`chart`] and [`page`] show figures of any origin.

#![forbid(unsafe_code)]

pub mod activity;
mod asked;
mod bounds;
mod canvas;
pub mod chart;
pub mod compare;
mod connections;
mod digits;
mod direction;
mod ended;
pub mod failures;
mod figure;
pub mod fio;
#[cfg(test)]
mod forms;
#[cfg(test)]
mod generated;
mod group;
pub mod hlog;
mod hosts;
pub mod iometer;
mod job;
pub mod json;
mod jsonl;
pub mod junit;
mod keys;
pub mod line;
mod live;
pub mod others;
pub mod page;
pub mod pages;
mod painted;
mod part;
pub mod reason;
pub mod records;
pub mod rows;
#[cfg(test)]
mod sample;
mod screen;
mod silent;
pub mod sound;
mod style;
#[cfg(test)]
mod sums;
pub mod sweep;
pub mod targets;
pub mod text;
pub mod threshold;
pub mod watch;

pub use crate::figure::{bytes_per_second, size, span};
pub use crate::jsonl::JsonLines;
pub use crate::line::Lines;
pub use crate::live::{FullScreen, Wish, give_terminal_back};
pub use crate::painted::{Painted, printable_of};
pub use crate::silent::Silent;
pub use crate::style::{Color, Paint};
