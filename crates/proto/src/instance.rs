//! A number by which clients notice that a volatile cache is lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The instance of a unit: it differs from process to process, and after each failed flush. A client
/// that comes back after its connection was lost, and finds another number, knows that what it wrote
/// and did not flush may be gone, even if no flush of its own has failed.
///
/// Shared by all protocols that serve the unit.
#[derive(Clone, Debug)]
pub struct Instance(Arc<AtomicU64>);

impl Instance {
    /// Of a process that has drawn this number.
    pub fn new(drawn: u64) -> Instance {
        Instance(Arc::new(AtomicU64::new(drawn)))
    }

    /// The number now.
    pub fn number(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// A flush has failed.
    pub(crate) fn change(&self) {
        // Two at once may become one change: the number is another one in any case.
        let mut number = self.number();
        block::splitmix(&mut number);
        self.0.store(number, Ordering::Release);
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_loss_has_another_number() {
        let instance = Instance::new(7);
        let other = instance.clone();
        let mut seen = vec![instance.number()];
        for _ in 0..100 {
            instance.change();
            assert!(!seen.contains(&other.number()));
            seen.push(other.number());
        }
    }
}
