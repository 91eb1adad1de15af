//! NVMe/TCP: an association is an admin queue, kept alive here, and an I/O queue per lane.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::Nanos;
use proto::nvme::{Association, ControllerInstance, NvmeAdmin, NvmeInitiatorConfig, NvmeQueue};
use proto::{Initiator, Outbox, Phase};

use super::keeper::{Errand, Kept};
use super::{Dial, Learned, Place, learn, subsystems};
use crate::uri::{NvmeUri, Uri};
use crate::{OpenError, Session};

/// Our default NQN, for targets that log or allow hosts by name.
pub(super) const HOST_NQN: &str = "nqn.2026-11.io.drumfire:host";
/// I/O queues to ask for: as many as a volume may have lanes.
const QUEUES: u16 = 64;
/// I/Os in flight on a queue.
const QUEUE_DEPTH: u16 = 1023;

/// Owner of admin queues: a thread of the process, or a simulation.
pub trait Hold: Send + Sync + 'static {
    /// A held admin queue; dropping it ends the association.
    type Kept: Send + Sync + 'static;

    /// Connects an admin queue to a subsystem, and waits for its association.
    ///
    /// # Errors
    ///
    /// No association could be established.
    fn open(
        &self,
        uri: &NvmeUri,
        begin: &dyn Fn(Nanos) -> NvmeAdmin,
    ) -> Result<(Association, Self::Kept), OpenError>;

    /// Reason why an association ended, if it did.
    fn ended(kept: &Self::Kept) -> Option<String>;
}

/// The thread of connections without I/O.
pub struct ByThread;

impl Hold for ByThread {
    type Kept = Kept;

    fn open(
        &self,
        uri: &NvmeUri,
        begin: &dyn Fn(Nanos) -> NvmeAdmin,
    ) -> Result<(Association, Kept), OpenError> {
        learn(&uri.address, || Uri::Nvme(uri.clone()).to_string(), begin)
    }

    fn ended(kept: &Kept) -> Option<String> {
        kept.ended()
    }
}

/// A subsystem with an open association, shared by clones; the last one dropped ends it.
pub struct NvmeDial<H: Hold = ByThread>(Arc<Inner<H>>);

impl<H: Hold> Clone for NvmeDial<H> {
    fn clone(&self) -> NvmeDial<H> {
        NvmeDial(Arc::clone(&self.0))
    }
}

struct Inner<H: Hold> {
    uri: NvmeUri,
    config: NvmeInitiatorConfig,
    hold: H,
    open: Mutex<Arc<Open<H>>>,
    /// Held while a new association is opened, which takes longer than a core may wait.
    renewing: Mutex<()>,
}

/// An association.
struct Open<H: Hold> {
    association: Association,
    /// Number among the associations of this volume, from 0.
    number: u64,
    /// Ids of unused queues, the longest unused first: the controller may still be deleting the
    /// last.
    free_queues: Mutex<VecDeque<u16>>,
    /// Admin queue that keeps the association alive; dropping the queue ends the association.
    admin: H::Kept,
}

impl NvmeDial {
    /// Connects the admin queue and identifies the namespace. With the discovery NQN it opens the
    /// only subsystem that the portal lists.
    pub(crate) fn open(uri: &NvmeUri) -> Result<NvmeDial, OpenError> {
        if uri.subsystem == NvmeUri::ONLY_SUBSYSTEM {
            return NvmeDial::held_by(ByThread, &subsystems::only_one(uri)?);
        }
        NvmeDial::held_by(ByThread, uri)
    }
}

impl<H: Hold> NvmeDial<H> {
    /// Dials a subsystem by its name, with the admin queues kept by `hold`.
    ///
    /// # Errors
    ///
    /// There is no association.
    pub fn held_by(hold: H, uri: &NvmeUri) -> Result<NvmeDial<H>, OpenError> {
        let host_nqn = uri.session.initiator.as_deref().unwrap_or(HOST_NQN);
        let config = NvmeInitiatorConfig {
            header_digest: uri.session.header_digest,
            data_digest: uri.session.data_digest,
            queues: QUEUES,
            queue_depth: QUEUE_DEPTH,
            io_timeout: uri.session.io_timeout(),
            ..NvmeInitiatorConfig::new(host_nqn, host_id(), &uri.subsystem, uri.nsid)
        };
        let open = Mutex::new(Arc::new(Open::new(&hold, uri, &config, None)?));
        let inner = Inner { uri: uri.clone(), config, hold, open, renewing: Mutex::new(()) };
        Ok(NvmeDial(Arc::new(inner)))
    }
}

