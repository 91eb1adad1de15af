//! Engine threads: one core, one reactor, and its workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender, TryRecvError};
use std::thread::JoinHandle;

use block::{Doing, Lane, Nanos, Pool};
use os::{Core, SharedCompanion, SharedThread, SharedTime, Token, Waker};
use stats::Interval;

use crate::activity::{Observer, Recording};
use crate::agenda::{Agenda, step_all};
use crate::handover::{Directive, Handover, Rest};
use crate::lateness::Lateness;
use crate::ledger::Ledger;
use crate::records::Recorder;
use crate::run::{Prepared, hints};
use crate::worker::{Identity, Order, Ties, Worker};
use job::spec::RunSpec;

/// Maximum small and large buffers of a core's workers.
const POOL: (usize, usize) = (4096, 512);
/// Lanes opened together: connects are serialized, and the first login must not time out meanwhile.
const TOGETHER: usize = 64;
/// Time limit to close a lane.
const CLOSING: Nanos = Nanos::from_secs(3);

/// Lets others end a run early. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicU32>);

impl Stop {
    /// Asks the run to end; a second call ends it at once.
    pub fn ask(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Number of calls.
    pub fn asked(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A thread's message to the runner.
pub(crate) enum News {
    /// All lanes are open.
    Open {
        /// The thread.
        thread: usize,
        /// Thread ID, to read the thread's CPU time.
        id: i32,
        /// SQPOLL threads.
        pollers: Vec<i32>,
        /// Wakes the thread.
        waker: Waker,
    },
    /// A lane or the reactor could not be opened.
    Failed(String),
    /// The thread has ended.
    Ended,
}

/// A thread to start.
pub(crate) struct Seat {
    pub(crate) thread: usize,
    pub(crate) cpu: usize,
    /// Workers of the thread, as indices into the spec's.
    pub(crate) workers: Vec<usize>,
    /// The ledger of each worker's volume, if it is verified.
    pub(crate) ledgers: Vec<Option<Arc<Ledger>>>,
    /// Ties of each worker to others.
    pub(crate) ties: Vec<Ties>,
    /// Record log of each worker, if its I/Os are logged.
    pub(crate) recorders: Vec<Option<Recorder>>,
    pub(crate) handover: Arc<Handover>,
    /// Recording of the core's activity, if requested.
    pub(crate) recording: Option<Recording>,
    /// Thread on this CPU with another loop, which this loop shares.
    pub(crate) shared: Option<SharedThread>,
    /// Time split between the two loops.
    pub(crate) shared_time: Arc<SharedTime>,
}

/// A running loop.
pub(crate) enum Running {
    /// On a separate thread.
    Thread(JoinHandle<()>),
    /// On a thread with another loop; the channel closes when it ends.
    Beside(Receiver<()>),
}

impl Running {
    /// Whether it has ended.
    pub(crate) fn is_finished(&self) -> bool {
        match self {
            Running::Thread(thread) => thread.is_finished(),
            Running::Beside(over) => over.try_recv() == Err(TryRecvError::Disconnected),
        }
    }

    /// Waits for the loop's end. A panic is already reported.
    pub(crate) fn join(self) {
        match self {
            Running::Thread(thread) => drop(thread.join()),
            Running::Beside(over) => drop(over.recv()),
        }
    }
}

/// Starts the loop of a thread.
pub(crate) fn start(
    mut seat: Seat,
    run: Arc<Prepared>,
    news: Sender<News>,
) -> std::io::Result<Running> {
    let name = format!("worker {}", seat.cpu);
    let shared = seat.shared.take();
    let mut body = move |companion: Option<SharedCompanion>| {
        let failed = drive(&mut seat, &run, &news, companion).err();
        let _ = match failed {
            Some(error) => news.send(News::Failed(error)),
            None => news.send(News::Ended),
        };
    };
    let Some(shared) = shared else {
        let thread = std::thread::Builder::new().name(name).spawn(move || body(None))?;
        return Ok(Running::Thread(thread));
    };
    let (running, over) = mpsc::channel();
    let sent = shared.run(Box::new(move |companion| {
        body(Some(companion));
        drop(running);
    }));
    let gone = || std::io::Error::other("the thread of the target has ended");
    if sent { Ok(Running::Beside(over)) } else { Err(gone()) }
}

fn drive(
    seat: &mut Seat,
    prepared: &Prepared,
    news: &Sender<News>,
    companion: Option<SharedCompanion>,
) -> Result<(), String> {
    os::cpu::pin(seat.cpu).map_err(|error| format!("processor {}: {error}", seat.cpu))?;
    let core = Core::open(Pool::new(POOL.0, POOL.1)).map_err(|error| error.to_string())?;
    let (waker, _) = core.waker().map_err(|error| error.to_string())?;
    if let Some(companion) = companion {
        let time = Arc::clone(&seat.shared_time);
        core.share(companion, time).map_err(|error| error.to_string())?;
    }
    let lanes = open_lanes(seat, prepared, &core)?;
    let mut workers = Vec::new();
    let ties = std::mem::take(&mut seat.ties).into_iter();
    let parts = ties.zip(std::mem::take(&mut seat.recorders));
    let each = seat.workers.iter().zip(&seat.ledgers).zip(parts);
    for (((index, ledger), (ties, recorder)), lane) in each.zip(lanes) {
        let worker = make_worker(*index, &prepared.spec, ledger.clone(), &core, lane)?;
        workers.push(worker.tied(ties).recorded(recorder));
    }
    let (id, pollers) = (os::sample::thread_id(), os::poll_threads());
    let _ = news.send(News::Open { thread: seat.thread, id, pollers, waker });
    let spec = &prepared.spec;
    let name = |index: &usize| spec.workers[*index].name.clone();
    let names = || seat.workers.iter().map(name).collect();
    let mut observer = seat
        .recording
        .clone()
        .map(|recording| Observer::new(recording, seat.cpu, names(), spec.ramp_seconds));
    run(seat, &core, &mut workers, &mut observer).map_err(|error| format!("io_uring: {error}"))
}

/// Opens the lanes of all workers of a thread in parallel: each takes some round trips.
fn open_lanes(seat: &Seat, run: &Prepared, core: &Core) -> Result<Vec<Box<dyn Lane>>, String> {
    let begin = |index: &usize| {
        let worker = &run.spec.workers[*index];
        run.volume(worker).hinted_lane(core, hints(worker.shift.cache))
    };
    let mut lanes = Vec::with_capacity(seat.workers.len());
    for part in seat.workers.chunks(TOGETHER) {
        let begun: Result<Vec<_>, _> = part.iter().map(begin).collect();
        let mut begun = begun.map_err(|error| error.to_string())?;
        let opened = volume::await_open(core, &mut begun);
        opened.map_err(|(which, why)| format!("{}: {why}", run.spec.workers[part[which]].uri))?;
        lanes.append(&mut begun);
    }
    Ok(lanes)
}

fn make_worker(
    index: usize,
    spec: &RunSpec,
    ledger: Option<Arc<Ledger>>,
    core: &Core,
    lane: Box<dyn Lane>,
) -> Result<Worker, String> {
    let this = &spec.workers[index];
    let who = Identity { seed: spec.seed, number: this.number, part: this.part, data: true };
    Worker::new(lane, &this.workload, who, ledger, core.pool())
        .map_err(|error| format!("no memory for buffers: {error}"))?
        .zoned(&this.workload, spec.seed, this.number, this.part)
}

/// The loop of a core: a turn of the reactor, then a step of each worker.
fn run(
    seat: &Seat,
    core: &Core,
    workers: &mut [Worker],
    observer: &mut Option<Observer>,
) -> std::io::Result<()> {
    let handover = &*seat.handover;
    let mut ready = Vec::with_capacity(1024);
    await_command(handover, core, workers, &mut ready)?;
    let now = core.now();
    for worker in workers.iter_mut() {
        let paced = worker.is_paced();
        worker.begin(now, Box::new(if paced { Interval::paced() } else { Interval::new() }));
    }
    let mut seen = handover.asked();
    let (mut started, mut finished) = (false, false);
    let mut agenda = Agenda::new(workers.len());
    let mut lateness = Lateness::new(now);
    let mut found = workers.iter().all(Worker::has_found);
    if found {
        handover.say_found();
    }
    loop {
        let order = match handover.commanded() {
            Directive::Fill => Order::Fill,
            // At the planned instant workers start before the command reaches them.
            Directive::Run | Directive::Wait => Order::Run,
            _ => break,
        };
        if order == Order::Run && !started {
            started = true;
            workers.iter_mut().for_each(|worker| worker.start(core.now()));
            observer.iter_mut().for_each(|observer| observer.start(core.now()));
        }
        let start = observer.as_mut().map(|observer| observer.look(core, workers));
        let now = core.now();
        lateness.count(now, workers);
        let wake = agenda.step(core, now, workers, order, &ready);
        if let Some(start) = start {
            core.note(Doing::Step, 0, start);
        }
        ready.clear();
        if order == Order::Fill {
            let filling = workers.iter().filter(|worker| worker.filling()).count();
            handover.say_filling(filling as u32);
        }
        if handover.asked() != seen {
            seen = handover.asked();
            hand_over(seat, core, workers);
            workers.iter_mut().for_each(|worker| worker.hand_over_records(core.now(), false));
        }
        if !finished && workers.iter().all(Worker::is_finished) {
            finished = true;
            handover.say_finished();
        }
        if !found && workers.iter().all(Worker::has_found) {
            found = true;
            handover.say_found();
        }
        core.turn(wake, &mut ready)?;
    }
    observer.iter_mut().for_each(|observer| observer.end(core, workers));
    hand_over_last(seat, core, workers);
    drain(handover, core, workers)?;
    workers.iter_mut().for_each(|worker| worker.hand_over_records(core.now(), true));
    hand_over_rest(seat, core, workers);
    close(handover, core, workers)
}

/// Waits for the first command, or for the planned instant.
fn await_command(
    handover: &Handover,
    core: &Core,
    workers: &mut [Worker],
    ready: &mut Vec<Token>,
) -> std::io::Result<()> {
    while handover.commanded() == Directive::Wait {
        let starts_at = handover.starts_at();
        if starts_at.is_some_and(|at| core.now() >= at) {
            break;
        }
        step_all(core, core.now(), workers, Order::Drain);
        let soon = core.now() + Nanos::from_millis(20);
        core.turn(Some(starts_at.map_or(soon, |at| at.min(soon))), ready)?;
        ready.clear();
    }
    Ok(())
}

#[cold]
fn hand_over(seat: &Seat, core: &Core, workers: &mut [Worker]) {
    for (worker, index) in workers.iter_mut().zip(&seat.workers) {
        seat.handover.put_trouble(*index, || worker.take_trouble());
        seat.handover.put_full(*index, |empty| worker.take_interval(core.now(), empty));
    }
}

/// The window is over for these workers.
#[cold]
fn hand_over_last(seat: &Seat, core: &Core, workers: &mut [Worker]) {
    for (worker, index) in workers.iter_mut().zip(&seat.workers) {
        seat.handover.put_trouble(*index, || worker.take_trouble());
        seat.handover.put_last(*index, worker.take_last(core.now()));
    }
}

/// Waits for I/Os in flight, and starts those planned before, until all are complete or the
/// runner's time limit is over.
fn drain(handover: &Handover, core: &Core, workers: &mut [Worker]) -> std::io::Result<()> {
    let mut ready = Vec::with_capacity(1024);
    while handover.commanded() == Directive::Drain {
        let wake = step_all(core, core.now(), workers, Order::Drain);
        // After the step, which may have taken the last completion: no event would follow.
        if workers.iter().all(Worker::is_drained) {
            break;
        }
        let soon = core.now() + Nanos::from_millis(50);
        core.turn(Some(wake.map_or(soon, |wake| wake.min(soon))), &mut ready)?;
        ready.clear();
    }
    Ok(())
}

/// Hands over the results of I/Os in flight at the end, and gives up those that did not complete.
#[cold]
fn hand_over_rest(seat: &Seat, core: &Core, workers: &mut [Worker]) {
    for (worker, index) in workers.iter_mut().zip(&seat.workers) {
        let (late, unanswered) = worker.give_up(core.now());
        let (worker, trouble) = (*index, worker.take_trouble());
        seat.handover.put_rest(Rest { worker, late, unanswered, trouble });
    }
}

/// Closes the lanes, as far as that is quick.
fn close(handover: &Handover, core: &Core, workers: &mut [Worker]) -> std::io::Result<()> {
    let mut ready = Vec::with_capacity(1024);
    let give_up = core.now() + CLOSING;
    while handover.commanded() != Directive::Leave && core.now() < give_up {
        let now = core.now();
        let mut open = 0;
        for worker in &mut *workers {
            open += usize::from(!worker.close(now));
            worker.step(now, Order::Drain);
        }
        if open == 0 {
            break;
        }
        core.turn(Some(now + Nanos::from_millis(5)), &mut ready)?;
        ready.clear();
    }
    Ok(())
}
