//! Our share of a core: a vCPU is often one hyperthread, and a busy sibling takes half of the
//! pipeline, invisible to the kernel.
//!
//! One chain of dependent operations leaves most of a core idle; several at once fill the core. On
//! an undisturbed core both take the same time.

use std::hint::black_box;
use std::time::Instant;

/// Number of chains that fill a core of six integer units: each has one operation ready per cycle.
const CHAINS: usize = 5;
/// Two or three milliseconds.
const STEPS: usize = 1 << 20;
/// The fastest of this many is free of interruptions.
const TRIES: usize = 3;

/// Time of one chain over that of several at once: about 1 on an undisturbed core, 0.5 with a busy
/// sibling thread. The exact maximum depends on the CPU.
pub fn ours() -> f64 {
    best(time::<1>) / best(time::<CHAINS>)
}

fn best(time: fn() -> f64) -> f64 {
    (0..TRIES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// Time of this many chains of xorshift64 (Marsaglia), in nanoseconds.
fn time<const CHAINS: usize>() -> f64 {
    let mut chains: [u64; CHAINS] = std::array::from_fn(|index| black_box(index as u64 + 1));
    let began = Instant::now();
    for _ in 0..STEPS {
        for chain in &mut chains {
            *chain ^= *chain << 13;
            *chain ^= *chain >> 7;
            *chain ^= *chain << 17;
        }
    }
    let taken = began.elapsed();
    black_box(chains);
    taken.as_nanos() as f64
}

#[cfg(test)]
mod test {
    #[test]
    fn several_chains_take_no_less_time_than_one() {
        // A neighbour may take the core during one of the two measurements: retry later.
        let tries: Vec<f64> = (0..30).map(|_| super::ours()).collect();
        assert!(tries.iter().any(|ours| (0.01..1.5).contains(ours)), "{tries:?}");
    }
}
