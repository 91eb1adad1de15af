//! Reservations among several hosts of one subsystem.

use block::Nanos;
use proto::nvme::pdu::{CommandBuilder, Status, admin, io};
use proto::{Endpoint, Target};

use crate::raw::{Pdu, capsule, connect, connect_data, init, parse, property_set};
use crate::server::{NQN, Peer, Server};

/// A host with its admin and one I/O queue.
struct Host {
    admin: Peer,
    io: Peer,
}

/// The hosts of a server, by number.
struct Hosts {
    server: Server,
    hosts: Vec<Host>,
}

const NOTHING: [bool; 2] = [false; 2];

fn send(server: &mut Server, peer: &mut Peer, command: CommandBuilder, data: &[u8]) -> Vec<Pdu> {
    peer.receive(server, &capsule(command, data, NOTHING), usize::MAX);
    parse(&peer.sent(), NOTHING)
}

fn queue(server: &mut Server, number: u8, queue: u16, controller: u16) -> Peer {
    let mut peer = server.accept();
    peer.receive(server, &init(0, NOTHING), usize::MAX);
    peer.sent();
    let mut data = connect_data(controller, NQN);
    data[..16].copy_from_slice(&[number; 16]);
    data[512 + 27] = b'a' + number;
    let answer = send(server, &mut peer, connect(queue, 31), &data).remove(0);
    assert!(answer.status().is_success(), "{}", answer.status());
    peer
}

impl Hosts {
    /// Hosts with the identifiers 1 and up on two namespaces, whose I/Os reach the stores.
    fn new(count: u8) -> Hosts {
        let mut hosts = Hosts { server: Server::apart(), hosts: Vec::new() };
        (1..=count).for_each(|number| hosts.add(number));
        hosts
    }

    fn add(&mut self, number: u8) {
        let mut admin = queue(&mut self.server, number, 0, 0xffff);
        send(&mut self.server, &mut admin, property_set(7, 0x14, 0x0046_0001), &[]);
        let controller = admin.end.controller_id().unwrap();
        let io = queue(&mut self.server, number, 1, controller);
        self.hosts.push(Host { admin, io });
        self.spread();
    }

    fn queues(&mut self) -> Vec<&mut Peer> {
        self.hosts.iter_mut().flat_map(|host| [&mut host.admin, &mut host.io]).collect()
    }

    /// Carries notices to the other queues, as the server does.
    fn spread(&mut self) {
        for from in 0..self.hosts.len() * 2 {
            let notices = self.queues()[from].end.take_notices();
            for (_, peer) in self.queues().into_iter().enumerate().filter(|(to, _)| *to != from) {
                notices.iter().for_each(|it| peer.end.notice(it, &mut || true, &mut peer.out));
            }
        }
        let now = self.server.now;
        self.queues().into_iter().for_each(|peer| peer.end.drained(now, &mut peer.out));
    }

    /// Sends an I/O command of a host, and takes its answers.
    fn io(&mut self, who: usize, command: CommandBuilder, data: &[u8]) -> Vec<Pdu> {
        let peer = &mut self.hosts[who].io;
        peer.receive(&mut self.server, &capsule(command, data, NOTHING), usize::MAX);
        self.spread();
        parse(&self.hosts[who].io.sent(), NOTHING)
    }

    fn status(&mut self, who: usize, command: CommandBuilder, data: &[u8]) -> Status {
        let last = self.io(who, command, data).pop().expect("an answer");
        if last.data.is_empty() { last.status() } else { Status::SUCCESS }
    }

    fn admin(&mut self, who: usize, command: CommandBuilder) -> Vec<Pdu> {
        send(&mut self.server, &mut self.hosts[who].admin, command, &[])
    }

    fn register(&mut self, who: usize, action: u32, key: u64, new_key: u64) -> Status {
        self.status(who, resv(io::RESERVATION_REGISTER, action), &keys(&[key, new_key]))
    }

    fn acquire(&mut self, who: usize, action: u32, kind: u32, key: u64, victim: u64) -> Status {
        let command = resv(io::RESERVATION_ACQUIRE, action | kind << 8);
        self.status(who, command, &keys(&[key, victim]))
    }

    fn release(&mut self, who: usize, action: u32, kind: u32, key: u64) -> Status {
        self.status(who, resv(io::RESERVATION_RELEASE, action | kind << 8), &keys(&[key]))
    }

    fn read(&mut self, who: usize) -> Status {
        self.status(who, block(io::READ).transport(512), &[])
    }

    fn write(&mut self, who: usize) -> Status {
        self.status(who, block(io::WRITE), &[7; 512])
    }

