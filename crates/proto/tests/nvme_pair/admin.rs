//! Admin commands: identify, logs, features, events, abort. Structures by the offsets of their
//! fields.

use proto::nvme::DISCOVERY_NQN;
use proto::nvme::pdu::{Command, CommandBuilder, Status, admin, kind};

use crate::joined::HOST_ID;
use crate::raw::{Raw, connect, connect_data};
use crate::server::{NQN, Server, Store};

fn identify(cns: u32, namespace: u32) -> CommandBuilder {
    CommandBuilder::new(admin::IDENTIFY, 3, namespace).word(10, cns).transport(4096)
}

fn log(id: u32, offset: u64, len: u32) -> CommandBuilder {
    let dwords = len / 4 - 1;
    let command = CommandBuilder::new(admin::GET_LOG_PAGE, 3, 0).transport(len);
    let command = command.word(10, id | dwords << 16).word(11, dwords >> 16);
    command.word(12, offset as u32).word(13, (offset >> 32) as u32)
}

fn get_feature(id: u32) -> CommandBuilder {
    CommandBuilder::new(admin::GET_FEATURES, 4, 0).word(10, id)
}

fn set_feature(id: u32, value: u32) -> CommandBuilder {
    CommandBuilder::new(admin::SET_FEATURES, 5, 0).word(10, id).word(11, value)
}

fn u16_at(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([page[at], page[at + 1]])
}

fn u32_at(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*page[at..].first_chunk().unwrap())
}

fn u64_at(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*page[at..].first_chunk().unwrap())
}

/// A server with namespaces 1 (512 bytes), 2 (4096 bytes, read-only), and a hole at 3.
fn server() -> Server {
    let mut second = Store::new(4 << 20, 4096, false);
    second.geometry.read_only = true;
    let mut server = Server::new(vec![Store::new(4 << 20, 512, true), second]);
    let mut subsystem = proto::nvme::Subsystem::clone(&server.subsystems.list()[0]);
    subsystem.namespaces.push(None);
    subsystem.namespaces.push(subsystem.namespaces[0].clone());
    server.subsystems = proto::nvme::Subsystems::new(vec![subsystem]).unwrap().into();
    server
}

#[test]
fn a_controller_tells_what_it_is() {
    let mut raw = Raw::admin(server());
    let page = raw.ask_data(identify(1, 0));
    assert_eq!(page.len(), 4096);
    assert_eq!(page[4..24], *b"SER1                ");
    assert_eq!(page[24..64], *b"Drumfire RAM                            ");
    assert_eq!(page[64..72], *b"0.1.0   ");
    assert_eq!((page[76], page[77]), (2, 8), "CMIC: several controllers; MDTS: 1 MiB");
    assert_eq!((u16_at(&page, 78), u32_at(&page, 80)), (1, 0x0001_0400), "CNTLID, VER");
    assert_eq!((u32_at(&page, 92), u32_at(&page, 96)), (1 << 8, 1), "OAES, CTRATT");
    assert_eq!(page[111], 1, "CNTRLTYPE");
    assert_eq!(u16_at(&page, 256), 0, "OACS");
    assert_eq!(page[258..264], [3, 3, 3, 6, 0, 0], "ACL, AERL, FRMW, LPA, ELPE, NPSS");
    assert_eq!(u16_at(&page, 320), 10, "KAS");
    assert_eq!((page[512], page[513], u16_at(&page, 514)), (0x66, 0x44, 1024), "MAXCMD");
    assert_eq!((u32_at(&page, 516), u16_at(&page, 520)), (4, 0x1ad), "NN, ONCS");
    assert_eq!((page[524], page[525]), (0, 5), "FNA, VWC");
    let words = [522, 526, 528, 532, 534].map(|at| u16_at(&page, at));
    assert_eq!(words, [1, 0, 0, 0, 1], "FUSES, AWUN, AWUPF, ACWU, OCFS");
    assert_eq!(u32_at(&page, 536), 0x0030_0001, "SGLS");
    assert_eq!(page[768..768 + NQN.len() + 1], [NQN.as_bytes(), &[0]].concat());
    assert_eq!((u32_at(&page, 1792), u32_at(&page, 1796)), (4 + 1024, 1), "IOCCSZ, IORCSZ");
    assert_eq!((u16_at(&page, 1800), page[1802], page[1803]), (0, 0, 1), "ICDOFF, FCATT, MSDBD");
    assert_eq!(u16_at(&page, 1804), 1, "OFCS");
}

