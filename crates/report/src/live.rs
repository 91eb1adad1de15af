//! The full-screen view on a terminal.
//!
//! It takes the terminal over and gives it back: at the end, on drop, and on panic. Whoever opens
//! it makes sure that stderr is a terminal; stdout stays free for the result.

use std::io::{self, Stderr};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use stats::live::{About, Action, Live, Snapshot};

use crate::screen::{self, Scene};
use crate::style::Paint;

/// Whether the terminal is ours. One process has one terminal, and a panic on any thread must
/// give it back.
static TAKEN: AtomicBool = AtomicBool::new(false);
static HOOK: Once = Once::new();

/// The full-screen view. Keys: `q` or Ctrl-C stop the run, `p` holds the picture.
pub struct FullScreen {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    about: About,
    snapshot: Snapshot,
    paused: bool,
    paint: Paint,
}

impl FullScreen {
    /// Takes the terminal of stderr over. Errors when it is none.
    pub fn open(paint: Paint) -> io::Result<FullScreen> {
        HOOK.call_once(|| {
            let previous = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |info| {
                give_back();
                previous(info);
            }));
        });
        take()?;
        let terminal = Terminal::new(CrosstermBackend::new(io::stderr()));
        let terminal = terminal.inspect_err(|_| give_back())?;
        let (about, snapshot) = (About::default(), Snapshot::default());
        Ok(FullScreen { terminal, about, snapshot, paused: false, paint })
    }

    fn draw(&mut self) {
        if !TAKEN.load(Ordering::SeqCst) {
            return;
        }
        let FullScreen { terminal, about, snapshot, paused, paint } = self;
        let scene = Scene { about, snapshot, paused: *paused, paint: *paint };
        // A terminal that went away must not end the run.
        let _ = terminal.draw(|frame| screen::draw(frame, &scene));
    }

    /// Answers the keys that were pressed since the last call.
    fn answer_keys(&mut self) -> Action {
        while TAKEN.load(Ordering::SeqCst) && event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(event) = event::read() else { break };
            match Wish::of(&event) {
                Wish::Stop => return Action::Stop,
                Wish::Hold => {
                    self.paused = !self.paused;
                    self.draw();
                }
                Wish::Redraw => self.draw(),
                Wish::Nothing => {}
            }
        }
        Action::Continue
    }
}

impl Live for FullScreen {
    fn start(&mut self, about: &About) {
        self.about = about.clone();
        self.snapshot = Snapshot::default();
        // One view may show several runs, one after the other.
        if !TAKEN.load(Ordering::SeqCst) && take().is_ok() {
            let _ = self.terminal.clear();
        }
        self.draw();
    }

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        if !self.paused {
            self.snapshot.clone_from(snapshot);
            self.draw();
        }
        self.answer_keys()
    }

    fn poll(&mut self) -> Action {
        self.answer_keys()
    }

    fn end(&mut self) {
        give_back();
    }
}

impl Drop for FullScreen {
    fn drop(&mut self) {
        give_back();
    }
}

impl std::fmt::Debug for FullScreen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FullScreen of {}", self.about.job.name)
    }
}

/// Takes the terminal, or leaves it as it was.
fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    execute!(io::stderr(), EnterAlternateScreen).inspect_err(|_| give_back())
}

/// Gives the terminal back, once. Nothing can be done about errors here.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(io::stderr(), LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// What a key or a change of the terminal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Stop,
    Hold,
    Redraw,
    Nothing,
}

impl Wish {
    fn of(event: &Event) -> Wish {
        match event {
            Event::Key(KeyEvent { kind: KeyEventKind::Release, .. }) => Wish::Nothing,
            Event::Key(KeyEvent { code: KeyCode::Char('q'), .. }) => Wish::Stop,
            // The terminal is raw, so Ctrl-C arrives as a key and not as a signal.
            Event::Key(KeyEvent { code: KeyCode::Char('c'), modifiers, .. })
                if modifiers.contains(KeyModifiers::CONTROL) =>
            {
                Wish::Stop
            }
            Event::Key(KeyEvent { code: KeyCode::Char('p'), .. }) => Wish::Hold,
            Event::Resize(..) => Wish::Redraw,
            _ => Wish::Nothing,
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn keys_mean_what_the_footer_says() {
        let key = |c, modifiers| Wish::of(&Event::Key(KeyEvent::new(KeyCode::Char(c), modifiers)));
        assert_eq!(key('q', KeyModifiers::NONE), Wish::Stop);
        assert_eq!(key('c', KeyModifiers::CONTROL), Wish::Stop);
        assert_eq!(key('c', KeyModifiers::NONE), Wish::Nothing);
        assert_eq!(key('p', KeyModifiers::NONE), Wish::Hold);
        assert_eq!(Wish::of(&Event::Resize(1, 1)), Wish::Redraw);
    }
}
