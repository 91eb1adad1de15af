//! A lane that reconnects to a target that hangs up: its counters, and that no I/O is lost.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use block::{Cause, Chain, Done, Memory, Op, Piece, Rng, Tag};
use proto::iscsi::{Directory, IscsiInitiator, IscsiTarget, TargetConfig, TargetEntry};
use proto::scsi::{Identity, Unit};
use proto::{DiskId, Endpoint, Instance, Instances, Outbox, Target, UnitId};

use super::*;
use crate::Session;

/// Behaviour of a server on its connections, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// Answers this many receives, then hangs up.
    Cut(u64),
    /// Hangs up at once.
    Refuse,
    /// Serves as long as its peer stays.
    Keep,
}

/// Serves a disk of 1 MiB.
fn serve(listener: TcpListener, fates: Vec<Fate>) -> JoinHandle<()> {
    serve_as(listener, fates, None)
}

/// Serves the fates as this running server.
fn serve_as(listener: TcpListener, fates: Vec<Fate>, instance: Option<Instance>) -> JoinHandle<()> {
    let disk = Memory::new(1 << 20).unwrap();
    let identity = Identity { disk: DiskId::new([1; 16]), product: "ram".to_owned() };
    let unit = Unit::new(UnitId(0), Geometry::new(1 << 20, 512), Some(disk), identity);
    let unit = match instance {
        Some(instance) => unit.of_instance(instance),
        None => unit,
    };
    let (name, alias) = ("iqn.2026-11.x:a".to_owned(), String::new());
    let entry = TargetEntry { name, units: vec![None, Some(unit)], alias, chap: None };
    let directory = Arc::new(Directory::new(vec![entry]).unwrap());
    std::thread::spawn(move || {
        for fate in fates {
            let (stream, _) = listener.accept().unwrap();
            let most = match fate {
                Fate::Cut(receives) => receives,
                Fate::Refuse => 0,
                Fate::Keep => u64::MAX,
            };
            answer(stream, directory.clone(), most);
        }
    })
}

