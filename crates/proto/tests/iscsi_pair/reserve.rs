//! Reservations, task sets and attentions among several initiators of one server.

use proto::iscsi::TargetConfig;
use proto::iscsi::pdu::{LoginResponse, TaskRequest, TaskResponse, opcode, opcode_of};
use proto::scsi::{Sense, cdb, encode_lun};
use proto::{Notice, Target};

use crate::harness::Setup;
use crate::raw::{End, NOTHING, Raw, Way};

const CONFLICT: u8 = 0x18;

/// The initiators of a server on one volume.
struct Server {
    setup: Setup,
    raws: Vec<Raw>,
}

impl Server {
    fn new(count: u32, in_place: bool) -> Server {
        let setup = Setup { in_place, ..Setup::default() }.together();
        let raws = (1..=count).map(|number| Raw::one_of(&setup, number)).collect();
        Server { setup, raws }
    }

    /// Carries notices to the other connections, as the server does.
    fn spread(&mut self) {
        for from in 0..self.raws.len() {
            let notices = self.raws[from].served.end.take_notices();
            for (to, raw) in self.raws.iter_mut().enumerate() {
                notices.iter().filter(|_| to != from).for_each(|notice| raw.notice(notice));
            }
        }
        for raw in &mut self.raws {
            raw.served.end.drained(raw.now, &mut raw.served.out);
        }
    }

    fn run(&mut self, who: usize, cdb: [u8; 16], way: Way, len: u32, data: &[u8]) -> End {
        let tag = self.raws[who].command(1, cdb, way, len, data);
        let now = self.raws[who].now;
        self.raws[who].served.complete_all(now);
        self.spread();
        self.raws[who].end(tag)
    }

    fn read(&mut self, who: usize) -> u8 {
        self.run(who, cdb::read10(0, 1), Way::Read, 512, &[]).status
    }

    fn write(&mut self, who: usize) -> u8 {
        self.run(who, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]).status
    }

    /// PERSISTENT RESERVE OUT.
    fn out(&mut self, who: usize, action: u8, kind: u8, key: u64, service_key: u64) -> End {
        let tag = self.begin_out(who, action, kind, key, service_key);
        self.spread();
        self.raws[who].end(tag)
    }

    fn begin_out(&mut self, who: usize, action: u8, kind: u8, key: u64, service_key: u64) -> u32 {
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[2], cdb[8]) = (0x5f, action, kind, 24);
        let mut list = [0; 24];
        list[..8].copy_from_slice(&key.to_be_bytes());
        list[8..16].copy_from_slice(&service_key.to_be_bytes());
        self.raws[who].command(1, cdb, Way::Write, 24, &list)
    }

    /// The attentions that are pending.
    fn attentions(&mut self, who: usize) -> Vec<Sense> {
        let ask =
            |server: &mut Server| server.run(who, cdb::test_unit_ready(), Way::None, 0, &[]).sense;
        std::iter::from_fn(|| ask(self)).collect()
    }

    fn manage(&mut self, who: usize, function: u8) -> u32 {
        let raw = &mut self.raws[who];
        let request = TaskRequest {
            immediate: true,
            function,
            lun: encode_lun(1),
            task_tag: raw.tag(),
            referenced_tag: NOTHING,
            command_number: raw.number,
            expected_status: raw.status,
            referenced_number: raw.number - 1,
        };
        raw.send(&request, &[]).unwrap();
        request.task_tag
    }
}

const REGISTER: u8 = 0;
const RESERVE: u8 = 1;
const RELEASE: u8 = 2;
const CLEAR: u8 = 3;
const PREEMPT: u8 = 4;
const PREEMPT_AND_ABORT: u8 = 5;

