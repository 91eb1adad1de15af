//! A connection of a driver: its messages, memory and queues.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use block::{Done, Fault, Io, Lane, Nanos};
use os::{Core, Event, EventSet, UnixLink};
use proto::vhost_user::{BackEnd, Order, QueueSetup, Region};
use proto::virtio::{Area, BlockQueue, Config, Features, GuestMemory, Windows};

use super::Door;
use super::thread::key;

/// Queues of a device.
const QUEUES: u16 = 8;
/// Rounds of 32 requests that a queue has before the next queue.
const ROUNDS_MOST: usize = 4;
/// Bits of a request in a lane's tags; the queue's number is above.
const QUEUE_SHIFT: u32 = 32;

/// Result of a round.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// Requests or messages came, or I/Os completed.
    pub(super) busy: bool,
    /// I/Os are in flight that need turns of the core.
    pub(super) waits: bool,
}

/// A queue that a driver has started.
struct Served {
    queue: BlockQueue,
    enabled: bool,
    stopping: bool,
}

/// A driver.
pub(super) struct Session {
    number: usize,
    pub(super) door: usize,
    link: UnixLink,
    end: BackEnd<OwnedFd>,
    guest: Arc<GuestMemory>,
    queues: Vec<Option<Served>>,
    kicks: Vec<Option<Event>>,
    calls: Vec<Option<Event>>,
    /// `None` for a volume in memory, and before the first queue.
    lane: Option<Box<dyn Lane>>,
    ios: VecDeque<Io>,
    done: Vec<Done>,
    /// Messages may have come.
    pub(super) readable: bool,
    ending: bool,
    closed: bool,
    /// A line for the log.
    pub(super) news: Option<String>,
}

impl Session {
    pub(super) fn new(
        number: usize,
        door: usize,
        of: &Door,
        link: UnixLink,
        events: &EventSet,
    ) -> io::Result<Session> {
        events.add(&link, key(number, None))?;
        let geometry = &of.disk.geometry;
        let none = || (0..QUEUES).map(|_| None).collect();
        Ok(Session {
            number,
            door,
            link,
            end: BackEnd::new(Features::offered(geometry), Config::of(geometry, QUEUES)),
            guest: Arc::default(),
            queues: (0..QUEUES).map(|_| None).collect(),
            kicks: none(),
            calls: none(),
            lane: None,
            ios: VecDeque::new(),
            done: Vec::new(),
            readable: true,
            ending: false,
            closed: false,
            news: None,
        })
    }

    /// Whether nothing is left to be done.
    pub(super) fn is_over(&self) -> bool {
        self.ending && self.closed
    }

    /// Ends the session once its I/Os in flight have.
    pub(super) fn end(&mut self) {
        self.ending = true;
    }

    /// Ends the session, and says why.
    #[cold]
    fn fail(&mut self, why: &dyn std::fmt::Display) {
        if !self.ending {
            self.news = Some(format!("the connection of a driver ends: {why}"));
        }
        self.ending = true;
    }

    /// Time at which the lane needs a round.
    pub(super) fn wake(&self) -> Option<Nanos> {
        self.lane.as_ref()?.wake()
    }

    /// Asks for notifications. Whether there are requests already.
    pub(super) fn listen(&mut self) -> bool {
        let served = self.queues.iter_mut().flatten().filter(|one| one.enabled && !one.stopping);
        served.fold(false, |more, one| one.queue.listen() | more)
    }

    /// Asks for no notifications while this thread polls.
    pub(super) fn silence(&mut self) {
        self.queues.iter_mut().flatten().for_each(|one| one.queue.silence());
    }

    fn in_flight(&self) -> usize {
        self.queues.iter().flatten().map(|one| one.queue.in_flight()).sum()
    }

    /// One round: messages, requests, completions.
    pub(super) fn turn(&mut self, core: &Core, events: &EventSet, door: &Door) -> Turn {
        let mut busy = false;
        if self.readable && !self.ending {
            self.readable = false;
            busy = true;
            if let Err(why) = self.heed(core, events, door) {
                self.fail(&why);
            }
        }
        busy |= self.take(core, door);
        busy |= self.drive(core);
        for (served, call) in self.queues.iter_mut().zip(&self.calls) {
            let Some(served) = served else { continue };
            if served.queue.publish()
                && let Some(call) = call
            {
                call.signal();
            }
        }
        self.stop_queues();
        if self.ending && self.in_flight() == 0 {
            self.closed = match &mut self.lane {
                Some(lane) => lane.broken().is_some() || lane.close(core.now()),
                None => true,
            };
            if self.closed {
                self.kicks.iter().flatten().for_each(|kick| events.remove(kick));
                events.remove(&self.link);
            }
        }
        Turn { busy, waits: self.lane.is_some() }
    }

    /// Receives messages and carries out their orders.
    fn heed(&mut self, core: &Core, events: &EventSet, door: &Door) -> Result<(), String> {
        let mut bytes = [0; 1024];
        let mut descriptors = Vec::new();
        loop {
            let wants = self.end.wants().min(bytes.len());
            if wants == 0 {
                // A queue that stops has its answer first.
                return Ok(());
            }
            match self.link.receive(&mut bytes[..wants], &mut descriptors) {
                Ok(None) => return Ok(()),
                Ok(Some(0)) => {
                    self.ending = true;
                    return Ok(());
                }
                Ok(Some(count)) => {
                    let received = self.end.receive(&bytes[..count], &mut descriptors);
                    received.map_err(|violation| violation.to_string())?;
                }
                Err(error) => return Err(error.to_string()),
            }
            while let Some(order) = self.end.order() {
                self.carry_out(order, core, events, door)?;
            }
            self.send()?;
        }
    }

