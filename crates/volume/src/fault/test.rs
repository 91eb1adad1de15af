//! Faults in virtual time.

use std::collections::VecDeque;

use block::{Buf, Cause, Done, Fault, Pool};

use super::*;

const BYTES: u64 = 1 << 20;
const MS: u64 = 1_000_000;

/// A lane over memory, with a schedule of these faults.
fn lane(faults: &str) -> (FaultLane, Arc<Referee>) {
    let schedule = Schedule::parse(&format!("name = 'x'\nseed = 1\n{faults}")).unwrap();
    let referee = Arc::new(Referee::new(schedule, Geometry::new(BYTES, 512)).unwrap());
    (FaultLane::new(referee.clone(), Box::new(Store::new()), Pool::new(64, 16)), referee)
}

/// A lane to its own bytes, which completes at once.
struct Store {
    bytes: Vec<u8>,
    done: Vec<Done>,
}

impl Store {
    fn new() -> Store {
        Store { bytes: vec![0; BYTES as usize], done: Vec::new() }
    }
}

impl Lane for Store {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, 512)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for mut io in ios.drain(..) {
            let result = self.geometry().check(&io);
            let end = io.offset.saturating_add(io.len.into());
            let range = io.offset as usize..end as usize;
            match (io.op, io.buf.as_mut()) {
                _ if result.is_err() => {}
                (Op::Read, Some(buf)) => buf[..io.len as usize].copy_from_slice(&self.bytes[range]),
                (Op::Write, Some(buf)) => {
                    self.bytes[range].copy_from_slice(&buf[..io.len as usize]);
                }
                (Op::Trim | Op::WriteZeroes, _) => self.bytes[range].fill(0),
                _ => {}
            }
            self.done.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn wake(&self) -> Option<Nanos> {
        (!self.done.is_empty()).then_some(Nanos(0))
    }
}

fn buf(len: u32, byte: u8) -> Buf {
    let mut buf = Buf::new(len as usize).expect("memory");
    buf[..len as usize].fill(byte);
    buf
}

fn io(tag: u64, op: Op, offset: u64, len: u32, byte: u8) -> Io {
    let buf = matches!(op, Op::Read | Op::Write).then(|| buf(len, byte));
    Io { tag: Tag(tag), op, fua: false, len, offset, buf }
}

fn submit(lane: &mut FaultLane, now: u64, ios: impl IntoIterator<Item = Io>) {
    let mut ios: VecDeque<Io> = ios.into_iter().collect();
    lane.submit(Nanos(now), &mut ios);
    assert!(ios.is_empty());
}

fn poll(lane: &mut FaultLane, now: u64) -> Vec<Done> {
    let mut done = Vec::new();
    lane.poll(Nanos(now), &mut done);
    done
}

fn tags(done: &[Done]) -> Vec<(u64, Result<(), Fault>)> {
    done.iter().map(|done| (done.tag.0, done.result)).collect()
}

/// Executes one I/O that completes at once.
fn once(lane: &mut FaultLane, now: u64, io: Io) -> Done {
    submit(lane, now, [io]);
    let mut done = poll(lane, now);
    assert_eq!(done.len(), 1);
    done.remove(0)
}

fn read(lane: &mut FaultLane, offset: u64, len: u32) -> Vec<u8> {
    let done = once(lane, 0, io(9, Op::Read, offset, len, 0xee));
    assert_eq!(done.result, Ok(()));
    done.buf.expect("a read has its buffer")[..len as usize].to_vec()
}

#[test]
fn errors_strike_their_range_their_time_and_their_number() {
    let (mut lane, referee) = lane(
        "[[fault]]\nverb = 'error'\nop = 'read'\nrange = [4096, '8k']\nafter_s = 1\nfor_s = 2\n\
         every_s = 10\ncount = 3\n",
    );
    let mut read = |now: u64, offset| once(&mut lane, now * MS, io(1, Op::Read, offset, 1024, 0));
    // The schedule's time begins with the first I/O.
    let results: Vec<bool> = [
        (5_000, 4096),
        (6_000, 4096),
        (6_500, 3072),
        (6_500, 3584),
        (6_500, 8192),
        (8_000, 4096),
        (16_500, 7680),
        (16_600, 7680),
    ]
    .map(|(now, offset)| read(now, offset).result.is_err())
    .to_vec();
    assert_eq!(results, [false, true, false, true, false, false, true, false]);
    assert_eq!(referee.strikes().1, [("error", 3)]);
    let write = once(&mut lane, 26_100 * MS, io(1, Op::Write, 4096, 512, 0));
    assert_eq!(write.result, Ok(()));
}

