//! iSCSI.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use block::{Allocation, Nanos};
use proto::iscsi::{Discovery, InitiatorConfig, IscsiInitiator, Proof, new_isid};
use proto::{Initiator, Outbox, Phase};

use super::allocation::{Asking, LOGIN};
use super::keeper::Errand;
use super::{Dial, Learned, Place, REDIRECTS_MAX, learn};
use crate::uri::{IscsiUri, Uri};
use crate::{OpenError, Session, read_chap};

/// Our default name, for targets that log or allow initiators by name.
const INITIATOR_NAME: &str = "iqn.2026-11.io.drumfire:initiator";

impl IscsiUri {
    fn own_name(&self) -> &str {
        self.session.initiator.as_deref().unwrap_or(INITIATOR_NAME)
    }

    /// Settings of a session. The secrets are read anew, so that they can be changed.
    fn config(&self, only_md5: &Arc<AtomicBool>) -> Result<InitiatorConfig, String> {
        Ok(InitiatorConfig {
            proof: proof(self.session.chap.as_deref(), only_md5)?,
            header_digest: self.session.header_digest,
            data_digest: self.session.data_digest,
            max_outstanding: 1024,
            io_timeout: self.session.io_timeout(),
            ..InitiatorConfig::new(self.own_name(), &self.target, self.lun)
        })
    }
}

/// Secrets of a file, if there is one.
fn proof(path: Option<&Path>, only_md5: &Arc<AtomicBool>) -> Result<Option<Proof>, String> {
    let of = |path| Ok(Proof { chap: read_chap(path)?, only_md5: Arc::clone(only_md5) });
    path.map(of).transpose()
}

/// Asks again if the answer has made MD5 the only algorithm of CHAP.
fn with_md5<T>(
    only_md5: &AtomicBool,
    ask: impl Fn() -> Result<T, OpenError>,
) -> Result<T, OpenError> {
    let before = only_md5.load(Ordering::Acquire);
    let asked = ask();
    let again = asked.is_err() && !before && only_md5.load(Ordering::Acquire);
    if again { ask() } else { asked }
}

/// A logical unit, and the names of our sessions with it. A session takes the ISID of one that has
/// ended, if there is one: the target then ends what that one had in flight.
//= RFC 7143 §6.3.5: a login under the name of a session reinstates it.
#[derive(Clone)]
pub struct IscsiDial {
    uri: IscsiUri,
    free: Arc<Isids>,
    /// Whether the target has refused other algorithms of CHAP than MD5.
    only_md5: Arc<AtomicBool>,
}

/// ISIDs of sessions that have ended.
#[derive(Default)]
struct Isids(Mutex<Vec<[u8; 6]>>);

impl Isids {
    fn lock(&self) -> MutexGuard<'_, Vec<[u8; 6]>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IscsiDial {
    /// Dials a unit without earlier sessions.
    pub fn new(uri: IscsiUri) -> IscsiDial {
        IscsiDial { uri, free: Arc::default(), only_md5: Arc::default() }
    }

    /// Asks again at the address to which a target sends the login. The next question begins at our
    /// own address again: a group address spreads its sessions.
    fn follow<T>(&self, ask: impl Fn(&IscsiDial) -> Result<T, OpenError>) -> Result<T, OpenError> {
        let mut dial = self.clone();
        for _ in 0..REDIRECTS_MAX {
            match ask(&dial) {
                Err(OpenError::Moved { address, .. }) => dial.uri.address = address,
                answer => return answer,
            }
        }
        ask(&dial)
    }
}

/// ISID of a session, available to another one when this is dropped.
pub struct Isid {
    isid: [u8; 6],
    free: Arc<Isids>,
}

fn number(isid: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = isid;
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl Place for Isid {
    fn name(&self) -> u64 {
        number(self.isid)
    }
}

impl Drop for Isid {
    fn drop(&mut self) {
        self.free.lock().push(self.isid);
    }
}

impl Dial for IscsiDial {
    type End = IscsiInitiator;
    type Place = Isid;

    fn learn(&self) -> Result<Learned, OpenError> {
        self.follow(|dial| {
            with_md5(&dial.only_md5, || {
                let config = dial.uri.config(&dial.only_md5).map_err(OpenError::Secret)?;
                let begin = |now| IscsiInitiator::new(config, now);
                let (learned, _leaves) = learn(&dial.uri.address, || self.uri(), begin)?;
                Ok(learned)
            })
        })
    }

    fn allocation(&self, ranges: &[(u64, u64)]) -> Result<Option<Allocation>, OpenError> {
        self.follow(|dial| {
            let config = dial.uri.config(&dial.only_md5).map_err(OpenError::Secret)?;
            let config = InitiatorConfig { login_timeout: LOGIN, ..config };
            let begin = |now| Asking::new(IscsiInitiator::new(config, now), ranges);
            let (told, _leaves) = learn(&dial.uri.address, || self.uri(), begin)?;
            Ok(told)
        })
    }

    fn initiator(&self, now: Nanos, wanted: Option<u64>) -> Result<(IscsiInitiator, Isid), String> {
        let isid = {
            let mut free = self.free.lock();
            let at = free.iter().position(|isid| Some(number(*isid)) == wanted);
            at.map(|at| free.swap_remove(at)).or_else(|| free.pop())
        };
        let isid = isid.unwrap_or_else(|| new_isid(now));
        let fence = Some(number(isid)) == wanted;
        let place = Isid { isid, free: Arc::clone(&self.free) };
        let config = self.uri.config(&self.only_md5)?;
        let config = InitiatorConfig { isid: Some(isid), fence, ..config };
        Ok((IscsiInitiator::new(config, now), place))
    }

    fn moved_to(&self, address: &str) -> Option<IscsiDial> {
        let uri = IscsiUri { address: address.to_owned(), ..self.uri.clone() };
        Some(IscsiDial { uri, ..self.clone() })
    }

    fn session(&self) -> &Session {
        &self.uri.session
    }

    fn address(&self) -> &str {
        &self.uri.address
    }

    fn uri(&self) -> String {
        Uri::Iscsi(self.uri.clone()).to_string()
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
                let backing = self.backing().cloned();
                let (identity, instance) = (self.identity(), self.instance());
                let (flushes_all, odd_bytes) = (true, None);
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

impl Errand for Discovery {
    type Found = Vec<(String, Vec<String>)>;

    fn found(&self) -> Option<Self::Found> {
        self.targets()
    }

    fn leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // The errand logs out when it has the answer.
    }

    fn has_left(&self) -> bool {
        self.finished()
    }
}

/// Asks the portal at `address` for its targets: names with their addresses. `chap` is a file with
/// secrets that the portal may demand.
pub fn discover_iscsi(
    address: &str,
    chap: Option<&Path>,
) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let only_md5 = Arc::default();
    with_md5(&only_md5, || {
        let proof = proof(chap, &only_md5).map_err(OpenError::Secret)?;
        let begin = |now| Discovery::new(INITIATOR_NAME, now).proving(proof);
        let (targets, _leaves) = learn(address, || address.to_owned(), begin)?;
        Ok(targets)
    })
}
