//! CPU cost of a command, in nanoseconds, at both ends of iSCSI, joined in memory on one core.
//!
//! `cargo run --release -p drumfire-proto --example pair_speed [milliseconds per shape [shape]]`
//!
//! Measures from the submission of an I/O to its `Done`, at both ends, with the copies of the
//! payload: initiator out, target in, the volume, target out, initiator in. There is no socket. The
//! cost of the ends alone is that of 512-byte I/Os on a part of the volume that fits into the cache
//! ("warm"); the rest is copying. The numbers are those of the fastest 16,384 I/Os, to exclude
//! other load on the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{Buf, Cause, Chain, Done, Geometry, Io, Memory, Nanos, Op, Piece, Pool, Tag};
use proto::iscsi::{
    Directory, InitiatorConfig, IscsiInitiator, IscsiTarget, TargetConfig, TargetEntry,
};
use proto::scsi::{Identity, Unit};
use proto::{DiskId, Endpoint, Initiator, Outbox, Phase, Request, Target, UnitId};

const VOLUME_BYTES: u64 = 64 << 20;
const OUTSTANDING: usize = 32;
const PORTAL: &str = "127.0.0.1:3260,1";
const NAME: &str = "iqn.2026-01.org.drumfire:speed";

struct Ends {
    initiator: IscsiInitiator,
    /// Target, boxed as in `serve`.
    target: Box<dyn Target>,
    up: Outbox,
    down: Outbox,
    chain: Chain,
    memory: Memory,
    executed: Vec<Done>,
    /// Nanoseconds in the initiator, in the target, and in the volume.
    spent: [Duration; 3],
}

fn ends(digests: bool) -> Ends {
    let identity = Identity { disk: DiskId::new([1; 16]), product: "ram".to_owned() };
    let memory = Memory::new(VOLUME_BYTES).expect("64 MiB");
    let geometry = Geometry::new(VOLUME_BYTES, 512);
    let unit = Unit::new(UnitId(0), geometry, Some(memory.clone()), identity);
    let entry = TargetEntry {
        name: NAME.to_owned(),
        units: vec![Some(unit)],
        alias: String::new(),
        chap: None,
    };
    let directory = Arc::new(Directory::new(vec![entry]).expect("one valid name"));
    let config = InitiatorConfig {
        header_digest: digests,
        data_digest: digests,
        ..InitiatorConfig::new(NAME, NAME, 0)
    };
    let target_config = Arc::new(TargetConfig::default());
    let mut ends = Ends {
        initiator: IscsiInitiator::new(config, Nanos(0)),
        target: Box::new(IscsiTarget::new(target_config, directory, PORTAL, 1, Nanos(0))),
        up: Outbox::new(Pool::new(256, 64)),
        down: Outbox::new(Pool::new(256, 64)),
        chain: Chain::default(),
        memory,
        executed: Vec::new(),
        spent: [Duration::ZERO; 3],
    };
    ends.memory.zero(0, VOLUME_BYTES);
    ends.initiator.tick(Nanos(0), &mut ends.up).expect("the login begins");
    while !matches!(ends.initiator.phase(), Phase::Ready(_)) {
        ends.turn();
    }
    ends
}

