//! The full-screen view on a terminal.
//!
//! The view takes the terminal over and restores it: at the end, on drop, and on panic. The caller
//! makes sure that stdin and stderr are terminals; stdout stays free for the result.
//!
//! A separate thread draws and reads keys. A terminal that accepts no more output, as after a
//! broken connection, blocks the thread in a write, and the run continues without the view.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use stats::live::{About, Action, Live, Snapshot};

use crate::canvas::Canvas;
use crate::keys::{Gone, Key, Keys};
use crate::screen::{self, Scene};
use crate::style::Paint;

/// Whether the view has the terminal. One process has one terminal, and a panic on any thread must
/// restore it.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();
/// Settings of the terminal before the view changed them.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);
/// The alternate screen of xterm, and back to the other one with a cursor.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[0m\x1b[?1049l\x1b[?25h";
/// Poll interval for keys and new data.
const LOOK: Duration = Duration::from_millis(50);
/// Time limit for restoring a terminal; later output is not visible.
const GIVING_BACK: Duration = Duration::from_secs(1);
/// Columns and rows of a terminal that does not report them.
const USUAL_SIZE: (u16, u16) = (80, 24);

/// Request of the user to the whole program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// End: `q` or Ctrl-C, each time that it is pressed.
    Stop,
    /// The terminal is closed. Reported once.
    Gone,
}

/// The full-screen view. Keys: `q` or Ctrl-C stop the run, `p` holds the picture, `?` explains it.
pub struct FullScreen {
    desk: Arc<Desk>,
}

/// State that the drawing thread shares with the run.
#[derive(Default)]
struct Desk {
    state: Mutex<ViewState>,
    changed: Condvar,
}

#[derive(Default)]
struct ViewState {
    about: About,
    snapshot: Snapshot,
    paused: bool,
    help: bool,
    /// The picture does not show this state.
    stale: bool,
    /// Pending request to the drawing thread; `None` when it is done.
    order: Option<Order>,
    /// A request was not done in time: nothing waits for the thread any more.
    stuck: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Take,
    GiveBack,
    /// Gives it back and ends.
    End,
}

impl FullScreen {
    /// Takes over the terminal of stderr; `tell` receives the user's requests, from another thread.
    /// Fails if there is no terminal.
    pub fn open(paint: Paint, tell: impl Fn(Wish) + Send + 'static) -> io::Result<FullScreen> {
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_terminal_back();
                previous(info);
            }));
        });
        take()?;
        let desk = Arc::new(Desk::default());
        let shared = Arc::clone(&desk);
        let thread = std::thread::Builder::new().name("screen".to_owned());
        let mut painter =
            Painter { shown: None, paint, desk: shared, keys: Keys::default(), gone: false };
        let begun = thread.spawn(move || painter.go(&tell));
        begun.inspect_err(|_| give_terminal_back())?;
        Ok(FullScreen { desk })
    }

    /// Has the thread do something with the terminal, and waits until it is done.
    fn order(&self, order: Order) {
        let mut state = self.desk.state();
        state.order = Some(order);
        self.desk.changed.notify_all();
        if state.stuck {
            return;
        }
        let waits = |state: &mut ViewState| state.order.is_some();
        let waited = self.desk.changed.wait_timeout_while(state, GIVING_BACK, waits);
        let (mut state, outcome) = waited.unwrap_or_else(PoisonError::into_inner);
        state.stuck = outcome.timed_out();
    }
}

impl Live for FullScreen {
    fn start(&mut self, about: &About) {
        let mut state = self.desk.state();
        state.about = about.clone();
        state.snapshot = Snapshot::default();
        state.stale = true;
        // One view may show several runs, one after the other.
        state.order = Some(Order::Take);
        self.desk.changed.notify_all();
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        let mut state = self.desk.state();
        if !state.paused {
            state.snapshot.clone_from(snapshot);
            state.stale = true;
        }
        // `tell` has already reported the user's requests.
        Action::Continue
    }

    fn end(&mut self) {
        self.order(Order::GiveBack);
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        self.order(Order::End);
    }
}

