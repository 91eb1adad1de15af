//! Logs failures of volumes for the operator: initiators only get the codes of their protocol, and
//! often run on another host.
//!
//! The first failure of a kind is logged at once, later ones are counted and logged now and then: a
//! broken volume fails a hundred thousand I/Os a second.

use block::{Cause, Fault, Nanos};

use crate::log::Log;

/// Failures of a logged kind are counted for this long before the next line.
const PAUSE: Nanos = Nanos::from_secs(10);
/// Maximum kinds of failures counted separately per volume.
const KINDS_MAX: usize = 8;

/// The failures of a core's lanes.
#[derive(Debug)]
pub(crate) struct Faults {
    /// Failures of each unit.
    units: Vec<Unit>,
    /// Time at which the next line is due.
    due: Option<Nanos>,
}

#[derive(Debug, Default)]
struct Unit {
    kinds: Vec<Kind>,
    /// Failures of further kinds.
    others: u64,
}

#[derive(Debug)]
struct Kind {
    fault: Fault,
    cause: Cause,
    words: String,
    /// Count since the last line.
    count: u64,
    told: Nanos,
}

impl Faults {
    /// Creates the counters for this many units.
    pub(crate) fn new(units: usize) -> Faults {
        Faults { units: (0..units).map(|_| Unit::default()).collect(), due: None }
    }

    /// Forgets the failures of a unit, which another volume may get.
    pub(crate) fn forget(&mut self, unit: usize) {
        self.units[unit] = Unit::default();
    }

    /// Notes that an I/O of `unit`, which is called `name`, failed with `fault`. `words` explains
    /// its cause, like [`Lane::words_of`](block::Lane::words_of).
    #[cold]
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        log: &Log,
        (unit, name): (usize, impl FnOnce() -> String),
        (fault, cause): (Fault, Cause),
        words: impl FnOnce() -> Option<String>,
    ) {
        let Some(unit) = self.units.get_mut(unit) else { return };
        if !concerns_the_server(fault, cause) {
            return;
        }
        let known = |kind: &&mut Kind| (kind.fault, kind.cause) == (fault, cause);
        let full = unit.kinds.len() == KINDS_MAX;
        match unit.kinds.iter_mut().find(known) {
            // Only counted soon after the last line.
            Some(kind) => {
                kind.count += 1;
                let due = kind.told + PAUSE;
                self.due = Some(self.due.map_or(due, |at| at.min(due)));
            }
            None if full => {
                unit.others += 1;
                self.due.get_or_insert(now + PAUSE);
            }
            None => {
                let words = match words() {
                    Some(words) => format!("{fault}: {words}"),
                    None => fault.to_string(),
                };
                log.say(now, &first(&name(), &words));
                unit.kinds.push(Kind { fault, cause, words, count: 0, told: now });
            }
        }
    }

    /// Logs the counts that are due, with the names of units. To be called now and then.
    pub(crate) fn tell(&mut self, now: Nanos, log: &Log, name: impl Fn(usize) -> String) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for (index, unit) in self.units.iter_mut().enumerate() {
            for kind in unit.kinds.iter_mut().filter(|kind| kind.count > 0) {
                let due = kind.told + PAUSE;
                if now < due {
                    self.due = Some(self.due.map_or(due, |at| at.min(due)));
                    continue;
                }
                log.say(now, &more(&name(index), kind.count, &kind.words));
                (kind.count, kind.told) = (0, now);
            }
            match std::mem::take(&mut unit.others) {
                0 => {}
                others => log.say(now, &more(&name(index), others, "for other reasons")),
            }
            // A kind that did not recur for long counts as new.
            unit.kinds.retain(|kind| kind.count > 0 || now < kind.told + PAUSE);
        }
    }
}

/// Whether to report a failure to the operator: failures of the server, not of the request.
fn concerns_the_server(fault: Fault, cause: Cause) -> bool {
    match fault {
        Fault::Medium | Fault::NoSpace | Fault::Disconnected | Fault::Unanswered => true,
        // Without a cause the server refused the request itself, such as a write to a read-only
        // volume.
        Fault::ReadOnly | Fault::Unsupported | Fault::OutOfRange => cause != Cause::NONE,
        Fault::Miscompare | Fault::Aborted => false,
    }
}

