//! iSCSI.

use block::Nanos;
use proto::iscsi::{Discovery, InitiatorConfig, IscsiInitiator};
use proto::{Initiator, Outbox, Phase};

use super::keeper::Errand;
use super::{Dial, Learned, learn};
use crate::uri::{IscsiUri, Uri};
use crate::{OpenError, Session};

/// Our default name, for targets that log or allow initiators by name.
const INITIATOR_NAME: &str = "iqn.2026-11.io.drumfire:initiator";

impl IscsiUri {
    fn own_name(&self) -> &str {
        self.session.initiator.as_deref().unwrap_or(INITIATOR_NAME)
    }

    fn config(&self) -> InitiatorConfig {
        InitiatorConfig {
            header_digest: self.session.header_digest,
            data_digest: self.session.data_digest,
            max_outstanding: 1024,
            io_timeout: self.session.io_timeout(),
            ..InitiatorConfig::new(self.own_name(), &self.target, self.lun)
        }
    }
}

impl Dial for IscsiUri {
    type End = IscsiInitiator;
    type Place = ();

    fn learn(&self) -> Result<Learned, OpenError> {
        let begin = |now| IscsiInitiator::new(self.config(), now);
        let (learned, _leaves) = learn(&self.address, || self.uri(), begin)?;
        Ok(learned)
    }

    fn initiator(&self, now: Nanos) -> Result<(IscsiInitiator, ()), String> {
        Ok((IscsiInitiator::new(self.config(), now), ()))
    }

    fn session(&self) -> &Session {
        &self.session
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn uri(&self) -> String {
        Uri::Iscsi(self.clone()).to_string()
    }

    fn transport(&self) -> &'static str {
        "iSCSI"
    }
}

impl Errand for IscsiInitiator {
    type Found = Learned;

    fn found(&self) -> Option<Learned> {
        match self.phase() {
            Phase::Ready(geometry) => {
                let product = self.product().map(str::to_owned);
                Some(Learned { geometry, product, flushes_all: true })
            }
            Phase::Opening | Phase::Closing | Phase::Closed => None,
        }
    }

    fn leave(&mut self, now: Nanos, out: &mut Outbox) {
        self.close(now, out);
    }

    fn has_left(&self) -> bool {
        self.phase() == Phase::Closed
    }
}

impl Errand for Discovery {
    type Found = Vec<(String, Vec<String>)>;

    fn found(&self) -> Option<Self::Found> {
        self.targets()
    }

    fn leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // It logs out when it has the answer.
    }

    fn has_left(&self) -> bool {
        self.finished()
    }
}

/// Asks the portal at `address` for its targets: names with their addresses.
pub fn discover_iscsi(address: &str) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let begin = |now| Discovery::new(INITIATOR_NAME, now);
    let (targets, _leaves) = learn(address, || address.to_owned(), begin)?;
    Ok(targets)
}