#[test]
fn a_sticky_error_stays() {
    let (mut lane, _) =
        lane("[[fault]]\nverb = 'error'\nop = 'flush'\ncount = 1\nsticky = true\nfor_s = 1\n");
    for now in [0, 10, 2_000] {
        let done = once(&mut lane, now * MS, io(1, Op::Flush, 0, 0, 0));
        assert_eq!(done.result, Err(Fault::Medium));
        let words = lane.words_of(done.cause).unwrap();
        assert_eq!(words, "injected: fault 1 of schedule 'x'");
    }
    assert_eq!(once(&mut lane, 0, io(1, Op::Read, 0, 512, 0)).result, Ok(()));
}

#[test]
fn bad_blocks_are_always_the_same_until_they_are_written() {
    let (mut lane, _) = lane("[[fault]]\nverb = 'bad-blocks'\nchance = 0.05\n");
    let bad = |lane: &mut FaultLane| -> Vec<u64> {
        let is_bad = |block: &u64| {
            once(lane, 0, io(1, Op::Read, block * 512, 512, 0)).result == Err(Fault::Medium)
        };
        (0..BYTES / 512).filter(is_bad).collect()
    };
    let first = bad(&mut lane);
    assert!((60..150).contains(&first.len()), "{}", first.len());
    assert_eq!(bad(&mut lane), first);
    let around = first[5] * 512 / 4096 * 4096;
    assert!(once(&mut lane, 0, io(1, Op::Read, around, 4096, 0)).result.is_err());
    assert_eq!(once(&mut lane, 0, io(1, Op::Write, first[5] * 512, 512, 1)).result, Ok(()));
    let healed: Vec<u64> = first.iter().copied().filter(|block| *block != first[5]).collect();
    assert_eq!(bad(&mut lane), healed);
}

#[test]
fn a_hung_io_is_answered_when_its_time_is_over_or_the_schedule_changes() {
    let hang = "[[fault]]\nverb = 'hang'\nop = 'write'\n";
    let (mut lane, referee) = lane(&format!("{hang}for_s = 2\n"));
    submit(&mut lane, 0, [io(1, Op::Write, 0, 512, 7), io(2, Op::Read, 0, 512, 0)]);
    assert_eq!(tags(&poll(&mut lane, 0)), [(2, Ok(()))]);
    assert_eq!(tags(&poll(&mut lane, 1_999 * MS)), []);
    assert!(lane.wake().unwrap() <= Nanos(2_000 * MS));
    assert_eq!(tags(&poll(&mut lane, 2_000 * MS)), [(1, Ok(()))]);
    assert_eq!(lane.wake(), None);

    let forever = Schedule::parse(&format!("name = 'y'\n{hang}")).unwrap();
    referee.replace(Ok(forever.clone()));
    submit(&mut lane, 3_000 * MS, [io(3, Op::Write, 0, 512, 8)]);
    assert_eq!(tags(&poll(&mut lane, 1_000_000 * MS)), []);
    // The lane requests a poll without another event.
    assert!(lane.wake().unwrap() <= Nanos(1_000_050 * MS));
    referee.replace(Ok(forever));
    assert_eq!(tags(&poll(&mut lane, 1_000_050 * MS)), [(3, Ok(()))]);
    submit(&mut lane, 1_000_060 * MS, [io(4, Op::Write, 0, 512, 9)]);
    assert!(!lane.close(Nanos(1_000_060 * MS)));
    assert_eq!(tags(&poll(&mut lane, 1_000_060 * MS)), [(4, Ok(()))]);
    assert!(lane.close(Nanos(1_000_060 * MS)));
}

