//! Sessions that use all the memory they can get, next to a well-behaved one.

use block::{Account, Budget, Buf, Done, Io, Nanos, Op, Pool};
use proto::iscsi::pdu::{NO_TAG, NopOut};
use proto::scsi::cdb;
use proto::{Endpoint, Initiator, Outbox, Target};

use crate::harness::{Pair, Setup, drain, io, pattern};
use crate::raw::{Raw, Way};

const MIB: u32 = 1 << 20;

/// Behaviour of a hog.
#[derive(Clone, Copy, Debug)]
enum Hog {
    /// Sends unsolicited data without the final PDU.
    Withholds,
    /// Requests writes, but sends no data.
    Promises,
    /// Reads and does not take the answers.
    ReadsNothing,
    /// Sends pings with data and does not take the answers.
    Pings,
}

const HOGS: [Hog; 4] = [Hog::Withholds, Hog::Promises, Hog::ReadsNothing, Hog::Pings];

fn account(pool: &Pool) -> Account {
    pool.fair_account(32 << 10).expect("room for one more")
}

/// A session that draws on a common pool.
fn raw(setup: &Setup, pool: &Pool) -> Raw {
    // All have one name and ISID, and are to be there at once.
    let mut raw = Raw::new(&Setup { peers: Default::default(), ..setup.clone() });
    raw.served.out = Outbox::of(account(pool));
    let names = [("InitiatorName", "iqn.2020-01.x:hog"), ("TargetName", crate::harness::TARGET)];
    let keys = [("InitialR2T", "No"), ("ImmediateData", "Yes"), ("MaxBurstLength", "1048576")];
    let more = [("FirstBurstLength", "65536"), ("MaxRecvDataSegmentLength", "262144")];
    raw.login(&crate::raw::text(&[&names[..], &keys[..], &more[..]].concat())).unwrap();
    for lun in [1, 2] {
        let tag = raw.command(lun, [0; 16], Way::None, 0, &[]);
        raw.end(tag);
    }
    raw
}

/// Does as much harm as a connection can.
fn hog(raw: &mut Raw, way: Hog) {
    let data = vec![7; 60 << 10];
    for _ in 0..128 {
        if raw.served.out.failed() {
            return;
        }
        let mut write = |len: u32, data: &[u8], last| {
            let cdb = cdb::write10(0, (len / 512) as u16, false);
            let mut command = raw.command_pdu(1, cdb, Way::Write, len, data);
            command.last = last;
            raw.send(&command, data).unwrap();
        };
        match way {
            Hog::Withholds => write(64 << 10, &data, false),
            Hog::Promises => write(MIB, &[], true),
            Hog::ReadsNothing => {
                raw.command(1, cdb::read10(0, (MIB / 512) as u16), Way::Read, MIB, &[]);
                raw.served.complete_all(raw.now);
            }
            Hog::Pings => {
                let nop = NopOut {
                    immediate: true,
                    data_len: data.len() as u32,
                    lun: [0; 8],
                    task_tag: raw.tag(),
                    transfer_tag: NO_TAG,
                    command_number: raw.number,
                    expected_status: raw.status,
                };
                raw.send(&nop, &data).unwrap();
            }
        }
    }
}

/// A good session on the same pool.
fn good(setup: &Setup, pool: &Pool) -> Pair {
    let mut pair = Pair::new(&Setup { peers: Default::default(), ..setup.clone() });
    pair.served.out = Outbox::of(account(pool));
    pair.open();
    pair
}

/// Drives I/Os to their end; they may have to wait and be tried again.
fn run_all(pair: &mut Pair, ios: Vec<Io>) -> Vec<Done> {
    let (count, ios) = (ios.len(), ios.into_iter());
    run_on(pair, ios, count)
}

/// Runs until this many submitted I/Os have completed.
fn run_all_of(pair: &mut Pair, count: usize) -> Vec<Done> {
    run_on(pair, Vec::new().into_iter(), count)
}

fn run_on(pair: &mut Pair, mut ios: std::vec::IntoIter<Io>, count: usize) -> Vec<Done> {
    for _ in 0..20_000 {
        while pair.initiator.room() != 0
            && let Some(io) = ios.next()
        {
            pair.submit(io);
        }
        pair.drive();
        assert!(!pair.served.out.failed(), "what it is told finds room");
        if pair.initiator.done().len() == count {
            return pair.initiator.done().drain(..).collect();
        }
        pair.now = pair.now + Nanos::from_millis(1);
        pair.initiator.tick(pair.now, &mut pair.out).unwrap();
        pair.served.end.tick(pair.now, &mut pair.served.out).unwrap();
    }
    panic!("{} of {count} I/Os came back", pair.initiator.done().len());
}

