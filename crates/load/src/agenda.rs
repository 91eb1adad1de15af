//! Selection of the workers of a core to step in a turn.
//!
//! Among a thousand sessions a few dozen have events in a turn; checking all others would cost more
//! than the work itself.

use block::{Doing, Nanos};
use os::{Core, Token};

use crate::worker::{Order, Worker};

/// With this few workers all are stepped: selecting would cost as much.
const FEW: usize = 16;
/// No worker.
const NOBODY: u32 = u32::MAX;

/// Events and times that each worker of a core waits for.
pub(crate) struct Agenda {
    entries: Vec<Entry>,
    /// Worker of a lane's socket, by token.
    owners: Vec<u32>,
    /// The last order, which all workers know.
    order: Option<Order>,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    /// The only socket whose events concern the worker.
    socket: Option<u32>,
    wake: Option<Nanos>,
    is_due: bool,
}

impl Agenda {
    /// For this many workers, all due.
    pub(crate) fn new(workers: usize) -> Agenda {
        Agenda { entries: vec![Entry::default(); workers], owners: Vec::new(), order: None }
    }

    /// Steps each worker that has or may have something to do, each with its own time: an I/O's
    /// latency ends when its worker gets to it. `news` are the events of the core's last turn,
    /// which ended at `now`. Returns when to step again without an event.
    #[inline]
    pub(crate) fn step(
        &mut self,
        core: &Core,
        now: Nanos,
        workers: &mut [Worker],
        order: Order,
        news: &[Token],
    ) -> Option<Nanos> {
        if workers.len() <= FEW {
            return step_all(core, now, workers, order);
        }
        for Token(socket) in news {
            let owner = self.owners.get(*socket as usize).copied().unwrap_or(NOBODY);
            if let Some(entry) = self.entries.get_mut(owner as usize) {
                entry.is_due = true;
            }
        }
        let all = self.order.replace(order) != Some(order);
        let mut wake = None;
        for (index, worker) in workers.iter_mut().enumerate() {
            let entry = self.entries[index];
            let late = entry.wake.is_some_and(|wake| wake <= now);
            if all || entry.is_due || late || entry.socket.is_none() {
                self.entries[index].is_due = false;
                self.entries[index].wake = step(core, core.now(), (index, worker), order);
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

/// Steps all workers, the first one at `now` and the others when their turn comes.
#[inline]
pub(crate) fn step_all(
    core: &Core,
    now: Nanos,
    workers: &mut [Worker],
    order: Order,
) -> Option<Nanos> {
    let mut steps = workers.iter_mut().enumerate();
    let first = steps.next().and_then(|first| step(core, now, first, order));
    steps.map(|worker| step(core, core.now(), worker, order)).fold(first, sooner)
}

/// Steps one worker, and records it if its core is recorded.
#[inline]
fn step(
    core: &Core,
    now: Nanos,
    (index, worker): (usize, &mut Worker),
    order: Order,
) -> Option<Nanos> {
    if worker.is_sampled() {
        return recorded_step(core, index, worker, order);
    }
    worker.step(now, order)
}

/// Steps one worker, and records both halves of its turn. Halves without completions or submissions
/// count as part of the turn of all workers.
#[cold]
fn recorded_step(core: &Core, index: usize, worker: &mut Worker, order: Order) -> Option<Nanos> {
    let (start, before) = (core.now(), worker.sampled());
    worker.finish(start);
    let ended = worker.sampled() > before;
    let middle = if ended { core.note(Doing::Poll, index as u32, start) } else { start };
    let before = worker.in_flight();
    let wake = worker.begin_next(middle, order);
    if worker.in_flight() > before {
        core.note(Doing::Submit, index as u32, middle);
    }
    wake
}

fn sooner(one: Option<Nanos>, other: Option<Nanos>) -> Option<Nanos> {
    one.into_iter().chain(other).min()
}
