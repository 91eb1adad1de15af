//! Requirements that a system misses.

use super::tried::{Tried, is_within, p99, tail_high};
use super::{Kit, REACHED, limit};

/// The requirement that a system misses.
pub(super) struct Lack {
    /// The level that limits the rate, "capacity", "latency" or "p99".
    pub(super) what: &'static str,
    /// In words, with the value.
    pub(super) reason: String,
}

impl Kit<'_> {
    /// Whether a system lacks nothing: [`lacks`](Self::lacks) without the exact response time.
    pub(super) fn suffices(&self, tried: &Tried) -> bool {
        let lacks_capacity = match (self.capacity, tried.usable) {
            (Some(wanted), Some(usable)) => usable < wanted,
            _ => false,
        };
        if !tried.reaches || lacks_capacity {
            return false;
        }
        let by_p99 = self.need.p99_s.zip(tail_high()).map(|(wanted, high)| wanted / high);
        let limit_s = self.need.latency_s.into_iter().chain(by_p99).reduce(f64::min);
        let Some(limit_s) = limit_s else { return true };
        match tried.latency_s.get() {
            Some(Ok(latency_s)) => *latency_s <= limit_s,
            Some(Err(_)) => false,
            None => is_within(&tried.broken, self.iops * REACHED, tried.least(), limit_s)
                .unwrap_or(false),
        }
    }

    /// The first thing that a system lacks.
    pub(super) fn lacks(&self, tried: &Tried) -> Option<Lack> {
        let lack = |what, reason| Some(Lack { what, reason });
        let most = tried.least();
        let broken = if tried.down.is_some() { " with what may fail down" } else { "" };
        if !tried.reaches {
            let (rate, limit) = (block::Rate(self.counted(most)), limit(most));
            return lack(limit, format!("{rate} IOPS{broken}, limited by {limit}"));
        }
        if self.need.latency_s.is_some() || self.need.p99_s.is_some() {
            let latency_s = match self.latency_s(tried) {
                Ok(latency_s) => latency_s,
                Err(reason) => return lack("latency", reason),
            };
            if self.need.latency_s.is_some_and(|wanted| latency_s > wanted) {
                return lack("latency", format!("{:.0} us at that rate{broken}", latency_s * 1e6));
            }
            if let (Some(wanted), Some(p99)) = (self.need.p99_s, p99(latency_s))
                && p99 > wanted
            {
                let p99_us = p99 * 1e6;
                return lack("p99", format!("p99 of {p99_us:.0} us at that rate{broken} (guess)"));
            }
        }
        match (self.capacity, tried.usable) {
            (Some(wanted), Some(usable)) if usable < wanted => {
                lack("capacity", format!("{:.1} TB for data{broken}", usable / 1e12))
            }
            _ => None,
        }
    }
}
