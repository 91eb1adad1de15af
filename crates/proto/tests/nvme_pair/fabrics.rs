//! Connect and its refusals, properties, reset and shutdown, and the lives of controllers.

use block::{Nanos, Op};
use proto::nvme::pdu::{CommandBuilder, Status, admin, fabrics, fatal, io, kind};
use proto::nvme::{ControllerLimits, DISCOVERY_NQN};
use proto::{Ending, Endpoint, Target};

use crate::joined::HOST_ID;
use crate::raw::{
    Raw, capsule, connect, connect_data, init, introduce, property_get, property_set,
};
use crate::server::{HOST_NQN, NQN, OTHER_NQN, Peer, Server, Store};

fn get(raw: &mut Raw, offset: u32, eight: u8) -> u64 {
    let answer = raw.ask(property_get(1, offset, eight), &[]);
    assert!(answer.status().is_success());
    answer.completion().result
}

fn set_configuration(raw: &mut Raw, value: u64) {
    assert!(raw.ask(property_set(1, 0x14, value), &[]).status().is_success());
}

/// Another connection to the same server; the first one is put aside.
fn another(raw: Raw) -> (Raw, Peer) {
    let Raw { server, peer, .. } = raw;
    (Raw::open(server), peer)
}

#[test]
fn the_first_pdu_is_an_icreq() {
    for bytes in [
        capsule(connect(0, 31), &connect_data(0xffff, NQN), [false; 2]),
        capsule(CommandBuilder::new(io::READ, 0, 1), &[], [false; 2]),
        vec![6, 4, 24, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4],
    ] {
        let mut raw = Raw::fresh(Server::usual());
        raw.send(&bytes);
        assert_eq!(raw.fatal(), (fatal::SEQUENCE_ERROR, 0));
        assert!(raw.peer.end.finished());
    }
    let mut raw = Raw::open(Server::usual());
    raw.send(&init(0, [false; 2]));
    assert_eq!(raw.fatal(), (fatal::SEQUENCE_ERROR, 0));
}

#[test]
fn an_icreq_that_makes_no_sense_is_refused() {
    for (at, value, expect) in [
        (8, 1, (fatal::UNSUPPORTED_PARAMETER, 8)),
        (10, 32, (fatal::INVALID_HEADER_FIELD, 10)),
        (2, 127, (fatal::INVALID_HEADER_FIELD, 2)),
        (4, 129, (fatal::INVALID_HEADER_FIELD, 4)),
        (1, 1, (fatal::INVALID_HEADER_FIELD, 1)),
        (0, 1, (fatal::INVALID_HEADER_FIELD, 0)),
        (0, 0x55, (fatal::INVALID_HEADER_FIELD, 0)),
    ] {
        let mut bytes = init(0, [false; 2]);
        bytes[at] = value;
        let mut raw = Raw::fresh(Server::usual());
        raw.send(&bytes);
        assert_eq!(raw.fatal(), expect, "byte {at}");
    }
}

#[test]
fn digests_are_given_as_asked_if_allowed() {
    for asked in [[false, false], [true, false], [false, true], [true, true]] {
        for allowed in [[true, true], [false, true], [true, false]] {
            let mut server = Server::usual();
            server.config.allow_header_digest = allowed[0];
            server.config.allow_data_digest = allowed[1];
            let mut raw = Raw::fresh(server);
            raw.send(&init(3, asked));
            let answer = raw.pdus().remove(0);
            let expect = u8::from(asked[0] && allowed[0]) | u8::from(asked[1] && allowed[1]) << 1;
            let max_data = 256 << 10;
            assert_eq!((answer.u16(8), answer.header[10], answer.header[11]), (0, 0, expect));
            assert_eq!((answer.header.len(), answer.u32(12)), (128, max_data));
        }
    }
}

#[test]
fn the_longest_host_data_is_legal_whatever_was_configured() {
    for (configured, told) in [(0, 4096), (5, 4096), (8191, 8188), (1 << 20, 1 << 20)] {
        let mut server = Server::usual();
        server.config.max_h2c_data_bytes = configured;
        let mut raw = Raw::fresh(server);
        raw.send(&init(0, [false; 2]));
        assert_eq!(raw.pdus()[0].u32(12), told);
    }
}