    fn report(&mut self, who: usize) -> Vec<u8> {
        let report = CommandBuilder::new(io::RESERVATION_REPORT, 9, 1);
        let report = report.word(10, 255).word(11, 1).transport(1024);
        self.io(who, report, &[]).remove(0).data
    }

    /// The next entry of the Reservation Notification log: count, type, further ones.
    fn log(&mut self, who: usize) -> (u8, u8, u8) {
        let log = CommandBuilder::new(admin::GET_LOG_PAGE, 4, u32::MAX).word(10, 15 << 16 | 0x80);
        let page = self.admin(who, log.transport(64)).remove(0).data;
        (page[0], page[8], page[9])
    }
}

fn resv(opcode: u8, word: u32) -> CommandBuilder {
    CommandBuilder::new(opcode, 8, 1).word(10, word)
}

fn keys(keys: &[u64]) -> Vec<u8> {
    keys.iter().flat_map(|key| key.to_le_bytes()).collect()
}

fn block(opcode: u8) -> CommandBuilder {
    CommandBuilder::new(opcode, 7, 1).range(3, 1)
}

const OK: Status = Status::SUCCESS;
const CONFLICT: Status = Status::RESERVATION_CONFLICT;
const IGNORE: u32 = 8;

#[test]
fn types_let_in_whom_they_say() {
    // Type; reads and writes of a registrant, and of a stranger.
    for (kind, registrant, stranger) in [
        (1, [true, false], [true, false]),
        (2, [false, false], [false, false]),
        (3, [true, true], [true, false]),
        (4, [true, true], [false, false]),
        (5, [true, true], [true, false]),
        (6, [true, true], [false, false]),
    ] {
        let mut hosts = Hosts::new(3);
        assert_eq!([0, 1].map(|who| hosts.register(who, 0, 0, 7 + who as u64)), [OK; 2]);
        assert_eq!(hosts.acquire(2, 0, kind, 0, 0), CONFLICT, "a stranger");
        assert_eq!(hosts.acquire(0, 0, kind, 7, 0), OK);
        for (who, expect) in [(0, [true; 2]), (1, registrant), (2, stranger)] {
            for _ in 0..2 {
                let may = [hosts.read(who) == OK, hosts.write(who) == OK];
                assert_eq!(may, expect, "type {kind}, host {who}");
                let compare = block(io::COMPARE);
                let compare = hosts.status(who, compare, &[7; 512]);
                assert_eq!(compare != CONFLICT, expect[0]);
                let verify = hosts.status(who, block(io::VERIFY), &[]);
                assert_eq!(verify != CONFLICT, expect[0]);
                let others = [
                    (CommandBuilder::new(io::FLUSH, 7, 1), vec![]),
                    (block(io::WRITE_ZEROES), vec![]),
                    (CommandBuilder::new(io::COPY, 7, 1), vec![0; 32]),
                    (CommandBuilder::new(io::DATASET_MANAGEMENT, 7, 1).word(11, 4), vec![0; 16]),
                ];
                for (command, data) in others {
                    assert_eq!(hosts.status(who, command, &data) != CONFLICT, expect[1]);
                }
            }
        }
        let report = hosts.report(2);
        let holders = if kind >= 5 { [1, 1] } else { [1, 0] };
        assert_eq!(report[..10], [2, 0, 0, 0, kind as u8, 2, 0, 0, 0, 0]);
        for (at, holder) in [(64, holders[0]), (128, holders[1])] {
            let number = (at / 64) as u8;
            assert_eq!(report[at..at + 3], [0xff, 0xff, holder], "type {kind}");
            assert_eq!(report[at + 8..at + 16], (6 + u64::from(number)).to_le_bytes());
            assert_eq!(report[at + 16..at + 32], [number; 16]);
        }
        assert_eq!(report.len(), 1024);
        assert_eq!(hosts.release(1, 0, kind, 9), CONFLICT, "another key");
        let wrong = if kind == 6 { 5 } else { kind + 1 };
        assert_eq!(hosts.release(0, 0, wrong, 7), Status::INVALID_FIELD);
        assert_eq!(hosts.release(0, 0, kind, 7), OK);
        assert_eq!((hosts.write(2), hosts.read(2)), (OK, OK));
        let told = if kind >= 3 { (1, 2, 0) } else { (0, 0, 0) };
        assert_eq!([0, 1, 2].map(|who| hosts.log(who)), [(0, 0, 0), told, (0, 0, 0)]);
    }
}

