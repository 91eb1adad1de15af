//! A controller that answers all commands but one: the time-out of each command, in virtual time.

use block::{Buf, Fault, Io, Nanos, Op, Tag};
use proto::nvme::pdu::Status;
use proto::{Ending, Endpoint, Initiator, Unanswered};

use crate::hosts::{Host, RESPONSE, completion};
use crate::server::sent;

const LIMIT: Nanos = Nanos::from_secs(30);
/// Between two I/Os that are answered.
const STEP: Nanos = Nanos::from_millis(100);

/// Sends an I/O and says by which identifier.
fn submit(host: &mut Host, tag: u64, op: Op, offset: u64) -> u16 {
    let buf = (op == Op::Write).then(|| Buf::new(4096).unwrap());
    let len = if op == Op::Flush { 0 } else { 4096 };
    let io = Io { tag: Tag(tag), op, fua: false, len, offset, buf };
    host.end.submit(host.now, io, &mut host.out);
    let capsule = sent(&mut host.out);
    u16::from_le_bytes([capsule[10], capsule[11]])
}

/// Runs the timers that are due.
fn tick(host: &mut Host) -> Result<(), Ending> {
    if host.end.deadline().unwrap() > host.now {
        return Ok(());
    }
    host.end.tick(host.now, &mut host.out)
}

/// Answers flushes, one each step, until the queue ends.
fn answer_all_others(host: &mut Host) -> Ending {
    loop {
        host.now = host.now + STEP;
        if let Err(ending) = tick(host) {
            return ending;
        }
        let id = submit(host, 9, Op::Flush, 0);
        host.short(completion(id, Status::SUCCESS)).unwrap();
        assert_eq!(host.end.done().pop().unwrap().result, Ok(()));
        assert!(host.now < Nanos::from_secs(1000), "it goes on for ever");
    }
}

#[test]
fn one_command_without_an_answer_ends_the_queue() {
    for pause in [0, 1, 700, 3749] {
        let mut host = Host::open(RESPONSE);
        host.now = host.now + Nanos::from_millis(pause);
        tick(&mut host).unwrap();
        let began = host.now;
        submit(&mut host, 1, Op::Write, 8192);
        let ending = answer_all_others(&mut host);
        let lost = Unanswered { op: Op::Write, offset: 8192, len: 4096, limit: LIMIT };
        assert_eq!(ending, Ending::Unanswered(lost));
        let took = host.now.since(began);
        assert!(took >= LIMIT && took <= Nanos::from_secs(35), "{took:?}");
        // Other commands in flight are lost with the connection, and did not cause its loss.
        submit(&mut host, 2, Op::Flush, 0);
        host.end.abandon();
        let done = host.end.done().drain(..);
        let mut done: Vec<_> = done.map(|done| (done.tag, done.result)).collect();
        done.sort_by_key(|(tag, _)| *tag);
        let lost = [(Tag(1), Err(Fault::Unanswered)), (Tag(2), Err(Fault::Disconnected))];
        assert_eq!(done, lost);
    }
}

#[test]
fn an_answer_just_in_time_is_one() {
    let mut host = Host::open(RESPONSE);
    for _ in 0..5 {
        let began = host.now;
        let id = submit(&mut host, 1, Op::Flush, 0);
        while host.now.since(began) < LIMIT {
            tick(&mut host).unwrap();
            host.now = host.now + STEP;
        }
        host.short(completion(id, Status::SUCCESS)).unwrap();
        assert_eq!(host.end.done().pop().unwrap().result, Ok(()));
    }
    assert_eq!(host.end.room(), 128);
}

#[test]
fn an_idle_queue_goes_on() {
    let mut host = Host::open(RESPONSE);
    for _ in 0..100 {
        host.now = host.end.deadline().unwrap();
        host.end.tick(host.now, &mut host.out).unwrap();
    }
    assert!(host.now > Nanos::from_secs(300));
    let ending = {
        submit(&mut host, 1, Op::Flush, 0);
        answer_all_others(&mut host)
    };
    assert_eq!(ending.to_string(), "a flush was not answered within 30 s (io_timeout)");
}
