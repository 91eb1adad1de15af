//! iSCSI, both ends, according to RFC 7143 at error recovery level 0 with one connection per
//! session.
//!
//! [`IscsiTarget`] answers from a [`Directory`] of logical units; [`IscsiInitiator`] makes a volume
//! of one remote logical unit; [`Discovery`] lists a portal's targets. The owner of the socket
//! drives all three.

mod chap;
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

pub use chap::{Chap, Proof};
pub use directory::{Directory, DirectoryError, TargetEntry};
pub use discovery::Discovery;
pub use initiator::{InitiatorConfig, IscsiInitiator, new_isid};
pub use name::{NameError, check_name};
pub use target::{IscsiTarget, Stage, TargetConfig};