/// Writes and reads of `len` bytes, many at a time, with every byte compared.
fn works(pair: &mut Pair, len: u32, count: u32, seed: u64) {
    let data = |at: u32| pattern(seed + u64::from(at), len as usize);
    let ios = |op: Op| {
        let io = |at: u32| {
            let mut buf = Buf::new(len as usize).unwrap();
            if op == Op::Write {
                buf.copy_from_slice(&data(at));
            }
            io(op, u64::from(at * len), len, Some(buf))
        };
        (0..count).map(io).collect()
    };
    assert!(run_all(pair, ios(Op::Write)).iter().all(|done| done.result.is_ok()));
    for done in run_all(pair, ios(Op::Read)) {
        assert_eq!(done.result, Ok(()));
        let at = ((done.tag.0 ^ 0xabcd_0000_0000_0000) / u64::from(len)) as u32;
        assert!(done.buf.unwrap()[..] == data(at), "{len} bytes at {at}");
    }
}

#[test]
fn a_good_session_works_beside_those_that_hold_all_they_can() {
    for (round, way) in HOGS.into_iter().enumerate() {
        for variant in 0..3 {
            let budget = Budget::new(20 << 20);
            let pool = Pool::within(budget.clone());
            let setup = Setup {
                in_place: variant == 0,
                header_digest: variant == 2,
                data_digest: variant == 2,
                ..Setup::default()
            };
            let hogs_setup = Setup { bytes: 2 << 20, in_place: round % 2 == 0, ..Setup::default() };
            let mut pair = good(&setup, &pool);
            let mut hogs: Vec<_> = (0..16).map(|_| raw(&hogs_setup, &pool)).collect();
            hogs.iter_mut().for_each(|raw| hog(raw, way));
            // The remaining memory is taken, too.
            let kept: Vec<_> = [Pool::LARGE_BYTES, Pool::MEDIUM_BYTES, 1]
                .into_iter()
                .flat_map(|len| std::iter::from_fn(|| pool.take(len)).collect::<Vec<_>>())
                .collect();
            assert_eq!(budget.shared_left_bytes(), 0, "{way:?}: there is no more");
            // A newcomer is let in even now.
            let mut newcomer = good(&setup, &pool);
            works(&mut newcomer, 64 << 10, 2, 77);
            drop(newcomer);
            for (len, count) in [(4096, 16), (MIB, 2), (16 << 10, 8), (96 << 10, 2)] {
                works(&mut pair, len, count, u64::from(len));
            }
            for raw in &mut hogs {
                raw.served.end.abandon(&pool);
                raw.served.complete_all(raw.now);
            }
            drop(hogs);
            kept.into_iter().for_each(|buf| pool.give(buf));
            pair.drive();
            assert_eq!(pool.lent(), [0, 0], "{way:?}: all came back");
            (1..9).for_each(|second| _ = pool.review(Nanos::from_secs(second)));
            assert!(budget.held_bytes() <= 16 << 20, "{way:?}: {}", budget.held_bytes());
            // The session is fast again: large parts, and a wide window.
            pair.served.seen.clear();
            works(&mut pair, MIB, 4, 9);
            assert!(setup.in_place || pair.served.seen.iter().any(|seen| seen.2 >= 256 << 10));
        }
    }
}

#[test]
fn what_was_read_while_there_was_plenty_is_sent_when_there_is_little() {
    let budget = Budget::new(128 << 20);
    let pool = Pool::within(budget.clone());
    // Parts of 256 KiB that go in PDUs of 128 KiB, so they are copied.
    let setup = Setup { data_digest: true, ..Setup::default() };
    let mut pair = good(&setup, &pool);
    works(&mut pair, MIB, 4, 5);
    for at in 0..4 {
        pair.submit(io(Op::Read, at * u64::from(MIB), MIB, Some(Buf::new(MIB as usize).unwrap())));
    }
    let there = drain(&mut pair.out);
    pair.served.end.receive(pair.now, &there, &mut pair.served.out).unwrap();
    pair.served.take_requests();
    assert!(pair.served.flying.iter().all(|io| io.len == 256 << 10));
    let kept: Vec<_> = [Pool::LARGE_BYTES, Pool::MEDIUM_BYTES, 1]
        .into_iter()
        .flat_map(|len| std::iter::from_fn(|| pool.take(len)).collect::<Vec<_>>())
        .collect();
    for done in run_all_of(&mut pair, 4) {
        assert_eq!(done.result, Ok(()));
        let at = ((done.tag.0 ^ 0xabcd_0000_0000_0000) / u64::from(MIB)) as u32;
        assert!(done.buf.unwrap()[..] == pattern(5 + u64::from(at), MIB as usize), "{at}");
    }
    kept.into_iter().for_each(|buf| pool.give(buf));
    assert_eq!(pool.lent(), [0, 0]);
}

#[test]
fn long_reads_of_memory_work_however_little_memory_there_is() {
    let budgets = (8..20).chain((20..40).step_by(4));
    for (budget, digest) in budgets.flat_map(|mib| [(mib, false), (mib, true)]) {
        let pool = Pool::within(Budget::new(budget << 20));
        let setup = Setup { in_place: true, data_digest: digest, ..Setup::default() };
        let mut pair = good(&setup, &pool);
        for (len, count) in [(64 << 10, 8), (MIB, 3), (96 << 10, 7), (256 << 10, 5)] {
            works(&mut pair, len, count, budget + u64::from(len));
        }
        drop(pair);
        assert_eq!(pool.lent(), [0, 0], "{budget} MiB");
    }
}
