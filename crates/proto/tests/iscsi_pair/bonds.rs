//! One volume over three protocols: its reservations bind initiators, hosts and clients alike.

use std::sync::{Arc, Mutex};

use block::{Backing, Cause, Done, Geometry, Memory, Nanos, Pool};
use proto::iscsi::pdu::Response;
use proto::nbd::{NbdExport, NbdExports, NbdTarget, NbdTargetConfig};
use proto::nvme::pdu::{CommandBuilder, Completion, InitRequest, Status, admin, fabrics, io, kind};
use proto::nvme::{Controllers, Namespace, NvmeTarget, Subsystem, Subsystems};
use proto::scsi::{Keeper, NotSaved, Sense, UnitShared, cdb};
use proto::{DiskId, Endpoint, Notice, Outbox, Target, UnitId};

use crate::harness::{Setup, drain};
use crate::raw::{Raw, Way};

#[path = "../../src/scsi/reservation/model.rs"]
mod model;

use model::{Ask, End, HOSTS, JOIN, LEAVE, Model, PORTS, REPLACE};

const NQN: &str = "nqn.2026-11.io.drumfire:disk";
const KINDS: [u8; 6] = [1, 3, 5, 6, 7, 8];
const CONFLICT: u8 = 0x18;
const EPERM: u32 = 1;

/// A client of the same volume over NBD, past its choice of the export.
struct NbdClient {
    end: NbdTarget,
    out: Outbox,
}

impl NbdClient {
    fn new(bonds: &UnitShared) -> NbdClient {
        let export = NbdExport {
            name: "disk".to_owned(),
            alias: String::new(),
            description: String::new(),
            id: UnitId(0),
            geometry: Geometry::new(8 << 20, 512),
            memory: Some(Memory::new(8 << 20).unwrap()),
            instance: None,
            extents: None,
            shared: bonds.clone(),
        };
        let exports = Arc::new(NbdExports::new(vec![export]).unwrap());
        let mut end = NbdTarget::new(exports, NbdTargetConfig::default(), Nanos(0));
        let mut out = Outbox::new(Pool::new(64, 16));
        end.begin(&mut out);
        // Flags, and EXPORT_NAME.
        let hello = [&[0, 0, 0, 3][..], b"IHAVEOPT", &[0, 0, 0, 1, 0, 0, 0, 4], b"disk"].concat();
        end.receive(Nanos(0), &hello, &mut out).unwrap();
        drain(&mut out);
        NbdClient { end, out }
    }

    /// Error of a command for the first block.
    fn ask(&mut self, kind: u8) -> u32 {
        let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, kind];
        request.extend([0; 16]);
        request.extend(512_u32.to_be_bytes());
        if kind == 1 {
            request.extend([7; 512]);
        }
        self.end.receive(Nanos(0), &request, &mut self.out).unwrap();
        let reply = drain(&mut self.out);
        u32::from_be_bytes(*reply[4..].first_chunk().unwrap())
    }
}

/// A queue of a host of the same volume over NVMe.
struct Queue {
    end: NvmeTarget,
    out: Outbox,
}

impl Queue {
    fn new(subsystems: &Arc<Subsystems>, controllers: &Arc<Controllers>) -> Queue {
        let (subsystems, controllers) = (Arc::clone(subsystems), Arc::clone(controllers));
        let end =
            NvmeTarget::new(Arc::default(), subsystems, controllers, "192.0.2.1", "4420", Nanos(0));
        let mut queue = Queue { end, out: Outbox::new(Pool::new(64, 16)) };
        let (header_digest, data_digest) = (false, false);
        let init = InitRequest { version: 0, alignment: 0, header_digest, data_digest, max_r2t: 0 };
        queue.end.receive(Nanos(0), &init.build(), &mut queue.out).unwrap();
        drain(&mut queue.out);
        queue
    }

    fn send(&mut self, command: CommandBuilder, data: &[u8]) -> Vec<u8> {
        self.put(command, data);
        drain(&mut self.out)
    }

    fn put(&mut self, command: CommandBuilder, data: &[u8]) {
        let len = data.len() as u32;
        let (command, offset) = match data {
            [] => (command, 0),
            _ => (command.in_capsule(len), 72),
        };
        let capsule = command.capsule(0, offset, 72 + len);
        let bytes = [&capsule[..], data].concat();
        self.end.receive(Nanos(0), &bytes, &mut self.out).unwrap();
    }

