//! iSCSI with both ends joined in memory.

mod harness;
mod io;
