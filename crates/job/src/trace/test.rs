use super::*;
use crate::spec::{Replay, Skip};

const HEAD: &str = "fio version 3 iolog\n0 /a add\n3 /b add\n4 /a open\n";

fn replay() -> Replay {
    Replay::new("x.log".to_owned())
}

fn of(text: &str, replay: &Replay, one: bool) -> Trace {
    read(text.as_bytes(), replay, one).unwrap_or_else(|error| panic!("{error}"))
}

fn events(trace: &Trace) -> Vec<Event> {
    let mut cursor = Cursor::default();
    std::iter::from_fn(|| trace.next(&mut cursor)).collect()
}

fn says(text: &str) -> String {
    read(text.as_bytes(), &replay(), false).unwrap_err().to_string()
}

/// Returns time in microseconds, operation, file, offset and size of each I/O.
fn told(trace: &Trace) -> Vec<(u64, Op, u32, u64, u32)> {
    let told = |e: Event| (e.at.0 / 1000, e.op, e.file, e.offset, e.len);
    events(trace).into_iter().map(told).collect()
}

#[test]
fn a_trace_of_version_3_has_times_from_its_first_one_on() {
    let text = format!(
        "{HEAD}1000 /a read 0 4096\n1004 /b write 8192 512\n\n1004 /a trim 0 65536\n\
         900 /a sync 0 0\n950 /b datasync 77 0\n951 /a close\n960 /a read 4096 4096"
    );
    let trace = of(&text, &replay(), false);
    let all = [
        (997, Op::Read, 0, 0, 4096),
        (1001, Op::Write, 1, 8192, 512),
        (1001, Op::Trim, 0, 0, 65536),
        // The clock stops where times go back, and continues from there.
        (1001, Op::Flush, 0, 0, 0),
        (1051, Op::Flush, 1, 0, 0),
        (1061, Op::Read, 0, 4096, 4096),
    ];
    assert_eq!(told(&trace), all);
    let facts = trace.facts();
    assert_eq!((facts.ios, facts.bytes, facts.longest_bytes), ([2, 1, 1, 2], 74_240, 4096));
    assert_eq!((facts.files.len(), facts.end_bytes(), facts.size_bytes()), (2, 65536, None));
    assert_eq!(facts.to_string(), "2 reads, 1 write, 1 trim, 2 flushes");
    assert!(facts.timed && facts.is_in_blocks_of(512) && !facts.is_in_blocks_of(4096));
    let fast = Replay { speed_percent: 200, ..replay() };
    assert_eq!(told(&of(&text, &fast, false))[5].0, 530);
    let at_once = of(&text, &Replay { stalls: false, ..replay() }, true);
    assert!(told(&at_once).iter().all(|(at, _, file, ..)| (*at, *file) == (0, 0)));
    assert!(!at_once.facts().timed && at_once.volumes() == 1);
    let skip = vec![Skip::Read, Skip::Sync];
    let fewer = Replay { skip, divide_by: 3, align_bytes: 1024, ..replay() };
    let left = [
        (1001, Op::Write, 1, 2048, 512),
        (1001, Op::Trim, 0, 0, 65536),
        (1051, Op::Flush, 1, 0, 0),
    ];
    assert_eq!(told(&of(&text, &fewer, false)), left);
}

#[test]
fn a_trace_of_version_2_waits() {
    let text = "fio version 2 iolog\n/a add\n/a read 0 4096\n/a wait 30 0\n/a wait 20 0\n\
                /a write 4096 4096\n";
    let trace = of(text, &replay(), false);
    let all = [(0, Op::Read, 0, 0, 4096), (30_000, Op::Write, 0, 4096, 4096)];
    assert_eq!((told(&trace), trace.facts().timed), (all.to_vec(), false));
    let at_once = of(text, &Replay { stalls: false, ..replay() }, false);
    assert_eq!(told(&at_once)[1].0, 0);
}

#[test]
fn what_is_no_trace_is_refused_with_its_line() {
    assert!(says("").contains("x.log:1: not a fio trace"));
    assert!(says("fio version 1 iolog\n").contains("`fio version 1 iolog`: not a fio trace"));
    assert!(says("\u{7}tae rest").contains("x.log:1: `·tae rest`: binary blktrace files"));
    let at = |line: &str| says(&format!("{HEAD}{line}\n"));
    assert!(
        at("7 /a erase 0 512")
            .contains("x.log:5: `7 /a erase 0 512`: unknown action 'erase': one of read, write,")
    );
    assert!(at("7 /a lock").contains("one of add, open, close"));
    assert!(at("x /a read 0 512").contains("start with a time"));
    assert!(at("7 /c read 0 512").contains("no earlier add line"));
    assert!(at("7 /a read 512").contains("write TIME FILE ACTION, or"));
    assert!(at("7 /a read 1 2 3").contains("too many fields"));
    assert!(at("7 /a read -1 512").contains("the offset is not a number"));
    assert!(at("7 /a read 0 0").contains("the length must be 1 to 16777216 bytes"));
    assert!(at("7 /a write 0 99999999999").contains("the length must be 1 to 16777216 bytes"));
    assert!(at("7 /a trim 0 4294967296").contains("the length must be 1 to 4294967295 bytes"));
    assert!(at("7 /a read 18446744073709551615 512").contains("ends past the maximum size"));
    assert!(at("7 /a wait 5 0").contains("wait is valid in version 2"));
    assert!(at("9\u{0} /a sync 0 0").contains("start with a time"));
    assert!(at(&"9".repeat(5000)).contains("x.log:5") && at("").contains("no I/Os to replay"));
    let far = format!("{HEAD}18446744073709551615 /a read 0 512\n");
    assert!(says(&far).contains("exceeds a year"));
    let bytes = [HEAD.as_bytes(), b"7 /a\xff read 0 512\n"].concat();
    let odd = read(&bytes[..], &replay(), false).unwrap_err().to_string();
    assert!(odd.contains("x.log:5") && odd.contains("not UTF-8"), "{odd}");
    let endless = read(std::io::repeat(b'7'), &replay(), false).unwrap_err().to_string();
    assert!(endless.contains("x.log:1"), "{endless}");
    let files: String = (0..5000).map(|n| format!("0 /{n} add\n")).collect();
    assert!(says(&format!("{HEAD}{files}")).contains("more than 4096 files"));
}

#[test]
fn each_volume_must_hold_what_goes_to_it() {
    let text = format!("{HEAD}7 /a read 4096 4096\n8 /b write 1000 24\n");
    let trace = of(&text, &replay(), false);
    let shapes = |a: (u64, u32), b: (u64, u32)| {
        trace.fits(&[Geometry::new(a.0, a.1), Geometry::new(b.0, b.1)])
    };
    assert_eq!(shapes((8192, 4096), (1024, 1)), Ok(()));
    let short = shapes((4096, 4096), (1024, 1)).unwrap_err();
    assert!(short.starts_with("x.log:5: 4096 bytes at 4096 of /a end past"), "{short}");
    let odd = shapes((8192, 512), (1024, 512)).unwrap_err();
    assert!(odd.starts_with("x.log:6: 24 bytes at 1000 of /b are not whole blocks"), "{odd}");
}
