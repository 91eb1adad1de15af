//! The thread of a core: runs the core's loop, and other loops in turns with it.

use std::cell::RefCell;
use std::io;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;

use block::{Lane, Nanos, Pool};
use os::{Companion, Core, Job, Listener, SharedThread, Turned, Waker};
use volume::Gate;

use crate::portal::Portal;
use crate::protocol::Protocol;
use crate::server::ServeError;
use crate::shared::Shared;
use crate::units::LaneSource;

/// Bytes of a turn, about one millisecond of work: the next turn checks for new events before it
/// continues with the rest.
const TURN_BYTES: usize = 4 << 20;
/// Bytes of a turn that alternates with another loop: small enough that the data is still in the L2
/// cache when the other loop uses it.
const PART_BYTES: usize = 256 << 10;

/// The listening sockets of a core and their protocols.
pub(crate) type Listeners = Vec<(TcpListener, Protocol)>;

/// A thread that serves.
pub(crate) struct Thread {
    pub(crate) id: i32,
    pub(crate) shared: SharedThread,
    pub(crate) waker: Waker,
    pub(crate) handle: Option<JoinHandle<()>>,
}

/// Opens lanes to the volumes of a server.
struct Lanes(Arc<Shared>);

impl LaneSource<Core> for Lanes {
    fn begin(&self, unit: usize, core: &Core) -> Result<Box<dyn Lane>, String> {
        let volume = self.0.protocols.places().volume(unit);
        let volume = volume.ok_or_else(|| "it was removed".to_owned())?;
        volume.begin_lane(core).map_err(|error| error.to_string())
    }

    fn gate(&self, unit: usize) -> Option<Arc<dyn Gate>> {
        self.0.protocols.places().volume(unit)?.gate()
    }
}

/// Starts the thread of core number `index` on `cpu`; it may sleep on the CPUs of `idle`.
pub(crate) fn start(
    shared: &Arc<Shared>,
    index: usize,
    (cpu, idle): (usize, Vec<usize>),
    listeners: Listeners,
) -> Result<Thread, ServeError> {
    let shared = Arc::clone(shared);
    let (started, wait) = mpsc::channel();
    let (send, jobs) = mpsc::channel();
    let body = move || {
        let set_up = || -> Result<(Portal<Core>, Waker), ServeError> {
            os::cpu::pin(cpu)?;
            let core = Core::open(Pool::within(shared.budget.clone()))?;
            core.follow_peers(cpu, &idle);
            let (waker, _) = core.waker()?;
            let ring = waker.clone();
            shared.wakes(index, move || ring.wake());
            let listeners = listeners
                .into_iter()
                .map(|(listener, protocol)| Ok((Listener::new(&core, listener)?, protocol)))
                .collect::<io::Result<Vec<_>>>()?;
            let source = Box::new(Lanes(Arc::clone(&shared)));
            Ok((Portal::new(core, index, Arc::clone(&shared), listeners, source), waker))
        };
        match set_up() {
            Ok((portal, waker)) => {
                let _ = started.send(Ok((os::sample::thread_id(), waker)));
                let watch = Watch { shared: &shared, cpu };
                if let Err(error) = run(portal, &jobs) {
                    watch.shared.fail(format!("core {cpu}: {error}"));
                }
            }
            Err(error) => {
                let _ = started.send(Err(error));
            }
        }
    };
    let handle = std::thread::Builder::new().name(format!("target {cpu}")).spawn(body)?;
    let died = |_| io::Error::other("the thread ended during startup");
    let (id, waker) = wait.recv().map_err(died)??;
    let shared = SharedThread::new(cpu, send, waker.clone());
    Ok(Thread { id, shared, waker, handle: Some(handle) })
}

/// Reports a thread that panicked.
struct Watch<'a> {
    shared: &'a Shared,
    cpu: usize,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.fail(format!("core {}: its thread panicked", self.cpu));
        }
    }
}

/// Serves until the server stops, and then until peers have logged out. Runs the jobs that others
/// queue for this thread, and continues to serve meanwhile.
fn run(portal: Portal<Core>, jobs: &Receiver<Job>) -> io::Result<()> {
    let portal = Rc::new(RefCell::new(portal));
    loop {
        if let Ok(job) = jobs.try_recv() {
            job(portal.clone());
        }
        let mut portal = portal.borrow_mut();
        if portal.has_ended() {
            return Ok(());
        }
        let until = portal.wake();
        portal.take_turn(until, TURN_BYTES)?;
    }
}

impl Companion for Portal<Core> {
    fn turn(&mut self) -> io::Result<Turned> {
        let busy = self.take_turn(Some(Nanos(0)), PART_BYTES)?;
        // The other loop of this thread should find the completions while they are in the cache.
        self.core().submit()?;
        Ok(Turned { busy, wake: self.wake() })
    }

    fn core(&self) -> &Core {
        Portal::core(self)
    }
}
