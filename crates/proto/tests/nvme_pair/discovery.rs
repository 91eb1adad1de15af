//! The discovery service, queried by our initiator and by raw PDUs.

use std::sync::Arc;

use proto::nvme::pdu::{CommandBuilder, admin};
use proto::nvme::{
    DISCOVERY_NQN, DiscoveryEntry, NvmeDiscovery, Portal, Subsystem, SubsystemKind, Subsystems,
};
use proto::{Ending, Endpoint};

use crate::joined::{HOST_ID, Wire, discovery};
use crate::raw::{Raw, connect, connect_data, property_set};
use crate::server::{HOST_NQN, NQN, OTHER_NQN, Server};

fn entry(nqn: &str, traddr: &str, trsvcid: &str) -> DiscoveryEntry {
    let (nqn, traddr, trsvcid) = (nqn.to_owned(), traddr.to_owned(), trsvcid.to_owned());
    DiscoveryEntry { nqn, traddr, trsvcid, kind: SubsystemKind::Nvm }
}

/// Returns a server with this many empty subsystems.
fn server(count: usize) -> Server {
    let mut server = Server::usual();
    let subsystem = |number| Subsystem {
        nqn: format!("nqn.2026-11.io.drumfire:{number}"),
        namespaces: vec![],
        serial: "S".to_owned(),
        model: "M".to_owned(),
        shared: false,
    };
    server.subsystems = Arc::new(Subsystems::new((0..count).map(subsystem).collect()).unwrap());
    server
}

fn portal(address: &str, port: &str) -> Portal {
    Portal { address: address.to_owned(), port: port.to_owned() }
}

#[test]
fn every_subsystem_is_listed_at_the_portal_that_was_asked() {
    for chunk in [1, 100, 1 << 20] {
        let wire = discovery(&mut Server::usual(), chunk);
        let expect = [NQN, OTHER_NQN].map(|nqn| entry(nqn, "192.0.2.1", "4420"));
        assert_eq!(wire.host.entries().unwrap(), expect);
        assert!(wire.host.finished() && wire.ended.is_none());
    }
}

#[test]
fn long_lists_are_read_in_parts() {
    for count in [0, 1, 2, 3, 4, 7, 8, 100] {
        let wire = discovery(&mut server(count), usize::MAX);
        let entries = wire.host.entries().unwrap();
        assert_eq!(entries.len(), count);
        for (number, entry) in entries.iter().enumerate() {
            assert_eq!(entry.nqn, format!("nqn.2026-11.io.drumfire:{number}"));
        }
    }
}

#[test]
fn other_portals_are_told_of_too() {
    let mut server = server(2);
    let others =
        vec![portal("192.0.2.1", "4420"), portal("2001:db8::1", "4420"), portal("192.0.2.9", "1")];
    server.subsystems = Arc::new(Subsystems::clone(&server.subsystems).with_portals(others));
    let entries = discovery(&mut server, usize::MAX).host.entries().unwrap();
    assert_eq!(entries.len(), 6);
    assert_eq!(entries[1], entry("nqn.2026-11.io.drumfire:0", "2001:db8::1", "4420"));
    assert_eq!(entries[5], entry("nqn.2026-11.io.drumfire:1", "192.0.2.9", "1"));
}

#[test]
fn the_log_is_laid_out_as_the_standard_says() {
    let mut raw = Raw::open(Server::usual());
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, DISCOVERY_NQN)).status().is_success());
    raw.ask(property_set(1, 0x14, 1), &[]);
    let mut log = |offset: u32, len: u32| {
        let command = CommandBuilder::new(admin::GET_LOG_PAGE, 3, 0).transport(len);
        raw.ask_data(command.word(10, 0x70 | (len / 4 - 1) << 16).word(12, offset))
    };
    let whole = log(0, 4096);
    let number = |at: usize| u64::from_le_bytes(*whole[at..].first_chunk().unwrap());
    assert_eq!((number(0), number(8), &whole[16..18]), (1, 2, &[0, 0][..]));
    let first = &whole[1024..2048];
    assert_eq!(first[..12], [3, 1, 2, 4, 0, 0, 0xff, 0xff, 32, 0, 0, 0]);
    assert_eq!(first[32..64], *b"4420                            ");
    assert_eq!(first[256..256 + NQN.len() + 1], [NQN.as_bytes(), &[0]].concat());
    assert_eq!(first[512..523], *b"192.0.2.1  ");
    assert_eq!(first[768..], [0; 256], "TSAS: no security");
    assert_eq!(whole[3072..], [0; 1024]);
    // Any part of it is the same part.
    for (offset, len) in [(0, 16), (1000, 40), (1024, 4096), (2044, 8), (3068, 8), (3072, 4)] {
        let part = log(offset, len);
        let there = (whole.len() - offset as usize).min(len as usize);
        assert_eq!(part[..there], whole[offset as usize..offset as usize + there], "{offset}");
        assert!(part[there..].iter().all(|byte| *byte == 0));
    }
}

/// Returns the result of a discovery whose log page is changed in transit.
fn ask_with(
    server: &mut Server,
    change: impl FnMut(Vec<u8>) -> Vec<u8>,
) -> (Option<usize>, Option<Ending>) {
    let host = NvmeDiscovery::new(HOST_NQN, HOST_ID, server.now);
    let mut wire = Wire::new(server, host, usize::MAX);
    wire.settle_with(server, change);
    (wire.host.entries().map(|entries| entries.len()), wire.ended)
}

#[test]
fn a_log_that_changes_is_read_again() {
    // The header comes as 1024 bytes of data, so does each second reading of it.
    let mut headers = 0;
    let (entries, ended) = ask_with(&mut Server::usual(), |mut back| {
        if back.len() == 24 + 1024 + 24 {
            headers += 1;
            if headers == 2 {
                back[24] ^= 0x10;
            }
        }
        back
    });
    // The second header differs, so the entries are read once more with it; then it differs again.
    assert_eq!((entries, ended), (Some(2), None));
    assert!(headers >= 4, "{headers}");
    // A log page that changes at every read is given up.
    let mut generation = 0;
    let (entries, ended) = ask_with(&mut Server::usual(), |mut back| {
        if back.len() == 24 + 1024 + 24 {
            generation += 1;
            back[24] = generation;
        }
        back
    });
    assert_eq!(entries, None);
    assert!(matches!(ended, Some(Ending::Refused(_))));
}

#[test]
fn a_log_that_claims_too_much_is_not_believed() {
    let (entries, ended) = ask_with(&mut Server::usual(), |mut back| {
        if back.len() == 24 + 1024 + 24 {
            back[24 + 8..24 + 16].fill(0xff);
        }
        back
    });
    assert_eq!(entries, None);
    assert!(matches!(ended, Some(Ending::Refused(_))));
}

#[test]
fn a_portal_that_says_nothing_is_given_up() {
    let mut server = Server::usual();
    let mut end = NvmeDiscovery::new(HOST_NQN, HOST_ID, server.now);
    let mut out = proto::Outbox::new(server.pool.clone());
    end.tick(server.now, &mut out).unwrap();
    server.now = end.deadline().unwrap();
    assert!(matches!(end.tick(server.now, &mut out), Err(Ending::TimedOut(_))));
}
