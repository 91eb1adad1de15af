//! One core: a ring, the buffers and sockets on it, a clock, and the turn of its loop.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use block::{Buf, Doing, Nanos, Pool};
use io_uring::squeue;

use crate::aio::Aio;
use crate::calls::Calls;
use crate::clock::Clock;
use crate::companion::Company;
use crate::crowd::Crowd;
use crate::file::FileState;
use crate::guest::Guest;
use crate::listener::ListenerState;
use crate::passthrough::CommandRing;
use crate::pipe::Pipe;
use crate::polled::PolledRing;
use crate::receive::ReceiveBuffers;
use crate::record::Record;
use crate::refill::Refill;
use crate::ring::{Features, OpenRingError, Ring};
use crate::socket::SocketState;
use crate::ublk::UblkState;
use crate::wait::Patience;
use crate::waker::WakerState;
use crate::watch::WatchState;

/// Files' I/Os are submitted in parts of at least this many: the device starts on the first while
/// the next are prepared. At depth 64 a virtual disk completes 101k reads of 4 KiB per second in
/// parts, and 91k with all submitted at once.
const PART: usize = 2;
/// Divisor after many completions at once: the core is busy then, and a part is this fraction of
/// them.
const PARTS_OF_MANY: usize = 8;
/// Maximum time for which a dropped core waits for the kernel to release its buffers.
const DRAIN: Nanos = Nanos::from_secs(5);

/// Identifies a socket, listener or file of one core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token(pub u32);

/// Reactor of one thread. A handle: clones are the same reactor.
#[derive(Clone)]
pub struct Core {
    pub(crate) state: Rc<RefCell<CoreState>>,
    clock: Clock,
    pool: Pool,
}

impl Core {
    /// Creates the reactor of the calling thread, with buffers of `pool`.
    pub fn open(pool: Pool) -> Result<Core, OpenRingError> {
        // Timers of this thread expire on time, not up to 50 µs later.
        // SAFETY: a system call without pointers; if it is refused, sleeps are less exact.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let mut ring = Ring::open()?;
        let receive = ReceiveBuffers::new(&mut ring)?;
        let state = CoreState {
            ring: Some(ring),
            receive,
            slots: Vec::new(),
            free: Vec::new(),
            calls: Calls::default(),
            batches: Calls::default(),
            aio: None,
            polled: Vec::new(),
            commands: Vec::new(),
            answers: Vec::with_capacity(1024),
            refill: Refill::new(),
            batch: Vec::with_capacity(4096),
            ready: Vec::with_capacity(1024),
            queued_files: 0,
            reaped: 0,
            in_flight: 0,
            wakers: 0,
            crowd: Crowd::default(),
            patience: Patience::default(),
            behind_threads: 0,
            live_sockets: 0,
            direct: None,
            heard_direct: false,
            spare: None,
            pipe: None,
            company: None,
            guest: None,
            record: None,
            pool: pool.clone(),
        };
        Ok(Core { state: Rc::new(RefCell::new(state)), clock: Clock::get(), pool })
    }

    /// The time now.
    #[inline]
    pub fn now(&self) -> Nanos {
        self.clock.now()
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// The buffers of this core.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Features of the kernel that this core uses.
    pub fn features(&self) -> Features {
        self.state.borrow_mut().ring().features
    }

    /// Submits everything queued and reaps completions, in one system call: each socket, listener,
    /// file or waker with events is appended to `ready`, once.
    ///
    /// Without events the core waits: it spins for 50 µs, or up to 400 µs if it worked as long
    /// before, then sleeps, until an event or `until`. A sleep with 10 ms or more left also ends
    /// without events, 0.2 ms before `until` or earlier: the caller calls again. `None` waits for
    /// events only; a past time does not wait.
    pub fn turn(&self, until: Option<Nanos>, ready: &mut Vec<Token>) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        state.timed(Doing::Turn, |state| self.take_turn(state, until))?;
        for slot in &state.ready {
            ready.push(Token(*slot));
        }
        state.clear_ready();
        Ok(())
    }

    /// Like [`turn`](Self::turn), with the events in [`CoreState::ready`].
    #[inline]
    fn take_turn(&self, state: &mut CoreState, until: Option<Nanos>) -> io::Result<()> {
        self.turn_companion(state)?;
        state.receive.turn();
        state.refill();
        let ring_first = state.polls_ring_first();
        if !ring_first {
            state.receive_direct_timed();
            state.heard_direct = !state.ready.is_empty();
        }
        if !state.heard_direct {
            if state.in_flight > 0 && state.ring().needs_entry() {
                state.timed(Doing::Enter, |state| state.ring().enter())?;
                self.yield_to_peer(state);
            }
            state.timed(Doing::Reap, |state| {
                state.reap();
                state.turn_beside_ring();
                state.turn_polled();
                state.turn_commands();
            });
        }
        if ring_first {
            state.receive_direct_timed();
        }
        state.queued_files = 0;
        if state.ready.is_empty() {
            let now = self.now();
            if until.is_none_or(|until| until > now) {
                state.timed(Doing::Wait, |state| self.wait(state, now, until))?;
            }
        }
        self.end_visit(state);
        Ok(())
    }
}

