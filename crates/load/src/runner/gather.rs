//! Collects the workers' intervals.

use std::time::Duration;

use super::crew::Crew;
use super::progress::Run;
use crate::handover::{Directive, Rest};
use crate::patience::Patience;
use crate::worker::Trouble;
use job::spec::RunSpec;

impl Run<'_> {
    /// Asks all workers for their intervals and merges them; after the `last` one they start
    /// nothing more.
    pub(super) fn collect(&mut self, crew: &Crew, last: bool) {
        match last {
            true => crew.command(Directive::Drain),
            false => crew.ask(),
        }
        let mut patience = Patience::new(self.clock.now());
        let mut missing: Vec<usize> = crew.handovers.iter().map(|it| it.workers).collect();
        loop {
            for (handover, missing) in crew.handovers.iter().zip(&mut missing) {
                while let Some((worker, interval)) = handover.take_full() {
                    self.collected.add(worker, &interval);
                    handover.put_empty(interval);
                    *missing = missing.saturating_sub(1);
                }
                while let Some((worker, trouble)) = handover.take_trouble() {
                    self.note(worker, trouble);
                }
            }
            let late = || crew.ids.iter().zip(&missing).filter(|(_, missing)| **missing > 0);
            let starved = || late().any(|(id, _)| os::sample::is_runnable(*id));
            let all = missing.iter().all(|missing| *missing == 0);
            if all || self.stop.asked() > 1 || patience.is_over(self.clock.now(), starved) {
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        self.late = missing.iter().sum();
    }

    /// Takes the results of I/Os in flight at the end. Those that a hurried user did not wait for
    /// are not failures.
    pub(super) fn take(&mut self, rests: Vec<Rest>, hurried: bool) {
        self.hurried = hurried;
        for Rest { worker, late, unanswered, trouble } in rests {
            self.collected.add_late(worker, &late);
            if hurried {
                continue;
            }
            self.unanswered += unanswered.errors();
            self.collected.add_late_failures(worker, &unanswered);
            trouble.into_iter().for_each(|trouble| self.note(worker, trouble));
        }
    }

    fn note(&mut self, worker: usize, trouble: Trouble) {
        let WorkerNames { name, uri } = names(self.spec, worker);
        self.mismatch |= matches!(trouble, Trouble::Mismatch(_));
        match trouble {
            Trouble::Missed(missed) => self.missed.note(worker, missed),
            other => {
                self.trouble.get_or_insert(other.words(name, uri));
            }
        }
    }
}

struct WorkerNames<'a> {
    name: &'a str,
    uri: &'a str,
}

fn names(spec: &RunSpec, worker: usize) -> WorkerNames<'_> {
    let worker = &spec.workers[worker];
    WorkerNames { name: &worker.name, uri: &worker.uri }
}
