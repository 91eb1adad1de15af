//! Arbitrary bytes as a part of several hosts, or, by the first byte, as a result of fio.
#![no_main]

use drumfire_fuzz::{merge_fio, merge_parts};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    match input {
        [b'f', bytes @ ..] => merge_fio(bytes),
        _ => merge_parts(input),
    }
});
