//! The keeper's job that makes membership durable: each change is a new generation.
//!
//! A failed leg is recorded as out on all remaining legs before any write that it missed is
//! acknowledged. A leg that fails during this is left out by the next generation, too.

use block::{Nanos, Op, Plant, Rng, planted};

use super::port::{Deed, Job, Port, legs};
use super::superblock::{Generation, LegState, Member, Superblock};
use crate::mirror::Rules;

/// Delay before a superblock that no leg accepts is retried.
const PAUSE: Nanos = Nanos::from_millis(100);

pub(super) struct Recorder {
    job: Job,
    /// Last generation started; some leg may hold it.
    block: Superblock,
    /// The superblock is on all legs that are in.
    durable: bool,
    /// For each leg the offsets of its superblocks, the next to be written first.
    places: Vec<[u64; 2]>,
    /// Last generation that each leg certainly holds.
    stands: Vec<Generation>,
    phase: Phase,
    wish: Option<(usize, LegState)>,
    retry_at: Nanos,
    /// The last attempt reached no leg that is in.
    failed: bool,
    /// Number of returns of the last leg when the attempt began.
    renewals: u32,
    rng: Rng,
}

#[derive(Clone, Copy)]
enum Phase {
    Idle,
    First,
    Second { bad: u32 },
}

impl Recorder {
    /// Starts to record a new generation. `places` are the offsets of each leg's superblocks in the
    /// order of writing; `stands` are the generations that the legs hold.
    pub(super) fn new(
        job: Job,
        mut block: Superblock,
        (places, stands): (Vec<[u64; 2]>, Vec<Generation>),
        rng: Rng,
    ) -> Recorder {
        // A leg that was syncing when the process died starts over.
        for member in block.members.iter_mut().filter(|one| one.state == LegState::Syncing) {
            member.state = LegState::Out;
        }
        let (phase, wish, retry_at) = (Phase::Idle, None, Nanos(0));
        let (durable, failed, renewals) = (false, false, 0);
        Recorder {
            job,
            block,
            durable,
            places,
            stands,
            phase,
            wish,
            retry_at,
            failed,
            renewals,
            rng,
        }
    }

    /// The superblock that is on the legs, or being written.
    pub(super) fn block(&self) -> &Superblock {
        &self.block
    }

    /// Offsets of a leg's superblocks.
    pub(super) fn places(&self, leg: usize) -> [u64; 2] {
        self.places[leg]
    }

    /// Last generation that a leg certainly holds.
    pub(super) fn stands(&self, leg: usize) -> Generation {
        self.stands[leg]
    }

    /// Whether the superblock is on all legs that are in.
    pub(super) fn is_durable(&self) -> bool {
        self.durable && self.wish.is_none() && matches!(self.phase, Phase::Idle)
    }

    /// Requests a new state of a member.
    pub(super) fn wish(&mut self, leg: usize, state: LegState) {
        self.wish = Some((leg, state));
    }

    /// Whether all legs record this state of a member.
    pub(super) fn is(&self, leg: usize, state: LegState) -> bool {
        self.is_durable() && self.block.members[leg].state == state
    }

    pub(super) fn wake(&self, leaving: u32) -> Option<Nanos> {
        let active = self.block.in_state(LegState::In) | self.block.in_state(LegState::Syncing);
        let idle = matches!(self.phase, Phase::Idle);
        (idle && (!self.is_durable() || leaving & active != 0)).then_some(self.retry_at)
    }

    pub(super) fn step(&mut self, port: &mut Port) {
        match self.phase {
            Phase::Idle => self.begin(port),
            Phase::First => {
                let Some((good, bad)) = port.verdict(self.job) else { return };
                self.turn(good);
                if good == 0 {
                    self.phase = Phase::Idle;
                    return self.written(port, 0, bad);
                }
                self.phase = Phase::Second { bad };
                self.write(port, good);
            }
            Phase::Second { bad } => {
                let Some((good, worse)) = port.verdict(self.job) else { return };
                self.turn(good);
                self.phase = Phase::Idle;
                self.written(port, good & !bad, bad | worse);
            }
        }
    }

