//! Wait of a core: spins, yields its CPU, and sleeps.

use std::io;

use block::{Doing, Nanos};

use crate::core::{Core, CoreState};

/// Minimum spin time of an idle loop before it sleeps. Waking a sleeping vCPU takes 24 to 130 µs,
/// more than an exchange; an idle loop pays this once after its last message.
const SPIN: Nanos = Nanos(50_000);
/// Maximum spin time, if the core worked as long before. The waking side pays, too: a CPU-bound
/// `nvmf_tgt` spent 70 to 100 ns of 2.3 µs a write while our initiator slept in between.
const LONG_SPIN: Nanos = Nanos(400_000);
/// One of this many pauses of a spin yields, so that two loops can share a core.
const PAUSES_PER_YIELD: u32 = 16;
/// Time after a sleep of at least this length in which a core yields at its first pause: the idle
/// target of its request sleeps on this CPU, and the pauses take 20 µs to 45 µs with cold caches.
const REST: Nanos = Nanos(1_000_000);
/// Before a deadline a core spins for this long: sleeps end late by the slack of timers and vCPUs.
const PRECISION: Nanos = Nanos(100_000);
/// Precision if CPU-bound threads compete: the CPU is awake then, and spinning takes CPU time from
/// them.
const CROWDED_PRECISION: Nanos = Nanos(20_000);
/// Minimum remaining sleep that ends a [`LONG_LEAD`] early, as does the wait, so that the core's
/// owner runs its loop once and warms the caches. This saved 10 µs of first I/Os after 100 ms.
const LONG: Nanos = Nanos::from_millis(10);
const LONG_LEAD: Nanos = Nanos(200_000);
/// With this many I/Os in flight on files served by a kernel thread (loop devices), the core sleeps
/// at once: that thread is the limit, and a spinning sibling slows its CPU. With fewer the thread
/// runs out of work while we sleep. Thousands of 4 KiB reads a second of a core that switched every
/// 30 ms, medians of 90 such spans and more, spinning and asleep: 172 and 146 with 16 in flight,
/// 174 and 170 with 32, 189 and 253 with 64 (2 vCPUs, AMD EPYC, Linux 6.18).
const SLEEPS_FROM_IN_FLIGHT: usize = 40;
/// Maximum connections with which a long yield was not a peer's turn.
const FEW_SOCKETS: usize = 4;

impl Core {
    /// Yields the CPU of a loop that polls memory; returns the time afterwards.
    pub fn yield_now(&self) -> Nanos {
        self.yield_cpu(&mut self.state.borrow_mut())
    }

    /// Whether CPU-bound threads compete for this CPU, as far as yields showed: a loop that polls
    /// memory sleeps instead, because a wake preempts them.
    pub fn is_crowded(&self, now: Nanos) -> bool {
        self.state.borrow().crowd.is_there(now)
    }

    /// Waits until [`CoreState::ready`] has events, or until then; a [`LONG`] wait ends early.
    pub(crate) fn wait(
        &self,
        state: &mut CoreState,
        start: Nanos,
        until: Option<Nanos>,
    ) -> io::Result<()> {
        state.patience.worked(start);
        if until.is_none() && state.sleeps_at_once() {
            state.timed(Doing::Sleep, |state| state.ring().wait(None))?;
            state.patience.waited(self.now());
            state.reap();
            if !state.ready.is_empty() {
                return Ok(());
            }
        }
        let end = self.wait_for_events(state, start, until)?;
        state.patience.waited(end);
        Ok(())
    }

