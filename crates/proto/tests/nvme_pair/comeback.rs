//! Hosts that reconnect while the volume still has I/Os of an earlier queue, and controllers that
//! end.

use block::{Buf, Fault, Nanos, Op};
use proto::nvme::pdu::{CommandBuilder, Status, admin, io};
use proto::nvme::{ControllerInstance, NvmeAdmin, NvmeInitiatorConfig, NvmeQueue};
use proto::{Ending, Endpoint, Fence, Initiator, Notice, Phase, Target};

use crate::joined::{Joined, Wire, queue};
use crate::raw::{Raw, capsule, connect, connect_data, introduce, property_get, property_set};
use crate::server::{HOST_NQN, NQN, Peer, Server, sent};

/// An association with a write that the volume has and does not execute.
fn with_a_write() -> Joined {
    let config = NvmeInitiatorConfig { queues: 4, ..crate::joined::config(1, false, false) };
    let mut joined = Joined::new(Server::apart(), config, 1 << 20);
    joined.submit(Op::Write, 4096, 4096, Some(Buf::new(4096).unwrap()));
    let bytes = sent(&mut joined.queue.out);
    let peer = &mut joined.queue.peer;
    peer.end.receive(joined.server.now, &bytes, &mut peer.out).unwrap();
    joined.server.hold(peer);
    joined
}

/// An admin queue and an I/O queue with a write that the volume has, both of them bytes.
fn raw_with_a_write() -> (Raw, Peer) {
    let (mut raw, admin) = Raw::io(Server::apart());
    let write = CommandBuilder::new(io::WRITE, 1, 1).range(0, 1);
    let bytes = capsule(write, &[1; 512], [false; 2]);
    raw.peer.end.receive(raw.server.now, &bytes, &mut raw.peer.out).unwrap();
    raw.server.hold(&mut raw.peer);
    (raw, admin)
}

fn status_of(raw: &mut Raw, admin: &mut Peer) -> u64 {
    let get = capsule(property_get(9, 0x1c, 0), &[], [false; 2]);
    admin.receive(&mut raw.server, &get, usize::MAX);
    crate::raw::parse(&admin.sent(), [false; 2]).pop().unwrap().completion().result
}

fn configure(raw: &mut Raw, admin: &mut Peer, value: u64) {
    let set = capsule(property_set(9, 0x14, value), &[], [false; 2]);
    admin.receive(&mut raw.server, &set, usize::MAX);
    assert!(crate::raw::parse(&admin.sent(), [false; 2])[0].status().is_success());
}

#[test]
fn changes_without_an_answer_are_in_doubt() {
    let mut joined = with_a_write();
    joined.submit(Op::Read, 0, 4096, Some(Buf::new(4096).unwrap()));
    joined.submit(Op::Trim, 1 << 20, 4096, None);
    joined.submit(Op::Flush, 0, 0, None);
    let mut doubt = joined.queue.host.in_doubt();
    doubt.sort_unstable();
    assert_eq!(doubt, [(4096, 4096), (1 << 20, 4096)]);
    // An I/O of several commands is in doubt where the command under way is.
    let mut joined = Joined::usual(1);
    joined.submit(Op::Write, 0, 3 << 20, Some(Buf::new(3 << 20).unwrap()));
    assert_eq!(joined.queue.host.in_doubt(), [(0, 1 << 20)]);
    joined.settle();
    assert_eq!(joined.queue.host.in_doubt(), []);
}

#[test]
fn a_queue_of_the_same_identifier_waits_for_the_one_before() {
    let mut joined = with_a_write();
    joined.queue.peer.vanish(&mut joined.server);
    let mut again = queue(&mut joined.server, &joined.config, &joined.admin, 1);
    assert_eq!(again.host.phase(), Phase::Opening, "{:?}", again.ended);
    // Another one is let in at once: it is not known to be instead of this one.
    let other = queue(&mut joined.server, &joined.config, &joined.admin, 2);
    assert!(matches!(other.host.phase(), Phase::Ready(_)), "{:?}", other.ended);
    for _ in 0..10 {
        joined.server.now = again.host.deadline().unwrap();
        again.settle(&mut joined.server);
        assert_eq!((again.host.phase(), &again.ended), (Phase::Opening, &None));
    }
    joined.server.release(&mut joined.queue.peer);
    joined.server.now = again.host.deadline().unwrap();
    again.settle(&mut joined.server);
    assert!(matches!(again.host.phase(), Phase::Ready(_)));
    assert_eq!(again.host.fence(), Fence::Ended);
}