#[test]
fn what_was_configured_is_told() {
    let mut server = server();
    server.config.max_transfer_bytes = 200_000;
    server.config.in_capsule_bytes = 8192;
    server.config.max_queue_depth = 64;
    server.stores[0].geometry.volatile = false;
    let mut subsystem = proto::nvme::Subsystem::clone(&server.subsystems.list()[0]);
    subsystem.namespaces = vec![];
    server.subsystems = proto::nvme::Subsystems::new(vec![subsystem]).unwrap().into();
    let mut raw = Raw::admin(server);
    let page = raw.ask_data(identify(1, 0));
    assert_eq!(page[77], 5, "MDTS: 128 KiB");
    assert_eq!((u32_at(&page, 1792), u16_at(&page, 514)), (4 + 512, 64));
    assert_eq!((u32_at(&page, 516), page[525]), (0, 4), "no namespace has a cache");
}

#[test]
fn a_namespace_tells_what_it_is() {
    let mut raw = Raw::admin(server());
    for (id, blocks, exponent, protected) in [(1, 8192, 9, 0), (2, 1024, 12, 1)] {
        let page = raw.ask_data(identify(0, id));
        assert_eq!(page.len(), 4096);
        assert_eq!([0, 8, 16].map(|at| u64_at(&page, at)), [blocks; 3], "NSZE, NCAP, NUSE");
        assert_eq!(page[24..30], [0; 6], "NSFEAT, NLBAF, FLBAS, MC, DPC, DPS");
        assert_eq!((page[30], page[31], page[33]), (0, 0xfe, 9), "NMIC, RESCAP, DLFEAT");
        assert_eq!(u64_at(&page, 48), 4 << 20, "NVMCAP");
        let block = 1 << exponent;
        let copy = (u16_at(&page, 74), u32_at(&page, 76), page[80]);
        let most = (64 << 20) / block;
        assert_eq!(copy, (most.min(65535) as u16, most, 255), "MSSRL, MCL, MSRC");
        assert_eq!(page[99], protected, "NSATTR");
        assert!(page[104..128].iter().any(|byte| *byte != 0), "NGUID, EUI64");
        assert_eq!(page[128..132], [0, 0, exponent, 0], "LBAF0");
        let same = raw.ask_data(identify(5, id));
        assert_eq!(same, [0; 4096]);
        let independent = raw.ask_data(identify(8, id));
        assert_eq!((independent[1], independent[8], independent[14]), (0, protected, 1));
        assert_eq!(independent[2], 0xfe, "RESCAP");
    }
    for cns in [0, 5, 8] {
        // Not in use, but might be.
        assert_eq!(raw.ask_data(identify(cns, 3)), [0; 4096]);
        for id in [0, 5, u32::MAX] {
            let status = raw.ask(identify(cns, id), &[]).status();
            assert_eq!(status, Status::INVALID_NAMESPACE, "cns {cns} namespace {id}");
        }
    }
}

#[test]
fn what_has_several_ways_says_so() {
    let mut server = server();
    let mut subsystem = proto::nvme::Subsystem::clone(&server.subsystems.list()[0]);
    subsystem.shared = true;
    server.subsystems = proto::nvme::Subsystems::new(vec![subsystem]).unwrap().into();
    let mut raw = Raw::admin(server);
    assert_eq!(raw.ask_data(identify(1, 0))[76], 3, "CMIC: several ports and controllers");
    assert_eq!(raw.ask_data(identify(0, 1))[30], 1, "NMIC: shared");
    assert_eq!(raw.ask_data(identify(8, 1))[1], 1, "NMIC: shared");
}

