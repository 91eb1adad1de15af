//! Arbitrary bytes as a page of an array's map.
#![no_main]

use drumfire_fuzz::read_map;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_map(input));
