//! Event loop: tokens execute programs and queue at stations.

use super::calendar::{Calendar, Event};
use super::place::{Balance, LiveStation, NOBODY};
use super::program::{Op, Program, Timer};
use crate::check::HELD_MAX;
use crate::{Class, ClassId, Completion, Extent, Network, Picos, Source};

/// Maximum number of requests and branches in flight: 128 MiB of tokens.
pub(super) const TOKENS_MAX: usize = 1 << 21;

/// Reason why a simulation stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// More than [`TOKENS_MAX`] requests and branches in flight.
    Tokens,
    /// Time beyond the range of [`Picos`].
    Time,
}

/// A request, a branch of a request, or the source of an open class.
#[derive(Clone, Copy, Debug)]
struct Token {
    /// Ticket of the event that may wake the token; earlier events were superseded.
    ticket: u64,
    issued: Picos,
    /// Program counter; [`SOURCE`] for the source of an open class.
    pc: u32,
    class: u32,
    /// Station of the token.
    at: u32,
    /// Next token in the station's queue.
    next: u32,
    /// Token that forked this one.
    parent: u32,
    /// Number of outstanding branches.
    pending: u32,
    /// Stations held, the latest one last.
    held: [u32; HELD_MAX],
    held_count: u32,
}

/// Program counter of the source of an open class.
const SOURCE: u32 = u32::MAX;

/// Statistics of a class at a station.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cell {
    pub stayed: Balance,
    pub present: u32,
    pub left: u64,
}

/// Statistics of a class.
#[derive(Debug)]
pub(super) struct Line {
    entry: u32,
    /// True if requests are reissued after their completion.
    pub closed: bool,
    gap: Option<Timer>,
    pub outstanding: u32,
    pub stayed: Balance,
    pub done: u64,
    /// Sum of the latencies of completed requests, in picoseconds.
    pub latency: u128,
}

/// A running simulation.
#[derive(Debug)]
pub(super) struct Engine {
    pub now: Picos,
    pub places: Vec<LiveStation>,
    /// Statistics of all classes and stations, one row of stations per class.
    pub cells: Vec<Cell>,
    pub lines: Vec<Line>,
    pub stop: Option<Stop>,
    /// Number of completed requests of all classes.
    pub done: u64,
    calendar: Calendar,
    ops: Vec<Op>,
    tokens: Vec<Token>,
    free: Vec<u32>,
    /// Tokens that continue at this instant.
    ready: Vec<u32>,
    /// Extent of each token; empty in networks without disks.
    extents: Vec<Option<Extent>>,
}

impl Engine {
    /// Creates the simulation of a checked network at time 0, with all requests ready to start.
    pub fn new(network: &Network, seed: u64) -> Engine {
        let mut engine = Engine::empty(network, seed);
        for (index, class) in (0..).zip(&network.classes) {
            let (count, pc) = match class.source {
                Source::Closed { population, .. } => (population, engine.lines[index].entry),
                Source::Open { .. } => (1, SOURCE),
            };
            for _ in 0..count {
                let token = engine.spawn(index as u32, pc);
                engine.ready.push(token);
            }
        }
        engine
    }

    /// Creates the simulation of a checked network at time 0, without requests.
    pub fn empty(network: &Network, seed: u64) -> Engine {
        let mut program = Program::new(seed);
        let lines = network.classes.iter().map(|class| line(&mut program, class)).collect();
        let cells = vec![Cell::default(); network.classes.len() * network.stations.len()];
        Engine {
            now: Picos(0),
            places: network.stations.iter().map(LiveStation::new).collect(),
            cells,
            lines,
            stop: None,
            done: 0,
            calendar: Calendar::default(),
            ops: program.ops,
            tokens: Vec::new(),
            free: Vec::new(),
            ready: Vec::new(),
            extents: Vec::new(),
        }
    }