#[test]
fn types_let_in_whom_they_say() {
    // Type; reads and writes of one who is registered, and of a stranger.
    for (kind, registered, stranger) in [
        (1, [true, false], [true, false]),
        (3, [false, false], [false, false]),
        (5, [true, true], [true, false]),
        (6, [true, true], [false, false]),
        (7, [true, true], [true, false]),
        (8, [true, true], [false, false]),
    ] {
        let mut server = Server::new(3, kind % 2 == 0);
        for who in [0, 1] {
            assert_eq!(server.out(who, REGISTER, 0, 0, 7).status, 0);
        }
        assert_eq!(server.out(2, RESERVE, kind, 0, 0).status, CONFLICT, "a stranger");
        assert_eq!(server.out(0, RESERVE, kind, 7, 0).status, 0);
        for (who, expect) in [(0, [true; 2]), (1, registered), (2, stranger)] {
            // Twice: what is allowed once is allowed by the word from then on.
            for _ in 0..2 {
                let may = [server.read(who) == 0, server.write(who) == 0];
                assert_eq!(may, expect, "type {kind}, initiator {who}");
            }
        }
        let inquiry = server.run(2, cdb::inquiry(None, 36), Way::Read, 36, &[]);
        assert_eq!(inquiry.status, 0);
        assert_eq!(server.out(0, RELEASE, kind, 7, 0).status, 0);
        assert_eq!((server.write(2), server.read(2)), (0, 0));
        let told = if kind >= 5 { vec![Sense::RESERVATIONS_RELEASED] } else { vec![] };
        assert_eq!([0, 1, 2].map(|who| server.attentions(who)), [vec![], told, vec![]]);
    }
}

#[test]
fn a_grant_ends_at_once_for_sessions_that_had_it() {
    let mut server = Server::new(2, true);
    server.out(0, REGISTER, 0, 0, 7);
    server.out(0, RESERVE, 3, 7, 0);
    assert_eq!((server.write(0), server.write(0)), (0, 0));
    server.out(1, REGISTER, 0, 0, 8);
    assert_eq!(server.out(1, PREEMPT, 3, 8, 7).status, 0);
    assert_eq!(server.attentions(0), [Sense::REGISTRATIONS_PREEMPTED]);
    assert_eq!((server.write(0), server.write(1)), (CONFLICT, 0));
    // Unsolicited and solicited data of a command that conflicts goes nowhere.
    let end = server.run(0, cdb::write10(0, 8, false), Way::Write, 4096, &[9; 4096]);
    assert_eq!((end.status, end.residual), (CONFLICT, -4096));
    assert_eq!(server.out(1, CLEAR, 0, 8, 0).status, 0);
    assert_eq!(server.write(0), 0);
}

#[test]
fn registrations_outlive_their_session_and_belong_to_its_port() {
    let mut server = Server::new(2, false);
    server.out(0, REGISTER, 0, 0, 7);
    server.out(0, RESERVE, 1, 7, 0);
    let old = &mut server.raws[0];
    let pool = old.served.out.pool().clone();
    old.served.end.abandon(&pool);
    assert_eq!(server.write(1), CONFLICT);
    server.raws[0] = {
        let mut raw = Raw::new(&Setup { connection: 9, ..server.setup.clone() });
        let name = format!("{}-1", crate::harness::INITIATOR.to_uppercase());
        let keys = [("InitiatorName", &*name), ("TargetName", crate::harness::TARGET)];
        raw.login(&crate::raw::text(&keys)).unwrap();
        raw
    };
    server.attentions(0);
    assert_eq!((server.write(0), server.write(1)), (0, CONFLICT));
    // Another port of the same initiator is another nexus.
    let mut other = Raw::new(&Setup { connection: 10, ..server.setup.clone() });
    let name = format!("{}-1", crate::harness::INITIATOR);
    let keys = [("InitiatorName", &*name), ("TargetName", crate::harness::TARGET)];
    other.knock(&crate::raw::text(&keys), [0x80, 9, 9, 9, 9, 9]);
    server.raws.push(other);
    // The login waits until the older session says that it is there.
    server.spread();
    server.spread();
    let answer = server.raws[2].one();
    server.raws[2].status = LoginResponse::parse(&answer.0).numbers.status.wrapping_add(1);
    server.attentions(2);
    assert_eq!((server.read(2), server.write(2)), (0, CONFLICT));
}

