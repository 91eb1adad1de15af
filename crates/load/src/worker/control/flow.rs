//! Workers that keep their I/Os in proportion. What they share are three counters that nobody else
//! touches.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::Nanos;

use super::Gate;
use job::spec::{Flow, RunSpec};

/// When to look again whether the others have caught up.
const SOON: Nanos = Nanos(20_000);

/// What the workers of one flow share.
#[derive(Debug, Default)]
pub(in crate::worker) struct Shared {
    /// The weights of those that take part.
    weight: AtomicU64,
    /// Their I/Os.
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

    /// What a worker shares with others.
    pub(in crate::worker) fn shared(&self, flow: Flow) -> (Arc<Shared>, Flow) {
        (self.0.get(&flow.id).cloned().unwrap_or_default(), flow)
    }
}

/// One worker's part of a flow.
#[derive(Debug)]
pub(super) struct Share {
    shared: Arc<Shared>,
    flow: Flow,
    /// Its own I/Os.
    ios: u64,
    /// It takes part.
    joined: bool,
    /// It is beyond its share, and waits until all it has in flight is done.
    drains: bool,
    /// It sleeps until then.
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

    /// What it did is forgotten with it, so that those that go on keep their proportion.
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

    /// Whether its part of the I/Os is beyond its part of the weights. One that none has counts for
    /// all together: the first to begin is not ahead of anybody.
    fn is_ahead(&self) -> bool {
        let weight = self.shared.weight.load(Ordering::Relaxed);
        let all = self.shared.ios.load(Ordering::Relaxed).saturating_add(1);
        let wide = u128::from;
        wide(self.ios) * wide(weight) > wide(self.flow.weight.into()) * wide(all)
    }
}
