//! Ctrl-C, termination, and a terminal that goes away.
//!
//! The first SIGINT or SIGTERM requests an orderly end: I/Os in flight are completed, and the
//! result is saved. The program ends within [`ORDERLY`], whatever hangs; a second signal ends the
//! program within [`LAST_WORDS`], and a third one at once. SIGHUP requests an orderly end, however
//! often the signal arrives: the kernel and a shell both send SIGHUP. The program waits up to
//! [`WRITING`] for a result that is being written, and for a run that has no CPU to make one.
//!
//! Until a command listens, a signal ends the program at once: nothing is measured by then. This
//! also holds if the parent ignores signals, as a shell does for commands started with `&`.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use load::Stop;
use report::{Wish, give_terminal_back};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

/// Time for an end in order: with the time to give a terminal back, less than two seconds.
const ORDERLY: Duration = Duration::from_millis(1700);
/// Time to save a result that need not wait for anything.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Additional time to write a result: one with thousands of workers has a hundred megabytes.
const WRITING: Duration = Duration::from_secs(30);
/// Interval at which the threads of an ending run are polled, and maximum time counted per poll: a
/// longer gap means that this process did not run.
const LOOK: Duration = Duration::from_millis(10);
const COUNTED_MAX: Duration = Duration::from_millis(50);
/// Time to restore a terminal before the program ends.
const GIVING_BACK: Duration = Duration::from_millis(200);
/// Exit code after an interruption.
const INTERRUPTED: i32 = 130;

/// Whom SIGHUP tells, instead of ending the program.
static HANG_UPS: Mutex<Option<Sender<()>>> = Mutex::new(None);
/// Listeners that are notified.
static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { all: Vec::new(), told: 0 });
/// Number of stop requests of the user.
static ASKED: AtomicU32 = AtomicU32::new(0);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// Results that are being made and written.
static WRITTEN: Mutex<u32> = Mutex::new(0);
static ALL_WRITTEN: Condvar = Condvar::new();
/// Runs whose results are not saved yet.
static MEASURING: AtomicU32 = AtomicU32::new(0);

struct Listeners {
    all: Vec<Listener>,
    /// Number of notifications so far.
    told: u32,
}

enum Listener {
    Run(Stop),
    Server(Sender<()>),
}

/// SIGINT, SIGTERM and SIGHUP ask for an end in order.
pub fn stop_on_signal(stop: &Stop) -> io::Result<()> {
    tell(Listener::Run(stop.clone()))
}

/// Receives one message per SIGINT, SIGTERM or SIGHUP.
pub fn on_signal() -> io::Result<Receiver<()>> {
    let (send, receive) = mpsc::channel();
    tell(Listener::Server(send))?;
    Ok(receive)
}

/// Receives one message per SIGHUP, which does not end the program any more.
pub fn on_hang_up() -> Receiver<()> {
    let (send, receive) = mpsc::channel();
    *HANG_UPS.lock().unwrap_or_else(PoisonError::into_inner) = Some(send);
    receive
}

/// Ends the messages about SIGHUP, which has no effect now: the program ends.
pub fn ignore_hang_ups() {
    let (send, _) = mpsc::channel();
    *HANG_UPS.lock().unwrap_or_else(PoisonError::into_inner) = Some(send);
}

impl Listener {
    /// Requests a stop of this listener.
    fn tell(&self) {
        match self {
            Listener::Run(stop) => stop.ask(),
            // A server that is gone has ended already.
            Listener::Server(words) => drop(words.send(())),
        }
    }
}

/// Whether the user requested a stop.
pub fn is_asked() -> bool {
    ASKED.load(Ordering::SeqCst) > 0 || HUNG_UP.load(Ordering::SeqCst)
}

/// A result is being made and written, until this is dropped.
pub struct Writing(());

impl Writing {
    /// Holds off the end of the process until dropped.
    pub fn begin() -> Writing {
        *WRITTEN.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Writing(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        *WRITTEN.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        ALL_WRITTEN.notify_all();
    }
}

/// Guard of a run in progress, dropped after its result is saved.
pub struct Measuring(());

impl Measuring {
    /// Holds off the immediate end of the process until dropped.
    pub fn begin() -> Measuring {
        MEASURING.fetch_add(1, Ordering::SeqCst);
        Measuring(())
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        MEASURING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Handles a request of the full screen like a signal.
pub fn heed(wish: Wish) {
    match wish {
        Wish::Stop => interrupt(),
        Wish::Gone if !ignores_hang_up() => hang_up(),
        Wish::Gone => {}
    }
}

/// Adds a listener and repeats earlier notifications; the first listener installs the signal
/// handlers.
fn tell(listener: Listener) -> io::Result<()> {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    if listeners.all.is_empty() {
        // A parent such as `nohup` ignores SIGHUP: the run survives the terminal.
        let heeded =
            if ignores_hang_up() { &[SIGINT, SIGTERM][..] } else { &[SIGINT, SIGTERM, SIGHUP] };
        let mut signals = Signals::new(heeded)?;
        // A limit of the length of files (`ulimit -f`) is an error where a file is written.
        flag::register(SIGXFSZ, Arc::default())?;
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if signal == SIGHUP { hang_up() } else { interrupt() }
            }
        })?;
    }
    (0..listeners.told).for_each(|_| listener.tell());
    listeners.all.push(listener);
    Ok(())
}