#[test]
fn spc_2_reservations_end_with_their_session_and_with_a_reset() {
    let code = |code: u8| {
        let mut cdb = [0; 16];
        cdb[0] = code;
        cdb
    };
    for end in ["release", "lost", "reset"] {
        let mut server = Server::new(2, false);
        let run =
            |server: &mut Server, who, byte| server.run(who, code(byte), Way::None, 0, &[]).status;
        assert_eq!([run(&mut server, 0, 0x16), run(&mut server, 0, 0x16)], [0, 0]);
        assert_eq!([run(&mut server, 1, 0x16), run(&mut server, 1, 0x17)], [CONFLICT, 0]);
        assert_eq!((server.read(1), server.read(0), server.write(0)), (CONFLICT, 0, 0));
        match end {
            "release" => assert_eq!(run(&mut server, 0, 0x17), 0),
            "lost" => {
                let pool = server.raws[0].served.out.pool().clone();
                server.raws[0].served.end.abandon(&pool);
            }
            _ => {
                server.manage(1, 5);
                server.spread();
                server.raws[1].answers();
                assert_eq!([0, 1].map(|who| server.attentions(who)), [[Sense::LUN_RESET]; 2]);
            }
        }
        assert_eq!(run(&mut server, 1, 0x16), 0, "{end}");
    }
}

#[test]
fn preempt_and_abort_ends_when_the_last_io_of_its_victims_has() {
    let mut server = Server::new(3, false);
    for (who, key) in [(0, 7), (1, 8), (2, 9)] {
        server.out(who, REGISTER, 0, 0, key);
    }
    server.out(1, RESERVE, 5, 8, 0);
    // A write of the victim is with the volume, and one of a bystander.
    for who in [1, 2] {
        let cdb = cdb::write10(0, 1, false);
        server.raws[who].command(1, cdb, Way::Write, 512, &[who as u8; 512]);
        server.raws[who].served.take_requests();
    }
    let tag = server.begin_out(0, PREEMPT_AND_ABORT, 5, 7, 8);
    server.spread();
    assert!(server.raws[0].answers().is_empty(), "the victim's write is still with the volume");
    assert!(server.raws[0].served.end.starves());
    let now = server.raws[1].now;
    server.raws[1].served.complete(now, 0);
    assert!(server.raws[1].answers().is_empty(), "no status for what was aborted");
    server.spread();
    assert_eq!(server.raws[0].end(tag).status, 0);
    let told = server.attentions(1);
    assert_eq!(told, [Sense::REGISTRATIONS_PREEMPTED, Sense::COMMANDS_CLEARED]);
    assert_eq!(server.write(1), CONFLICT);
    server.raws[2].served.complete(now, 0);
    assert_eq!(server.raws[2].answers().len(), 1, "the bystander's write is answered");
}

#[test]
fn what_a_lost_connection_left_behind_is_awaited_too() {
    let mut server = Server::new(2, false);
    for (who, key) in [(0, 7), (1, 8)] {
        server.out(who, REGISTER, 0, 0, key);
    }
    server.raws[1].command(1, cdb::write10(0, 1, false), Way::Write, 512, &[1; 512]);
    server.raws[1].served.take_requests();
    let pool = server.raws[1].served.out.pool().clone();
    server.raws[1].served.end.abandon(&pool);
    let tag = server.begin_out(0, PREEMPT_AND_ABORT, 5, 7, 8);
    server.spread();
    assert!(server.raws[0].answers().is_empty());
    let now = server.raws[1].now;
    server.raws[1].served.complete(now, 0);
    server.spread();
    assert_eq!(server.raws[0].end(tag).status, 0);
}