/// Answers up to `most` receives.
fn answer(mut stream: TcpStream, directory: Arc<Directory>, most: u64) {
    let config = Arc::new(TargetConfig::default());
    let mut end = IscsiTarget::new(config, directory, "127.0.0.1:1,1", 1, Nanos(0));
    let (mut out, mut bytes) = (Outbox::new(Pool::new(64, 16)), vec![0; 64 << 10]);
    for _ in 0..most {
        let len = match stream.read(&mut bytes) {
            Ok(len) if len > 0 => len,
            _ => return,
        };
        end.receive(Nanos(0), &bytes[..len], &mut out).unwrap();
        // Data of long writes, which are ignored.
        while let Some(request) = end.requests().pop_front() {
            let Io { tag, buf, .. } = request.io;
            let done = Done { tag, result: Ok(()), cause: Cause::NONE, buf };
            end.complete(Nanos(0), done, &mut out);
        }
        let mut chain = Chain::default();
        out.exchange(&mut chain);
        let answer: Vec<u8> = chain.pieces().iter().map(Piece::to_vec).collect::<Vec<_>>().concat();
        chain.recycle(out.pool());
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

/// Reads until `reads` are complete and the connection is up; returns their results.
fn read(core: &Core, lane: &mut dyn Lane, reads: usize) -> Vec<Result<(), Fault>> {
    let (mut done, mut ready) = (Vec::new(), Vec::new());
    let read = |tag| {
        let (tag, op, offset) = (Tag(tag), Op::Read, tag % 2048 * 512);
        Io { tag, op, offset, len: 512, fua: false, buf: None }
    };
    let (mut next, mut results) = (0, Vec::new());
    while results.len() < reads {
        lane.poll(core.now(), &mut done);
        for one in done.drain(..) {
            one.buf.into_iter().for_each(|buf| core.pool().give(buf));
            results.push(one.result);
        }
        let mut ios: VecDeque<Io> =
            (next..(results.len() + 4).min(reads) as u64).map(read).collect();
        next += ios.len() as u64;
        lane.submit(core.now(), &mut ios);
        next -= ios.len() as u64;
        let soon = core.now() + Nanos::from_millis(100);
        core.turn(Some(lane.wake().map_or(soon, |at| at.min(soon))), &mut ready).unwrap();
    }
    results
}

fn lane(core: &Core, address: &str, option: &str) -> Box<dyn Lane> {
    volume(dial(address, option), shape()).lane(core).unwrap()
}

/// The geometry that the initiator finds.
fn shape() -> Geometry {
    Geometry { trim_zeroes: true, volatile: false, ..Geometry::new(1 << 20, 512) }
}

/// Owners may submit before they poll: data that a target solicits are then queued by the poll, and
/// no event follows until they are sent.
#[test]
fn solicited_data_is_due_at_once() {
    let core = core();
    let (listener, address) = local();
    let server = serve(listener, vec![Fate::Keep]);
    let mut lane = lane(&core, &address, "");
    let end = core.now() + Nanos::from_secs(5);
    let (mut done, mut ready) = (Vec::new(), Vec::new());
    for len in [4096, 64 << 10, 256 << 10, 512 << 10] {
        let buf = core.pool().take_beyond(len as usize);
        let io = Io { tag: Tag(1), op: Op::Write, offset: 0, len, fua: false, buf };
        let mut ios = VecDeque::from([io]);
        loop {
            lane.submit(core.now(), &mut ios);
            lane.poll(core.now(), &mut done);
            if !done.is_empty() {
                break;
            }
            let wake = lane.wake().map_or(end, |wake| wake.min(end));
            core.turn(Some(wake), &mut ready).unwrap();
            assert!(core.now() < end, "{len} bytes: no event came");
        }
        assert!(done.drain(..).all(|one| one.result.is_ok()), "{len}");
    }
    drop(lane);
    server.join().unwrap();
}

#[test]
fn every_loss_is_counted_and_every_io_is_done() {
    for seed in 0..8 {
        let core = core();
        let mut rng = Rng::new(seed, 7);
        let mut fates = Vec::new();
        for _ in 0..=rng.below(3) {
            // The login and the first queries need five receives.
            fates.push(Fate::Cut(8 + rng.below(40)));
            fates.extend(vec![Fate::Refuse; rng.below(2) as usize]);
        }
        fates.push(Fate::Keep);
        let count = |of: fn(&Fate) -> bool| fates.iter().filter(|fate| of(fate)).count() as u64;
        let (cut, refused) =
            (count(|fate| matches!(fate, Fate::Cut(_))), count(|fate| *fate == Fate::Refuse));
        let (listener, address) = local();
        let server = serve(listener, fates.clone());
        let mut lane = lane(&core, &address, "?reconnect=30s");
        assert_eq!(lane.connection(core.now()), Connection::default(), "seed {seed}");
        let before = core.now();
        let results = read(&core, &mut *lane, 1000);
        assert!(results.iter().all(Result::is_ok), "seed {seed}: {fates:?}");
        let now = core.now();
        let counted = lane.connection(now);
        assert_eq!((counted.lost, counted.reconnects), (cut, cut), "seed {seed}: {fates:?}");
        assert_eq!(counted.failed_attempts, refused, "seed {seed}: {fates:?}");
        let gone = counted.disconnected;
        assert!(gone > Nanos(0) && gone <= now.since(before), "seed {seed}: {gone:?}");
        assert_eq!(lane.connection(now + Nanos::from_secs(9)), counted, "it is there");
        drop(lane);
        server.join().unwrap();
    }
}

#[test]
fn a_lane_that_does_not_come_back_has_lost_its_connection() {
    let core = core();
    let (listener, address) = local();
    let server = serve(listener, vec![Fate::Cut(20)]);
    let mut lane = lane(&core, &address, "");
    let results = read(&core, &mut *lane, 100);
    assert!(results.contains(&Err(Fault::Disconnected)) && lane.broken().is_some());
    let now = core.now();
    let counted = lane.connection(now);
    assert_eq!((counted.lost, counted.reconnects, counted.failed_attempts), (1, 0, 0));
    let later = lane.connection(now + Nanos::from_secs(9)).disconnected;
    assert_eq!(later.since(counted.disconnected), Nanos::from_secs(9), "it stays away");
    server.join().unwrap();
}

#[test]
fn a_connection_that_ends_in_order_is_not_lost() {
    let core = core();
    let (listener, address) = local();
    let server = serve(listener, vec![Fate::Keep]);
    let mut lane = lane(&core, &address, "?reconnect=30s");
    assert!(read(&core, &mut *lane, 10).iter().all(Result::is_ok));
    let (mut done, mut ready) = (Vec::new(), Vec::new());
    while !lane.close(core.now()) {
        lane.poll(core.now(), &mut done);
        core.turn(Some(core.now() + Nanos::from_millis(5)), &mut ready).unwrap();
    }
    assert_eq!(lane.connection(core.now()), Connection::default());
    drop(lane);
    server.join().unwrap();
}

/// A restarted server may show an older image.
#[test]
fn a_lane_meets_the_server_that_was_looked_at_or_looks_itself() {
    let (core, instance) = (core(), Instances::new(7).unit());
    let (listener, address) = local();
    let server = serve_as(listener, vec![Fate::Keep; 5], Some(instance.clone()));
    let volume = volume(dial(&address, ""), shape());
    assert!(volume.lane(&core).is_ok(), "nobody has looked");
    volume.facts.look_at(Some(instance.number()));
    assert!(volume.lane(&core).is_ok());
    volume.facts.look_at(Some(1));
    let why = volume.lane(&core).err().unwrap().to_string();
    assert!(why.contains("was restarted"), "{why}");
    let mut lane = [volume.begin_lane(&core).unwrap()];
    lane[0].looks();
    assert!(await_open(&core, &mut lane).is_ok() && lane[0].broken().is_none());
    let _new = lane[0].forget_losses();
    drop(lane);
    assert!(volume.lane(&core).is_ok(), "the other one was looked at");
    server.join().unwrap();
}

/// A dial whose association may end separately, as with NVMe.
#[derive(Clone)]
struct Ends(IscsiDial, Arc<AtomicBool>);

impl Dial for Ends {
    type End = IscsiInitiator;
    type Place = <IscsiDial as Dial>::Place;

    fn learn(&self) -> Result<Learned, OpenError> {
        self.0.learn()
    }
    fn initiator(
        &self,
        now: Nanos,
        wanted: Option<u64>,
    ) -> Result<(IscsiInitiator, Self::Place), String> {
        self.0.initiator(now, wanted)
    }
    fn stale(&self) -> Option<String> {
        self.1.load(Ordering::SeqCst).then(|| "it does not answer keep-alives".to_owned())
    }
    fn session(&self) -> &Session {
        self.0.session()
    }
    fn address(&self) -> &str {
        self.0.address()
    }
    fn uri(&self) -> String {
        self.0.uri()
    }
    fn transport(&self) -> &'static str {
        "iSCSI"
    }
}

/// An idle lane notices the end of its association; with I/Os in flight their timeout decides.
#[test]
fn a_lane_without_ios_notices_the_end_of_its_association() {
    for busy in [false, true] {
        let core = core();
        let (listener, address) = local();
        let server = serve(listener, vec![Fate::Cut(20)]);
        let ended = Arc::new(AtomicBool::new(false));
        let dial = Ends(dial(&address, ""), ended.clone());
        let mut lane = volume(dial, shape()).lane(&core).unwrap();
        let second = core.now() + SECOND;
        assert!(lane.wake().is_some_and(|at| at <= second), "it looks once a second");
        if busy {
            let (tag, op) = (Tag(1), Op::Read);
            let io = Io { tag, op, offset: 0, len: 512, fua: false, buf: None };
            lane.submit(core.now(), &mut VecDeque::from([io]));
        }
        ended.store(true, Ordering::SeqCst);
        // The response, if any, is not read.
        lane.poll(second, &mut Vec::new());
        let broken = (!busy).then_some("it does not answer keep-alives");
        assert_eq!(lane.broken(), broken);
        assert_eq!(lane.connection(second).lost, u64::from(!busy));
        drop(lane);
        server.join().unwrap();
    }
}