#[test]
fn slow_ios_take_what_is_added_and_no_answer_is_lost() {
    let (mut lane, _) = lane("[[fault]]\nverb = 'slow'\nchance = 0.5\nadd_s = [0.001, 0.003]\n");
    submit(&mut lane, 0, (0..1000).map(|tag| io(tag, Op::Read, 0, 512, 0)));
    let mut answered = Vec::new();
    let mut now = 0;
    for _ in 0..10_000 {
        answered.extend(poll(&mut lane, now).into_iter().map(|done| (done.tag.0, now)));
        let Some(wake) = lane.wake() else { break };
        now = now.max(wake.0);
    }
    assert_eq!(answered.len(), 1000);
    let slow: Vec<u64> = answered.iter().map(|(_, at)| *at).filter(|at| *at > 0).collect();
    assert!((430..570).contains(&slow.len()), "{}", slow.len());
    assert!(slow.iter().all(|at| (MS..3 * MS + 1).contains(at)));
}

#[test]
fn what_is_acknowledged_is_lost_torn_misplaced_or_damaged() {
    let (mut lane, _) = lane("[[fault]]\nverb = 'drop'\nop = 'write'\ncount = 1\n");
    for (byte, stored) in [(1, 0), (2, 2)] {
        assert_eq!(once(&mut lane, 0, io(1, Op::Write, 0, 512, byte)).result, Ok(()));
        assert!(read(&mut lane, 0, 512).iter().all(|found| *found == stored));
    }

    let (mut lane, referee) = self::lane("[[fault]]\nverb = 'tear'\n");
    let done = once(&mut lane, 0, io(1, Op::Write, 0, 4096, 3));
    assert_eq!((done.tag.0, done.result), (1, Ok(())));
    let found = read(&mut lane, 0, 4096);
    let kept = found.iter().take_while(|byte| **byte == 3).count();
    assert!(kept % 512 == 0 && (512..4096).contains(&kept), "{kept}");
    assert!(found[kept..].iter().all(|byte| *byte == 0));
    once(&mut lane, 0, io(1, Op::Write, 8192, 512, 4));
    assert_eq!(read(&mut lane, 8192, 512), [4; 512], "one block is whole");
    assert_eq!(referee.strikes().1, [("tear", 1)]);

    let (mut lane, _) = self::lane("[[fault]]\nverb = 'misdirect'\nop = 'write'\n");
    assert_eq!(once(&mut lane, 0, io(1, Op::Write, 0, 512, 5)).result, Ok(()));
    let all = read(&mut lane, 0, BYTES as u32);
    let place = all.iter().position(|byte| *byte == 5).unwrap();
    assert!(place > 0 && place % 512 == 0);
    assert_eq!(all.iter().filter(|byte| **byte == 5).count(), 512);

    let (mut lane, _) = self::lane("[[fault]]\nverb = 'flip'\ncount = 1\n");
    let written = once(&mut lane, 0, io(1, Op::Write, 0, 4096, 6)).buf.unwrap();
    assert!(written[..4096].iter().all(|byte| *byte == 6), "the owner's data are as they were");
    let bits = |bytes: &[u8]| bytes.iter().map(|byte| (byte ^ 6).count_ones()).sum::<u32>();
    assert_eq!(bits(&read(&mut lane, 0, 4096)), 1);
}

#[test]
fn a_stale_read_returns_what_was_there_before() {
    let (mut lane, referee) = lane("[[fault]]\nverb = 'stale'\nrange = [0, 4096]\n");
    for (offset, byte) in [(0, 1), (512, 2), (4096, 3), (0, 4), (4096, 5)] {
        once(&mut lane, 0, io(1, Op::Write, offset, 512, byte));
    }
    // No earlier data is known of the second block, and the ninth is out of range.
    let found = read(&mut lane, 0, 1024);
    assert!(found[..512] == [1; 512] && found[512..] == [2; 512]);
    assert_eq!(read(&mut lane, 4096, 512), [5; 512]);
    once(&mut lane, 0, io(1, Op::Trim, 0, 512, 0));
    assert_eq!(read(&mut lane, 0, 512), [0; 512]);
    assert_eq!(referee.strikes().1, [("stale", 1)]);
}

