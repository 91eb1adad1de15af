//! A target that answers all I/Os but one: the time-out of each I/O, in virtual time.

use block::{Fault, Nanos, Op, Tag};
use proto::iscsi::pdu::{NopIn, NopOut, Numbers, opcode, opcode_of};
use proto::{Ending, Endpoint, Initiator, Unanswered};

use crate::harness::io;
use crate::played::Played;

const LIMIT: Nanos = Nanos::from_secs(30);
/// Between two I/Os that are answered.
const STEP: Nanos = Nanos::from_millis(100);

/// Runs the timers that are due, and answers pings.
fn tick(played: &mut Played) -> Result<(), Ending> {
    if played.end.deadline().unwrap() > played.now {
        return Ok(());
    }
    played.end.tick(played.now, &mut played.out)?;
    if !played.out.is_empty() {
        let (header, _) = played.next();
        assert_eq!(opcode_of(&header), opcode::NOP_OUT);
        let task_tag = NopOut::parse(&header).task_tag;
        let numbers = Numbers { status: played.take_status(), ..played.numbers() };
        let pong = NopIn { task_tag, transfer_tag: u32::MAX, numbers, ..NopIn::default() };
        played.send(&pong, &[])?;
    }
    Ok(())
}

/// Answers reads, one each step, until the session ends.
fn answer_all_others(played: &mut Played) -> Ending {
    loop {
        played.now = played.now + STEP;
        if let Err(ending) = tick(played) {
            return ending;
        }
        let tag = played.read(512);
        played.data(tag, &[7; 512], true).unwrap();
        assert_eq!(played.done(), Ok(()));
        assert!(played.now < Nanos::from_secs(1000), "it goes on for ever");
    }
}

#[test]
fn one_io_without_an_answer_ends_the_session() {
    for pause in [0, 1, 700, 3749] {
        let mut played = Played::ready(&[]);
        played.window = 1000;
        played.now = played.now + Nanos::from_millis(pause);
        tick(&mut played).unwrap();
        let began = played.now;
        let buf = played.out.pool().take(4096);
        let mut lost = io(Op::Write, 8192, 4096, buf);
        lost.tag = Tag(1);
        played.end.submit(played.now, lost, &mut played.out);
        played.next();
        let ending = answer_all_others(&mut played);
        let lost = Unanswered { op: Op::Write, offset: 8192, len: 4096, limit: LIMIT };
        assert_eq!(ending, Ending::Unanswered(lost));
        let took = played.now.since(began);
        assert!(took >= LIMIT && took <= Nanos::from_secs(35), "{took:?}");
        // Other I/Os in flight are lost with the connection, and did not cause its loss.
        played.read(512);
        played.end.abandon();
        let done = played.end.done().drain(..);
        let done: Vec<_> = done.map(|done| (done.tag == Tag(1), done.result)).collect();
        assert_eq!(done, [(true, Err(Fault::Unanswered)), (false, Err(Fault::Disconnected))]);
    }
}

/// An I/O that waits to be tried again, while the target's window is shut, was not answered either.
#[test]
fn an_io_that_is_never_tried_again_ends_the_session() {
    let mut played = Played::ready(&[]);
    // The last command that the window lets through.
    let tag = loop {
        let tag = played.read(512);
        if played.end.room() == 0 {
            break tag;
        }
        played.data(tag, &[7; 512], true).unwrap();
        assert_eq!(played.done(), Ok(()));
    };
    played.response(tag, 0x08, &[]).unwrap();
    let began = played.now;
    let ending = loop {
        played.now = played.end.deadline().unwrap();
        if let Err(ending) = tick(&mut played) {
            break ending;
        }
        assert!(played.now < Nanos::from_secs(1000), "it goes on for ever");
    };
    assert!(matches!(ending, Ending::Unanswered(_)), "{ending}");
    assert!(played.now.since(began) >= LIMIT);
    played.end.abandon();
    assert_eq!(played.done(), Err(Fault::Unanswered));
}

#[test]
fn an_answer_just_in_time_is_one() {
    let mut played = Played::ready(&[]);
    for _ in 0..5 {
        let began = played.now;
        let tag = played.read(512);
        while played.now.since(began) < LIMIT {
            tick(&mut played).unwrap();
            played.now = played.now + STEP;
        }
        played.data(tag, &[7; 512], true).unwrap();
        assert_eq!(played.done(), Ok(()));
    }
    assert_eq!(played.end.room(), 16);
}
