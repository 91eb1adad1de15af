//! Threads meet at a queue of orders, and lanes at a part's flush state: every interleaving, with
//! loads that see older stores.
#![forbid(unsafe_code)]

#[path = "../src/dial/orders.rs"]
mod orders;
#[path = "../src/striped/written.rs"]
mod written;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use crate::orders::{Next, Taker};
use crate::sync::{Mutex, Waker};
use crate::written::Written;

/// Loom's primitives, which replace those of the standard library and of `os`.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    /// Ends the current or the next wait of a thread.
    #[derive(Clone, Default)]
    pub(crate) struct Waker(Arc<(Mutex<bool>, Condvar)>);

    impl Waker {
        pub(crate) fn wake(&self) {
            *self.0.0.lock().expect("no thread panics") = true;
            self.0.1.notify_one();
        }

        pub(crate) fn wait(&self) {
            let mut woken = self.0.0.lock().expect("no thread panics");
            while !std::mem::take(&mut *woken) {
                woken = self.0.1.wait(woken).expect("no thread panics");
            }
        }
    }
}

/// Tries every interleaving with at most `changes` preemptions.
fn model(changes: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(test);
}

/// An order, and the number of orders neither carried out nor dropped.
struct Errand(usize, Arc<AtomicUsize>);

impl Errand {
    fn new(number: usize, open: &Arc<AtomicUsize>) -> Errand {
        open.fetch_add(1, Ordering::Relaxed);
        Errand(number, Arc::clone(open))
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Body of the thread: waits for orders and takes all of them; ends after `most` orders. On a lost
/// wake-up it waits for ever, which loom reports.
fn obey(taker: Taker<Errand>, waker: &Waker, most: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    loop {
        waker.wait();
        loop {
            match taker.next() {
                Next::Order(errand) => taken.push(errand.0),
                Next::Nothing => break,
                Next::Over => return taken,
            }
            if taken.len() == most {
                return taken;
            }
        }
    }
}

#[test]
fn every_order_is_carried_out_before_the_thread_ends() {
    model(2, || {
        let (taker, waker, open) = (Taker::new(), Waker::default(), Arc::new(AtomicUsize::new(0)));
        let giver = Arc::new(taker.giver()(waker.clone()));
        let thread = thread::spawn(move || obey(taker, &waker, usize::MAX));
        let other = {
            let (giver, open) = (Arc::clone(&giver), Arc::clone(&open));
            thread::spawn(move || (1..3).for_each(|number| giver.give(Errand::new(number, &open))))
        };
        giver.give(Errand::new(3, &open));
        drop(giver);
        other.join().expect("it has given them");
        let taken = thread.join().expect("it ends");
        let place = |number| taken.iter().position(|one| *one == number);
        assert!(taken.len() == 3 && place(3).is_some() && place(1) < place(2), "{taken:?}");
        assert_eq!(open.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn nobody_waits_for_a_thread_that_ended_before_its_time() {
    model(3, || {
        let (taker, waker, open) = (Taker::new(), Waker::default(), Arc::new(AtomicUsize::new(0)));
        let giver = taker.giver()(waker.clone());
        let thread = thread::spawn(move || obey(taker, &waker, 1));
        (0..3).for_each(|number| giver.give(Errand::new(number, &open)));
        assert_eq!(thread.join().expect("it ends"), [0]);
        // Orders not carried out were dropped, although the sender still exists.
        assert_eq!(open.load(Ordering::Relaxed), 0);
        drop(giver);
    });
}

/// A part: writes completed, and how many of them are durable.
type Part = Mutex<(u32, u32)>;

fn write(part: &Part, written: &Written) {
    part.lock().expect("no thread panics").0 += 1;
    written.write_done();
}

fn flush(part: &Part, written: &Written) {
    let number = written.flush_begins();
    {
        let mut part = part.lock().expect("no thread panics");
        part.1 = part.0;
    }
    written.flush_done(number);
}

#[test]
fn a_part_is_clean_when_its_writes_are_durable_and_not_before() {
    model(3, || {
        let shared = Arc::new((Part::new((0, 0)), Written::default()));
        let lanes: [fn(&Part, &Written); 2] = [write, flush];
        let lanes = lanes.map(|does| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (0..2).for_each(|_| does(&shared.0, &shared.1)))
        });
        for lane in lanes {
            lane.join().expect("it ends");
        }
        let (done, durable) = *shared.0.lock().expect("no thread panics");
        assert!(shared.1.is_dirty() || durable == done, "{durable} of {done} are durable");
        flush(&shared.0, &shared.1);
        assert!(!shared.1.is_dirty());
    });
}
