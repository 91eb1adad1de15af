//! Arbitrary responses to our initiator: from the first byte, or to I/Os or a question in flight.
#![no_main]

use drumfire_fuzz::{Asking, Cut, Serving, next_status, polite_iscsi_to};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut initiator = Asking::iscsi();
    let mut asked = None;
    if manner & 1 == 0 {
        let mut target = Serving::iscsi();
        initiator.open(&mut target);
        target.lose();
        if manner & 4 == 0 {
            initiator.submit(manner >> 4);
        } else {
            let command = initiator.ask();
            asked = command.get(16..20).and_then(|tag| tag.try_into().ok()).map(u32::from_be_bytes);
        }
    }
    initiator.says();
    let status = next_status(initiator.heard(), 0);
    let stream = match manner & 2 == 0 {
        true => polite_iscsi_to(noise, status, asked),
        false => noise.to_vec(),
    };
    for part in Cut::new(&stream, *seed) {
        let open = initiator.receive(part).is_some();
        initiator.says();
        if !open {
            break;
        }
    }
    initiator.lose();
});
