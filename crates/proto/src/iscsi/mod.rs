//! iSCSI, both ends, as RFC 7143 has it at error recovery level 0 with one connection a session.
//!
//! [`IscsiTarget`] answers from a [`Directory`] of logical units; [`IscsiInitiator`] makes a volume
//! out of one logical unit elsewhere; [`Discovery`] asks a portal which targets it has. All three
//! are fed by whoever owns the socket.

mod directory;
mod discovery;
mod frame;
mod initiator;
mod name;
mod negotiate;
mod params;
pub mod pdu;
mod target;
mod text;

pub use directory::{Directory, DirectoryError, TargetEntry};
pub use discovery::Discovery;
pub use initiator::{InitiatorConfig, IscsiInitiator, new_isid};
pub use name::{NameError, check_name};
pub use target::{IscsiTarget, Stage, TargetConfig};
