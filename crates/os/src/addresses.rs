//! Addresses of this host, as other hosts of its networks know it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The kernel's table of routes, which has each local IPv4 address of an interface that is up.
const ROUTES: &str = "/proc/self/net/fib_trie";
/// The kernel's list of IPv6 addresses.
const IPV6: &str = "/proc/self/net/if_inet6";

/// Addresses of interfaces that are up, without loopback and link-local ones.
pub fn own() -> Vec<IpAddr> {
    let text = |path| std::fs::read_to_string(path).unwrap_or_default();
    ipv4(&text(ROUTES)).into_iter().map(IpAddr::from).chain(ipv6(&text(IPV6))).collect()
}

/// Identifier of the network namespace: processes of one machine in one namespace share loopback.
pub fn network() -> Option<String> {
    let link = std::fs::read_link("/proc/self/ns/net").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Local addresses of a table of routes: a leaf, and below the leaf what it is.
fn ipv4(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut leaf: Option<Ipv4Addr> = None;
    for line in table.lines().map(str::trim) {
        if let Some(address) = line.strip_prefix("|-- ") {
            leaf = address.parse().ok();
        } else if line.starts_with("/32 host LOCAL") {
            let address = leaf.filter(|one| !one.is_loopback() && !one.is_link_local());
            found.extend(address.filter(|one| !found.contains(one)));
        }
    }
    found
}

/// Global addresses of the list, in which each line begins with 32 digits.
fn ipv6(list: &str) -> Vec<IpAddr> {
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u128::from_str_radix(words.next()?, 16).ok()?;
        // Index of the interface, length of the prefix, scope: 00 is global.
        let is_global = words.nth(2)? == "00";
        is_global.then(|| IpAddr::from(Ipv6Addr::from(address)))
    };
    list.lines().filter_map(of).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn local_addresses_are_found_once() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
            Local:\n     |-- 10.1.2.0\n        /24 link UNICAST\n           |-- 10.1.2.3\n\
            \u{20}             /32 host LOCAL\n           |-- 10.1.2.255\n\
            \u{20}             /32 link BROADCAST\n           |-- 127.0.0.1\n\
            \u{20}             /32 host LOCAL\n           |-- 10.1.2.3\n\
            \u{20}             /32 host LOCAL\n";
        assert_eq!(ipv4(table), [Ipv4Addr::new(10, 1, 2, 3)]);
        let list = "00000000000000000000000000000001 01 80 10 80       lo\n\
            fe80000000000000f8a1fefffe5e1a2b 02 40 20 80     eth0\n\
            fd000000000000000000000000000005 02 40 00 80     eth0\n";
        assert_eq!(ipv6(list), ["fd00::5".parse::<IpAddr>().unwrap()]);
    }

    #[test]
    fn this_host_has_a_network() {
        assert!(network().is_some_and(|link| link.starts_with("net:[")));
        assert!(own().iter().all(|address| !address.is_loopback()));
    }
}
