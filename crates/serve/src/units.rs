//! The units of a core: a lane to each volume, opened in the background and polled in turn.
//!
//! A remote volume may take seconds to log in, refuse the login, or vanish. None of this blocks the
//! core: I/Os wait for their own unit only, and a failed login is not repeated for each I/O.
//!
//! A unit without I/Os is polled, too: a remote volume's target sends keep-alive requests, and an
//! array's background work continues.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Done, Fault, Io, Lane, Nanos, Op, Plant, Tag, idle_look, planted};
use proto::UnitId;
use volume::Gate;

/// Time limit to open a lane.
const OPENING: Nanos = Nanos::from_secs(20);
/// Time after a failure for which I/Os fail at once; then the next I/O makes a new attempt. Each
/// further failure doubles the time.
const FIRST_PAUSE: Nanos = Nanos::from_millis(250);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(8);
/// Time limit of the last flush of a lane: longer than remote volumes wait for an answer.
const CLOSING: Nanos = Nanos::from_secs(60);
/// After an event while others are busy, units without I/Os are polled within this time.
const LOOK: Nanos = Nanos::from_secs(1);

/// Opens the lanes of a core.
pub trait LaneSource<R> {
    /// Starts to open a lane to a unit, without waiting: the lane can be used when it is
    /// [open](Lane::is_open).
    ///
    /// # Errors
    ///
    /// The reason why there is no lane, for the user.
    fn begin(&self, unit: usize, core: &R) -> Result<Box<dyn Lane>, String>;

    /// Gate that decides when targets solicit the data of a unit's writes; `None` if they always
    /// do.
    fn gate(&self, _unit: usize) -> Option<Arc<dyn Gate>> {
        None
    }
}

/// All units of a core.
pub(crate) struct Units<R> {
    source: Box<dyn LaneSource<R>>,
    units: Vec<Unit>,
    gates: Vec<(UnitId, Arc<dyn Gate>)>,
    /// Units with I/Os in flight, in polling order.
    busy: VecDeque<usize>,
    /// Time of the next poll of the idle units.
    look: Option<Nanos>,
    /// Completions, until the caller takes them.
    pub(crate) done: Vec<Done>,
    /// Failures of units, until the caller logs them.
    pub(crate) troubles: Vec<(usize, String)>,
    /// Units whose open lane was lost, until the caller handles them: the next lane cannot know
    /// whether all data written through this one have become durable.
    pub(crate) broken: Vec<usize>,
}

/// A unit.
#[derive(Default)]
struct Unit {
    way: Way,
    /// I/Os to be submitted.
    batch: VecDeque<Io>,
    /// I/Os in flight, including those of the batch.
    in_flight: usize,
    /// The unit is on the list of busy units.
    is_busy: bool,
    /// Pause after the next failure.
    pause: Nanos,
}

/// The state of a unit's lane.
#[derive(Default)]
enum Way {
    /// Not opened yet.
    #[default]
    Closed,
    /// The lane is opening; the time limit.
    Opening(Box<dyn Lane>, Nanos),
    Open(Box<dyn Lane>),
    /// The last flush is in flight; the time limit.
    Closing(Box<dyn Lane>, Nanos),
    /// Failed; the time of the next attempt.
    Failed(Nanos),
}

impl<R> Units<R> {
    pub(crate) fn new(count: usize, source: Box<dyn LaneSource<R>>) -> Units<R> {
        let unit = |_| Unit { pause: FIRST_PAUSE, ..Unit::default() };
        let gate = |unit: usize| Some((UnitId(unit as u32), source.gate(unit)?));
        Units {
            gates: (0..count).filter_map(gate).collect(),
            source,
            units: (0..count).map(unit).collect(),
            busy: VecDeque::with_capacity(64),
            look: None,
            done: Vec::with_capacity(1024),
            troubles: Vec::new(),
            broken: Vec::new(),
        }
    }

