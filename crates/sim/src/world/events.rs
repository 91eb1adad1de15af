//! The faults of a world, and their times.

use super::*;

/// Waiting steps of a fault, their length and maximum number: a fault without I/Os in flight tests
/// little.
const WAIT: (Nanos, u32) = (Nanos(400_000), 500);

/// A fault to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    pub(super) at: Nanos,
    event: Event,
    /// Number of steps that the fault may still wait for an I/O in flight.
    waits: u32,
}

/// The fault.
#[derive(Clone, Copy, Debug)]
enum Event {
    Reset(usize),
    Vanish(usize),
    Kill(usize),
    Stop(usize, Nanos),
    Stall(Nanos),
    Late(Nanos),
    Medium(Nanos),
    Break,
    Refuse(Nanos),
    SlowOpen(Nanos),
    EndSlowOpen,
    NoFiles(usize, Nanos),
    Pause(Nanos),
    Busy(usize, Nanos),
    Leave(Nanos),
    Crash(Nanos),
    Restart,
    Remove(usize, Nanos),
    Return(usize),
}

impl World {
    pub(super) fn draw_events(&mut self, rng: &mut Rng) {
        let clients = self.plan.iscsi + self.plan.nvme;
        for fault in self.plan.faults.clone() {
            for _ in 0..1 + rng.below(3) {
                let at = Nanos(rng.below(FAULTS.0));
                let span =
                    |rng: &mut Rng, most_ms: u64| Nanos(1_000_000 + rng.below(most_ms * 1_000_000));
                let client = rng.below(clients) as usize;
                let core = rng.below(self.plan.cores) as usize;
                let event = match fault {
                    Fault::Reset => Event::Reset(client),
                    Fault::Vanish => Event::Vanish(client),
                    Fault::Stop => Event::Stop(client, span(rng, 25_000)),
                    Fault::Kill => Event::Kill(client),
                    Fault::Late => Event::Late(span(rng, 3000)),
                    Fault::Stall => Event::Stall(span(rng, 3000)),
                    Fault::Medium => Event::Medium(span(rng, 300)),
                    Fault::Break => Event::Break,
                    Fault::Refuse => Event::Refuse(span(rng, 3000)),
                    Fault::SlowOpen => {
                        let until = at + span(rng, 2000);
                        self.events.push(Due { at: until, event: Event::EndSlowOpen, waits: 0 });
                        Event::SlowOpen(span(rng, 5000))
                    }
                    Fault::NoFiles => Event::NoFiles(core, span(rng, 1500)),
                    Fault::Busy => Event::Busy(core, span(rng, 50)),
                    Fault::Pause => Event::Pause(span(rng, 30_000)),
                    Fault::Leave => Event::Leave(span(rng, 3000)),
                    Fault::Crash => Event::Crash(span(rng, 3000)),
                    Fault::Operator => {
                        Event::Remove(rng.below(self.disks.len() as u64) as usize, span(rng, 3000))
                    }
                };
                let asks = matches!(fault, Fault::Refuse | Fault::SlowOpen);
                let waits = if asks || rng.below(4) == 0 { 0 } else { WAIT.1 };
                self.events.push(Due { at, event, waits });
                // Volumes that refuse or open slowly must be opened.
                if asks {
                    self.events.push(Due { at: at + Nanos(1), event: Event::Break, waits: 0 });
                }
            }
        }
        self.events.sort_by_key(|due| std::cmp::Reverse(due.at));
    }

    /// Applies a due fault, unless it waits for an I/O in flight.
    pub(super) fn happen(&mut self, due: Due) -> Result<(), String> {
        if due.waits > 0 && !self.meets_an_io(due.event) {
            let at = self.now() + Nanos(1 + self.rng.below(WAIT.0.0));
            self.will_happen(Due { at, waits: due.waits - 1, ..due });
            return Ok(());
        }
        self.agenda.is_stale = true;
        self.strike(due.event)
    }

