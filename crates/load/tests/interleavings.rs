//! Threads meet at a ledger and at a handover: every interleaving, with loads that see older
//! stores.
#![forbid(unsafe_code)]

#[allow(dead_code)]
#[path = "../src/handover.rs"]
mod handover;
#[allow(dead_code)]
#[path = "../src/ledger/word.rs"]
mod word;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use crate::handover::{Directive, Handover, Rest};
use crate::word::{acknowledged, begun};
use crate::worker::Trouble;

/// Loom's primitives instead of those of the standard library.
mod sync {
    use std::collections::VecDeque;
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

    /// With the interface of crossbeam's.
    pub(crate) struct ArrayQueue<T> {
        items: Mutex<VecDeque<T>>,
        places: usize,
    }

    impl<T> ArrayQueue<T> {
        pub(crate) fn new(places: usize) -> ArrayQueue<T> {
            ArrayQueue { items: Mutex::new(VecDeque::new()), places }
        }

        pub(crate) fn push(&self, item: T) -> Result<(), T> {
            let mut items = self.items.lock().expect("no thread panics");
            if items.len() >= self.places {
                return Err(item);
            }
            items.push_back(item);
            Ok(())
        }

        pub(crate) fn pop(&self) -> Option<T> {
            self.items.lock().expect("no thread panics").pop_front()
        }

        pub(crate) fn is_full(&self) -> bool {
            self.items.lock().expect("no thread panics").len() >= self.places
        }
    }
}

mod worker {
    /// Identified by its number.
    #[derive(Debug, PartialEq, Eq)]
    pub(crate) struct Trouble(pub(crate) u32);
}

/// Tries every interleaving with at most `changes` preemptions.
fn model(changes: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(test);
}

/// A memory volume of two blocks: its bytes carry no order.
struct Volume {
    blocks: [AtomicU64; 2],
    words: [AtomicU64; 2],
}

impl Volume {
    fn new() -> Arc<Volume> {
        let zeroes = || [(); 2].map(|()| AtomicU64::new(0));
        Arc::new(Volume { blocks: zeroes(), words: zeroes() })
    }

    /// Writes both blocks, unless another thread does.
    fn write(&self, done: bool) -> bool {
        if !word::claim(&self.words) {
            return false;
        }
        word::before_write();
        for (block, word) in self.blocks.iter().zip(&self.words) {
            let generation = begun(word.load(Ordering::Acquire));
            block.store(generation.into(), Ordering::Relaxed);
        }
        word::release(&self.words, done);
        true
    }

    /// Reads a block: least version, version found, most version.
    fn read(&self, index: usize) -> [u32; 3] {
        let least = acknowledged(self.words[index].load(Ordering::Acquire));
        let found = self.blocks[index].load(Ordering::Relaxed) as u32;
        word::after_read();
        [least, found, begun(self.words[index].load(Ordering::Acquire))]
    }
}

#[test]
fn a_read_finds_what_was_acknowledged_and_nothing_that_was_not_begun() {
    model(3, || {
        let volume = Volume::new();
        let writers = [true, false].map(|done| {
            let volume = Arc::clone(&volume);
            thread::spawn(move || volume.write(done))
        });
        for index in [1, 0] {
            let [least, found, most] = volume.read(index);
            assert!(least <= found && found <= most, "{least} <= {found} <= {most}");
        }
        let written = writers.map(|writer| writer.join().expect("it has written"));
        assert!(written.contains(&true), "one of them is the first");
        // No write is in flight any more, and all started writes are counted.
        let [least, found, most] = volume.read(0);
        assert_eq!(
            (found, most),
            (most, written.iter().filter(|written| **written).count() as u32)
        );
        assert!(written[0] == (least > 0), "{least}");
    });
}

#[test]
fn of_writes_that_overlap_one_at_a_time_has_a_block() {
    model(3, || {
        let words = Arc::new([(); 3].map(|()| AtomicU64::new(0)));
        let inside = Arc::new(AtomicU64::new(0));
        // Both claim the middle block, from different sides.
        let writers = [0..2, 1..3].map(|range| {
            let (words, inside) = (Arc::clone(&words), Arc::clone(&inside));
            thread::spawn(move || {
                if !word::claim(&words[range.clone()]) {
                    return 0;
                }
                assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "both claimed the middle");
                inside.fetch_sub(1, Ordering::Relaxed);
                word::release(&words[range], true);
                1
            })
        });
        let done: u32 = writers.map(|writer| writer.join().expect("it has tried")).iter().sum();
        let ends = [0, 1, 2].map(|index: usize| words[index].load(Ordering::Acquire));
        // Undone claims leave no trace.
        assert_eq!(ends.map(begun), ends.map(acknowledged));
        assert!(done >= 1 && begun(ends[1]) == done);
    });
}

/// A thread of two workers: an I/O a turn on each, with occasional trouble.
fn work(handover: &Handover, turns: u32) -> (u64, u32) {
    let mut seen = 0;
    let (mut ios, mut troubles, mut waiting) = (0, 0, [None, None]);
    let mut own = [(); 2].map(|()| Box::new(stats::Interval::new()));
    for turn in 0..turns {
        if handover.commanded() != Directive::Run {
            break;
        }
        for (worker, interval) in own.iter_mut().enumerate() {
            interval.read.ios += 1;
            ios += 1;
            if waiting[worker].is_none() && turn < 2 {
                troubles += 1;
                waiting[worker] = Some(Trouble(troubles));
            }
        }
        if handover.asked() != seen {
            seen = handover.asked();
            for worker in 0..2 {
                handover.put_trouble(worker, || waiting[worker].take());
                let exchange = |empty| std::mem::replace(&mut own[worker], empty);
                handover.put_full(worker, exchange);
            }
        }
        thread::yield_now();
    }
    for (worker, last) in own.into_iter().enumerate() {
        handover.put_trouble(worker, || waiting[worker].take());
        handover.put_last(worker, last);
        // An I/O that was in flight completes late.
        ios += 1;
        let mut late = Box::new(stats::Interval::new());
        late.read.ios = 1;
        let (trouble, unanswered) = (waiting[worker].take(), stats::Interval::new());
        handover.put_rest(Rest { worker, late, unanswered, trouble });
    }
    handover.say_finished();
    (ios, troubles)
}

#[test]
fn no_interval_and_no_trouble_is_lost_however_late_the_collector_is() {
    model(2, || {
        let handover = Arc::new(Handover::new(2, false));
        handover.command(Directive::Run);
        let thread = {
            let handover = Arc::clone(&handover);
            thread::spawn(move || work(&handover, 2))
        };
        let (mut ios, mut troubles) = (0, Vec::new());
        let mut collect = |handover: &Handover| {
            while let Some((_, interval)) = handover.take_full() {
                ios += interval.read.ios;
                handover.put_empty(interval);
            }
            while let Some((_, trouble)) = handover.take_trouble() {
                troubles.push(trouble.0);
            }
        };
        for _ in 0..2 {
            handover.ask();
            thread::yield_now();
            collect(&handover);
        }
        handover.command(Directive::Drain);
        let (done, had) = thread.join().expect("it has worked");
        collect(&handover);
        for Rest { late, trouble, .. } in handover.take_rests() {
            ios += late.read.ios;
            troubles.extend(trouble.map(|trouble| trouble.0));
        }
        assert!(handover.is_finished());
        assert_eq!(ios, done);
        troubles.sort_unstable();
        assert_eq!(troubles, (1..=had).collect::<Vec<_>>());
    });
}