    /// Prepares a unit for another volume.
    pub(crate) fn renew(&mut self, index: usize) {
        self.gates.retain(|(unit, _)| unit.0 as usize != index);
        let gate = self.source.gate(index);
        self.gates.extend(gate.map(|gate| (UnitId(index as u32), gate)));
    }

    /// Flushes a unit that no connection uses, and closes its lane. Returns whether the flush
    /// succeeded, once it has ended.
    pub(crate) fn close(&mut self, index: usize, now: Nanos) -> Option<bool> {
        let unit = &mut self.units[index];
        if unit.in_flight > 0 {
            return None;
        }
        let is_flushed = match &mut unit.way {
            Way::Open(lane) => {
                let (tag, op, fua) = (Tag(0), Op::Flush, false);
                let flush = Io { tag, op, fua, len: 0, offset: 0, buf: None };
                lane.submit(now, &mut VecDeque::from([flush]));
                if let Way::Open(lane) = std::mem::take(&mut unit.way) {
                    unit.way = Way::Closing(lane, now + CLOSING);
                }
                return None;
            }
            Way::Closing(lane, give_up) => {
                let mut done = Vec::new();
                lane.poll(now, &mut done);
                lane.submit(now, &mut VecDeque::new());
                match done.pop() {
                    Some(done) => done.result.is_ok(),
                    None if now < *give_up => return None,
                    None => false,
                }
            }
            Way::Closed | Way::Opening(..) | Way::Failed(_) => true,
        };
        self.gates.retain(|(unit, _)| unit.0 as usize != index);
        self.units[index] = Unit { pause: FIRST_PAUSE, ..Unit::default() };
        Some(is_flushed)
    }

    /// Units whose write data must not be solicited now; `None` if no unit is gated.
    #[inline]
    pub(crate) fn withheld(&self, now: Nanos) -> Option<Vec<UnitId>> {
        if self.gates.is_empty() {
            return None;
        }
        let shut = self.gates.iter().filter(|(_, gate)| gate.is_shut(now));
        Some(shut.map(|(unit, _)| *unit).collect())
    }

    /// Queues an I/O for a unit, submitted when the unit is [driven](Self::drive).
    #[inline]
    pub(crate) fn take(&mut self, unit: usize, io: Io) {
        let unit = &mut self.units[unit];
        unit.batch.push_back(io);
        unit.in_flight += 1;
    }

    /// Whether a unit has I/Os in flight.
    pub(crate) fn has_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Number of units to poll in this turn.
    pub(crate) fn busy_count(&self) -> usize {
        self.busy.len()
    }

    /// Next unit to poll; if it stays busy it comes last.
    pub(crate) fn next_busy(&mut self) -> Option<usize> {
        let next = match planted(Plant::PollFirstAndLast) {
            true => self.busy.swap_remove_back(0),
            false => self.busy.pop_front(),
        };
        self.units[next?].is_busy = false;
        next
    }

