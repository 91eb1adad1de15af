//! NVMe discovery.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use block::Nanos;
use proto::Outbox;
use proto::nvme::{DiscoveryEntry, NvmeDiscovery, SubsystemKind, check_peer_nqn};

use super::keeper::Errand;
use super::learn;
use super::nvme::{HOST_NQN, host_id};
use crate::OpenError;
use crate::uri::{NvmeUri, Uri};

/// Maximum number of names in an error.
const LISTED_MAX: usize = 8;

/// Asks the discovery service at `address` for its subsystems: names with their addresses.
pub fn discover_nvme(address: &str) -> Result<Vec<(String, Vec<String>)>, OpenError> {
    let found = ask(address, HOST_NQN, || address.to_owned())?;
    let row = |entry: DiscoveryEntry| {
        let address = written(&entry);
        (entry.nqn, vec![address])
    };
    Ok(found.into_iter().map(row).collect())
}

/// URI with the name of the only subsystem that its portal reports to this host.
///
/// # Errors
///
/// The portal reports no subsystem, or several.
pub(super) fn only_one(uri: &NvmeUri) -> Result<NvmeUri, OpenError> {
    let name = || Uri::Nvme(uri.clone()).to_string();
    let found = ask(&uri.address, uri.session.initiator.as_deref().unwrap_or(HOST_NQN), name)?;
    let asked: Vec<SocketAddr> =
        uri.address.to_socket_addrs().map_or_else(|_| Vec::new(), Iterator::collect);
    let (subsystem, address) =
        choose(&found, &asked).map_err(|ending| OpenError::Refused { uri: name(), ending })?;
    let address = address.map_or_else(|| uri.address.clone(), |address| address.to_string());
    Ok(NvmeUri { subsystem, address, ..uri.clone() })
}

/// The only subsystem in a discovery log, and its address unless that is one of the `asked`
/// addresses.
fn choose(
    found: &[DiscoveryEntry],
    asked: &[SocketAddr],
) -> Result<(String, Option<SocketAddr>), String> {
    let mut names: Vec<&str> = found.iter().map(|entry| entry.nqn.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let name = match names[..] {
        [] => return Err("the portal lists no subsystem for this host".to_owned()),
        [name] => name,
        _ => {
            let count = names.len();
            names.truncate(LISTED_MAX);
            let more = if count > LISTED_MAX { ", …" } else { "" };
            let names = names.join(", ");
            return Err(format!(
                "the portal has {count} subsystems; name one in the URI: \
                {names}{more}"
            ));
        }
    };
    check_peer_nqn(name).map_err(|error| {
        format!(
            "the portal returned the invalid subsystem name {name}: \
            {error}"
        )
    })?;
    let at: Vec<SocketAddr> = found.iter().filter_map(socket_address).collect();
    let here = at.is_empty() || at.iter().any(|address| asked.contains(address));
    Ok((name.to_owned(), if here { None } else { at.first().copied() }))
}

fn socket_address(entry: &DiscoveryEntry) -> Option<SocketAddr> {
    let address: IpAddr = entry.traddr.parse().ok()?;
    Some(SocketAddr::new(address, entry.trsvcid.parse().ok()?))
}

/// Host and port, as in URIs.
fn written(entry: &DiscoveryEntry) -> String {
    match entry.traddr.contains(':') {
        true => format!("[{}]:{}", entry.traddr, entry.trsvcid),
        false => format!("{}:{}", entry.traddr, entry.trsvcid),
    }
}

/// The NVM subsystems that the discovery service at `address` shows this host.
fn ask(
    address: &str,
    host_nqn: &str,
    name: impl FnOnce() -> String,
) -> Result<Vec<DiscoveryEntry>, OpenError> {
    let begin = |now| NvmeDiscovery::new(host_nqn, host_id(), now);
    let (mut entries, _leaves) = learn(address, name, begin)?;
    entries.retain(|entry| entry.kind == SubsystemKind::Nvm);
    Ok(entries)
}

impl Errand for NvmeDiscovery {
    type Found = Vec<DiscoveryEntry>;

    fn found(&self) -> Option<Vec<DiscoveryEntry>> {
        self.entries()
    }

    fn leave(&mut self, _now: Nanos, _out: &mut Outbox) {
        // The errand shuts its controller down when it has the log.
    }

    fn has_left(&self) -> bool {
        self.finished()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn entry(nqn: &str, traddr: &str) -> DiscoveryEntry {
        let (nqn, traddr, trsvcid) = (nqn.to_owned(), traddr.to_owned(), "4420".to_owned());
        DiscoveryEntry { nqn, traddr, trsvcid, kind: SubsystemKind::Nvm }
    }

    #[test]
    fn the_only_subsystem_is_meant_wherever_it_is() {
        const NAME: &str = "nqn.2026-11.x:a";
        let asked: SocketAddr = "10.0.0.1:4420".parse().unwrap();
        let chosen = |found: &[DiscoveryEntry]| choose(found, &[asked]);
        let here = [entry(NAME, "10.0.0.2"), entry(NAME, "10.0.0.1")];
        assert_eq!(chosen(&here), Ok((NAME.to_owned(), None)));
        let away = [entry(NAME, "::1")];
        assert_eq!(chosen(&away), Ok((NAME.to_owned(), Some("[::1]:4420".parse().unwrap()))));
        assert_eq!(chosen(&[entry(NAME, "a name")]), Ok((NAME.to_owned(), None)));
        assert_eq!(
            (written(&here[0]), written(&away[0])),
            ("10.0.0.2:4420".into(), "[::1]:4420".into())
        );
    }

    #[test]
    fn several_subsystems_and_none_are_refused() {
        let refused = |found: &[DiscoveryEntry]| choose(found, &[]).unwrap_err();
        assert!(refused(&[]).contains("no subsystem"));
        let many: Vec<_> = (0..20).map(|n| entry(&format!("nqn.2026-11.x:{n}"), "::1")).collect();
        let why = refused(&many);
        assert!(why.contains("20 subsystems") && why.ends_with(", …"), "{why}");
        assert!(refused(&[entry(&"\u{fffd}".repeat(256), "::1")]).contains("223 bytes"));
    }
}