impl Ends {
    /// Carries the pending output to the target and its answers back.
    fn turn(&mut self) {
        let now = Nanos(1);
        let begin = Instant::now();
        self.up.exchange(&mut self.chain);
        let sent = Instant::now();
        self.spent[0] += sent - begin;
        for piece in self.chain.pieces() {
            let Piece::Owned { buf, len } = piece else { unreachable!("commands are copied") };
            self.target.receive(now, &buf[..*len], &mut self.down).expect("a legal stream");
        }
        self.chain.recycle(self.up.pool());
        let received = Instant::now();
        self.spent[1] += received - sent;
        for Request { io, .. } in self.target.requests().drain(..) {
            let Io { tag, op, len, offset, buf, .. } = io;
            if let (Op::Write, Some(buf)) = (op, &buf) {
                self.memory.write(offset, &buf[..len as usize]);
            }
            self.executed.push(Done { tag, result: Ok(()), cause: Cause::NONE, buf });
        }
        let executed = Instant::now();
        self.spent[2] += executed - received;
        for done in self.executed.drain(..) {
            self.target.complete(now, done, &mut self.down);
        }
        self.down.exchange(&mut self.chain);
        let answered = Instant::now();
        self.spent[1] += answered - executed;
        for piece in self.chain.pieces() {
            let Piece::Owned { buf, len } = piece else { unreachable!("short data is copied") };
            self.initiator.receive(now, &buf[..*len], &mut self.up).expect("a legal stream");
        }
        self.chain.recycle(self.down.pool());
        self.spent[0] += answered.elapsed();
    }

    /// Runs one shape at chance within the first `bytes`, and prints its cost.
    fn run(&mut self, name: &str, op: Op, len: u32, bytes: u64, span: Duration) {
        let pool = self.up.pool().clone();
        let buf = || pool.take(len as usize).expect("a buffer each");
        let mut bufs: Vec<_> = (0..OUTSTANDING).map(|_| Some(buf())).collect();
        let offsets = offsets(bytes, len);
        let mut best = [f64::MAX; 3];
        let begin = Instant::now();
        while begin.elapsed() < span {
            self.spent = [Duration::ZERO; 3];
            for batch in offsets.chunks_exact(OUTSTANDING) {
                self.batch(op, len, batch, &mut bufs);
            }
            let spent = self.spent.map(|span| span.as_nanos() as f64 / offsets.len() as f64);
            if spent.iter().sum::<f64>() < best.iter().sum() {
                best = spent;
            }
        }
        let ([initiator, target, volume], sum) = (best, best.iter().sum::<f64>());
        println!(
            "{name:<24} {sum:>6.1} ns: initiator {initiator:>6.1}, target {target:>6.1}, \
             volume {volume:>6.1}",
        );
        bufs.into_iter().flatten().for_each(|buf| pool.give(buf));
    }

    /// Runs one batch.
    fn batch(&mut self, op: Op, len: u32, offsets: &[u64], bufs: &mut [Option<Buf>]) {
        let submit = Instant::now();
        for ((tag, buf), offset) in bufs.iter_mut().enumerate().zip(offsets) {
            let (tag, offset) = (Tag(tag as u64), *offset);
            let io = Io { tag, op, fua: false, len, offset, buf: buf.take() };
            self.initiator.submit(Nanos(1), io, &mut self.up);
        }
        self.spent[0] += submit.elapsed();
        self.turn();
        for done in self.initiator.done().drain(..) {
            assert_eq!(done.result, Ok(()));
            bufs[done.tag.0 as usize] = done.buf;
        }
    }
}

/// Many batches of offsets at chance.
fn offsets(bytes: u64, len: u32) -> Vec<u64> {
    let blocks = bytes / u64::from(len);
    let step = |chance: &u64| Some(chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let chances = std::iter::successors(Some(1_u64), step).take(OUTSTANDING << 9);
    chances.map(|chance| (chance >> 33) % blocks * u64::from(len)).collect()
}

fn main() {
    let millis = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(300);
    let span = Duration::from_millis(millis);
    let only = std::env::args().nth(2);
    for digests in [false, true] {
        let mut ends = ends(digests);
        let with = if digests { ", digests" } else { "" };
        for (op, word) in [(Op::Read, "read"), (Op::Write, "write")] {
            for (len, bytes) in [(512, 64 << 10), (512, VOLUME_BYTES), (4096, VOLUME_BYTES)] {
                let warm = if bytes < VOLUME_BYTES { ", warm" } else { "" };
                let name = format!("{word} {len}{with}{warm}");
                if only.as_ref().is_none_or(|only| *only == name) {
                    ends.run(&name, op, len, bytes, span);
                }
            }
        }
    }
}
