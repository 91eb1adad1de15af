//! Which workers of a core have something to do in a turn.
//!
//! Of a thousand sessions some dozen have news in a turn; to ask each of the others whether it has
//! some costs more than what it does with them.

use block::{Doing, Nanos};
use os::{Core, Token};

use crate::worker::{Order, Worker};

/// So few workers are all stepped: telling them apart would cost as much.
const FEW: usize = 16;
/// No worker.
const NOBODY: u32 = u32::MAX;

/// What each worker of a core waits for.
pub(crate) struct Agenda {
    entries: Vec<Entry>,
    /// By token of a socket: the worker whose lane it belongs to.
    owners: Vec<u32>,
    /// The order that all workers know.
    order: Option<Order>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The socket that alone brings it news.
    socket: Option<u32>,
    wake: Option<Nanos>,
    is_due: bool,
}

impl Agenda {
    /// For so many workers, all of which are due.
    pub(crate) fn new(workers: usize) -> Agenda {
        Agenda { entries: vec![Entry::default(); workers], owners: Vec::new(), order: None }
    }

    /// A step of each worker that has something to do, or may have, each with the time it has then:
    /// an I/O's latency ends when its worker gets to it. `news` is what the core's last turn
    /// brought. Returns when there is something to do if nothing comes before.
    #[inline]
    pub(crate) fn step(
        &mut self,
        core: &Core,
        workers: &mut [Worker],
        order: Order,
        news: &[Token],
    ) -> Option<Nanos> {
        if workers.len() <= FEW {
            return step_all(core, workers, order);
        }
        for Token(socket) in news {
            let owner = self.owners.get(*socket as usize).copied().unwrap_or(NOBODY);
            if let Some(entry) = self.entries.get_mut(owner as usize) {
                entry.is_due = true;
            }
        }
        let all = self.order.replace(order) != Some(order);
        let (now, mut wake) = (core.now(), None);
        for (index, worker) in workers.iter_mut().enumerate() {
            let entry = self.entries[index];
            let late = entry.wake.is_some_and(|wake| wake <= now);
            if all || entry.is_due || late || entry.socket.is_none() {
                self.entries[index].is_due = false;
                self.entries[index].wake = step(core, index, worker, order);
                let socket = worker.socket();
                if socket != entry.socket {
                    self.follow(index, socket);
                }
            }
            wake = sooner(wake, self.entries[index].wake);
        }
        wake
    }

    /// A worker waits for another socket now.
    #[cold]
    fn follow(&mut self, index: usize, socket: Option<u32>) {
        self.entries[index].socket = socket;
        let Some(socket) = socket.map(|socket| socket as usize) else { return };
        if self.owners.len() <= socket {
            self.owners.resize(socket + 1, NOBODY);
        }
        self.owners[socket] = index as u32;
    }
}

/// A step of each worker.
#[inline]
pub(crate) fn step_all(core: &Core, workers: &mut [Worker], order: Order) -> Option<Nanos> {
    let steps = workers.iter_mut().enumerate();
    steps.map(|(index, worker)| step(core, index, worker, order)).fold(None, sooner)
}

/// A step of one worker, which is written down if its core is.
#[inline]
fn step(core: &Core, index: usize, worker: &mut Worker, order: Order) -> Option<Nanos> {
    if worker.is_sampled() {
        return recorded_step(core, index, worker, order);
    }
    worker.step(core.now(), order)
}

/// The same. Halves in which nothing came back or was begun are part of the turn of all workers.
#[cold]
fn recorded_step(core: &Core, index: usize, worker: &mut Worker, order: Order) -> Option<Nanos> {
    let (start, before) = (core.now(), worker.sampled());
    worker.finish(start);
    let ended = worker.sampled() > before;
    let middle = if ended { core.note(Doing::Poll, index as u32, start) } else { start };
    let before = worker.under_way();
    let wake = worker.begin_next(middle, order);
    if worker.under_way() > before {
        core.note(Doing::Submit, index as u32, middle);
    }
    wake
}

fn sooner(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}
