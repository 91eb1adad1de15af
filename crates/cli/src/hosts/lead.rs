//! A run of all ranks, as rank 0 sees it: orders, one start, seconds of all, and one result.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use block::Nanos;
use fleet::{Began, Event, Fate, Outcome};
use load::{Engine, Gate, Prepared, RunError, Runner, Stop};
use os::Clock;
use serde_json::Value;
use stats::live::{Action, HostSecond, Live, Outliers, Snapshot};
use stats::{Check, RunResult};

use super::merged::NAMED;
use super::order::{Handed, Order};
use super::probe::Rank;
use super::{Ranks, second};
use crate::output;

/// Interval at which the end of all others is looked for.
const LOOK: Duration = Duration::from_millis(20);

/// Time after the window in which I/Os end.
const SLACK: Nanos = Nanos::from_millis(300);
/// Time limit for parts once the user asked for an end: a little longer than the leader does. A
/// launcher kills rank 0 a second after it asked.
const HURRIED: Nanos = Nanos::from_millis(400);

/// A run of all ranks.
#[derive(Debug)]
pub struct Together {
    ranks: Arc<Ranks>,
    order: Order,
    engine: Engine,
}

/// News of a round for rank 0.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) ranks: Arc<Ranks>,
    pub(super) names: Vec<String>,
    /// Ranks that serve.
    pub(super) serving: Vec<u32>,
    /// All ranks that drive have the same work.
    are_alike: bool,
    /// The whole job, which the result repeats.
    pub(super) document: Value,
    pub(super) base_seed: u64,
    /// The user's wish for an end.
    pub(super) stop: Stop,
    /// Ends this rank's work: for the user, or because a rank that served is lost.
    own_stop: Stop,
    /// Length of the window.
    length: Nanos,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) began: Option<Began>,
    /// Why the round cannot be.
    pub(super) refused: Option<String>,
    seconds: BTreeMap<u32, HostSecond>,
    outliers: Outliers,
    /// CPU cores that each server used in its past second.
    target_cores: BTreeMap<u32, f64>,
    /// Words of other ranks before the start.
    words: Vec<(u32, Vec<u8>)>,
    /// Verdict on the volumes that ranks share.
    pub(super) one_volume: Option<Check>,
    /// The part of each other rank so far.
    pub(super) drafts: BTreeMap<u32, Outcome>,
    over: Option<Vec<Outcome>>,
    /// Lost ranks, in words.
    lost: Vec<String>,
    /// Number of lost ranks that the last draft of the result names.
    lost_kept: usize,
    /// A lost rank served.
    has_lost_server: bool,
    hurries: bool,
    told_to_stop: bool,
}

impl Together {
    /// A run of an order, of which `engine` does this rank's part.
    pub fn new(ranks: Arc<Ranks>, order: Order, engine: Engine) -> Together {
        Together { ranks, order, engine }
    }
}

impl Runner for Together {
    fn run(&mut self, mut run: Prepared, live: &mut dyn Live) -> Result<RunResult, RunError> {
        let round = Arc::new(Round::new(&self.ranks, &self.order, &self.engine.stop));
        // The result repeats the whole job, not the part of rank 0.
        run.spec.document.clone_from(&round.document);
        round.begin(&self.order, Nanos((run.spec.ramp_seconds * 1e9) as u64));
        let own = Rank::of(&run);
        round.state().one_volume = round.probe(Some(own), &self.order.driving());
        let mut engine = Engine { stop: round.own_stop.clone(), ..self.engine.clone() };
        engine.gate = Some(Arc::new(AllReady(Arc::clone(&round))));
        engine.shared = Some(load::Shared::default());
        let own = engine.run(run, &mut AllSeconds { inner: live, round: &round });
        self.ranks.lead().done();
        if let Some(why) = round.state().refused.take() {
            return Err(RunError::Open(why));
        }
        let own = own?;
        let outcomes = round.await_all(live);
        if let Some(why) = round.state().refused.take() {
            return Err(RunError::Open(why));
        }
        let began = round.state().began;
        round.merged(self.order.job.seed, Some(own), began, outcomes)
    }
}

impl State {
    /// Whether a rank was lost that no draft of the result names.
    pub(super) fn has_news(&self) -> bool {
        self.lost.len() > self.lost_kept
    }
}

