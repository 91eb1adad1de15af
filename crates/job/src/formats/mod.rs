//! Job files of other tools, read as jobs of ours.
//!
//! No file is run if it is understood in part only: an error names file, line and the offending
//! text, and a [`Reading`] lists settings that were refused, have a different effect, or have none.

pub mod fio;
pub mod icf;
mod note;
mod reading;
mod surroundings;

pub use note::{FormatError, Location, Note, Treatment};
pub use reading::{Reading, Remote, Storage};
pub use surroundings::{FILE_MAX_BYTES, Surroundings, open_file, read_old_text, read_text};
