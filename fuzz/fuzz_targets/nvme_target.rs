//! Arbitrary bytes of an NVMe/TCP host: from the first byte, on an admin queue, or on an I/O queue.
#![no_main]

use drumfire_fuzz::{Asking, Cut, NvmeServer, polite_nvme};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let mut server = NvmeServer::default();
    // The queue is opened by our own host, which then falls silent.
    let mut target = match manner & 3 {
        0 => {
            let mut host = Asking::nvme_queue(&mut server);
            let mut target = server.accept();
            host.open(&mut target);
            host.lose();
            target
        }
        1 => {
            let mut target = server.accept();
            Asking::nvme().open(&mut target);
            target
        }
        _ => server.accept(),
    };
    let stream = if manner & 4 == 0 { polite_nvme(noise) } else { noise.to_vec() };
    let slow = manner & 8 != 0;
    for part in Cut::new(&stream, *seed) {
        let open = target.receive(part).is_some();
        target.work(if slow { 1 } else { usize::MAX }, manner & 16 != 0);
        target.answers();
        if !open {
            break;
        }
    }
    if manner & 32 != 0 {
        target.wait();
        target.work(usize::MAX, true);
        target.answers();
    }
    target.lose();
});