#[test]
fn a_queue_waits_no_longer_than_it_may_take_to_connect() {
    let mut joined = with_a_write();
    joined.queue.peer.vanish(&mut joined.server);
    let mut again = queue(&mut joined.server, &joined.config, &joined.admin, 1);
    let begun = joined.server.now;
    while again.ended.is_none() {
        joined.server.now = again.host.deadline().unwrap();
        let peer = &mut again.peer;
        if let Err(ending) = again.host.tick(joined.server.now, &mut again.out) {
            again.ended = Some(ending);
        }
        let there = sent(&mut again.out);
        peer.receive(&mut joined.server, &there, usize::MAX);
        let back = peer.sent();
        again.host.receive(joined.server.now, &back, &mut again.out).unwrap();
    }
    assert_eq!(joined.server.now, begun + Nanos::from_secs(15));
    let ended = again.ended.unwrap();
    assert!(matches!(ended, Ending::TimedOut(why) if why.contains("queue before")), "{ended:?}");
}

#[test]
fn a_new_controller_waits_for_queues_of_its_host_that_are_gone() {
    let mut joined = with_a_write();
    joined.queue.peer.vanish(&mut joined.server);
    let host = NvmeAdmin::new(&joined.config, joined.server.now);
    let mut late = Wire::new(&mut joined.server, host, usize::MAX);
    late.settle(&mut joined.server);
    assert!(late.host.phase() == Phase::Opening && late.peer.end.starves());
    // Another host does not, and a discovery controller neither.
    let mut stranger = joined.config.clone();
    stranger.host_nqn += "2";
    let stranger = crate::joined::admin(&mut joined.server, &stranger, usize::MAX);
    assert!(matches!(stranger.host.phase(), Phase::Ready(_)));
    assert!(crate::joined::discovery(&mut joined.server, usize::MAX).host.entries().is_some());
    joined.server.now = joined.server.now + Nanos::from_secs(1);
    late.settle(&mut joined.server);
    let remark = late.peer.end.take_remark().expect("it takes long");
    assert!(remark.contains(HOST_NQN), "{remark}");
    joined.server.release(&mut joined.queue.peer);
    late.peer.end.drained(joined.server.now, &mut late.peer.out);
    late.settle(&mut joined.server);
    joined.server.now = joined.server.now + Nanos::from_millis(10);
    late.settle(&mut joined.server);
    assert!(matches!(late.host.phase(), Phase::Ready(_)), "{:?}", late.ended);
}

#[test]
fn a_host_that_waits_for_too_long_is_told_that_the_controller_is_busy() {
    let mut joined = with_a_write();
    joined.queue.peer.vanish(&mut joined.server);
    let mut raw = Raw::open(joined.server);
    raw.command(connect(0, 31), &connect_data(0xffff, NQN));
    assert!(raw.pdus().is_empty());
    // No other command is accepted meanwhile.
    let status = raw.ask(connect(0, 31), &connect_data(0xffff, NQN)).status();
    assert_eq!(status, Status::SEQUENCE_ERROR);
    raw.server.now = raw.server.now + Nanos::from_secs(15);
    raw.peer.tick(&mut raw.server);
    assert_eq!(raw.pdus()[0].status(), Status::CONNECT_CONTROLLER_BUSY);
    let why = raw.peer.ended.expect("it ends").to_string();
    assert!(why.contains("earlier controller"), "{why}");
}

