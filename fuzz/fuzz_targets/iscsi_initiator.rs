//! Anything as the answers to our initiator: from the first byte, or to I/Os under way.
#![no_main]

use block::Op;
use drumfire_fuzz::{Asking, Cut, polite};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut initiator = Asking::default();
    if manner & 1 == 0 {
        initiator = initiator.ready();
        for i in 0..u64::from(manner >> 4) {
            let op = [Op::Read, Op::Write, Op::Read, Op::Flush][i as usize % 4];
            let len = if op == Op::Flush { 0 } else { 512 << (i % 8) };
            initiator.submit(op, i * 4096 * u64::from(len != 0), len);
        }
    }
    initiator.says();
    let stream = if manner & 2 == 0 { polite(noise, initiator.status()) } else { noise.to_vec() };
    for part in Cut::new(&stream, *seed) {
        let open = initiator.receive(part).is_some();
        initiator.says();
        if !open {
            break;
        }
    }
    initiator.lose();
});