#[test]
fn namespaces_are_listed_behind_the_given_one() {
    let mut raw = Raw::admin(server());
    for cns in [2, 7] {
        for (after, expect) in [(0, &[1, 2, 4][..]), (1, &[2, 4]), (3, &[4]), (4, &[])] {
            let page = raw.ask_data(identify(cns, after));
            let ids: Vec<u32> = (0..4096).step_by(4).map(|at| u32_at(&page, at)).collect();
            assert_eq!((&ids[..expect.len()], ids[expect.len()]), (expect, 0));
        }
        for id in [u32::MAX, u32::MAX - 1] {
            let status = raw.ask(identify(cns, id), &[]).status();
            assert_eq!(status, Status::INVALID_NAMESPACE);
        }
    }
}

#[test]
fn namespaces_have_names_that_agree() {
    let server = server();
    let disk = server.subsystems.list()[0].namespaces[0].as_ref().unwrap().disk;
    let mut raw = Raw::admin(server);
    let page = raw.ask_data(identify(3, 1));
    let namespace = raw.ask_data(identify(0, 1));
    assert_eq!(page[..4], [3, 16, 0, 0], "UUID");
    assert_eq!(page[4..20], disk.uuid());
    assert_eq!(page[20..24], [2, 16, 0, 0], "NGUID");
    assert_eq!(page[24..40], namespace[104..120]);
    assert_eq!(page[40..44], [1, 8, 0, 0], "EUI64");
    assert_eq!(page[44..52], namespace[120..128]);
    assert_eq!(page[52..57], [4, 1, 0, 0, 0], "CSI");
    assert_eq!(page[57..], [0; 4096 - 57]);
    assert_ne!(raw.ask_data(identify(3, 2))[4..20], page[4..20]);
    assert_eq!(raw.ask(identify(3, 3), &[]).status(), Status::INVALID_NAMESPACE);
}

#[test]
fn other_command_sets_and_structures_are_refused() {
    let mut raw = Raw::admin(server());
    let limits = raw.ask_data(identify(6, 0));
    assert_eq!((limits[0], &limits[1..]), (8, &[0; 4095][..]), "VSL");
    for cns in [5, 6, 7] {
        let zoned = identify(cns, 1).word(11, 2 << 24);
        assert_eq!(raw.ask(zoned, &[]).status(), Status::INVALID_FIELD);
    }
    for cns in [4, 9, 0x10, 0x12, 0x13, 0x1c, 0xff] {
        assert_eq!(raw.ask(identify(cns, 1), &[]).status(), Status::INVALID_FIELD, "{cns:#x}");
    }
    let short = identify(1, 0).transport(4092);
    assert_eq!(raw.ask(short, &[]).status(), Status::SGL_LENGTH_INVALID);
    let elsewhere = identify(1, 0).field(39, [0x40]);
    assert_eq!(raw.ask(elsewhere, &[]).status(), Status::SGL_TYPE_INVALID);
    assert_eq!(
        raw.ask_data(identify(1, 0).transport(8192)).len(),
        4096,
        "never more than there is"
    );
}

