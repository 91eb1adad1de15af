//! Both ends of a queue joined in memory, and ends whose peer lies.

use std::collections::VecDeque;
use std::sync::Arc;

use block::{Cause, Done, Fault, Geometry, Io, Memory, Op, Pool, Rng, Window};
use proptest::prelude::*;

use super::chain::{Descriptor, INDIRECT, NEXT, WRITE};
use super::*;

const BYTES: u64 = 1 << 20;
const SLOT_BYTES: u64 = 16 << 10;
const BASE: u64 = 0x10_0000;

/// A driver and a device of one queue.
struct Pair {
    driver: DriverQueue,
    device: BlockQueue,
    disk: Disk,
    /// The medium of a device whose requests go to a lane.
    medium: Memory,
    window: Window,
    pool: Pool,
    ios: VecDeque<Io>,
}

impl Pair {
    fn new(size: u16, features: u64, in_memory: bool) -> Pair {
        let features = Features(features);
        let window =
            Window::anonymous(DriverQueue::bytes(size, SLOT_BYTES, features)).expect("memory");
        let driver = DriverQueue::new(window.clone(), BASE, size, SLOT_BYTES, features).unwrap();
        let guest = driver.memory().unwrap();
        let windows = Windows::find(&guest, size, &driver.addresses()).unwrap();
        let device = BlockQueue::new(windows, 0, features, guest);
        let medium = Memory::new(BYTES).expect("memory");
        let geometry = Geometry { volatile: true, ..Geometry::new(BYTES, 512) };
        let memory = in_memory.then(|| medium.clone());
        let disk = Disk { geometry, memory, serial: *b"0123456789abcdefghij" };
        let (pool, ios) = (Pool::new(64, 64), VecDeque::new());
        Pair { driver, device, disk, medium, window, pool, ios }
    }

    /// Lets the device work; the lane completes in the order of `pick`.
    fn work(&mut self, pick: usize) -> Result<(), RingViolation> {
        loop {
            let taken = self.device.take(&self.disk, &self.pool, &mut self.ios)?;
            if taken.requests == 0 && self.ios.is_empty() {
                break;
            }
            while !self.ios.is_empty() {
                let io = self.ios.remove(pick % self.ios.len()).expect("an I/O");
                let done = execute(&self.medium, io);
                self.device.complete(done, &self.pool);
            }
        }
        self.device.publish();
        Ok(())
    }
}

/// A lane to memory.
fn execute(medium: &Memory, mut io: Io) -> Done {
    let len = io.len as usize;
    assert!(io.offset + u64::from(io.len) <= BYTES, "{:?} outside of the volume", io.op);
    match (io.op, &mut io.buf) {
        (Op::Read, Some(buf)) => medium.read(io.offset, &mut buf[..len]),
        (Op::Write, Some(buf)) => medium.write(io.offset, &buf[..len]),
        (Op::Flush, None) => {}
        (Op::Trim | Op::WriteZeroes, None) => medium.zero(io.offset, io.len.into()),
        (op, buf) => panic!("{op:?} with {buf:?}"),
    }
    Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf }
}

const ALL: u64 = F_VERSION_1 | F_EVENT_IDX | F_INDIRECT | 1 << 9;

/// One step of a driver: operation, block, number of blocks, and what is written.
type Step = (u8, u64, u64, u8);

