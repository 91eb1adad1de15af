//! Steps the workers of a simulation: on this thread, or on several, each with its own parts.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Duration;

use block::{Lane, Nanos};
use stats::live::{Action, Live};
use stats::{Collector, Interval};

use super::Storage;
use super::section::{Bindings, Section, Told};
use crate::engine::Stop;
use crate::run::Prepared;
use crate::runner::RunError;
use crate::worker::{Order, Trouble};

/// Interval at which the view is polled while threads work.
const ASK: Duration = Duration::from_millis(100);

/// Lanes of a part, one per worker in order, and its storage, which numbers workers by their order
/// in the part.
pub type Made = (Vec<Box<dyn Lane>>, Box<dyn Storage>);

/// Workers that share storage with each other, and nothing with the rest.
pub struct Part<'a> {
    /// Indices of the workers in the spec.
    pub workers: Vec<usize>,
    /// Creates their storage, on the thread that steps them.
    pub make: Box<dyn FnOnce() -> Result<Made, RunError> + Send + 'a>,
}

/// Steps workers.
pub(super) trait Hands {
    /// Runs until `tick`, or until the user stops it.
    fn until(
        &mut self,
        tick: Nanos,
        order: Order,
        live: &mut dyn Live,
        stop: &Stop,
    ) -> Result<(), RunError>;
    /// The state of all workers.
    fn told(&self) -> Told;
    /// Adds results since the last call. Parts are always added in order.
    fn collect(&mut self, collected: Box<Collector>) -> Result<Box<Collector>, RunError>;
    /// The window is over.
    fn close_window(&mut self);
    /// Adds late results; returns how many I/Os never completed.
    fn give_up(&mut self, collected: Box<Collector>) -> Result<(Box<Collector>, u64), RunError>;
    /// Troubles since the last call, with the workers' indices.
    fn troubles(&mut self) -> Vec<(usize, Trouble)>;
}

/// Passes on the user's wish to end the run.
fn ask_user(live: &mut dyn Live, stop: &Stop) {
    if live.poll() == Action::Stop {
        stop.ask();
    }
}

/// All on this thread, with one storage.
pub(super) struct Here<'a> {
    pub section: Section,
    pub storage: &'a mut dyn Storage,
    pub spare: Option<Box<Interval>>,
}

impl Hands for Here<'_> {
    fn until(
        &mut self,
        tick: Nanos,
        order: Order,
        live: &mut dyn Live,
        stop: &Stop,
    ) -> Result<(), RunError> {
        self.section.until(tick, order, self.storage, &mut || ask_user(live, stop))
    }

    fn told(&self) -> Told {
        self.section.told()
    }

    fn collect(&mut self, mut collected: Box<Collector>) -> Result<Box<Collector>, RunError> {
        let empty = self.spare.take().unwrap_or_else(|| self.section.empty());
        self.spare = Some(self.section.collect(&mut collected, empty));
        Ok(collected)
    }

    fn close_window(&mut self) {
        self.section.close_window();
    }

    fn give_up(&mut self, mut all: Box<Collector>) -> Result<(Box<Collector>, u64), RunError> {
        let never = self.section.give_up(&mut all);
        Ok((all, never))
    }

    fn troubles(&mut self) -> Vec<(usize, Trouble)> {
        self.section.troubles()
    }
}

/// A request to a thread about its parts.
enum Ask {
    /// Run all of them.
    Until(Nanos, Order),
    /// The window is over.
    Close,
    /// Add results of one of them.
    Collect(usize, Box<Collector>),
    /// Add late results of one of them.
    GiveUp(usize, Box<Collector>),
}

/// A thread's reply.
struct Reply {
    told: Told,
    troubles: Vec<(usize, Trouble)>,
    collected: Option<Box<Collector>>,
    never: u64,
    error: Option<RunError>,
}

/// Threads, to which the parts are assigned in turn.
pub(super) struct Threads {
    threads: Vec<(Sender<Ask>, Receiver<Reply>)>,
    parts: usize,
    told: Vec<Told>,
    troubles: Vec<(usize, Trouble)>,
}