    /// Time at which a unit needs a poll without an event.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        let look = self.look.filter(|_| !planted(Plant::ForgetIdle));
        self.busy.iter().filter_map(|unit| self.units[*unit].way.wake()).chain(look).min()
    }

    /// Notes an event of some lane: it may belong to a unit without I/Os.
    pub(crate) fn heard(&mut self, now: Nanos) {
        let soon = if self.busy.is_empty() { now } else { now + LOOK };
        self.look = self.look.into_iter().chain([soon]).min();
    }

    /// Submits a unit's batch and collects completions in [`done`](Self::done).
    #[inline]
    pub(crate) fn drive(&mut self, index: usize, core: &R, now: Nanos) {
        let unit = &mut self.units[index];
        let before = self.done.len();
        match &mut unit.way {
            Way::Open(lane) => {
                lane.submit(now, &mut unit.batch);
                lane.poll(now, &mut self.done);
            }
            _ => self.drive_closed(index, core, now),
        }
        self.count_answered(index, before, now);
    }

    /// Collects completions of a unit, and lets its lane send responses to events.
    #[inline]
    pub(crate) fn poll(&mut self, index: usize, core: &R, now: Nanos) {
        let unit = &mut self.units[index];
        let before = self.done.len();
        match &mut unit.way {
            Way::Open(lane) if planted(Plant::SubmitFirst) => {
                lane.submit(now, &mut unit.batch);
                lane.poll(now, &mut self.done);
            }
            Way::Open(lane) => {
                lane.poll(now, &mut self.done);
                lane.submit(now, &mut unit.batch);
            }
            _ => self.drive_closed(index, core, now),
        }
        self.count_answered(index, before, now);
    }

    /// Polls units without I/Os, if it is time.
    #[inline]
    pub(crate) fn poll_idle(&mut self, now: Nanos) {
        if self.look.is_some_and(|look| look <= now) && !planted(Plant::ForgetIdle) {
            self.look_after_idle(now);
        }
    }

    #[cold]
    fn look_after_idle(&mut self, now: Nanos) {
        self.look = None;
        for index in 0..self.units.len() {
            let unit = &mut self.units[index];
            if unit.in_flight == 0
                && let Way::Open(lane) = &mut unit.way
            {
                lane.poll(now, &mut self.done);
                lane.submit(now, &mut unit.batch);
                // A broken lane stays until an I/O has failed: a client whose writes were lost with
                // the target's cache must not have a successful flush next.
                let look = idle_look(&**lane, now);
                self.look = self.look.into_iter().chain(look).min();
            }
        }
    }

    /// Counts completions since `before`.
    #[inline]
    fn count_answered(&mut self, index: usize, before: usize, now: Nanos) {
        let unit = &mut self.units[index];
        let answered = self.done.len() - before;
        unit.in_flight = unit.in_flight.checked_sub(answered).expect("an I/O is answered once");
        if unit.in_flight > 0 {
            if !std::mem::replace(&mut unit.is_busy, true) {
                self.busy.push_back(index);
            }
        } else if let Way::Open(lane) = &unit.way {
            match lane.broken() {
                Some(_) => self.give_up_broken(index, now),
                None => self.look = self.look.or_else(|| idle_look(&**lane, now)),
            }
        }
    }

    /// Drives a unit whose lane is not open.
    #[cold]
    fn drive_closed(&mut self, index: usize, core: &R, now: Nanos) {
        let unit = &mut self.units[index];
        let forgets = planted(Plant::ForgetFailure);
        match &unit.way {
            Way::Failed(until) if now < *until && !forgets => return self.answer_batch(index),
            Way::Closed | Way::Failed(_) => match self.source.begin(index, core) {
                Ok(lane) => unit.way = Way::Opening(lane, now + OPENING),
                Err(why) => return self.fail(index, now, &why),
            },
            Way::Opening(..) | Way::Open(_) | Way::Closing(..) => {}
        }
        let Way::Opening(lane, give_up) = &mut unit.way else { return };
        // Nothing has completed yet; the poll sends the login with an empty queue.
        lane.poll(now, &mut self.done);
        lane.submit(now, &mut VecDeque::new());
        if let Some(why) = lane.broken() {
            let why = why.to_owned();
            return self.fail(index, now, &why);
        }
        if !lane.is_open() {
            if now >= *give_up {
                self.fail(index, now, "timed out");
            }
            return;
        }
        let Way::Opening(mut lane, _) = std::mem::take(&mut unit.way) else { return };
        lane.submit(now, &mut unit.batch);
        lane.poll(now, &mut self.done);
        (unit.way, unit.pause) = (Way::Open(lane), FIRST_PAUSE);
    }

    /// Closes a lost lane that has completed everything.
    #[cold]
    fn give_up_broken(&mut self, index: usize, now: Nanos) {
        if planted(Plant::KeepBroken) {
            return;
        }
        let Way::Open(lane) = std::mem::take(&mut self.units[index].way) else { return };
        let why = lane.broken().unwrap_or("closed").to_owned();
        self.broken.push(index);
        self.fail(index, now, &why);
    }

    /// Takes a unit out of use for a while.
    #[cold]
    fn fail(&mut self, index: usize, now: Nanos, why: &str) {
        let unit = &mut self.units[index];
        let pause = unit.pause;
        unit.way = Way::Failed(now + pause);
        unit.pause = Nanos(pause.0 * 2).min(LONGEST_PAUSE);
        let line = format!("{why}; I/Os fail, retry in {} s", pause.as_secs_f64());
        self.troubles.push((index, line));
        self.answer_batch(index);
    }

    /// Fails the queued I/Os of a unit out of use.
    fn answer_batch(&mut self, index: usize) {
        let batch = self.units[index].batch.drain(..);
        self.done.extend(batch.map(|io| io.failed(Fault::Disconnected)));
    }

    /// Explains the cause of a fault of this unit.
    pub(crate) fn words_of(&self, unit: usize, cause: Cause) -> Option<String> {
        match &self.units[unit].way {
            Way::Open(lane) => lane.words_of(cause),
            Way::Closed | Way::Opening(..) | Way::Closing(..) | Way::Failed(_) => None,
        }
    }
}