#[test]
fn connect_tells_the_controller_and_whether_sqhd_is_used() {
    for (attributes, head) in [(0, 1), (4, 0xffff)] {
        let mut raw = Raw::open(Server::usual());
        let answer = raw.ask(connect(0, 31).field(46, [attributes]), &connect_data(0xffff, NQN));
        let completion = answer.completion();
        assert_eq!((completion.status, completion.result), (Status::SUCCESS, 1));
        assert_eq!(completion.head, head);
        let end = &raw.peer.end;
        assert_eq!((end.host_nqn(), end.subsystem_nqn()), (Some(HOST_NQN), Some(NQN)));
        assert_eq!((end.queue_id(), end.controller_id()), (Some(0), Some(1)));
        assert!(!end.half_open());
        let answer = raw.ask(property_get(2, 8, 0), &[]);
        assert_eq!(answer.completion().head, if attributes == 0 { 2 } else { 0 });
    }
}

/// Status and result of a Connect that is refused.
fn refused(raw: &mut Raw, command: CommandBuilder, data: &[u8]) -> (Status, u64) {
    let completion = raw.ask(command, data).completion();
    assert!(raw.peer.end.half_open());
    (completion.status, completion.result)
}

#[test]
fn connect_is_refused_with_the_field_to_blame() {
    let (entry, data) = (0, 1 << 16);
    let parameters = |at: u64, place: u64| (Status::CONNECT_INVALID_PARAMETERS, at | place);
    let mut raw = Raw::open(Server::usual());
    let good = connect_data(0xffff, NQN);
    let with = |at: usize, bytes: &[u8]| {
        let mut data = good.clone();
        data[at..at + bytes.len()].copy_from_slice(bytes);
        data
    };
    let format = connect(0, 31).field(40, [1, 0]);
    assert_eq!(refused(&mut raw, format, &good).0, Status::CONNECT_INCOMPATIBLE_FORMAT);
    for size in [0, 4096, 0xffff] {
        assert_eq!(refused(&mut raw, connect(0, size), &good), parameters(44, entry), "{size}");
    }
    for (data_bytes, at) in [
        (with(16, &[1, 0]), 16),
        (with(16, &[0xfe, 0xff]), 16),
        (with(256, b"nqn.2026-11.io.drumfire:x"), 256),
        (with(256, &[b'a'; 256]), 256),
        (with(256, &[0]), 256),
        (with(256, &[0xff]), 256),
        (with(512, &[b'n'; 224]), 512),
        (with(512, &[b'n'; 256]), 512),
        (with(512, &[0xff]), 512),
    ] {
        assert_eq!(refused(&mut raw, connect(0, 31), &data_bytes), parameters(at, data));
    }
    // Commands other than Connect, and Connect without all of its data.
    let refusal = refused(&mut raw, CommandBuilder::new(admin::IDENTIFY, 1, 0), &[]);
    assert_eq!(refusal.0, Status::SEQUENCE_ERROR);
    assert_eq!(refused(&mut raw, property_get(1, 0, 1), &[]).0, Status::SEQUENCE_ERROR);
    assert_eq!(refused(&mut raw, connect(0, 31), &good[..1023]).0, Status::SGL_LENGTH_INVALID);
    assert_eq!(refused(&mut raw, connect(0, 31), &[]).0, Status::SGL_LENGTH_INVALID);
    // The controller is still available afterwards.
    assert!(raw.ask(connect(0, 31), &good).status().is_success());
    assert_eq!(raw.ask(connect(0, 31), &good).status(), Status::SEQUENCE_ERROR);
}

#[test]
fn hosts_may_be_kept_out() {
    let mut server = Server::usual();
    let allow = |hosts: &[&str]| {
        let hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        let subsystems = proto::nvme::Subsystems::clone(&Server::usual().subsystems);
        std::sync::Arc::new(subsystems.allow_only(NQN, hosts))
    };
    server.subsystems = allow(&["nqn.2026-11.org.other:h"]);
    let mut raw = Raw::open(server);
    let refusal = refused(&mut raw, connect(0, 31), &connect_data(0xffff, NQN));
    assert_eq!(refusal, (Status::CONNECT_INVALID_HOST, 0));
    let entries = crate::joined::discovery(&mut raw.server, usize::MAX).host.entries().unwrap();
    let names: Vec<&str> = entries.iter().map(|entry| entry.nqn.as_str()).collect();
    assert_eq!(names, [OTHER_NQN], "what one may not use is not told");
    raw.server.subsystems = allow(&[HOST_NQN]);
    let mut raw = Raw::open(raw.server);
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
}

