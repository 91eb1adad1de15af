//! Decides which fault strikes which I/O, for all lanes of a volume.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Fault, Geometry, Io, Nanos, Op, Rng, splitmix};

use super::cache::Cache;
use super::history::History;
use super::rule::{Rule, Verb};
use super::schedule::Schedule;
use crate::Gate;

/// Maximum number of healed blocks that are recorded. Beyond that a bad block counts as healed, for
/// now.
const HEALED_MAX: usize = 1 << 20;

/// Decision maker for all lanes of a volume, under a lock taken once per batch.
pub(super) struct Referee {
    geometry: Geometry,
    block_bytes: u64,
    cache: Arc<Cache>,
    inside: Mutex<Inside>,
    /// Time of the next power cut; [`u64::MAX`] for never.
    next_cut: AtomicU64,
    /// Number of schedules so far: on a change lanes release held I/Os.
    edition: AtomicU64,
}

struct Inside {
    schedule: Schedule,
    /// Time of the first I/O.
    began: Option<Nanos>,
    rng: Rng,
    /// State of each rule.
    states: Vec<RefereeState>,
    /// Earlier contents of blocks, for a schedule with stale reads.
    history: Option<History>,
    /// Why the last change of the schedule was refused.
    refused: Option<String>,
    /// Changes not reported yet.
    news: Vec<String>,
}

#[derive(Default)]
struct RefereeState {
    strikes: u64,
    /// The fault is sticky, and has struck.
    stuck: bool,
    /// Bad blocks rewritten since.
    healed: HashSet<u64>,
}

/// Effects on one I/O. Nothing by default.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sentence {
    /// Number of the fault, and its result, if the I/O is not executed.
    pub(super) answer: Option<(u32, Result<(), Fault>)>,
    /// Ends the connection instead of completing, with a TCP reset if `true`.
    pub(super) ends: Option<bool>,
    /// Added to its latency.
    pub(super) add: Nanos,
    /// Factor on the I/O's latency; 0 counts as 1.
    pub(super) factor: f64,
    /// Time for which the completion is held.
    pub(super) hold: Hold,
    /// Offset to which the I/O is redirected.
    pub(super) place: Option<u64>,
    /// Number of bytes that are executed.
    pub(super) keep: Option<u32>,
    /// The bit of its data to flip.
    pub(super) flip: Option<u64>,
    /// Whether the I/O reads earlier data.
    pub(super) stale: bool,
}

/// Time for which a completion is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Hold {
    /// The completion is not held.
    #[default]
    No,
    /// Held until this time.
    Until(Nanos),
    /// Held until the schedule changes.
    Forever,
}

impl Referee {
    /// `geometry` is that of the volume below.
    ///
    /// # Errors
    ///
    /// Why the schedule does not fit this volume.
    pub(super) fn new(schedule: Schedule, geometry: Geometry) -> Result<Referee, String> {
        schedule.fits(&geometry)?;
        let block_bytes = u64::from(geometry.block_bytes);
        let cache = Cache::new(schedule.cache.clone(), schedule.seed, block_bytes);
        // A cache that may lose acknowledged writes makes the volume volatile, whatever is below.
        let volatile = geometry.volatile || schedule.cache.is_some();
        let referee = Referee {
            geometry: Geometry { volatile, ..geometry },
            block_bytes,
            cache: Arc::new(cache),
            inside: Mutex::new(Inside::new(schedule)),
            next_cut: AtomicU64::new(0),
            edition: AtomicU64::new(0),
        };
        Ok(referee)
    }

