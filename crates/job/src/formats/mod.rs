//! Job files of other tools, read as jobs of ours.
//!
//! A file is never run half understood: an error names file, line and the offending text, and a
//! [`Reading`] says which settings were refused, come out differently, or do not matter.

pub mod fio;
pub mod icf;
mod note;
mod reading;
mod surroundings;

pub use note::{FormatError, Location, Note, Treatment};
pub use reading::{Reading, Remote, Storage};
pub use surroundings::{FILE_MAX_BYTES, Surroundings, open_file, read_old_text, read_text};