fn first(name: &str, words: &str) -> String {
    format!("volume {name}: I/O failed: {words}")
}

fn more(name: &str, count: u64, words: &str) -> String {
    format!("volume {name}: {count} more I/Os failed: {words}")
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Bench {
        faults: Faults,
        log: Log,
        lines: Arc<Mutex<Vec<String>>>,
    }

    impl Bench {
        fn new() -> Bench {
            let lines = Arc::new(Mutex::new(Vec::new()));
            let kept = Arc::clone(&lines);
            let log = Log::new(move |line| kept.lock().unwrap().push(line.to_owned()));
            let faults = Faults::new(2);
            Bench { faults, log, lines }
        }

        fn note(&mut self, ms: u64, unit: usize, fault: Fault, cause: u32) {
            let now = Nanos::from_millis(ms);
            let words = || (cause == 28).then(|| "ENOSPC (28)".to_owned());
            self.faults.note(now, &self.log, (unit, || name(unit)), (fault, Cause(cause)), words);
        }

        fn told(&mut self, ms: u64) -> Vec<String> {
            self.faults.tell(Nanos::from_millis(ms), &self.log, name);
            std::mem::take(&mut *self.lines.lock().unwrap())
        }
    }

    fn name(unit: usize) -> String {
        ["a", "b"].get(unit).copied().unwrap_or_default().to_owned()
    }

    const FULL: &str = "volume a: I/O failed: no space left: \
                        ENOSPC (28)";

    #[test]
    fn the_first_is_told_at_once_and_the_rest_is_counted() {
        let mut bench = Bench::new();
        bench.note(0, 0, Fault::NoSpace, 28);
        assert_eq!(bench.told(0), [FULL]);
        for ms in 1..=1000 {
            bench.note(ms, 0, Fault::NoSpace, 28);
        }
        bench.note(1000, 1, Fault::Medium, 0);
        let other = "volume b: I/O failed: medium error";
        assert_eq!(bench.told(9_999), [other]);
        let rest = "volume a: 1000 more I/Os failed: no space left: ENOSPC (28)";
        assert_eq!(bench.told(10_000), [rest]);
        assert_eq!(bench.told(19_000), [""; 0]);
        // The fault continues: counted until the next line is due.
        bench.note(19_500, 0, Fault::NoSpace, 28);
        assert_eq!(bench.told(19_999), [""; 0]);
        assert_eq!(bench.told(20_000), [rest.replace("1000", "1")]);
    }

    #[test]
    fn what_comes_again_after_a_while_is_told_at_once() {
        let mut bench = Bench::new();
        bench.note(0, 0, Fault::NoSpace, 28);
        bench.note(1, 0, Fault::NoSpace, 28);
        assert_eq!(bench.told(11_000).len(), 2);
        bench.note(12_000, 1, Fault::Medium, 1);
        bench.note(12_001, 1, Fault::Medium, 1);
        bench.told(23_000);
        bench.note(24_000, 0, Fault::NoSpace, 28);
        assert_eq!(bench.told(24_000), [FULL]);
    }

    #[test]
    fn what_initiators_ask_for_wrongly_is_their_own() {
        let mut bench = Bench::new();
        for fault in [Fault::OutOfRange, Fault::ReadOnly, Fault::Unsupported, Fault::Aborted] {
            bench.note(0, 0, fault, 0);
        }
        bench.note(0, 7, Fault::Medium, 5);
        assert_eq!(bench.told(60_000), [""; 0]);
        // The file system below became read-only.
        bench.note(60_000, 0, Fault::ReadOnly, 30);
        assert_eq!(bench.told(60_000).len(), 1);
    }

    #[test]
    fn many_kinds_take_no_memory() {
        let mut bench = Bench::new();
        for cause in 0..10_000 {
            bench.note(0, 0, Fault::Medium, cause);
        }
        assert_eq!(bench.faults.units[0].kinds.len(), KINDS_MAX);
        assert_eq!(bench.told(0).len(), KINDS_MAX);
        assert_eq!(bench.told(10_000), ["volume a: 9992 more I/Os failed: for other reasons"]);
    }
}
