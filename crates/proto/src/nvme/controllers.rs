//! The controllers of a server, each of which is several connections, on several cores.

use std::sync::Mutex;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct ControllerLimits {
    /// Controllers at once, 1 to 65279. One more is told that the server is busy.
    pub controllers: usize,
    /// I/O queues of one controller, 1 to 1024.
    pub queues: u16,
    /// What commands may bring along unasked on all queues together. A queue that could exceed it
    /// is told that the server is busy.
    pub memory_bytes: u64,
}

impl Default for ControllerLimits {
    fn default() -> ControllerLimits {
        ControllerLimits { controllers: 1024, queues: 64, memory_bytes: 8 << 30 }
    }
}

/// The controllers of a server. Locked when one begins or ends, never for an I/O.
#[derive(Debug)]
pub struct Controllers {
    limits: ControllerLimits,
    registry: Mutex<()>,
}

impl Controllers {
    /// None yet.
    pub fn new(limits: ControllerLimits) -> Controllers {
        Controllers { limits, registry: Mutex::new(()) }
    }

    /// How many there are now.
    pub fn count(&self) -> usize {
        let _ = (&self.registry, self.limits);
        0
    }
}
