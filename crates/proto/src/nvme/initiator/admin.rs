//! The admin queue of an association.

use block::{Done, Io, Nanos};

use crate::{Ending, Endpoint, Initiator, Outbox, Phase};

use super::{Association, NvmeInitiatorConfig};

/// The admin queue of an association: it connects, enables the controller, learns the shape of the
/// namespace, and keeps the association alive.
///
/// It is an [`Initiator`] without room for I/Os, so that whoever drives initiators can drive it,
/// and can use it alone to learn the shape of a volume. Closing shuts the controller down.
#[derive(Debug)]
pub struct NvmeAdmin {}

impl NvmeAdmin {
    /// An admin queue that connects at its first [`tick`](Endpoint::tick), due at once.
    pub fn new(config: NvmeInitiatorConfig, now: Nanos) -> NvmeAdmin {
        let _ = (config, now);
        todo!()
    }

    /// What was learned, once I/O queues may be opened.
    pub fn ready(&self) -> Option<&Association> {
        todo!()
    }
}

impl Endpoint for NvmeAdmin {
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

impl Initiator for NvmeAdmin {
    fn phase(&self) -> Phase {
        todo!()
    }

    fn room(&self) -> usize {
        0
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