/// The owner of a token.
pub(crate) enum Slot {
    Free,
    Socket(Box<SocketState>),
    Listener(Box<ListenerState>),
    File(Box<FileState>),
    Waker(Box<WakerState>),
    Watched(Box<WatchState>),
    Ublk(Box<UblkState>),
}

/// Operation of a slot to which a completion belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Receive,
    Send,
    Accept,
    File,
    Wake,
    Watch,
    Readable,
    Ublk,
}

const KINDS: [Kind; 8] = [
    Kind::Receive,
    Kind::Send,
    Kind::Accept,
    Kind::File,
    Kind::Wake,
    Kind::Watch,
    Kind::Readable,
    Kind::Ublk,
];

/// State of a core that operations and completions touch.
pub(crate) struct CoreState {
    /// Present until the drop, which precedes that of the registered buffers.
    pub(crate) ring: Option<Ring>,
    pub(crate) receive: ReceiveBuffers,
    pub(crate) slots: Vec<Slot>,
    free: Vec<u32>,
    /// I/Os that bypass the ring, and their completions.
    pub(crate) calls: Calls,
    /// I/Os that may be submitted in batches.
    pub(crate) batches: Calls,
    pub(crate) aio: Option<Aio>,
    /// Rings for polled files, one per kind of polling in use.
    pub(crate) polled: Vec<PolledRing>,
    /// Rings for NVMe commands.
    pub(crate) commands: Vec<CommandRing>,
    answers: Vec<(u64, i32)>,
    /// Sockets that wait for a receive buffer.
    pub(crate) refill: Refill,
    pub(crate) batch: Vec<(u64, i32, u32)>,
    pub(crate) ready: Vec<u32>,
    /// I/Os of files that were queued since the kernel was last entered.
    queued_files: usize,
    /// Completions reaped by the last turn.
    reaped: usize,
    /// Operations in flight; a multishot counts as one until it ends.
    pub(crate) in_flight: usize,
    /// Operations in flight of wakers, one each.
    pub(crate) wakers: usize,
    /// Whether other threads compete for this CPU.
    pub(crate) crowd: Crowd,
    pub(crate) patience: Patience,
    /// I/Os in flight of files served by a kernel thread.
    pub(crate) behind_threads: usize,
    /// Sockets not yet dropped by their owners.
    pub(crate) live_sockets: usize,
    /// The lone socket that receives by system calls, and a buffer for its next data.
    pub(crate) direct: Option<u32>,
    /// The direct socket had data in the last turn, which polled nothing else.
    pub(crate) heard_direct: bool,
    pub(crate) spare: Option<Buf>,
    /// For zero-copy sends; created on first use.
    pub(crate) pipe: Option<Pipe>,
    /// A companion loop on this thread.
    pub(crate) company: Option<Company>,
    /// Placement of this core, if it follows its peers.
    pub(crate) guest: Option<Guest>,
    /// Records the activity of this core, if enabled.
    pub(crate) record: Option<Box<Record>>,
    /// Pool that receives the buffers of sent chains and closed sockets.
    pub(crate) pool: Pool,
}

impl CoreState {
    pub(crate) fn ring(&mut self) -> &mut Ring {
        self.ring.as_mut().expect("the ring lives until the drop")
    }