    /// Starts a request of `class` at `now`, which must not be earlier than the last event; returns
    /// its token.
    pub fn begin(&mut self, now: Picos, class: u32, extent: Option<Extent>) -> u32 {
        self.now = now;
        let token = self.spawn(class, self.lines[class as usize].entry);
        if extent.is_some() {
            let count = self.extents.len().max(token as usize + 1);
            self.extents.resize(count, None);
            self.extents[token as usize] = extent;
        }
        self.ready.push(token);
        token
    }

    /// Adds a class to a running network; `seed` must be the one of its creation.
    pub fn add(&mut self, class: &Class, seed: u64) {
        let mut program = Program::new(seed);
        program.ops = std::mem::take(&mut self.ops);
        self.lines.push(line(&mut program, class));
        self.ops = program.ops;
        self.cells.resize(self.lines.len() * self.places.len(), Cell::default());
    }

    /// Returns the time of the next event.
    pub fn next(&mut self) -> Option<Picos> {
        if self.ready.is_empty() { self.calendar.peek().map(|e| e.at) } else { Some(self.now) }
    }

    /// Runs all tokens that can continue at this instant.
    #[inline]
    pub fn settle(&mut self, done: &mut impl FnMut(u32, Completion)) {
        while let Some(token) = self.ready.pop() {
            self.run(token, done);
        }
    }

    /// Advances to the next event; returns false if there is none.
    #[inline]
    pub fn step(&mut self, done: &mut impl FnMut(u32, Completion)) -> bool {
        self.settle(done);
        let Some(event) = self.calendar.next() else { return false };
        self.wake(event, done);
        true
    }

    fn wake(&mut self, event: Event, done: &mut impl FnMut(u32, Completion)) {
        let token = event.token();
        let Token { ticket, pc, class, .. } = self.tokens[token as usize];
        if ticket != event.ticket() {
            return;
        }
        self.now = event.at;
        if pc == SOURCE {
            let request = self.spawn(class, self.lines[class as usize].entry);
            self.ready.push(token);
            self.run(request, done);
            return;
        }
        if let Op::Visit { hold, .. } = &self.ops[pc as usize] {
            if *hold {
                let token = &mut self.tokens[token as usize];
                token.held[token.held_count as usize] = token.at;
                token.held_count += 1;
            } else {
                self.leave(token, self.tokens[token as usize].at);
            }
        }
        self.tokens[token as usize].pc += 1;
        self.run(token, done);
    }

    /// Runs the program of `token` until it waits.
    fn run(&mut self, token: u32, done: &mut impl FnMut(u32, Completion)) {
        let t = token as usize;
        loop {
            let pc = self.tokens[t].pc;
            if pc == SOURCE {
                let class = self.tokens[t].class as usize;
                let gap = self.lines[class].gap.as_mut().map_or(Picos(0), Timer::draw);
                return self.plan(token, gap);
            }
            let next = match &mut self.ops[pc as usize] {
                Op::Visit { at, timer, .. } => {
                    let at = if at.len() == 1 { at[0] } else { at[timer.below(at.len())] };
                    return self.arrive(token, at);
                }
                Op::Think(timer) => {
                    let span = timer.draw();
                    return self.plan(token, span);
                }
                Op::Issue => {
                    self.issue(t);
                    pc + 1
                }
                Op::Release => {
                    let token = &mut self.tokens[t];
                    token.held_count -= 1;
                    let at = token.held[token.held_count as usize];
                    self.leave(t as u32, at);
                    pc + 1
                }
                Op::Fork { branches, .. } => {
                    let branches = std::mem::take(branches);
                    self.fork(token, &branches);
                    if let Op::Fork { branches: place, .. } = &mut self.ops[pc as usize] {
                        *place = branches;
                    }
                    return;
                }
                Op::Join => return self.join(token),
                Op::Choose { limits, branches, rng } => {
                    let draw = rng.next_u64();
                    let index = limits.iter().position(|limit| draw < *limit);
                    branches[index.unwrap_or(branches.len() - 1)]
                }
                Op::Jump(to) => *to,
                Op::Done => match self.finish(token, done) {
                    Some(entry) => entry,
                    None => return,
                },
            };
            self.tokens[t].pc = next;
        }
    }