    fn connect(&mut self, host: u8, queue: u16, controller: u16) {
        let mut data = vec![0; 1024];
        data[..16].copy_from_slice(&[host; 16]);
        data[16..18].copy_from_slice(&controller.to_le_bytes());
        data[256..256 + NQN.len()].copy_from_slice(NQN.as_bytes());
        let command = CommandBuilder::fabrics(fabrics::CONNECT, 0);
        let command = command.field(42, queue.to_le_bytes()).field(44, 31_u16.to_le_bytes());
        let answer = self.send(command, &data);
        let completion = Completion::parse(answer[..].first_chunk().unwrap());
        assert!(completion.status.is_success(), "{}", completion.status);
    }
}

/// A volume with initiators, hosts and a client.
struct Volume {
    raws: Vec<Raw>,
    /// Admin and I/O queue of each host.
    hosts: Vec<[Queue; 2]>,
    nbd: NbdClient,
}

impl Volume {
    /// A volume whose memory connections know, or else their I/Os are requests.
    fn of(in_place: bool) -> Volume {
        Volume::with(in_place, UnitShared::default())
    }

    fn with(in_place: bool, bonds: UnitShared) -> Volume {
        let setup = Setup { bonds: Some(bonds.clone()), in_place, ..Setup::default() };
        let setup = setup.together();
        let raws = (1..=HOSTS as u32).map(|number| Raw::one_of(&setup, number)).collect();
        let namespace = Namespace {
            id: UnitId(0),
            geometry: Geometry::new(8 << 20, 512),
            memory: in_place.then(|| Memory::new(8 << 20).unwrap()),
            disk: DiskId::new([1; 16]),
            backing: Backing::Memory,
            instance: None,
            shared: bonds.clone(),
        };
        let (serial, model) = ("1".to_owned(), "ram".to_owned());
        let namespaces = vec![Some(namespace)];
        let subsystem = Subsystem { nqn: NQN.to_owned(), namespaces, serial, model, shared: false };
        let subsystems = Arc::new(Subsystems::new(vec![subsystem]).unwrap());
        let controllers = Arc::new(Controllers::new(Default::default()));
        let host = |number: usize| {
            let mut admin = Queue::new(&subsystems, &controllers);
            admin.connect(number as u8, 0, 0xffff);
            let enable = CommandBuilder::fabrics(fabrics::PROPERTY_SET, 1);
            let enable = enable.field(44, 0x14_u32.to_le_bytes());
            admin.send(enable.field(48, 0x0046_0001_u64.to_le_bytes()), &[]);
            let mut io = Queue::new(&subsystems, &controllers);
            io.connect(number as u8, 1, admin.end.controller_id().unwrap());
            [admin, io]
        };
        let hosts = (HOSTS..PORTS).map(host).collect();
        Volume { raws, hosts, nbd: NbdClient::new(&bonds) }
    }

    /// Carries notices to all other connections, as the server does.
    fn spread(&mut self) {
        let mut all: Vec<Vec<Notice>> =
            self.raws.iter_mut().map(|raw| raw.served.end.take_notices()).collect();
        all.extend(self.hosts.iter_mut().flatten().map(|queue| queue.end.take_notices()));
        for (from, notices) in all.into_iter().enumerate() {
            for notice in &notices {
                let raws = self.raws.iter_mut().enumerate().filter(|(at, _)| *at != from);
                raws.for_each(|(_, raw)| raw.notice(notice));
                let queues = self.hosts.iter_mut().flatten().enumerate();
                for (_, queue) in queues.filter(|(at, _)| at + HOSTS != from) {
                    queue.end.notice(notice, &mut || true, &mut queue.out);
                }
            }
        }
        for raw in &mut self.raws {
            raw.served.end.drained(raw.now, &mut raw.served.out);
        }
        for queue in self.hosts.iter_mut().flatten() {
            queue.end.drained(Nanos(0), &mut queue.out);
        }
    }

    /// The end of the last command of a party, if it has ended.
    fn answer(&mut self, who: usize) -> Option<End> {
        if who < HOSTS {
            let answers = self.raws[who].answers();
            let (header, _) = answers.last()?;
            return Some(match Response::parse(header).status {
                0 => End::Good,
                CONFLICT => End::Conflict,
                _ => End::Illegal,
            });
        }
        let answer = drain(&mut self.hosts[who - HOSTS][1].out);
        if *answer.first()? == kind::C2H_DATA {
            return Some(End::Good);
        }
        let completion = Completion::parse(answer[..].first_chunk().unwrap());
        Some(match (completion.status.kind(), completion.status.code()) {
            (0, 0) => End::Good,
            (0, 0x83) => End::Conflict,
            (0, 0x02) => End::Illegal,
            other => panic!("{other:?}"),
        })
    }