#[test]
fn connect_data_may_be_asked_for() {
    let mut raw = Raw::open(Server::usual());
    raw.command(connect(0, 31).transport(1024), &[]);
    let ready = raw.pdus().remove(0);
    assert_eq!((ready.kind(), ready.u32(12), ready.u32(16)), (kind::R2T, 0, 1024));
    raw.send(&crate::flows::host_data(0, ready.u16(10), 0, &connect_data(0xffff, NQN), true));
    assert!(raw.pdus()[0].status().is_success());
    assert_eq!(raw.peer.end.queue_id(), Some(0));
}

#[test]
fn io_queues_join_an_enabled_controller_of_their_host() {
    let mut raw = Raw::open(Server::usual());
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
    let (mut raw, mut admin) = another(raw);
    let (entry, data) = (0, 1 << 16);
    let parameters = |at: u64, place: u64| (Status::CONNECT_INVALID_PARAMETERS, at | place);
    let good = connect_data(1, NQN);
    let refusal = refused(&mut raw, connect(1, 31), &good);
    assert_eq!(refusal.0, Status::SEQUENCE_ERROR, "it is not enabled");
    let enable = capsule(property_set(1, 0x14, 0x46_0001), &[], [false; 2]);
    admin.receive(&mut raw.server, &enable, 7);
    let other = |at: usize, byte: u8| {
        let mut data = good.clone();
        data[at] = byte;
        data
    };
    assert_eq!(refused(&mut raw, connect(1, 31), &other(16, 2)), parameters(16, data));
    assert_eq!(
        refused(&mut raw, connect(1, 31), &connect_data(1, OTHER_NQN)),
        parameters(16, data)
    );
    assert_eq!(refused(&mut raw, connect(1, 31), &other(0, 0xff)), parameters(0, data));
    let host = other(512 + HOST_NQN.len() - 1, b'x');
    assert_eq!(refused(&mut raw, connect(1, 31), &host), parameters(512, data));
    assert_eq!(refused(&mut raw, connect(65, 31), &good), parameters(42, entry));
    let discovery = connect_data(1, DISCOVERY_NQN);
    assert_eq!(refused(&mut raw, connect(1, 31), &discovery), parameters(42, entry));
    assert_eq!(refused(&mut raw, connect(64, 1024), &good), parameters(44, entry));
    assert!(raw.ask(connect(64, 1023), &good).status().is_success());
    assert_eq!(raw.peer.end.queue_id(), Some(64));
    let (mut raw, _queue) = another(raw);
    assert_eq!(refused(&mut raw, connect(64, 31), &good).0, Status::SEQUENCE_ERROR);
    assert!(raw.ask(connect(63, 31), &good).status().is_success());
}

/// SPDK's load generator says nothing where its name should be.
#[test]
fn a_host_need_not_have_a_name() {
    let mut data = connect_data(0xffff, NQN);
    data[512..768].fill(0);
    let mut raw = Raw::open(Server::usual());
    assert!(raw.ask(connect(0, 31), &data).status().is_success());
    assert_eq!(raw.peer.end.host_nqn(), Some(""));
}

/// SPDK's load generator may request a long queue.
#[test]
fn an_admin_queue_may_be_longer_than_io_queues() {
    let mut server = Server::usual();
    server.config.max_queue_depth = 32;
    let mut raw = Raw::open(server);
    assert!(raw.ask(connect(0, 4095), &connect_data(0xffff, NQN)).status().is_success());
}

#[test]
fn limits_are_told_as_busy() {
    let limits = ControllerLimits { controllers: 1, queues: 2, memory_bytes: 2 << 20 };
    let raw = Raw::admin(Server::with_limits(vec![Store::new(1 << 20, 512, true)], limits));
    let (mut raw, _admin) = another(raw);
    // 16 KiB of unsolicited data for each of 64 commands are more than a host may have.
    let refusal = refused(&mut raw, connect(1, 64), &connect_data(1, NQN));
    assert_eq!(refusal.0, Status::CONNECT_CONTROLLER_BUSY);
    assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
    // A controller with an I/O queue is not given up for another one.
    let (mut raw, mut queue) = another(raw);
    raw.command(connect(0, 31), &connect_data(0xffff, NQN));
    introduce(&mut raw.peer, raw.server.now, &mut [&mut queue]);
    assert_eq!(raw.pdus()[0].status(), Status::CONNECT_CONTROLLER_BUSY);
}

