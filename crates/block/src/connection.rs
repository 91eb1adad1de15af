//! Connection counters of a lane.

use std::ops::{Add, AddAssign, Sub};

use crate::Nanos;

/// Losses and reconnections of a lane since it was first open, and the time without a connection.
/// All zero for a lane without one. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Connections lost: reset or closed by the peer, or given up after our time-out.
    pub lost: u64,
    /// Successful reconnections.
    pub reconnects: u64,
    /// Failed attempts to reconnect.
    pub failed_attempts: u64,
    /// Time without a connection.
    pub disconnected: Nanos,
}

impl Add for Connection {
    type Output = Connection;

    /// The sum of two lanes.
    fn add(self, other: Connection) -> Connection {
        Connection {
            lost: self.lost + other.lost,
            reconnects: self.reconnects + other.reconnects,
            failed_attempts: self.failed_attempts + other.failed_attempts,
            disconnected: self.disconnected + other.disconnected,
        }
    }
}

impl AddAssign for Connection {
    fn add_assign(&mut self, other: Connection) {
        *self = *self + other;
    }
}

impl Sub for Connection {
    type Output = Connection;

    /// The change since `earlier` counters of the same lane.
    fn sub(self, earlier: Connection) -> Connection {
        Connection {
            lost: self.lost - earlier.lost,
            reconnects: self.reconnects - earlier.reconnects,
            failed_attempts: self.failed_attempts - earlier.failed_attempts,
            disconnected: self.disconnected.since(earlier.disconnected),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn counters_add_up_and_can_be_parted() {
        let one = Connection { lost: 1, reconnects: 1, failed_attempts: 2, disconnected: Nanos(7) };
        let mut two = one + one;
        assert_eq!((two.lost, two.failed_attempts, two.disconnected), (2, 4, Nanos(14)));
        assert_eq!(two - one, one);
        two += Connection::default();
        assert_eq!(two - two, Connection::default());
    }
}
