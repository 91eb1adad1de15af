//! Every routine against plain slices: all short lengths, others around the limits, at all offsets
//! in a line.

use super::*;
use crate::{Memory, Rng};

type Copy = unsafe fn(*const u8, *mut u8, usize);

unsafe fn no_next_in(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; a hint may be any address.
    unsafe { copy_in_ahead(from, to, len, from) }
}

unsafe fn past_cache_in(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as above.
    unsafe { copy_in_past_cache(from, to, len, from) }
}

unsafe fn no_next_out(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as above.
    unsafe { copy_out_ahead(from, to, len, std::ptr::null()) }
}

unsafe fn past_cache_out(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: as above.
    unsafe { copy_out_past_cache(from, to, len, std::ptr::null()) }
}

const OUT: [Copy; 3] = [copy_out, no_next_out, past_cache_out];
const IN: [Copy; 3] = [copy_in, no_next_in, past_cache_in];
/// Miri is a thousand times slower, and treats no length differently.
const ROOM: usize = if cfg!(miri) { 512 } else { 12 << 10 };

/// Lengths, and offsets of both sides.
fn shapes() -> Vec<(usize, usize, usize)> {
    let mut rng = Rng::new(9, 0);
    let (shorts, others) = if cfg!(miri) { (18, 2) } else { (200, 300) };
    let place = |rng: &mut Rng| rng.below(130) as usize;
    let mut shapes: Vec<_> =
        (0..shorts).map(|len| (len, place(&mut rng), place(&mut rng))).collect();
    shapes.extend((0..others).map(|_| {
        let len = [511, 512, 513, 1000, 4095, 4096, 4097, 8192][rng.below(8) as usize];
        let len = len.min(ROOM - 256);
        let from = place(&mut rng);
        // Often at equal offsets in a line, as whole blocks are.
        let to = if rng.below(2) == 0 { from + 64 } else { place(&mut rng) };
        (len, from, to)
    }));
    shapes
}

#[test]
fn copies_out_and_in_what_was_asked_for() {
    let memory = Memory::new(ROOM as u64).unwrap();
    let pattern: Vec<u8> = (0..ROOM).map(|i| ((i * 31) >> 3) as u8).collect();
    memory.write(0, &pattern);
    for (len, from, to) in shapes() {
        for out in OUT {
            let mut own = vec![0xee; ROOM];
            // SAFETY: both ranges are in bounds; `own` is exclusive.
            unsafe { out(memory.at(from as u64, len), own[to..to + len].as_mut_ptr(), len) };
            assert!(own[..to].iter().chain(&own[to + len..]).all(|byte| *byte == 0xee));
            assert_eq!(own[to..to + len], pattern[from..from + len], "{len} from {from} to {to}");
        }
    }
    for (len, from, to) in shapes() {
        for into in IN {
            let memory = Memory::new(ROOM as u64).unwrap();
            // SAFETY: both ranges are in bounds, and there are no writes to the pattern.
            unsafe { into(pattern[from..].as_ptr(), memory.at(to as u64, len), len) };
            end_stream();
            let mut back = vec![9; ROOM];
            memory.read(0, &mut back);
            assert!(back[..to].iter().chain(&back[to + len..]).all(|byte| *byte == 0));
            assert_eq!(back[to..to + len], pattern[from..from + len], "{len} from {from} to {to}");
        }
    }
}

#[test]
fn zeroes_what_was_asked_for() {
    let memory = Memory::new(ROOM as u64).unwrap();
    for (len, at, _) in shapes() {
        memory.write(0, &[0xee; ROOM]);
        memory.zero(at as u64, len as u64);
        let mut back = vec![9; ROOM];
        memory.read(0, &mut back);
        assert!(back[at..at + len].iter().all(|byte| *byte == 0), "{len} at {at}");
        assert!(back[..at].iter().chain(&back[at + len..]).all(|byte| *byte == 0xee));
    }
}
