//! One core of a server: its listeners, its connections, its lanes, and the loop over them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use block::{Done, Io, Lane, Nanos, Tag, print_size};
use os::{Companion, Core, Job, Listener, Socket, Token, Turned};
use proto::{Notice, Outbox, UnitId};

use crate::connection::{Connection, Outcome};
use crate::memory;
use crate::protocol::Protocol;
use crate::shared::Shared;
use crate::sweeps::Sweeps;

/// Beside another loop a turn ends after so many bytes: what it has moved is then still in the
/// second level cache when the other loop takes it.
const PART_BYTES: usize = 256 << 10;
/// How long peers have to leave when the server ends.
const LEAVING: Nanos = Nanos::from_secs(2);

/// One core of a server.
pub(crate) struct Portal {
    core: Core,
    /// Which of the server's cores it is.
    index: usize,
    shared: Arc<Shared>,
    listeners: Vec<(Listener, Protocol)>,
    connections: Vec<Option<Box<Connection>>>,
    free: Vec<usize>,
    /// By token of the socket: which connection it belongs to.
    owners: Vec<Option<usize>>,
    /// By unit: made when it is first asked for.
    lanes: Vec<Option<Way>>,
    /// Units whose lanes have something under way.
    busy: Vec<usize>,
    /// Connections that something was written to and not yet flushed.
    unflushed: Vec<usize>,
    done: Vec<Done>,
    /// Sockets and listeners with news, in the order in which they came.
    ready: VecDeque<Token>,
    news: Vec<Token>,
    sweeps: Sweeps,
    /// There is memory to be given back.
    has_spare: bool,
    /// Until when peers may leave, once the server is to stop.
    end: Option<Nanos>,
}

/// This core's way to a volume, and what is to go there next.
struct Way {
    lane: Box<dyn Lane>,
    batch: VecDeque<Io>,
    under_way: usize,
}

impl Portal {
    pub(crate) fn new(
        core: Core,
        index: usize,
        shared: Arc<Shared>,
        listeners: Vec<(Listener, Protocol)>,
    ) -> Portal {
        let lanes = shared.volumes.iter().map(|_| None).collect();
        let sweeps = Sweeps::new(core.now());
        Portal {
            core,
            index,
            shared,
            listeners,
            connections: Vec::new(),
            free: Vec::new(),
            owners: Vec::new(),
            lanes,
            busy: Vec::with_capacity(64),
            unflushed: Vec::with_capacity(1024),
            done: Vec::with_capacity(1024),
            ready: VecDeque::with_capacity(1024),
            news: Vec::with_capacity(1024),
            sweeps,
            has_spare: false,
            end: None,
        }
    }

    /// Serves until the server is asked to stop, and a little longer: peers are asked to leave.
    /// Runs the jobs that others have for this thread, and goes on beside them.
    pub(crate) fn run(self, jobs: &Receiver<Job>) -> io::Result<()> {
        let portal = Rc::new(RefCell::new(self));
        loop {
            if let Ok(job) = jobs.try_recv() {
                job(portal.clone());
            }
            let mut portal = portal.borrow_mut();
            if portal.has_ended() {
                return Ok(());
            }
            let until = portal.wake();
            portal.take_turn(until, usize::MAX)?;
        }
    }

    /// Whether the server was asked to stop and all peers have left, or had time to.
    fn has_ended(&mut self) -> bool {
        if !self.shared.stopping() {
            return false;
        }
        let end = self.end.unwrap_or_else(|| self.ask_to_leave());
        self.end = Some(end);
        !self.has_connections() || self.core.now() >= end
    }

    /// When there is something to do if nothing comes before.
    fn wake(&self) -> Option<Nanos> {
        let sweep = (self.has_connections() || self.has_spare).then_some(self.sweeps.due());
        let wake = self.busy.iter().filter_map(|unit| self.lanes[*unit].as_ref()?.lane.wake());
        wake.chain(sweep).min()
    }

    /// Waits for news until then, and serves those that came first, until so many bytes were moved.
    /// Whether there were any.
    fn take_turn(&mut self, until: Option<Nanos>, most_bytes: usize) -> io::Result<bool> {
        let until = if self.ready.is_empty() { until } else { Some(Nanos(0)) };
        let awaits_sweep = self.has_connections() || self.has_spare;
        self.core.turn(until, &mut self.news)?;
        self.ready.extend(self.news.drain(..));
        let now = self.core.now();
        for notice in self.shared.mailboxes[self.index].take() {
            self.tell(&notice, None, now);
        }
        let news = !self.ready.is_empty();
        let mut moved_bytes = 0;
        while moved_bytes < most_bytes
            && let Some(token) = self.ready.pop_front()
        {
            moved_bytes += self.serve(token, now);
        }
        if !self.busy.is_empty() {
            self.poll_busy(now);
        }
        self.flush(now);
        if self.sweeps.begin(now, awaits_sweep) {
            self.sweep(now);
        }
        Ok(news)
    }

    fn has_connections(&self) -> bool {
        self.free.len() < self.connections.len()
    }