    /// The geometry of the volume with its faults.
    pub(super) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Write cache of the volume, inactive unless the schedule has one.
    pub(super) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// Applies another schedule, whose time begins with the next I/O. An invalid schedule changes
    /// nothing, nor does one with a cache if the volume was advertised to clients without one: they
    /// would not flush it.
    pub(super) fn replace(&self, schedule: Result<Schedule, String>) {
        let fits = schedule.and_then(|schedule| {
            schedule.fits(&self.geometry)?;
            match schedule.cache.is_some() && !self.geometry.volatile {
                true => Err("the volume was advertised to clients without a volatile write cache"
                    .to_owned()),
                false => Ok(schedule),
            }
        });
        let mut inside = self.lock();
        match fits {
            Ok(schedule) => {
                self.cache.replace(schedule.cache.clone());
                let mut news = std::mem::take(&mut inside.news);
                let count = schedule.rules.len();
                let faults =
                    if count == 1 { "1 fault".to_owned() } else { format!("{count} faults") };
                news.push(format!("the schedule changed to '{}', {faults}", schedule.name));
                *inside = Inside { news, ..Inside::new(schedule) };
                self.next_cut.store(0, Ordering::Release);
                self.edition.fetch_add(1, Ordering::Release);
            }
            Err(reason) => {
                let name = &inside.schedule.name;
                let line =
                    format!("the changed schedule is invalid, '{name}' stays in use: {reason}");
                inside.news.push(line);
                inside.refused = Some(reason);
            }
        }
    }

