//! A bounded queue between two stages, which measures how long both ends waited.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Passes items from the threads of one stage to those of the next, in order.
pub struct Queue<T> {
    state: Mutex<QueueState<T>>,
    /// Signals an item, or the end.
    news: Condvar,
    /// Signalled when there is room, or no more items are accepted.
    room: Condvar,
}

struct QueueState<T> {
    items: VecDeque<T>,
    limit: usize,
    /// Threads that may still give items.
    givers: usize,
    /// The queue has ended.
    ended: bool,
}

impl<T> Queue<T> {
    /// A queue of at most `limit` items, from `givers` threads.
    pub fn new(limit: usize, givers: usize) -> Queue<T> {
        let state =
            QueueState { items: VecDeque::with_capacity(limit), limit, givers, ended: false };
        Queue { state: Mutex::new(state), news: Condvar::new(), room: Condvar::new() }
    }

    /// A queue of these items, which is never [closed](Self::leave).
    pub fn filled(items: Vec<T>) -> Queue<T> {
        let queue = Queue::new(items.len(), 1);
        queue.lock().items.extend(items);
        queue
    }

    /// Appends an item, waiting while the queue is full. Returns the item if the queue has ended.
    pub fn give(&self, item: T) -> Result<(), T> {
        let mut state = self.lock();
        while state.items.len() >= state.limit && !state.ended {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.ended {
            return Err(item);
        }
        state.items.push_back(item);
        self.news.notify_one();
        Ok(())
    }

    /// Takes the first item, waiting for one if the queue is empty. `None` if no more will come.
    pub fn take(&self) -> Option<T> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return None;
            }
            if let Some(item) = state.items.pop_front() {
                self.room.notify_one();
                return Some(item);
            }
            if state.givers == 0 {
                return None;
            }
            state = self.news.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes the first item, if there is one now.
    pub fn take_now(&self) -> Option<T> {
        let mut state = self.lock();
        let item = if state.ended { None } else { state.items.pop_front() };
        if item.is_some() {
            self.room.notify_one();
        }
        item
    }

    /// Unregisters a thread that gave items.
    pub fn leave(&self) {
        let mut state = self.lock();
        state.givers = state.givers.saturating_sub(1);
        self.news.notify_all();
    }

    /// Ends the queue and wakes all waiters.
    pub fn end(&self) {
        self.lock().ended = true;
        self.news.notify_all();
        self.room.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn all_arrives_once_and_the_last_giver_closes_it() {
        let queue = Queue::new(2, 3);
        let mut taken: Vec<u32> = std::thread::scope(|scope| {
            for giver in 0..3 {
                let queue = &queue;
                scope.spawn(move || {
                    (0..100).for_each(|one| queue.give(giver * 100 + one).unwrap());
                    queue.leave();
                });
            }
            let take = || std::iter::from_fn(|| queue.take()).collect::<Vec<u32>>();
            let (one, two) = (scope.spawn(take), scope.spawn(take));
            [one.join().unwrap(), two.join().unwrap()].concat()
        });
        taken.sort_unstable();
        assert_eq!(taken, (0..300).collect::<Vec<u32>>());
    }

    #[test]
    fn the_end_lets_everybody_go() {
        let queue: Queue<u32> = Queue::new(1, 1);
        queue.give(1).unwrap();
        std::thread::scope(|scope| {
            let giver = scope.spawn(|| queue.give(2));
            queue.end();
            assert_eq!(giver.join().unwrap(), Err(2));
        });
        assert_eq!((queue.take(), queue.take_now()), (None, None));
    }
}
