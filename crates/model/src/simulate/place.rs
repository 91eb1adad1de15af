//! A station while it is simulated: who is served, who waits, how fast it is now.

use crate::head::Arm;
use crate::time::{PER_S, Picos};
use crate::{Reserve, Servers, Station};

/// No token.
pub(super) const NOBODY: u32 = u32::MAX;

/// A station with its state.
#[derive(Debug)]
pub(super) struct LiveStation {
    /// Requests served at once; 0 stands for a station that serves the first one at a speed that
    /// depends on how many are present.
    pub servers: u32,
    /// Servers at work.
    pub busy: u32,
    /// Requests waiting or in service.
    pub present: u32,
    /// First and last of those that wait; a token names the next one.
    pub first: u32,
    pub last: u32,
    /// Times at which servers stopped less those at which they started, in picoseconds.
    pub work: Balance,
    /// What is known of it beyond that; most stations have nothing.
    pub extra: Option<Box<Extra>>,
}

/// What few stations have.
#[derive(Debug)]
pub(super) struct Extra {
    pub stock: Option<Stock>,
    pub speeds: Option<Speeds>,
    pub arm: Option<Arm>,
}

/// A sum of times at which something ended less those at which it began: its duration, when
/// those that go on are added up to now. Wraps, and comes out right in the end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Balance(u128);

impl Balance {
    #[inline]
    pub fn begin(&mut self, now: Picos) {
        self.0 = self.0.wrapping_sub(u128::from(now.0));
    }

    #[inline]
    pub fn end(&mut self, now: Picos) {
        self.0 = self.0.wrapping_add(u128::from(now.0));
    }

    /// The duration up to `now` when `open` of them go on, in picoseconds.
    pub fn until(self, now: Picos, open: u32) -> u128 {
        self.0.wrapping_add(u128::from(now.0) * u128::from(open))
    }
}

impl LiveStation {
    pub fn new(station: &Station) -> LiveStation {
        let (servers, speeds) = match &station.servers {
            Servers::Count(count) => (*count, None),
            Servers::Infinite => (u32::MAX, None),
            Servers::Rates(rates) => (0, Some(Speeds::new(rates.clone()))),
        };
        let stock = station.reserve.clone().map(Stock::new);
        let arm = station.head.clone().map(Arm::new);
        let some = stock.is_some() || speeds.is_some() || arm.is_some();
        let extra = some.then(|| Box::new(Extra { stock, speeds, arm }));
        let work = Balance::default();
        LiveStation { servers, busy: 0, present: 0, first: NOBODY, last: NOBODY, work, extra }
    }

    /// Server time used up to `now`, in picoseconds; for speeds the work done.
    pub fn worked(&self, now: Picos) -> u128 {
        match self.extra.as_ref().and_then(|extra| extra.speeds.as_ref()) {
            Some(speeds) => speeds.worked(now, self.present),
            None => self.work.until(now, self.busy),
        }
    }

    /// The time that a service of `span` takes when it starts now and draws from the stock.
    #[inline]
    pub fn service(&mut self, now: Picos, span: Picos, draws: f64) -> Picos {
        match &mut self.extra {
            Some(extra) => match &mut extra.stock {
                Some(stock) => stock.service(now, span, draws),
                None => span,
            },
            None => span,
        }
    }
}

/// A [`Reserve`] with its level.
#[derive(Debug)]
pub(super) struct Stock {
    reserve: Reserve,
    level: f64,
    refilling: bool,
    seen: Picos,
}

impl Stock {
    fn new(reserve: Reserve) -> Stock {
        Stock { level: reserve.capacity, reserve, refilling: false, seen: Picos(0) }
    }

    fn service(&mut self, now: Picos, span: Picos, draws: f64) -> Picos {
        let reserve = &self.reserve;
        if self.refilling {
            self.level += (now.0 - self.seen.0) as f64 / PER_S * reserve.refill_per_s;
            if self.level >= reserve.high {
                self.level = reserve.high;
                self.refilling = false;
            }
        }
        self.seen = now;
        self.level -= draws;
        self.refilling |= self.level < reserve.low.max(0.0);
        let slowed = if self.refilling { span.0 as f64 * reserve.slowdown } else { span.0 as f64 };
        // Below nought the draw waits for the units that are missing.
        let missing_s = (-self.level).max(0.0) / reserve.refill_per_s;
        self.refilling |= missing_s > 0.0;
        Picos::round(slowed + missing_s * PER_S)
    }
}

/// The first request in line is served, at a speed that depends on how many are present.
#[derive(Debug)]
pub(super) struct Speeds {
    rates: Vec<f64>,
    /// Work left of the one in service, in picoseconds at speed 1.
    left: f64,
    since: Picos,
    /// Work done, in picoseconds at speed 1.
    done: f64,
}

impl Speeds {
    fn new(rates: Vec<f64>) -> Speeds {
        Speeds { rates, left: 0.0, since: Picos(0), done: 0.0 }
    }

    /// A new request comes into service; the one before it is done.
    pub fn start(&mut self, now: Picos, span: Picos) {
        self.done += self.left;
        (self.left, self.since) = (span.0 as f64, now);
    }

    /// How long the one in service still takes with `present` requests, of which there were
    /// `before` until now.
    pub fn remaining(&mut self, now: Picos, before: u32, present: u32) -> Picos {
        // Nobody was served before the first one came.
        let speed = if before == 0 { 0.0 } else { self.speed(before) };
        let work = (now.0 - self.since.0) as f64 * speed;
        self.left -= work;
        self.done += work;
        self.since = now;
        Picos::round(self.left.max(0.0) / self.speed(present))
    }

    /// Work done up to `now`, while `present` requests are there.
    fn worked(&self, now: Picos, present: u32) -> u128 {
        let goes_on = if present == 0 { 0.0 } else { self.speed(present) };
        (self.done + (now.0 - self.since.0) as f64 * goes_on) as u128
    }

    fn speed(&self, present: u32) -> f64 {
        self.rates[(present as usize).min(self.rates.len()).max(1) - 1]
    }
}
