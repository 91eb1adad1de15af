//! NBD.

use block::{Allocation, Nanos};
use proto::nbd::{NbdConfig, NbdDiscovery, NbdInitiator};
use proto::{Initiator, Outbox, Phase};

use super::allocation::{Asking, LOGIN};
use super::keeper::Errand;
use super::{Dial, Learned, learn};
use crate::uri::{NbdUri, Uri};
use crate::{OpenError, Session};

impl NbdUri {
    fn config(&self) -> NbdConfig {
        NbdConfig {
            max_outstanding: 1024,
            io_timeout: self.session.io_timeout(),
            ..NbdConfig::new(&self.export)
        }
    }
}

impl Dial for NbdUri {
    type End = NbdInitiator;
    type Place = ();

    fn learn(&self) -> Result<Learned, OpenError> {
        let begin = |now| NbdInitiator::new(self.config(), now);
        let (learned, _leaves) = learn(&self.address, || self.uri(), begin)?;
        Ok(learned)
    }

    fn allocation(&self, ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        let config = NbdConfig { asks_allocation: true, login_timeout: LOGIN, ..self.config() };
        let begin = |now| Asking::new(NbdInitiator::new(config, now), ranges);
        let (told, _leaves) = learn(&self.address, || self.uri(), begin)?;
        Ok(told)
    }

    fn initiator(&self, now: Nanos, _: Option<u64>) -> Result<(NbdInitiator, ()), String> {
        Ok((NbdInitiator::new(self.config(), now), ()))
    }

    fn session(&self) -> &Session {
        &self.session
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn uri(&self) -> String {
        Uri::Nbd(self.clone()).to_string()
    }

    fn transport(&self) -> &'static str {
        "NBD"
    }
}

impl Errand for NbdInitiator {
    type Found = Learned;

    fn found(&self) -> Option<Learned> {
        match self.phase() {
            Phase::Ready(geometry) => {
                let product = self.product().map(str::to_owned);
                let backing = self.backing().cloned();
                let (flushes_all, identity) = (self.flushes_all(), self.identity());
                let (instance, odd_bytes) = (self.instance(), self.odd_bytes());
                Some(Learned {
                    geometry,
                    product,
                    backing,
                    flushes_all,
                    identity,
                    instance,
                    odd_bytes,
                })
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

impl Errand for NbdDiscovery {
    type Found = Vec<String>;

    fn found(&self) -> Option<Vec<String>> {
        self.exports()
    }

    fn leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // The errand ends the session when it has the answer.
    }

    fn has_left(&self) -> bool {
        self.finished()
    }
}

/// Asks the server at `address` for the names of its exports.
pub fn discover_nbd(address: &str) -> Result<Vec<String>, OpenError> {
    let (exports, _leaves) = learn(address, || address.to_owned(), NbdDiscovery::new)?;
    Ok(exports)
}