#[test]
fn a_reset_is_complete_when_nothing_is_left() {
    let (mut raw, mut admin) = raw_with_a_write();
    configure(&mut raw, &mut admin, 0x46_0000);
    let told = admin.end.take_notices();
    assert_eq!(told, [Notice::ControllerEnded]);
    assert_eq!(status_of(&mut raw, &mut admin), 1, "RDY");
    raw.peer.end.notice(&told[0], &mut || true, &mut raw.peer.out);
    assert!(raw.peer.end.finished());
    raw.peer.vanish(&mut raw.server);
    assert_eq!(status_of(&mut raw, &mut admin), 1, "its write is with the volume");
    // No command is executed meanwhile, and a host in a hurry waits, too.
    configure(&mut raw, &mut admin, 0x46_0001);
    let identify = CommandBuilder::new(admin::IDENTIFY, 3, 0).word(10, 1).transport(4096);
    admin.receive(&mut raw.server, &capsule(identify, &[], [false; 2]), usize::MAX);
    let answer = crate::raw::parse(&admin.sent(), [false; 2]).pop().unwrap();
    assert_eq!(answer.status(), Status::SEQUENCE_ERROR);
    configure(&mut raw, &mut admin, 0x46_0000);
    assert_eq!(status_of(&mut raw, &mut admin), 1);
    raw.server.release(&mut raw.peer);
    assert_eq!(status_of(&mut raw, &mut admin), 0);
    configure(&mut raw, &mut admin, 0x46_0001);
    assert_eq!(status_of(&mut raw, &mut admin), 1);
}

#[test]
fn a_shutdown_flushes_when_nothing_is_left() {
    let (mut raw, mut admin) = raw_with_a_write();
    configure(&mut raw, &mut admin, 0x46_4001);
    assert_eq!(status_of(&mut raw, &mut admin), 1 | 1 << 2, "under way");
    raw.peer.vanish(&mut raw.server);
    assert!(admin.end.starves());
    admin.end.drained(raw.server.now, &mut admin.out);
    assert!(admin.end.requests().is_empty(), "it would be too early to flush");
    raw.server.release(&mut raw.peer);
    admin.end.drained(raw.server.now, &mut admin.out);
    raw.server.run(&mut admin);
    assert_eq!(status_of(&mut raw, &mut admin), 1 | 2 << 2, "complete");
    let ops: Vec<Op> = raw.server.stores[0].log.iter().map(|entry| entry.0).collect();
    assert_eq!(ops, [Op::Write, Op::Flush]);
}

fn reset_other(id: u16, old: ControllerInstance) -> CommandBuilder {
    let command = CommandBuilder::new(admin::CROSS_CONTROLLER_RESET, id, 0);
    let command = command.word(10, u32::from(old.id) | u32::from(old.ciu) << 16);
    command.word(12, old.cirn as u32).word(13, (old.cirn >> 32) as u32)
}

#[test]
fn a_controller_resets_another_one_and_says_when_nothing_is_left() {
    let joined = with_a_write();
    let old = joined.admin.host.ready().unwrap().controller;
    assert!(old.ciu != 0 && old.cirn != 0);
    let Joined { server, admin, queue, .. } = joined;
    let (mut old_admin, mut old_queue) = (admin.peer, queue.peer);
    let mut raw = Raw::admin_beside(server, &mut [&mut old_queue]);
    raw.command(reset_other(5, old), &[]);
    assert!(raw.pdus().is_empty());
    // The old controller ends on its own cores; new queues of its host need not.
    let notices = raw.peer.end.take_notices();
    notices.iter().for_each(|it| old_queue.end.notice(it, &mut || true, &mut old_queue.out));
    assert!(old_queue.end.finished());
    raw.server.now = raw.server.now + Nanos::from_secs(1);
    old_admin.tick(&mut raw.server);
    let why = old_admin.ended.expect("it ends").to_string();
    assert!(why.contains("another controller of the host"), "{why}");
    old_queue.vanish(&mut raw.server);
    raw.peer.end.drained(raw.server.now, &mut raw.peer.out);
    assert!(raw.pdus().is_empty() && raw.peer.end.starves());
    raw.server.release(&mut old_queue);
    raw.peer.end.drained(raw.server.now, &mut raw.peer.out);
    let answer = raw.pdus().pop().expect("an answer").completion();
    assert!(answer.status.is_success() && answer.result == 1 && answer.command == 5);
    // A controller that has ended has no commands left.
    let answer = raw.ask(reset_other(6, old), &[]).completion();
    assert!(answer.status.is_success() && answer.result == 1);
    let log = CommandBuilder::new(admin::GET_LOG_PAGE, 3, 0).transport(4096);
    assert_eq!(raw.ask_data(log.word(10, 0x1e | 1023 << 16)), [0; 4096]);
}

