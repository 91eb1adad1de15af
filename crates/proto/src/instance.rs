//! What a failed flush means for everybody who wrote.
//!
//! A flush that fails may be the only word of writes that are lost, and it reaches one connection.
//! All others that use the unit have acknowledged writes, too: the next flush of each of them fails
//! as well, once. And clients that are away find another number when they come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use block::{Fault, Plant, planted};

use crate::UnitId;

/// The instances of a server's units.
#[derive(Clone, Debug)]
pub struct Instances {
    drawn: u64,
    /// Failed flushes of all units.
    losses: Arc<AtomicU64>,
}

/// The instance of a unit: a number that differs from process to process, and after each failed
/// flush. A client that comes back after its connection was lost, and finds another number, knows
/// that what it wrote and did not flush may be gone. Shared by all protocols that serve the unit.
#[derive(Clone, Debug)]
pub struct Instance {
    instances: Instances,
    /// The last failed flush of this unit, counted among all; zero: none.
    last: Arc<AtomicU64>,
}

/// Which failed flushes a connection knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownLosses {
    /// All up to this one,
    before: u64,
    /// and these of single units.
    of: Vec<(UnitId, u64)>,
}

impl Instances {
    /// Of a process that has drawn this number by chance.
    pub fn new(drawn: u64) -> Instances {
        Instances { drawn, losses: Arc::default() }
    }

    /// The instance of one more unit.
    pub fn unit(&self) -> Instance {
        Instance { instances: self.clone(), last: Arc::default() }
    }

    /// How many flushes have failed.
    pub(crate) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }
}

impl Instance {
    /// The number now.
    pub fn number(&self) -> u64 {
        let mut drawn = self.instances.drawn;
        let mut number = block::splitmix(&mut drawn) ^ self.last.load(Ordering::Acquire);
        block::splitmix(&mut number)
    }

    /// How many flushes of all units have failed.
    pub(crate) fn losses(&self) -> u64 {
        self.instances.losses()
    }

    /// A flush of the unit has completed, and nobody is left who would be told.
    #[cold]
    pub(crate) fn note_flush(&self, result: Result<(), Fault>) {
        if result.is_err_and(loses) {
            self.lose();
        }
    }

    /// Writes of the unit that were acknowledged may be lost: a flush has failed, or the way to the
    /// volume broke.
    #[cold]
    pub fn lose(&self) {
        let count = self.instances.losses.fetch_add(1, Ordering::AcqRel) + 1;
        self.last.fetch_max(count, Ordering::AcqRel);
    }
}

impl KnownLosses {
    /// What a connection knows that begins now, or that knew all up to `before`.
    pub(crate) fn up_to(before: u64) -> KnownLosses {
        KnownLosses { before, of: Vec::new() }
    }

    /// The result of a flush of a unit that has completed with `result`: it fails, too, if another
    /// flush of the unit has failed that this connection does not know of.
    #[inline]
    pub(crate) fn result_of_flush(
        &mut self,
        unit: UnitId,
        instance: Option<&Instance>,
        result: Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Some(instance) = instance else { return result };
        let last = instance.last.load(Ordering::Acquire);
        if result.is_ok() && last <= self.before {
            return result;
        }
        self.look_closer(unit, instance, result)
    }

    #[cold]
    fn look_closer(
        &mut self,
        unit: UnitId,
        instance: &Instance,
        result: Result<(), Fault>,
    ) -> Result<(), Fault> {
        if planted(Plant::ForgetFailedFlush) {
            return result;
        }
        instance.note_flush(result);
        let last = instance.last.load(Ordering::Acquire);
        let known = self.of.iter_mut().find(|(other, _)| *other == unit);
        let before = known.as_ref().map_or(self.before, |(_, before)| *before);
        match known {
            Some((_, known)) => *known = last,
            None => self.of.push((unit, last)),
        }
        if result.is_ok() && last > before { Err(Fault::Medium) } else { result }
    }
}

/// Whether a flush that failed so may be the only word of writes that are lost.
fn loses(fault: Fault) -> bool {
    match fault {
        Fault::Unsupported | Fault::Aborted => false,
        Fault::Medium
        | Fault::NoSpace
        | Fault::Disconnected
        | Fault::Unanswered
        | Fault::OutOfRange
        | Fault::ReadOnly
        | Fault::Miscompare => true,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const A: UnitId = UnitId(1);
    const B: UnitId = UnitId(2);

    #[test]
    fn each_process_and_each_loss_has_another_number() {
        let (one, other) = (Instances::new(7), Instances::new(8));
        let (unit, elsewhere) = (one.unit(), other.unit());
        let mut seen = vec![unit.number(), elsewhere.number()];
        for _ in 0..100 {
            unit.clone().lose();
            assert!(!seen.contains(&unit.number()));
            seen.push(unit.number());
        }
        assert_eq!((elsewhere.number(), one.losses(), other.losses()), (seen[1], 100, 0));
    }

    #[test]
    fn a_failed_flush_fails_one_more_of_every_other_connection() {
        let instances = Instances::new(7);
        let units = [instances.unit(), instances.unit()];
        let mut ends = [KnownLosses::up_to(0), KnownLosses::up_to(0), KnownLosses::up_to(0)];
        let mut flush = |end: usize, unit: UnitId, result| {
            let instance = &units[unit.0 as usize - 1];
            ends[end].result_of_flush(unit, Some(instance), result)
        };
        for end in [0, 1, 2] {
            assert_eq!(flush(end, A, Ok(())), Ok(()));
        }
        // What a client asked for wrongly concerns nobody.
        for fault in [Fault::Unsupported, Fault::Aborted] {
            assert_eq!(flush(0, A, Err(fault)), Err(fault));
            assert_eq!(flush(1, A, Ok(())), Ok(()));
        }
        assert_eq!(flush(0, A, Err(Fault::NoSpace)), Err(Fault::NoSpace));
        assert_eq!(flush(1, B, Ok(())), Ok(()), "another unit");
        assert_eq!(flush(0, A, Ok(())), Ok(()), "it knows");
        assert_eq!([flush(1, A, Ok(())), flush(1, A, Ok(()))], [Err(Fault::Medium), Ok(())]);
        // Two of them before the third one flushes.
        assert_eq!(flush(1, A, Err(Fault::Disconnected)), Err(Fault::Disconnected));
        assert_eq!(flush(1, B, Err(Fault::Medium)), Err(Fault::Medium));
        assert_eq!([flush(2, A, Ok(())), flush(2, A, Ok(()))], [Err(Fault::Medium), Ok(())]);
        assert_eq!([flush(2, B, Ok(())), flush(2, B, Ok(()))], [Err(Fault::Medium), Ok(())]);
        assert_eq!([flush(0, A, Ok(())), flush(0, A, Ok(()))], [Err(Fault::Medium), Ok(())]);
        // Who begins now has written nothing.
        let mut late = KnownLosses::up_to(instances.losses());
        assert_eq!(late.result_of_flush(A, Some(&units[0]), Ok(())), Ok(()));
        // Who comes back knows what it knew.
        let mut back = ends[0].clone();
        assert_eq!(back.result_of_flush(A, Some(&units[0]), Ok(())), Ok(()));
        units[0].lose();
        let mut back = ends[0].clone();
        assert_eq!(back.result_of_flush(A, Some(&units[0]), Ok(())), Err(Fault::Medium));
    }
}
