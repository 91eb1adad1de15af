//! Minimum rates and maximum latencies of a worker.

use block::{Nanos, print_size};

use super::{Back, Missed};
use job::spec::{Demand, Demands};

/// Settling time of a worker, which does not count.
const SETTLING: Nanos = Nanos::from_secs(2);
/// `EIO`, with which fio ends a job that is too slow, and `ETIMEDOUT` for an I/O that took too
/// long.
const TOO_SLOW: u32 = 5;
pub(super) const TIMED_OUT: u32 = 110;

/// Checks a worker's demands.
#[derive(Debug)]
pub(super) struct Guard {
    each: [(&'static str, Demand); 3],
    every: Nanos,
    /// Time from which on rates count.
    from: Nanos,
    /// Bytes and I/Os of each direction.
    done: [(u64, u64); 3],
    /// Bytes and I/Os in flight, failed ones included.
    in_flight: [(u64, u64); 3],
    /// Values of the counters at the last check, and its time.
    last: [Option<(Nanos, u64, u64)>; 3],
}

impl Guard {
    pub(super) fn new(demands: Demands) -> Guard {
        let every = Nanos(demands.every_ms * 1_000_000);
        let (from, done, last) = (Nanos(u64::MAX), [(0, 0); 3], [None; 3]);
        Guard { each: demands.each(), every, from, done, in_flight: [(0, 0); 3], last }
    }

    pub(super) fn begin(&mut self, now: Nanos, ramp: Nanos) {
        self.from = now + ramp.max(SETTLING);
    }

    /// Counts an I/O that starts.
    pub(super) fn begun(&mut self, way: usize, len: u32) {
        let (bytes, ios) = &mut self.in_flight[way];
        (*bytes, *ios) = (*bytes + u64::from(len), *ios + 1);
    }

    /// Counts an I/O; returns a missed latency, if any.
    pub(super) fn done(&mut self, way: usize, back: Back) -> Option<Missed> {
        let (bytes, ios) = &mut self.done[way];
        *bytes += u64::from(back.len);
        *ios += 1;
        let (bytes, ios) = &mut self.in_flight[way];
        (*bytes, *ios) = (bytes.saturating_sub(back.len.into()), ios.saturating_sub(1));
        let most = self.each[way].1.latency_us * 1000;
        (most > 0 && back.latency.0 > most).then(|| too_long(back, most, "the maximum latency"))
    }

    /// Checks the rates after an I/O, if due: as in fio from I/O to I/O, so that few large I/Os can
    /// meet them.
    pub(super) fn look(&mut self, now: Nanos) -> Option<Missed> {
        if now < self.from {
            return None;
        }
        let mut missed = None;
        for ((word, demand), (done, last)) in
            self.each.iter().zip(self.done.iter().zip(&mut self.last))
        {
            let (bytes, ios) = *done;
            let rated = demand.bytes_per_second > 0 || demand.ios_per_second > 0;
            let due = last.is_none_or(|(at, ..)| now.since(at) >= self.every);
            if !rated || !due || ios == 0 {
                continue;
            }
            if let Some((at, bytes_then, ios_then)) = *last {
                let span = now.since(at);
                let rates =
                    (per_second(bytes - bytes_then, span), per_second(ios - ios_then, span));
                missed = missed.or_else(|| too_slow(word, demand, rates, span, now));
            }
            *last = Some((now, bytes, ios));
        }
        missed
    }

    /// Checks between I/Os: a rate is missed once it would be even if all I/Os in flight completed
    /// now.
    pub(super) fn stalls(&self, now: Nanos) -> Option<Missed> {
        (0..self.each.len()).find_map(|way| {
            self.hopeless(way).filter(|at| now >= *at)?;
            let (at, bytes, ios) = self.last[way]?;
            let (span, done, (word, demand)) = (now.since(at), self.done[way], &self.each[way]);
            let rates = (per_second(done.0 - bytes, span), per_second(done.1 - ios, span));
            too_slow(word, demand, rates, span, now)
        })
    }

    /// Time of the next check between I/Os.
    pub(super) fn wake(&self) -> Option<Nanos> {
        (0..self.each.len()).filter_map(|way| self.hopeless(way)).min()
    }

    /// Time at which a direction without a completion is too slow.
    fn hopeless(&self, way: usize) -> Option<Nanos> {
        let (at, bytes, ios) = self.last[way].filter(|_| self.in_flight[way].1 > 0)?;
        let (done, in_flight, demand) = (self.done[way], self.in_flight[way], self.each[way].1);
        let lasts = |count: u64, rate: u64| {
            let nanos = u128::from(count) * 1_000_000_000 / u128::from(rate.max(1)) + 1;
            (rate > 0).then(|| Nanos(u64::try_from(nanos).unwrap_or(u64::MAX >> 1)))
        };
        let bytes = lasts(done.0 - bytes + in_flight.0, demand.bytes_per_second);
        let ios = lasts(done.1 - ios + in_flight.1, demand.ios_per_second);
        let sooner = bytes.into_iter().chain(ios).min()?;
        Some(at + sooner.max(self.every))
    }
}

fn per_second(count: u64, span: Nanos) -> u64 {
    (u128::from(count) * 1_000_000_000 / u128::from(span.0.max(1))) as u64
}

fn too_slow(
    word: &str,
    demand: &Demand,
    (bytes, ios): (u64, u64),
    span: Nanos,
    at: Nanos,
) -> Option<Missed> {
    let over = format!("over {:.3} s", span.as_secs_f64());
    let why = if bytes < demand.bytes_per_second {
        let least = demand.bytes_per_second;
        format!("{bytes} bytes per second of {word} {over}, below the required minimum of {least}")
    } else if ios < demand.ios_per_second {
        let least = demand.ios_per_second;
        format!("{ios} IOPS of {word} {over}, below the required minimum of {least}")
    } else {
        return None;
    };
    Some(Missed { why, errno: TOO_SLOW, at })
}

/// An I/O that took longer than the limit `most`, which is named `called`.
pub(super) fn too_long(back: Back, most: u64, called: &str) -> Missed {
    let Back { op, offset, len, latency, at } = back;
    let (op, len) = (op.word(), print_size(len.into()));
    let took = latency.0;
    let why = format!("a {op} of {len} at offset {offset} took {took} ns, {called} is {most} ns");
    Missed { why, errno: TIMED_OUT, at }
}