#[test]
fn resets_of_others_are_limited_and_never_of_oneself() {
    let mut joined = with_a_write();
    let old = joined.admin.host.ready().unwrap().controller;
    let mut raw = Raw::admin_beside(joined.server, &mut [&mut joined.queue.peer]);
    let page = raw.ask_data(CommandBuilder::new(admin::IDENTIFY, 3, 0).word(10, 1).transport(4096));
    let own = ControllerInstance {
        id: raw.peer.end.controller_id().unwrap(),
        ciu: page[135],
        cirn: u64::from_le_bytes(*page[136..].first_chunk().unwrap()),
    };
    assert_eq!(page[1807], 4);
    assert_eq!(raw.ask(reset_other(1, own), &[]).status(), Status::INVALID_FIELD);
    for id in 2..6 {
        raw.command(reset_other(id, old), &[]);
        assert!(raw.pdus().is_empty());
    }
    assert_eq!(raw.ask(reset_other(6, old), &[]).status(), Status::RESET_LIMIT_EXCEEDED);
    // The connection may end meanwhile.
    raw.peer.leave(&mut raw.server);
}

#[test]
fn our_host_replaces_a_controller() {
    let joined = with_a_write();
    let old = joined.admin.host.ready().unwrap().controller;
    let Joined { mut server, config, mut queue, admin: mut old_admin, .. } = joined;
    assert_eq!(old_admin.host.fence(), Fence::Ended, "of queues of one identifier");
    let host = NvmeAdmin::new(&config, server.now).replacing(old);
    let mut new = Wire::new(&mut server, host, usize::MAX);
    for _ in 0..3 {
        new.settle(&mut server);
        introduce(&mut new.peer, server.now, &mut [&mut queue.peer]);
        server.now = server.now + Nanos::from_millis(10);
    }
    assert!(new.host.phase() == Phase::Opening && new.peer.end.starves());
    queue.peer.vanish(&mut server);
    server.release(&mut queue.peer);
    new.peer.end.drained(server.now, &mut new.peer.out);
    new.settle(&mut server);
    let association = new.host.ready().expect("the old one is gone");
    assert_eq!(association.fence, Some(Fence::Ended));
    old_admin.peer.leave(&mut server);
    let end = NvmeQueue::new(&config, association, 1, server.now);
    assert_eq!(end.fence(), Fence::Ended);
}

/// Returns the fence of an association that replaces another one, at a controller whose Identify
/// data and answers to the reset are changed: CQT and CCRL, the status, its result, and the logged
/// state.
fn replaces(cqt: u16, ccrl: u8, status: u16, result: u8, logged: Option<u8>) -> Option<Fence> {
    let mut server = Server::usual();
    let config = crate::joined::config(1, false, false);
    let old = ControllerInstance { id: 0x1234, ciu: 7, cirn: 99 };
    let host = NvmeAdmin::new(&config, server.now).replacing(old);
    let mut new = Wire::new(&mut server, host, usize::MAX);
    let (mut identified, mut asked) = (false, false);
    for _ in 0..1000 {
        let there_is_log = logged.is_some();
        new.settle_with(&mut server, |mut bytes| {
            // Identify Controller data follow a header of 24 bytes.
            if bytes.len() > 4096 && bytes[24 + 1807] == 4 {
                bytes[24 + 386..24 + 388].copy_from_slice(&cqt.to_le_bytes());
                bytes[24 + 1807] = ccrl;
                identified = true;
            } else if bytes.len() == 24 && identified && !asked && ccrl != 0 {
                // The answer to the reset.
                asked = true;
                bytes[8] = result;
                bytes[22..24].copy_from_slice(&(status << 1).to_le_bytes());
            } else if bytes.len() > 4096 && there_is_log && bytes[24..24 + 4096] == [0; 4096] {
                bytes[24] = 1;
                bytes[32..40].copy_from_slice(&[0x34, 0x12, 7, 0, 0, 0, logged.unwrap(), 0]);
            }
            bytes
        });
        if let Some(association) = new.host.ready() {
            return association.fence;
        }
        assert_eq!(new.ended, None);
        server.now = new.host.deadline().unwrap().max(server.now);
    }
    None
}

