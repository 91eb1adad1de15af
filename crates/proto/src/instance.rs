//! Failed flushes, and all clients whose writes they may have lost.
//!
//! A failed flush may be the only sign of lost writes, and its answer reaches one connection. All
//! other clients of the unit have acknowledged writes, too: their next flush also fails, once each.
//! Clients that are disconnected find another instance number when they reconnect.

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
/// flush. A client that reconnects and finds another number knows that its unflushed writes may be
/// lost. All protocols that serve the unit share this number.
#[derive(Clone, Debug)]
pub struct Instance {
    instances: Instances,
    /// The last failed flush of this unit, counted among all; zero: none.
    last: Arc<AtomicU64>,
}

/// Failed flushes that a client knows of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownLosses {
    /// All up to this one, unless `of` says more of the unit.
    before: u64,
    of: Vec<Known>,
}

/// Failed flushes of one unit that a client knows about.
///
/// An answer that was sent may be lost with its connection. So a client gets the report again after
/// it reconnects, until it has closed a connection in order ([`KnownLosses::confirm`]), or has had
/// [`TELLINGS_MAX`] reports.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    unit: UnitId,
    /// Last loss that the client has confirmed, with all before it.
    confirmed: u64,
    /// Last loss that an answer reported.
    told: u64,
    /// Whether an answer on this connection reported it.
    told_here: bool,
    /// Number of earlier connections that were lost after such an answer.
    tellings: u32,
}

/// Maximum number of reports, on as many connections. After these a client counts as informed, even
/// if it never closes a connection in order.
const TELLINGS_MAX: u32 = 4;

impl Instances {
    /// Instances of a process that has drawn this number by chance.
    pub fn new(drawn: u64) -> Instances {
        Instances { drawn, losses: Arc::default() }
    }

    /// The instance of one more unit.
    pub fn unit(&self) -> Instance {
        Instance { instances: self.clone(), last: Arc::default() }
    }

    /// Number of failed flushes.
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

    /// Number of failed flushes of all units.
    pub(crate) fn losses(&self) -> u64 {
        self.instances.losses()
    }

    /// Notes that a flush of the unit has completed and no client is left for the report.
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
    /// The knowledge of a client that begins now, or that knew all up to `before`.
    pub(crate) fn up_to(before: u64) -> KnownLosses {
        KnownLosses { before, of: Vec::new() }
    }

    /// The result of a flush of a unit that has completed with `result`: it fails, too, if another
    /// flush of the unit has failed that this client does not know of.
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
        if last <= self.of_unit(unit) {
            return result;
        }
        let at = self.of.iter().position(|known| known.unit == unit);
        let at = at.unwrap_or_else(|| {
            self.of.push(self.known(unit));
            self.of.len() - 1
        });
        let known = &mut self.of[at];
        if last > known.told {
            known.tellings = 0;
        }
        (known.told, known.told_here) = (last, true);
        result.and(Err(Fault::Medium))
    }

    /// The last failed flush of a unit that the client knows of.
    fn of_unit(&self, unit: UnitId) -> u64 {
        let known = self.known(unit);
        if known.told_here { known.told } else { known.confirmed }
    }

    /// The client ends its connection in order: it has seen all answers.
    pub(crate) fn confirm(&mut self) {
        for known in &mut self.of {
            (known.confirmed, known.told_here) = (known.told, false);
        }
    }

    /// Returns the failed flushes that the client certainly knows about when it reconnects. `twin`:
    /// those of another client with the same name.
    pub(crate) fn when_back(&self, twin: Option<&KnownLosses>) -> KnownLosses {
        let twins = twin.into_iter().flat_map(|twin| &twin.of);
        let mut of: Vec<Known> = Vec::new();
        for unit in self.of.iter().chain(twins).map(|known| known.unit) {
            if of.iter().all(|known| known.unit != unit) {
                of.push(self.known(unit).when_back(twin.map(|twin| twin.known(unit))));
            }
        }
        let before = twin.map_or(self.before, |twin| twin.before.min(self.before));
        KnownLosses { before, of }
    }

    /// Returns the losses known to all queues of this client: a loss that had enough reports on all
    /// queues together counts as known.
    pub(crate) fn with_queues<'a>(
        mut self,
        queues: impl Iterator<Item = &'a KnownLosses> + Clone,
    ) -> KnownLosses {
        let units = queues.clone().flat_map(|queue| &queue.of).map(|known| known.unit);
        for unit in units.collect::<std::collections::BTreeSet<_>>() {
            let all = queues.clone().map(|queue| queue.known(unit));
            let told = all.clone().map(|known| known.told).max().unwrap_or(0);
            let tellings: u32 =
                all.filter(|known| known.told == told).map(|known| known.tellings).sum();
            if tellings >= TELLINGS_MAX {
                self.of.retain(|known| known.unit != unit);
                let (confirmed, told_here) = (told, false);
                self.of.push(Known { unit, confirmed, told, told_here, tellings });
            }
        }
        self
    }

    fn known(&self, unit: UnitId) -> Known {
        let known = self.of.iter().find(|known| known.unit == unit).cloned();
        let (confirmed, told) = (self.before, self.before);
        known.unwrap_or(Known { unit, confirmed, told, told_here: false, tellings: 0 })
    }
}

