//! Transport identifiers, which SPDK's plugin accepts as file names: pairs of key and value,
//! `trtype=TCP adrfam=IPv4 traddr=192.0.2.1 trsvcid=4420 subnqn=nqn.2026-11.org.example:disk ns=1`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::formats::reading::Remote;

/// Maximum length of a host's address in bytes; SPDK's own limit.
const HOST_MAX_BYTES: usize = 256;
/// Maximum length of an NQN in bytes, by the standard.
const NAME_MAX_BYTES: usize = 223;
/// Maximum NSID; the one above it means all namespaces.
const UNIT_MAX: u32 = u32::MAX - 1;

/// A parsed identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identifier {
    /// Volume, as far as the identifier names it.
    pub remote: Remote,
    /// True if the identifier has a namespace: 1 otherwise.
    pub has_unit: bool,
    /// True if the identifier sets a packet priority.
    pub has_priority: bool,
}

/// Values by their keys, the last of each.
#[derive(Default)]
pub(super) struct Words<'a> {
    pub transport: &'a str,
    pub family: &'a str,
    pub host: &'a str,
    pub port: &'a str,
    pub target: &'a str,
    pub unit: &'a str,
    pub initiator: &'a str,
    pub priority: &'a str,
}

/// Reads an identifier, in which colons are not escaped.
pub fn parse(text: &str) -> Result<Identifier, String> {
    identify(&split(text)?)
}

/// Interprets words that are already split.
pub(super) fn identify(words: &Words<'_>) -> Result<Identifier, String> {
    check_transport(words.transport)?;
    check_host(words.host, words.family)?;
    let port = match words.port {
        "" => return Err("the port is missing: set trsvcid=4420".to_owned()),
        port => port.parse().ok().filter(|port| *port > 0),
    };
    let port = port.ok_or_else(|| format!("trsvcid={} is not a port, 1 to 65535", words.port))?;
    let unit = match words.unit {
        "" => Some(1),
        unit => unit.parse().ok().filter(|unit| (1..=UNIT_MAX).contains(unit)),
    };
    let unit =
        unit.ok_or_else(|| format!("ns={} is not a namespace ID, 1 to {UNIT_MAX}", words.unit))?;
    for (key, name) in [("subnqn", words.target), ("hostnqn", words.initiator)] {
        if name.len() > NAME_MAX_BYTES {
            return Err(format!("{key} has more than {NAME_MAX_BYTES} bytes"));
        }
    }
    let remote = Remote {
        host: words.host.to_owned(),
        port,
        target: words.target.to_owned(),
        unit,
        header_digest: false,
        data_digest: false,
        initiator: Some(words.initiator.to_owned()).filter(|name| !name.is_empty()),
    };
    let (has_unit, has_priority) = (!words.unit.is_empty(), !words.priority.is_empty());
    Ok(Identifier { remote, has_unit, has_priority })
}

fn split(text: &str) -> Result<Words<'_>, String> {
    let mut words = Words::default();
    for word in text.split([' ', '\t']).filter(|word| !word.is_empty()) {
        let (key, value) = word.split_once(['=', ':']).unwrap_or((word, ""));
        if value.is_empty() {
            return Err(format!(
                "'{word}' is not KEY=VALUE as in trtype=TCP traddr=192.0.2.1 trsvcid=4420; a colon \
                 within a name is written \\:"
            ));
        }
        let place = match key.to_ascii_lowercase().as_str() {
            "trtype" => &mut words.transport,
            "adrfam" => &mut words.family,
            "traddr" => &mut words.host,
            "trsvcid" => &mut words.port,
            "subnqn" => &mut words.target,
            "ns" => &mut words.unit,
            "hostnqn" => &mut words.initiator,
            "priority" => &mut words.priority,
            // The plugin ignores these keys.
            "hostaddr" | "hostsvcid" | "alt_traddr" => continue,
            _ => {
                return Err(format!(
                    "unknown key '{key}': one of trtype, adrfam, traddr, trsvcid, subnqn, ns, \
                     hostnqn, priority"
                ));
            }
        };
        *place = value;
    }
    Ok(words)
}

fn check_transport(transport: &str) -> Result<(), String> {
    match transport.to_ascii_uppercase().as_str() {
        "TCP" => Ok(()),
        // SPDK's default is PCIe.
        "" | "PCIE" => {
            Err("trtype=PCIe is a device of this host, detached from the kernel: leave the device \
                 attached, and name /dev/nvme0n1 with ioengine=io_uring"
                .to_owned())
        }
        _ => Err(format!("trtype={transport} is not supported: use TCP")),
    }
}