#[test]
fn controllers_that_do_nothing_end() {
    let limits = ControllerLimits { controllers: 2, queues: 2, memory_bytes: 2 << 20 };
    let mut raw = Raw::open(Server::with_limits(vec![Store::new(1 << 20, 512, true)], limits));
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
    // Another one takes its place, and it learns of that within a second.
    let (mut raw, mut first) = another(raw);
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
    raw.enable();
    raw.server.now = raw.server.now + Nanos::from_secs(1);
    first.tick(&mut raw.server);
    let why = "timed out: the controller did nothing, and its place was needed";
    assert_eq!(first.ended.map(|ending| ending.to_string()).as_deref(), Some(why));
    assert!(first.end.finished() && raw.server.controllers.count() == 1);
    raw.peer.tick(&mut raw.server);
    assert!(raw.peer.ended.is_none());
    // A controller that is never enabled times out.
    let (mut raw, _second) = another(raw);
    let other = "nqn.2014-08.org.nvmexpress:uuid:0f0e0d0c-0b0a-0908-0706-050403020100";
    let mut data = connect_data(0xffff, NQN);
    data[512..768].fill(0);
    data[512..512 + other.len()].copy_from_slice(other.as_bytes());
    assert!(raw.ask(connect(0, 31), &data).status().is_success());
    for _ in 0..40 {
        raw.server.now = raw.server.now + Nanos::from_secs(1);
        raw.peer.tick(&mut raw.server);
    }
    let why = "timed out: the host did not enable its controller in time";
    assert_eq!(raw.peer.ended.map(|ending| ending.to_string()).as_deref(), Some(why));
}

#[test]
fn properties_are_read_by_their_size() {
    let mut raw = Raw::admin(Server::usual());
    let capabilities = get(&mut raw, 0, 1);
    assert_eq!(capabilities & 0xffff, 1023, "MQES");
    assert_eq!(capabilities >> 16 & 1, 1, "CQR");
    assert_eq!(capabilities >> 24 & 0xff, 15, "TO");
    assert_eq!(capabilities >> 37 & 0xff, 1, "CSS");
    assert_eq!(capabilities >> 48 & 0xff, 0, "MPSMIN, MPSMAX");
    assert_eq!(get(&mut raw, 8, 0), 0x0001_0400);
    assert_eq!(get(&mut raw, 0x14, 0), 0x0046_0001);
    assert_eq!(get(&mut raw, 0x1c, 0), 1);
    for (offset, eight) in [(0x20, 0), (0x24, 0), (0x28, 1), (0x30, 1)] {
        assert_eq!(get(&mut raw, offset, eight), 0);
    }
    for (offset, eight) in [(0, 0), (8, 1), (0x14, 1), (0x1c, 2), (0x38, 0), (4, 0), (!0, 0)] {
        let status = raw.ask(property_get(1, offset, eight), &[]).status();
        assert_eq!(status, Status::INVALID_FIELD, "{offset:#x}");
    }
    for (offset, eight) in [(0, 1), (8, 0), (0x1c, 0), (0x14, 1)] {
        let command = property_set(1, offset, 1).field(40, [eight]);
        assert_eq!(raw.ask(command, &[]).status(), Status::INVALID_FIELD);
    }
}

#[test]
fn commands_wait_for_the_controller_to_be_enabled() {
    let mut raw = Raw::open(Server::usual());
    assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
    for opcode in [admin::IDENTIFY, admin::KEEP_ALIVE, admin::ASYNC_EVENT, 0xc0] {
        let status = raw.ask(CommandBuilder::new(opcode, 1, 0), &[]).status();
        assert_eq!(status, Status::SEQUENCE_ERROR);
    }
    assert_eq!(get(&mut raw, 0x1c, 0), 0);
    // Sizes, page size, arbitration and command set that we do not have are a fatal error.
    for wrong in [0x0047_0001, 0x0056_0001, 0x0007_0001, 0x0046_0081, 0x0046_0801, 0x0046_0011] {
        set_configuration(&mut raw, wrong);
        assert_eq!(get(&mut raw, 0x1c, 0), 2, "{wrong:#x}");
        set_configuration(&mut raw, 0);
        assert_eq!(get(&mut raw, 0x1c, 0), 0);
    }
    raw.enable();
    assert!(raw.ask(CommandBuilder::new(admin::KEEP_ALIVE, 1, 0), &[]).status().is_success());
}

