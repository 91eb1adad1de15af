//! Source of challenges.

use std::fmt;
use std::sync::Arc;

/// Function that fills a slice.
type Fill = dyn Fn(&mut [u8]) + Send + Sync;

/// Source of unpredictable bytes: the kernel's, or that of a simulation.
#[derive(Clone)]
pub struct Chance(Arc<Fill>);

impl Chance {
    /// Creates a source from a function that fills a slice.
    pub fn new(fill: impl Fn(&mut [u8]) + Send + Sync + 'static) -> Chance {
        Chance(Arc::new(fill))
    }

    /// Draws `len` bytes.
    pub(crate) fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        (self.0)(&mut bytes);
        bytes
    }
}

impl fmt::Debug for Chance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Chance")
    }
}