#[test]
fn a_cut_of_the_power_ends_what_is_in_flight_and_the_power_comes_back() {
    let (mut lane, referee) = lane(
        "[cache]\n[[fault]]\nverb = 'drop'\nop = 'trim'\n[[fault]]\nverb = 'hang'\n\
         op = 'flush'\n[[fault]]\nverb = 'power-cut'\nafter_s = 1\nfor_s = 2\nevery_s = 10\n\
         count = 2\nsurvives = 0\n",
    );
    once(&mut lane, 0, io(1, Op::Write, 0, 512, 7));
    assert_eq!(read(&mut lane, 0, 512), [7; 512]);
    submit(&mut lane, 0, [io(2, Op::Flush, 0, 0, 0), io(3, Op::Write, 512, 512, 8)]);
    assert_eq!(tags(&poll(&mut lane, 999 * MS)), [(3, Ok(()))]);
    assert_eq!(tags(&poll(&mut lane, 1000 * MS)), [(2, Err(Fault::Disconnected))]);
    // While the power is off, everything fails, even I/Os that would be dropped or refused.
    for (op, offset) in [(Op::Read, 0), (Op::Trim, 0), (Op::Flush, 0), (Op::Read, BYTES)] {
        let done = once(&mut lane, 2999 * MS, io(4, op, offset, 512, 0));
        assert_eq!(done.result, Err(Fault::Disconnected), "{op:?}");
        assert_eq!(lane.words_of(done.cause).unwrap(), "injected: fault 3 of schedule 'x'");
    }
    assert_eq!(once(&mut lane, 3000 * MS, io(5, Op::Read, 512, 512, 0)).result, Ok(()));
    assert_eq!(read(&mut lane, 512, 512), [0; 512]);
    // Cuts during idle times happened, too, as often as scheduled.
    once(&mut lane, 5000 * MS, io(6, Op::Write, 512, 512, 9));
    assert_eq!(once(&mut lane, 21_500 * MS, io(7, Op::Read, 512, 512, 0)).result, Ok(()));
    assert_eq!(read(&mut lane, 512, 512), [0; 512]);
    assert_eq!(referee.strikes().1[2], ("power-cut", 2));
    assert_eq!(referee.cache().counts().lost, 2);
}

#[test]
fn a_schedule_may_be_switched_and_one_that_does_not_fit_is_told() {
    let (mut lane, referee) = lane("[[fault]]\nverb = 'slow'\nadd_s = 0\n");
    let volatile = referee.geometry().volatile;
    assert!(!volatile && !lane.geometry().volatile);
    referee.replace(Schedule::parse("name = 'y'\n[cache]\n"));
    assert!(referee.refused().unwrap().contains("without a volatile write cache"));
    referee.replace(Schedule::parse("nonsense"));
    assert!(referee.refused().unwrap().starts_with("line 1: "));
    assert_eq!(referee.strikes().0, "x");
    let news = referee.news();
    assert!(news.len() == 2 && news.iter().all(|line| line.contains("is invalid, 'x' stays")));
    // One without faults heals, and so does an empty file.
    for (healed, name) in [("", "no faults"), ("# nothing\n", "no faults"), ("name = 'z'", "z")] {
        referee.replace(Schedule::parse(healed));
        assert_eq!(referee.refused(), None);
        assert_eq!(referee.news(), [format!("the schedule changed to '{name}', 0 faults")]);
        assert_eq!(once(&mut lane, 0, io(1, Op::Read, 0, 512, 0)).result, Ok(()));
    }
    assert!(referee.news().is_empty());

    // After the removal of the cache, its data goes to the volume.
    let (mut cached, referee) = self::lane("[cache]\nsize = '8k'\nlies = true\n");
    assert!(cached.geometry().volatile);
    for block in 0..64 {
        once(&mut cached, 0, io(1, Op::Write, block * 512, 512, block as u8));
    }
    once(&mut cached, 0, io(1, Op::Flush, 0, 0, 0));
    assert!(!referee.cache().is_empty());
    assert_eq!(referee.cache().counts().lies, 1);
    referee.replace(Schedule::parse("name = 'y'\n[[fault]]\nverb = 'error'\nop = 'trim'\n"));
    once(&mut cached, 0, io(1, Op::Write, 0, 512, 99));
    submit(&mut cached, 0, [io(2, Op::Flush, 0, 0, 0)]);
    let mut now = 0;
    while tags(&poll(&mut cached, now)).is_empty() {
        submit(&mut cached, now, []);
        now += MS;
    }
    assert!(referee.cache().is_empty());
    assert_eq!(read(&mut cached, 0, 512), [99; 512]);
    assert!((1..64).all(|block| read(&mut cached, block * 512, 512) == [block as u8; 512]));
    let _ = lane.close(Nanos(0));
}

