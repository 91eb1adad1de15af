//! Arbitrary responses to our initiator: from the first byte, or to I/Os in flight.
#![no_main]

use drumfire_fuzz::{Asking, Cut, Serving, next_status, polite_iscsi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut initiator = Asking::iscsi();
    if manner & 1 == 0 {
        let mut target = Serving::iscsi();
        initiator.open(&mut target);
        target.lose();
        initiator.submit(manner >> 4);
    }
    initiator.says();
    let status = next_status(initiator.heard(), 0);
    let stream = if manner & 2 == 0 { polite_iscsi(noise, status) } else { noise.to_vec() };
    for part in Cut::new(&stream, *seed) {
        let open = initiator.receive(part).is_some();
        initiator.says();
        if !open {
            break;
        }
    }
    initiator.lose();
});
