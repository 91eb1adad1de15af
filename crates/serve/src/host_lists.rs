//! Hosts that may use a volume, over each protocol.
//!
//! A volume named in any list is meant to be restricted: over a protocol without a list for the
//! volume, no host may use it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use proto::iscsi::Chap;

use crate::config::{Export, ServeConfig};
use crate::protocol::Protocol;
use crate::server::ServeError;

/// Lists of hosts. A volume that no list names is open to all hosts.
#[derive(Clone, Debug, Default)]
pub struct HostLists {
    /// NQNs of hosts, by subsystem.
    pub nvme: BTreeMap<String, Vec<String>>,
    /// Addresses of initiators, by iSCSI target.
    pub iscsi: BTreeMap<String, Vec<Network>>,
    /// Addresses of clients over NBD, by iSCSI target.
    pub nbd: BTreeMap<String, Vec<Network>>,
    /// Secrets that initiators have to prove, by iSCSI target.
    pub chap: BTreeMap<String, Chap>,
    /// Secrets that a discovery session has to prove.
    pub discovery_chap: Option<Chap>,
    /// Volumes that no host may change: an iSCSI target, or [one LUN of it](Export::name).
    pub read_only: BTreeSet<String>,
}

/// Addresses with a common prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

/// Bits before an IPv4 address in an IPv6 address.
const MAPPED_BITS: u32 = 96;

impl HostLists {
    /// Refuses lists for volumes that are not served by their protocol.
    pub(crate) fn check(&self, config: &ServeConfig) -> Result<(), ServeError> {
        let by_target = [
            (self.iscsi.keys().collect::<Vec<_>>(), Protocol::Iscsi, &config.iscsi),
            (self.chap.keys().collect(), Protocol::Iscsi, &config.iscsi),
            (self.nbd.keys().collect(), Protocol::Nbd, &config.nbd),
        ];
        let is_served = |nqn: &&String| {
            !config.nvme_tcp.is_empty() && config.exports.iter().any(|one| one.subsystem == **nqn)
        };
        if let Some(nqn) = self.nvme.keys().find(|nqn| !is_served(nqn)) {
            return Err(ServeError::HostsOfNothing(nqn.clone(), Protocol::NvmeTcp));
        }
        for (targets, protocol, portals) in by_target {
            let is_served = |target: &&String| {
                !portals.is_empty() && config.exports.iter().any(|one| one.target == **target)
            };
            if let Some(target) = targets.into_iter().find(|target| !is_served(target)) {
                return Err(ServeError::HostsOfNothing(target.clone(), protocol));
            }
        }
        Ok(())
    }

    /// Whether any list names a volume, or secrets are demanded for it.
    pub fn restrict(&self, export: &Export) -> bool {
        self.nvme.contains_key(&export.subsystem)
            || self.iscsi.contains_key(&export.target)
            || self.chap.contains_key(&export.target)
            || self.nbd.contains_key(&export.target)
    }

    /// Whether no host may change a volume.
    pub fn protect(&self, export: &Export) -> bool {
        let names = &self.read_only;
        !names.is_empty() && (names.contains(&export.target) || names.contains(&export.name()))
    }

    /// Whether all lists are empty.
    pub(crate) fn are_none(&self) -> bool {
        self.nvme.is_empty() && self.iscsi.is_empty() && self.nbd.is_empty() && self.chap.is_empty()
    }

    /// Whether a protocol has a list or secrets for a volume.
    pub fn has(&self, protocol: Protocol, export: &Export) -> bool {
        match protocol {
            Protocol::NvmeTcp => self.nvme.contains_key(&export.subsystem),
            Protocol::Iscsi => {
                self.iscsi.contains_key(&export.target) || self.chap.contains_key(&export.target)
            }
            Protocol::Nbd => self.nbd.contains_key(&export.target),
        }
    }

    /// Whether a peer may use a volume over iSCSI or NBD. Over NVMe/TCP hosts are known by their
    /// names only.
    pub(crate) fn allow(&self, protocol: Protocol, export: &Export, peer: IpAddr) -> bool {
        let list = match protocol {
            Protocol::Iscsi => self.iscsi.get(&export.target),
            Protocol::Nbd => self.nbd.get(&export.target),
            Protocol::NvmeTcp => return true,
        };
        match list {
            Some(list) => list.iter().any(|network| network.holds(peer)),
            // The login demands the secrets.
            None if protocol == Protocol::Iscsi && self.has(protocol, export) => true,
            None => !self.restrict(export),
        }
    }
}

impl Network {
    /// Whether an address is in the network.
    fn holds(self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.bits
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                (own.to_bits() ^ other.to_bits()).leading_zeros() >= self.bits
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = String;

    /// Reads an address, `10.0.0.7`, or a network, `10.0.0.0/8`.
    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || {
            format!(
                "'{text}' is not an address or a network: write 10.0.0.7 or \
            10.0.0.0/8"
            )
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).ok().filter(|bits| *bits <= most);
        let bits: u32 = bits.ok_or_else(wrong)?;
        // An IPv4-mapped address of an IPv6 socket: peers are compared by their IPv4 address.
        let (short, mapped) = (address.to_canonical(), bits.checked_sub(MAPPED_BITS));
        Ok(match (short.is_ipv4() && address.is_ipv6(), mapped) {
            (true, Some(bits)) => Network { address: short, bits },
            _ => Network { address, bits },
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_network_holds_its_addresses() {
        for (network, address, holds) in [
            ("10.0.0.7", "10.0.0.7", true),
            ("10.0.0.7", "10.0.0.6", false),
            ("10.0.0.0/8", "10.255.1.2", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("2001:db8::/32", "2001:db8:1::", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::/0", "::1", true),
            ("::ffff:10.0.0.7", "10.0.0.7", true),
            ("::ffff:10.0.0.7", "10.0.0.6", false),
            ("::ffff:10.0.0.0/104", "10.1.2.3", true),
            ("::ffff:10.0.0.0/104", "11.1.2.3", false),
            ("::ffff:0.0.0.0/96", "192.0.2.1", true),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.holds(address.parse().unwrap()), holds, "{network} {address}");
        }
        for wrong in ["", "host", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "::/129", "10.0.0/8"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
