//! Arbitrary text as an Iometer configuration.
#![no_main]

use drumfire_fuzz::read_icf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_icf(&String::from_utf8_lossy(input)));
