//! Arbitrary text as a file of claims.
#![no_main]

use drumfire_fuzz::read_claims;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_claims(&String::from_utf8_lossy(input)));
