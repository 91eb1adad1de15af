//! iSCSI with both ends joined in memory, and each end against a scripted peer.

mod allocation;
mod bonds;
mod bugs;
mod chap;
mod check;
mod comeback;
mod command;
mod control;
mod copy;
mod data_out;
mod discovery;
mod doubt;
mod harness;
mod hogs;
mod initiator;
mod io;
mod login;
mod manage;
mod opening;
mod played;
mod random;
mod raw;
mod renewal;
mod reserve;
mod stops;
mod unanswered;