    fn scsi(&mut self, who: usize, cdb: [u8; 16], way: Way, len: u32, data: &[u8]) -> End {
        let tag = self.raws[who].command(1, cdb, way, len, data);
        match self.raws[who].end(tag).status {
            0 => End::Good,
            CONFLICT => End::Conflict,
            _ => End::Illegal,
        }
    }

    fn nvme(&mut self, who: usize, command: CommandBuilder, data: &[u8]) -> End {
        self.hosts[who - HOSTS][1].put(command, data);
        self.answer(who).expect("an answer")
    }

    fn ask(&mut self, who: usize, ask: Ask) -> End {
        self.begin(who, ask);
        self.answer(who).expect("an answer")
    }

    /// Sends a reservation command.
    fn begin(&mut self, who: usize, ask: Ask) {
        if who < HOSTS {
            let mut cdb = [0; 16];
            (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, ask.action, ask.kind, 24);
            let mut list = [0; 24];
            list[..8].copy_from_slice(&ask.key.to_be_bytes());
            list[8..16].copy_from_slice(&ask.new_key.to_be_bytes());
            self.raws[who].command(1, cdb, Way::Write, 24, &list);
        } else {
            let (register, acquire) = (io::RESERVATION_REGISTER, io::RESERVATION_ACQUIRE);
            let (opcode, action) = match ask.action {
                JOIN => (register, 0),
                11 => (register, 1),
                12 => (register, 1 | 8),
                13 => (register, 2),
                14 => (register, 2 | 8),
                1 => (acquire, 0),
                4 => (acquire, 1),
                5 => (acquire, 2),
                2 => (io::RESERVATION_RELEASE, 0),
                _ => (io::RESERVATION_RELEASE, 1),
            };
            let kind = KINDS.iter().position(|kind| *kind == ask.kind).unwrap() as u32 + 1;
            let command = CommandBuilder::new(opcode, 5, 1).word(10, action | kind << 8);
            let keys = [ask.key.to_le_bytes(), ask.new_key.to_le_bytes()].concat();
            self.hosts[who - HOSTS][1].put(command, &keys);
        }
        self.spread();
    }

    /// Persistence as each protocol reports it: REPORT CAPABILITIES, the reservation report, the
    /// feature, and Identify.
    fn persistence(&mut self) -> ([u8; 2], u8, u64, u8) {
        let cdb = [0x5e, 2, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0];
        let tag = self.raws[0].command(1, cdb, Way::Read, 8, &[]);
        let data = self.raws[0].end(tag).data;
        let [admin, io] = &mut self.hosts[0];
        let report = CommandBuilder::new(io::RESERVATION_REPORT, 9, 1).word(10, 15).word(11, 1);
        let report = io.send(report.transport(64), &[]);
        let get = CommandBuilder::new(admin::GET_FEATURES, 5, 1).word(10, 0x83);
        let get = admin.send(get, &[]);
        let feature = Completion::parse(get[..].first_chunk().unwrap()).result;
        let identify = CommandBuilder::new(admin::IDENTIFY, 3, 1).transport(4096);
        let page = admin.send(identify, &[]);
        ([data[2], data[3]], report[24 + 9], feature, page[24 + 31])
    }

    /// Whether a party may read, and write.
    fn may(&mut self, who: usize) -> [bool; 2] {
        let ends = match who {
            0..HOSTS => [
                self.scsi(who, cdb::read10(0, 1), Way::Read, 512, &[]),
                self.scsi(who, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]),
            ],
            _ => [
                self.nvme(who, CommandBuilder::new(io::READ, 6, 1).range(0, 1).transport(512), &[]),
                self.nvme(who, CommandBuilder::new(io::WRITE, 6, 1).range(0, 1), &[2; 512]),
            ],
        };
        assert!(!ends.contains(&End::Illegal), "{ends:?}");
        ends.map(|end| end == End::Good)
    }

    /// Qualifiers of the additional sense code 2Ah that a party has heard: of an initiator its
    /// attentions, of a host what its log stands for.
    fn heard(&mut self, who: usize) -> Vec<u8> {
        let mut heard = Vec::new();
        if who < HOSTS {
            loop {
                let tag = self.raws[who].command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
                let Some(sense) = self.raws[who].end(tag).sense else { return heard };
                // Commands of victims that were cleared are no news of reservations.
                heard.extend((sense.asc == 0x2a).then_some(sense.ascq));
            }
        }
        let log = CommandBuilder::new(admin::GET_LOG_PAGE, 4, u32::MAX).word(10, 15 << 16 | 0x80);
        loop {
            let answer = self.hosts[who - HOSTS][0].send(log.transport(64), &[]);
            match answer[24 + 8] {
                0 => return heard,
                kind => heard.push([5, 4, 3][usize::from(kind) - 1]),
            }
        }
    }
}

