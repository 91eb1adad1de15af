//! One core of a server: its listeners, connections and units, and the loop over them.

mod ordered;

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use block::{Done, Nanos, Plant, Tag, planted, print_size};
use os::{Reactor, ReactorListener, ReactorSocket, ReactorStream, Token};
use proto::{Notice, Outbox, UnitId};

use crate::connection::{Connection, Outcome};
use crate::connections::Connections;
use crate::counts::Tally;
use crate::deadlines::DeadlineTimer;
use crate::faults::Faults;
use crate::memory;
use crate::protocol::Protocol;
use crate::shared::Shared;
use crate::units::{LaneSource, Units};
use ordered::Leaving;

/// Connections that wait for a buffer retry this often: memory returned by another core is no event
/// here.
const RETRY_PERIOD: Nanos = Nanos::from_millis(1);
/// Time for peers to log out when the server stops.
const LEAVING: Nanos = Nanos::from_secs(2);

/// One core of a server.
pub struct Portal<R: Reactor> {
    core: R,
    /// Index of the portal among the server's cores.
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<(R::Listener, Protocol)>,
    /// An accept failed: the next timer re-arms the listeners.
    is_deaf: bool,
    connections: Connections<R::Socket>,
    units: Units<R>,
    faults: Faults,
    /// Counts I/Os, if somebody watches.
    tally: Option<Tally>,
    /// Connections with unsent data.
    unflushed: Vec<usize>,
    /// Connections whose commands wait for a buffer, the longest waiting first.
    starving: VecDeque<usize>,
    /// Time of the next attempt for the starving connections.
    retry_at: Nanos,
    /// Sockets and listeners with events, in order of arrival.
    ready: VecDeque<Token>,
    news: Vec<Token>,
    deadlines: DeadlineTimer,
    /// Whether there is memory to return.
    has_spare: bool,
    /// Volumes that are being removed, and when that was last looked at.
    leaving: Vec<Leaving>,
    looked: Nanos,
    /// Time limit for peers to log out, once the server stops.
    end: Option<Nanos>,
}

impl<R: Reactor> Portal<R> {
    /// Core number `index` of a server, which serves `listeners` with lanes from `source`.
    pub fn new(
        core: R,
        index: usize,
        shared: Arc<Shared>,
        listeners: Vec<(R::Listener, Protocol)>,
        source: Box<dyn LaneSource<R>>,
    ) -> Portal<R> {
        let places = shared.protocols.places().count;
        let (units, faults) = (Units::new(places, source), Faults::new(places));
        let tally = shared.cells(index).map(|cells| Tally::new(Arc::clone(cells)));
        let deadlines = DeadlineTimer::new(core.now());
        Portal {
            core,
            index,
            shared,
            listeners,
            is_deaf: false,
            connections: Connections::new(),
            units,
            faults,
            tally,
            unflushed: Vec::with_capacity(1024),
            starving: VecDeque::new(),
            retry_at: Nanos(0),
            ready: VecDeque::with_capacity(1024),
            news: Vec::with_capacity(1024),
            deadlines,
            has_spare: false,
            leaving: Vec::new(),
            looked: Nanos(0),
            end: None,
        }
    }

    /// The reactor.
    pub fn core(&self) -> &R {
        &self.core
    }

    /// Whether the server is stopping and all peers have left, or their time is over.
    pub fn has_ended(&mut self) -> bool {
        if !self.shared.stopping() {
            return false;
        }
        let end = self.end.unwrap_or_else(|| self.ask_to_leave());
        self.end = Some(end);
        self.connections.is_empty() || self.core.now() >= end
    }

