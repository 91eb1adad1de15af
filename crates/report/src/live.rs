//! The full-screen view.

use std::io;

use stats::live::{About, Action, Live, Snapshot};

/// The full-screen view on the terminal of stderr.
#[derive(Debug)]
pub struct FullScreen {}

impl FullScreen {
    /// Takes the terminal over; gives it back on drop and on panic.
    pub fn open() -> io::Result<FullScreen> {
        Ok(FullScreen {})
    }
}

impl Live for FullScreen {
    fn start(&mut self, _about: &About) {}

    fn update(&mut self, _snapshot: &Snapshot) -> Action {
        Action::Continue
    }

    fn end(&mut self) {}
}