    fn issue(&mut self, t: usize) {
        let token = &mut self.tokens[t];
        token.issued = self.now;
        let line = &mut self.lines[token.class as usize];
        line.outstanding += 1;
        line.stayed.begin(self.now);
    }

    /// Completes a request; returns the program counter of its reissue, if its class is closed.
    fn finish(&mut self, token: u32, done: &mut impl FnMut(u32, Completion)) -> Option<u32> {
        let Token { class, issued, .. } = self.tokens[token as usize];
        let latency = Picos(self.now.0 - issued.0);
        let line = &mut self.lines[class as usize];
        line.outstanding -= 1;
        line.stayed.end(self.now);
        line.done += 1;
        line.latency += u128::from(latency.0);
        self.done += 1;
        done(token, Completion { class: ClassId(class), at: self.now, latency });
        if line.closed {
            return Some(line.entry);
        }
        self.free.push(token);
        None
    }

    fn fork(&mut self, token: u32, branches: &[u32]) {
        let class = self.tokens[token as usize].class;
        self.tokens[token as usize].pending = branches.len() as u32;
        // Reverse order: the last ready token continues first.
        for pc in branches.iter().rev() {
            let child = self.spawn(class, *pc);
            self.tokens[child as usize].parent = token;
            self.ready.push(child);
        }
    }

    fn join(&mut self, token: u32) {
        let parent = self.tokens[token as usize].parent;
        self.free.push(token);
        let waiting = &mut self.tokens[parent as usize];
        waiting.pending -= 1;
        if waiting.pending == 0
            && let Op::Fork { then, .. } = &self.ops[waiting.pc as usize]
        {
            waiting.pc = *then;
            self.ready.push(parent);
        }
    }

    #[inline]
    fn arrive(&mut self, token: u32, at: u32) {
        let now = self.now;
        let class = self.tokens[token as usize].class;
        let cell = &mut self.cells[class as usize * self.places.len() + at as usize];
        cell.present += 1;
        cell.stayed.begin(now);
        self.tokens[token as usize].at = at;
        self.tokens[token as usize].next = NOBODY;
        let place = &mut self.places[at as usize];
        place.present += 1;
        if place.busy < place.servers {
            place.busy += 1;
            place.work.begin(now);
            return self.serve(token);
        }
        match place.last {
            NOBODY => place.first = token,
            last => self.tokens[last as usize].next = token,
        }
        place.last = token;
        if place.servers == 0 {
            self.arrive_speed(at);
        }
    }

    /// Starts the service of `token` at its station.
    #[inline]
    fn serve(&mut self, token: u32) {
        let Token { pc, at, .. } = self.tokens[token as usize];
        let Op::Visit { timer, draws, .. } = &mut self.ops[pc as usize] else { return };
        let span = timer.draw();
        let place = &mut self.places[at as usize];
        let mut span = place.service(self.now, span, *draws);
        if let Some(arm) = place.extra.as_mut().and_then(|extra| extra.arm.as_mut())
            && let Some(Some(extent)) = self.extents.get(token as usize)
        {
            span = Picos(span.0.saturating_add(arm.access(self.now, *extent).0));
        }
        self.plan(token, span);
    }

    #[inline]
    fn leave(&mut self, token: u32, at: u32) {
        let now = self.now;
        let class = self.tokens[token as usize].class;
        let cell = &mut self.cells[class as usize * self.places.len() + at as usize];
        cell.present -= 1;
        cell.left += 1;
        cell.stayed.end(now);
        let place = &mut self.places[at as usize];
        place.present -= 1;
        if place.servers == 0 {
            return self.leave_speed(at);
        }
        if place.first == NOBODY {
            place.busy -= 1;
            place.work.end(now);
            return;
        }
        let next = match &place.extra {
            Some(extra) if extra.arm.is_some() => self.pop_by_arm(at),
            _ => self.pop(at),
        };
        self.serve(next);
    }

