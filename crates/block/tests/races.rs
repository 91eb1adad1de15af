//! Cores that access the same memory at once.
#![forbid(unsafe_code)]

use block::{Ahead, Memory};

/// Miri reports plain accesses here as a data race.
#[test]
fn cores_that_meet_see_bytes_that_were_written() {
    const LEN: usize = if cfg!(miri) { 70 } else { 700 };
    let memory = Memory::new(4096).unwrap();
    let rounds = if cfg!(miri) { 4 } else { 2000 };
    std::thread::scope(|scope| {
        for value in [1, 2] {
            let memory = memory.clone();
            scope.spawn(move || {
                for round in 0..rounds {
                    // Overlapping, at offsets that share words, lines and neither.
                    let at = round % 97 + u64::from(value);
                    match round % 4 {
                        0 => memory.zero(at, LEN as u64),
                        1 => memory.write_ahead(at, &[value; LEN], Ahead::NONE),
                        _ => memory.write(at, &[value; LEN]),
                    }
                }
            });
        }
        for _ in 0..rounds {
            let mut seen = [9; LEN];
            memory.read(50, &mut seen);
            assert!(seen.iter().all(|byte| *byte <= 2));
        }
    });
}