    /// Like [`wait`](Self::wait); returns the time, as far as it was read.
    fn wait_for_events(
        &self,
        state: &mut CoreState,
        mut start: Nanos,
        until: Option<Nanos>,
    ) -> io::Result<Nanos> {
        let mut now = start;
        let mut pauses = if state.patience.has_rested(now) { PAUSES_PER_YIELD - 1 } else { 0 };
        // With many connections, turns of peers take as long as CPU-bound work.
        let few = state.live_sockets <= FEW_SOCKETS && state.company.is_none();
        let few = few && !state.must_poll();
        // Only files or a timer are awaited: no thread on this CPU waits for this core's turn.
        let alone = few && state.live_sockets == 0;
        let still = alone && until.is_some() && state.in_flight == state.wakers;
        loop {
            if self.turn_companion(state)? {
                state.patience.waited(now);
                start = self.now();
                now = start;
                state.patience.worked(start);
            }
            if state.has_events()? {
                return Ok(now);
            }
            pauses += 1;
            let guest = state.is_guest();
            if !guest && !pauses.is_multiple_of(PAUSES_PER_YIELD) {
                std::hint::spin_loop();
                continue;
            }
            now = self.now();
            // Beside CPU-bound threads, sleeping is quicker than yielding.
            let crowded = few && state.crowd.is_there(now);
            let keeps = still || crowded || guest;
            if !keeps {
                now = self.yield_cpu(state);
            }
            if until.is_some_and(|until| now >= until) {
                return Ok(now);
            }
            let wake = until.into_iter().chain(state.companion_wake()).min();
            let left = wake.map(|wake| wake.since(now));
            let precision = if crowded { CROWDED_PRECISION } else { PRECISION };
            let soon = left.is_some_and(|left| left <= precision);
            let waited = keeps || now.since(start) > state.patience.spin();
            if waited && !soon && !state.must_poll() {
                state.watch_direct()?;
                if !state.prepare_companion_sleep()? {
                    continue;
                }
                now = self.sleep(state, now, left, precision)?;
                if !state.ready.is_empty() || left.is_some_and(|left| left >= LONG) {
                    return Ok(now);
                }
            }
        }
    }

    /// Yields to the peer of the last response, if the peer may be on this CPU: this core is its
    /// guest, or was woken by it. A requester looks for a response before it yields.
    #[inline]
    pub(crate) fn yield_to_peer(&self, state: &mut CoreState) {
        if !state.is_guest() && !state.patience.was_called {
            return;
        }
        let now = self.now();
        state.patience.was_called &= state.patience.has_rested(now);
        if (state.is_guest() || state.patience.was_called) && !state.crowd.is_there(now) {
            self.yield_cpu(state);
        }
    }

    /// Yields the CPU; returns the time after it.
    fn yield_cpu(&self, state: &mut CoreState) -> Nanos {
        let from = self.now();
        state.timed(Doing::Yield, |_| std::thread::yield_now());
        let now = self.now();
        state.crowd.yielded(from, now);
        state.was_away(now.since(from));
        now
    }

    /// Sleeps until an event or a timeout; returns the time after it.
    fn sleep(
        &self,
        state: &mut CoreState,
        now: Nanos,
        left: Option<Nanos>,
        precision: Nanos,
    ) -> io::Result<Nanos> {
        state.choose_place();
        let span = state.sleep_span(left.map(|left| left.since(lead(left, precision))));
        state.timed(Doing::Sleep, |state| state.ring().wait(span))?;
        let woken = self.now();
        state.slept(woken.since(now), woken);
        state.was_away(woken.since(now));
        state.wake_companion()?;
        state.reap();
        let news = !state.ready.is_empty();
        state.patience.slept(woken.since(now), woken, news);
        if !news
            && state.patience.has_rested(woken)
            && let Some(direct) = state.direct
        {
            // An I/O is about to be submitted.
            state.delay_acknowledgement(direct);
        }
        Ok(woken)
    }
}

/// Time by which the sleep of a wait with `left` to go ends early.
fn lead(left: Nanos, precision: Nanos) -> Nanos {
    if left >= LONG { LONG_LEAD } else { Nanos(precision.0 / 2) }
}