    /// Disconnects clients of the late volume, in the ways of this world; they reconnect.
    fn come_back_meanwhile(&mut self, span: Nanos) {
        for fault in self.plan.faults.clone() {
            let all = 0..self.clients.len();
            let of_it: Vec<usize> = all.filter(|at| self.clients[*at].unit == SICK).collect();
            if of_it.is_empty() {
                return;
            }
            let client = of_it[self.rng.below(of_it.len() as u64) as usize];
            let event = match fault {
                Fault::Reset => Event::Reset(client),
                Fault::Vanish => Event::Vanish(client),
                Fault::Kill => Event::Kill(client),
                _ => continue,
            };
            let at = self.now() + Nanos(1 + self.rng.below(span.0 / 2));
            self.will_happen(Due { at, event, waits: WAIT.1 });
            if self.plan.has(Fault::Busy) {
                let core = self.rng.below(self.plan.cores) as usize;
                let span = Nanos(1 + self.rng.below(10_000_000));
                self.will_happen(Due { at, event: Event::Busy(core, span), waits: 0 });
            }
        }
    }

    /// A disk comes back after a while.
    pub(super) fn will_return(&mut self, disk: usize, span: Nanos) {
        let at = self.now() + span;
        self.will_happen(Due { at, event: Event::Return(disk), waits: 0 });
    }

    fn will_happen(&mut self, due: Due) {
        let place = self.events.partition_point(|other| other.at > due.at);
        self.events.insert(place, due);
    }

    /// Whether the fault meets an I/O in flight.
    fn meets_an_io(&self, event: Event) -> bool {
        match event {
            Event::Reset(client)
            | Event::Vanish(client)
            | Event::Kill(client)
            | Event::Stop(client, _) => self.clients[client].is_busy(),
            Event::Stall(_) | Event::Medium(_) | Event::Break => {
                self.plan.disks == 0 || self.disks[SICK].borrow().in_flight > 0
            }
            _ => self.good().any(Client::is_busy),
        }
    }

    fn strike(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Crash(_) if self.portals.is_empty() => return Ok(()),
            Event::Crash(span) => {
                self.will_happen(Due { at: self.now() + span, event: Event::Restart, waits: 0 });
                return self.crash();
            }
            Event::Restart => return self.start(),
            Event::Remove(disk, span) => return self.remove(disk, span),
            Event::Return(disk) => return self.bring_back(disk),
            _ => {}
        }
        let now = self.now();
        let dialer = &self.dialer;
        let sick = |change: &dyn Fn(&mut Disk)| {
            if self.plan.disks > 0 {
                change(&mut self.disks[SICK].borrow_mut());
            }
        };
        match event {
            Event::Reset(client) => {
                self.clients[client].disturbed = true;
                // Sometimes only the connection with I/Os.
                let most = 1 + self.rng.below(2) as usize;
                let conns = self.clients[client].conns().rev().take(most);
                let mut machine = dialer.machine.borrow_mut();
                conns.for_each(|conn| machine.net.reset(conn));
            }
            Event::Kill(client) => {
                self.clients[client].disturbed = true;
                let net = &mut dialer.machine.borrow_mut().net;
                self.clients[client].kill(net)?;
            }
            Event::Vanish(client) => {
                self.clients[client].disturbed = true;
                let net = &mut dialer.machine.borrow_mut().net;
                self.clients[client].vanish(net, Nanos(0))?;
            }
            Event::Stop(client, span) => {
                self.clients[client].disturbed = true;
                self.clients[client].stop(now + span);
            }
            // For as long as clients may reconnect.
            Event::Late(span) => {
                sick(&|disk| disk.late = (4, span, now + span));
                self.come_back_meanwhile(span);
            }
            Event::Stall(span) => sick(&|disk| disk.stalled = now + span),
            Event::Medium(span) => sick(&|disk| disk.faulty = (3, now + span)),
            Event::Break => sick(&|disk| disk.broken = now),
            Event::Refuse(span) => sick(&|disk| disk.refuses = now + span),
            Event::SlowOpen(span) => sick(&|disk| disk.opening = span),
            Event::EndSlowOpen => sick(&|disk| disk.opening = Nanos(0)),
            Event::NoFiles(core, span) => {
                dialer.machine.borrow_mut().cores[core].out_of_files = now + span;
            }
            Event::Crash(_) | Event::Restart | Event::Remove(..) | Event::Return(_) => {}
            Event::Pause(span) => dialer.machine.borrow_mut().net.now = now + span,
            Event::Busy(core, span) => self.free_at.borrow_mut()[core] = now + span,
            Event::Leave(span) => {
                for client in &mut self.clients {
                    client.leave(&mut dialer.machine.borrow_mut().net, span)?;
                }
            }
        }
        Ok(())
    }
}
