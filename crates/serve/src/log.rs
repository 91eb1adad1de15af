//! The log of a running server: few lines, whatever peers do.

use std::sync::Mutex;

use block::Nanos;

/// Maximum lines per second; further ones are counted.
const LINES_PER_SECOND: u32 = 10;
/// Maximum lines per second with those of connections: hosts come all at once after a restart.
const WITH_CONNECTIONS: u32 = 500;

/// Forwards lines for people, a limited number per second.
pub struct Log {
    write: Box<dyn Fn(&str) + Send + Sync>,
    /// Whether logins and ends of connections are logged.
    pub(crate) has_connections: bool,
    state: Mutex<LogState>,
}

#[derive(Default)]
struct LogState {
    second: u64,
    lines: u32,
    dropped: u64,
}

impl Log {
    /// A log that passes each line to `write`.
    pub fn new(write: impl Fn(&str) + Send + Sync + 'static) -> Log {
        Log { write: Box::new(write), has_connections: false, state: Mutex::default() }
    }

    /// Logs each login of a host and the end of its connection, too.
    #[must_use]
    pub fn with_connections(self, has_connections: bool) -> Log {
        Log { has_connections, ..self }
    }

    /// Logs `line`, unless this second has had its share. Not for the I/O path.
    pub(crate) fn say(&self, now: Nanos, line: &str) {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let second = now.0 / 1_000_000_000;
        if second != state.second {
            if state.dropped > 0 {
                (self.write)(&format!("{} more lines were suppressed", state.dropped));
            }
            *state = LogState { second, lines: 0, dropped: 0 };
        }
        let most = if self.has_connections { WITH_CONNECTIONS } else { LINES_PER_SECOND };
        if state.lines < most {
            state.lines += 1;
            (self.write)(line);
        } else {
            state.dropped += 1;
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn counts_what_it_leaves_out() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let log = Log::new(move |line| kept.lock().unwrap().push(line.to_owned()));
        (0..25).for_each(|i| log.say(Nanos(5), &format!("line {i}")));
        log.say(Nanos::from_secs(1), "next");
        let lines = lines.lock().unwrap();
        assert_eq!(lines.len(), 12);
        assert_eq!(lines[10], "15 more lines were suppressed");
        assert_eq!(lines[11], "next");
    }
}
