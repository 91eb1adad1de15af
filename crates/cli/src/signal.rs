//! Ctrl-C and termination.

use std::io;
use std::sync::mpsc::{self, Receiver};

use load::Stop;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// SIGINT and SIGTERM ask for an end in order; asked twice, the end comes at once.
pub fn stop_on_signal(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let stop = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().for_each(|_| stop.ask());
    })?;
    Ok(())
}

/// Receives one word when SIGINT or SIGTERM comes.
pub fn on_signal() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let (send, receive) = mpsc::channel();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if send.send(()).is_err() {
                return;
            }
        }
    })?;
    Ok(receive)
}
