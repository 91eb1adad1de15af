//! Predict: what a system of parts will do, and whether a claim can be true.
//!
//! The crate `catalogue` holds figures, each with its source. An [`audit`] holds a claim against
//! the laws that need no model. Everything that queues is solved by `model`; what stands here turns
//! parts into stations and answers into words, and does no queueing arithmetic of its own.

#![forbid(unsafe_code)]

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