#[test]
fn entry_sizes_may_be_set_after_the_controller_is_enabled() {
    for early in [0x0000_0001, 0x0006_0001, 0x0040_0001, 0x0046_0001] {
        let mut raw = Raw::open(Server::usual());
        assert!(raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status().is_success());
        set_configuration(&mut raw, early);
        assert_eq!(get(&mut raw, 0x1c, 0), 1, "{early:#x}");
        set_configuration(&mut raw, 0x0046_0001);
        assert_eq!((get(&mut raw, 0x14, 0), get(&mut raw, 0x1c, 0)), (0x0046_0001, 1));
        let Raw { server, peer: _admin, .. } = raw;
        let mut raw = Raw::open(server);
        assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
    }
}

#[test]
fn other_fabrics_commands_are_not_known() {
    let mut raw = Raw::admin(Server::usual());
    // Authentication send and receive, and unknown commands.
    for kind in [0x05, 0x06, 0x02, 0x03, 0xc0] {
        let status = raw.ask(CommandBuilder::fabrics(kind, 1), &[]).status();
        assert_eq!(status, Status::INVALID_OPCODE, "{kind:#x}");
    }
    let disconnect = CommandBuilder::fabrics(fabrics::DISCONNECT, 1);
    assert_eq!(raw.ask(disconnect, &[]).status(), Status::INVALID_QUEUE_TYPE);
    let (mut raw, _admin) = Raw::io(Server::usual());
    for command in [property_get(1, 0, 1), property_set(1, 0x14, 0)] {
        assert_eq!(raw.ask(command, &[]).status(), Status::INVALID_OPCODE);
    }
    let status = raw.ask(connect(1, 31), &connect_data(1, NQN)).status();
    assert_eq!(status, Status::SEQUENCE_ERROR);
}

#[test]
fn a_queue_that_disconnects_may_come_again() {
    let (mut raw, _admin) = Raw::io(Server::usual());
    let disconnect = CommandBuilder::fabrics(fabrics::DISCONNECT, 9);
    let status = raw.ask(disconnect.field(40, [1]), &[]).status();
    assert_eq!(status, Status::CONNECT_INCOMPATIBLE_FORMAT);
    assert!(raw.ask(disconnect, &[]).status().is_success());
    assert!(raw.peer.end.finished());
    let (mut raw, _gone) = another(raw);
    assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
}

#[test]
fn a_reset_ends_the_io_queues() {
    let (mut raw, mut admin) = Raw::io(Server::usual());
    let reset = capsule(property_set(1, 0x14, 0), &[], [false; 2]);
    admin.receive(&mut raw.server, &reset, usize::MAX);
    // The queue learns of it when something comes …
    raw.command(CommandBuilder::new(io::FLUSH, 1, 1), &[]);
    assert!(raw.pdus().is_empty() && raw.peer.end.finished());
    // … or when its time has come.
    let enable = capsule(property_set(1, 0x14, 0x46_0001), &[], [false; 2]);
    admin.receive(&mut raw.server, &enable, usize::MAX);
    let (mut raw, mut gone) = another(raw);
    gone.leave(&mut raw.server);
    // The controller is enabled when the reset is over, which the host has not waited for.
    admin.receive(&mut raw.server, &capsule(property_get(3, 0x1c, 0), &[], [false; 2]), usize::MAX);
    assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
    admin.receive(&mut raw.server, &reset, usize::MAX);
    raw.server.now = raw.server.now + Nanos::from_secs(1);
    raw.peer.tick(&mut raw.server);
    assert!(raw.peer.end.finished());
}

