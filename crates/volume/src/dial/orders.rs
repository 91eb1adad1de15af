//! A queue of orders to a thread that sleeps while it is empty.
//!
//! Each order is either taken or dropped, also if the thread ends early, so a caller that waits for
//! its result is notified through a sender in the order.

use std::collections::VecDeque;

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, Waker};

/// Queued orders.
struct Queue<T>(Mutex<Waiting<T>>);

struct Waiting<T> {
    orders: VecDeque<T>,
    /// The sender is gone: no more orders will come.
    over: bool,
    /// The receiver is gone.
    left: bool,
}

/// Receiving end of the thread. Dropping it drops the queued orders and all later ones.
pub(super) struct Taker<T>(Arc<Queue<T>>);

/// The thread's next step.
pub(super) enum Next<T> {
    /// Carry this out.
    Order(T),
    /// Nothing now; a new order wakes the thread.
    Nothing,
    /// No more orders will come.
    Over,
}

impl<T> Taker<T> {
    pub(super) fn new() -> Taker<T> {
        let waiting = Waiting { orders: VecDeque::new(), over: false, left: false };
        Taker(Arc::new(Queue(Mutex::new(waiting))))
    }

    /// The only sender, which wakes the thread by `waker` for each order and for the end.
    pub(super) fn giver(&self) -> impl FnOnce(Waker) -> Giver<T> + use<T> {
        let queue = Arc::clone(&self.0);
        move |waker| Giver { queue, waker }
    }

    pub(super) fn next(&self) -> Next<T> {
        let mut waiting = self.0.lock();
        match waiting.orders.pop_front() {
            Some(order) => Next::Order(order),
            None if waiting.over => Next::Over,
            None => Next::Nothing,
        }
    }
}

impl<T> Drop for Taker<T> {
    fn drop(&mut self) {
        let orders = {
            let mut waiting = self.0.lock();
            waiting.left = true;
            std::mem::take(&mut waiting.orders)
        };
        // Not under the lock: dropping an order may run anything.
        drop(orders);
    }
}

/// Sender of orders. Dropping it means that no more will come.
pub(super) struct Giver<T> {
    queue: Arc<Queue<T>>,
    waker: Waker,
}

impl<T> Giver<T> {
    /// Sends an order to the thread, or drops it if the thread has ended.
    pub(super) fn give(&self, order: T) {
        let refused = {
            let mut waiting = self.queue.lock();
            if waiting.left {
                Some(order)
            } else {
                waiting.orders.push_back(order);
                None
            }
        };
        drop(refused);
        self.waker.wake();
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        self.queue.lock().over = true;
        self.waker.wake();
    }
}

impl<T> Queue<T> {
    fn lock(&self) -> MutexGuard<'_, Waiting<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
