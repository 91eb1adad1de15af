//! Arbitrary bytes as the first ones of a connection to our target.
#![no_main]

use drumfire_fuzz::{Cut, Serving};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, stream @ ..] = input else { return };
    let mut target = Serving::iscsi();
    for part in Cut::new(stream, *seed) {
        let open = target.receive(part).is_some();
        target.work(usize::MAX, false);
        target.answers();
        if !open {
            break;
        }
    }
    target.wait();
    target.lose();
});