#[test]
fn a_host_registers_replaces_and_leaves() {
    let mut hosts = Hosts::new(2);
    for (who, action, key, new_key, status) in [
        (0, 1, 0, 0, CONFLICT),
        (0, 1 | IGNORE, 0, 0, CONFLICT),
        (0, 2, 0, 5, CONFLICT),
        (0, 0, 0, 0, Status::INVALID_FIELD),
        (0, 3, 0, 5, Status::INVALID_FIELD),
        (0, 1 << 30, 0, 5, Status::INVALID_FIELD),
        (0, 3 << 30, 99, 5, OK),
        (0, 0, 0, 5, OK),
        (0, 0, 5, 6, CONFLICT),
        (0, 2, 4, 6, CONFLICT),
        (0, 2, 5, 6, OK),
        (0, 2 | IGNORE, 0, 7, OK),
        (0, 1, 6, 0, CONFLICT),
        (0, 1, 7, 0, OK),
        (1, 2 | IGNORE, 0, 8, OK),
        (1, 1 | IGNORE, 0, 0, OK),
    ] {
        assert_eq!(hosts.register(who, action, key, new_key), status, "{action} {key} {new_key}");
    }
    assert_eq!(hosts.report(0)[..7], [7, 0, 0, 0, 0, 0, 0]);
    for command in [resv(io::RESERVATION_ACQUIRE, 1 << 8), resv(io::RESERVATION_RELEASE, 1)] {
        let with_key = command.word(10, 1 | 1 << 8 | IGNORE);
        assert_eq!(hosts.status(0, with_key, &[0; 16]), Status::INVALID_FIELD, "IEKEY");
        assert_eq!(hosts.status(0, command, &[0; 7]), Status::SGL_LENGTH_INVALID);
    }
    for (opcode, word) in [
        (io::RESERVATION_ACQUIRE, 0),
        (io::RESERVATION_ACQUIRE, 7 << 8),
        (io::RESERVATION_ACQUIRE, 3 | 1 << 8),
        (io::RESERVATION_RELEASE, 0),
        (io::RESERVATION_RELEASE, 2 | 1 << 8),
    ] {
        let status = hosts.status(0, resv(opcode, word), &[0; 16]);
        assert_eq!(status, Status::INVALID_FIELD, "{opcode:#x} {word:#x}");
    }
    for opcode in [0x0d, 0x0e, 0x11, 0x15] {
        let elsewhere = resv(opcode, 0).field(4, 3_u32.to_le_bytes()).word(11, 1);
        assert_eq!(hosts.status(0, elsewhere, &[0; 16]), Status::INVALID_NAMESPACE);
    }
    let report = resv(io::RESERVATION_REPORT, 15).transport(64);
    assert_eq!(hosts.status(0, report, &[]), Status::HOST_IDENTIFIER_FORMAT, "without EDS");
    let long = report.word(10, u32::MAX).word(11, 1);
    assert_eq!(hosts.status(0, long, &[]), Status::INVALID_FIELD);
    let short = report.word(10, 0).word(11, 1).transport(4);
    assert_eq!(hosts.io(0, short, &[]).remove(0).data, [7, 0, 0, 0]);
}

#[test]
fn a_host_without_an_identifier_registers_nothing() {
    let mut hosts = Hosts::new(0);
    hosts.add(0);
    assert_eq!(hosts.register(0, 0, 0, 5), Status::SEQUENCE_ERROR);
    assert_eq!(hosts.report(0)[..7], [0; 7]);
}

#[test]
fn a_registration_outlives_the_controllers_of_its_host() {
    let mut hosts = Hosts::new(2);
    assert_eq!(hosts.register(0, 0, 0, 5), OK);
    assert_eq!(hosts.acquire(0, 0, 2, 5, 0), OK);
    let Host { mut admin, mut io } = hosts.hosts.remove(0);
    io.leave(&mut hosts.server);
    admin.leave(&mut hosts.server);
    assert_eq!(hosts.read(0), CONFLICT);
    hosts.add(1);
    assert_eq!((hosts.read(0), hosts.read(1), hosts.write(1)), (CONFLICT, OK, OK));
    assert_eq!(hosts.release(1, 1, 0, 5), OK, "clear");
    assert_eq!(hosts.read(0), OK);
}