/// Spin time of a core: as long as it worked since its last sleep, less what it has spun. So a busy
/// core stays awake between two batches, and a mostly idle one uses at most twice the time of its
/// work, or [`SPIN`] a wait.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Patience {
    earned: Nanos,
    /// End of its last work or wait.
    until: Nanos,
    /// Time at which the core last woke from a sleep of [`REST`] or more.
    rested: Nanos,
    /// An event ended that sleep, no longer ago than the sleep lasted.
    pub(crate) was_called: bool,
}

impl Patience {
    /// Notes work since the last wait.
    fn worked(&mut self, now: Nanos) {
        let earned = self.earned + now.since(self.until);
        *self = Patience { earned: earned.min(LONG_SPIN), until: now, ..*self };
    }

    /// Notes a wait since the last work, or a sleep, which uses up the spin time.
    fn waited(&mut self, now: Nanos) {
        let spun = now.since(self.until);
        *self = Patience { earned: self.earned.since(spun), until: self.until.max(now), ..*self };
    }

    /// Notes a sleep of `span` until now, ended by an event or not.
    fn slept(&mut self, span: Nanos, now: Nanos, news: bool) {
        if span >= REST {
            (self.rested, self.was_called) = (now, news);
        }
    }

    /// Whether the core has just woken from a long sleep.
    pub(crate) fn has_rested(&self, now: Nanos) -> bool {
        self.rested > Nanos(0) && now.since(self.rested) < REST
    }

    /// Spin time of the next wait.
    fn spin(&self) -> Nanos {
        self.earned.max(SPIN)
    }
}

impl CoreState {
    /// Polls everything once.
    #[inline]
    fn has_events(&mut self) -> io::Result<bool> {
        // Sockets armed without data have returned their buffers for the next ones.
        self.refill();
        self.receive_direct();
        if !self.ready.is_empty() {
            return Ok(true);
        }
        if self.ring().needs_entry() {
            self.ring().enter()?;
        }
        if self.ring().has_completion() {
            self.reap();
            if !self.ready.is_empty() {
                return Ok(true);
            }
        }
        self.turn_beside_ring();
        self.turn_polled();
        self.turn_commands();
        Ok(!self.ready.is_empty())
    }

    /// Whether to sleep without spinning: no other work on this core would have to wait.
    fn sleeps_at_once(&self) -> bool {
        let alone = self.live_sockets == 0 && self.company.is_none() && !self.must_poll();
        alone && self.behind_threads >= SLEEPS_FROM_IN_FLIGHT
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// Spin time of each wait of a core that works and waits in turn, in microseconds.
    fn spins(turns: &[(u64, u64)]) -> Vec<u64> {
        let mut patience = Patience::default();
        let mut now = Nanos(0);
        let mut spins = Vec::new();
        for (work, wait) in turns {
            now = now + Nanos(work * 1000);
            patience.worked(now);
            spins.push(patience.spin().0 / 1000);
            now = now + Nanos(wait * 1000);
            patience.waited(now);
        }
        spins
    }

    #[test]
    fn a_busy_core_may_spin_for_long_and_an_idle_one_briefly() {
        assert_eq!(spins(&[(100, 50), (100, 50), (100, 50)]), [100, 150, 200]);
        assert_eq!(spins(&[(5000, 0), (100, 0)]), [400, 400], "no longer than 400 µs");
        assert_eq!(spins(&[(1, 50), (1, 50), (60, 50), (1, 50)]), [50, 50, 60, 50]);
        assert_eq!(spins(&[(300, 9000), (10, 0)]), [300, 50], "a sleep costs all");
    }

    #[test]
    fn a_core_is_rested_for_a_moment_after_a_long_sleep() {
        let mut patience = Patience::default();
        assert!(!patience.has_rested(Nanos(1)));
        patience.slept(Nanos(200_000), Nanos(5_000_000), true);
        assert!(!patience.has_rested(Nanos(5_000_100)));
        patience.slept(Nanos(9_000_000), Nanos(50_000_000), true);
        assert!(patience.has_rested(Nanos(50_900_000)));
        assert!(!patience.has_rested(Nanos(51_100_000)));
    }
}