    /// Allocates a slot.
    pub(crate) fn insert(&mut self, slot: Slot) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = slot;
            return index;
        }
        self.slots.push(slot);
        self.slots.len() as u32 - 1
    }

    /// Frees a slot without operations in flight.
    pub(crate) fn remove(&mut self, index: u32) {
        let slot = std::mem::replace(&mut self.slots[index as usize], Slot::Free);
        if let Slot::Socket(mut socket) = slot {
            socket.chain.recycle(&self.pool);
            if socket.waits {
                self.refill.forget(index);
            }
        }
        self.free.push(index);
    }

    /// Queues an operation of a slot; `part` comes back with the completion.
    ///
    /// # Safety
    /// Whatever the entry points to stays valid and untouched until its completion: it belongs to
    /// the slot, which is not removed before.
    pub(crate) unsafe fn push(
        &mut self,
        entry: squeue::Entry,
        kind: Kind,
        index: u32,
        part: u32,
    ) -> io::Result<()> {
        debug_assert!(part < 1 << 24);
        let data = u64::from(kind as u8) << 56 | u64::from(part) << 32 | u64::from(index);
        // SAFETY: the caller's promise.
        unsafe { self.ring().push(&entry.user_data(data)) }?;
        self.in_flight += 1;
        Ok(())
    }

    /// Reports an event to the owner of a slot, at the end of the turn.
    pub(crate) fn mark_ready(&mut self, index: u32) {
        let marked = match &mut self.slots[index as usize] {
            Slot::Socket(socket) => &mut socket.ready,
            Slot::File(file) => &mut file.ready,
            Slot::Watched(watch) => &mut watch.ready,
            Slot::Ublk(ublk) => &mut ublk.ready,
            Slot::Listener(_) | Slot::Waker(_) | Slot::Free => &mut false,
        };
        if !std::mem::replace(marked, true) {
            self.ready.push(index);
        }
    }

    fn clear_ready(&mut self) {
        for index in &self.ready {
            match &mut self.slots[*index as usize] {
                Slot::Socket(socket) => socket.ready = false,
                Slot::File(file) => file.ready = false,
                Slot::Watched(watch) => watch.ready = false,
                Slot::Ublk(ublk) => ublk.ready = false,
                Slot::Listener(_) | Slot::Waker(_) | Slot::Free => {}
            }
        }
        self.ready.clear();
    }

    /// Arms one waiting receive per free buffer.
    pub(crate) fn refill(&mut self) {
        if self.refill.is_empty() {
            return;
        }
        let (arming, count) = self.refill.plan(self.receive.free());
        for _ in 0..count {
            let Some(index) = self.refill.take() else { return };
            self.socket(index).waits = false;
            self.arm_receive(index, arming);
        }
    }

    /// Reaps and handles all completions.
    pub(crate) fn reap(&mut self) {
        let mut batch = std::mem::take(&mut self.batch);
        self.ring().take_completions(&mut batch);
        if !batch.is_empty() {
            self.reaped = batch.len();
        }
        for (data, result, flags) in batch.drain(..) {
            let kind = KINDS[usize::from((data >> 56) as u8)];
            let (part, index) = ((data >> 32) as u32 & 0xff_ffff, data as u32);
            if !io_uring::cqueue::more(flags) {
                self.in_flight -= 1;
            }
            match kind {
                Kind::Receive => self.received(index, part, result, flags),
                Kind::Send => self.sent(index, result),
                Kind::Accept => self.accepted(index, result),
                Kind::File => self.file_done(index, part, result),
                Kind::Wake => self.woken(index),
                Kind::Watch => self.watched(index, result),
                Kind::Readable => self.readable(index, part),
                Kind::Ublk => self.ublk_done(index, part, result),
            }
        }
        self.batch = batch;
    }

    /// Submits and reaps I/Os that bypass the ring.
    #[inline]
    pub(crate) fn turn_beside_ring(&mut self) {
        let aio_pending = self.aio.as_ref().map_or(0, Aio::pending);
        if self.calls.pending() + self.batches.pending() + aio_pending == 0 {
            return;
        }
        let mut answers = std::mem::take(&mut self.answers);
        self.calls.turn(&mut answers);
        if let Some(aio) = &mut self.aio {
            if aio_pending > 0 {
                aio.turn(&mut answers);
            }
            self.batches.turn_with(aio, &mut answers);
        }
        for (data, result) in answers.drain(..) {
            self.file_done(data as u32, (data >> 32) as u32, result);
        }
        self.answers = answers;
    }

    /// Submits queued I/Os of files, if there are enough.
    #[inline]
    pub(crate) fn submit_some(&mut self) -> io::Result<()> {
        self.queued_files += 1;
        if self.queued_files < (self.reaped / PARTS_OF_MANY).max(PART) {
            return Ok(());
        }
        self.queued_files = 0;
        self.timed(Doing::Enter, |state| state.ring().submit())
    }

    /// Whether I/Os in flight complete outside of the ring.
    pub(crate) fn must_poll(&self) -> bool {
        let aio = self.aio.as_ref().is_some_and(|aio| aio.pending() > 0);
        let calls = self.calls.pending() + self.batches.pending();
        aio || calls > 0 || self.polled_in_flight() + self.commands_in_flight() > 0
    }

    /// Cancels all operations, so that the kernel releases every buffer.
    fn drain(&mut self) -> bool {
        for index in 0..self.slots.len() as u32 {
            self.abandon(index);
        }
        let clock = Clock::get();
        let end = clock.now() + DRAIN;
        while self.in_flight > 0 && clock.now() < end {
            if self.ring().wait(Some(Nanos::from_millis(100))).is_err() {
                break;
            }
            self.reap();
        }
        while self.polled_in_flight() + self.commands_in_flight() > 0 && clock.now() < end {
            self.turn_polled();
            self.turn_commands();
            std::thread::yield_now();
        }
        self.in_flight + self.polled_in_flight() + self.commands_in_flight() == 0
    }

    fn abandon(&mut self, index: u32) {
        match &mut self.slots[index as usize] {
            Slot::Socket(_) => self.close_socket(index),
            Slot::Listener(_) => self.close_listener(index),
            Slot::Waker(waker) => waker.raise(),
            Slot::Watched(_) => self.close_watch(index),
            // Commands of the device end when it is stopped.
            Slot::File(_) | Slot::Ublk(_) | Slot::Free => {}
        }
    }
}

impl Drop for CoreState {
    fn drop(&mut self) {
        // Waits for its I/Os in flight.
        self.aio = None;
        let quiet = self.drain();
        self.ring = None;
        self.polled.clear();
        self.commands.clear();
        if !quiet {
            // The kernel may still write into these buffers: leak them rather than reuse them.
            std::mem::forget(std::mem::take(&mut self.slots));
            std::mem::forget(std::mem::replace(&mut self.receive, ReceiveBuffers::empty()));
        }
    }
}
