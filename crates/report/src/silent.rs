//! No view at all.

use stats::live::{About, Action, Live, Snapshot};

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Live for Silent {
    fn start(&mut self, _about: &About) {}

    fn update(&mut self, _snapshot: &Snapshot) -> Action {
        Action::Continue
    }

    fn end(&mut self) {}
}
