//! Arbitrary bytes after the logins of two initiators. The first bytes select how it is split, how
//! fast the volumes are, and who sends; noise becomes whole PDUs, or stays noise.
#![no_main]

use drumfire_fuzz::{Cut, Serving, TARGET_NAME, login_request, polite_iscsi};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [seed, manner, noise @ ..] = input else { return };
    let keys = |name: &str| {
        format!(
            "InitiatorName=iqn.2026-11.org.example:{name}\0SessionType=Normal\0\
             TargetName={TARGET_NAME}\0InitialR2T={}\0ImmediateData=Yes\0",
            if manner & 1 == 0 { "Yes" } else { "No" }
        )
    };
    let [mut target, mut other] = Serving::iscsi_two();
    for (serving, name) in [(&mut target, "noise"), (&mut other, "other")] {
        serving.receive(&login_request(keys(name).as_bytes())).expect("a plain login works");
        serving.answers();
    }
    let (noise, others) =
        if manner & 32 != 0 { noise.split_at(noise.len() / 2) } else { (noise, &[][..]) };
    let others = polite_iscsi(others, 0);
    let mut others = Cut::new(&others, *seed);
    let stream = if manner & 2 == 0 { polite_iscsi(noise, 0) } else { noise.to_vec() };
    let slow = manner & 4 != 0;
    for part in Cut::new(&stream, *seed) {
        let open = target.receive(part).is_some();
        target.work(if slow { 1 } else { usize::MAX }, manner & 8 != 0);
        target.answers();
        target.tell(&mut other);
        let both = others.next().is_none_or(|part| other.receive(part).is_some());
        other.work(1, manner & 8 != 0);
        other.answers();
        other.tell(&mut target);
        if !open || !both {
            break;
        }
    }
    if manner & 16 != 0 {
        target.wait();
        target.work(usize::MAX, true);
        target.answers();
    }
    target.lose();
    other.lose();
});
