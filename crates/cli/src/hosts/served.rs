//! Volumes that some ranks serve to the others: what they serve, how each is reached, and the
//! volumes of a job that stand for them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use job::spec::{SERVED, Serving};
use serde::{Deserialize, Serialize};

use crate::exit::UsageError;

/// Time for a connection to an address of a host; most hosts have one or two.
const REACH: Duration = Duration::from_secs(2);
/// Protocols by the words for their portals.
const PROTOCOLS: [&str; 3] = ["iscsi", "nvme-tcp", "nbd"];

/// Names of a process's host in addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Whereabouts {
    machine: String,
    network: String,
    addresses: Vec<IpAddr>,
}

/// Volumes of a rank that serves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Served {
    pub rank: u32,
    /// Name of its host.
    pub name: String,
    pub whereabouts: Whereabouts,
    pub portals: Vec<Portal>,
    pub volumes: Vec<Export>,
}

/// An address that a rank listens on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Portal {
    /// Word for its protocol.
    pub protocol: String,
    pub address: SocketAddr,
}

/// A served volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Export {
    /// Name on the command line of the server.
    pub name: String,
    pub target: String,
    pub subsystem: String,
    pub lun: u8,
    pub bytes: u64,
}

/// Share of a rank in what all driving ranks do: its number among them, and how many they are.
pub type Share = (usize, usize);

/// The share of a single rank.
pub const WHOLE: Share = (0, 1);

impl Whereabouts {
    /// Whereabouts of this process.
    pub fn of_this() -> Whereabouts {
        Whereabouts {
            machine: os::wall::machine().unwrap_or_default(),
            network: os::addresses::network().unwrap_or_default(),
            addresses: os::addresses::own(),
        }
    }

    /// A key of data that all processes of this machine see; none if the machine is not known.
    pub fn key(&self, data: &str) -> Option<String> {
        (!self.machine.is_empty()).then(|| format!("{} {data}", self.machine))
    }

    /// A key of data at a loopback address.
    pub fn key_of_loopback(&self, data: &str) -> Option<String> {
        let known = !self.machine.is_empty() && !self.network.is_empty();
        known.then(|| format!("{}/{} {data}", self.machine, self.network))
    }

    /// Whether the process is on a machine.
    pub fn is_on(&self, machine: &str) -> bool {
        self.machine == machine
    }

    /// Whether loopback of both is one.
    fn is_shared_with(&self, other: &Whereabouts) -> bool {
        let known = !self.machine.is_empty() && !self.network.is_empty();
        known && (&self.machine, &self.network) == (&other.machine, &other.network)
    }
}

impl Export {
    /// URI of the volume at a portal.
    fn uri(&self, portal: &Portal) -> String {
        let Portal { protocol, address } = portal;
        let Export { target, subsystem, lun, .. } = self;
        match protocol.as_str() {
            "iscsi" => format!("iscsi://{address}/{target}/{lun}"),
            "nvme-tcp" => format!("nvme+tcp://{address}/{subsystem}/{lun}"),
            // Names of this program's own units have a short form, too.
            _ if *lun == 1 => format!("nbd://{address}/{target}"),
            _ => format!("nbd://{address}/{target}/{lun}"),
        }
    }
}

impl Served {
    /// A rank that will serve.
    pub fn of(rank: u32, name: &str) -> Served {
        Served {
            rank,
            name: name.to_owned(),
            whereabouts: Whereabouts::default(),
            portals: Vec::new(),
            volumes: Vec::new(),
        }
    }

    /// Portals that a rank uses: each of many has its share, or several share one.
    fn portals_of(&self, (index, of): Share, protocol: Option<&str>) -> Vec<&Portal> {
        let all = self.portals.iter();
        let all: Vec<&Portal> =
            all.filter(|one| protocol.is_none_or(|of| one.protocol == of)).collect();
        match all.len() {
            0 => Vec::new(),
            count if count >= of => all.into_iter().skip(index).step_by(of.max(1)).collect(),
            count => vec![all[index % count]],
        }
    }
}

/// The volumes that a volume of a job stands for on a rank with this share: itself, unless it names
/// what others serve.
///
/// # Errors
///
/// Nobody serves what the volume names.
pub fn resolved(volume: &str, served: &[Served], share: Share) -> Result<Vec<String>, UsageError> {
    if Serving::is_served(volume) {
        let name = volume.strip_prefix(SERVED).and_then(|rest| rest.strip_prefix(':'));
        let of = |host: &Served| -> Vec<String> {
            let wanted = host.volumes.iter().filter(|one| name.is_none_or(|of| of == one.name));
            let portals = host.portals_of(share, None);
            wanted.flat_map(|one| portals.iter().map(|portal| one.uri(portal))).collect()
        };
        let found: Vec<String> = served.iter().flat_map(of).collect();
        if found.is_empty() {
            let why = format!("{volume}: no rank serves it: name those that do with --serve");
            return Err(UsageError(why));
        }
        return Ok(found);
    }
    let Some((before, protocol, which, behind)) = placeholder(volume) else {
        return Ok(vec![volume.to_owned()]);
    };
    let missing = |what: String| UsageError(format!("{volume}: {what}"));
    let (host, portal) = which;
    let of = served.get(host.wrapping_sub(1)).ok_or_else(|| {
        missing(format!("{} ranks serve, and this names number {host}", served.len()))
    })?;
    let portals = match portal {
        None => of.portals_of(share, Some(protocol)),
        Some(number) => {
            let all = of.portals_of(WHOLE, Some(protocol));
            all.get(number.wrapping_sub(1)).copied().into_iter().collect()
        }
    };
    if portals.is_empty() {
        return Err(missing(format!("{} has no such portal", of.name)));
    }
    Ok(portals.iter().map(|portal| format!("{before}{}{behind}", portal.address)).collect())
}

