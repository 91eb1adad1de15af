//! No view at all.

use stats::live::Live;

/// Shows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Live for Silent {}