impl Round {
    /// A round of an order.
    pub(super) fn new(ranks: &Arc<Ranks>, order: &Order, stop: &Stop) -> Round {
        Round {
            ranks: Arc::clone(ranks),
            names: order.names.clone(),
            serving: order.serving(),
            are_alike: order
                .job
                .steps
                .iter()
                .flat_map(|of| &of.groups)
                .all(|of| of.hosts.is_empty()),
            document: serde_json::to_value(&order.job).unwrap_or_default(),
            base_seed: order.job.seed,
            stop: stop.clone(),
            own_stop: Stop::default(),
            length: Nanos(
                (order.job.steps.iter().map(|step| step.seconds).sum::<f64>() * 1e9) as u64,
            ),
            state: Mutex::default(),
        }
    }

    /// Hands out the order.
    pub(super) fn begin(&self, order: &Order, ramp: Nanos) {
        let handed = Handed::Drive(Box::new(order.clone()));
        let body = serde_json::to_vec(&handed).unwrap_or_default();
        self.ranks.lead().order(body, ramp, self.serving.clone());
    }

    /// The past second of all: of this rank, if it is `driving`, and of the others.
    pub(super) fn second(&self, own: &Snapshot, driving: bool) -> Snapshot {
        let mut state = self.state();
        if driving && self.are_alike {
            state.outliers.add_own(self.name(0), own);
        }
        let slower = state.outliers.words().to_vec();
        let others = state.seconds.iter().map(|(rank, second)| (self.name(*rank), second));
        let mut all = own.with_hosts(self.name(0), others);
        all.slower = slower;
        if !state.target_cores.is_empty() {
            all.cpu.target_cores = Some(state.target_cores.values().sum());
        }
        if let Some(second) = state.seconds.values().next().filter(|_| !driving) {
            (all.phase, all.t_s) = (second.phase, second.t_s);
            all.targets.remove(0);
        }
        all
    }

    pub(super) fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Words of other ranks that came since the last call.
    pub(super) fn words(&self) -> Vec<(u32, Vec<u8>)> {
        std::mem::take(&mut self.state().words)
    }

    /// Whether the round ends before its start: it is refused, or the user asked for an end.
    pub(super) fn is_ended(&self) -> bool {
        self.stop.asked() > 0 || self.state().refused.is_some() || self.ranks.lead().is_stuck()
    }

    /// Ends the round before its start.
    pub(super) fn refuse<T>(&self, rank: u32, why: &str) -> Option<T> {
        let words = format!("{} (rank {rank}): {why}", self.name(rank));
        self.state().refused.get_or_insert(words);
        self.stop.ask();
        None
    }

    /// Takes what came, and passes a request to end on.
    pub(super) fn look(&self) {
        let asked = self.stop.asked() > 0;
        if asked && !std::mem::replace(&mut self.state().told_to_stop, asked) {
            self.ranks.lead().stop();
        }
        for _ in self.own_stop.asked()..self.stop.asked() {
            self.own_stop.ask();
        }
        self.hurry();
        loop {
            let event = self.ranks.lead().next(Duration::ZERO);
            match event {
                Some(event) => self.take(event),
                None => return,
            }
        }
    }

    /// After the window nobody waits for the I/Os of a server that is lost.
    fn hurry(&self) {
        let mut state = self.state();
        let Some(began) = state.began.filter(|_| state.has_lost_server && !state.hurries) else {
            return;
        };
        if Clock::get().now() < began.at + self.length + SLACK {
            return;
        }
        state.hurries = true;
        drop(state);
        // Once ends the work, and twice the wait for its I/Os.
        for _ in 0..2 {
            self.own_stop.ask();
            self.ranks.lead().hurry();
        }
    }

    fn take(&self, event: Event) {
        let mut state = self.state();
        match event {
            Event::Began(began) => state.began = Some(began),
            Event::Word { rank, body } => state.words.push((rank, body)),
            Event::Refused { rank, why } => {
                let name = self.name(rank);
                state.refused.get_or_insert(format!("{name} (rank {rank}): {why}"));
                drop(state);
                self.stop.ask();
            }
            Event::Second { rank, body } => match second::read(&body) {
                Some(second) if self.serving.contains(&rank) => {
                    let cores = second.target_cores.map(|cores| (rank, cores));
                    state.target_cores.extend(cores);
                }
                Some(second) => {
                    if self.are_alike {
                        state.outliers.add(self.name(rank), &second);
                    }
                    state.seconds.insert(rank, second);
                }
                None => {}
            },
            Event::Draft { rank, window, body } => {
                let (fate, window) = (Fate::Part(body), Some(window));
                state.drafts.insert(rank, Outcome { rank, fate, window, relation: None });
            }
            Event::Lost { rank, why } => {
                state.seconds.remove(&rank);
                state.target_cores.remove(&rank);
                let name = self.name(rank);
                state.outliers.forget(name);
                let serves = self.serving.contains(&rank);
                let role = if serves { ", which serves," } else { "" };
                output::note(format_args!(
                    "drumfire: {name} (rank {rank}){role} is lost: {why}; the others go on"
                ));
                state.has_lost_server |= serves;
                state.lost.push(format!("{name}{role} is lost: {why}"));
            }
            Event::Over(outcomes) => state.over = Some(outcomes),
            Event::Gathered { .. } => {}
        }
    }

