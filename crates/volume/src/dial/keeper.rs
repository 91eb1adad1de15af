//! One thread of the process for all connections without I/O: queries, such as a volume's capacity,
//! and the NVMe admin queues that keep associations alive.
//!
//! Opening a volume waits for the answer on its connection. Connections of several callers proceed
//! in parallel, and so do their logouts, for which only the last owner waits: the thread ends with
//! its last connection.

use std::collections::HashMap;
use std::io;
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;

use block::{Nanos, Pool};
use os::{Core, End, Token};
use proto::{Ending, Endpoint, Outbox};

use super::orders::{Giver, Next, Taker};
use crate::remote::Link;

/// Time limit of a logout.
const LEAVING: Nanos = Nanos::from_secs(1);
/// Minimum time between checks of deadlines: there may be a thousand, and the core spins through a
/// short wait.
const LOOK: Nanos = Nanos::from_millis(5);
/// Small and large buffers of the thread: messages here are short, and a pool below a huge page is
/// not cleared before use.
const POOL: (usize, usize) = (16, 4);

/// A short-lived session that fetches one answer.
pub(super) trait Errand: Endpoint + Send + 'static {
    /// The answer.
    type Found: Send + 'static;

    /// Answer of the target, once known.
    fn found(&self) -> Option<Self::Found>;

    /// Requests a logout, if the session does not end by itself.
    fn leave(&mut self, now: Nanos, out: &mut Outbox);

    /// Whether the session has ended.
    fn has_left(&self) -> bool;
}

/// A connection held by the thread. Dropping it logs out; the last one dropped waits for all that
/// are still logging out.
pub struct Kept {
    number: u32,
    ended: Ended,
    keeper: Arc<Keeper>,
}

/// Reason why a connection ended, if it did.
type Ended = Arc<Mutex<Option<String>>>;

impl Kept {
    /// Reason why the connection ended, if it did.
    pub(super) fn ended(&self) -> Option<String> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.order(Order::Leave(self.number));
    }
}

/// The thread.
pub(super) struct Keeper {
    orders: Option<Giver<Order>>,
    next: AtomicU32,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// Take over the connection that this opens.
    Begin(u32, Begin),
    /// Log out.
    Leave(u32),
}

type Begin = Box<dyn FnOnce(&Core) -> Option<Box<dyn Visit>> + Send>;

impl Keeper {
    /// Thread of this process, started if it does not run.
    pub(super) fn get() -> io::Result<Arc<Keeper>> {
        static KEEPER: Mutex<Weak<Keeper>> = Mutex::new(Weak::new());
        let mut known = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keeper) = known.upgrade() {
            return Ok(keeper);
        }
        let keeper = Arc::new(Keeper::start()?);
        *known = Arc::downgrade(&keeper);
        Ok(keeper)
    }

    fn start() -> io::Result<Keeper> {
        let orders = Taker::new();
        let giver = orders.giver();
        let (started, wait) = mpsc::channel();
        let body = move || {
            let opened = || {
                let core = Core::open(Pool::new(POOL.0, POOL.1)).map_err(io::Error::other)?;
                let (waker, _) = core.waker()?;
                Ok::<_, io::Error>((core, waker))
            };
            // The caller waits for the answer.
            match opened() {
                Ok((core, waker)) => {
                    let _ = started.send(Ok(waker));
                    Table::new(core).keep(&orders);
                }
                Err(error) => drop(started.send(Err(error))),
            }
        };
        let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(body)?;
        let died = |_| io::Error::other("the thread ended during startup");
        let waker = wait.recv().map_err(died)??;
        let next = AtomicU32::new(0);
        Ok(Keeper { orders: Some(giver(waker)), next, thread: Some(thread) })
    }

    /// Runs `end` on a connection, and waits for its answer or for the failure.
    pub(super) fn send<E: Errand>(
        self: Arc<Keeper>,
        stream: TcpStream,
        end: E,
    ) -> Result<(E::Found, Kept), Failed> {
        let (asked, wait) = mpsc::channel();
        let ended = Ended::default();
        let (number, fate) = (self.next.fetch_add(1, Ordering::Relaxed), Arc::clone(&ended));
        let begin: Begin = Box::new(move |core| match Link::new(core, end, stream) {
            Ok(link) => {
                let asked = Some(asked);
                Some(Box::new(Call { link, asked, ended: fate, until: None }))
            }
            Err(why) => {
                let _ = asked.send(Err(why.into()));
                None
            }
        });
        self.order(Order::Begin(number, begin));
        // The connection sends the answer, or drops the sender.
        let found =
            wait.recv().unwrap_or_else(|_| Err("its thread has ended".to_owned().into()))?;
        Ok((found, Kept { number, ended, keeper: self }))
    }

    fn order(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A thread that ended has reported to all of its connections.
            orders.give(order);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it itself.
            let _ = thread.join();
        }
    }
}

/// The thread's connections.
struct Table {
    core: Core,
    calls: HashMap<u32, Box<dyn Visit>>,
    by_token: HashMap<Token, u32>,
    /// Next check of the deadlines.
    look: Nanos,
}

impl Table {
    fn new(core: Core) -> Table {
        let (calls, by_token) = (HashMap::new(), HashMap::new());
        Table { core, calls, by_token, look: Nanos(u64::MAX) }
    }