/// Runs steps on a pair, several in flight at once, and compares with a plain array.
fn compare(mut pair: Pair, steps: &[Step], at_once: usize, pick: usize) {
    let mut model = vec![0_u8; BYTES as usize];
    for batch in steps.chunks(at_once) {
        let mut expected = Vec::new();
        let mut used = Vec::new();
        for &(kind, block, blocks, byte) in batch {
            let (at, len) = ((block * 512) as usize, (blocks * 512) as usize);
            // Requests in flight at once are on different blocks.
            if used.iter().any(|&(from, to)| at < to && from < at + len) {
                continue;
            }
            used.push((at, at + len));
            let op = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes][kind as usize % 5];
            let data = vec![byte; len];
            let (offset, bytes) = (at as u64, len as u32);
            let data = (op == Op::Write).then_some(&*data);
            let Some(slot) = pair.driver.start(op, offset, bytes, data) else { continue };
            match op {
                Op::Write => model[at..at + len].fill(byte),
                Op::Trim | Op::WriteZeroes => model[at..at + len].fill(0),
                Op::Read | Op::Flush => {}
            }
            expected.push((slot, op, at, len));
        }
        pair.driver.publish();
        pair.work(pick).unwrap();
        while let Some(Completed { slot, result, .. }) = pair.driver.poll().unwrap() {
            assert_eq!(result, Ok(()));
            let index = expected.iter().position(|one| one.0 == slot).expect("in flight");
            let (_, op, at, len) = expected.swap_remove(index);
            if op == Op::Read {
                let mut back = vec![0xee; len];
                pair.driver.read_data(slot, &mut back);
                assert!(back == model[at..at + len], "read of {len} bytes at {at}");
            }
            pair.driver.release(slot);
        }
        assert!(expected.is_empty(), "unanswered: {expected:?}");
    }
    assert_eq!((pair.device.in_flight(), pair.pool.lent()), (0, [0, 0]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 64 }))]
    #[test]
    fn both_ends_keep_what_was_written(
        steps in prop::collection::vec((0_u8..5, 0_u64..2000, 1_u64..32, any::<u8>()), 1..400),
        (size, at_once, pick) in (2_u16..9, 1_usize..64, any::<usize>()),
        (indirect, event, in_memory) in (any::<bool>(), any::<bool>(), any::<bool>()),
    ) {
        let features = F_VERSION_1 | if indirect { F_INDIRECT } else { 0 }
            | if event { F_EVENT_IDX } else { 0 };
        compare(Pair::new(1 << size, features, in_memory), &steps, at_once, pick);
    }
}

#[test]
fn requests_beyond_the_volume_and_unknown_ones_have_a_status() {
    let mut pair = Pair::new(16, ALL, true);
    for (op, offset, len) in [
        (Op::Read, BYTES - 512, 1024),
        (Op::Write, u64::MAX / 512 * 512, 512),
        (Op::Trim, BYTES, 512),
        (Op::WriteZeroes, 0, 0),
    ] {
        let data = vec![1; len as usize];
        let data = (op == Op::Write).then_some(&*data);
        let slot = pair.driver.start(op, offset, len, data).unwrap();
        pair.driver.publish();
        pair.work(0).unwrap();
        let done = pair.driver.poll().unwrap().unwrap();
        assert_eq!((done.slot, done.result), (slot, Err(Fault::Medium)), "{op:?}");
        pair.driver.release(slot);
    }
    pair.disk.geometry.read_only = true;
    pair.driver.start(Op::Write, 0, 512, Some(&[1; 512])).unwrap();
    pair.driver.publish();
    pair.work(0).unwrap();
    assert_eq!(pair.driver.poll().unwrap().unwrap().result, Err(Fault::Medium));
    let mut first = [9];
    pair.medium.read(0, &mut first);
    assert_eq!(first, [0], "nothing was written");
}

/// A driver that writes the ring itself: descriptor table, available ring, used ring.
struct Raw {
    window: Window,
    guest: Arc<GuestMemory>,
    device: BlockQueue,
    next: u16,
}

const RAW_SIZE: u16 = 8;

impl Raw {
    fn new() -> Raw {
        let window = Window::anonymous(64 << 10).unwrap();
        let area = Area { guest: 0, user: BASE, window: window.clone() };
        let guest = Arc::new(GuestMemory::new(vec![area]).unwrap());
        let at = Addresses { descriptors: BASE, available: BASE + 0x100, used: BASE + 0x200 };
        let windows = Windows::find(&guest, RAW_SIZE, &at).unwrap();
        let device = BlockQueue::new(windows, 0, Features(F_VERSION_1), guest.clone());
        Raw { window, guest, device, next: 0 }
    }

    fn describe(&self, at: u64, address: u64, len: u32, flags: u16, next: u16) {
        Descriptor { address, len, flags, next }.store(&self.window, at).unwrap();
    }

    fn offer(&mut self, head: u16) {
        let at = 0x104 + 2 * u64::from(self.next % RAW_SIZE);
        self.window.store16(at, head).unwrap();
        self.next += 1;
        self.window.store16(0x102, self.next).unwrap();
    }

    fn take(&mut self) -> Result<Taken, RingViolation> {
        let geometry = Geometry::new(BYTES, 512);
        let memory = Some(Memory::new(BYTES).unwrap());
        let disk = Disk { geometry, memory, serial: *b"0123456789abcdefghij" };
        self.device.take(&disk, &Pool::new(4, 4), &mut VecDeque::new())
    }