    /// Changes of the schedule since the last call, a line each.
    pub(super) fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().news)
    }

    /// Why the last change of the schedule was refused.
    pub(super) fn refused(&self) -> Option<String> {
        self.lock().refused.clone()
    }

    /// Cuts the power if a cut is due. Idle lanes need not call this: a late cut loses the same
    /// data.
    pub(super) fn tick(&self, now: Nanos) {
        if now.0 >= self.next_cut.load(Ordering::Acquire) {
            let inside = &mut *self.lock();
            if let Some(began) = inside.began {
                self.cut(inside, began, now);
            }
        }
    }

    /// Applies due cuts.
    fn cut(&self, inside: &mut Inside, began: Nanos, now: Nanos) {
        let mut next = u64::MAX;
        for (rule, state) in inside.schedule.rules.iter().zip(&mut inside.states) {
            if rule.verb != Verb::PowerCut {
                continue;
            }
            let (begun, at) = rule.windows(now.since(began));
            let begun = rule.count.map_or(begun, |count| begun.min(count));
            if state.strikes < begun {
                // The first of several late cuts has lost everything.
                state.strikes = begun;
                self.cache.cut(rule.cut());
            }
            let is_last = rule.count.is_some_and(|count| state.strikes >= count);
            if let (Some(at), false) = (at, is_last) {
                next = next.min((began + at).0);
            }
        }
        self.next_cut.store(next, Ordering::Release);
    }

    /// Number of times that the schedule was replaced.
    pub(super) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Name of the schedule, and the number of I/Os that each fault has struck.
    pub(super) fn strikes(&self) -> (String, Vec<(&'static str, u64)>) {
        let inside = self.lock();
        let rules = inside.schedule.rules.iter().zip(&inside.states);
        let counts = rules.map(|(rule, state)| (rule.verb.word(), state.strikes)).collect();
        (inside.schedule.name.clone(), counts)
    }

    /// Decides about each I/O of a batch; returns the [`edition`](Self::edition) that applies.
    pub(super) fn judge<'a>(
        &self,
        now: Nanos,
        ios: impl Iterator<Item = &'a Io>,
        sentences: &mut Vec<Sentence>,
    ) -> u64 {
        let inside = &mut *self.lock();
        let since = now.since(*inside.began.get_or_insert(now));
        let began = now - since;
        if now.0 >= self.next_cut.load(Ordering::Acquire) {
            self.cut(inside, began, now);
        }
        let off = inside.is_off(since);
        for io in ios {
            let mut sentence = Sentence::default();
            if let Some(index) = off {
                sentence.answer_by(index, Err(Fault::Disconnected));
                sentences.push(sentence);
                continue;
            }
            // The volume itself refuses an invalid I/O.
            if self.geometry.check(io).is_ok() {
                for index in 0..inside.schedule.rules.len() {
                    inside.hold(self, index, io, (began, since), &mut sentence);
                }
                inside.note(self.block_bytes, io, &sentence);
            }
            sentences.push(sentence);
        }
        self.edition()
    }

    /// Replaces read data by earlier data.
    pub(super) fn make_stale(&self, offset: u64, data: &mut [u8]) {
        if let Some(history) = &self.lock().history {
            history.put(self.block_bytes, offset, data);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        // A thread that panicked has reported it; state is consistent between two I/Os.
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gate for Referee {
    /// Counts for each fault the times that it has closed the gate.
    fn is_shut(&self, now: Nanos) -> bool {
        let inside = &mut *self.lock();
        let since = now.since(*inside.began.get_or_insert(now));
        let mut is_shut = false;
        for (rule, state) in inside.schedule.rules.iter().zip(&mut inside.states) {
            let begun = rule.windows(since).0;
            let counts = rule.count.is_none_or(|count| begun <= count);
            if rule.verb == Verb::Withhold && counts && rule.window(since).is_some() {
                state.strikes = state.strikes.max(begun);
                is_shut = true;
            }
        }
        is_shut
    }
}

impl Inside {
    fn new(schedule: Schedule) -> Inside {
        let states = schedule.rules.iter().map(|_| RefereeState::default()).collect();
        let rng = Rng::new(schedule.seed, 0);
        let wants_history = schedule.rules.iter().any(|rule| rule.verb == Verb::Stale);
        let history = wants_history.then(History::default);
        Inside { schedule, began: None, rng, states, history, refused: None, news: Vec::new() }
    }

    /// Rule that keeps the power off at this time, if any.
    fn is_off(&self, since: Nanos) -> Option<u32> {
        let is_off = |rule: &Rule| {
            let counts = rule.count.is_none_or(|count| rule.windows(since).0 <= count);
            rule.verb == Verb::PowerCut && counts && rule.window(since).is_some()
        };
        self.schedule.rules.iter().position(is_off).map(|index| index as u32)
    }

    /// Records the changes of an I/O, if it is executed as submitted.
    fn note(&mut self, block_bytes: u64, io: &Io, sentence: &Sentence) {
        if let Some(history) = &mut self.history
            && (sentence.answer, sentence.place, sentence.keep) == (None, None, None)
        {
            history.note(block_bytes, io);
        }
    }

    /// Applies one rule to an I/O.
    fn hold(
        &mut self,
        of: &Referee,
        index: usize,
        io: &Io,
        (began, since): (Nanos, Nanos),
        sentence: &mut Sentence,
    ) {
        let (rule, state) = (&self.schedule.rules[index], &mut self.states[index]);
        if matches!(rule.verb, Verb::PowerCut | Verb::Withhold) {
            return;
        }
        if rule.verb == Verb::BadBlocks {
            state.heal(rule, self.schedule.seed, index, of.block_bytes, io);
        }
        if !rule.concerns(io.op) || !rule.touches(io.op, io.offset, io.len) {
            return;
        }
        let Some(end) = rule.window(since).or(state.stuck.then_some(None)) else { return };
        if !state.stuck {
            if rule.count.is_some_and(|count| state.strikes >= count) {
                return;
            }
            let strikes = match rule.verb {
                // Without earlier data nothing can be stale.
                Verb::Stale
                    if !self.history.as_ref().is_some_and(|history| {
                        history.knows(of.block_bytes, io.offset, io.len)
                    }) =>
                {
                    false
                }
                Verb::BadBlocks => {
                    state.is_bad(rule, self.schedule.seed, index, of.block_bytes, io)
                }
                _ => rule.chance() >= 1.0 || self.rng.uniform() < rule.chance(),
            };
            if !strikes {
                return;
            }
        }
        let end = end.map(|end| began + end);
        if sentence.take(rule, of, io, end, &mut self.rng, index as u32) {
            state.strikes += 1;
            state.stuck = rule.sticky;
        }
    }
}

impl RefereeState {
    /// Records bad blocks that are rewritten completely.
    fn heal(&mut self, rule: &Rule, seed: u64, index: usize, block_bytes: u64, io: &Io) {
        if matches!(io.op, Op::Read | Op::Flush) {
            return;
        }
        let blocks = io.offset.div_ceil(block_bytes)..(io.offset + u64::from(io.len)) / block_bytes;
        for block in blocks {
            if self.healed.len() < HEALED_MAX && is_chosen(rule, seed, index, block) {
                self.healed.insert(block);
            }
        }
    }

    fn is_bad(&self, rule: &Rule, seed: u64, index: usize, block_bytes: u64, io: &Io) -> bool {
        let end = io.offset + u64::from(io.len);
        let mut blocks = io.offset / block_bytes..end.div_ceil(block_bytes);
        blocks.any(|block| is_chosen(rule, seed, index, block) && !self.healed.contains(&block))
    }
}

/// Whether the seed makes a block bad.
fn is_chosen(rule: &Rule, seed: u64, index: usize, block: u64) -> bool {
    let mut state = seed ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (index as u64) << 56;
    let mixed = splitmix(&mut state) ^ splitmix(&mut state);
    (mixed >> 11) as f64 / (1_u64 << 53) as f64 <= rule.chance()
}

impl Sentence {
    /// Adds a rule's effect to an I/O; false if the rule has none on this I/O.
    fn take(
        &mut self,
        rule: &Rule,
        of: &Referee,
        io: &Io,
        end: Option<Nanos>,
        rng: &mut Rng,
        index: u32,
    ) -> bool {
        match rule.verb {
            Verb::Error => self.answer_by(index, Err(rule.fault())),
            Verb::BadBlocks => self.answer_by(index, Err(Fault::Medium)),
            Verb::Drop => self.answer_by(index, Ok(())),
            Verb::Disconnect | Verb::Reset => {
                let is_first = self.answer_by(index, Err(Fault::Disconnected));
                self.ends = self.ends.or(is_first.then_some(rule.verb == Verb::Reset));
                is_first
            }
            Verb::PowerCut | Verb::Withhold => false,
            Verb::Stale => {
                self.stale = true;
                true
            }
            Verb::Hang => {
                self.hold = self.hold.longer(end.map_or(Hold::Forever, Hold::Until));
                true
            }
            Verb::Slow => {
                if let Some([least, most]) = rule.added() {
                    let add_s = least + (most - least) * rng.uniform();
                    self.add = self.add + Nanos((add_s * 1e9) as u64);
                }
                self.factor = self.factor.max(1.0) * rule.factor();
                true
            }
            Verb::Tear => {
                let blocks = u64::from(io.len) / of.block_bytes;
                if blocks < 2 {
                    return false;
                }
                let kept = (1 + rng.below(blocks - 1)) * of.block_bytes;
                self.keep = Some(self.keep.map_or(kept as u32, |keep| keep.min(kept as u32)));
                true
            }
            Verb::Misdirect => {
                let places = (of.geometry.bytes() - u64::from(io.len)) / of.block_bytes;
                let place = rng.below(places + 1) * of.block_bytes;
                self.place = (place != io.offset).then_some(place);
                self.place.is_some()
            }
            Verb::Flip => {
                self.flip = (io.len > 0).then(|| rng.below(u64::from(io.len) * 8));
                self.flip.is_some()
            }
        }
    }

    /// Sets the result; the first one is kept.
    fn answer_by(&mut self, index: u32, result: Result<(), Fault>) -> bool {
        let first = self.answer.is_none();
        self.answer = self.answer.or(Some((index, result)));
        first
    }

    /// Completion time of an I/O that began and was done at these times.
    pub(super) fn due(&self, begun: Nanos, done: Nanos) -> Hold {
        let took = done.since(begun).0 as f64;
        let slow = Nanos((took * (self.factor.max(1.0) - 1.0)) as u64);
        let at = done + slow + self.add;
        self.hold.longer(if at > done { Hold::Until(at) } else { Hold::No })
    }
}

impl Hold {
    fn longer(self, other: Hold) -> Hold {
        match (self, other) {
            (Hold::Forever, _) | (_, Hold::Forever) => Hold::Forever,
            (Hold::Until(a), Hold::Until(b)) => Hold::Until(a.max(b)),
            (Hold::No, other) => other,
            (held, Hold::No) => held,
        }
    }
}
