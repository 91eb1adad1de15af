//! Arbitrary text as a file of parts.
#![no_main]

use drumfire_fuzz::read_parts;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_parts(&String::from_utf8_lossy(input)));
