//! Flows: workers that keep their I/Os in proportion, by three shared counters.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Nanos;

use super::Gate;
use job::spec::{Flow, RunSpec};

/// Time of the next check whether the others have caught up.
const SOON: Nanos = Nanos(20_000);

/// Shared by the workers of one flow.
#[derive(Debug, Default)]
pub(in crate::worker) struct Shared {
    /// Total weight of the active workers.
    weight: AtomicU64,
    /// I/Os of the workers.
    ios: AtomicU64,
}

/// All flows of a run.
#[derive(Debug)]
pub(in crate::worker) struct Flows(HashMap<u32, Arc<Shared>>);

impl Flows {
    pub(in crate::worker) fn of(spec: &RunSpec) -> Flows {
        let flows = spec.workers.iter().filter_map(|worker| worker.workload.flow);
        Flows(flows.map(|flow| (flow.id, Arc::default())).collect())
    }

    /// The shared state and a worker's flow.
    pub(in crate::worker) fn shared(&self, flow: Flow) -> (Arc<Shared>, Flow) {
        (self.0.get(&flow.id).cloned().unwrap_or_default(), flow)
    }
}

/// One worker's part of a flow.
#[derive(Debug)]
pub(super) struct Share {
    shared: Arc<Shared>,
    flow: Flow,
    /// I/Os of this worker.
    ios: u64,
    /// Whether the worker is active.
    joined: bool,
    /// Whether the worker is ahead, and waits until its I/Os in flight complete.
    drains: bool,
    /// Time until which the worker sleeps.
    until: Nanos,
}

impl Share {
    pub(super) fn new(shared: Arc<Shared>, flow: Flow) -> Share {
        let (joined, drains) = (false, false);
        Share { shared, flow, ios: 0, joined, drains, until: Nanos(0) }
    }

    pub(super) fn join(&mut self) {
        if !self.joined {
            self.joined = true;
            self.shared.weight.fetch_add(self.flow.weight.into(), Ordering::Relaxed);
        }
    }

    /// Removes the worker and its I/Os, so that the others remain in proportion.
    pub(super) fn leave(&mut self) {
        if self.joined {
            self.joined = false;
            self.shared.weight.fetch_sub(self.flow.weight.into(), Ordering::Relaxed);
            self.shared.ios.fetch_sub(self.ios, Ordering::Relaxed);
        }
    }

    pub(super) fn begun(&mut self) {
        self.ios += 1;
        self.shared.ios.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn gate(&mut self, now: Nanos, idle: bool) -> Gate {
        if self.drains {
            if !idle {
                return Gate::Shut(None);
            }
            self.drains = false;
            self.until = now + Nanos(self.flow.sleep_us * 1000);
        }
        if now < self.until {
            return Gate::Shut(Some(self.until));
        }
        if !self.is_ahead() {
            return Gate::Open;
        }
        match self.flow.sleep_us {
            0 => Gate::Shut(Some(now + SOON)),
            us if idle => {
                self.until = now + Nanos(us * 1000);
                Gate::Shut(Some(self.until))
            }
            _ => {
                self.drains = true;
                Gate::Shut(None)
            }
        }
    }

    /// Whether its part of the I/Os exceeds its part of the weights. One I/O is granted to all
    /// together, so that the first to start is not ahead.
    fn is_ahead(&self) -> bool {
        let weight = self.shared.weight.load(Ordering::Relaxed);
        let all = self.shared.ios.load(Ordering::Relaxed).saturating_add(1);
        let wide = u128::from;
        wide(self.ios) * wide(weight) > wide(self.flow.weight.into()) * wide(all)
    }
}