#[test]
fn what_is_said_of_caches_is_that_of_the_parts() {
    for (uri, volatile) in [
        ("null:1m", false),
        ("ram:1m", true),
        ("delay:x25-m(null:1m)", false),
        ("delay:x25-m(ram:1m)", true),
        ("fault:fail-slow(null:1m)", false),
        ("fault:fail-slow(ram:1m)", true),
        ("fault:power-cut(null:1m)", true),
        ("delay:x25-m(fault:lying-cache(null:1m))", true),
        ("stripe:64k(null:1m,null:1m)", false),
        ("stripe:64k(null:1m,fault:power-cut(null:1m))", true),
    ] {
        let opened = crate::open(&uri.parse().unwrap(), crate::Purpose::Store).unwrap();
        assert_eq!(opened.geometry().volatile, volatile, "{uri}");
    }
}

#[test]
fn closing_brings_to_the_medium_what_a_lying_cache_held() {
    let (mut lane, referee) = lane("[cache]\nlies = true\n");
    for block in 0..100 {
        once(&mut lane, 0, io(1, Op::Write, block * 1024, 512, 1));
    }
    let mut now = 0;
    while !lane.close(Nanos(now)) {
        now += MS;
        poll(&mut lane, now);
        submit(&mut lane, now, []);
    }
    assert!(referee.cache().is_empty());
}

#[test]
fn what_the_volume_refuses_is_struck_by_nothing() {
    let (mut lane, referee) = lane("[[fault]]\nverb = 'misdirect'\n[[fault]]\nverb = 'drop'\n");
    for (offset, len) in [(BYTES, 512), (1, 512), (u64::MAX - 511, 512)] {
        let done = once(&mut lane, 0, io(1, Op::Write, offset, len, 0));
        assert_eq!(done.result, Err(Fault::OutOfRange));
    }
    assert_eq!(referee.strikes().1, [("misdirect", 0), ("drop", 0)]);
}

#[test]
fn what_comes_along_makes_sense_and_nonsense_is_refused_with_its_key() {
    assert!(Schedule::load("none").unwrap().rules.is_empty());
    for name in ["none", "fail-slow", "dying-ssd", "lying-cache", "power-cut", "lost-writes"] {
        assert_eq!(Schedule::load(name).unwrap().name, name);
    }
    for (fault, part) in [
        ("verb = 'explode'", "unknown variant"),
        ("verb = 'error'\ncolour = 1", "unknown field"),
        ("verb = 'slow'", "needs add_s"),
        ("verb = 'hang'\nadd_s = 1", "need verb = \"slow\""),
        ("verb = 'slow'\nadd_s = [2, 1]", "[minimum, maximum]"),
        ("verb = 'slow'\nadd_s = nan", "add_s: 0 to"),
        ("verb = 'slow'\nfactor = 0.5", "factor: 1 to"),
        ("verb = 'error'\nchance = 1.5", "chance: 0 to 1"),
        ("verb = 'error'\nevery_s = 5", "shorter for_s"),
        ("verb = 'error'\nrange = ['2g', '1g']", "range:"),
        ("verb = 'error'\nrange = ['x', '1g']", "size"),
        ("verb = 'tear'\nop = 'read'", "\"tear\" has no effect on a read"),
        ("verb = 'error'\nop = []", "op: at least one"),
        ("verb = 'drop'\nsticky = true", "sticky needs"),
        ("verb = 'hang'\nfault = 'medium'", "fault needs"),
        ("verb = 'power-cut'\nop = 'read'", "affects all I/Os"),
        ("verb = 'power-cut'\nsurvives = 2", "survives: 0 to 1"),
        ("verb = 'hang'\ntorn = true", "survives and torn need"),
        ("verb = 'stale'\nop = 'write'", "\"stale\" has no effect on a write"),
        ("verb = 'bad-blocks'", "needs chance"),
    ] {
        let error = Schedule::parse(&format!("name = 'x'\n[[fault]]\n{fault}\n")).unwrap_err();
        assert!(error.contains(part), "{fault}: {error}");
    }
    let many = "[[fault]]\nverb = 'hang'\n".repeat(65);
    assert!(Schedule::parse(&format!("name = 'x'\n{many}")).unwrap_err().contains("maximum 64"));
    assert!(Schedule::parse("[[fault]]\nverb = 'hang'\n").unwrap_err().contains("name is missing"));
    let huge = Schedule::parse("name = 'x'\n[cache]\nsize = '5g'\n");
    assert!(huge.unwrap_err().contains("1 to 4g"));
    let bytes = Geometry { block_bytes: 1, ..Geometry::new(BYTES, 512) };
    let cache = Schedule::parse("name = 'x'\n[cache]\n").unwrap();
    assert!(cache.fits(&bytes).unwrap_err().contains("block=1"));
    assert!(Schedule::load("/none").unwrap_err().contains("or one of fail-slow"));
}

