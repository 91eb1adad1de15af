//! Arbitrary text in an otherwise valid login, in one PDU or two.
#![no_main]

use drumfire_fuzz::{Serving, TARGET_NAME, login_request};
use libfuzzer_sys::fuzz_target;

/// Longest text of a login.
const TEXT_MAX_BYTES: usize = 8192;

fuzz_target!(|input: &[u8]| {
    let [manner, noise @ ..] = input else { return };
    let mut text = Vec::new();
    if manner & 1 == 0 {
        // Both names are valid, the rest is noise.
        let names =
            format!("InitiatorName=iqn.2026-11.org.example:noise\0TargetName={TARGET_NAME}\0");
        text.extend(names.as_bytes());
    }
    text.extend(noise);
    text.truncate(TEXT_MAX_BYTES);
    let mut target = Serving::iscsi();
    if manner & 2 == 0 {
        target.receive(&login_request(&text));
    } else {
        let (first, second) = text.split_at(text.len() / 2);
        let mut request = login_request(first);
        // Continue: the text goes on in the next request, and there is no transit yet.
        request[1] = request[1] & !0x80 | 0x40;
        if target.receive(&request).is_some() {
            target.answers();
            target.receive(&login_request(second));
        }
    }
    target.answers();
    target.lose();
});