    fn header(&self, at: u64, kind: u32, sector: u64) {
        self.window.write(at, &u64::from(kind).to_le_bytes()).unwrap();
        self.window.write(at + 8, &sector.to_le_bytes()).unwrap();
    }
}

#[test]
fn headers_data_and_status_may_be_divided_at_any_byte() {
    let mut raw = Raw::new();
    raw.header(0x1003, wire::GET_ID, 0);
    raw.describe(0x00, 0x1003, 5, NEXT, 1);
    raw.describe(0x10, 0x1008, 11, NEXT, 2);
    raw.describe(0x20, 0x2001, 7, NEXT | WRITE, 3);
    raw.describe(0x30, 0x3001, 14, WRITE, 0);
    raw.offer(0);
    assert_eq!(raw.take(), Ok(Taken { requests: 1, answered: 1 }));
    assert!(raw.device.publish());
    let mut id = [0; 20];
    raw.window.read(0x2001, &mut id[..7]).unwrap();
    raw.window.read(0x3001, &mut id[7..]).unwrap();
    assert_eq!(&id, b"0123456789abcdefghij");
    assert_eq!(raw.window.load8(0x3001 + 13), Some(0), "status");
    assert_eq!((raw.window.load16(0x202), raw.window.load32(0x208)), (Some(1), Some(21)));
    drop(raw.guest);
}

#[test]
fn each_lie_of_a_driver_has_its_rule_and_place() {
    type Plan = fn(&mut Raw);
    let lies: &[(Plan, Place)] = &[
        (|raw| raw.offer(8), Place::Descriptor(8)),
        (|raw| raw.window.store16(0x102, 9).unwrap(), Place::Available(9)),
        (|raw| raw.describe(0, 0x1000, 16, NEXT, 9), Place::Descriptor(9)),
        (|raw| raw.describe(0, 0x1000, 16, NEXT, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0xfff8, 16, 0, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, u64::MAX - 7, 16, 0, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0x1000, 0, 0, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0x1000, 15, 0, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0x1000, 24, INDIRECT, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0x1000, 0, INDIRECT, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0x1000, 32, INDIRECT | NEXT, 0), Place::Descriptor(0)),
        (|raw| raw.describe(0, 0xfff0, 32, INDIRECT, 0), Place::Descriptor(0)),
        (
            |raw| {
                raw.describe(0, 0x1000, 32, INDIRECT, 0);
                raw.describe(0x1000, 0x1000, 16, INDIRECT, 0);
            },
            Place::Indirect(0),
        ),
        (
            |raw| {
                raw.describe(0, 0x1000, 32, INDIRECT, 0);
                raw.describe(0x1000, 0x2000, 16, NEXT, 0);
            },
            Place::Indirect(0),
        ),
        (
            |raw| {
                raw.describe(0, 0x1000, 16, NEXT | WRITE, 1);
                raw.describe(0x10, 0x1000, 16, 0, 0);
            },
            Place::Descriptor(1),
        ),
    ];
    for (index, (lie, place)) in lies.iter().enumerate() {
        let mut raw = Raw::new();
        lie(&mut raw);
        if raw.window.load16(0x102) == Some(0) {
            raw.offer(0);
        }
        let found = raw.take().expect_err("a lie");
        assert_eq!(found.place, *place, "{index}: {found}");
    }
}

#[test]
fn requests_before_a_lie_end() {
    for in_memory in [true, false] {
        let mut pair = Pair::new(16, F_VERSION_1, in_memory);
        pair.driver.start(Op::Write, 0, 512, Some(&[7; 512])).unwrap();
        pair.driver.start(Op::Read, 0, 512, None).unwrap();
        // The chain of the second request has a loop.
        let second = pair.window.load16(0x104 + 2).unwrap();
        Descriptor { address: BASE, len: 16, flags: NEXT, next: second }
            .store(&pair.window, u64::from(second) * 16)
            .unwrap();
        pair.driver.publish();
        let found = pair.device.take(&pair.disk, &pair.pool, &mut pair.ios);
        found.expect_err("a loop");
        while let Some(io) = pair.ios.pop_front() {
            pair.device.complete(execute(&pair.medium, io), &pair.pool);
        }
        assert_eq!((pair.device.in_flight(), pair.pool.lent()), (0, [0, 0]));
        let mut first = [0];
        pair.medium.read(0, &mut first);
        assert_eq!(first, [7]);
    }
}

