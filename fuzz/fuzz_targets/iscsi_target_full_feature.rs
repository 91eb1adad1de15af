//! Arbitrary bytes after a login. The first bytes select how it is split and how fast the
//! volumes are; noise becomes whole PDUs, or stays noise.
#![no_main]

use drumfire_fuzz::{Cut, Serving, TARGET_NAME, login_request, polite_iscsi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let keys = format!(
        "InitiatorName=iqn.2026-11.org.example:noise\0SessionType=Normal\0\
         TargetName={TARGET_NAME}\0InitialR2T={}\0ImmediateData=Yes\0",
        if manner & 1 == 0 { "Yes" } else { "No" }
    );
    let mut target = Serving::iscsi();
    target.receive(&login_request(keys.as_bytes())).expect("a plain login works");
    target.answers();
    let stream = if manner & 2 == 0 { polite_iscsi(noise, 0) } else { noise.to_vec() };
    let slow = manner & 4 != 0;
    for part in Cut::new(&stream, *seed) {
        let open = target.receive(part).is_some();
        target.work(if slow { 1 } else { usize::MAX }, manner & 8 != 0);
        target.answers();
        if !open {
            break;
        }
    }
    if manner & 16 != 0 {
        target.wait();
        target.work(usize::MAX, true);
        target.answers();
    }
    target.lose();
});
