//! I/Os of any offset and length on stripes, compared with a flat buffer.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use block::{Buf, Cause, Done, Fault, Io, Nanos, Op, Rng, Tag};

use super::*;

const STRIPE: u64 = 4096;
const PART: u64 = 4 * STRIPE;

/// A part in memory that completes I/Os some polls later, or fails at some offsets.
struct Store {
    bytes: Rc<RefCell<Vec<u8>>>,
    done: VecDeque<Done>,
    bad: Option<u64>,
}

impl Lane for Store {
    fn geometry(&self) -> Geometry {
        Geometry::new(PART, 512)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for mut io in ios.drain(..) {
            let mut result = self.geometry().check(&io);
            let range = io.offset as usize..(io.offset + u64::from(io.len)) as usize;
            if self.bad.is_some_and(|bad| range.contains(&(bad as usize))) {
                result = Err(Fault::Medium);
            }
            let bytes = &mut *self.bytes.borrow_mut();
            match (io.op, io.buf.as_mut()) {
                _ if result.is_err() => {}
                (Op::Read, Some(buf)) => buf[..io.len as usize].copy_from_slice(&bytes[range]),
                (Op::Write, Some(buf)) => bytes[range].copy_from_slice(&buf[..io.len as usize]),
                (Op::Trim | Op::WriteZeroes, _) => bytes[range].fill(0),
                _ => {}
            }
            self.done.push_back(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.extend(self.done.pop_front());
    }

    fn wake(&self) -> Option<Nanos> {
        (!self.done.is_empty()).then_some(Nanos(0))
    }
}

/// A lane over `parts` parts, the second of which may have a bad block.
fn lane(parts: usize, pool: &Pool, bad: Option<u64>) -> Box<dyn Lane> {
    let part = || -> Arc<dyn Volume> { Arc::new(crate::null::Null::new(PART, 512)) };
    let whole = Striped::whole((0..parts).map(|_| part()).collect(), STRIPE).unwrap();
    assert_eq!(whole.geometry().bytes(), PART * parts as u64);
    let store = |index| -> Box<dyn Lane> {
        let bytes = Rc::new(RefCell::new(vec![0; PART as usize]));
        Box::new(Store { bytes, done: VecDeque::new(), bad: bad.filter(|_| index == 1) })
    };
    whole.around((0..parts).map(store).collect(), pool)
}

fn go(lane: &mut dyn Lane, io: Io) -> Done {
    let mut done = Vec::new();
    lane.submit(Nanos(0), &mut VecDeque::from([io]));
    for _ in 0..100 {
        lane.poll(Nanos(0), &mut done);
    }
    assert_eq!(done.len(), 1, "one answer for one I/O");
    done.remove(0)
}

fn io(op: Op, offset: u64, len: u32, byte: u8) -> Io {
    let buf = matches!(op, Op::Read | Op::Write).then(|| {
        let mut buf = Buf::new(len as usize).expect("memory");
        buf[..len as usize].fill(byte);
        buf
    });
    Io { tag: Tag(7), op, fua: false, len, offset, buf }
}

#[test]
fn stripes_hold_what_a_flat_volume_holds() {
    for seed in 0..40 {
        let parts = 2 + Rng::new(seed, 1).below(4) as usize;
        let pool = Pool::new(64, 64);
        holds(&mut *lane(parts, &pool, None), seed);
        assert_eq!(pool.lent(), [0, 0], "every buffer of a piece came home");
    }
}

/// Stripes within the call, and over mirrors.
#[test]
fn so_do_stripes_over_memory() {
    let core = Core::open(Pool::new(64, 64)).unwrap();
    for (seed, uri) in (0..).zip([
        "stripe:4k(ram:16k,ram:16k)",
        "stripe:4k(ram:16k,ram:64k,ram:32k)",
        "stripe:4k(mirror(ram:16k,ram:16k,ram:16k),ram:16k)",
        "mirror(stripe:4k(ram:16k,ram:16k),ram:32k)",
        "stripe:4k(stripe:8k(ram:16k,ram:16k),mirror(ram:32k,ram:32k))",
    ]) {
        let volume = crate::open(&uri.parse().unwrap(), crate::Purpose::Write).unwrap();
        let mut lane = volume.lane(&core).unwrap();
        assert!(lane.immediate().is_some(), "{uri}");
        (0..10).for_each(|more| holds(&mut *lane, seed * 10 + more));
        assert_eq!(core.pool().lent(), [0, 0], "{uri}");
    }
}

/// Random I/Os on a lane, compared with a flat buffer.
fn holds(lane: &mut dyn Lane, seed: u64) {
    let mut rng = Rng::new(seed, 0);
    let mut flat = vec![0; lane.geometry().bytes() as usize];
    let all = flat.len() as u32;
    assert_eq!(go(lane, io(Op::WriteZeroes, 0, all, 0)).result, Ok(()));
    for _ in 0..200 {
        let blocks = flat.len() as u64 / 512;
        let first = rng.below(blocks);
        let count = 1 + rng.below((blocks - first).min(80));
        let (offset, len) = (first * 512, (count * 512) as u32);
        let range = offset as usize..(offset + u64::from(len)) as usize;
        match rng.below(4) {
            0 | 1 => {
                let byte = rng.next_u64() as u8;
                let mut write = io(Op::Write, offset, len, byte);
                let data = write.buf.as_mut().unwrap();
                data[..len as usize].iter_mut().zip(0_u32..).for_each(|(at, n)| *at ^= n as u8);
                flat[range.clone()].copy_from_slice(&data[..len as usize]);
                let done = go(lane, write);
                assert_eq!((done.tag, done.result), (Tag(7), Ok(())));
                assert!(done.buf.unwrap()[..len as usize] == flat[range], "as it was");
            }
            2 => {
                assert_eq!(go(lane, io(Op::Trim, offset, len, 0)).result, Ok(()));
                flat[range].fill(0);
            }
            _ => {
                let done = go(lane, io(Op::Read, offset, len, 0xee));
                assert_eq!(done.result, Ok(()));
                assert!(done.buf.unwrap()[..len as usize] == flat[range], "seed {seed}");
            }
        }
    }
    let whole = go(lane, io(Op::Read, 0, all, 0)).buf.unwrap();
    assert!(whole[..flat.len()] == flat[..], "seed {seed}");
}

#[test]
fn one_bad_piece_fails_the_whole_and_only_that() {
    let pool = Pool::new(64, 64);
    let mut lane = lane(3, &pool, Some(100));
    for (offset, len, result) in [
        (0, 4096, Ok(())),
        (0, 8192, Err(Fault::Medium)),
        (4096, 512, Err(Fault::Medium)),
        (4608, 8192, Ok(())),
        (PART * 3 - 512, 1024, Err(Fault::OutOfRange)),
    ] {
        for op in [Op::Read, Op::Write] {
            assert_eq!(go(&mut *lane, io(op, offset, len, 1)).result, result, "{op:?} {offset}");
        }
    }
    // A flush covers split writes: it goes to the parts that were written.
    assert_eq!(go(&mut *lane, io(Op::Flush, 0, 0, 0)).result, Ok(()));
    assert_eq!(pool.lent(), [0, 0]);
}
