//! Arbitrary messages of a vhost-user peer, to either end.
#![no_main]

use drumfire_fuzz::{receive_as_back_end, receive_as_front_end};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [manner, stream @ ..] = input else { return };
    match manner & 1 {
        0 => receive_as_back_end(stream, usize::from(manner >> 1)),
        _ => receive_as_front_end(stream),
    }
});
