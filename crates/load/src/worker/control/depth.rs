//! Searches the greatest queue depth within a latency target.
//!
//! From 1 on the depth is doubled until a window fails, then bisected between the last that passed
//! and the first that failed. After a failure all I/Os in flight complete before the next window.

use block::Nanos;
use stats::SearchedDepth;

use super::demands::too_long;
use super::{Back, Missed};
use job::spec::DepthSearch;

/// Windows that must pass just below a failed depth before that is tried again.
const STABLE: u32 = 3;

/// The depth of one worker.
#[derive(Debug)]
pub(super) struct Depth {
    search: DepthSearch,
    /// The workload's own depth.
    most: usize,
    now: usize,
    /// The last that passed, and the first that failed.
    low: usize,
    high: usize,
    stable: u32,
    /// Start of the window, and I/Os completed in it: all, and late ones.
    began: Nanos,
    ios: u64,
    late: u64,
    /// No verdict before this time.
    from: Nanos,
    /// All I/Os must complete first.
    drains: bool,
    found: bool,
    /// Another window follows, and the worker ends by itself.
    pub(super) ends_alone: bool,
    /// Whether that window is over.
    pub(super) over: bool,
}

impl Depth {
    pub(super) fn new(search: DepthSearch, most: usize) -> Depth {
        Depth {
            search,
            most,
            now: 1,
            low: 1,
            high: most,
            stable: 0,
            began: Nanos(0),
            ios: 0,
            late: 0,
            from: Nanos(0),
            drains: false,
            found: false,
            ends_alone: false,
            over: false,
        }
    }

    pub(super) fn begin(&mut self, now: Nanos, ramp: Nanos) {
        self.from = now + ramp;
        self.open(now);
    }

    /// Starts a window.
    fn open(&mut self, now: Nanos) {
        (self.began, self.ios, self.late) = (now, 0, 0);
    }

    fn is_strict(&self) -> bool {
        self.search.percent >= 100.0
    }

    /// Counts an I/O. If all must be in time, a late one fails the window at once, and at depth 1
    /// the search: the target cannot be met.
    pub(super) fn done(&mut self, back: Back) -> Option<Missed> {
        if self.drains || self.found {
            return None;
        }
        self.ios += 1;
        let target = self.search.latency_us * 1000;
        if back.latency.0 <= target {
            return None;
        }
        self.late += 1;
        if self.is_strict() && !self.fails() {
            return Some(too_long(back, target, "the latency target at queue depth 1"));
        }
        None
    }

    /// Lowers the depth; false at the minimum.
    fn fails(&mut self) -> bool {
        if self.now == 1 {
            return false;
        }
        self.high = self.now;
        if self.now == self.low {
            self.low -= 1;
        }
        self.now = usize::midpoint(self.now, self.low);
        (self.stable, self.drains) = (0, true);
        true
    }

    /// Raises the depth, or stops at the maximum.
    fn holds(&mut self) {
        let before = self.now;
        self.low = before;
        if before + 1 == self.high {
            self.stable += 1;
            if self.stable >= STABLE {
                (self.high, self.stable) = (self.high + 1, 0);
            }
        }
        let next = match self.high == self.most {
            true => before * 2,
            false => usize::midpoint(before, self.high),
        };
        self.now = next.min(self.most);
        self.found = !self.search.goes_on && self.now == before;
    }

    /// Decides at the end of a window.
    pub(super) fn look(&mut self, now: Nanos, idle: bool) {
        if self.drains {
            if idle {
                self.drains = false;
                self.open(now);
            }
            return;
        }
        let whole = now.since(self.began) >= Nanos(self.search.window_us * 1000);
        if self.found {
            self.over = self.ends_alone && whole;
            return;
        }
        if !whole || self.ios == 0 || now < self.from {
            return;
        }
        let in_time = (self.ios - self.late) as f64 / self.ios as f64 * 100.0;
        if in_time >= self.search.percent {
            self.holds();
            self.open(now);
        } else if !self.fails() {
            // No depth is smaller: this depth may pass in the next window.
            self.open(now);
        }
    }

    /// Whether one more may be in flight.
    pub(super) fn admits(&self, in_flight: usize) -> bool {
        !self.drains && in_flight < self.now
    }

    pub(super) fn wake(&self) -> Option<Nanos> {
        let end = self.began + Nanos(self.search.window_us * 1000);
        let waits = self.ios > 0 && !self.drains && (!self.found || self.ends_alone);
        waits.then_some(end.max(self.from))
    }

    pub(super) fn searched(&self) -> SearchedDepth {
        SearchedDepth { depth: self.now as u32, found: self.found }
    }
}
