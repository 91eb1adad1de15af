//! iSCSI.

use block::{Geometry, Nanos};
use os::Clock;
use proto::iscsi::{Discovery, InitiatorConfig, IscsiInitiator};
use proto::{Initiator, Phase};

use super::wire::Wire;
use super::{Dial, connect, connect_error};
use crate::OpenError;
use crate::uri::{IscsiUri, Uri};

/// Our own name, for targets that log or allow initiators by name.
const INITIATOR_NAME: &str = "iqn.2026-11.io.drumfire:initiator";

impl Dial for IscsiUri {
    type End = IscsiInitiator;
    type Place = ();

    fn geometry(&self) -> Result<Geometry, OpenError> {
        learn_geometry(self)
    }

    fn initiator(&self, now: Nanos) -> Result<(IscsiInitiator, ()), String> {
        let config = InitiatorConfig {
            header_digest: self.header_digest,
            data_digest: self.data_digest,
            max_outstanding: 1024,
            ..InitiatorConfig::new(INITIATOR_NAME, &self.target, self.lun)
        };
        Ok((IscsiInitiator::new(config, now), ()))
    }

    fn renew(&self) -> Result<(), OpenError> {
        Ok(())
    }

    fn patience(&self) -> Option<Nanos> {
        self.reconnect_seconds.map(|seconds| Nanos::from_secs(seconds.into()))
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

/// Opens a connection, asks for the shape of the volume, and closes it in order.
fn learn_geometry(dial: &IscsiUri) -> Result<Geometry, OpenError> {
    let stream = connect(dial.address())?;
    let clock = Clock::get();
    let refused = |ending: String| OpenError::Refused { uri: dial.uri(), ending };
    let (mut end, ()) = dial.initiator(clock.now()).map_err(refused)?;
    let mut wire = Wire::new(stream, None).map_err(|error| connect_error(dial.address(), error))?;
    let mut geometry = None;
    loop {
        match end.phase() {
            Phase::Ready(shape) => {
                geometry = Some(shape);
                end.close(clock.now(), &mut wire.out);
            }
            Phase::Closed => break,
            Phase::Opening | Phase::Closing => {}
        }
        if let Err(why) = wire.step(&mut end, clock) {
            // Once the shape is known, an end without farewell does no harm.
            if geometry.is_none() {
                return Err(refused(why));
            }
            break;
        }
    }
    geometry.ok_or_else(|| refused("closed by the other end".to_owned()))
}

/// Asks the portal at `address` which targets it has: their names with their addresses.
pub fn discover_iscsi(address: &str) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let clock = Clock::get();
    let mut wire =
        Wire::new(connect(address)?, None).map_err(|error| connect_error(address, error))?;
    let mut end = Discovery::new(INITIATOR_NAME, clock.now());
    loop {
        let result = wire.step(&mut end, clock);
        if let Some(targets) = end.targets() {
            return Ok(targets);
        }
        result.map_err(|ending| OpenError::Refused { uri: address.to_owned(), ending })?;
    }
}