#[test]
fn logs_are_told_in_parts() {
    let mut raw = Raw::admin(server());
    let effects = raw.ask_data(log(5, 0, 4096));
    assert_eq!(u32_at(&effects, 0x18 * 4), 1, "Keep Alive");
    assert_eq!([0, 1, 2, 5, 8, 9].map(|op| u32_at(&effects, 1024 + op * 4)), [1, 3, 1, 1, 3, 3]);
    let reservations = [0x0d, 0x0e, 0x11, 0x15].map(|op| u32_at(&effects, 1024 + op * 4));
    assert_eq!(reservations, [1; 4]);
    assert_eq!([0x0c, 0x19].map(|op| u32_at(&effects, 1024 + op * 4)), [1, 3], "Verify, Copy");
    assert_eq!(effects.iter().filter(|byte| **byte != 0).count(), 20);
    let mut parts = Vec::new();
    for at in (0..4096).step_by(1000) {
        parts.extend(raw.ask_data(log(5, at, 1000)));
    }
    assert_eq!((&parts[..4096], parts.len()), (&effects[..], 5000), "zeroes behind the end");
    let health = raw.ask_data(log(2, 0, 512));
    assert_eq!((health[0], health[3]), (0, 100));
    let firmware = raw.ask_data(log(3, 0, 512));
    assert_eq!((firmware[0], &firmware[8..16]), (1, &b"0.1.0   "[..]));
    assert_eq!(raw.ask_data(log(1, 0, 64)), [0; 64]);
    assert_eq!(raw.ask_data(log(1, 64, 4)), [0; 4]);
    assert_eq!(raw.ask_data(log(1, 0, 1 << 20)).len(), 1 << 20);
    for (command, status) in [
        (log(1, 2, 64), Status::INVALID_FIELD),
        (log(1, 68, 64), Status::INVALID_FIELD),
        (log(1, 1 << 40, 64), Status::INVALID_FIELD),
        (log(1, 0, (1 << 20) + 4), Status::INVALID_FIELD),
        (log(1, 0, 64).transport(60), Status::SGL_LENGTH_INVALID),
        (log(0x70, 0, 64), Status::INVALID_LOG_PAGE),
        (log(0x0c, 0, 64), Status::INVALID_LOG_PAGE),
        (log(0, 0, 64), Status::INVALID_LOG_PAGE),
    ] {
        assert_eq!(raw.ask(command, &[]).status(), status);
    }
}

#[test]
fn queues_are_granted_before_there_are_any() {
    let mut raw = Raw::admin(Server::usual());
    let result = |raw: &mut Raw, command| {
        let completion = raw.ask(command, &[]).completion();
        (completion.status, completion.result)
    };
    assert_eq!(result(&mut raw, get_feature(7)), (Status::SUCCESS, 63 | 63 << 16));
    let asked = set_feature(7, 0x0001_0003);
    assert_eq!(result(&mut raw, asked), (Status::SUCCESS, 1 | 1 << 16));
    assert_eq!(result(&mut raw, get_feature(7)), (Status::SUCCESS, 1 | 1 << 16));
    assert_eq!(result(&mut raw, set_feature(7, 0xfffe_fffe)), (Status::SUCCESS, 63 | 63 << 16));
    for wrong in [0xffff_0000, 0x0000_ffff] {
        assert_eq!(result(&mut raw, set_feature(7, wrong)).0, Status::INVALID_FIELD);
    }
    let Raw { server, peer: mut admin, .. } = raw;
    let mut raw = Raw::open(server);
    assert!(raw.ask(connect(1, 31), &connect_data(1, NQN)).status().is_success());
    let bytes = crate::raw::capsule(asked, &[], [false; 2]);
    admin.receive(&mut raw.server, &bytes, usize::MAX);
    let answer = crate::raw::parse(&admin.sent(), [false; 2]).remove(0);
    assert_eq!(answer.status(), Status::SEQUENCE_ERROR);
}