impl Way {
    fn wake(&self) -> Option<Nanos> {
        match self {
            Way::Closed | Way::Failed(_) => None,
            Way::Opening(lane, give_up) | Way::Closing(lane, give_up) => {
                lane.wake().into_iter().chain([*give_up]).min()
            }
            Way::Open(lane) => lane.wake(),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use block::{Geometry, Op, Tag};
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Controls the lanes of a unit.
    #[derive(Clone, Default)]
    struct Script(Rc<RefCell<State>>);

    #[derive(Default)]
    struct State {
        refuses: bool,
        is_open: bool,
        broken: Option<&'static str>,
        begun: u32,
        held: Vec<Io>,
        answers: bool,
        wake: Option<Nanos>,
        /// Number of polls, and their number at the last submit.
        polls: u32,
        sent: u32,
    }

    struct Scripted(Script);

    impl Lane for Scripted {
        fn geometry(&self) -> Geometry {
            Geometry::new(4096, 512)
        }

        fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
            let state = &mut *self.0.0.borrow_mut();
            state.held.extend(ios.drain(..));
            state.sent = state.polls;
        }

        fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
            let mut state = self.0.0.borrow_mut();
            state.polls += 1;
            let lost = state.broken.is_some();
            if lost || state.answers {
                let result = if lost { Err(Fault::Disconnected) } else { Ok(()) };
                let answer = |io: Io| Done { tag: io.tag, result, cause: Cause::NONE, buf: None };
                done.extend(state.held.drain(..).map(answer));
            }
        }

        fn wake(&self) -> Option<Nanos> {
            self.0.0.borrow().wake
        }

        fn is_open(&self) -> bool {
            self.0.0.borrow().is_open
        }

        fn broken(&self) -> Option<&str> {
            self.0.0.borrow().broken
        }
    }

    impl LaneSource<()> for Script {
        fn begin(&self, _: usize, (): &()) -> Result<Box<dyn Lane>, String> {
            self.0.borrow_mut().begun += 1;
            match self.0.borrow().refuses {
                true => Err("refused".to_owned()),
                false => Ok(Box::new(Scripted(self.clone()))),
            }
        }
    }

    fn io() -> Io {
        Io { tag: Tag(1), op: Op::Flush, fua: false, len: 0, offset: 0, buf: None }
    }

    /// One I/O every `ms` milliseconds; returns how many completed.
    fn ask(units: &mut Units<()>, ms: u64) -> usize {
        units.take(0, io());
        units.drive(0, &(), Nanos::from_millis(ms));
        units.done.drain(..).count()
    }