proptest::proptest! {
    #[test]
    fn no_text_panics(
        verb in "(error|hang|slow|drop|tear|flip|bad-blocks|[a-z-]{1,9})",
        keys in "([a-z_]{1,8}|op|range|add_s|chance) = [0-9.'a-z\\[\\], -]{1,12}",
    ) {
        let _ = Schedule::parse(&format!("name = 'x'\n[[fault]]\nverb = '{verb}'\n{keys}\n"));
    }
}

#[test]
fn a_connection_ends_in_place_of_an_answer() {
    let (mut lane, referee) = lane(
        "[[fault]]\nverb = 'disconnect'\nop = 'write'\ncount = 1\n\
         [[fault]]\nverb = 'reset'\nop = ['write', 'flush']\n",
    );
    for (op, end) in [(Op::Write, Some((false, 0))), (Op::Write, Some((true, 1))), (Op::Read, None)]
    {
        let done = once(&mut lane, 0, io(1, op, 0, 512, 7));
        assert_eq!(done.result.is_err(), end.is_some(), "{op:?}");
        assert_eq!(done.cause.as_end(), end);
        if let Some((_, number)) = end {
            let words = format!("injected: fault {} of schedule 'x'", number + 1);
            assert_eq!(lane.words_of(done.cause), Some(words));
        }
    }
    assert_eq!(read(&mut lane, 0, 512), [0; 512], "it is not done");
    assert_eq!(referee.strikes().1, [("disconnect", 1), ("reset", 1)]);
}

#[test]
fn shipped_schedules_strike_what_is_tried_on_them() {
    for name in ["fail-slow", "dying-ssd", "lying-cache", "power-cut", "lost-writes"] {
        let text =
            std::fs::read_to_string(format!("{}/faults/{name}.toml", env!("CARGO_MANIFEST_DIR")));
        assert!(try_schedule(&text.unwrap()).is_ok(), "{name}");
    }
    let all = "name = 'x'\n[[fault]]\nverb = 'error'\nafter_s = 1\nfor_s = 2\nevery_s = 3";
    assert!(try_schedule(all).is_ok_and(|strikes| (10..60).contains(&strikes)));
    assert_eq!(try_schedule("name = 'x'"), Ok(0));
}

#[test]
fn data_are_not_asked_for_while_the_gate_is_shut() {
    let fault = "[[fault]]\nverb = 'withhold'\nafter_s = 1\nfor_s = 2\nevery_s = 10\ncount = 2\n";
    let (mut lane, referee) = lane(fault);
    // The schedule's time begins with the first call.
    let shut = [0, 999, 1_000, 2_999, 3_000, 11_500, 13_500, 21_500];
    let shut = shut.map(|now| referee.is_shut(Nanos((5_000 + now) * MS)));
    assert_eq!(shut, [false, false, true, true, false, true, false, false]);
    assert_eq!(referee.strikes().1, [("withhold", 2)]);
    assert_eq!(once(&mut lane, 6_000 * MS, io(1, Op::Write, 0, 512, 7)).result, Ok(()));
    let says = |more: &str| {
        Schedule::parse(&format!("name = 'x'\n[[fault]]\nverb = 'withhold'\n{more}")).unwrap_err()
    };
    assert!(says("chance = 0.5").contains("remove range and chance"));
    assert!(says("op = 'read'").contains("\"withhold\" has no effect on a read"));
}
