//! Whole arrays in virtual time: legs with volatile caches that fail and return, crashes at any
//! event, several lanes, and a model of the values that each read may return. Lone remote volumes
//! are simulated, too.
//!
//! A [`Story`] is a list of steps. [`Story::of_seed`] draws one; [`all_short`] enumerates all of up
//! to three steps.

mod disk;
mod lone;
mod model;
mod remote;
mod rig;
mod short;
mod story;

pub use self::short::{all_short, short_count};
pub use self::story::{Over, RemoteStory, Step, Story};

/// Result of a story without a violation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Client I/Os completed.
    pub ios: u64,
    happened: [u64; Happened::ALL.len()],
}

/// Kinds of events that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happened {
    Crash,
    CrashInResync,
    Torn,
    Failed,
    LostCache,
    FailedInResync,
    Sick,
    Unreadable,
    Refusing,
    Hung,
    Slow,
    RolledBack,
    Full,
    Returned,
    Left,
    Joined,
    GivenUp,
    ReadInResync,
    Grown,
    CutInGrowth,
    NotGrown,
}

impl Happened {
    const ALL: [(Happened, &'static str); 21] = [
        (Happened::Crash, "crashes"),
        (Happened::CrashInResync, "crashes in a resync"),
        (Happened::Torn, "torn pages"),
        (Happened::Failed, "legs that die"),
        (Happened::LostCache, "legs that lose their cache"),
        (Happened::FailedInResync, "legs that die in a resync"),
        (Happened::Sick, "legs that fail some writes"),
        (Happened::Unreadable, "unreadable blocks"),
        (Happened::Refusing, "legs that refuse some I/Os"),
        (Happened::Hung, "legs that hang"),
        (Happened::Slow, "legs that write late"),
        (Happened::RolledBack, "legs that go back to a snapshot"),
        (Happened::Full, "full legs"),
        (Happened::Returned, "legs that come back"),
        (Happened::Left, "times that legs were recorded as out"),
        (Happened::Joined, "times that legs were recorded as in again"),
        (Happened::GivenUp, "openings without a leg"),
        (Happened::ReadInResync, "reads in a resync"),
        (Happened::Grown, "arrays that grew"),
        (Happened::CutInGrowth, "crashes in a growth"),
        (Happened::NotGrown, "growths refused"),
    ];
}

impl Kept {
    fn add(&mut self, what: Happened) {
        self.add_all(what, 1);
    }

    fn add_all(&mut self, what: Happened, count: u64) {
        self.happened[what as usize] += count;
    }

    /// The count of each kind of event.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        Happened::ALL.iter().map(|(what, word)| (*word, self.happened[*what as usize])).collect()
    }
}

/// Runs a story; an error is the first violation.
pub fn run(story: &Story) -> Result<Kept, String> {
    if story.array { rig::run(story) } else { lone::run(story) }
}