impl std::fmt::Debug for FullScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FullScreen of {}", self.desk.state().about.job.name)
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, ViewState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that an order is carried out.
    fn done(&self, order: Order) {
        let mut state = self.state();
        if state.order == Some(order) {
            state.order = None;
            state.stuck = false;
        }
        self.changed.notify_all();
    }
}

/// The thread that draws.
struct Painter {
    /// Picture on the terminal, if the view has the terminal.
    shown: Option<Canvas>,
    paint: Paint,
    desk: Arc<Desk>,
    keys: Keys,
    /// The terminal is: nothing is drawn any more.
    gone: bool,
}

impl Painter {
    fn go(&mut self, tell: &dyn Fn(Wish)) {
        let mut size = size();
        loop {
            let order = self.desk.state().order;
            match order {
                Some(Order::Take) if !self.gone && !TAKEN.load(Ordering::SeqCst) => {
                    self.shown = None;
                    // A terminal that cannot be taken shows nothing.
                    let _ = take();
                }
                Some(Order::GiveBack | Order::End) => give_terminal_back(),
                Some(Order::Take) | None => {}
            }
            if let Some(order) = order {
                self.desk.done(order);
            }
            if order == Some(Order::End) {
                return;
            }
            if self.gone || !TAKEN.load(Ordering::SeqCst) {
                self.rest();
                continue;
            }
            let before = std::mem::replace(&mut size, self::size());
            self.draw(before != size);
            self.heed_keys(tell);
        }
    }

    /// Waits until there is something to do, without the terminal.
    fn rest(&self) {
        let state = self.desk.state();
        let idle = |state: &mut ViewState| state.order.is_none();
        drop(self.desk.changed.wait_while(state, idle));
    }

    fn draw(&mut self, resized: bool) {
        let mut state = self.desk.state();
        if !std::mem::take(&mut state.stale) && !resized {
            return;
        }
        let (about, snapshot) = (state.about.clone(), state.snapshot.clone());
        let (paused, help) = (state.paused, state.help);
        // A run does not wait for its picture.
        drop(state);
        let paint = self.paint;
        let scene = Scene { about: &about, snapshot: &snapshot, paused, help, paint };
        let (width, height) = size().unwrap_or(USUAL_SIZE);
        let mut canvas = Canvas::new(width, height);
        screen::draw(&mut canvas, &scene);
        // A terminal that went away is noticed where keys are read.
        let _ = write(&canvas.changes(self.shown.as_ref()));
        self.shown = Some(canvas);
    }

    fn heed_keys(&mut self, tell: &dyn Fn(Wish)) {
        match self.keys.listen(LOOK) {
            Err(Gone) => {
                self.gone = true;
                give_terminal_back();
                tell(Wish::Gone);
            }
            Ok(keys) => {
                for key in keys {
                    match key {
                        Key::Stop => tell(Wish::Stop),
                        Key::Hold => {
                            let mut state = self.desk.state();
                            state.paused = !state.paused;
                            state.stale = true;
                        }
                        Key::Help => {
                            let mut state = self.desk.state();
                            state.help = !state.help;
                            state.stale = true;
                        }
                    }
                }
            }
        }
    }
}

/// Columns and rows of the terminal, if it says them.
fn size() -> Option<(u16, u16)> {
    let size = tcgetwinsize(io::stderr()).ok()?;
    Some((size.ws_col, size.ws_row)).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

/// Writes to the terminal.
fn write(text: &str) -> io::Result<()> {
    let mut terminal = io::stderr().lock();
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

/// Takes the terminal, or leaves it as it was.
fn take() -> io::Result<()> {
    let before = tcgetattr(io::stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    TAKEN.store(true, Ordering::SeqCst);
    write(ENTER).inspect_err(|_| give_terminal_back())
}

/// Restores the terminal, once, for programs that end without an end of the view. Errors are
/// ignored: nothing can handle them here.
pub fn give_terminal_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
        }
        let _ = write(LEAVE);
    }
}
