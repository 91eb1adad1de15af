//! Hosts that use all the memory they can get, next to a well-behaved one.

use block::{Account, Budget, Buf, Nanos, Op, Pool};
use proto::nvme::pdu::{CommandBuilder, io};
use proto::{Endpoint, Initiator, Outbox, Target};

use crate::joined::{Joined, config};
use crate::raw::{Raw, capsule, connect, connect_data};
use crate::server::{NQN, Server, Store};

/// Behaviour of a hog.
#[derive(Clone, Copy, Debug)]
enum Hog {
    /// Sends data with commands whose volume never answers.
    Writes,
    /// Requests writes, but sends no data.
    Promises,
    /// Reads and does not take the answers.
    ReadsNothing,
}

fn account(pool: &Pool) -> Account {
    pool.fair_account(32 << 10).expect("room for one more")
}

/// Returns an I/O queue that uses as much memory as it can.
fn hog(pool: &Pool, way: Hog) -> Raw {
    let mut server = Server::apart();
    server.pool = pool.clone();
    server.fair = true;
    let mut raw = Raw::admin(server);
    let cntlid = raw.peer.end.controller_id().unwrap();
    // The admin queue stays with its server.
    let server = std::mem::replace(&mut raw.server, Server::apart());
    let mut queue = Raw::open(server);
    let answer = queue.ask(connect(1, 127), &connect_data(cntlid, NQN));
    assert!(answer.status().is_success(), "{}", answer.status());
    queue.kept.push(raw.peer);
    for id in 0..120 {
        let big = CommandBuilder::new(io::READ, id, 2).range(0, 256).transport(1 << 20);
        let bytes = match way {
            Hog::Writes => {
                let write = CommandBuilder::new(io::WRITE, id, 2).range(0, 4);
                capsule(write, &[1; 16 << 10], [false; 2])
            }
            Hog::Promises => {
                let write = CommandBuilder::new(io::WRITE, id, 2).range(0, 256);
                capsule(write.transport(1 << 20), &[], [false; 2])
            }
            Hog::ReadsNothing => capsule(big, &[], [false; 2]),
        };
        let peer = &mut queue.peer;
        if peer.out.failed() {
            break;
        }
        // A late host may send no in-capsule data, and is disconnected if it does.
        if peer.end.receive(queue.server.now, &bytes, &mut peer.out).is_err() {
            break;
        }
        queue.server.hold(&mut queue.peer);
        if matches!(way, Hog::ReadsNothing) {
            queue.server.release(&mut queue.peer);
        }
    }
    queue
}

/// Writes and reads of `len` bytes, many at a time, with every byte compared.
fn works(joined: &mut Joined, len: u32, count: u32) {
    for op in [Op::Write, Op::Read] {
        for at in 0..count {
            let mut buf = Buf::new(len as usize).unwrap();
            if op == Op::Write {
                buf.chunks_mut(512).enumerate().for_each(|(i, it)| it.fill((at + i as u32) as u8));
            }
            joined.submit(op, u64::from(at * len), len, Some(buf));
        }
        let mut done = Vec::new();
        for _ in 0..2000 {
            done.extend(joined.settle());
            if done.len() == count as usize {
                break;
            }
            joined.server.now = joined.server.now + Nanos::from_millis(1);
        }
        assert!(!joined.queue.peer.out.failed(), "what it is told finds room");
        assert_eq!(done.len(), count as usize, "{op:?} of {len} bytes");
        assert!(done.iter().all(|done| done.result.is_ok()), "{:?}", done[0].result);
        if op == Op::Write {
            continue;
        }
        for done in done {
            let buf = done.buf.unwrap();
            let first = buf[0];
            let even =
                buf.chunks(512).enumerate().all(|(i, it)| it[511] == first.wrapping_add(i as u8));
            assert!(even, "{len} bytes as they were written");
        }
    }
}

#[test]
fn a_good_host_works_beside_those_that_hold_all_they_can() {
    for way in [Hog::Writes, Hog::Promises, Hog::ReadsNothing] {
        for (in_place, digest) in [(true, false), (false, false), (false, true), (true, true)] {
            let budget = Budget::new(24 << 20);
            let pool = Pool::within(budget.clone());
            let mut server = Server::new(vec![Store::new(8 << 20, 512, in_place)]);
            server.pool = pool.clone();
            server.fair = true;
            let mut joined = Joined::new(server, config(1, digest, digest), usize::MAX);
            let mut hogs: Vec<_> = (0..10).map(|_| hog(&pool, way)).collect();
            let kept: Vec<_> = [Pool::LARGE_BYTES, Pool::MEDIUM_BYTES, 1]
                .into_iter()
                .flat_map(|len| std::iter::from_fn(|| pool.take(len)).collect::<Vec<_>>())
                .collect();
            assert_eq!(budget.shared_left_bytes(), 0, "{way:?}: there is no more");
            for (len, count) in [(4096, 16), (1 << 20, 2), (16 << 10, 8), (96 << 10, 2)] {
                works(&mut joined, len, count);
            }
            for raw in &mut hogs {
                raw.peer.leave(&mut raw.server);
                assert!(raw.peer.end.finished());
            }
            drop(hogs);
            kept.into_iter().for_each(|buf| pool.give(buf));
            joined.settle();
            assert_eq!(joined.server.pool.lent(), [0, 0], "{way:?}: all came back");
            (1..9).for_each(|second| _ = pool.review(Nanos::from_secs(second)));
            assert!(budget.held_bytes() <= 16 << 20, "{way:?}: {}", budget.held_bytes());
            assert_ne!(joined.queue.host.room(), 0);
            let outbox = Outbox::of(account(&pool));
            assert!(!outbox.is_short(1 << 20), "there is plenty again");
        }
    }
}

#[test]
fn long_reads_of_memory_work_however_little_memory_there_is() {
    let budgets = (12..24).chain((24..40).step_by(4));
    for (budget, digest) in budgets.flat_map(|mib| [(mib, false), (mib, true)]) {
        let pool = Pool::within(Budget::new(budget << 20));
        let mut server = Server::new(vec![Store::new(8 << 20, 512, true)]);
        server.pool = pool.clone();
        server.fair = true;
        let mut joined = Joined::new(server, config(1, digest, digest), usize::MAX);
        for (len, count) in [(64 << 10, 8), (1 << 20, 3), (96 << 10, 7), (256 << 10, 5)] {
            works(&mut joined, len, count);
        }
    }
}