    fn begin(&mut self, port: &mut Port) {
        if let Some((leg, LegState::In)) = self.wish {
            port.shared.enter(leg);
        }
        let leaving = port.shared.leaving();
        let active = self.block.in_state(LegState::In) | self.block.in_state(LegState::Syncing);
        let nothing = self.durable && self.wish.is_none() && leaving & active == 0;
        if port.now < self.retry_at || nothing {
            return;
        }
        self.durable = false;
        let members = self.block.members.clone();
        for leg in legs(leaving & active) {
            let member = &mut self.block.members[leg];
            (member.left, member.state) = (self.stands[leg], LegState::Out);
        }
        if let Some((leg, state)) = self.wish.take()
            && leaving & 1 << leg == 0
        {
            let member = &mut self.block.members[leg];
            member.empty |= member.state == LegState::Spare;
            // All data that the leg lacks is marked by then, so regions copied to the leg may
            // become clean.
            member.empty &= !matches!(state, LegState::In | LegState::Syncing);
            member.state = state;
        }
        if self.is_complete() {
            // From now on the map may forget changes that these legs have missed.
            let out = self.block.members.iter_mut().filter(|member| member.state == LegState::Out);
            out.for_each(|member| member.empty = true);
        }
        // A generation that no leg accepted is retried unchanged: the history lists the generations
        // that a leg may hold.
        if !std::mem::take(&mut self.failed) || members != self.block.members {
            self.block.advance(self.rng.next_u64());
        }
        if planted(Plant::KeepGeneration) {
            return self.publish(port, 0);
        }
        let listed = [LegState::In, LegState::Syncing, LegState::Spare];
        let all =
            listed.map(|state| self.block.in_state(state)).iter().fold(0, |all, one| all | one);
        self.phase = Phase::First;
        self.renewals = port.shared.renewals();
        if port.takes_writes() {
            port.shared.tries_again();
        }
        self.write(port, all);
    }

    /// Whether all required legs are in and none is syncing.
    pub(super) fn is_complete(&self) -> bool {
        self.block.in_state(LegState::In).count_ones() >= self.block.copies
            && self.block.in_state(LegState::Syncing) == 0
    }

    /// Switches to the second copy on legs that hold the first one. A failed write may have torn
    /// its copy, so that copy is retried before the intact one is overwritten.
    fn turn(&mut self, good: u32) {
        legs(good).for_each(|leg| self.places[leg].swap(0, 1));
    }

    /// Whether no absent leg needs the map's record of missed changes.
    pub(super) fn forgets(&self) -> bool {
        let counts = |member: &Member| member.state == LegState::Out && !member.empty;
        !self.block.members.iter().any(counts)
    }

    /// Writes one copy to these legs.
    fn write(&self, port: &mut Port, all: u32) {
        for leg in legs(all) {
            let bytes = self.block.encode(self.block.members[leg].uuid);
            let (op, fua, buf) = (Op::Write, true, port.copy(&bytes));
            let (offset, len) = (self.places[leg][0], bytes.len() as u32);
            port.send(self.job, leg, Deed { op, offset, len, fua, buf });
        }
    }

    fn written(&mut self, port: &mut Port, good: u32, bad: u32) {
        legs(good).for_each(|leg| self.stands[leg] = self.block.generation);
        let shared = port.shared.clone();
        let (in_it, syncing) =
            (self.block.in_state(LegState::In), self.block.in_state(LegState::Syncing));
        for leg in legs(bad & (in_it | syncing)) {
            shared.leave(leg, &|| "its superblock could not be written".to_owned());
        }
        if good & in_it == 0 {
            self.failed = true;
            if self.renewals == shared.renewals() {
                shared.fail();
                self.retry_at = port.now + PAUSE;
            }
        } else if bad & in_it == 0 {
            self.publish(port, bad);
        } else if bad & shared.in_it() != 0 {
            // The last leg that is read stays in, and the write is retried.
            self.failed = true;
            self.retry_at = port.now + PAUSE;
        }
        // Otherwise the next step starts a generation without the failed legs.
    }

    fn publish(&mut self, port: &mut Port, bad: u32) {
        self.durable = true;
        let here = [LegState::In, LegState::Syncing].map(|state| self.block.in_state(state));
        port.shared.publish(here[0], !(here[0] | here[1]) & !bad);
    }
}
