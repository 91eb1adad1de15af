//! CPU cost of a command, in nanoseconds, at both ends of NVMe/TCP, joined in memory on one core.
//!
//! `cargo run --release -p drumfire-proto --example nvme_speed [milliseconds per shape [shape]]`
//!
//! Measures from the submission of an I/O to its `Done`, at both ends, with the copies of the
//! payload: initiator out, target in, the volume, target out, initiator in. There is no socket. The
//! cost of the ends alone is that of 512-byte I/Os on a part of the volume that fits into the cache
//! ("warm"); the rest is copying. Each number is that of the fastest 16,384 I/Os, to exclude other
//! load on the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use block::{Backing, Buf, Cause, Chain, Done, Geometry, Io, Memory, Nanos, Op, Piece, Pool, Tag};
use proto::nvme::{
    ControllerLimits, Controllers, Namespace, NvmeAdmin, NvmeInitiatorConfig, NvmeQueue,
    NvmeTarget, NvmeTargetConfig, Subsystem, Subsystems,
};
use proto::{DiskId, Initiator, Outbox, Phase, Request, Target, UnitId};

const VOLUME_BYTES: u64 = 64 << 20;
const OUTSTANDING: usize = 32;
const NQN: &str = "nqn.2026-01.org.drumfire:speed";
const NOW: Nanos = Nanos(1);

/// Both ends of one connection, and the target's volume.
struct Ends<I> {
    initiator: I,
    /// Target, boxed as in `serve`.
    target: Box<dyn Target>,
    up: Outbox,
    down: Outbox,
    chain: Chain,
    memory: Memory,
    executed: Vec<Done>,
    /// Time in the initiator, in the target, and in the volume.
    spent: [Duration; 3],
}

impl<I: Initiator> Ends<I> {
    fn new(initiator: I, target: NvmeTarget, memory: Memory) -> Ends<I> {
        let outbox = || Outbox::new(Pool::new(256, 64));
        let (up, down, chain, executed) = (outbox(), outbox(), Chain::default(), Vec::new());
        let (target, spent) = (Box::new(target), [Duration::ZERO; 3]);
        let mut ends = Ends { initiator, target, up, down, chain, memory, executed, spent };
        ends.initiator.tick(NOW, &mut ends.up).expect("it begins");
        while !matches!(ends.initiator.phase(), Phase::Ready(_)) {
            ends.turn();
        }
        ends
    }

    /// Carries the pending output to the target and its answers back.
    fn turn(&mut self) {
        let mut clock = Instant::now();
        let mut lap = |spent: &mut Duration| {
            let now = Instant::now();
            *spent += now - clock;
            clock = now;
        };
        self.up.exchange(&mut self.chain);
        lap(&mut self.spent[0]);
        for piece in self.chain.pieces() {
            let Piece::Owned { buf, len } = piece else { unreachable!("commands are copied") };
            self.target.receive(NOW, &buf[..*len], &mut self.down).expect("a legal stream");
        }
        self.chain.recycle(self.up.pool());
        lap(&mut self.spent[1]);
        for Request { io, .. } in self.target.requests().drain(..) {
            let Io { tag, op, len, offset, buf, .. } = io;
            if let (Op::Write, Some(buf)) = (op, &buf) {
                self.memory.write(offset, &buf[..len as usize]);
            }
            self.executed.push(Done { tag, result: Ok(()), cause: Cause::NONE, buf });
        }
        lap(&mut self.spent[2]);
        for done in self.executed.drain(..) {
            self.target.complete(NOW, done, &mut self.down);
        }
        self.down.exchange(&mut self.chain);
        lap(&mut self.spent[1]);
        for piece in self.chain.pieces() {
            let Piece::Owned { buf, len } = piece else { unreachable!("short data is copied") };
            self.initiator.receive(NOW, &buf[..*len], &mut self.up).expect("a legal stream");
        }
        self.chain.recycle(self.down.pool());
        lap(&mut self.spent[0]);
    }

    /// Runs one shape at random offsets within the first `bytes`, and prints the cost of a command.
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

    fn batch(&mut self, op: Op, len: u32, offsets: &[u64], bufs: &mut [Option<Buf>]) {
        let begin = Instant::now();
        for ((tag, buf), offset) in bufs.iter_mut().enumerate().zip(offsets) {
            let (tag, offset) = (Tag(tag as u64), *offset);
            let io = Io { tag, op, fua: false, len, offset, buf: buf.take() };
            self.initiator.submit(NOW, io, &mut self.up);
        }
        self.spent[0] += begin.elapsed();
        self.turn();
        let done = self.initiator.done();
        assert_eq!(done.len(), OUTSTANDING);
        for done in done.drain(..) {
            assert_eq!(done.result, Ok(()));
            bufs[done.tag.0 as usize] = done.buf;
        }
    }
}

/// Returns an I/O queue, and the admin queue that keeps its association alive.
fn ends(digests: bool) -> (Ends<NvmeQueue>, Ends<NvmeAdmin>) {
    let geometry = Geometry::new(VOLUME_BYTES, 512);
    let memory = Memory::new(VOLUME_BYTES).expect("64 MiB");
    memory.zero(0, VOLUME_BYTES);
    let (memory_of, disk) = (Some(memory.clone()), DiskId::new([1; 16]));
    let namespace = Namespace {
        id: UnitId(0),
        geometry,
        memory: memory_of,
        disk,
        backing: Backing::Memory,
        instance: None,
        shared: Default::default(),
    };
    let subsystem = Subsystem {
        nqn: NQN.to_owned(),
        namespaces: vec![Some(namespace)],
        serial: "1".to_owned(),
        model: "ram".to_owned(),
        shared: false,
    };
    let subsystems = Arc::new(Subsystems::new(vec![subsystem]).expect("one valid name"));
    let controllers = Arc::new(Controllers::new(ControllerLimits::default()));
    let target_config = Arc::new(NvmeTargetConfig::default());
    let target = || {
        let (config, controllers) = (Arc::clone(&target_config), Arc::clone(&controllers));
        NvmeTarget::new(config, Arc::clone(&subsystems), controllers, "192.0.2.1", "4420", NOW)
    };
    let config = NvmeInitiatorConfig {
        header_digest: digests,
        data_digest: digests,
        ..NvmeInitiatorConfig::new(NQN, [1; 16], NQN, 1)
    };
    let admin = Ends::new(NvmeAdmin::new(&config, NOW), target(), memory.clone());
    let association = admin.initiator.ready().expect("it is ready");
    let queue = NvmeQueue::new(&config, association, 1, NOW);
    (Ends::new(queue, target(), memory), admin)
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
        let (mut ends, _admin) = ends(digests);
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