impl Threads {
    /// Starts them; they end when this is dropped.
    pub fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        prepared: &'env Prepared,
        parts: Vec<Part<'env>>,
        threads: usize,
        stop: &Stop,
    ) -> Result<Threads, RunError> {
        let count = parts.len();
        let threads = threads.clamp(1, count.max(1));
        let mut of: Vec<Vec<Part<'env>>> = (0..threads).map(|_| Vec::new()).collect();
        for (at, part) in parts.into_iter().enumerate() {
            of[at % threads].push(part);
        }
        let start = |own: Vec<Part<'env>>| {
            let (asks, asked) = channel();
            let (replies, replied) = channel();
            let stop = stop.clone();
            scope.spawn(move || work(prepared, own, &stop, &asked, &replies));
            (asks, replied)
        };
        let threads: Vec<_> = of.into_iter().map(start).collect();
        let mut all = Threads { threads, parts: count, told: Vec::new(), troubles: Vec::new() };
        for at in 0..all.threads.len() {
            let reply = all.hear(at, &mut || ())?;
            all.told.push(reply.told);
        }
        Ok(all)
    }

    /// Receives a thread's reply; `ask` is called periodically meanwhile.
    fn hear(&mut self, at: usize, ask: &mut dyn FnMut()) -> Result<Reply, RunError> {
        let mut reply = loop {
            match self.threads[at].1.recv_timeout(ASK) {
                Ok(reply) => break reply,
                Err(RecvTimeoutError::Timeout) => ask(),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RunError::Nothing("a thread of the simulation ended early"));
                }
            }
        };
        self.troubles.append(&mut reply.troubles);
        match reply.error.take() {
            Some(error) => Err(error),
            None => Ok(reply),
        }
    }

    fn say(&self, at: usize, ask: Ask) {
        // A thread that has ended is noticed when its reply is missing.
        let _ = self.threads[at].0.send(ask);
    }

    fn all(&mut self, say: impl Fn() -> Ask, ask: &mut dyn FnMut()) -> Result<(), RunError> {
        (0..self.threads.len()).for_each(|at| self.say(at, say()));
        for at in 0..self.threads.len() {
            self.told[at] = self.hear(at, ask)?.told;
        }
        Ok(())
    }

    /// Passes the collector from part to part.
    fn each(
        &mut self,
        mut collected: Box<Collector>,
        say: impl Fn(usize, Box<Collector>) -> Ask,
    ) -> Result<(Box<Collector>, u64), RunError> {
        let (count, mut never) = (self.threads.len(), 0);
        for part in 0..self.parts {
            self.say(part % count, say(part / count, collected));
            let reply = self.hear(part % count, &mut || ())?;
            never += reply.never;
            collected = reply
                .collected
                .ok_or(RunError::Nothing("a thread of the simulation kept what was counted"))?;
        }
        Ok((collected, never))
    }
}

impl Hands for Threads {
    fn until(
        &mut self,
        tick: Nanos,
        order: Order,
        live: &mut dyn Live,
        stop: &Stop,
    ) -> Result<(), RunError> {
        self.all(|| Ask::Until(tick, order), &mut || ask_user(live, stop))
    }

    fn told(&self) -> Told {
        let none = Told { now: Nanos(0), finished: true, found: true, drained: true };
        self.told.iter().fold(none, |all, told| all.and(*told))
    }

    fn collect(&mut self, collected: Box<Collector>) -> Result<Box<Collector>, RunError> {
        Ok(self.each(collected, Ask::Collect)?.0)
    }

    fn close_window(&mut self) {
        // An error here recurs at the next request.
        let _ = self.all(|| Ask::Close, &mut || ());
    }

    fn give_up(&mut self, collected: Box<Collector>) -> Result<(Box<Collector>, u64), RunError> {
        self.each(collected, Ask::GiveUp)
    }

    fn troubles(&mut self) -> Vec<(usize, Trouble)> {
        let mut all = std::mem::take(&mut self.troubles);
        all.sort_by_key(|(place, _)| *place);
        all
    }
}

/// A thread with its parts, until the requests end.
fn work(
    prepared: &Prepared,
    parts: Vec<Part<'_>>,
    stop: &Stop,
    asked: &Receiver<Ask>,
    replies: &Sender<Reply>,
) {
    let make = |bindings: &mut Bindings<'_>, part: Part<'_>| {
        let (lanes, storage) = (part.make)()?;
        Ok((bindings.section(part.workers, lanes, false, stop.clone())?, storage))
    };
    let made = Bindings::of(prepared).and_then(|mut bindings| {
        parts
            .into_iter()
            .map(|part| make(&mut bindings, part))
            .collect::<Result<Vec<_>, RunError>>()
    });
    let (mut own, mut error) = match made {
        Ok(own) => (own, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let mut spare = own.first().map(|(section, _)| section.empty());
    let (mut collected, mut never) = (None, 0);
    loop {
        let told = own.iter().map(|(section, _)| section.told()).reduce(Told::and);
        let none = Told { now: Nanos(0), finished: true, found: true, drained: true };
        let troubles = own.iter_mut().flat_map(|(section, _)| section.troubles()).collect();
        let told = told.unwrap_or(none);
        let reply =
            Reply { told, troubles, collected: collected.take(), never, error: error.take() };
        if replies.send(reply).is_err() {
            return;
        }
        let Ok(ask) = asked.recv() else { return };
        never = 0;
        match ask {
            Ask::Until(tick, order) => {
                let go = |(section, storage): &mut (Section, Box<dyn Storage>)| {
                    section.until(tick, order, &mut **storage, &mut || ())
                };
                error = own.iter_mut().try_for_each(go).err();
            }
            Ask::Close => own.iter_mut().for_each(|(section, _)| section.close_window()),
            Ask::Collect(part, mut all) => {
                let section = &mut own[part].0;
                let empty = spare.take().unwrap_or_else(|| section.empty());
                spare = Some(section.collect(&mut all, empty));
                collected = Some(all);
            }
            Ask::GiveUp(part, mut all) => {
                never = own[part].0.give_up(&mut all);
                collected = Some(all);
            }
        }
    }
}
