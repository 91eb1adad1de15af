//! Whole arrays in virtual time: legs with caches that are lost, that fail and come back, crashes
//! at any event, several lanes, and a model that knows what each read may bring.
//!
//! A [`Story`] is a list of steps. [`Story::of_seed`] draws one; [`all_short`] are all of up to
//! three steps.

mod disk;
mod model;
mod rig;
mod short;
mod story;

pub use self::short::{all_short, short_count};
pub use self::story::{Step, Story};

/// What came of a story that holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// I/Os of clients that were answered.
    pub ios: u64,
    /// Times that the array was opened again after a crash.
    pub crashes: u64,
    /// Regions that were behind when it was.
    pub behind: u64,
}

/// Runs a story; what went wrong, if anything did.
pub fn run(story: &Story) -> Result<Kept, String> {
    rig::run(story)
}