    /// Time to wake without an event: at once if work is pending.
    pub fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        let deadline = self.has_deadlines().then_some(self.deadlines.due());
        let retry = (!self.starving.is_empty()).then_some(self.retry_at);
        self.units
            .wake()
            .into_iter()
            .chain(deadline)
            .chain(retry)
            .chain(self.look_at_leaving())
            .min()
    }

    /// Waits for events up to `until`, and serves connections in order of arrival, until
    /// `most_bytes` were moved. Returns whether there were any events.
    ///
    /// # Errors
    ///
    /// Errors of the reactor, which is unusable then.
    pub fn take_turn(&mut self, until: Option<Nanos>, most_bytes: usize) -> io::Result<bool> {
        let until = if self.ready.is_empty() { until } else { Some(Nanos(0)) };
        let has_deadlines = self.has_deadlines();
        self.core.turn(until, &mut self.news)?;
        for token in self.news.drain(..) {
            let connection = self.connections.of(token).and_then(|slot| self.connections.get(slot));
            if connection.is_none_or(|it| !std::mem::replace(&mut it.is_queued, true)) {
                self.ready.push_back(token);
            }
        }
        let now = self.core.now();
        let mail = self.shared.mailboxes[self.index].take();
        mail.notices.iter().for_each(|notice| self.tell(notice, None, now));
        if !mail.orders.is_empty() {
            self.carry_out(mail.orders, now);
        }
        if !self.starving.is_empty() {
            self.retry_starving(now);
        }
        let news = !self.ready.is_empty();
        let mut moved_bytes = 0;
        while moved_bytes < most_bytes
            && let Some(token) = self.ready.pop_front()
        {
            moved_bytes += self.serve(token, now);
        }
        if self.units.has_busy() {
            self.poll_busy(now);
        }
        self.units.poll_idle(now);
        self.flush(now);
        if !self.leaving.is_empty() {
            self.see_off(now);
        }
        if self.deadlines.begin(now, has_deadlines) {
            self.check_deadlines(now);
        }
        if let Some(tally) = &mut self.tally {
            tally.end_turn(|| self.core.now());
        }
        Ok(news)
    }

    fn has_deadlines(&self) -> bool {
        let is_deaf = self.is_deaf && !planted(Plant::StayDeaf);
        !self.connections.is_empty() || self.has_spare || is_deaf
    }

    /// Stops listening and requests a logout of every peer; returns the time limit.
    fn ask_to_leave(&mut self) -> Nanos {
        let now = self.core.now();
        self.listeners.clear();
        self.is_deaf = false;
        for slot in 0..self.connections.slots() {
            if let Some(connection) = self.connections.get(slot) {
                connection.end.ask_to_leave(now, &mut connection.out);
                self.unflushed.push(slot);
            }
        }
        self.flush(now);
        now + LEAVING
    }

    /// Serves a connection or listener with events; returns the bytes moved.
    fn serve(&mut self, token: Token, now: Nanos) -> usize {
        if let Some(slot) = self.connections.of(token) {
            return self.serve_connection(slot, token, now);
        }
        let listener = self.listeners.iter().position(|(listener, _)| listener.token() == token);
        if listener.is_none() {
            self.units.heard(now);
        }
        while let Some(listener) = listener
            && let (listener, protocol) = &self.listeners[listener]
            && let Some(accepted) = listener.accept()
        {
            let protocol = *protocol;
            match accepted {
                Ok(stream) => {
                    if let Err(error) = self.admit(stream, protocol, now) {
                        self.log_accept(&error, now);
                    }
                }
                Err(error) => {
                    self.is_deaf = true;
                    self.log_accept(&error, now);
                }
            }
        }
        0
    }

    #[cold]
    fn log_accept(&self, error: &io::Error, now: Nanos) {
        let remedy = os::files_remedy(error);
        self.shared.log.say(now, &format!("cannot accept: {error}{remedy}"));
    }

    /// Adds a new connection, within the limits.
    fn admit(&mut self, stream: R::Stream, protocol: Protocol, now: Nanos) -> io::Result<()> {
        let peer = stream.peer_addr().map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
        let address = stream.peer_addr().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip());
        let limits = self.shared.limits;
        let refuse = |why: &dyn std::fmt::Display| {
            self.shared.log.say(now, &format!("refused {peer}: {why}"));
            Ok(())
        };
        let affordable = memory::affordable(&self.shared.budget);
        let seat = match self.shared.hosts.admit(address, affordable) {
            Ok(seat) => seat,
            Err(full) => return refuse(&full),
        };
        let Some(account) = memory::account(self.core.pool()) else {
            let limit = print_size(self.shared.budget.limit_bytes());
            return refuse(&format!("the memory budget of {limit} for connections is exhausted"));
        };
        if let Some(slot) = self.connections.oldest_half_open(limits.half_open) {
            self.close(slot, Some("too many connections that have not logged in".to_owned()), now);
        }
        let local = stream.local_addr()?;
        let socket = self.core.adopt(stream)?;
        let number = self.shared.connection_id();
        let end = self.shared.protocols.end(protocol, local, address, number, now);
        let (mut end, mut out) = (end, Outbox::of(account));
        if self.tally.is_some() {
            out.count_in_place();
        }
        end.begin(&mut out);
        let speaks_first = !out.is_empty();
        let mut connection = Connection::new(socket, (end, protocol), out, number, peer, seat);
        connection.is_unlogged = self.shared.log.has_connections;
        let slot = self.connections.insert(connection);
        if speaks_first {
            self.unflushed.push(slot);
            self.flush(now);
        }
        Ok(())
    }

    /// Receives a share of a connection's data and submits its requests to the volumes; returns the
    /// bytes received and queued.
    fn serve_connection(&mut self, slot: usize, token: Token, now: Nanos) -> usize {
        let Some(connection) = self.connections.get(slot) else { return 0 };
        if let Some(withheld) = self.units.withheld(now) {
            connection.end.withhold(&withheld);
        }
        let mut moved_bytes = 0;
        let share = self.shared.limits.share_bytes;
        let share = if planted(Plant::ServeWhole) { usize::MAX } else { share };
        match connection.receive(now, share, &mut moved_bytes) {
            Ok(true) => self.ready.push_back(token),
            Ok(false) => connection.is_queued = false,
            Err(ending) => {
                let line = format!("ended {}: {ending}", connection.peer);
                self.shared.log.say(now, &line);
                connection.start_closing(now);
                // Later events of this socket return their receive buffers.
                self.ready.push_back(token);
            }
        }
        let is_new = connection.is_unlogged && !connection.end.half_open();
        let notices = connection.end.take_notices();
        if is_new {
            self.log_login(slot, now);
        }
        if !notices.is_empty() {
            self.spread_all(notices, slot, now);
        }
        self.carry(slot, now);
        moved_bytes += self.connections.get(slot).map_or(0, |it| it.out.len_bytes());
        self.unflushed.push(slot);
        // At once, while prefetched cache lines are on their way.
        self.flush(now);
        moved_bytes
    }

    /// Logs who has logged in, and to what.
    #[cold]
    fn log_login(&mut self, slot: usize, now: Nanos) {
        let Some(connection) = self.connections.get(slot) else { return };
        connection.is_unlogged = false;
        let offered = self.shared.protocols.places().offered();
        let used = offered.iter().filter(|place| connection.end.uses(place.unit));
        let used: Vec<String> = used.map(|place| place.export.name()).collect();
        let host = connection.host();
        let line = match &used[..] {
            [] => format!("{host}: discovers"),
            used => format!("{host}: logged in to {}", used.join(", ")),
        };
        connection.logged = Some(host);
        self.shared.log.say(now, &line);
    }

    /// Distributes the notices of a connection to others, and to the log.
    #[cold]
    fn take_news(&mut self, slot: usize, now: Nanos) {
        let Some(connection) = self.connections.get(slot) else { return };
        connection.has_news = false;
        if let Some(remark) = connection.end.take_remark() {
            let line = format!("{}: {remark}", connection.peer);
            self.shared.log.say(now, &line);
        }
        let notices = connection.end.take_notices();
        notices.iter().for_each(|notice| self.spread(notice, slot, now));
    }

    /// Broadcasts notices of a connection, which may continue after actions of others on this core.
    #[cold]
    fn spread_all(&mut self, notices: Vec<Notice>, slot: usize, now: Nanos) {
        notices.iter().for_each(|notice| self.spread(notice, slot, now));
        // Whoever waits for others is not held up by its own notice.
        drop(notices);
        if let Some(connection) = self.connections.get(slot) {
            connection.end.drained(now, &mut connection.out);
        }
    }

    /// Broadcasts a notice of this core to all connections: here at once, on other cores in their
    /// next turn.
    #[cold]
    fn spread(&mut self, notice: &Notice, from: usize, now: Nanos) {
        self.tell(notice, Some(from), now);
        for (core, mailbox) in self.shared.mailboxes.iter().enumerate() {
            if core != self.index && !mailbox.put(notice) {
                let line = format!(
                    "the queue of core {core} is full: some notifications to \
                    hosts were dropped"
                );
                self.shared.log.say(now, &line);
            }
        }
    }

    /// Passes a notice to the connections of this core, except the one that sent it.
    #[cold]
    fn tell(&mut self, notice: &Notice, except: Option<usize>, now: Nanos) {
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            // A session that has ended may have left I/Os for whose end others wait.
            let concerned = matches!(notice, Notice::TasksEnd(_)) || !connection.end.finished();
            if Some(slot) == except || !concerned {
                continue;
            }
            let Connection { end, out, socket, .. } = connection;
            end.notice(notice, &mut || socket.is_there(), out);
            if connection.end.finished()
                && let Some(why) = connection.end.take_remark()
            {
                self.shared.log.say(now, &format!("ended {}: {why}", connection.peer));
            }
            self.unflushed.push(slot);
        }
    }

    /// Submits the requests of a connection to their volumes, in batches for the same one.
    fn carry(&mut self, slot: usize, now: Nanos) {
        loop {
            let Some(connection) = self.connections.get(slot) else { return };
            let requests = connection.end.requests();
            let Some(unit) = requests.front().map(|request| request.unit) else { return };
            let UnitId(index) = unit;
            let before = requests.len();
            while requests.front().is_some_and(|request| request.unit == unit) {
                let mut io = requests.pop_front().expect("there is a front").io;
                io.tag = Tag(io.tag.0 | (slot as u64) << 32);
                if let Some(tally) = &mut self.tally {
                    tally.begin(&io, now);
                }
                self.units.take(index as usize, io);
            }
            let added = before - requests.len();
            connection.in_flight += added;
            self.drive(index as usize, now);
        }
    }

    /// Submits a unit's batch and handles completions.
    fn drive(&mut self, unit: usize, now: Nanos) {
        self.units.drive(unit, &self.core, now);
        self.complete(unit, now);
    }

    /// Handles completions of a unit.
    fn complete(&mut self, unit: usize, now: Nanos) {
        // Losses are noted before flushes that failed with the lane are answered: the answers
        // report them.
        let places = self.shared.protocols.places();
        self.units.broken.drain(..).for_each(|unit| places.lose(unit));
        let mut done = std::mem::take(&mut self.units.done);
        let mut last = usize::MAX;
        for mut done in done.drain(..) {
            if let Some(tally) = &mut self.tally {
                tally.answer(unit, &done);
            }
            let slot = (done.tag.0 >> 32) as usize;
            done.tag.0 &= 0xffff_ffff;
            if done.result.is_err() {
                self.note_fault(unit, &done, now);
            }
            let connection = self.connections.get(slot).expect("it waits for its I/Os");
            if let (Err(_), Some((reset, _))) = (done.result, done.cause.as_end()) {
                connection.break_off(now, reset);
            }
            connection.complete(now, done);
            if slot != last {
                self.unflushed.push(slot);
                last = slot;
            }
        }
        self.units.done = done;
        if !self.units.troubles.is_empty() {
            self.log_troubles(now);
        }
    }

    /// Logs volumes that cannot be used, and why.
    #[cold]
    fn log_troubles(&mut self, now: Nanos) {
        for (unit, why) in std::mem::take(&mut self.units.troubles) {
            self.shared
                .log
                .say(now, &format!("volume {}: {why}", self.shared.protocols.places().name(unit)));
        }
    }

    /// Logs a failed I/O of a volume.
    #[cold]
    fn note_fault(&mut self, unit: usize, done: &Done, now: Nanos) {
        let Err(fault) = done.result else { return };
        let words = || self.units.words_of(unit, done.cause);
        let name = || self.shared.protocols.places().name(unit);
        self.faults.note(now, &self.shared.log, (unit, name), (fault, done.cause), words);
    }

    /// Polls the units with I/Os in flight, each once.
    fn poll_busy(&mut self, now: Nanos) {
        for _ in 0..self.units.busy_count() {
            let Some(unit) = self.units.next_busy() else { return };
            self.units.poll(unit, &self.core, now);
            self.complete(unit, now);
        }
    }

    /// Retries commands that wait for a buffer, before new commands take the returned ones.
    #[cold]
    fn retry_starving(&mut self, now: Nanos) {
        self.retry_at = now + RETRY_PERIOD;
        let withheld = self.units.withheld(now);
        for _ in 0..self.starving.len() {
            let Some(slot) = self.starving.pop_front() else { return };
            // The slot may have a new connection, which does no harm.
            let Some(connection) = self.connections.get(slot) else { continue };
            connection.is_starving = false;
            if let Some(withheld) = &withheld {
                connection.end.withhold(withheld);
            }
            connection.end.drained(now, &mut connection.out);
            // Connections that still wait keep their order.
            self.unflushed.push(slot);
        }
        self.flush(now);
    }

    /// Sends the connections' data. A completion may have freed resources for more requests, which
    /// are submitted first.
    fn flush(&mut self, now: Nanos) {
        let mut next = 0;
        while let Some(slot) = self.unflushed.get(next).copied() {
            next += 1;
            self.carry(slot, now);
            let limit = self.shared.limits.unread_bytes;
            let Some(connection) = self.connections.get(slot) else { continue };
            let outcome = connection.flush(now, limit);
            if let Some(tally) = &mut self.tally {
                connection.out.take_in_place().for_each(|done| tally.in_place(done, now));
            }
            let has_news = connection.has_news;
            if connection.end.starves() && !std::mem::replace(&mut connection.is_starving, true) {
                self.starving.push_back(slot);
            }
            match outcome {
                Outcome::Open => {}
                Outcome::Again => self.unflushed.push(slot),
                Outcome::Over(why) => {
                    if has_news {
                        self.take_news(slot, now);
                    }
                    self.close(slot, why, now);
                    continue;
                }
            }
            if has_news {
                self.take_news(slot, now);
            }
        }
        self.unflushed.clear();
    }

    fn close(&mut self, slot: usize, why: Option<String>, now: Nanos) {
        let Some(mut connection) = self.connections.remove(slot) else { return };
        if let Some(why) = why {
            self.shared.log.say(now, &format!("ended {}: {why}", connection.peer));
        }
        if let Some(host) = &connection.logged {
            self.shared.log.say(now, &format!("{host}: connection closed"));
        }
        // A connection closed to make room for others loses its unsent responses.
        connection.leave();
        self.has_spare = true;
    }

    /// Returns memory that has been idle for a while.
    fn give_memory_back(&mut self, now: Nanos) {
        let had_spare = self.has_spare;
        if had_spare && self.connections.is_empty() && !self.units.has_busy() {
            self.core.forget_arenas();
        }
        self.has_spare = !planted(Plant::KeepMemory) && self.core.pool().review(now);
        if had_spare && !self.has_spare && self.connections.is_empty() {
            self.core.trim_heap();
        }
    }

    /// Checks every deadline, and re-arms listeners after a failed accept.
    fn check_deadlines(&mut self, now: Nanos) {
        let places = self.shared.protocols.places();
        self.faults.tell(now, &self.shared.log, |unit| places.name(unit));
        self.give_memory_back(now);
        self.is_deaf = false;
        for (listener, _) in &self.listeners {
            if let Err(error) = listener.resume() {
                self.is_deaf = true;
                self.log_accept(&error, now);
            }
        }
        for slot in 0..self.connections.slots() {
            let Some(connection) = self.connections.get(slot) else { continue };
            if connection.end.deadline().is_some_and(|deadline| deadline <= now)
                && let Err(ending) = connection.end.tick(now, &mut connection.out)
            {
                let line = format!("ended {}: {ending}", connection.peer);
                self.shared.log.say(now, &line);
                connection.start_closing(now);
            }
            self.take_news(slot, now);
            self.unflushed.push(slot);
        }
        self.flush(now);
    }
}
