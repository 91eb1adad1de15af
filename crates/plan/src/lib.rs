//! Predicts the performance of a storage system from its parts, and audits performance claims.
//!
//! The crate `catalogue` has the figures of parts, each with its source. [`audit`] checks a claim
//! with laws that need no queueing model. `model` solves the queueing networks; this crate converts
//! a bill of material to a network, and its solution to IOPS, latencies and text.

#![forbid(unsafe_code)]

pub mod answer;
pub mod audit;
pub mod bill;
pub mod calibrate;
pub mod chance;
pub mod claim;
pub mod compare;
pub mod cost;
pub mod database;
pub mod evidence;
pub mod expression;
pub mod mixed;
pub mod predict;
pub mod search;
pub mod simulate;
pub mod size;
pub mod surface;
pub mod system;
pub mod verify;

mod wire;