    /// Stops listening and asks every peer to leave; returns until when it may.
    fn ask_to_leave(&mut self) -> Nanos {
        let now = self.core.now();
        self.listeners.clear();
        for index in 0..self.connections.len() {
            if let Some(connection) = &mut self.connections[index] {
                connection.end.ask_to_leave(now, &mut connection.out);
                self.unflushed.push(index);
            }
        }
        self.flush(now);
        now + LEAVING
    }

    /// Serves whoever has news; returns how many bytes that moved.
    fn serve(&mut self, token: Token, now: Nanos) -> usize {
        if let Some(Some(index)) = self.owners.get(token.0 as usize) {
            let index = *index;
            return self.serve_connection(index, now);
        }
        let listener = self.listeners.iter().position(|(listener, _)| listener.token() == token);
        while let Some(listener) = listener
            && let (listener, protocol) = &self.listeners[listener]
            && let Some(accepted) = listener.accept()
        {
            let protocol = *protocol;
            match accepted.and_then(|stream| self.admit(stream, protocol, now)) {
                Ok(()) => {}
                Err(error) => self.shared.log.say(now, &format!("cannot accept: {error}")),
            }
        }
        0
    }

    /// Takes a newcomer in, within the limits.
    fn admit(&mut self, stream: TcpStream, protocol: Protocol, now: Nanos) -> io::Result<()> {
        let peer = stream.peer_addr().map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
        let address = stream.peer_addr().map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.ip());
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
            return refuse(&format!("the {limit} of memory that connections may have are used up"));
        };
        self.make_room_for_half_open(now);
        let local = stream.local_addr()?;
        let socket = Socket::new(&self.core, stream)?;
        let end =
            self.shared.protocols.end(protocol, local, address, self.shared.connection_id(), now);
        let out = Outbox::of(account);
        let token = socket.token().0 as usize;
        let connection = Box::new(Connection::new(socket, end, out, peer, now, seat));
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.connections[index] = Some(connection);
        if self.owners.len() <= token {
            self.owners.resize(token + 1, None);
        }
        self.owners[token] = Some(index);
        Ok(())
    }

    /// Ends the oldest connection that has not said who it is, if there are too many of them.
    fn make_room_for_half_open(&mut self, now: Nanos) {
        let numbered = self.connections.iter().enumerate();
        let open = numbered.filter_map(|(index, slot)| Some((index, slot.as_ref()?)));
        let half_open: Vec<_> = open.filter(|(_, connection)| connection.end.half_open()).collect();
        if half_open.len() < self.shared.limits.half_open {
            return;
        }
        let oldest = half_open.iter().min_by_key(|(_, connection)| connection.since);
        if let Some(index) = oldest.map(|(index, _)| *index) {
            self.close(index, Some("too many connections that say nothing".to_owned()), now);
        }
    }

    /// Takes in what has come on a connection and carries its requests to the volumes; returns how
    /// many bytes came and how many are to go.
    fn serve_connection(&mut self, index: usize, now: Nanos) -> usize {
        let Some(connection) = &mut self.connections[index] else { return 0 };
        let mut moved_bytes = 0;
        if let Err(ending) = connection.receive(now, &mut moved_bytes) {
            let line = format!("ended {}: {ending}", connection.peer);
            self.shared.log.say(now, &line);
            connection.say_farewell(now);
        }
        for notice in connection.end.take_notices() {
            self.spread(&notice, index, now);
        }
        self.carry(index, now);
        moved_bytes += self.connections[index].as_ref().map_or(0, |it| it.out.len_bytes());
        self.unflushed.push(index);
        // At once, while the lines that were asked for are on their way into the cache.
        self.flush(now);
        moved_bytes
    }

    /// Has all connections learn what one of this core did: here at once, elsewhere in the next
    /// turn.
    #[cold]
    fn spread(&mut self, notice: &Notice, from: usize, now: Nanos) {
        self.tell(notice, Some(from), now);
        for (core, mailbox) in self.shared.mailboxes.iter().enumerate() {
            if core != self.index && !mailbox.put(notice) {
                let line = format!("too much was told to core {core}: it will not hear of all");
                self.shared.log.say(now, &line);
            }
        }
    }

    /// Tells the connections of this core, except the one that it is about.
    #[cold]
    fn tell(&mut self, notice: &Notice, except: Option<usize>, now: Nanos) {
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else { continue };
            if Some(index) == except || connection.end.finished() {
                continue;
            }
            connection.end.notice(notice, &mut connection.out);
            if connection.end.finished() {
                let line = format!("ended {}: its session was logged in anew", connection.peer);
                self.shared.log.say(now, &line);
            }
            self.unflushed.push(index);
        }
    }

    /// Carries the requests of a connection to their volumes, in runs for the same one.
    fn carry(&mut self, index: usize, now: Nanos) {
        loop {
            let Some(connection) = &mut self.connections[index] else { return };
            let requests = connection.end.requests();
            let Some(unit) = requests.front().map(|request| request.unit) else { return };
            let Some(way) = open_way(&mut self.lanes, unit, &self.shared, &self.core, now) else {
                let request = requests.pop_front().expect("there is a front");
                let Io { tag, buf, .. } = request.io;
                let result = Err(block::Fault::Medium);
                connection.under_way += 1;
                connection.complete(now, Done { tag, result, cause: block::Cause::NONE, buf });
                continue;
            };
            let before = way.batch.len();
            while requests.front().is_some_and(|request| request.unit == unit) {
                let mut io = requests.pop_front().expect("there is a front").io;
                io.tag = Tag(io.tag.0 | (index as u64) << 32);
                way.batch.push_back(io);
            }
            let added = way.batch.len() - before;
            connection.under_way += added;
            way.under_way += added;
            self.drive(unit.0 as usize, now);
        }
    }

    /// Gives a lane its batch and brings back what is finished.
    fn drive(&mut self, unit: usize, now: Nanos) {
        let Some(way) = &mut self.lanes[unit] else { return };
        way.lane.submit(now, &mut way.batch);
        way.lane.poll(now, &mut self.done);
        way.under_way -= self.done.len();
        let mut last = usize::MAX;
        for mut done in self.done.drain(..) {
            let index = (done.tag.0 >> 32) as usize;
            done.tag.0 &= 0xffff_ffff;
            let connection = self.connections[index].as_mut();
            connection.expect("it waits for its I/Os").complete(now, done);
            if index != last {
                self.unflushed.push(index);
                last = index;
            }
        }
        if way.under_way > 0 && !self.busy.contains(&unit) {
            self.busy.push(unit);
        }
    }

    /// Polls the lanes that have something under way.
    fn poll_busy(&mut self, now: Nanos) {
        // Those that stay busy are appended again.
        for _ in 0..self.busy.len() {
            let unit = self.busy.swap_remove(0);
            self.drive(unit, now);
        }
    }

    /// Sends what the connections have to say. A completion may have freed the way for more
    /// requests, which are carried first.
    fn flush(&mut self, now: Nanos) {
        let mut next = 0;
        while let Some(index) = self.unflushed.get(next).copied() {
            next += 1;
            self.carry(index, now);
            let limit = self.shared.limits.unread_bytes;
            let Some(connection) = &mut self.connections[index] else { continue };
            match connection.flush(now, limit) {
                Outcome::Open => {}
                Outcome::Again => self.unflushed.push(index),
                Outcome::Over(why) => self.close(index, why, now),
            }
        }
        self.unflushed.clear();
    }

    fn close(&mut self, index: usize, why: Option<String>, now: Nanos) {
        let Some(connection) = self.connections[index].take() else { return };
        if let Some(why) = why {
            self.shared.log.say(now, &format!("ended {}: {why}", connection.peer));
        }
        self.owners[connection.socket.token().0 as usize] = None;
        self.free.push(index);
        self.has_spare = true;
    }

    /// Looks at every deadline.
    fn sweep(&mut self, now: Nanos) {
        let had_spare = self.has_spare;
        if had_spare && !self.has_connections() && self.busy.is_empty() {
            self.core.forget_arenas();
        }
        self.has_spare = self.core.pool().review(now);
        if had_spare && !self.has_spare && !self.has_connections() {
            os::sample::trim_heap();
        }
        for (listener, _) in &self.listeners {
            if let Err(error) = listener.resume() {
                self.shared.log.say(now, &format!("cannot accept: {error}"));
            }
        }
        for index in 0..self.connections.len() {
            let Some(connection) = &mut self.connections[index] else { continue };
            if connection.end.deadline().is_some_and(|deadline| deadline <= now)
                && let Err(ending) = connection.end.tick(now, &mut connection.out)
            {
                let line = format!("ended {}: {ending}", connection.peer);
                self.shared.log.say(now, &line);
                connection.say_farewell(now);
            }
            self.unflushed.push(index);
        }
        self.flush(now);
    }
}

impl Companion for Portal {
    fn turn(&mut self) -> io::Result<Turned> {
        let busy = self.take_turn(Some(Nanos(0)), PART_BYTES)?;
        // The other loop of this thread is to find the answers while they are in the cache.
        self.core.submit()?;
        Ok(Turned { busy, wake: self.wake() })
    }

    fn core(&self) -> &Core {
        &self.core
    }
}

/// The core's way to a unit, opened when it is first asked for.
fn open_way<'a>(
    lanes: &'a mut [Option<Way>],
    unit: UnitId,
    shared: &Shared,
    core: &Core,
    now: Nanos,
) -> Option<&'a mut Way> {
    let slot = lanes.get_mut(unit.0 as usize)?;
    if slot.is_none() {
        match shared.volumes[unit.0 as usize].lane(core) {
            Ok(lane) => {
                *slot = Some(Way { lane, batch: VecDeque::with_capacity(1024), under_way: 0 });
            }
            Err(error) => shared.log.say(now, &format!("cannot open a volume: {error}")),
        }
    }
    slot.as_mut()
}
