//! An I/O queue of an association.

use block::{Done, Io, Nanos};

use crate::{Ending, Endpoint, Initiator, Outbox, Phase};

use super::{Association, NvmeInitiatorConfig};

/// An I/O queue of an association.
#[derive(Debug)]
pub struct NvmeQueue {}

impl NvmeQueue {
    /// Queue number `queue_id`, 1 to [`Association::queues`], which connects at its first
    /// [`tick`](Endpoint::tick), due at once. `config` is that of the admin queue.
    pub fn new(
        config: &NvmeInitiatorConfig,
        association: &Association,
        queue_id: u16,
        now: Nanos,
    ) -> NvmeQueue {
        let _ = (config, association, queue_id, now);
        todo!()
    }
}

impl Endpoint for NvmeQueue {
    fn receive(&mut self, _now: Nanos, _bytes: &[u8], _out: &mut Outbox) -> Result<(), Ending> {
        todo!()
    }

    fn deadline(&self) -> Option<Nanos> {
        todo!()
    }

    fn tick(&mut self, _now: Nanos, _out: &mut Outbox) -> Result<(), Ending> {
        todo!()
    }
}

impl Initiator for NvmeQueue {
    fn phase(&self) -> Phase {
        todo!()
    }

    fn room(&self) -> usize {
        todo!()
    }

    fn submit(&mut self, _now: Nanos, _io: Io, _out: &mut Outbox) {
        todo!()
    }

    fn done(&mut self) -> &mut Vec<Done> {
        todo!()
    }

    fn close(&mut self, _now: Nanos, _out: &mut Outbox) {
        todo!()
    }

    fn abandon(&mut self) {
        todo!()
    }
}
