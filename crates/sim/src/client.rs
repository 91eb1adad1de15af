//! Clients, both good and hostile ones that speak the protocol.

mod flushed;
mod traffic;

use std::cell::Cell;
use std::rc::Rc;

use block::{Nanos, Op, Pool, Rng};
use proto::iscsi::{InitiatorConfig, IscsiInitiator, new_isid};
use proto::nvme::{ControllerInstance, NvmeAdmin, NvmeInitiatorConfig, NvmeQueue};
use proto::{Fence, Initiator, Phase};
use serve::Protocol;

use crate::link::Link;
use crate::net::{Net, Side};
use crate::region::Region;
use crate::world::{Address, Dialer};
use flushed::Flushed;

/// Minimum and maximum time until a client reconnects.
const BACK_OFF: (u64, u64) = (1_000_000, 300_000_000);

/// Minimum and maximum time until a killed client restarts.
const RESTART: (u64, u64) = (50_000, 2_000_000);

/// Misbehaviour of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mischief {
    /// No misbehaviour.
    None,
    /// Flips bits after this many bytes.
    Flip(u64),
    /// Stops reading after this many bytes.
    Deaf(u64),
    /// Stops sending after this many bytes.
    Mute(u64),
    /// Keeps as many I/Os in flight as possible.
    Flood,
    /// Makes the target solicit data of as many writes as possible, and sends none.
    Hoard,
    /// One of many idle clients of one host.
    Crowd,
}

/// A client: one session or association with one unit.
pub(crate) struct Client {
    /// Number of the client in the world.
    index: usize,
    pub(crate) name: String,
    /// Host of the client.
    host: u8,
    pub(crate) protocol: Protocol,
    pub(crate) unit: usize,
    pub(crate) address: Address,
    pub(crate) region: Region,
    pub(crate) mischief: Mischief,
    depth: usize,
    blocks: u64,
    digests: bool,
    /// Time between bursts; zero for as fast as possible.
    pace: Nanos,
    /// I/Os in a burst.
    burst: usize,
    next_burst: Nanos,
    state: ClientState,
    /// A fault has affected the client or its connections.
    pub(crate) disturbed: bool,
    /// Time until which the client is stopped.
    pub(crate) stopped: Nanos,
    ios: Vec<Option<Pending>>,
    pool: Pool,
    rng: Rng,
    sent_bytes: u64,
    /// The client sends nothing more on this connection, and ignores received data.
    is_mute: bool,
    /// I/Os completed since the last reset, and the longest latency.
    pub(crate) completed: u64,
    pub(crate) longest: Nanos,
    /// Connections lost since the last reset.
    pub(crate) lost: u64,
    pub(crate) last_loss: String,
    /// The ISID, and the last controller.
    isid: [u8; 6],
    old: Option<ControllerInstance>,
    /// The client was killed: it has no record of its earlier I/Os.
    was_killed: bool,
    /// The server has confirmed the outcome of writes of lost connections.
    is_fenced: bool,
    flushed: Flushed,
}

enum ClientState {
    Away(Nanos),
    Iscsi(Box<Link<IscsiInitiator>>),
    Nvme(Box<Link<NvmeAdmin>>, Option<Box<Link<NvmeQueue>>>),
}

struct Pending {
    op: Op,
    at: usize,
    count: usize,
    /// The first value of a write.
    first: Option<u64>,
    since: Nanos,
    /// Number of failed flushes of the unit when the I/O was submitted.
    losses: u64,
}

/// Parameters of a client.
pub(crate) struct Shape {
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) host: u8,
    pub(crate) protocol: Protocol,
    pub(crate) unit: usize,
    pub(crate) address: Address,
    pub(crate) mischief: Mischief,
    pub(crate) depth: usize,
    pub(crate) blocks: u64,
    pub(crate) digests: bool,
    /// Failed flushes of its unit.
    pub(crate) losses: Rc<Cell<u64>>,
}

impl Client {
    pub(crate) fn new(shape: Shape, region: Region, pool: &Pool, mut rng: Rng) -> Client {
        let begins = Nanos(rng.below(20_000_000));
        let looks = rng.below(2) == 0;
        Client {
            index: shape.index,
            name: shape.name,
            host: shape.host,
            protocol: shape.protocol,
            unit: shape.unit,
            address: shape.address,
            region,
            mischief: shape.mischief,
            depth: shape.depth,
            blocks: shape.blocks,
            digests: shape.digests,
            pace: Nanos(0),
            burst: shape.depth,
            next_burst: Nanos(0),
            state: ClientState::Away(begins),
            disturbed: false,
            stopped: Nanos(0),
            ios: (0..shape.depth).map(|_| None).collect(),
            pool: pool.clone(),
            rng,
            sent_bytes: 0,
            is_mute: false,
            completed: 0,
            longest: Nanos(0),
            lost: 0,
            last_loss: String::new(),
            isid: new_isid(Nanos((shape.index as u64) << 8)),
            old: None,
            was_killed: false,
            is_fenced: false,
            flushed: Flushed {
                losses: shape.losses,
                since: None,
                next: None,
                looks,
                instance: None,
            },
        }
    }