/// Handles a stop request of the user.
fn interrupt() {
    match ASKED.fetch_add(1, Ordering::SeqCst) {
        0 => {
            leave_after(be_orderly);
            ask();
        }
        1 => {
            // No more waiting; a thread that still waits does not delay the exit.
            leave_after(|| thread::sleep(LAST_WORDS));
            ask();
        }
        _ => leave(),
    }
}

/// Handles the loss of the terminal.
fn hang_up() {
    if let Some(told) = &*HANG_UPS.lock().unwrap_or_else(PoisonError::into_inner) {
        // Nobody listens any more if the program ends.
        let _ = told.send(());
        return;
    }
    if !HUNG_UP.swap(true, Ordering::SeqCst) {
        leave_after(be_orderly);
        ask();
    }
}

/// Waits for [`ORDERLY`], or longer while a run continues whose threads only lack a CPU.
fn be_orderly() {
    let mut grace = Grace::default();
    let clock = os::Clock::get();
    let mut looked = clock.now();
    while !grace.is_over() {
        thread::sleep(LOOK);
        let gone = Duration::from_nanos(clock.now().since(looked).0);
        looked = clock.now();
        let measures = MEASURING.load(Ordering::SeqCst) > 0;
        grace.count(gone, measures, os::sample::is_another_runnable);
    }
}

/// The time of an end in order.
#[derive(Debug, Default)]
struct Grace {
    waited: Duration,
    /// Time in which a run could have ended, or in which there was none.
    idle: Duration,
}

impl Grace {
    /// Counts the time since the last poll. Time of a run that `measures` does not count while one
    /// of its threads `is_starved`.
    fn count(&mut self, gone: Duration, measures: bool, is_starved: impl FnOnce() -> bool) {
        self.waited += gone;
        if !measures {
            self.idle += gone;
        } else if !is_starved() {
            self.idle += gone.min(COUNTED_MAX);
        }
    }

    fn is_over(&self) -> bool {
        self.idle >= ORDERLY || self.waited >= WRITING
    }
}

/// Ends the program after a time, and after results that are being written.
fn leave_after(wait: fn()) {
    let last = thread::Builder::new().name("last words".to_owned());
    let begun = last.spawn(move || {
        wait();
        let written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
        let still = |count: &mut u32| *count > 0;
        drop(ALL_WRITTEN.wait_timeout_while(written, WRITING, still));
        leave();
    });
    if begun.is_err() {
        leave();
    }
}

fn ask() {
    let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
    listeners.told += 1;
    listeners.all.iter().for_each(Listener::tell);
}

/// Ends the program, whatever its threads do. A terminal that accepts no more bytes is not
/// restored.
fn leave() -> ! {
    let (done, given_back) = mpsc::channel();
    let begun = thread::Builder::new().spawn(move || {
        give_terminal_back();
        let _ = done.send(());
    });
    if begun.is_ok() {
        let _ = given_back.recv_timeout(GIVING_BACK);
    }
    process::exit(INTERRUPTED)
}

/// Whether whoever began this program has SIGHUP ignored.
fn ignores_hang_up() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
    })
}

#[cfg(test)]
mod test {
    use super::*;

    /// Duration of the grace period in milliseconds, if each poll finds this state.
    fn lasts(gone: Duration, measures: bool, is_starved: bool) -> u128 {
        let mut grace = Grace::default();
        while !grace.is_over() {
            grace.count(gone, measures, || is_starved);
        }
        grace.waited.as_millis()
    }

    #[test]
    fn who_comes_after_the_signal_is_told_too() {
        let (before, after) = (Stop::default(), Stop::default());
        stop_on_signal(&before).unwrap();
        assert_eq!(before.asked(), 0);
        ask();
        stop_on_signal(&after).unwrap();
        let words = on_signal().unwrap();
        LISTENERS.lock().unwrap().told = 0;
        assert_eq!((before.asked(), after.asked()), (1, 1));
        assert_eq!(words.try_recv(), Ok(()));
    }

    #[test]
    fn only_a_run_that_lacks_a_processor_has_longer() {
        assert_eq!(lasts(LOOK, false, false), 1_700);
        assert_eq!(lasts(LOOK, false, true), 1_700);
        assert_eq!(lasts(LOOK, true, false), 1_700);
        assert_eq!(lasts(LOOK, true, true), 30_000);
        // This thread has no CPU, either.
        let late = Duration::from_millis(500);
        assert_eq!(lasts(late, true, false), 17_000);
        assert_eq!(lasts(late, false, false), 2_000);
    }
}
