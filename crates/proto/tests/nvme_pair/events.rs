//! Namespaces that come and go while hosts are connected, and the events that say so.

use proto::nvme::DISCOVERY_NQN;
use proto::nvme::pdu::{CommandBuilder, Status, admin, io};
use proto::{Endpoint, Target, UnitId};

use crate::raw::{Pdu, Raw, capsule, connect, connect_data};
use crate::server::{Peer, Server};

/// Result of an event request: type Notice, the changed namespaces, their log page.
const NAMESPACES_CHANGED: u64 = 0x04_00_02;

fn event(id: u16) -> CommandBuilder {
    CommandBuilder::new(admin::ASYNC_EVENT, id, 0)
}

fn identify(cns: u32, namespace: u32) -> CommandBuilder {
    CommandBuilder::new(admin::IDENTIFY, 3, namespace).word(10, cns).transport(4096)
}

/// The Changed Attached Namespace List.
fn changed(raw: &mut Raw) -> Vec<u8> {
    let words = 4096 / 4 - 1;
    let page = CommandBuilder::new(admin::GET_LOG_PAGE, 4, u32::MAX).word(10, words << 16 | 4);
    raw.ask_data(page.transport(4096))
}

fn enable(raw: &mut Raw, events: u32) {
    let set = CommandBuilder::new(admin::SET_FEATURES, 5, 0).word(10, 0x0b).word(11, events);
    assert_eq!(raw.ask(set, &[]).status(), Status::SUCCESS);
}

fn renew(raw: &mut Raw) -> (bool, Vec<Pdu>) {
    let stays = raw.peer.end.renew(&mut raw.peer.out);
    (stays, raw.pdus())
}

/// Two volumes, of which only these are offered.
fn server(ids: &[usize]) -> Server {
    let mut server = Server::apart();
    server.offer(ids);
    server
}

fn read(namespace: u32) -> CommandBuilder {
    CommandBuilder::new(io::READ, 9, namespace).range(0, 1).transport(if namespace == 1 {
        512
    } else {
        4096
    })
}

/// Bytes of a read, which succeeds.
fn bytes_of(raw: &mut Raw, namespace: u32) -> usize {
    raw.command(read(namespace), &[]);
    raw.pdus().iter().map(|pdu| pdu.data.len()).sum()
}

#[test]
fn a_host_hears_of_a_new_namespace_and_reads_it() {
    let (mut queue, mut admin_queue) = Raw::io(server(&[1]));
    assert_eq!(queue.ask(read(2), &[]).status(), Status::INVALID_FIELD);
    std::mem::swap(&mut queue.peer, &mut admin_queue);
    let raw = &mut queue;
    let oaes = raw.ask_data(identify(1, 0))[92..96].to_vec();
    assert_eq!(oaes, (1u32 << 8).to_le_bytes());
    enable(raw, 1 << 8);
    raw.command(event(11), &[]);
    assert_eq!(renew(raw).1.len(), 0, "nothing has changed");
    raw.server.offer(&[1, 2]);
    let (stays, pdus) = renew(raw);
    let completion = pdus[0].completion();
    assert!(stays);
    assert_eq!((completion.command, completion.result), (11, NAMESPACES_CHANGED));
    assert_eq!(raw.ask_data(identify(2, 0))[..8], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(changed(raw)[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
    raw.command(event(12), &[]);
    assert!(raw.pdus().is_empty(), "the list was read");
    // The I/O queue, on another core, has not taken over the subsystem yet.
    std::mem::swap(&mut queue.peer, &mut admin_queue);
    assert_eq!(bytes_of(&mut queue, 2), 4096);
}

#[test]
fn an_event_waits_for_a_request_and_for_the_host_that_enables_it() {
    let mut raw = Raw::admin(server(&[1]));
    raw.server.offer(&[1, 2]);
    assert!(renew(&mut raw).1.is_empty());
    raw.command(event(11), &[]);
    assert!(raw.pdus().is_empty(), "not enabled");
    let set = CommandBuilder::new(admin::SET_FEATURES, 5, 0).word(10, 0x0b).word(11, 1 << 8);
    raw.command(set, &[]);
    let pdus = raw.pdus();
    assert_eq!((pdus.len(), pdus[1].completion().command), (2, 11));
    raw.server.offer(&[1]);
    renew(&mut raw);
    raw.command(event(12), &[]);
    assert!(raw.pdus().is_empty(), "the first event is masked until the list is read");
    assert_eq!(changed(&mut raw)[..4], [2, 0, 0, 0]);
}

#[test]
fn a_withdrawn_namespace_ends_when_its_last_command_has() {
    let (mut queue, _admin) = Raw::io(server(&[1, 2]));
    let Peer { end, out, .. } = &mut queue.peer;
    end.receive(queue.server.now, &capsule(read(2), &[], [false; 2]), out).unwrap();
    queue.server.hold(&mut queue.peer);
    let shared = queue.server.subsystems.list()[0].namespaces[1].as_ref().unwrap().shared.clone();
    queue.server.offer(&[1]);
    shared.withdraw();
    assert!(renew(&mut queue).0);
    assert!(queue.peer.end.uses(UnitId(1)), "a command is in flight");
    for command in [read(2), CommandBuilder::new(io::FLUSH, 10, 2)] {
        assert_eq!(queue.ask(command, &[]).status(), Status::INVALID_NAMESPACE);
    }
    queue.server.release(&mut queue.peer);
    assert_eq!(queue.pdus().iter().filter(|pdu| !pdu.data.is_empty()).count(), 1);
    assert!(renew(&mut queue).0);
    assert!(!queue.peer.end.uses(UnitId(1)) && queue.peer.end.uses(UnitId(0)));
    assert_eq!(queue.ask(read(2), &[]).status(), Status::INVALID_FIELD);
    assert_eq!(bytes_of(&mut queue, 1), 512);
}

#[test]
fn a_discovery_controller_tells_of_new_subsystems() {
    let mut raw = Raw::open(server(&[1]));
    let answer = raw.ask(connect(0, 31), &connect_data(0xffff, DISCOVERY_NQN));
    assert!(answer.status().is_success());
    raw.enable();
    let oaes = raw.ask_data(identify(1, 0))[92..96].to_vec();
    assert_eq!(oaes, (1u32 << 31).to_le_bytes());
    enable(&mut raw, 1 << 31);
    raw.command(event(11), &[]);
    raw.server.offer(&[1, 2]);
    let completion = renew(&mut raw).1[0].completion();
    assert_eq!((completion.command, completion.result), (11, 0x70_f0_02));
    let words = 1024 / 4 - 1;
    let log = CommandBuilder::new(admin::GET_LOG_PAGE, 4, 0).word(10, words << 16 | 0x70);
    assert_eq!(raw.ask_data(log.transport(1024))[..8], 3u64.to_le_bytes());
}
