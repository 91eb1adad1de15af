//! Who is in, made durable: the keeper's job that goes on to a new generation.
//!
//! A leg that failed is recorded as out on all legs that stay before anybody is told of a write
//! that it missed. Where a leg fails at that, the next generation leaves it out, too.

use block::{Nanos, Op, Plant, Rng, planted};

use super::port::{Deed, Job, Port, legs};
use super::superblock::{Generation, LegState, Member, Superblock};
use crate::mirror::Rules;

/// How soon another attempt is made where no leg takes a superblock.
const PAUSE: Nanos = Nanos::from_millis(100);

pub(super) struct Recorder {
    job: Job,
    /// The last generation that was begun; what it says may stand on some leg.
    block: Superblock,
    /// It stands on all legs that are in.
    durable: bool,
    /// For each leg where its superblocks stand; the one that is to be written next comes first.
    places: Vec<[u64; 2]>,
    /// For each leg the last generation that surely stands on it.
    stands: Vec<Generation>,
    phase: Phase,
    wish: Option<(usize, LegState)>,
    retry_at: Nanos,
    /// The last attempt came to no leg that is in.
    failed: bool,
    rng: Rng,
}

#[derive(Clone, Copy)]
enum Phase {
    Idle,
    First,
    Second { bad: u32 },
}

impl Recorder {
    /// Begins with a generation of its own. `places` are where each leg's superblocks stand, the
    /// one that is written first before the other, and `stands` which.
    pub(super) fn new(
        job: Job,
        mut block: Superblock,
        (places, stands): (Vec<[u64; 2]>, Vec<Generation>),
        rng: Rng,
    ) -> Recorder {
        // A leg that was being made equal when the process died begins anew.
        for member in block.members.iter_mut().filter(|one| one.state == LegState::Syncing) {
            member.state = LegState::Out;
        }
        let (phase, wish, retry_at) = (Phase::Idle, None, Nanos(0));
        let (durable, failed) = (false, false);
        Recorder { job, block, durable, places, stands, phase, wish, retry_at, failed, rng }
    }

    /// What the superblocks say, or will say soon.
    pub(super) fn block(&self) -> &Superblock {
        &self.block
    }

    /// Where a leg's superblocks stand.
    pub(super) fn places(&self, leg: usize) -> [u64; 2] {
        self.places[leg]
    }

    /// Whether what it says stands on all legs that are in.
    pub(super) fn is_durable(&self) -> bool {
        self.durable && self.wish.is_none() && matches!(self.phase, Phase::Idle)
    }

    /// A member is to become something else.
    pub(super) fn wish(&mut self, leg: usize, state: LegState) {
        self.wish = Some((leg, state));
    }

    /// Whether a member is that on all legs.
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
            // What it lacks is marked by then, so what is copied to it may be made clean.
            member.empty &= !matches!(state, LegState::In | LegState::Syncing);
            member.state = state;
        }
        if self.is_complete() {
            // From now on the map forgets what these have missed.
            let out = self.block.members.iter_mut().filter(|member| member.state == LegState::Out);
            out.for_each(|member| member.empty = true);
        }
        // What no leg took is tried again as it is: the history is for what may stand somewhere.
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
        self.write(port, all);
    }

    /// Whether as many legs are in as are wanted, and none is being made equal.
    pub(super) fn is_complete(&self) -> bool {
        self.block.in_state(LegState::In).count_ones() >= self.block.copies
            && self.block.in_state(LegState::Syncing) == 0
    }

    /// One copy stands on these legs; the other is next. One that failed may be torn, and is tried
    /// again before the whole one is touched.
    fn turn(&mut self, good: u32) {
        legs(good).for_each(|leg| self.places[leg].swap(0, 1));
    }

    /// Whether no leg is out that counts on the map for what it misses.
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
            shared.fail();
            self.failed = true;
            self.retry_at = port.now + PAUSE;
        } else if bad & in_it == 0 {
            self.publish(port, bad);
        } else if bad & shared.in_it() != 0 {
            // The last leg that is read stays in, and is waited for.
            self.failed = true;
            self.retry_at = port.now + PAUSE;
        }
        // Otherwise the next step begins one without those that failed.
    }

    fn publish(&mut self, port: &mut Port, bad: u32) {
        self.durable = true;
        let here = [LegState::In, LegState::Syncing].map(|state| self.block.in_state(state));
        port.shared.publish(here[0], !(here[0] | here[1]) & !bad);
    }
}