#[test]
fn a_shutdown_makes_volumes_durable_first() {
    let stores = vec![Store::new(1 << 20, 512, true), Store::new(1 << 20, 512, true)];
    let mut raw = Raw::admin(Server::new(stores));
    let bytes = capsule(property_set(1, 0x14, 0x0046_4001), &[], [false; 2]);
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &bytes, &mut peer.out).unwrap();
    raw.server.hold(peer);
    assert!(raw.pdus()[0].status().is_success());
    let status = capsule(property_get(2, 0x1c, 0), &[], [false; 2]);
    let peer = &mut raw.peer;
    peer.end.receive(raw.server.now, &status, &mut peer.out).unwrap();
    assert_eq!(raw.pdus()[0].completion().result, 1 | 1 << 2, "in flight");
    raw.server.release(&mut raw.peer);
    assert_eq!(get(&mut raw, 0x1c, 0), 1 | 2 << 2, "complete");
    for store in &raw.server.stores {
        assert_eq!(store.log, [(Op::Flush, 0, 0, false)]);
    }
    let status = raw.ask(CommandBuilder::new(admin::KEEP_ALIVE, 1, 0), &[]).status();
    assert_eq!(status, Status::SEQUENCE_ERROR);
    set_configuration(&mut raw, 0x0046_0000);
    assert_eq!(get(&mut raw, 0x1c, 0), 0);
    raw.enable();
    assert!(raw.ask(CommandBuilder::new(admin::KEEP_ALIVE, 1, 0), &[]).status().is_success());
}

#[test]
fn a_shutdown_that_cannot_be_durable_is_a_fatal_status() {
    let mut raw = Raw::admin(Server::usual());
    raw.server.stores[0].fault = Some(block::Fault::Medium);
    set_configuration(&mut raw, 0x0046_8001);
    assert_eq!(get(&mut raw, 0x1c, 0), 1 | 2 | 2 << 2);
}

#[test]
fn a_connection_that_never_connects_is_cut_off() {
    let mut raw = Raw::fresh(Server::usual());
    assert!(raw.peer.end.half_open());
    assert_eq!(raw.peer.end.deadline(), Some(raw.server.now + Nanos::from_secs(15)));
    raw.server.now = raw.server.now + Nanos::from_secs(14);
    raw.send(&init(0, [false; 2]));
    raw.server.now = raw.server.now + Nanos::from_secs(1);
    raw.peer.tick(&mut raw.server);
    assert!(matches!(raw.peer.ended, Some(Ending::TimedOut(_))));
}

#[test]
fn a_controller_that_is_not_kept_alive_ends_with_its_queues() {
    let mut raw = Raw::open(Server::usual());
    let with_keep_alive = connect(0, 31).field(48, 2500_u32.to_le_bytes());
    assert!(raw.ask(with_keep_alive, &connect_data(0xffff, NQN)).status().is_success());
    raw.enable();
    let (mut queue, admin) = another(raw);
    assert!(queue.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
    let (mut raw, mut queue) = {
        let Raw { server, peer, .. } = queue;
        (Raw { server, peer: admin, digests: [false; 2], kept: Vec::new() }, peer)
    };
    // 2.5 s are rounded up to 3 s.
    for _ in 0..4 {
        raw.server.now = raw.server.now + Nanos::from_millis(2900);
        raw.peer.tick(&mut raw.server);
        let beat = raw.ask(CommandBuilder::new(admin::KEEP_ALIVE, 1, 0), &[]);
        assert!(beat.status().is_success());
    }
    assert_eq!(raw.server.controllers.count(), 1);
    raw.server.now = raw.server.now + Nanos::from_millis(3000);
    raw.peer.tick(&mut raw.server);
    assert!(matches!(raw.peer.ended, Some(Ending::TimedOut(_))));
    assert_eq!(raw.server.controllers.count(), 0);
    queue.tick(&mut raw.server);
    assert!(queue.end.finished());
}

#[test]
fn the_end_of_the_admin_connection_is_the_end_of_the_controller() {
    let (mut raw, mut admin) = Raw::io(Server::usual());
    admin.leave(&mut raw.server);
    assert_eq!(raw.server.controllers.count(), 0);
    raw.command(CommandBuilder::new(io::FLUSH, 1, 1), &[]);
    assert!(raw.peer.end.finished() && raw.pdus().is_empty());
}

#[test]
fn several_hosts_have_controllers_of_their_own() {
    let raw = Raw::admin(Server::usual());
    let (mut raw, _first) = another(raw);
    let mut data = connect_data(0xffff, NQN);
    data[..16].copy_from_slice(&HOST_ID.map(|byte| byte ^ 1));
    data[512..512 + 24].copy_from_slice(b"nqn.2026-11.org.other:h\0");
    assert_eq!(raw.ask(connect(0, 31), &data).completion().result, 2);
    assert_eq!(raw.peer.end.host_nqn(), Some("nqn.2026-11.org.other:h"));
    assert_eq!(raw.server.controllers.count(), 2);
}
