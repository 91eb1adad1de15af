//! Arbitrary bytes as a superblock of an array.
#![no_main]

use drumfire_fuzz::read_superblock;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| read_superblock(input));