/// A command that is likely to do something.
fn any_ask(model: &Model, who: usize, chance: &mut u64) -> Ask {
    let mut below = |limit: usize| (block::splitmix(chance) % limit as u64) as usize;
    let key = if below(8) == 0 { below(4) as u64 } else { model.keys[who] };
    let other = model.keys[below(PORTS)];
    let new_key = if below(4) == 0 { other } else { below(4) as u64 };
    let kind = KINDS[below(6)];
    let action = [0, 1, 1, 2, 3, 4, 4, 5, 6, 6][below(10)];
    if who < HOSTS || !matches!(action, 0 | 6) {
        return Ask { action, kind, key, new_key };
    }
    let action = [JOIN, JOIN, LEAVE[0], LEAVE[1], REPLACE[0], REPLACE[1]][below(6)];
    Ask { action, kind, key, new_key: new_key.max(1) }
}

#[test]
fn histories_of_three_protocols_grant_nothing_wrong() {
    let mut ends = [0_u32; 3];
    for seed in 0..100 {
        let (mut volume, mut model) = (Volume::of(true), Model::default());
        let mut chance = seed;
        for step in 0..24 {
            let who = (block::splitmix(&mut chance) % PORTS as u64) as usize;
            let ask = any_ask(&model, who, &mut chance);
            let at = format!("seed {seed}, step {step}, party {who}, {ask:?}");
            let end = model.ask(who, ask);
            ends[end as usize] += 1;
            assert_eq!(volume.ask(who, ask), end, "{at}");
            for party in 0..PORTS {
                let told = model.told.iter().filter(|(to, _)| end == End::Good && *to == party);
                let told: Vec<u8> = told.map(|(_, code)| *code).collect();
                assert_eq!(volume.heard(party), told, "{at}: {party}");
                assert_eq!(volume.may(party), model.may(party), "{at}: {party}");
            }
            let nbd = [volume.nbd.ask(0), volume.nbd.ask(1)];
            assert!(nbd.iter().all(|error| matches!(*error, 0 | EPERM)));
            assert_eq!(nbd.map(|error| error == 0), model.may_stranger(), "{at}");
        }
    }
    assert!(ends.iter().all(|count| *count > 20), "{ends:?}");
}

#[test]
fn preempt_and_abort_waits_for_io_of_the_other_protocol() {
    let ask = |action, key, new_key| Ask { action, kind: 3, key, new_key };
    for victim in [0, HOSTS] {
        let other = HOSTS - victim;
        let mut volume = Volume::of(false);
        for (who, key) in [(victim, 5), (other, 6)] {
            let action = if who < HOSTS { 0 } else { JOIN };
            assert_eq!(volume.ask(who, ask(action, 0, key)), End::Good);
        }
        assert_eq!(volume.ask(victim, ask(1, 5, 0)), End::Good);
        // A read of the victim that is with the volume.
        let requests = if victim < HOSTS {
            volume.raws[0].command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
            volume.raws[0].served.end.requests()
        } else {
            let read = CommandBuilder::new(io::READ, 6, 1).range(0, 1).transport(512);
            volume.hosts[0][1].send(read, &[]);
            volume.hosts[0][1].end.requests()
        };
        let io = requests.pop_front().unwrap().io;
        let done = Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf };
        volume.begin(other, ask(5, 6, 5));
        assert_eq!(volume.answer(other), None, "the read is with the volume");
        if victim < HOSTS {
            let served = &mut volume.raws[0].served;
            served.end.complete(Nanos(0), done, &mut served.out);
        } else {
            let queue = &mut volume.hosts[0][1];
            queue.end.complete(Nanos(0), done, &mut queue.out);
            let end = drain(&mut queue.out);
            let status = Completion::parse(end[..].first_chunk().unwrap()).status;
            assert_eq!(status, Status::PREEMPTED_AND_ABORTED);
        }
        volume.spread();
        assert_eq!(volume.answer(other), Some(End::Good));
        volume.heard(victim);
        assert_eq!(volume.ask(victim, ask(1, 5, 0)), End::Conflict, "not registered");
    }
}

