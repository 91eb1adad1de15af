//! Ctrl-C, termination, and a terminal that goes away.

use std::io;
use std::sync::mpsc::{self, Receiver};

use load::Stop;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// SIGINT, SIGTERM and SIGHUP ask for an end in order; asked twice, the end comes at once.
pub fn stop_on_signal(stop: &Stop) -> io::Result<()> {
    let mut signals = Signals::new(heeded())?;
    let stop = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        signals.forever().for_each(|_| stop.ask());
    })?;
    Ok(())
}

/// Receives one word when SIGINT, SIGTERM or SIGHUP comes.
pub fn on_signal() -> io::Result<Receiver<()>> {
    let mut signals = Signals::new(heeded())?;
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

/// Signals that ask for an end. Who began us by `nohup` wants no end when the terminal goes.
fn heeded() -> Vec<i32> {
    let ignored = std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
    });
    if ignored { vec![SIGINT, SIGTERM] } else { vec![SIGINT, SIGTERM, SIGHUP] }
}
