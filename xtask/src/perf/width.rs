//! How much of a core is ours: a virtual processor is often one thread of a core, and whoever has
//! the other takes half of the places in the pipeline, unseen by the kernel.
//!
//! One chain of dependent operations leaves most of a core idle; several at once fill it. While
//! nobody else is there both take the same time.

use std::hint::black_box;
use std::time::Instant;

/// Chains that fill a core of six integer units: each has one operation ready in each cycle.
const CHAINS: usize = 5;
/// Two or three milliseconds.
const STEPS: usize = 1 << 20;
/// The fastest of so many is free of interruptions.
const TRIES: usize = 3;

/// The time of one chain as a part of that of several at once: about 1 when the core is ours
/// alone, 0.5 when a busy stranger shares it. What 1 is depends on the processor.
pub fn ours() -> f64 {
    best(time::<1>) / best(time::<CHAINS>)
}

fn best(time: fn() -> f64) -> f64 {
    (0..TRIES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// Time of so many chains of xorshift64 (Marsaglia), in nanoseconds.
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
        let ours = super::ours();
        assert!(ours > 0.01 && ours < 1.5, "{ours}");
    }
}