/// A keeper in memory.
#[derive(Debug, Default)]
struct Shelf(Mutex<Option<String>>);

impl Keeper for Shelf {
    fn save(&self, record: &str) -> Result<(), NotSaved> {
        *self.0.lock().unwrap() = Some(record.to_owned());
        Ok(())
    }
}

#[test]
fn hosts_of_both_protocols_make_reservations_outlive_the_server() {
    let shelf = Arc::new(Shelf::default());
    let start = || {
        let record = shelf.0.lock().unwrap().clone();
        let keeper = Arc::clone(&shelf) as Arc<dyn Keeper>;
        Volume::with(true, UnitShared::kept(keeper, record.as_deref()).unwrap())
    };
    let mut plain = Volume::of(true);
    assert_eq!(plain.persistence(), ([0x04, 0x80], 0, 0, 0xfe));
    let ask = |action, key, new_key| Ask { action, kind: 3, key, new_key };
    let mut volume = start();
    assert_eq!(volume.persistence(), ([0x05, 0x80], 0, 0, 0xff));
    assert_eq!(volume.ask(0, ask(0, 0, 5)), End::Good);
    // CPTPL 11b of a host holds for all.
    let keys = [0_u64.to_le_bytes(), 6_u64.to_le_bytes()].concat();
    let register = CommandBuilder::new(io::RESERVATION_REGISTER, 5, 1).word(10, 3 << 30);
    assert_eq!(volume.nvme(HOSTS, register, &keys), End::Good);
    assert_eq!(volume.ask(HOSTS, ask(1, 6, 0)), End::Good);
    assert_eq!(volume.persistence(), ([0x05, 0x81], 1, 1, 0xff));
    let mut again = start();
    assert_eq!(again.persistence(), ([0x05, 0x81], 1, 1, 0xff));
    assert_eq!(
        [0, HOSTS, HOSTS + 1].map(|who| again.may(who)),
        [[false; 2], [true; 2], [false; 2]]
    );
    assert_eq!(again.ask(0, ask(4, 5, 6)), End::Good, "its registration was saved, too");
    assert_eq!(again.may(0), [true; 2]);
    // The feature takes it back.
    let set = CommandBuilder::new(admin::SET_FEATURES, 5, u32::MAX).word(10, 0x83);
    let answer = again.hosts[0][0].send(set, &[]);
    assert!(Completion::parse(answer[..].first_chunk().unwrap()).status.is_success());
    let mut last = start();
    assert_eq!(last.persistence(), ([0x05, 0x80], 0, 0, 0xff));
    assert_eq!(last.may(HOSTS + 1), [true; 2]);
}

#[test]
fn an_ejected_medium_is_gone_for_hosts_of_all_protocols() {
    let mut volume = Volume::with(true, UnitShared::default().removable());
    let load_eject = |byte: u8| {
        let mut cdb = [0; 16];
        (cdb[0], cdb[4]) = (0x1b, byte);
        cdb
    };
    let read = CommandBuilder::new(io::READ, 6, 1).range(0, 1).transport(512);
    assert_eq!(volume.scsi(0, load_eject(2), Way::None, 0, &[]), End::Good);
    let tag = volume.raws[1].command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
    assert_eq!(volume.raws[1].end(tag).sense, Some(Sense::MEDIUM_NOT_PRESENT));
    let answer = volume.hosts[0][1].send(read, &[]);
    let status = Completion::parse(answer[..].first_chunk().unwrap()).status;
    assert_eq!((status, volume.nbd.ask(0)), (Status::NAMESPACE_NOT_READY, EPERM));
    assert_eq!(volume.scsi(0, load_eject(3), Way::None, 0, &[]), End::Good);
    volume.spread();
    let tag = volume.raws[1].command(1, cdb::test_unit_ready(), Way::None, 0, &[]);
    assert_eq!(volume.raws[1].end(tag).sense, Some(Sense::MEDIUM_MAY_HAVE_CHANGED));
    assert_eq!([0, 1, HOSTS].map(|who| volume.may(who)), [[true; 2]; 3]);
    assert_eq!(volume.nbd.ask(1), 0);
}
