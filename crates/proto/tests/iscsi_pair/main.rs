//! iSCSI with both ends joined in memory, and each end against one that says what it likes.

mod command;
mod harness;
mod io;
mod raw;