    /// Whether the client has work to do.
    pub(crate) fn is_due(&self, net: &Net) -> bool {
        if net.now < self.stopped {
            return false;
        }
        let comes = self.conns().any(|conn| {
            let reads = !self.is_deaf();
            (reads && net.available(conn, Side::Client) > 0)
                || net.ended(conn, Side::Client).is_some()
        });
        comes || self.wake().is_some_and(|wake| wake <= net.now)
    }

    /// Time at which the client has work to do without an event.
    pub(crate) fn wake(&self) -> Option<Nanos> {
        let ends = match &self.state {
            ClientState::Away(until) => return Some((*until).max(self.stopped)),
            ClientState::Iscsi(link) => link.wake(),
            ClientState::Nvme(admin, queue) => {
                let queue = queue.as_ref().and_then(|queue| queue.wake());
                admin.wake().into_iter().chain(queue).min()
            }
        };
        let idle = self.ios.iter().all(Option::is_none);
        let burst = (self.is_ready() && (idle || self.pace > Nanos(0))).then_some(self.next_burst);
        let silent = self.is_mute || self.mischief == Mischief::Crowd;
        let burst = burst.filter(|_| self.has_room() && !silent);
        let ends = ends.filter(|_| !self.is_deaf() && !self.is_mute);
        ends.into_iter().chain(burst).min().map(|wake| wake.max(self.stopped))
    }

    /// Connections of the client.
    pub(crate) fn conns(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let conns = match &self.state {
            ClientState::Away(_) => [None, None],
            ClientState::Iscsi(link) => [Some(link.conn), None],
            ClientState::Nvme(admin, queue) => [Some(admin.conn), queue.as_ref().map(|it| it.conn)],
        };
        conns.into_iter().flatten()
    }

    /// Whether the client is good and unaffected by faults: it can expect good service.
    pub(crate) fn is_undisturbed(&self) -> bool {
        self.mischief == Mischief::None && !self.disturbed
    }

    /// Age of its oldest I/O.
    pub(crate) fn oldest(&self, now: Nanos) -> Nanos {
        let waits = self.ios.iter().flatten().map(|pending| now.since(pending.since));
        waits.max().unwrap_or_default()
    }

    /// Whether the client has an I/O in flight.
    pub(crate) fn is_busy(&self) -> bool {
        self.ios.iter().any(Option::is_some)
    }

    /// Whether the client can submit I/Os.
    pub(crate) fn is_ready(&self) -> bool {
        match &self.state {
            ClientState::Away(_) => false,
            ClientState::Iscsi(link) => matches!(link.end.phase(), Phase::Ready(_)),
            ClientState::Nvme(_, queue) => {
                queue.as_ref().is_some_and(|queue| matches!(queue.end.phase(), Phase::Ready(_)))
            }
        }
    }

    fn has_room(&self) -> bool {
        self.ios.iter().any(Option::is_none)
    }

    fn is_deaf(&self) -> bool {
        matches!(self.mischief, Mischief::Deaf(after) if self.sent_bytes > after)
    }

    /// Does all work that is due; an error is a wrong completion.
    pub(crate) fn step(&mut self, dialer: &Dialer) -> Result<(), String> {
        let now = dialer.machine.borrow().net.now;
        if let ClientState::Away(until) = self.state {
            if now >= until {
                self.begin(dialer, now);
            }
            return Ok(());
        }
        if let Err(why) = self.take(dialer) {
            self.last_loss = why;
            self.lost += 1;
            if self.lose_queue(&mut dialer.machine.borrow_mut().net)? {
                return Ok(());
            }
            return self.leave(&mut dialer.machine.borrow_mut().net, Nanos(0));
        }
        self.settle(now)?;
        let was_ready = self.is_ready();
        if was_ready && !self.is_fenced {
            self.was_let_in()?;
        }
        self.submit(now);
        self.flush(&mut dialer.machine.borrow_mut().net);
        self.is_mute |= was_ready && self.mischief == Mischief::Hoard;
        self.settle(now)
    }