#[test]
fn functions_end_the_commands_of_those_whom_they_concern() {
    // ABORT TASK SET, CLEAR TASK SET, LUN RESET, target warm reset: what the other one hears, and
    // who asked.
    let (cleared, reset) = (vec![Sense::COMMANDS_CLEARED], vec![Sense::LUN_RESET]);
    for (function, told, own) in [
        (2, vec![], vec![]),
        (4, cleared, vec![]),
        (5, reset.clone(), reset.clone()),
        (6, reset.clone(), reset),
    ] {
        let cleared = !told.is_empty();
        let mut server = Server::new(2, false);
        let write = cdb::write10(0, 2, false);
        let command = server.raws[1].command_pdu(1, write, Way::Write, 1024, &[]);
        server.raws[1].send(&command, &[]).unwrap();
        assert_eq!(server.raws[1].answers().len(), 1, "an R2T");
        server.raws[1].command(1, cdb::read10(0, 1), Way::Read, 512, &[]);
        server.raws[1].served.take_requests();
        let tag = server.manage(0, function);
        server.spread();
        assert_eq!(server.raws[0].served.end.starves(), cleared, "waits for the read");
        let now = server.raws[1].now;
        server.raws[1].served.complete_all(now);
        server.spread();
        let (header, _) = server.raws[0].one();
        assert_eq!(opcode_of(&header), opcode::TASK_RESPONSE);
        let response = TaskResponse::parse(&header);
        assert_eq!((response.task_tag, response.response), (tag, 0));
        // The read ended without a status if it was cleared.
        assert_eq!(server.raws[1].answers().len(), usize::from(!cleared));
        assert_eq!(server.attentions(1), told);
        assert_eq!(server.attentions(0), own);
    }
}

#[test]
fn nothing_of_this_is_told_to_strangers_or_grows() {
    let config = TargetConfig::default();
    let mut server = Server::new(2, true);
    for _ in 0..3 * u32::from(config.max_commands) {
        server.out(0, 6, 0, 0, 7);
        // The first one reports the attention.
        server.out(1, 6, 0, 0, 8);
        server.out(1, 6, 0, 0, 8);
        assert_eq!(server.out(0, CLEAR, 0, 7, 0).status, 0);
    }
    assert_eq!(server.attentions(1), [Sense::RESERVATIONS_PREEMPTED], "told once");
    server.raws[0].notice(&Notice::UnitNews(proto::UnitId(5), vec![]));
    assert_eq!(server.attentions(0), []);
}

#[test]
fn software_write_protection_binds_all_sessions_and_is_told() {
    for in_place in [false, true] {
        let mut server = Server::new(2, in_place);
        let mut page = [0; 16];
        (page[4], page[5], page[7], page[12], page[13]) = (0x0a, 10, 0x10, 0xff, 0xff);
        let mut cdb = [0; 16];
        (cdb[0], cdb[1], cdb[4]) = (0x15, 0x10, 16);
        for swp in [true, false] {
            page[8] = u8::from(swp) << 3;
            assert_eq!(server.run(1, cdb, Way::Write, 16, &page).status, 0);
            assert_eq!(server.attentions(0), [Sense::MODE_PARAMETERS_CHANGED]);
            assert_eq!(server.attentions(1), []);
            for who in [0, 1] {
                let write = cdb::write10(0, 1, false);
                let end = server.run(who, write, Way::Write, 512, &[1; 512]);
                assert_eq!(end.sense, swp.then_some(Sense::SOFTWARE_WRITE_PROTECTED));
                let unmap = cdb::unmap_list(&[(0, 1)]);
                let end = server.run(who, cdb::unmap(24), Way::Write, 24, &unmap);
                assert_eq!(end.sense, swp.then_some(Sense::SOFTWARE_WRITE_PROTECTED));
                assert_eq!(server.read(who), 0);
                let flush = server.run(who, cdb::synchronize_cache10(), Way::None, 0, &[]);
                assert_eq!(flush.status, 0);
            }
            // A repetition changes nothing, and is not reported.
            assert_eq!(server.run(1, cdb, Way::Write, 16, &page).status, 0);
            assert_eq!(server.attentions(0), []);
        }
        // The write cache is what the volume says.
        let caching = [0, 0, 0, 0, 8, 18, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        cdb[4] = 24;
        let end = server.run(1, cdb, Way::Write, 24, &caching);
        assert_eq!(end.sense.map(|sense| sense.asc), Some(0x26));
    }
}