    #[test]
    fn what_refuses_is_left_alone_for_longer_and_longer() {
        let script = Script::default();
        script.0.borrow_mut().refuses = true;
        let mut units = Units::new(1, Box::new(script.clone()));
        for ms in 0..1000 {
            assert_eq!(ask(&mut units, ms), 1, "it fails at once");
        }
        assert_eq!(script.0.borrow().begun, 3, "at 0, 250 and 750 ms");
        assert_eq!(units.troubles.len(), 3);
        let second = &units.troubles[1].1;
        assert!(second.starts_with("refused; I/Os fail, retry in 0.5 s"), "{second}");
        assert!(!units.has_busy());
    }

    #[test]
    fn ios_wait_for_a_volume_that_opens_and_fail_when_it_never_does() {
        let script = Script::default();
        let mut units = Units::new(1, Box::new(script.clone()));
        assert_eq!(ask(&mut units, 0) + ask(&mut units, 1), 0);
        assert_eq!(units.next_busy(), Some(0));
        script.0.borrow_mut().is_open = true;
        units.drive(0, &(), Nanos::from_millis(2));
        assert_eq!((script.0.borrow().held.len(), units.busy_count()), (2, 1));
        // The connection breaks and I/Os complete. The next I/O reopens it.
        script.0.borrow_mut().broken = Some("gone");
        units.drive(0, &(), Nanos::from_millis(3));
        assert_eq!(units.done.drain(..).count(), 2);
        *script.0.borrow_mut() = State { begun: 1, ..State::default() };
        assert_eq!(ask(&mut units, 200), 1, "too soon");
        assert_eq!(ask(&mut units, 253), 0);
        assert_eq!(script.0.borrow().begun, 2);
        assert_eq!(ask(&mut units, 30_000), 2, "20 s are enough");
    }

    /// A unit that has answered its only I/O, at 2 ms.
    fn idle(script: &Script) -> Units<()> {
        let mut units = Units::new(1, Box::new(script.clone()));
        (script.0.borrow_mut().is_open, script.0.borrow_mut().answers) = (true, true);
        assert_eq!(ask(&mut units, 2), 1);
        assert!(!units.has_busy());
        units
    }

    #[test]
    fn what_comes_of_a_poll_is_sent() {
        let script = Script::default();
        script.0.borrow_mut().is_open = true;
        let mut units = Units::new(1, Box::new(script.clone()));
        units.take(0, io());
        units.drive(0, &(), Nanos::from_millis(1));
        assert_eq!(units.next_busy(), Some(0));
        units.poll(0, &(), Nanos::from_millis(2));
        let state = script.0.borrow();
        assert_eq!(state.sent, state.polls, "the data that a target solicits, for instance");
        assert_eq!(units.busy_count(), 1);
    }

    #[test]
    fn units_without_ios_are_looked_after() {
        let (at, script) = (Nanos::from_millis, Script::default());
        script.0.borrow_mut().wake = Some(at(9000));
        let mut units = idle(&script);
        let polls = || (script.0.borrow().polls, script.0.borrow().sent);
        let (before, _) = polls();
        assert_eq!(units.wake(), Some(at(1002)));
        units.poll_idle(at(1001));
        assert_eq!(polls().0, before);
        units.poll_idle(at(1002));
        assert_eq!((polls(), units.wake()), ((before + 1, before + 1), Some(at(2002))));
        // An event of no other unit belongs to this one.
        units.heard(at(1500));
        assert_eq!(units.wake(), Some(at(1500)));
        units.poll_idle(at(1500));
        assert_eq!((polls(), units.wake()), ((before + 2, before + 2), Some(at(2500))));
        // The unit's connection is lost: the next I/O reports it.
        (script.0.borrow_mut().broken, script.0.borrow_mut().wake) = (Some("gone"), None);
        units.poll_idle(at(2500));
        assert_eq!((units.troubles.len(), units.wake()), (0, None));
        units.take(0, io());
        units.drive(0, &(), at(3000));
        assert_eq!(units.done.pop().map(|one| one.result), Some(Err(Fault::Disconnected)));
        assert_eq!(units.troubles.len(), 1);
    }

    #[test]
    fn nothing_wakes_for_units_without_timers() {
        let units = idle(&Script::default());
        assert_eq!(units.wake(), None);
    }
}