fn check_host(host: &str, family: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err("the host address is missing: set traddr=192.0.2.1".to_owned());
    }
    if host.len() > HOST_MAX_BYTES {
        return Err(format!("traddr has more than {HOST_MAX_BYTES} bytes"));
    }
    if host.contains(['/', '?', '@', '[', ']']) {
        return Err(format!("traddr={host} is neither an IP address nor a host name"));
    }
    let (v4, v6) = (host.parse::<Ipv4Addr>().is_ok(), host.parse::<Ipv6Addr>().is_ok());
    if host.contains(':') && !v6 {
        return Err(format!("traddr={host} is not an IPv6 address"));
    }
    match family.to_ascii_lowercase().as_str() {
        "" => Ok(()),
        "ipv4" if !v6 => Ok(()),
        "ipv6" if !v4 => Ok(()),
        "ipv4" | "ipv6" => Err(format!("traddr={host} is not an address of adrfam={family}")),
        _ => Err(format!("adrfam={family} is not supported for TCP: use IPv4 or IPv6")),
    }
}

/// Writes the identifier of a volume, in which colons are not escaped.
pub fn write(remote: &Remote) -> Result<String, String> {
    let Remote { host, port, target, unit, .. } = remote;
    let family = if host.contains(':') { "IPv6" } else { "IPv4" };
    let mut text = format!("trtype=TCP adrfam={family} traddr={host} trsvcid={port}");
    if !target.is_empty() {
        text.push_str(&format!(" subnqn={target}"));
    }
    // The namespace is last, as SPDK requires.
    text.push_str(&format!(" ns={unit}"));
    let read = parse(&text).map(|read| read.remote);
    let plain =
        Remote { header_digest: false, data_digest: false, initiator: None, ..remote.clone() };
    match read == Ok(plain) {
        true => Ok(text),
        false => {
            Err(format!("{target} on {host} cannot be written as a filename of ioengine=spdk"))
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const PLAIN: &str = "trtype=TCP adrfam=IPv4 traddr=192.0.2.1 trsvcid=4420 \
                         subnqn=nqn.2026-11.org.example:disk ns=3";

    #[test]
    fn names_a_volume_word_by_word() {
        let found = parse(PLAIN).unwrap();
        let remote = Remote {
            host: "192.0.2.1".to_owned(),
            port: 4420,
            target: "nqn.2026-11.org.example:disk".to_owned(),
            unit: 3,
            ..Remote::default()
        };
        let want = Identifier { remote, has_unit: true, has_priority: false };
        assert_eq!(found, want);
        assert_eq!(write(&found.remote).as_deref(), Ok(PLAIN));
        // Keys in any case, colons for equals signs, any order, the last of a key.
        let other = "TRADDR:10.0.0.1 traddr:192.0.2.1  TrType:tcp\tns=3 AdrFam:ipv4 hostaddr:::1 \
                     trsvcid:4420 subnqn:nqn.2026-11.org.example:disk";
        assert_eq!(parse(other), Ok(want));
    }

    #[test]
    fn less_is_said_and_more() {
        let few = parse("trtype=tcp traddr=::1 trsvcid=1 priority=3 hostnqn=me").unwrap();
        assert!(!few.has_unit && few.has_priority && few.remote.target.is_empty());
        assert_eq!((few.remote.unit, few.remote.initiator.as_deref()), (1, Some("me")));
        let written = write(&few.remote).unwrap();
        assert_eq!(written, "trtype=TCP adrfam=IPv6 traddr=::1 trsvcid=1 ns=1");
        let odd = Remote { target: "a b".to_owned(), ..few.remote };
        assert!(write(&odd).unwrap_err().contains("cannot be written"));
    }

    #[test]
    fn says_what_is_wrong() {
        let long = "x".repeat(300);
        let with = |words: &str| format!("{PLAIN} {words}");
        for (text, part) in [
            (String::new(), "trtype=PCIe"),
            ("traddr=0000.04.00.0 ns=1".to_owned(), "/dev/nvme0n1"),
            (with("trtype=PCIe"), "/dev/nvme0n1"),
            (with("trtype=RDMA"), "trtype=RDMA is not supported"),
            (with("trtype=FC"), "use TCP"),
            (with("traddr="), "'traddr=' is not KEY=VALUE"),
            ("trtype=TCP trsvcid=1".to_owned(), "host address is missing"),
            ("trtype=TCP traddr=h".to_owned(), "port is missing"),
            (with(&format!("traddr={long}")), "256 bytes"),
            (with("traddr=a:b"), "not an IPv6 address"),
            (with("traddr=[::1]"), "neither an IP address"),
            (with("traddr=::1"), "not an address of adrfam=IPv4"),
            (with("adrfam=ipv6"), "not an address of adrfam=ipv6"),
            (with("adrfam=IB"), "not supported for TCP"),
            (with("trsvcid=99999"), "not a port"),
            (with("trsvcid=0"), "not a port"),
            (with("ns=0"), "1 to 4294967294"),
            (with("ns=4294967295"), "1 to 4294967294"),
            (with("ns=one"), "1 to 4294967294"),
            (with(&format!("subnqn={long}")), "223 bytes"),
            (with(&format!("hostnqn={long}")), "223 bytes"),
            (with("subqn=nqn.x"), "unknown key 'subqn'"),
            ("cnode1 ns=1".to_owned(), "written \\:"),
        ] {
            let why = parse(&text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }
}
