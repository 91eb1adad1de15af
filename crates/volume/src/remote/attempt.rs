//! A connection attempt that blocks no core.

use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use block::Nanos;
use os::Connecting;

use crate::dial::{self, Dial};

/// First and maximum delay between checks of an attempt, doubling from the first: within a host
/// connections take microseconds.
const FIRST_PAUSE: Nanos = Nanos(100_000);
const LONGEST_PAUSE: Nanos = Nanos::from_millis(10);
/// Time limit of an address, as for blocking callers.
const ANSWERING: Nanos = Nanos(dial::CONNECT_TIMEOUT.as_nanos() as u64);
/// Time limit of a thread that resolves the host's name and connects.
const FINDING: Nanos = Nanos::from_secs(20);

/// A connection attempt.
pub struct Attempt {
    way: Way,
    look: Nanos,
    pause: Nanos,
    until: Nanos,
}

enum Way {
    /// Connects to a numeric address: the kernel connects in the background.
    Kernel(Connecting),
    /// An attempt in a thread, because resolving names and opening an association take time.
    Thread(Receiver<Result<TcpStream, String>>),
    /// The attempt failed at once.
    None(String),
}

impl Attempt {
    /// Starts to connect, and returns at once.
    pub(crate) fn begin<D: Dial>(dial: &D, now: Nanos) -> Attempt {
        let numbers = dial.address().parse::<SocketAddr>().ok();
        let (way, most) = match numbers.filter(|_| dial.stale().is_none()) {
            Some(address) => (Connecting::begin(address).map(Way::Kernel), ANSWERING),
            None => (in_thread(dial.clone()).map(Way::Thread), FINDING),
        };
        let way = way.unwrap_or_else(|error| {
            Way::None(dial::connect_error(dial.address(), error).to_string())
        });
        Attempt { way, look: now, pause: FIRST_PAUSE, until: now + most }
    }

    /// Result, once known: a connection, or an error. To be called at [`wake`](Self::wake); not
    /// again after a result.
    pub(crate) fn look<D: Dial>(
        &mut self,
        now: Nanos,
        dial: &D,
    ) -> Option<Result<TcpStream, String>> {
        if now < self.look {
            return None;
        }
        let failed = |error| dial::connect_error(dial.address(), error).to_string();
        let outcome = match &mut self.way {
            Way::Kernel(connecting) => connecting.look().map(|made| made.map_err(failed)),
            Way::Thread(receiver) => match receiver.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err("no connection".to_owned())),
            },
            Way::None(why) => Some(Err(std::mem::take(why))),
        };
        if outcome.is_none() && now >= self.until {
            return Some(Err(failed(std::io::ErrorKind::TimedOut.into())));
        }
        self.look = now + self.pause;
        self.pause = Nanos(self.pause.0 * 2).min(LONGEST_PAUSE);
        outcome
    }

    /// Time of the next check.
    pub(crate) fn wake(&self) -> Nanos {
        self.look
    }
}

/// Connects in a thread: connecting may take seconds, and the core has other lanes.
fn in_thread<D: Dial>(dial: D) -> std::io::Result<Receiver<Result<TcpStream, String>>> {
    let (sender, receiver) = channel();
    let body = move || {
        let stream = dial.renew().and_then(|()| dial::connect(dial.address()));
        // The lane may be gone.
        let _ = sender.send(stream.map_err(|error| error.to_string()));
    };
    std::thread::Builder::new().name("connect".to_owned()).spawn(body)?;
    Ok(receiver)
}
