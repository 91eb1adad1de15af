//! State of a simulated station: requests in service, waiting requests, current speed.

use crate::head::Arm;
use crate::time::{PER_S, Picos};
use crate::{Reserve, Servers, Station};

/// No token.
pub(super) const NOBODY: u32 = u32::MAX;

/// A station with its state.
#[derive(Debug)]
pub(super) struct LiveStation {
    /// Number of servers; 0 for a station with load-dependent rates.
    pub servers: u32,
    /// Number of busy servers.
    pub busy: u32,
    /// Number of requests waiting or in service.
    pub present: u32,
    /// First and last waiting token; each token links the next one.
    pub first: u32,
    pub last: u32,
    /// End times minus start times of services, in picoseconds.
    pub work: Balance,
    /// Additional state; most stations have none.
    pub extra: Option<Box<Extra>>,
}

/// Additional state of a few stations.
#[derive(Debug)]
pub(super) struct Extra {
    pub stock: Option<Stock>,
    pub speeds: Option<Speeds>,
    pub arm: Option<Arm>,
}

/// A sum of end times minus start times: a duration, once the current time is added for each open
/// interval. The sum may wrap around; the final result is correct.
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

    /// Returns the duration up to `now` with `open` intervals in progress, in picoseconds.
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

    /// Returns the server time used up to `now`, in picoseconds; with load-dependent rates, the
    /// work done.
    pub fn worked(&self, now: Picos) -> u128 {
        match self.extra.as_ref().and_then(|extra| extra.speeds.as_ref()) {
            Some(speeds) => speeds.worked(now, self.present),
            None => self.work.until(now, self.busy),
        }
    }

    /// Returns the duration of a service of `span` that starts now and draws from the reserve.
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
        // Below zero the draw waits for the missing units.
        let missing_s = (-self.level).max(0.0) / reserve.refill_per_s;
        self.refilling |= missing_s > 0.0;
        Picos::round(slowed + missing_s * PER_S)
    }
}

/// Load-dependent rates: the first request is served at a speed that depends on the number present.
#[derive(Debug)]
pub(super) struct Speeds {
    rates: Vec<f64>,
    /// Remaining work of the request in service, in picoseconds at speed 1.
    left: f64,
    since: Picos,
    /// Work done, in picoseconds at speed 1.
    done: f64,
}

impl Speeds {
    fn new(rates: Vec<f64>) -> Speeds {
        Speeds { rates, left: 0.0, since: Picos(0), done: 0.0 }
    }

    /// Starts the service of a new request.
    pub fn start(&mut self, now: Picos, span: Picos) {
        self.done += self.left;
        (self.left, self.since) = (span.0 as f64, now);
    }

    /// Returns the remaining time of the request in service with `present` requests, after `before`
    /// requests were present until now.
    pub fn remaining(&mut self, now: Picos, before: u32, present: u32) -> Picos {
        // Before the first arrival no request was served.
        let speed = if before == 0 { 0.0 } else { self.speed(before) };
        let work = (now.0 - self.since.0) as f64 * speed;
        self.left -= work;
        self.done += work;
        self.since = now;
        Picos::round(self.left.max(0.0) / self.speed(present))
    }

    /// Returns the work done up to `now`, with `present` requests since the last change.
    fn worked(&self, now: Picos, present: u32) -> u128 {
        let goes_on = if present == 0 { 0.0 } else { self.speed(present) };
        (self.done + (now.0 - self.since.0) as f64 * goes_on) as u128
    }

    fn speed(&self, present: u32) -> f64 {
        self.rates[(present as usize).min(self.rates.len()).max(1) - 1]
    }
}
