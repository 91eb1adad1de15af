//! Arbitrary bytes of an NBD client: from the first byte, or in transmission.
#![no_main]

use drumfire_fuzz::{Cut, Nbd, polite_requests};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut server = Nbd::new(manner & 1 != 0);
    if manner & 2 != 0 {
        // Structured replies, then the export.
        assert!(server.receive(b"\0\0\0\x03"));
        if manner & 4 != 0 {
            assert!(server.receive(b"IHAVEOPT\0\0\0\x08\0\0\0\0"));
        }
        if manner & 32 != 0 {
            // The context of the only export.
            assert!(server.receive(b"IHAVEOPT\0\0\0\x0a\0\0\0\x1b\0\0\0\0\0\0\0\x01"));
            assert!(server.receive(b"\0\0\0\x0fbase:allocation"));
        }
        assert!(server.receive(b"IHAVEOPT\0\0\0\x01\0\0\0\0"));
    }
    let stream = if manner & 16 == 0 { polite_requests(noise) } else { noise.to_vec() };
    for part in Cut::new(&stream, *seed) {
        let open = server.receive(part);
        if manner & 8 == 0 {
            server.work();
        }
        server.says();
        if !open {
            break;
        }
    }
    server.lose();
});