#[test]
fn preempted_hosts_hear_of_it_unless_they_mask_it() {
    let mut hosts = Hosts::new(3);
    for who in 0..3 {
        assert_eq!(hosts.register(who, 0, 0, 10 + who as u64), OK);
    }
    let mask = |value: u32| {
        let set = CommandBuilder::new(admin::SET_FEATURES, 5, 1);
        set.word(10, 0x82).word(11, value)
    };
    assert_eq!(hosts.admin(0, mask(1))[0].status(), Status::INVALID_FIELD);
    assert_eq!(hosts.admin(2, mask(1 << 2))[0].status(), OK, "no released reservations");
    let get = CommandBuilder::new(admin::GET_FEATURES, 5, 1).word(10, 0x82);
    assert_eq!(hosts.admin(2, get)[0].completion().result, 1 << 2);
    let of_all = get.field(4, u32::MAX.to_le_bytes());
    assert_eq!(hosts.admin(2, of_all)[0].status(), Status::INVALID_NAMESPACE);
    assert_eq!(hosts.admin(0, CommandBuilder::new(admin::ASYNC_EVENT, 11, 0)).len(), 0);
    assert_eq!(hosts.acquire(0, 0, 3, 10, 0), OK);
    // Host 1 takes the reservation of host 0, and changes its type.
    assert_eq!(hosts.acquire(1, 1, 4, 11, 10), OK);
    let event = parse(&hosts.hosts[0].admin.sent(), NOTHING).remove(0).completion();
    assert_eq!((event.command, event.result), (11, 0x80_00_06));
    assert_eq!([0, 1, 2].map(|who| hosts.log(who)), [(1, 1, 0), (0, 0, 0), (0, 0, 0)]);
    assert_eq!((hosts.read(0), hosts.read(1), hosts.read(2)), (CONFLICT, OK, OK));
    assert_eq!(hosts.acquire(1, 1, 4, 11, 99), CONFLICT, "nobody has that key");
    assert_eq!(hosts.acquire(1, 1, 4, 11, 0), Status::INVALID_FIELD);
    assert_eq!(hosts.release(1, 1, 0, 11), OK, "clear");
    assert_eq!(hosts.log(2), (1, 3, 0));
}

#[test]
fn persistence_is_not_offered() {
    let mut hosts = Hosts::new(1);
    let set =
        |value: u32| CommandBuilder::new(admin::SET_FEATURES, 5, 1).word(10, 0x83).word(11, value);
    assert_eq!(hosts.admin(0, set(1))[0].status(), Status::INVALID_FIELD);
    assert_eq!(hosts.admin(0, set(0))[0].status(), OK);
    let get = CommandBuilder::new(admin::GET_FEATURES, 5, 1).word(10, 0x83);
    assert_eq!(hosts.admin(0, get)[0].completion().result, 0);
}

#[test]
fn preempt_and_abort_waits_for_the_io_of_its_victims() {
    for gone in [false, true] {
        let mut hosts = Hosts::new(2);
        assert_eq!([0, 1].map(|who| hosts.register(who, 0, 0, 7 + who as u64)), [OK; 2]);
        assert_eq!(hosts.acquire(0, 0, 1, 7, 0), OK);
        // A write of host 0 that is with the volume, and one whose data is requested.
        let Hosts { server, hosts: list } = &mut hosts;
        let Peer { end, out, .. } = &mut list[0].io;
        let write = capsule(block(io::WRITE), &[9; 512], NOTHING);
        let asks = capsule(block(io::WRITE).transport(512).field(2, [70, 0]), &[], NOTHING);
        for bytes in [write, asks] {
            end.receive(Nanos(2_000_000_000), &bytes, out).unwrap();
        }
        server.hold(&mut list[0].io);
        list[0].io.sent();
        if gone {
            list[0].io.end.abandon(&server.pool);
        }
        let preempt = resv(io::RESERVATION_ACQUIRE, 2 | 2 << 8);
        assert!(hosts.io(1, preempt, &keys(&[8, 7])).is_empty(), "the write is with the volume");
        assert!(hosts.hosts[1].io.end.starves());
        let Hosts { server, hosts: list } = &mut hosts;
        server.release(&mut list[0].io);
        hosts.spread();
        let answer = parse(&hosts.hosts[1].io.sent(), NOTHING);
        assert_eq!(answer[0].status(), OK);
        assert!(!hosts.hosts[1].io.end.starves());
        if gone {
            continue;
        }
        let ended = parse(&hosts.hosts[0].io.sent(), NOTHING);
        assert_eq!(ended.len(), 1, "{ended:?}");
        assert_eq!(ended[0].completion().command, 7);
        assert_eq!(ended[0].status(), Status::PREEMPTED_AND_ABORTED);
        assert_eq!((hosts.read(0), hosts.log(0)), (CONFLICT, (1, 1, 0)));
    }
}
