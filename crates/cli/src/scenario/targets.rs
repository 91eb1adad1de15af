//! Targets of a step: one host, or several, each with its own network namespace if this machine
//! allows it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use block::Nanos;

use super::file::Step;
use super::network::{ALONE, Network};
use super::processes::Server;
use crate::bench::Failed;
use crate::braces::{expand, fill};

/// Listen address of hosts with their own namespace.
const ANY: &str = "0.0.0.0";
const LOOPBACK: &str = "127.0.0.1";

/// Targets of a step.
pub struct Targets {
    servers: Vec<Server>,
    /// Portals by the name of a protocol, and by that and the number of the host, as `iscsi-2`.
    pub portals: BTreeMap<String, String>,
    network: Option<Network>,
    /// Description of the network, for a step with several hosts.
    pub about: Option<String>,
}

impl Targets {
    /// Starts the targets of a step, if it has any.
    pub fn start(step: &Step, work: &Path) -> Result<Option<Targets>> {
        if step.serve.is_empty() {
            return Ok(None);
        }
        let (network, about) = match (step.hosts, step.wire_bits) {
            (1, None) => (None, None),
            (hosts, wire) => match Network::new(wire) {
                Ok(network) => {
                    let each = format!("{hosts} hosts, each in its own network namespace");
                    (Some(network), Some(each))
                }
                Err(why) if wire.is_some() => return Err(Failed(why).into()),
                Err(why) => (None, Some(format!("{hosts} targets on loopback: {why}"))),
            },
        };
        let alone = ALONE.map(str::to_owned);
        let (by, address) = match network {
            Some(_) => (&alone[..], ANY),
            None => (&[][..], LOOPBACK),
        };
        let mut targets = Targets { servers: Vec::new(), portals: BTreeMap::new(), network, about };
        for host in 1..=step.hosts {
            let words = [("host", host.to_string()), ("address", address.to_owned())];
            let words = words.map(|(name, word)| (name.to_owned(), word)).into();
            let args: Vec<String> =
                step.serve.iter().flat_map(|word| expand(&fill(word, &words))).collect();
            let server = Server::start(&args, work, by)?;
            let network = targets.network.as_ref();
            let there = network.map(|network| network.connect(server.id(), host)).transpose();
            let there = there.map_err(Failed)?;
            for (name, portals) in &server.portals {
                for (number, portal) in (1..).zip(portals) {
                    let portal = match &there {
                        Some(there) => portal.replacen(ANY, there, 1),
                        None => portal.clone(),
                    };
                    let of = format!("{name}-{host}");
                    let first = [of.clone(), name.clone()].map(|of| (of, portal.clone()));
                    let each = [of, name.clone()].map(|of| (format!("{of}:{number}"), &portal));
                    for (word, portal) in each.into_iter().map(|(w, p)| (w, p.clone())).chain(first)
                    {
                        targets.portals.entry(word).or_insert(portal);
                    }
                }
            }
            targets.servers.push(server);
        }
        Ok(Some(targets))
    }

    /// Command prefix for the clients.
    pub fn driving(&self) -> Vec<String> {
        self.network.as_ref().map_or_else(Vec::new, |network| network.driving().to_vec())
    }

    /// Processor time of all so far.
    pub fn processor_time(&self) -> Option<Nanos> {
        let each = self.servers.iter().map(|server| Some(server.processor_time()?.0));
        each.sum::<Option<u64>>().map(Nanos)
    }
}
