//! Anything as a trace of fio's: the first byte says how it is replayed.
#![no_main]

use drumfire_fuzz::read_trace;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    if let [how, bytes @ ..] = input {
        read_trace(*how, bytes);
    }
});
