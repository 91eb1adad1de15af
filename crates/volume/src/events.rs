//! Events of a volume, as lines for the user.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum retained lines.
const LINES_MAX: usize = 64;
/// Number of first lines, which are retained for ever: they describe the start.
const FIRST: usize = 16;

/// Lines for the log of a server, each reported once, and for the end of a run.
#[derive(Default)]
pub(crate) struct Events(Mutex<Lines>);

#[derive(Default)]
struct Lines {
    all: VecDeque<String>,
    /// Lines that were dropped to make room.
    dropped: u64,
    news: VecDeque<String>,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a line, unless it repeats the last one.
    pub(crate) fn say(&self, line: String) {
        let mut lines = self.lock();
        if lines.all.back() == Some(&line) {
            return;
        }
        if lines.all.len() == LINES_MAX {
            lines.all.remove(FIRST);
            lines.dropped += 1;
        }
        if lines.news.len() == LINES_MAX {
            lines.news.pop_front();
        }
        lines.all.push_back(line.clone());
        lines.news.push_back(line);
    }

    /// Lines since the last call.
    pub(crate) fn news(&self) -> Vec<String> {
        self.lock().news.drain(..).collect()
    }

    /// The first and the last lines, with the number of missing lines between them.
    pub(crate) fn all(&self) -> Vec<String> {
        let lines = self.lock();
        let mut all: Vec<String> = lines.all.iter().cloned().collect();
        if lines.dropped > 0 {
            all.insert(FIRST, format!("({} more events)", lines.dropped));
        }
        all
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_first_and_the_last_events_are_kept() {
        let events = Events::default();
        (0..100).for_each(|number| events.say(number.to_string()));
        events.say("99".to_owned());
        let all = events.all();
        assert_eq!((all.len(), all[0].as_str(), all[15].as_str()), (65, "0", "15"));
        assert_eq!((all[16].as_str(), all[64].as_str()), ("(36 more events)", "99"));
        let news = events.news();
        assert_eq!((news.len(), news[63].as_str()), (64, "99"));
        assert!(events.news().is_empty());
    }
}
