//! One line per second, for pipes and plain terminals.

use std::io::Write;

use block::Rate;
use stats::live::{About, Action, Live, Snapshot};

/// Writes one line per second to a stream, usually stderr.
#[derive(Debug)]
pub struct Lines<W> {
    out: W,
}

impl<W: Write> Lines<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Lines<W> {
        Lines { out }
    }
}

impl<W: Write> Live for Lines<W> {
    fn start(&mut self, _about: &About) {}

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        // A reader that went away must not end the run.
        let _ = writeln!(self.out, "{}", line(snapshot));
        Action::Continue
    }

    fn end(&mut self) {}
}

/// The line for one second.
pub fn line(snapshot: &Snapshot) -> String {
    format!("{:>4.0}s  {} IOPS", snapshot.t_s, Rate(snapshot.iops))
}