/// Whether a volume names the portal of a rank that serves.
pub fn is_placeholder(volume: &str) -> bool {
    placeholder(volume).is_some()
}

/// Words before a placeholder, its protocol, the numbers of its host and portal, and the words
/// behind it.
type Placeholder<'a> = (&'a str, &'static str, (usize, Option<usize>), &'a str);

/// Parts of a volume with a placeholder: `{iscsi}`, `{iscsi-2}`, `{iscsi-2:5}`, `{iscsi:5}`.
fn placeholder(volume: &str) -> Option<Placeholder<'_>> {
    volume.match_indices('{').find_map(|(begin, _)| {
        let (inside, behind) = volume[begin + 1..].split_once('}')?;
        let protocol = PROTOCOLS.into_iter().find(|of| inside.starts_with(of))?;
        let (host, portal) = match inside[protocol.len()..].split_once(':') {
            Some((host, portal)) => (host, Some(portal.parse().ok()?)),
            None => (&inside[protocol.len()..], None),
        };
        let host = match host.strip_prefix('-') {
            Some(number) => number.parse().ok()?,
            None if host.is_empty() => 1,
            None => return None,
        };
        Some((&volume[..begin], protocol, (host, portal), behind))
    })
}

/// Served volumes and their addresses, as this process reaches them: hosts are tried once.
static REACHED: Mutex<Option<(Vec<Served>, Vec<Served>)>> = Mutex::new(None);

/// Served volumes with addresses that this process reaches, in place of those that mean any
/// address of their host.
///
/// # Errors
///
/// No address of a host answers.
pub fn reached(served: &[Served]) -> Result<Vec<Served>> {
    let mut held = REACHED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, reached)) = held.as_ref().filter(|(of, _)| of == served) {
        return Ok(reached.clone());
    }
    let here = Whereabouts::of_this();
    let all = std::thread::scope(|scope| {
        let each = served.iter().map(|one| scope.spawn(|| reach(one, &here)));
        let each: Vec<_> = each.collect();
        let join = |one: std::thread::ScopedJoinHandle<'_, _>| one.join();
        let found = each.into_iter().map(join).map(|found| match found {
            Ok(found) => found,
            Err(_) => Err(UsageError("a host could not be tried".to_owned())),
        });
        found.collect::<Result<Vec<Served>, UsageError>>()
    })?;
    *held = Some((served.to_vec(), all.clone()));
    Ok(all)
}

/// A rank's volumes with an address of its host that answers.
fn reach(of: &Served, here: &Whereabouts) -> Result<Served, UsageError> {
    let any = |portal: &&Portal| portal.address.ip().is_unspecified();
    let Some(first) = of.portals.iter().find(any) else { return Ok(of.clone()) };
    let candidates = candidates(&of.whereabouts, here, first.address.is_ipv6());
    let mut refused = Vec::new();
    let found = candidates.into_iter().find(|ip| {
        let address = SocketAddr::new(*ip, first.address.port());
        let answer = os::connect(address, REACH);
        refused.extend(answer.as_ref().err().map(|error| format!("{address}: {error}")));
        answer.is_ok()
    });
    let Some(found) = found else {
        let (name, rank) = (&of.name, of.rank);
        let tried = match refused.is_empty() {
            true => "the host has no address that this one has not".to_owned(),
            false => refused.join(", "),
        };
        return Err(UsageError(format!(
            "cannot reach {name} (rank {rank}), which serves: {tried}; name an address of its \
             network: --serve '{rank}: --iscsi ADDRESS:0 …'"
        )));
    };
    let mut reached = of.clone();
    for portal in reached.portals.iter_mut().filter(|one| one.address.ip().is_unspecified()) {
        portal.address.set_ip(found);
    }
    Ok(reached)
}