#[test]
fn features_are_kept_until_a_reset() {
    let mut raw = Raw::admin(server());
    for (id, value) in [(1, 0xff), (4, 0x1234), (5, 7), (0x0a, 1), (0x0b, 0x8000_0000)] {
        assert_eq!(raw.ask(get_feature(id), &[]).completion().result, 0);
        assert!(raw.ask(set_feature(id, value), &[]).status().is_success());
        let completion = raw.ask(get_feature(id), &[]).completion();
        assert_eq!((completion.status, completion.result), (Status::SUCCESS, value.into()));
    }
    for (id, value) in [(2, 1), (5, 0x1_0000), (0x0a, 2), (0x10, 0), (0x16, 0), (0x84, 0)] {
        assert_eq!(raw.ask(set_feature(id, value), &[]).status(), Status::INVALID_FIELD, "{id}");
    }
    let save = set_feature(1 | 1 << 31, 1);
    assert_eq!(raw.ask(save, &[]).status(), Status::FEATURE_NOT_SAVEABLE);
    assert_eq!(raw.ask(get_feature(0x10), &[]).status(), Status::INVALID_FIELD);
    raw.ask(crate::raw::property_set(1, 0x14, 0), &[]);
    raw.enable();
    assert_eq!(raw.ask(get_feature(1), &[]).completion().result, 0);
}

