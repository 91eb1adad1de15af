//! Asks a portal which targets it has.

use block::Nanos;

use crate::{Ending, Endpoint, Outbox};

/// A discovery session that asks `SendTargets=All` and logs out.
#[derive(Debug)]
pub struct Discovery;

impl Discovery {
    /// A session that logs in at its first [`tick`](Endpoint::tick), due at once.
    pub fn new(initiator_name: &str, now: Nanos) -> Discovery {
        let _ = (initiator_name, now);
        todo!()
    }

    /// The answer, once it is complete: names of targets with their addresses, such as
    /// `192.0.2.1:3260,1`.
    pub fn targets(&self) -> Option<Vec<(String, Vec<String>)>> {
        todo!()
    }
}

impl Endpoint for Discovery {
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
