//! NBD (Network Block Device): fixed newstyle negotiation, then simple or structured replies.
//! One metadata context: `base:allocation`. Without TLS and extended headers.

mod discovery;
mod export;
mod initiator;
mod target;
mod wire;

pub use discovery::NbdDiscovery;
pub use export::{NbdExport, NbdExports, NbdExportsError};
pub use initiator::{NbdConfig, NbdInitiator};
pub use target::{NbdTarget, NbdTargetConfig};

/// Longest name of an export, in bytes.
//= NBD §Values: strings are at most 4096 bytes.
pub const EXPORT_MAX_BYTES: usize = 4096;
