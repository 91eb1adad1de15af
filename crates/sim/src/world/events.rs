//! What happens to a world, and when.

use super::*;

/// Something that happens at a time.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Reset(usize),
    Vanish(usize),
    Stop(usize, Nanos),
    Stall(Nanos),
    Medium(Nanos),
    Break,
    Refuse(Nanos),
    SlowOpen(Nanos),
    EndSlowOpen,
    NoFiles(usize, Nanos),
    Pause(Nanos),
    Leave(Nanos),
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
                let event = match fault {
                    Fault::Reset => Event::Reset(client),
                    Fault::Vanish => Event::Vanish(client),
                    Fault::Stop => Event::Stop(client, span(rng, 25_000)),
                    Fault::Stall => Event::Stall(span(rng, 3000)),
                    Fault::Medium => Event::Medium(span(rng, 300)),
                    Fault::Break => Event::Break,
                    Fault::Refuse => Event::Refuse(span(rng, 3000)),
                    Fault::SlowOpen => {
                        let until = at + span(rng, 2000);
                        self.events.push((until, Event::EndSlowOpen));
                        Event::SlowOpen(span(rng, 5000))
                    }
                    Fault::NoFiles => {
                        Event::NoFiles(rng.below(self.plan.cores) as usize, span(rng, 1500))
                    }
                    Fault::Pause => Event::Pause(span(rng, 30_000)),
                    Fault::Leave => Event::Leave(span(rng, 3000)),
                };
                self.events.push((at, event));
                // What refuses or opens slowly is asked to open.
                if matches!(fault, Fault::Refuse | Fault::SlowOpen) {
                    self.events.push((at + Nanos(1), Event::Break));
                }
            }
        }
        self.events.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    }

    pub(super) fn happen(&mut self, event: Event) -> Result<(), String> {
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
                let conns = self.clients[client].conns();
                let mut machine = dialer.machine.borrow_mut();
                conns.for_each(|conn| machine.net.reset(conn));
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
            Event::Stall(span) => sick(&|disk| disk.stalled = now + span),
            Event::Medium(span) => sick(&|disk| disk.faulty = (3, now + span)),
            Event::Break => sick(&|disk| disk.broken = now),
            Event::Refuse(span) => sick(&|disk| disk.refuses = now + span),
            Event::SlowOpen(span) => sick(&|disk| disk.opening = span),
            Event::EndSlowOpen => sick(&|disk| disk.opening = Nanos(0)),
            Event::NoFiles(core, span) => {
                dialer.machine.borrow_mut().cores[core].out_of_files = now + span;
            }
            Event::Pause(span) => dialer.machine.borrow_mut().net.now = now + span,
            Event::Leave(span) => {
                for client in &mut self.clients {
                    client.leave(&mut dialer.machine.borrow_mut().net, span)?;
                }
            }
        }
        Ok(())
    }
}
