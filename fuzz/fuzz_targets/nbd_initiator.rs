//! Arbitrary bytes of an NBD server: from the first byte, or in reply to I/Os.
#![no_main]

use drumfire_fuzz::{Cut, Nbd, NbdAsking, polite_answers};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut client = NbdAsking::new();
    if manner & 1 != 0 {
        client.open(&mut Nbd::new(true));
        if manner & 0x40 != 0 {
            client.ask();
        }
        client.submit(manner >> 1 & 31);
    }
    let stream = if manner & 0x80 == 0 { polite_answers(noise) } else { noise.to_vec() };
    for part in Cut::new(&stream, *seed) {
        if !client.receive(part) {
            break;
        }
    }
    client.lose();
});