    /// Handles a successful login: the client's earlier I/Os are executed, or never will be.
    fn was_let_in(&mut self) -> Result<(), String> {
        self.is_fenced = true;
        if self.mischief != Mischief::None {
            return Ok(());
        }
        let name = &self.name;
        let (end, fence) = match &mut self.state {
            ClientState::Away(_) | ClientState::Nvme(_, None) => return Ok(()),
            ClientState::Iscsi(link) => (&link.end as &dyn Initiator, link.end.fence()),
            ClientState::Nvme(_, Some(queue)) => (&queue.end as _, queue.end.fence()),
        };
        // A killed process has nothing to query; its server knows that it is gone.
        if fence != Fence::Ended && !self.was_killed {
            return Err(format!("{name} is let in, and not told what became of its writes"));
        }
        if end.identity().is_none() || end.instance().is_none() {
            return Err(format!("{name} is not told whose disk it is, and of which server"));
        }
        let instance = end.instance();
        let restarted = end.power_was_lost() == Some(true) && self.protocol == Protocol::Iscsi;
        let other = self.flushed.looks && instance != self.flushed.instance;
        if restarted || other {
            self.flushed.forget();
        }
        self.flushed.instance = instance;
        self.was_killed = false;
        self.region.fenced();
        Ok(())
    }

    /// Drops a lost I/O queue, so that only the queue is opened again and its association
    /// continues. False for another loss, or by chance.
    fn lose_queue(&mut self, net: &mut Net) -> Result<bool, String> {
        let ClientState::Nvme(admin, Some(queue)) = &self.state else { return Ok(false) };
        let lives = net.ended(admin.conn, Side::Client).is_none();
        if !lives || net.ended(queue.conn, Side::Client).is_none() || self.rng.below(2) == 0 {
            return Ok(false);
        }
        net.close(queue.conn, Side::Client);
        self.abandon(net.now)?;
        if let ClientState::Nvme(_, queue) = &mut self.state {
            *queue = None;
        }
        self.is_fenced = false;
        Ok(true)
    }

    /// Kills the client, and restarts it at once or soon. Its sent I/Os are at the server, or in
    /// flight to it.
    pub(crate) fn kill(&mut self, net: &mut Net) -> Result<(), String> {
        if matches!(self.state, ClientState::Away(_)) {
            return Ok(());
        }
        self.leave(net, Nanos(0))?;
        let (least, most) = RESTART;
        self.state = ClientState::Away(net.now + Nanos(least + self.rng.below(most - least)));
        self.isid = new_isid(net.now);
        (self.old, self.was_killed) = (None, true);
        self.flushed.forget();
        Ok(())
    }

    /// Notes that the server was killed. Clients that do not check its instance cannot know the
    /// consequences for their data.
    pub(crate) fn server_was_killed(&mut self) {
        if !self.flushed.looks {
            self.flushed.forget();
        }
    }

    fn begin(&mut self, dialer: &Dialer, now: Nanos) {
        let Some(conn) = dialer.dial(self.protocol, self.host, Some(self.index)) else {
            self.state = ClientState::Away(now + Nanos(BACK_OFF.1));
            return;
        };
        (self.sent_bytes, self.is_mute) = (0, false);
        self.next_burst = now;
        self.state = match self.protocol {
            Protocol::Iscsi => {
                let end = IscsiInitiator::new(self.iscsi_config(), now);
                ClientState::Iscsi(Box::new(Link::new(end, &self.pool, conn)))
            }
            Protocol::NvmeTcp => {
                let end = NvmeAdmin::new(&self.nvme_config(), now);
                let end = match self.old.filter(|_| self.mischief == Mischief::None) {
                    Some(old) => end.replacing(old),
                    None => end,
                };
                ClientState::Nvme(Box::new(Link::new(end, &self.pool, conn)), None)
            }
            Protocol::Nbd => unreachable!("no client of these worlds speaks NBD"),
        };
    }

    fn iscsi_config(&self) -> InitiatorConfig {
        let name = format!("iqn.2026-01.org.drumfire:{}", self.name);
        InitiatorConfig {
            header_digest: self.digests,
            data_digest: self.digests,
            max_outstanding: self.depth as u16 + 1,
            isid: (self.mischief == Mischief::None).then_some(self.isid),
            fence: self.mischief == Mischief::None,
            ..InitiatorConfig::new(
                &name,
                &format!("iqn.{}", self.address.target),
                self.address.lun.into(),
            )
        }
    }

