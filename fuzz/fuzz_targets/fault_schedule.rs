//! Arbitrary text as a schedule of faults.
#![no_main]

use drumfire_fuzz::try_schedule;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let _ = try_schedule(&String::from_utf8_lossy(input));
});