    /// Removes and returns the waiting token that the disk's arm chooses.
    fn pop_by_arm(&mut self, at: u32) -> u32 {
        let place = &mut self.places[at as usize];
        let Some(arm) = place.extra.as_mut().and_then(|extra| extra.arm.as_mut()) else {
            return self.pop(at);
        };
        let (tokens, extents) = (&self.tokens, &self.extents);
        let in_line = std::iter::successors(Some(place.first), |token| {
            Some(tokens[*token as usize].next).filter(|next| *next != NOBODY)
        });
        let line: Vec<u32> = in_line.collect();
        let places = line.iter().map(|token| extents.get(*token as usize).copied().flatten());
        let chosen = arm.choose(self.now, places);
        if chosen == 0 {
            return self.pop(at);
        }
        let (token, before) = (line[chosen], line[chosen - 1]);
        self.tokens[before as usize].next = self.tokens[token as usize].next;
        if place.last == token {
            place.last = before;
        }
        token
    }

    /// Removes and returns the first token waiting at `at`, whose queue must not be empty.
    #[inline]
    fn pop(&mut self, at: u32) -> u32 {
        let place = &mut self.places[at as usize];
        let first = place.first;
        place.first = self.tokens[first as usize].next;
        if place.first == NOBODY {
            place.last = NOBODY;
        }
        first
    }

    /// Handles the arrival of a request at a station with load-dependent rates.
    fn arrive_speed(&mut self, at: u32) {
        let place = &mut self.places[at as usize];
        if place.busy == 0 {
            place.busy = 1;
            place.work.begin(self.now);
        }
        let before = place.present - 1;
        self.hurry(at, before);
    }

    /// Handles the departure of the request in service from a station with load-dependent rates.
    fn leave_speed(&mut self, at: u32) {
        self.pop(at);
        let place = &mut self.places[at as usize];
        if place.first == NOBODY {
            place.busy = 0;
            place.work.end(self.now);
            return;
        }
        self.hurry(at, 0);
    }

    /// Reschedules the end of the service in progress; `before` requests were present until now, 0
    /// if the service has just begun.
    fn hurry(&mut self, at: u32, before: u32) {
        let now = self.now;
        let place = &mut self.places[at as usize];
        let (first, present) = (place.first, place.present);
        let Some(extra) = &mut place.extra else { return };
        let Some(speeds) = &mut extra.speeds else { return };
        if before == 0 {
            let pc = self.tokens[first as usize].pc;
            let Op::Visit { timer, .. } = &mut self.ops[pc as usize] else { return };
            speeds.start(now, timer.draw());
        }
        let span = speeds.remaining(now, before, present);
        self.plan(first, span);
    }

    #[inline]
    fn plan(&mut self, token: u32, span: Picos) {
        let at = self.now.0.saturating_add(span.0);
        if at == u64::MAX {
            self.stop = Some(Stop::Time);
        }
        self.tokens[token as usize].ticket = self.calendar.plan(Picos(at), token);
    }

    fn spawn(&mut self, class: u32, pc: u32) -> u32 {
        let token = Token {
            ticket: 0,
            issued: self.now,
            pc,
            class,
            at: 0,
            next: NOBODY,
            parent: NOBODY,
            pending: 0,
            held: [0; HELD_MAX],
            held_count: 0,
        };
        if let Some(free) = self.free.pop() {
            self.tokens[free as usize] = token;
            if let Some(extent) = self.extents.get_mut(free as usize) {
                *extent = None;
            }
            return free;
        }
        self.tokens.push(token);
        if self.tokens.len() > TOKENS_MAX {
            self.stop = Some(Stop::Tokens);
        }
        self.tokens.len() as u32 - 1
    }
}

fn line(program: &mut Program, class: &Class) -> Line {
    let gap = match &class.source {
        Source::Closed { .. } => None,
        Source::Open { gap } => Some(program.timer(gap)),
    };
    let closed = gap.is_none();
    // The program of an open class follows a slot that gives its source a random stream.
    if gap.is_some() {
        program.ops.push(Op::Join);
    }
    let entry = program.add(class);
    Line { entry, closed, gap, outstanding: 0, stayed: Balance::default(), done: 0, latency: 0 }
}