    fn nvme_config(&self) -> NvmeInitiatorConfig {
        let name = format!("nqn.2026-01.org.drumfire:{}", self.name);
        let mut id = [1; 16];
        for (to, from) in id.iter_mut().zip(self.name.bytes()) {
            *to = from;
        }
        let subsystem = format!("nqn.{}", self.address.target);
        NvmeInitiatorConfig {
            header_digest: self.digests,
            data_digest: self.digests,
            queue_depth: self.depth as u16 + 1,
            ..NvmeInitiatorConfig::new(&name, id, &subsystem, self.address.lun.into())
        }
    }

    /// Receives data; an error is why the connection ended.
    fn take(&mut self, dialer: &Dialer) -> Result<(), String> {
        if self.is_deaf() || self.is_mute {
            let net = &mut dialer.machine.borrow_mut().net;
            if self.is_mute {
                self.conns().for_each(|it| drop(net.take(it, Side::Client, usize::MAX)));
            }
            let over = self.conns().any(|it| net.ended(it, Side::Client).is_some());
            return if over { Err("the server gave up".to_owned()) } else { Ok(()) };
        }
        let config = matches!(self.state, ClientState::Nvme(_, None)).then(|| self.nvme_config());
        match &mut self.state {
            ClientState::Away(_) => Ok(()),
            ClientState::Iscsi(link) => link.take(&mut dialer.machine.borrow_mut().net),
            ClientState::Nvme(admin, queue) => {
                admin.take(&mut dialer.machine.borrow_mut().net)?;
                if let Some(queue) = queue {
                    return queue.take(&mut dialer.machine.borrow_mut().net);
                }
                let (Some(association), Some(config)) = (admin.end.ready(), config) else {
                    return Ok(());
                };
                self.old = Some(association.controller);
                let now = dialer.machine.borrow().net.now;
                let conn = dialer.dial(Protocol::NvmeTcp, self.host, Some(self.index));
                let conn = conn.ok_or("nobody listens")?;
                let end = NvmeQueue::new(&config, association, 1, now);
                let mut link = Link::new(end, &self.pool, conn);
                link.take(&mut dialer.machine.borrow_mut().net)?;
                *queue = Some(Box::new(link));
                Ok(())
            }
        }
    }

    /// Closes the connection, and reconnects after `away` and a little more.
    pub(crate) fn leave(&mut self, net: &mut Net, away: Nanos) -> Result<(), String> {
        self.conns().for_each(|conn| net.close(conn, Side::Client));
        self.drop_state(net.now, away)
    }

    /// Vanishes from the network.
    pub(crate) fn vanish(&mut self, net: &mut Net, away: Nanos) -> Result<(), String> {
        self.conns().for_each(|conn| net.vanish(conn, Side::Client));
        self.drop_state(net.now, away)
    }

    /// Loses the I/O connection, and all I/Os in flight.
    fn abandon(&mut self, now: Nanos) -> Result<(), String> {
        if let Some((end, _)) = self.io_end() {
            end.abandon();
        }
        self.settle(now)?;
        match self.ios.iter().flatten().next() {
            Some(lost) => Err(format!(
                "{}: {:?} was not answered when its connection went",
                self.name, lost.op
            )),
            None => Ok(()),
        }
    }

    fn drop_state(&mut self, now: Nanos, away: Nanos) -> Result<(), String> {
        self.abandon(now)?;
        self.is_fenced = false;
        let (least, most) = BACK_OFF;
        // A crowd that reconnects all the time would cost too much.
        let times = if self.mischief == Mischief::Crowd { 100 } else { 1 };
        let pause = Nanos(times * (least + self.rng.below(most - least)));
        self.state = ClientState::Away(now + away + pause);
        Ok(())
    }

    /// Resets the counters.
    pub(crate) fn reset(&mut self) {
        (self.completed, self.longest, self.lost) = (0, Nanos(0), 0);
    }

    /// Sets bursts of `burst` I/Os every `pace`; with zero, as fast as possible.
    pub(crate) fn set_pace(&mut self, pace: Nanos, burst: usize) {
        (self.pace, self.burst, self.next_burst) = (pace, burst, Nanos(0));
    }

    /// Stays away for at least this long, then resumes its full load.
    pub(crate) fn rest(&mut self, net: &mut Net, away: Nanos) -> Result<(), String> {
        if self.mischief == Mischief::Hoard { self.leave(net, away) } else { Ok(()) }
    }

    /// Stops the client until this time.
    pub(crate) fn stop(&mut self, until: Nanos) {
        self.stopped = until;
    }
}