#[test]
fn where_a_controller_cannot_reset_others_time_must_pass() {
    let after = |ms| Some(Fence::After(Nanos::from_millis(ms)));
    assert_eq!(replaces(1500, 4, 0, 1, None), Some(Fence::Ended));
    assert_eq!(replaces(1500, 0, 0, 0, None), after(1500), "it does not know the command");
    assert_eq!(replaces(0, 0, 0, 0, None), after(0), "nor anything of time");
    assert_eq!(replaces(700, 4, 0x4002, 0, None), after(700), "it refuses");
    // A reset that takes its time: the log says how it ends.
    assert_eq!(replaces(700, 4, 0, 0, Some(1)), Some(Fence::Ended));
    assert_eq!(replaces(700, 4, 0, 0, Some(2)), after(700));
    assert_eq!(replaces(700, 4, 0, 0, Some(0)), after(700), "it is never over");
    assert_eq!(replaces(700, 4, 0, 0, None), after(700), "the log knows nothing of it");
}

#[test]
fn a_failed_flush_is_told_on_every_queue_and_not_to_be_tried_again() {
    let (mut raw, admin) = Raw::io(Server::apart());
    let flush = CommandBuilder::new(io::FLUSH, 1, 1);
    let id = admin.end.controller_id().unwrap();
    let another = |raw: Raw, queue: u16| {
        let Raw { server, peer, .. } = raw;
        let mut raw = Raw::open(server);
        assert!(raw.ask(connect(queue, 31), &connect_data(id, NQN)).status().is_success());
        (raw, peer)
    };
    let host = |server: &mut Server, queues: &mut [&mut Peer]| {
        let host = NvmeAdmin::new(&crate::joined::config(1, false, false), server.now);
        let mut wire = Wire::new(server, host, usize::MAX);
        wire.settle(server);
        introduce(&mut wire.peer, server.now, queues);
        for _ in 0..3 {
            wire.settle(server);
            server.now = server.now + Nanos::from_millis(10);
        }
        wire
    };
    let before = host(&mut raw.server, &mut [&mut raw.peer]);
    let instance = before.host.instance().expect("a server of ours tells its instance");
    raw.server.stores[0].fault = Some(Fault::Disconnected);
    let failed = raw.ask(flush, &[]).status();
    assert_eq!(failed, Status::FLUSH_FAILED);
    assert_eq!(failed.to_wire() >> 15, 1, "DNR");
    raw.server.stores[0].fault = None;
    assert!(raw.ask(flush, &[]).status().is_success(), "this one knows");
    // A queue that comes later has nothing to lose.
    let (mut raw, mut first) = another(raw, 2);
    assert!(raw.ask(flush, &[]).status().is_success());
    // A queue that is connected when a flush fails gets the report, and so does one that
    // reconnects.
    first.leave(&mut raw.server);
    raw.server.stores[0].fault = Some(Fault::Medium);
    let (mut raw, mut second) = {
        let (mut raw, second) = another(raw, 3);
        assert_eq!(raw.ask(flush, &[]).status(), Status::FLUSH_FAILED);
        raw.server.stores[0].fault = None;
        (raw, second)
    };
    let bytes = capsule(flush, &[], [false; 2]);
    for expect in [Status::FLUSH_FAILED, Status::SUCCESS] {
        second.receive(&mut raw.server, &bytes, usize::MAX);
        let answer = crate::raw::parse(&second.sent(), [false; 2]).pop().unwrap();
        assert_eq!(answer.status(), expect);
    }
    let (mut raw, mut third) = another(raw, 1);
    let statuses = [raw.ask(flush, &[]).status(), raw.ask(flush, &[]).status()];
    assert_eq!(statuses, [Status::FLUSH_FAILED, Status::SUCCESS]);
    let after = host(&mut raw.server, &mut [&mut raw.peer, &mut second, &mut third]);
    assert_ne!(after.host.instance(), Some(instance));
    assert_eq!(after.host.identity(), before.host.identity());
    assert!(after.host.identity().unwrap().starts_with("nguid."));
}
