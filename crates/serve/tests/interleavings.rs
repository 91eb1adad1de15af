//! Cores meet at a mailbox: every interleaving, with loads that see older stores.
#![forbid(unsafe_code)]

#[path = "../src/mailbox.rs"]
mod mailbox;

use loom::sync::Arc;
use loom::thread;
use proto::{Notice, UnitId};

use crate::mailbox::Mailbox;
use crate::sync::Waker;

/// Loom's primitives, which replace those of the standard library and of `os`.
mod sync {
    pub(crate) use std::sync::PoisonError;

    pub(crate) use loom::sync::atomic::{AtomicBool, Ordering};
    pub(crate) use loom::sync::{Arc, Condvar, Mutex, MutexGuard};

    /// `OnceLock` with a loom flag, which may be seen late.
    pub(crate) struct OnceLock<T> {
        is_set: AtomicBool,
        value: std::sync::OnceLock<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            OnceLock { is_set: AtomicBool::new(false), value: std::sync::OnceLock::new() }
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn set(&self, value: T) -> Result<(), T> {
            self.value.set(value)?;
            self.is_set.store(true, Ordering::Release);
            Ok(())
        }

        pub(crate) fn get(&self) -> Option<&T> {
            if self.is_set.load(Ordering::Acquire) { self.value.get() } else { None }
        }
    }

    /// Ends the current or the next wait of a core.
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

fn reset(unit: u32) -> Notice {
    Notice::UnitReset(UnitId(unit))
}

/// Body of a core: looks, and waits if there was nothing, until it has `count` notices. On a lost
/// wake-up it waits for ever, which loom reports.
fn take_all(mailbox: &Mailbox<()>, waker: &Waker, count: usize) -> Vec<Notice> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let mut some = mailbox.take().notices;
        if some.is_empty() {
            waker.wait();
        }
        taken.append(&mut some);
    }
    taken
}

/// Tries every interleaving with at most `changes` preemptions.
fn model(changes: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(test);
}

#[test]
fn no_notice_is_lost_or_left_lying() {
    model(2, || {
        let (mailbox, waker) = (Arc::new(Mailbox::default()), Waker::default());
        let bell = waker.clone();
        mailbox.belongs_to(move || bell.wake());
        let others = [vec![1, 2], vec![3]].map(|units| {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || units.iter().for_each(|unit| assert!(mailbox.put(&reset(*unit)))))
        });
        let taken = take_all(&mailbox, &waker, 3);
        for other in others {
            other.join().expect("it has put them");
        }
        let place = |unit| taken.iter().position(|notice| *notice == reset(unit));
        assert!(taken.len() == 3 && place(3).is_some(), "{taken:?}");
        assert!(place(1).is_some() && place(1) < place(2), "{taken:?}");
        assert!(mailbox.take().notices.is_empty());
    });
}

#[test]
fn what_was_put_before_the_core_came_is_found() {
    model(3, || {
        let (mailbox, waker) = (Arc::new(Mailbox::default()), Waker::default());
        let other = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || assert!(mailbox.put(&reset(7))))
        };
        let bell = waker.clone();
        mailbox.belongs_to(move || bell.wake());
        assert_eq!(take_all(&mailbox, &waker, 1), [reset(7)]);
        other.join().expect("it has put it");
    });
}

#[test]
fn an_order_beside_a_notice_is_carried_out() {
    model(3, || {
        let (mailbox, waker) = (Arc::new(Mailbox::<u8>::default()), Waker::default());
        let bell = waker.clone();
        mailbox.belongs_to(move || bell.wake());
        let other = {
            let mailbox = Arc::clone(&mailbox);
            thread::spawn(move || mailbox.order(7))
        };
        assert!(mailbox.put(&reset(1)));
        let (mut notices, mut orders) = (Vec::new(), Vec::new());
        while notices.is_empty() || orders.is_empty() {
            let mut mail = mailbox.take();
            if mail.notices.is_empty() && mail.orders.is_empty() {
                waker.wait();
            }
            notices.append(&mut mail.notices);
            orders.append(&mut mail.orders);
        }
        assert_eq!((notices, orders), (vec![reset(1)], vec![7]));
        other.join().expect("it has put it");
    });
}
