//! Queue of sockets that wait for a receive buffer.
//!
//! Plain data without the kernel: real and simulated cores use it.

use std::collections::VecDeque;

/// Next receive mode of a waiting socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arming {
    /// Receives until no buffer is left: there are enough for all.
    Multishot,
    /// One receive, into one buffer; then the socket queues again after the others.
    Once,
}

/// Sockets that wait for a buffer, the longest waiting first.
///
/// While more sockets wait than buffers are free, each gets one buffer in turn: a multishot receive
/// would take the buffers of all others.
#[derive(Debug, Default)]
pub struct Refill {
    waiting: VecDeque<u32>,
}

impl Refill {
    /// Creates a queue without waiting sockets.
    pub fn new() -> Refill {
        Refill { waiting: VecDeque::with_capacity(1024) }
    }

    /// Whether no socket waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Appends a socket, which must not be queued yet.
    pub fn wait(&mut self, socket: u32) {
        debug_assert!(!self.waiting.contains(&socket), "a socket waits once");
        self.waiting.push_back(socket);
    }

    /// Removes a closed socket.
    pub fn forget(&mut self, socket: u32) {
        self.waiting.retain(|waiting| *waiting != socket);
    }

    /// Arming of the next sockets, and their number: one per free buffer.
    pub fn plan(&self, free: usize) -> (Arming, usize) {
        let arming = if self.waiting.len() > free { Arming::Once } else { Arming::Multishot };
        (arming, self.waiting.len().min(free))
    }

    /// Takes the socket that has waited longest.
    pub fn take(&mut self) -> Option<u32> {
        if block::planted(block::Plant::RefillLastFirst) {
            return (!self.waiting.is_empty()).then(|| {
                let first = self.waiting.swap_remove_back(0);
                first.expect("one waits")
            });
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_socket_is_served_once_in_a_round() {
        let mut refill = Refill::new();
        (0..100).for_each(|socket| refill.wait(socket));
        let mut served = [0; 100];
        for _ in 0..50 {
            let (arming, count) = refill.plan(8);
            assert_eq!((arming, count), (Arming::Once, 8));
            let round: Vec<u32> = (0..count).map(|_| refill.take().unwrap()).collect();
            // The socket has received, and needs more.
            for socket in round {
                served[socket as usize] += 1;
                refill.wait(socket);
            }
        }
        assert!(served.iter().all(|count| *count == 4), "{served:?}");
    }

    #[test]
    fn with_buffers_for_all_each_receives_as_long_as_it_can() {
        let mut refill = Refill::new();
        assert_eq!(refill.plan(0), (Arming::Multishot, 0));
        [5, 6, 7].into_iter().for_each(|socket| refill.wait(socket));
        refill.forget(6);
        assert_eq!(refill.plan(2), (Arming::Multishot, 2));
        assert_eq!(refill.plan(0), (Arming::Once, 0), "they wait on");
        assert_eq!([refill.take(), refill.take(), refill.take()], [Some(5), Some(7), None]);
    }
}