impl<H: Hold> Inner<H> {
    fn open(&self) -> MutexGuard<'_, Arc<Open<H>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Hold> Open<H> {
    /// Creates an association. `old` is the association that it replaces: its controller is reset,
    /// so that no more of its commands are executed.
    fn new(
        hold: &H,
        uri: &NvmeUri,
        config: &NvmeInitiatorConfig,
        old: Option<&Open<H>>,
    ) -> Result<Open<H>, OpenError> {
        let before: Option<ControllerInstance> = old.map(|old| old.association.controller);
        let begin = |now| {
            let admin = NvmeAdmin::new(config, now);
            before.map_or_else(|| NvmeAdmin::new(config, now), |old| admin.replacing(old))
        };
        let (association, admin) = hold.open(uri, &begin)?;
        let free_queues = Mutex::new((1..=association.queues).collect());
        let number = old.map_or(0, |old| old.number + 1);
        Ok(Open { association, number, free_queues, admin })
    }

    fn free_queues(&self) -> MutexGuard<'_, VecDeque<u16>> {
        self.free_queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Host identifier of all associations of this process.
pub(super) fn host_id() -> [u8; 16] {
    let mut id = *b"drumfire\0\0\0\0\0\0\0\x01";
    id[8..12].copy_from_slice(&std::process::id().to_be_bytes());
    id
}

impl<H: Hold> Dial for NvmeDial<H> {
    type End = NvmeQueue;
    type Place = QueueNumber<H>;

    fn learn(&self) -> Result<Learned, OpenError> {
        let association = &self.0.open().association;
        let product = Some(association.model.clone()).filter(|model| !model.is_empty());
        let (identity, instance) = (association.identity.clone(), association.instance);
        let (geometry, backing) = (association.geometry, association.backing.clone());
        let (flushes_all, odd_bytes) = (true, None);
        Ok(Learned { geometry, product, backing, flushes_all, identity, instance, odd_bytes })
    }

    fn initiator(
        &self,
        now: Nanos,
        wanted: Option<u64>,
    ) -> Result<(NvmeQueue, QueueNumber<H>), String> {
        let open = Arc::clone(&self.0.open());
        if let Some(why) = H::ended(&open.admin) {
            return Err(why);
        }
        let queues = open.association.queues;
        let number = {
            let mut free = open.free_queues();
            let is_wanted = |number: &u16| Some(name(&open, *number)) == wanted;
            let at = free.iter().position(is_wanted).unwrap_or(0);
            free.remove(at)
        };
        let number = number.ok_or_else(|| format!("the controller allows {queues} I/O queues"))?;
        let end = NvmeQueue::new(&self.0.config, &open.association, number, now);
        Ok((end, QueueNumber { open, number }))
    }

    fn stale(&self) -> Option<String> {
        H::ended(&self.0.open().admin)
    }

    /// Opens a new association if the old one has ended. A volume's lanes fail together: the first
    /// caller opens it, the others wait.
    fn renew(&self) -> Result<(), OpenError> {
        let _renewing = self.0.renewing.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stale().is_some() {
            let old = Arc::clone(&self.0.open());
            let fresh = Open::new(&self.0.hold, &self.0.uri, &self.0.config, Some(&old))?;
            let fresh = Arc::new(fresh);
            drop(old);
            let stale = std::mem::replace(&mut *self.0.open(), fresh);
            // Ended here, not under the lock.
            drop(stale);
        }
        Ok(())
    }

    fn session(&self) -> &Session {
        &self.0.uri.session
    }

    fn address(&self) -> &str {
        &self.0.uri.address
    }

    fn uri(&self) -> String {
        Uri::Nvme(self.0.uri.clone()).to_string()
    }

    fn transport(&self) -> &'static str {
        "NVMe/TCP"
    }
}

/// A queue id, free for another lane when this is dropped.
pub struct QueueNumber<H: Hold> {
    open: Arc<Open<H>>,
    number: u16,
}

/// The name of a queue: association and number.
fn name<H: Hold>(open: &Open<H>, number: u16) -> u64 {
    open.number << 16 | u64::from(number)
}

impl<H: Hold> Place for QueueNumber<H> {
    fn name(&self) -> u64 {
        name(&self.open, self.number)
    }

    /// A controller accepts a queue only when the previous one with its number is finished; and an
    /// association confirms the end of all queues of the controllers that it has replaced.
    fn concerns(&self, name: u64) -> bool {
        name == self.name() || name >> 16 < self.open.number
    }
}

impl<H: Hold> Drop for QueueNumber<H> {
    fn drop(&mut self) {
        self.open.free_queues().push_back(self.number);
    }
}

impl Errand for NvmeAdmin {
    type Found = Association;

    fn found(&self) -> Option<Association> {
        self.ready().cloned()
    }

    fn leave(&mut self, now: Nanos, out: &mut Outbox) {
        self.close(now, out);
    }

    fn has_left(&self) -> bool {
        self.phase() == Phase::Closed
    }
}
