//! Arbitrary text as a fio trace; the first byte selects the replay options.
#![no_main]

use drumfire_fuzz::read_trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let [how, bytes @ ..] = input {
        read_trace(*how, bytes);
    }
});
