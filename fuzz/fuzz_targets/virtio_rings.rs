//! Arbitrary bytes in the memory that an end of a virtqueue shares, for either end.
#![no_main]

use drumfire_fuzz::{drive_ring, serve_ring};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [manner, steps @ ..] = input else { return };
    match manner & 1 {
        0 => serve_ring(manner >> 1, steps),
        _ => drive_ring(manner >> 1, steps),
    }
});