/// Addresses of a host to try, in order. An address that both hosts have, such as that of a bridge
/// for containers, leads to this one.
fn candidates(there: &Whereabouts, here: &Whereabouts, ipv6: bool) -> Vec<IpAddr> {
    if there.is_shared_with(here) {
        let loopback = [IpAddr::from(Ipv4Addr::LOCALHOST), Ipv6Addr::LOCALHOST.into()];
        return loopback.into_iter().rev().filter(|ip| ipv6 || ip.is_ipv4()).collect();
    }
    let own = |ip: &&IpAddr| !here.addresses.contains(ip);
    let kind = |ip: &&IpAddr| ipv6 || ip.is_ipv4();
    there.addresses.iter().filter(own).filter(kind).copied().collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn served(rank: u32, portals: &[(&str, u16)]) -> Served {
        let at = |port| SocketAddr::from(([10, 0, 0, rank as u8], port));
        let portal = |(protocol, port): &(&str, u16)| Portal {
            protocol: (*protocol).to_owned(),
            address: at(*port),
        };
        let export = |name: &str| Export {
            name: name.to_owned(),
            target: format!("iqn.x:{name}"),
            subsystem: format!("nqn.x:{name}"),
            lun: 1,
            bytes: 1 << 20,
        };
        Served {
            rank,
            name: format!("node{rank}"),
            whereabouts: Whereabouts::default(),
            portals: portals.iter().map(portal).collect(),
            volumes: vec![export("a"), export("b")],
        }
    }

    #[test]
    fn served_stands_for_all_volumes_over_a_share_of_the_portals() {
        let all = [served(1, &[("iscsi", 1)]), served(2, &[("nvme-tcp", 5), ("nbd", 6)])];
        let found = resolved("served", &all, WHOLE).unwrap();
        let uris = [
            "iscsi://10.0.0.1:1/iqn.x:a/1",
            "iscsi://10.0.0.1:1/iqn.x:b/1",
            "nvme+tcp://10.0.0.2:5/nqn.x:a/1",
            "nbd://10.0.0.2:6/iqn.x:a",
            "nvme+tcp://10.0.0.2:5/nqn.x:b/1",
            "nbd://10.0.0.2:6/iqn.x:b",
        ];
        assert_eq!(found, uris);
        assert_eq!(resolved("served:b", &all[..1], (5, 6)).unwrap(), [uris[1]]);
        let why = resolved("served:c", &all, WHOLE).unwrap_err().to_string();
        assert!(why.contains("served:c: no rank serves it"), "{why}");
        assert_eq!(resolved("ram:1m", &[], WHOLE).unwrap(), ["ram:1m"]);
        // 24 portals and six clients: four for each, and each for one.
        let ports: Vec<(&str, u16)> = (1..=24).map(|port| ("iscsi", port)).collect();
        let appliance = [served(1, &ports)];
        let share = |index| resolved("iscsi://{iscsi}/iqn.x:a/1", &appliance, (index, 6)).unwrap();
        let all: Vec<String> = (0..6).flat_map(share).collect();
        let unique: std::collections::BTreeSet<&String> = all.iter().collect();
        assert_eq!((all.len(), unique.len()), (24, 24));
        assert_eq!(share(1)[0], "iscsi://10.0.0.1:2/iqn.x:a/1");
    }

    #[test]
    fn hosts_and_portals_have_numbers() {
        let all = [served(3, &[("iscsi", 1), ("iscsi", 2)]), served(4, &[("iscsi", 3)])];
        let one = |volume: &str| resolved(volume, &all, WHOLE).unwrap();
        assert_eq!(one("iscsi://{iscsi-2}/x/1"), ["iscsi://10.0.0.4:3/x/1"]);
        assert_eq!(one("iscsi://{iscsi:2}/x/1"), ["iscsi://10.0.0.3:2/x/1"]);
        assert_eq!(one("iscsi://{iscsi-1:1}/x/1"), ["iscsi://10.0.0.3:1/x/1"]);
        assert_eq!(one("iscsi://{iscsi}/x/1").len(), 2);
        let why = |volume: &str| resolved(volume, &all, WHOLE).unwrap_err().to_string();
        assert!(why("iscsi://{iscsi-3}/x/1").contains("2 ranks serve"));
        assert!(why("iscsi://{iscsi-0}/x/1").contains("2 ranks serve"));
        assert!(why("iscsi://{iscsi:3}/x/1").contains("node3 has no such portal"));
        assert!(why("nbd://{nbd}/x").contains("node3 has no such portal"));
        // Other braces are none.
        for volume in ["file:{rank}", "iscsi://{iscsix}/x", "file:{", "file:{iscsi"] {
            assert_eq!(one(volume), [volume]);
        }
    }

    #[test]
    fn an_address_of_both_hosts_is_not_tried() {
        let at = |machine: &str, addresses: &[&str]| Whereabouts {
            machine: machine.to_owned(),
            network: "net:[1]".to_owned(),
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        };
        let here = at("one", &["172.17.0.1", "10.0.0.1"]);
        let there = at("two", &["172.17.0.1", "fd00::2", "10.0.0.2"]);
        let tried = |ipv6| -> Vec<String> {
            candidates(&there, &here, ipv6).iter().map(IpAddr::to_string).collect()
        };
        assert_eq!(tried(false), ["10.0.0.2"]);
        assert_eq!(tried(true), ["fd00::2", "10.0.0.2"]);
        let beside = candidates(&at("one", &["10.0.0.1"]), &here, false);
        assert_eq!(beside, [IpAddr::from(Ipv4Addr::LOCALHOST)]);
    }
}
