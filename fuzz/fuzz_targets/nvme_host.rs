//! Arbitrary responses to our NVMe/TCP host: to an admin queue being set up, or to I/Os.
#![no_main]

use drumfire_fuzz::{Asking, Cut, NvmeServer, polite_nvme};
use libfuzzer_sys::fuzz_target;
use proto::Initiator;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let stream = if manner & 2 == 0 { polite_nvme(noise) } else { noise.to_vec() };
    let parts = Cut::new(&stream, *seed);
    let mut server = NvmeServer::default();
    if manner & 1 == 0 {
        let mut host = Asking::nvme_queue(&mut server);
        let mut target = server.accept();
        host.open(&mut target);
        host.submit(manner >> 4);
        answer(host, parts);
        target.lose();
    } else {
        answer(Asking::nvme(), parts);
    }
});

fn answer<E: Initiator>(mut host: Asking<E>, parts: Cut<'_>) {
    host.says();
    for part in parts {
        let open = host.receive(part).is_some();
        host.says();
        if !open {
            break;
        }
    }
    host.lose();
}
