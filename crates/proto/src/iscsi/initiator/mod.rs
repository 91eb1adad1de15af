//! The end that asks: makes a volume out of a logical unit elsewhere.

use block::{Done, Io, Nanos};

use crate::{Ending, Endpoint, Initiator, Outbox, Phase};

/// Whom to ask and how.
#[derive(Clone, Debug)]
pub struct InitiatorConfig {
    /// Our name.
    pub initiator_name: String,
    /// The target's name.
    pub target_name: String,
    /// Which logical unit.
    pub lun: u16,
    /// Protect headers by CRC-32C; the login is refused by a target that cannot.
    pub header_digest: bool,
    /// Protect data by CRC-32C; the login is refused by a target that cannot.
    pub data_digest: bool,
    /// I/Os under way at most, 1 to 4096.
    pub max_outstanding: u16,
    /// How long login and the first questions may take.
    pub login_timeout: Nanos,
    /// A target that was silent for so long is pinged.
    pub nop_interval: Nanos,
    /// A ping unanswered for so long ends the connection.
    pub nop_timeout: Nanos,
}

impl InitiatorConfig {
    /// The usual settings: no digests, 128 outstanding, 15 s for the login, pings after 5 s.
    pub fn new(initiator_name: &str, target_name: &str, lun: u16) -> InitiatorConfig {
        InitiatorConfig {
            initiator_name: initiator_name.to_owned(),
            target_name: target_name.to_owned(),
            lun,
            header_digest: false,
            data_digest: false,
            max_outstanding: 128,
            login_timeout: Nanos::from_secs(15),
            nop_interval: Nanos::from_secs(5),
            nop_timeout: Nanos::from_secs(10),
        }
    }
}

/// One session of one connection with one logical unit.
#[derive(Debug)]
pub struct IscsiInitiator {}

impl IscsiInitiator {
    /// A session that logs in at its first [`tick`](Endpoint::tick), due at once.
    pub fn new(config: InitiatorConfig, now: Nanos) -> IscsiInitiator {
        let _ = (config, now);
        todo!()
    }
}

impl Endpoint for IscsiInitiator {
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

impl Initiator for IscsiInitiator {
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
