//! Planted faults, to prove that the simulation finds them (mutation testing).
//!
//! Each is a mistake that was once made. Without the feature `plant`, [`planted`] is false at
//! compile time, so the code of a mistake is in no program.

/// A mistake that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Only the first and the last of the units with I/Os in flight are polled.
    PollFirstAndLast,
    /// Units are submitted to before they are polled: output that a poll queues waits.
    SubmitFirst,
    /// Units without I/Os in flight are not polled.
    ForgetIdle,
    /// The first and the last of the sockets that wait for a receive buffer are served repeatedly.
    RefillLastFirst,
    /// A core blocks in its loop until a volume's login is complete.
    OpenInLoop,
    /// Each request retries to open a volume that failed to open.
    ForgetFailure,
    /// After a failed accept the core does not wake to accept again.
    StayDeaf,
    /// A receive takes its buffer before data arrives.
    PinBuffers,
    /// A connection is served until it has no more data.
    ServeWhole,
    /// A server never returns memory.
    KeepMemory,
    /// A lane that lost its connection is never dropped.
    KeepBroken,
    /// The memory of connections is not limited.
    HoldAll,
    /// One host may take all connections.
    OneHostTakesAll,
    /// A login that takes the place of another session, or comes after one, does not wait for its
    /// I/Os.
    AnswerReinstatementEarly,
    /// An NVMe controller reports that it, or another one, was reset while its I/Os are executed.
    CompleteResetEarly,
    /// A failed flush concerns only the connection that it fails on.
    ForgetFailedFlush,
    /// I/Os in flight at the end of the window are in no figure.
    DropUnderWay,
    /// Latency counts from the actual start even if the planned one was earlier.
    WrongStart,
    /// A worker without a completion in a second is left out of its sums.
    LeaveOutStarved,
    /// The median of a window is the mean of its workers' medians.
    AveragePercentiles,
    /// Failed I/Os have latencies, too.
    ErrorsHaveLatencies,
    /// I/Os of a partial second are in no total.
    LoseSecond,
    /// Read data is not compared with written data.
    BelieveReads,
    /// Data is written before the map of an array is durable.
    MapAfterData,
    /// A write is acknowledged while a leg that missed it is still recorded as in.
    AckEarly,
    /// A syncing leg is read.
    ReadStale,
    /// A leg leaves an array in memory only.
    KeepGeneration,
    /// A flush of a mirror goes to one leg only.
    FlushOneLeg,
    /// A region becomes clean without a flush.
    CleanUnflushed,
    /// The resync copies regions without claiming them.
    CopyUnclaimed,
    /// A returning leg does not get the writes that it missed.
    JoinUnmapped,
    /// A returning leg is recorded as in before the copied data is flushed.
    JoinUnflushed,
    /// Pages of the map are written to one leg only.
    MapOnOneLeg,
    /// The first leg in the list counts as the newest.
    TrustFirst,
    /// A leg that dies while being recorded as in is not waited for until it is recorded as out.
    EnterUnseen,
    /// The new part of a growing array is not zeroed.
    GrowUnzeroed,
    /// A growing array records its new size before the new part is ready.
    GrowEarly,
    /// A leg joins while writes of its lost connection may still be executed.
    JoinWithoutFence,
    /// A lost connection forgets that acknowledged writes were not flushed.
    ReviveSilently,
    /// Each lane reports a loss, even if another lane has reported it.
    TellOnEachLane,
    /// Writes that a connection may have lost count as reported, if a flush of another connection
    /// has failed since it was opened.
    TellForOthers,
    /// A change is sent while an earlier one of its place is in doubt.
    SendOverDoubt,
    /// A leg's refusal fails the I/O though another leg has done it.
    RefuseForAll,
    /// The version of a map's page stays the same: an older image passes for the newest.
    TrustOldImage,
    /// A region that a crash left different is read before the legs are equal.
    ReadUnsettled,
    /// A leg that does not promise zeroes is trimmed as the others are.
    TrimUnzeroed,
    /// A leg that hangs is waited for without a limit.
    WaitForEver,
    /// Data are shown before this opening of an array is recorded on its legs.
    ShowUnrecorded,
    /// The last leg is used again without a check of its content.
    ReviveUnseen,
    /// The array stays without a connection to its last leg when that leg is there again.
    ReviveForClients,
    /// A check compares regions that are being written.
    CheckUnclaimed,
    /// A leg may reconnect on its own if it is deep inside another volume.
    NestReconnect,
    /// The draft of a lost rank is dropped.
    ForgetDraft,
    /// A silent rank is waited for without a limit.
    TrustSilence,
    /// A follower waits for a silent leader without a limit.
    TrustLeader,
    /// A clock is believed to be four times as close as the round trip shows.
    NarrowBound,
    /// All begin at one reading of their own clocks, whatever these read.
    ForgetOffset,
    /// Ranks that serve are told to end as soon as the first of the others has ended.
    ReleaseEarly,
}

impl Plant {
    /// Mistakes of measurements.
    pub const MEASURED: [Plant; 7] = [
        Plant::DropUnderWay,
        Plant::WrongStart,
        Plant::LeaveOutStarved,
        Plant::AveragePercentiles,
        Plant::ErrorsHaveLatencies,
        Plant::LoseSecond,
        Plant::BelieveReads,
    ];

    /// Mistakes of arrays.
    pub const KEPT: [Plant; 22] = [
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
        Plant::RefuseForAll,
        Plant::TrustOldImage,
        Plant::TrimUnzeroed,
        Plant::ReviveUnseen,
        Plant::ReadUnsettled,
        Plant::WaitForEver,
        Plant::ShowUnrecorded,
        Plant::CheckUnclaimed,
    ];

    /// Mistakes of arrays and remote volumes, seen over a network.
    pub const PARTED: [Plant; 10] = [
        Plant::JoinWithoutFence,
        Plant::ReviveSilently,
        Plant::TellOnEachLane,
        Plant::TellForOthers,
        Plant::SendOverDoubt,
        Plant::AnswerReinstatementEarly,
        Plant::CompleteResetEarly,
        Plant::ReviveUnseen,
        Plant::ReviveForClients,
        Plant::NestReconnect,
    ];

    /// Mistakes of fleets.
    pub const FLEET: [Plant; 6] = [
        Plant::ForgetDraft,
        Plant::TrustSilence,
        Plant::TrustLeader,
        Plant::NarrowBound,
        Plant::ForgetOffset,
        Plant::ReleaseEarly,
    ];

    /// Mistakes of servers.
    pub const SERVED: [Plant; 16] = [
        Plant::PollFirstAndLast,
        Plant::SubmitFirst,
        Plant::ForgetIdle,
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
        Plant::AnswerReinstatementEarly,
        Plant::CompleteResetEarly,
        Plant::ForgetFailedFlush,
    ];
}

#[cfg(feature = "plant")]
mod switch {
    use std::cell::Cell;

    use super::Plant;

    thread_local! {
        static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
    }

    /// Plants a mistake on this thread from now on, or none.
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