    /// Works until there are neither orders nor connections.
    fn keep(mut self, orders: &Taker<Order>) {
        let mut ready = Vec::new();
        let mut over = false;
        while !over || !self.calls.is_empty() {
            let until = (self.look != Nanos(u64::MAX)).then_some(self.look);
            if let Err(error) = self.core.turn(until, &mut ready) {
                let why = format!("io_uring: {error}");
                self.calls.values_mut().for_each(|call| call.end(&why));
                return;
            }
            for token in ready.drain(..) {
                if let Some(number) = self.by_token.get(&token) {
                    self.visit(*number, Visiting::News);
                }
            }
            over = self.obey(orders);
            if self.core.now() >= self.look {
                self.look_at_all();
            }
        }
    }

    /// Takes all orders; true if no more will come.
    fn obey(&mut self, orders: &Taker<Order>) -> bool {
        loop {
            match orders.next() {
                Next::Order(Order::Begin(number, begin)) => {
                    if let Some(call) = begin(&self.core) {
                        self.by_token.insert(call.token(), number);
                        self.calls.insert(number, call);
                        self.visit(number, Visiting::News);
                    }
                }
                Next::Order(Order::Leave(number)) => self.visit(number, Visiting::Leave),
                Next::Nothing => return false,
                Next::Over => return true,
            }
        }
    }

    fn visit(&mut self, number: u32, visiting: Visiting) {
        let Some(call) = self.calls.get_mut(&number) else { return };
        let now = self.core.now();
        if call.step(now, visiting) {
            let look = call.deadline().map(|deadline| deadline.max(now + LOOK));
            self.look = self.look.min(look.unwrap_or(Nanos(u64::MAX)));
        } else {
            self.by_token.remove(&call.token());
            self.calls.remove(&number);
        }
    }

    fn look_at_all(&mut self) {
        self.look = Nanos(u64::MAX);
        let numbers: Vec<u32> = self.calls.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.visit(number, Visiting::News));
    }
}

/// Reason of a visit to a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Visiting {
    /// Data arrived, or a deadline may be due.
    News,
    /// Order to log out.
    Leave,
}

/// A connection, whatever its answer.
trait Visit {
    fn token(&self) -> Token;

    /// Does all work that is due; false when the connection has ended.
    fn step(&mut self, now: Nanos, visiting: Visiting) -> bool;

    fn deadline(&self) -> Option<Nanos>;

    /// Handles the end of the connection, with its reason.
    fn end(&mut self, why: &str);
}

/// Why there is no answer.
pub(super) struct Failed {
    /// A message for the user.
    pub(super) why: String,
    /// The address to which the peer has sent us.
    pub(super) moved: Option<String>,
}

impl From<String> for Failed {
    fn from(why: String) -> Failed {
        Failed { why, moved: None }
    }
}

struct Call<E: Errand> {
    link: Link<E>,
    /// The caller that waits for the answer.
    asked: Option<Sender<Result<E::Found, Failed>>>,
    ended: Ended,
    /// Time limit of the logout.
    until: Option<Nanos>,
}

impl<E: Errand> Call<E> {
    /// Receives data; returns the reason why the connection ended, if it did.
    fn take(&mut self, now: Nanos) -> Result<(), Failed> {
        let taken = self.link.take(now);
        if let Some(found) = self.asked.as_ref().and_then(|_| self.link.end.found())
            && let Some(asked) = self.asked.take()
        {
            // The caller waits for the answer.
            let _ = asked.send(Ok(found));
        }
        taken.map_err(|ending| match ending {
            Ending::Moved(moved) => Failed { why: moved.words, moved: Some(moved.address) },
            ending => ending.to_string().into(),
        })?;
        let ended = match self.link.socket.ended() {
            _ if self.link.end.has_left() => Err("the peer ended the session".to_owned()),
            Some(End::Closed) if self.link.heard && self.asked.is_none() => {
                Err("the peer closed the connection".to_owned())
            }
            // A peer may speak its own protocol at ours.
            Some(End::Closed) if self.link.heard => {
                Err("the peer closed the connection before a response: is this the port of \
                    another protocol?"
                    .to_owned())
            }
            Some(End::Closed) => Err("the peer closed the connection without a response: is this \
                the port of another protocol?"
                .to_owned()),
            Some(end) => Err(end.to_string()),
            None => Ok(()),
        };
        ended.map_err(Failed::from)
    }
}

impl<E: Errand> Visit for Call<E> {
    fn token(&self) -> Token {
        self.link.socket.token()
    }

    fn step(&mut self, now: Nanos, visiting: Visiting) -> bool {
        let taken = self.take(now);
        if visiting == Visiting::Leave && taken.is_ok() && self.until.is_none() {
            self.until = Some(now + LEAVING);
            self.link.end.leave(now, &mut self.link.out);
        }
        self.link.flush();
        match taken {
            Err(failed) => {
                let why = failed.why.clone();
                if let Some(asked) = self.asked.take() {
                    // The caller waits for the answer.
                    let _ = asked.send(Err(failed));
                }
                self.end(&why);
                false
            }
            Ok(()) => !self.link.end.has_left() && self.until.is_none_or(|until| now < until),
        }
    }

    fn deadline(&self) -> Option<Nanos> {
        self.link.end.deadline().into_iter().chain(self.until).min()
    }

    fn end(&mut self, why: &str) {
        if let Some(asked) = self.asked.take() {
            let _ = asked.send(Err(why.to_owned().into()));
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.get_or_insert_with(|| why.to_owned());
    }
}
