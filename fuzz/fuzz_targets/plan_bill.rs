//! Arbitrary text as a bill.
#![no_main]

use drumfire_fuzz::read_bill;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_bill(&String::from_utf8_lossy(input)));