    /// The drafts of all others, as of ranks that are lost.
    fn what_came(&self) -> Vec<Outcome> {
        let mut drafts = std::mem::take(&mut self.state().drafts);
        let others = 1..self.names.len() as u32;
        let lost = |rank| {
            let held = drafts.remove(&rank);
            let (window, draft) = match held {
                Some(Outcome { fate: Fate::Part(body), window, .. }) => (window, Some(body)),
                _ => (None, None),
            };
            let fate = Fate::Lost { draft, why: fleet::STUCK.to_owned() };
            Outcome { rank, fate, window, relation: None }
        };
        others.map(lost).collect()
    }

    /// The parts of all ranks so far as one result, which names lost ranks.
    pub(super) fn draft(&self, own: Option<RunResult>, cut: Option<String>) -> Option<RunResult> {
        let mut state = self.state();
        let (drafts, began) = (state.drafts.values().cloned().collect(), state.began);
        state.lost_kept = state.lost.len();
        let cut: Vec<String> = state.lost.iter().take(NAMED).cloned().chain(cut).collect();
        drop(state);
        let mut all = self.merged(self.base_seed, own, began, drafts).ok()?;
        all.partial = (!cut.is_empty()).then(|| cut.join("; "));
        Some(all)
    }

    fn name(&self, rank: u32) -> &str {
        self.names.get(rank as usize).map_or("?", |name| name)
    }

    /// Waits for the parts of all others; not if the library of messages no longer answers.
    pub(super) fn await_all(&self, live: &mut dyn Live) -> Vec<Outcome> {
        let mut asked = None;
        loop {
            self.look();
            if self.stop.asked() > 0 {
                asked.get_or_insert_with(|| Clock::get().now());
            }
            let hurries = asked.is_some_and(|at| Clock::get().now().since(at) > HURRIED);
            if hurries || self.ranks.lead().is_stuck() {
                return self.what_came();
            }
            let mut state = self.state();
            if let Some(over) = state.over.take() {
                return over;
            }
            if state.refused.is_some() {
                return Vec::new();
            }
            drop(state);
            if live.poll() == Action::Stop {
                self.stop.ask();
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Lets this rank's workers begin with those of all others.
#[derive(Debug)]
struct AllReady(Arc<Round>);

impl Gate for AllReady {
    fn wait(&self, stop: &Stop, poll: &mut dyn FnMut()) -> Option<Nanos> {
        self.0.ranks.lead().ready();
        while stop.asked() == 0 {
            self.0.look();
            if let Some(began) = self.0.state().began {
                return Some(began.at);
            }
            if self.0.ranks.lead().is_stuck() {
                self.0.state().refused = Some(fleet::STUCK.to_owned());
                return None;
            }
            poll();
            std::thread::sleep(Duration::from_millis(1));
        }
        None
    }
}

/// A view of all hosts' seconds.
struct AllSeconds<'a> {
    inner: &'a mut dyn Live,
    round: &'a Round,
}

impl Live for AllSeconds<'_> {
    fn inner(&mut self) -> Option<&mut dyn Live> {
        Some(self.inner)
    }

    fn wants_buckets(&mut self) -> bool {
        true
    }

    fn wants_workers(&mut self) -> bool {
        false
    }

    fn wants_result(&mut self) -> bool {
        let is_due = self.inner.wants_result();
        is_due || self.round.state().has_news()
    }

    fn poll(&mut self) -> Action {
        self.round.look();
        self.inner.poll()
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        self.round.look();
        let all = self.round.second(snapshot, true);
        self.inner.update(&all)
    }

    /// Keeps the drafts of all ranks as one: a launcher may kill rank 0 as well.
    fn keep(&mut self, so_far: RunResult) {
        let cut = so_far.partial.clone();
        if let Some(all) = self.round.draft(Some(so_far), cut) {
            self.inner.keep(all);
        }
    }
}
