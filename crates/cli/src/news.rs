//! News of volumes in use: an array continues without a leg, which must be replaced before the next
//! one fails; a schedule of faults was changed.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Result;
use volume::Volume;

use crate::output::note;

/// Interval at which volumes are polled.
const SECOND: Duration = Duration::from_secs(1);

/// Reporter of news until it is dropped.
pub struct News {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl News {
    /// Watches the volumes of each second, each with the prefix of its lines.
    pub fn of(
        volumes: impl Fn() -> Vec<(String, Arc<dyn Volume>)> + Send + 'static,
    ) -> Result<News> {
        let (end, ended) = mpsc::channel::<()>();
        let body = move || {
            loop {
                let goes_on = ended.recv_timeout(SECOND) == Err(RecvTimeoutError::Timeout);
                for (name, volume) in &volumes() {
                    for line in volume.news() {
                        // A lone volume names itself, too.
                        let event = line.strip_prefix(name.as_str()).unwrap_or(&line);
                        let event = event.strip_prefix(": ").unwrap_or(event);
                        note(format_args!("drumfire: {name}: {event}"));
                    }
                }
                if !goes_on {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("news".to_owned()).spawn(body)?;
        Ok(News { end: Some(end), thread: Some(thread) })
    }
}

impl Drop for News {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}