    fn send(&mut self) -> Result<(), String> {
        let bytes = self.end.output();
        match bytes.is_empty() {
            true => Ok(()),
            false => self.link.send(&bytes, &[]).map_err(|error| error.to_string()),
        }
    }

    fn carry_out(
        &mut self,
        order: Order<OwnedFd>,
        core: &Core,
        events: &EventSet,
        door: &Door,
    ) -> Result<(), String> {
        match order {
            Order::Map(regions) => {
                self.guest = map(&regions)?;
                for served in self.queues.iter_mut().flatten() {
                    served.queue.remap(Arc::clone(&self.guest));
                }
                self.end.mapped();
            }
            Order::Start(queue, setup) => self.start(queue, &setup, core, door)?,
            Order::Enable(queue, enabled) => {
                if let Some(Some(served)) = self.queues.get_mut(usize::from(queue)) {
                    served.enabled = enabled;
                }
            }
            Order::Stop(queue) => {
                if let Some(Some(served)) = self.queues.get_mut(usize::from(queue)) {
                    served.stopping = true;
                }
            }
            Order::Kick(queue, fd) => {
                let fd = fd.ok_or("a queue without an eventfd to notify it")?;
                let event = Event::of_peer(fd).map_err(|_| "a kick that is no eventfd")?;
                let slot = &mut self.kicks[usize::from(queue)];
                if let Some(old) = slot.take() {
                    events.remove(&old);
                }
                let added = events.add(&event, key(self.number, Some(queue)));
                added.map_err(|error| error.to_string())?;
                *slot = Some(event);
            }
            Order::Call(queue, fd) => {
                let event = fd.map(Event::of_peer).transpose();
                self.calls[usize::from(queue)] = event.map_err(|_| "a call that is no eventfd")?;
            }
        }
        Ok(())
    }

    fn start(
        &mut self,
        queue: u16,
        setup: &QueueSetup,
        core: &Core,
        door: &Door,
    ) -> Result<(), String> {
        if self.lane.is_none() && door.disk.memory.is_none() {
            let lane = door.volume.begin_lane(core).map_err(|error| error.to_string())?;
            self.lane = Some(lane);
        }
        let windows = Windows::find(&self.guest, setup.size, &setup.addresses);
        let windows = windows.map_err(|violation| violation.to_string())?;
        let guest = Arc::clone(&self.guest);
        let mut one = BlockQueue::new(windows, setup.base, setup.features, guest);
        one.silence();
        self.queues[usize::from(queue)] =
            Some(Served { queue: one, enabled: true, stopping: false });
        Ok(())
    }

    /// Takes requests of all queues. Whether there were any.
    fn take(&mut self, core: &Core, door: &Door) -> bool {
        if self.ending || self.lane.as_ref().is_some_and(|lane| !lane.is_open()) {
            return false;
        }
        let mut requests = 0;
        let mut lie = None;
        for (number, served) in (0_u64..).zip(&mut self.queues) {
            let Some(served) = served.as_mut().filter(|one| one.enabled && !one.stopping) else {
                continue;
            };
            for _ in 0..ROUNDS_MOST {
                let before = self.ios.len();
                let taken = served.queue.take(&door.disk, core.pool(), &mut self.ios);
                for io in self.ios.range_mut(before..) {
                    io.tag.0 |= number << QUEUE_SHIFT;
                }
                match taken {
                    Ok(taken) if taken.requests > 0 => requests += taken.requests,
                    Ok(_) => break,
                    Err(violation) => {
                        lie = Some(format!("queue {number}: {violation}"));
                        break;
                    }
                }
            }
        }
        if let Some(lie) = lie {
            self.fail(&lie);
        }
        requests > 0
    }

    /// Drives the lane. Whether I/Os completed.
    fn drive(&mut self, core: &Core) -> bool {
        let Some(lane) = &mut self.lane else { return false };
        let now = core.now();
        lane.poll(now, &mut self.done);
        lane.submit(now, &mut self.ios);
        lane.poll(now, &mut self.done);
        if lane.broken().is_some() {
            self.done.extend(self.ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
        }
        let busy = !self.done.is_empty();
        for done in self.done.drain(..) {
            let number = (done.tag.0 >> QUEUE_SHIFT) as usize;
            if let Some(Some(served)) = self.queues.get_mut(number) {
                served.queue.complete(done, core.pool());
            }
        }
        busy
    }

    /// Answers for queues that stop once their I/Os in flight have ended.
    fn stop_queues(&mut self) {
        for number in 0..self.queues.len() {
            let slot = &mut self.queues[number];
            let ended = slot.as_ref().is_some_and(|one| one.stopping && one.queue.in_flight() == 0);
            let Some(served) = slot.take_if(|_| ended) else { continue };
            self.end.stopped(number as u16, served.queue.base());
            self.readable = true;
            if let Err(why) = self.send() {
                self.fail(&why);
            }
        }
    }
}

/// Maps the memory of a driver.
fn map(regions: &[(Region, OwnedFd)]) -> Result<Arc<GuestMemory>, String> {
    let area = |(region, fd): &(Region, OwnedFd)| -> Result<Area, String> {
        let window = os::map_shared(fd.as_fd(), region.offset, region.len);
        let window = window.map_err(|error| error.to_string())?;
        Ok(Area { guest: region.guest, user: region.user, window })
    };
    let areas = regions.iter().map(area).collect::<Result<_, _>>()?;
    Ok(Arc::new(GuestMemory::new(areas).map_err(|violation| violation.to_string())?))
}