impl Known {
    fn when_back(self, twin: Option<Known>) -> Known {
        let twin = twin.as_ref().unwrap_or(&self);
        let (told, mut confirmed) = (self.told.max(twin.told), self.confirmed.min(twin.confirmed));
        let tellings = if twin.told == told { twin.tellings } else { self.tellings };
        let tellings = tellings + u32::from(self.told_here && self.told == told);
        if tellings >= TELLINGS_MAX {
            confirmed = told;
        }
        Known { unit: self.unit, confirmed, told, told_here: false, tellings }
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
        // An invalid request of a client does not affect other clients.
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
        // A client that begins now has written nothing.
        let mut late = KnownLosses::up_to(instances.losses());
        assert_eq!(late.result_of_flush(A, Some(&units[0]), Ok(())), Ok(()));
        // A client that reconnects has kept its knowledge.
        ends[0].confirm();
        let mut back = ends[0].when_back(None);
        assert_eq!(back.result_of_flush(A, Some(&units[0]), Ok(())), Ok(()));
        units[0].lose();
        let mut back = ends[0].when_back(None);
        assert_eq!(back.result_of_flush(A, Some(&units[0]), Ok(())), Err(Fault::Medium));
    }

    #[test]
    fn who_may_not_have_seen_an_answer_is_told_again() {
        let unit = Instances::new(7).unit();
        let mut client = KnownLosses::up_to(0);
        let flush = |client: &mut KnownLosses| client.result_of_flush(A, Some(&unit), Ok(()));
        unit.lose();
        for _ in 0..TELLINGS_MAX {
            assert_eq!([flush(&mut client), flush(&mut client)], [Err(Fault::Medium), Ok(())]);
            client = client.when_back(None);
        }
        // The client never closes a connection in order: the reports end nevertheless.
        assert_eq!(flush(&mut client), Ok(()));
        unit.lose();
        assert_eq!(flush(&mut client), Err(Fault::Medium));
        client = client.when_back(None);
        assert_eq!(flush(&mut client), Err(Fault::Medium), "another one counts anew");
        client.confirm();
        assert_eq!(flush(&mut client.when_back(None)), Ok(()));
    }

    #[test]
    fn a_client_that_was_told_on_several_queues_is_not_told_on_each_of_many_more() {
        let unit = Instances::new(7).unit();
        let flush = |queue: &mut KnownLosses| queue.result_of_flush(A, Some(&unit), Ok(()));
        unit.lose();
        let mut gone: Vec<KnownLosses> = (0..64).map(|_| KnownLosses::up_to(0)).collect();
        for told in 0..TELLINGS_MAX as usize {
            let mut queue = gone[told].clone().with_queues(gone.iter());
            assert_eq!([flush(&mut queue), flush(&mut queue)], [Err(Fault::Medium), Ok(())]);
            gone[told] = queue.when_back(None);
        }
        let back =
            |gone: &Vec<KnownLosses>, number: usize| gone[number].clone().with_queues(gone.iter());
        assert_eq!([0, 63].map(|number| flush(&mut back(&gone, number))), [Ok(()); 2]);
        unit.lose();
        assert_eq!([0, 63].map(|number| flush(&mut back(&gone, number))), [Err(Fault::Medium); 2]);
    }

    #[test]
    fn of_two_clients_of_one_name_the_one_that_knows_less_is_told() {
        let unit = Instances::new(7).unit();
        let (mut one, other) = (KnownLosses::up_to(0), KnownLosses::up_to(0));
        unit.lose();
        let flush = |client: &mut KnownLosses| client.result_of_flush(A, Some(&unit), Ok(()));
        assert_eq!(flush(&mut one), Err(Fault::Medium));
        one.confirm();
        let late = KnownLosses::up_to(1);
        for (a, b) in [(&one, &other), (&other, &one), (&other, &late), (&late, &other)] {
            assert_eq!(flush(&mut a.when_back(Some(b))), Err(Fault::Medium));
        }
        for (a, b) in [(&one, &late), (&late, &one), (&one, &one)] {
            assert_eq!(flush(&mut a.when_back(Some(b))), Ok(()));
        }
    }
}
