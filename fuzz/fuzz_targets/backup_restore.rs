//! Arbitrary bytes as a forged backup, restored next to traps: nothing outside changes.
#![no_main]

use drumfire_fuzz::restore_forged;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| restore_forged(input));