/// Random words over everything that the other end can write.
fn scribble(window: &Window, rng: &mut Rng, until: u64) {
    for _ in 0..=rng.below(4) {
        let at = rng.below(until);
        match rng.below(4) {
            0 => window.store8(at, rng.next_u64() as u8),
            1 => window.store16(at & !1, rng.below(20) as u16),
            2 => window.store32(at & !3, rng.below(1 << 18) as u32),
            _ => window.store64(at & !7, BASE.wrapping_add(rng.below(1 << 19))),
        };
    }
}

const SEEDS: u64 = if cfg!(miri) { 3 } else { 3000 };

#[test]
fn a_hostile_driver_gets_violations_and_statuses_but_nothing_else() {
    let (mut violations, mut good) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed, 48);
        let features = rng.next_u64() & (F_INDIRECT | F_EVENT_IDX) | F_VERSION_1;
        let mut pair = Pair::new(16, features, seed % 2 == 0);
        for _ in 0..20 {
            for _ in 0..rng.below(8) {
                let (block, byte) = (rng.below(2100), rng.next_u64() as u8);
                let data = [byte; 1024];
                match rng.below(2) {
                    0 => pair.driver.start(Op::Read, block * 512, 1024, None),
                    _ => pair.driver.start(Op::Write, block * 512, 1024, Some(&data)),
                };
            }
            pair.driver.publish();
            // Rings, tables, headers, and some data.
            scribble(&pair.window, &mut rng, 8192);
            if pair.work(rng.below(9) as usize).is_err() {
                violations += 1;
                break;
            }
            good += 1;
            while let Ok(Some(done)) = pair.driver.poll() {
                pair.driver.release(done.slot);
            }
        }
        while let Some(io) = pair.ios.pop_front() {
            pair.device.complete(execute(&pair.medium, io), &pair.pool);
        }
        let left = (pair.device.in_flight(), pair.pool.lent());
        assert_eq!(left, (0, [0, 0]), "seed {seed}: nothing is left in flight");
    }
    assert!(cfg!(miri) || violations > SEEDS / 3 && good > SEEDS, "{violations} {good}");
}

#[test]
fn a_hostile_device_gets_violations_but_nothing_else() {
    let (mut violations, mut good) = (0, 0);
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed, 48);
        let mut pair = Pair::new(16, ALL, true);
        'run: for _ in 0..20 {
            while pair.driver.start(Op::Read, rng.below(2048) * 512, 512, None).is_some() {}
            pair.driver.publish();
            let _ = pair.work(0);
            scribble(&pair.window, &mut rng, 4096);
            let mut slots = Vec::new();
            loop {
                match pair.driver.poll() {
                    Ok(Some(done)) => slots.push(done.slot),
                    Ok(None) => break,
                    Err(_) => {
                        violations += 1;
                        break 'run;
                    }
                }
            }
            good += slots.len() as u64;
            let mut unique = slots.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), slots.len(), "seed {seed}: each completes once");
            slots.iter().for_each(|slot| pair.driver.release(*slot));
        }
    }
    assert!(cfg!(miri) || violations > 100 && good > SEEDS, "{violations} {good}");
}

#[test]
fn an_end_that_sleeps_is_told() {
    for features in [ALL, F_VERSION_1] {
        let mut pair = Pair::new(64, features, true);
        pair.device.silence();
        pair.driver.silence();
        assert!(!pair.device.listen(), "nothing yet");
        pair.driver.start(Op::Flush, 0, 0, None).unwrap();
        assert!(pair.driver.publish(), "the device sleeps");
        assert!(pair.device.listen(), "a request came before");
        assert!(!pair.driver.listen());
        assert_eq!(pair.device.take(&pair.disk, &pair.pool, &mut pair.ios).unwrap().answered, 1);
        assert!(pair.device.publish(), "the driver sleeps");
        pair.device.silence();
        let slot = pair.driver.poll().unwrap().unwrap().slot;
        pair.driver.release(slot);
        pair.driver.silence();
        for _ in 0..3 {
            pair.driver.start(Op::Flush, 0, 0, None).unwrap();
            assert!(!pair.driver.publish(), "the device polls");
            pair.device.take(&pair.disk, &pair.pool, &mut pair.ios).unwrap();
            assert!(!pair.device.publish(), "the driver polls");
            let slot = pair.driver.poll().unwrap().unwrap().slot;
            pair.driver.release(slot);
        }
    }
}
