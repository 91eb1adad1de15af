//! A conversation byte by byte: ICReq, Connect, a read, a write with an R2T, an error, and the end.

use proto::Target;

use crate::raw::Raw;
use crate::server::Server;

/// Bytes from hexadecimal; `*12` repeats zero bytes.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        match word.strip_prefix('*') {
            Some(count) => bytes.resize(bytes.len() + count.parse::<usize>().unwrap(), 0),
            None => bytes.extend(
                (0..word.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&word[at..at + 2], 16).unwrap()),
            ),
        }
    }
    bytes
}

fn say(raw: &mut Raw, question: &str, answer: &str) {
    raw.send(&bytes(question));
    let got = raw.peer.sent();
    assert!(got == bytes(answer), "{question}\n{got:02x?}\n{:02x?}", bytes(answer));
}

/// The data of a Connect: host identifier, controller, and the two names.
fn connect_data(controller: &str) -> String {
    let text = |text: &str| text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    let (subsystem, host) = ("nqn.2026-11.io.drumfire:disk", "nqn.2026-11.io.drumfire:host");
    format!(
        "30313233343536373839616263646566 {controller} *238 {} *228 {} *228 *256",
        text(subsystem),
        text(host)
    )
}

#[test]
fn a_conversation_is_as_it_always_was() {
    let mut raw = Raw::fresh(Server::apart());
    // ICReq without digests; ICResp: PFV 0, CPDA 0, MAXH2CDATA 256 KiB.
    let init = (
        "00 00 80 00 80000000 0000 00 00 00000000 *112",
        "01 00 80 00 80000000 0000 00 00 00000400 *112",
    );
    say(&mut raw, init.0, init.1);
    // Connect of the admin queue with 32 entries and a Keep Alive time-out of 5 s: controller 1,
    // SQHD 1.
    let connect = "04 00 48 48 48040000
        7f 40 0000 01 *19 *8 00040000 000000 01 0000 0000 1f00 00 00 88130000 *12";
    say(
        &mut raw,
        &format!("{connect} {}", connect_data("ffff")),
        "05 00 18 00 18000000 01000000 00000000 0100 0000 0000 0000",
    );
    // Property Get of VS: 1.4.
    say(
        &mut raw,
        "04 00 48 00 48000000 7f 40 0100 04 *19 *8 00000000 000000 5a 00 *3 08000000 *16",
        "05 00 18 00 18000000 00040100 00000000 0200 0000 0100 0000",
    );
    // Property Set of CC: enable.
    say(
        &mut raw,
        "04 00 48 00 48000000 7f 40 0200 00 *19 *8 00000000 000000 5a 00 *3 14000000 01004600 *12",
        "05 00 18 00 18000000 00000000 00000000 0300 0000 0200 0000",
    );
    // Get Features, number of queues: 64 pairs.
    say(
        &mut raw,
        "04 00 48 00 48000000 0a 40 0300 00000000 *16 *8 00000000 000000 5a 07000000 *20",
        "05 00 18 00 18000000 3f003f00 00000000 0400 0000 0300 0000",
    );
    // Keep Alive on an identifier of the host's choice.
    say(
        &mut raw,
        "04 00 48 00 48000000 18 40 feff 00000000 *16 *8 00000000 000000 5a *24",
        "05 00 18 00 18000000 00000000 00000000 0500 0000 feff 0000",
    );
    an_io_queue(raw);
}

/// Goes on with an I/O queue of the controller.
fn an_io_queue(raw: Raw) {
    let Raw { server, peer: _admin, .. } = raw;
    let mut raw = Raw::open(server);
    // Connect of queue 1 with 128 entries, without SQ flow control.
    let connect = "04 00 48 48 48040000
        7f 40 0000 01 *19 *8 00040000 000000 01 0000 0100 7f00 04 00 00000000 *12";
    say(
        &mut raw,
        &format!("{connect} {}", connect_data("0100")),
        "05 00 18 00 18000000 01000000 00000000 ffff 0000 0000 0000",
    );
    // Read of block 8: C2HData, LAST and SUCCESS.
    let block: String =
        raw.server.stores[0].bytes(8 * 512, 512).iter().map(|byte| format!("{byte:02x}")).collect();
    say(
        &mut raw,
        "04 00 48 00 48000000
        02 40 3412 01000000 *16 *8 00020000 000000 5a 0800000000000000 0000 0000 *12",
        &format!("07 0c 18 18 18020000 3412 0000 00000000 00020000 *4 {block}"),
    );
    // Write of block 0 that brings nothing along: R2T with the tag of the first slot.
    say(
        &mut raw,
        "04 00 48 00 48000000
        01 40 0500 01000000 *16 *8 00020000 000000 5a 0000000000000000 0000 0040 *12",
        "09 00 18 00 18000000 0500 8000 00000000 00020000 *4",
    );
    // Data of the write in one H2CData.
    say(
        &mut raw,
        "06 04 18 18 18020000 0500 8000 00000000 00020000 *4 *512",
        "05 00 18 00 18000000 00000000 00000000 0000 0000 0500 0000",
    );
    assert_eq!(raw.server.stores[0].log[1], (block::Op::Write, 0, 512, true));
    // A read beyond the end: LBA Out of Range, do not retry.
    say(
        &mut raw,
        "04 00 48 00 48000000
        02 40 0600 01000000 *16 *8 00020000 000000 5a 0020000000000000 0000 0000 *12",
        "05 00 18 00 18000000 00000000 00000000 0000 0000 0600 0081",
    );
    // Unrequested data: C2HTermReq, invalid field at byte 10, and the header.
    say(
        &mut raw,
        "06 04 18 18 1c000000 0500 8000 00000000 04000000 *4 01020304",
        "03 00 18 00 30000000 0100 0a000000 *10
        06 04 18 18 1c000000 0500 8000 00000000 04000000 *4",
    );
    assert!(raw.peer.end.finished());
}
