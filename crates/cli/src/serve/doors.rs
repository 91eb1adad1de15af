//! Lines at the start of a server about access to its volumes.

use std::net::SocketAddr;

use ::serve::{Export, Protocol, ServeConfig};

/// Volumes that are named in a line.
const NAMED_MAX: usize = 8;

/// A line about volumes that any host may write, and one about those that are restricted over one
/// protocol only.
pub fn lines(config: &ServeConfig) -> Vec<String> {
    let doors = [
        (Protocol::Iscsi, &config.iscsi),
        (Protocol::NvmeTcp, &config.nvme_tcp),
        (Protocol::Nbd, &config.nbd),
    ];
    let open = |address: &SocketAddr| !address.ip().to_canonical().is_loopback();
    let shown = doors.iter().flat_map(|(protocol, addresses)| {
        let open = addresses.iter().filter(|address| open(address));
        open.map(move |address| format!("{protocol} at {address}"))
    });
    let (shown, lists) = (shown.collect::<Vec<_>>(), &config.host_lists);
    let mut lines = Vec::new();
    let writable = |export: &&Export| {
        let read_only = export.volume.geometry().read_only || lists.protect(export);
        !lists.restrict(export) && !read_only
    };
    let anybodys: Vec<&Export> = config.exports.iter().filter(writable).collect();
    if !shown.is_empty() && !anybodys.is_empty() {
        lines.push(format!(
            "any host that can connect to {} can read and write {}: list the allowed hosts in a \
            serve.toml, or serve on 127.0.0.1",
            shown.join(", "),
            names(&anybodys)
        ));
    }
    let served: Vec<Protocol> =
        doors.iter().filter(|(_, of)| !of.is_empty()).map(|(protocol, _)| *protocol).collect();
    for protocol in served {
        let closed = |export: &&Export| lists.restrict(export) && !lists.has(protocol, export);
        let closed: Vec<&Export> = config.exports.iter().filter(closed).collect();
        if !closed.is_empty() {
            lines.push(format!(
                "{}: no host may use it over {protocol}, as another protocol has a list of hosts \
                 or secrets for it and {protocol} has none: [{}]",
                names(&closed),
                table(protocol)
            ));
        }
    }
    lines
}

/// The table of `serve.toml` with the lists of a protocol.
fn table(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Iscsi => "iscsi_hosts",
        Protocol::NvmeTcp => "nvme_hosts",
        Protocol::Nbd => "nbd_hosts",
    }
}

fn names(exports: &[&Export]) -> String {
    let name = |export: &&Export| match export.target.rsplit_once(':') {
        Some((_, name)) => name.to_owned(),
        None => export.target.clone(),
    };
    let mut named: Vec<String> = exports.iter().map(name).collect();
    // Several LUNs may have one name.
    named.dedup();
    let more = named.len().saturating_sub(NAMED_MAX);
    named.truncate(NAMED_MAX);
    match more {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
