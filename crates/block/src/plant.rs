//! Faults that are planted on purpose, to prove that the simulation finds them.
//!
//! Each is a mistake that was once made. Without the feature `plant` the question is answered no
//! at compile time, so the code of a mistake is in no program.

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Of the units with I/Os in flight only the first and the last are polled.
    PollFirstAndLast,
    /// Of the sockets that wait for a receive buffer the first and the last are served again and
    /// again.
    RefillLastFirst,
    /// A core waits in its loop until a volume's other end has let it in.
    OpenInLoop,
    /// A volume that could not be opened is tried anew by each request.
    ForgetFailure,
    /// After an accept that failed the core does not wake to accept again.
    StayDeaf,
    /// A receive takes its buffer before there are data.
    PinBuffers,
    /// A connection is served until nothing more has come.
    ServeWhole,
    /// What a server needed once, it keeps.
    KeepMemory,
    /// A lane whose way is lost is kept for ever.
    KeepBroken,
    /// The bytes that connections hold are not limited.
    HoldAll,
    /// One host may take all places.
    OneHostTakesAll,
    /// What is in flight when the window ends is in no figure.
    DropUnderWay,
    /// A latency counts from the actual start where the planned one was before it.
    WrongStart,
    /// A worker that finished nothing in a second is in none of its sums.
    LeaveOutStarved,
    /// The median of a window is the mean of those of its workers.
    AveragePercentiles,
    /// An I/O that failed has a latency as well.
    ErrorsHaveLatencies,
    /// What was done in a second that is no whole one is in no total.
    LoseSecond,
    /// What a read returned is not held against what was written.
    BelieveReads,
    /// Data are written before the map of an array is durable.
    MapAfterData,
    /// A write to an array is told as done while a leg that missed it is still recorded as in.
    AckEarly,
    /// A leg that is being made equal is read.
    ReadStale,
    /// A leg leaves an array in memory only.
    KeepGeneration,
    /// A flush of a mirror goes to one leg only.
    FlushOneLeg,
    /// A region becomes clean without a flush.
    CleanUnflushed,
    /// Regions are copied while they are written.
    CopyUnclaimed,
    /// What a leg missed is not copied to it.
    JoinUnmapped,
    /// What was copied to a leg is not flushed before it is in.
    JoinUnflushed,
    /// Pages of the map are written to one leg only.
    MapOnOneLeg,
    /// The leg that is named first counts as the newest.
    TrustFirst,
    /// A leg that dies while it is recorded as in is not waited for until it is recorded as out.
    EnterUnseen,
    /// What comes to an array that grows is not made zero.
    GrowUnzeroed,
    /// An array that grows says so before it has its new part.
    GrowEarly,
}

impl Plant {
    /// Those of what is measured.
    pub const MEASURED: [Plant; 7] = [
        Plant::DropUnderWay,
        Plant::WrongStart,
        Plant::LeaveOutStarved,
        Plant::AveragePercentiles,
        Plant::ErrorsHaveLatencies,
        Plant::LoseSecond,
        Plant::BelieveReads,
    ];

    /// Those of arrays.
    pub const KEPT: [Plant; 14] = [
        Plant::MapAfterData,
        Plant::AckEarly,
        Plant::ReadStale,
        Plant::KeepGeneration,
        Plant::FlushOneLeg,
        Plant::CleanUnflushed,
        Plant::CopyUnclaimed,
        Plant::JoinUnmapped,
        Plant::JoinUnflushed,
        Plant::MapOnOneLeg,
        Plant::TrustFirst,
        Plant::EnterUnseen,
        Plant::GrowUnzeroed,
        Plant::GrowEarly,
    ];

    /// Those of servers.
    pub const SERVED: [Plant; 11] = [
        Plant::PollFirstAndLast,
        Plant::RefillLastFirst,
        Plant::OpenInLoop,
        Plant::ForgetFailure,
        Plant::StayDeaf,
        Plant::PinBuffers,
        Plant::ServeWhole,
        Plant::KeepMemory,
        Plant::KeepBroken,
        Plant::HoldAll,
        Plant::OneHostTakesAll,
    ];
}

#[cfg(feature = "plant")]
mod switch {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a mistake in what this thread does from now on, or none.
    pub fn plant(plant: Option<Plant>) {
        PLANTED.set(plant);
    }

    /// Whether this mistake is planted.
    pub fn planted(plant: Plant) -> bool {
        PLANTED.get() == Some(plant)
    }
}

#[cfg(not(feature = "plant"))]
mod switch {
    use super::Plant;

    /// Whether this mistake is planted: never, in this build.
    #[inline(always)]
    pub const fn planted(_: Plant) -> bool {
        false
    }
}

pub use switch::*;
