//! Memory latency: dependent loads, each of a different cache line.
//!
//! Virtual machines share memory channels and the last-level cache with others. Workloads that copy
//! much are limited by these, which change by the hour.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::Instant;

use block::Memory;

/// Bytes of the memory: more than the last-level cache of most machines.
const LEN_BYTES: u64 = 128 << 20;
const LINE_BYTES: u64 = 64;
/// Loads per measurement, which takes tens of milliseconds.
const LOADS: u64 = 200_000;

/// Latency of a load from memory, in nanoseconds. `None` if out of memory.
pub fn load_ns() -> Option<f64> {
    static CHAIN: OnceLock<Option<Memory>> = OnceLock::new();
    let memory = CHAIN.get_or_init(chain).as_ref()?;
    let mut at = 0;
    let began = Instant::now();
    for _ in 0..LOADS {
        at = next(memory, at);
    }
    let taken = began.elapsed();
    black_box(at);
    Some(taken.as_nanos() as f64 / LOADS as f64)
}

/// Address of the load after the one at `at`.
fn next(memory: &Memory, at: u64) -> u64 {
    let mut bytes = [0; 8];
    memory.read(at, &mut bytes);
    u64::from_le_bytes(bytes)
}

/// Memory whose lines link to each other in one cycle.
fn chain() -> Option<Memory> {
    let memory = Memory::new(LEN_BYTES).ok()?;
    for line in 0..LEN_BYTES / LINE_BYTES {
        let other = step(line) % (LEN_BYTES / LINE_BYTES);
        memory.write(line * LINE_BYTES, &(other * LINE_BYTES).to_le_bytes());
    }
    Some(memory)
}

/// The linear congruential generator of Knuth's MMIX: its low n bits run through all 2ⁿ values, and
/// its high ones look random.
pub fn step(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_round_takes_in_every_line() {
        let memory = chain().expect("128 MiB");
        let (mut at, mut count) = (next(&memory, 0), 1);
        while at != 0 {
            (at, count) = (next(&memory, at), count + 1);
        }
        assert_eq!(count, LEN_BYTES / LINE_BYTES);
        assert!(load_ns().is_some_and(|ns| ns > 0.5 && ns < 1e5));
    }
}