#[test]
fn features_of_the_controller_are_not_set_for_a_namespace() {
    let mut raw = Raw::admin(server());
    let of = |command: CommandBuilder, namespace: u32| command.field(4, namespace.to_le_bytes());
    for id in [1, 2, 4, 6, 7, 0x0a, 0x0b, 0x0f] {
        let value = u32::from(id == 6);
        for (namespace, status) in [
            (0, Status::SUCCESS),
            (u32::MAX, Status::SUCCESS),
            (1, Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
            (3, Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
            (5, Status::INVALID_NAMESPACE),
        ] {
            let answer = raw.ask(of(set_feature(id, value), namespace), &[]);
            assert_eq!(answer.status(), status, "feature {id:#x} of {namespace:#x}");
        }
        assert!(raw.ask(of(get_feature(id), 1), &[]).status().is_success());
    }
    // Unknown features are refused everywhere.
    assert_eq!(raw.ask(of(set_feature(0x10, 0), 1), &[]).status(), Status::INVALID_FIELD);
}

#[test]
fn each_namespace_has_its_own_error_recovery() {
    let mut raw = Raw::admin(server());
    let of = |command: CommandBuilder, namespace: u32| command.field(4, namespace.to_le_bytes());
    let mut value = |namespace| {
        let answer = raw.ask(of(get_feature(5), namespace), &[]).completion();
        (answer.status, answer.result)
    };
    assert_eq!(value(1), (Status::SUCCESS, 0));
    for (namespace, wanted, status) in [
        (1, 100, Status::SUCCESS),
        (4, 200, Status::SUCCESS),
        (3, 1, Status::INVALID_FIELD),
        (77, 1, Status::INVALID_NAMESPACE),
        (1, 1 << 16, Status::INVALID_FIELD),
    ] {
        let answer = raw.ask(of(set_feature(5, wanted), namespace), &[]);
        assert_eq!(answer.status(), status, "{namespace}");
    }
    let mut value = |namespace| {
        let answer = raw.ask(of(get_feature(5), namespace), &[]).completion();
        (answer.status, answer.result)
    };
    assert_eq!([1, 2, 4].map(|namespace| value(namespace).1), [100, 0, 200]);
    assert_eq!([3, 77].map(|it| value(it).0), [Status::INVALID_FIELD, Status::INVALID_NAMESPACE]);
    raw.ask(of(set_feature(5, 7), u32::MAX), &[]);
    let answer = raw.ask(of(get_feature(5), 4), &[]).completion();
    assert_eq!(answer.result, 7);
}

#[test]
fn temperatures_have_a_threshold_over_and_one_under() {
    let mut raw = Raw::admin(server());
    let get = |which: u32| get_feature(4).word(11, which << 20);
    for (value, status) in [
        (350, Status::SUCCESS),
        (250 | 1 << 20, Status::SUCCESS),
        (1 | 2 << 20, Status::INVALID_FIELD),
        (1 | 9 << 16, Status::INVALID_FIELD),
        (1 | 1 << 22, Status::INVALID_FIELD),
    ] {
        assert_eq!(raw.ask(set_feature(4, value), &[]).status(), status, "{value:#x}");
    }
    let mut read = |which| raw.ask(get(which), &[]).completion();
    assert_eq!([read(0).result, read(1).result], [350, 250]);
    assert_eq!(read(2).status, Status::INVALID_FIELD);
}

#[test]
fn pointers_are_sgls_and_nothing_is_fused() {
    let mut raw = Raw::admin(server());
    for flags in [0x00, 0xc0, 0x41, 0x42, 0x43, 0x81] {
        for command in [
            identify(1, 0),
            log(2, 0, 512),
            get_feature(7),
            set_feature(7, 1),
            CommandBuilder::new(admin::KEEP_ALIVE, 1, 0),
            CommandBuilder::new(admin::ABORT, 1, 0),
            CommandBuilder::new(admin::ASYNC_EVENT, 1, 0),
        ] {
            let status = raw.ask(command.field(1, [flags]), &[]).status();
            assert_eq!(status, Status::INVALID_FIELD, "{flags:#x}");
        }
    }
    assert_eq!(raw.ask_data(identify(1, 0).field(1, [0x80])).len(), 4096);
}

#[test]
fn the_write_cache_is_told_truthfully() {
    let mut raw = Raw::admin(server());
    assert_eq!(raw.ask(get_feature(6), &[]).completion().result, 1);
    assert!(raw.ask(set_feature(6, 1), &[]).status().is_success());
    assert_eq!(raw.ask(set_feature(6, 0), &[]).status(), Status::FEATURE_NOT_CHANGEABLE);
    let mut store = Store::new(1 << 20, 512, true);
    store.geometry.volatile = false;
    let mut raw = Raw::admin(Server::new(vec![store]));
    assert_eq!(raw.ask_data(identify(1, 0))[525], 4);
    for command in [get_feature(6), set_feature(6, 1)] {
        assert_eq!(raw.ask(command, &[]).status(), Status::INVALID_FIELD);
    }
}

#[test]
fn keep_alive_and_host_identifier_are_features() {
    let mut raw = Raw::admin(server());
    assert_eq!(raw.ask(get_feature(0x0f), &[]).completion().result, 0);
    assert!(raw.ask(set_feature(0x0f, 1), &[]).status().is_success());
    assert_eq!(raw.ask(get_feature(0x0f), &[]).completion().result, 1000);
    assert!(raw.ask(set_feature(0x0f, u32::MAX), &[]).status().is_success());
    // The time-out in Connect is rounded as well.
    for (asked, kept) in [(0, 0), (1, 1000), (1000, 1000), (1001, 2000)] {
        let mut raw = Raw::open(server());
        let connect = connect(0, 31).field(48, u32::to_le_bytes(asked));
        assert!(raw.ask(connect, &connect_data(0xffff, NQN)).status().is_success());
        raw.enable();
        assert_eq!(raw.ask(get_feature(0x0f), &[]).completion().result, kept);
    }
    let extended = get_feature(0x81).word(11, 1).transport(16);
    assert_eq!(raw.ask_data(extended), HOST_ID);
    assert_eq!(raw.ask(extended.transport(8), &[]).status(), Status::SGL_LENGTH_INVALID);
    assert_eq!(raw.ask(extended.word(11, 0), &[]).status(), Status::INVALID_FIELD);
    let set = set_feature(0x81, 1);
    assert_eq!(raw.ask(set, &[1; 16]).status(), Status::SEQUENCE_ERROR);
}

#[test]
fn event_requests_wait_until_they_are_aborted() {
    let mut raw = Raw::admin(server());
    let event = |id| CommandBuilder::new(admin::ASYNC_EVENT, id, 0);
    for id in 10..14 {
        raw.command(event(id), &[]);
    }
    assert!(raw.pdus().is_empty());
    assert_eq!(raw.ask(event(14), &[]).status(), Status::ASYNC_LIMIT_EXCEEDED);
    let abort =
        |queue: u32, id: u32| CommandBuilder::new(admin::ABORT, 20, 0).word(10, queue | id << 16);
    raw.command(abort(0, 12), &[]);
    let pdus = raw.pdus();
    let [event_end, aborted] = [&pdus[0], &pdus[1]].map(|pdu| pdu.completion());
    assert_eq!((event_end.command, event_end.status), (12, Status::ABORT_REQUESTED));
    assert_eq!((aborted.command, aborted.status, aborted.result), (20, Status::SUCCESS, 0));
    for (queue, id) in [(0, 12), (1, 10), (9, 9)] {
        let completion = raw.ask(abort(queue, id), &[]).completion();
        assert_eq!((completion.status, completion.result), (Status::SUCCESS, 1));
    }
    raw.command(event(15), &[]);
    assert!(raw.pdus().is_empty());
}

#[test]
fn unknown_admin_commands_are_refused() {
    let mut raw = Raw::admin(server());
    for opcode in [0x00, 0x01, 0x04, 0x05, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x80, 0x84, 0xff] {
        let status = raw.ask(CommandBuilder::new(opcode, 1, 1), &[]).status();
        assert_eq!(status, Status::INVALID_OPCODE, "{opcode:#x}");
    }
    // With unexpected data.
    let status = raw.ask(CommandBuilder::new(0xc1, 1, 1), &[7; 8192]).status();
    assert_eq!(status, Status::INVALID_OPCODE);
}

#[test]
fn discovery_controllers_have_what_they_need() {
    let mut raw = Raw::open(server());
    let answer = raw.ask(connect(0, 31), &connect_data(0xffff, DISCOVERY_NQN));
    assert!(answer.status().is_success());
    raw.ask(crate::raw::property_set(1, 0x14, 1), &[]);
    let page = raw.ask_data(identify(1, 0));
    assert_eq!((page[111], page[261], u32_at(&page, 516)), (2, 4, 0), "CNTRLTYPE, LPA, NN");
    assert_eq!(page[768..768 + 36], *DISCOVERY_NQN.as_bytes());
    for cns in [0, 2, 3, 5, 6, 7, 8] {
        assert_eq!(raw.ask(identify(cns, 1), &[]).status(), Status::INVALID_FIELD);
    }
    for command in [get_feature(7), set_feature(7, 0)] {
        assert_eq!(raw.ask(command, &[]).status(), Status::INVALID_FIELD);
    }
    for id in [2, 3, 5] {
        assert_eq!(raw.ask(log(id, 0, 64), &[]).status(), Status::INVALID_LOG_PAGE);
    }
    assert!(raw.ask(CommandBuilder::new(admin::KEEP_ALIVE, 1, 0), &[]).status().is_success());
    // A silent host is disconnected.
    raw.server.now = raw.server.now + block::Nanos::from_secs(120);
    raw.peer.tick(&mut raw.server);
    assert!(raw.peer.ended.is_some());
    assert_eq!(raw.server.controllers.count(), 0);
}

#[test]
fn a_host_that_does_not_read_is_not_answered_without_end() {
    let mut raw = Raw::admin(server());
    let mut bytes = Vec::new();
    for id in 0..30 {
        let command = Command(&log(1, 0, 1 << 20).build()).0.to_owned();
        let mut capsule = vec![4, 0, 72, 0, 72, 0, 0, 0];
        capsule.extend(command);
        capsule[10] = id;
        bytes.extend(capsule);
    }
    raw.send(&bytes);
    assert!(raw.peer.out.len_bytes() < 18 << 20);
    let mut answers = 0;
    while answers < 30 {
        let pdus = raw.pdus();
        assert!(!pdus.is_empty(), "after {answers} answers");
        answers += pdus.iter().filter(|pdu| pdu.kind() == kind::CAPSULE_RESP).count();
        raw.server.now = raw.server.now + block::Nanos::from_millis(1);
        raw.peer.tick(&mut raw.server);
    }
}
