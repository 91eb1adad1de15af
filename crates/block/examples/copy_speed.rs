//! Measures copies into and out of shared memory, in nanoseconds.
//!
//! `cargo run --release -p drumfire-block --example copy_speed [milliseconds per line [way]]`
//!
//! Each copy routine of the data path, for lengths from 64 bytes to 256 KiB: "warm" always at the
//! same few offsets, "cold" at random offsets of memory that no cache holds. Batches are of 32. The
//! fastest batches count, as others share the machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use block::{Buf, CopyAhead, Landing, Memories, Memory, Rng};

const LENS: [usize; 8] = [64, 200, 512, 4096, 4100, 16 << 10, 64 << 10, 256 << 10];
const COLD_BYTES: u64 = 512 << 20;
const BATCH: usize = 32;

/// A way to copy a batch: `places` of `memory`, `len` bytes each.
type Way = fn(memory: &Memory, places: &[u64], len: usize, own: &mut Own);

/// Memory on the other side of the copies.
struct Own {
    buf: Buf,
    ahead: CopyAhead,
    memories: Memories,
}

const WAYS: &[(&str, Way)] = &[
    ("read", |memory, places, len, own| {
        places.iter().for_each(|place| memory.read(*place, &mut own.buf[..len]));
    }),
    ("write", |memory, places, len, own| {
        places.iter().for_each(|place| memory.write(*place, &own.buf[..len]));
    }),
    ("write ahead", |memory, places, len, own| {
        let next = places.iter().skip(1).chain(&places[..1]);
        for (place, next) in places.iter().zip(next) {
            memory.write_ahead(*place, &own.buf[..len], memory.ahead(*next));
        }
    }),
    ("zero", |memory, places, len, _| {
        places.iter().for_each(|place| memory.zero(*place, len as u64));
    }),
    ("copy ahead", |memory, places, len, own| ahead(memory, places, len, own, false)),
    ("past cache", |memory, places, len, own| ahead(memory, places, len, own, true)),
    ("landing", |memory, places, len, own| {
        let mut landing = Landing::new(std::mem::take(&mut own.memories));
        for place in places {
            landing.push(memory, *place, &own.buf[..len]);
        }
        own.memories = landing.finish();
    }),
];

fn ahead(memory: &Memory, places: &[u64], len: usize, own: &mut Own, past_cache: bool) {
    // As many pieces as fit one buffer, as in an outbox.
    let room = own.buf.len() / len;
    for places in places.chunks(room) {
        for (index, place) in places.iter().enumerate() {
            own.ahead.push(memory, *place, len, index * len);
        }
        own.ahead.run(&mut own.buf, past_cache);
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let ms = args.next().map_or(20, |ms| ms.parse().expect("milliseconds"));
    let only = args.next();
    let memory = Memory::new(COLD_BYTES).expect("512 MiB");
    let page = [7; 4096];
    (0..COLD_BYTES).step_by(4096).for_each(|at| memory.write(at, &page));
    let mut own = Own {
        buf: Buf::new(1 << 20).expect("1 MiB"),
        ahead: CopyAhead::default(),
        memories: Memories::default(),
    };
    own.buf.fill(9);
    for (name, way) in WAYS.iter().filter(|(name, _)| only.as_deref().is_none_or(|o| o == *name)) {
        for len in LENS {
            for (warmth, span) in [("warm", 64 << 10), ("cold", COLD_BYTES)] {
                let ns = fastest_ns(*way, &memory, len, span, &mut own, Duration::from_millis(ms));
                println!("{name:12} {len:7} {warmth} {ns:10.1} ns");
            }
        }
    }
}

/// Nanoseconds of one copy in the fastest tenth of the batches.
fn fastest_ns(
    way: Way,
    memory: &Memory,
    len: usize,
    span: u64,
    own: &mut Own,
    time: Duration,
) -> f64 {
    let mut rng = Rng::new(1, len as u64);
    let (mut times, mut places) = (Vec::new(), [0; BATCH]);
    let began = Instant::now();
    while began.elapsed() < time || times.len() < 10 {
        let blocks = (span.max(len as u64) - len as u64) / 512 + 1;
        places.iter_mut().for_each(|place| *place = rng.below(blocks) * 512);
        let began = Instant::now();
        // Short copies take less time than reading the clock.
        let rounds = if span < COLD_BYTES { (16384 / len).clamp(1, 16) } else { 1 };
        for _ in 0..rounds {
            way(memory, black_box(&places), len, own);
        }
        times.push(began.elapsed().as_nanos() as f64 / (rounds * BATCH) as f64);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 10]
}
