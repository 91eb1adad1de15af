mod again;

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpListener};

use block::{Connection, Fault, Io, Pool};

use super::*;
use crate::dial::IscsiDial;
use crate::uri::Uri;

const SECOND: Nanos = Nanos::from_secs(1);

fn core() -> Core {
    Core::open(Pool::new(16, 4)).unwrap()
}

/// The volume that `dial` leads to.
fn volume<D: Dial>(dial: D, geometry: Geometry) -> Remote<D> {
    let (product, identity, instance, odd_bytes) = (None, None, None, None);
    let flushes_all = true;
    let backing = None;
    let learned =
        Learned { geometry, product, backing, flushes_all, identity, instance, odd_bytes };
    let (facts, fence) = (Arc::new(Facts::new(dial, &learned)), Nanos(0));
    Remote { facts, product: None, backing: Backing::Unknown, odd_bytes, fence }
}

fn dial(address: &str, option: &str) -> IscsiDial {
    let uri = format!("iscsi://{address}/iqn.2026-11.x:a/1{option}");
    let Uri::Iscsi(iscsi) = uri.parse().unwrap() else { panic!("{uri} is iSCSI") };
    IscsiDial::new(iscsi)
}

fn remote(address: &str) -> Remote<IscsiDial> {
    volume(dial(address, ""), Geometry::new(1 << 20, 512))
}

/// A lane opened without blocking.
fn begun(core: &Core, address: &str) -> Box<dyn Lane> {
    let before = core.now();
    let lane = remote(address).begin_lane(core).unwrap();
    assert!(core.now().since(before) < SECOND, "{address}: nobody waits");
    assert!(!lane.is_open() && lane.broken().is_none() && lane.wake().is_some(), "{address}");
    lane
}

/// Drives the lane for at most a third of a second, or until it breaks.
fn broken(core: &Core, lane: &mut dyn Lane) -> String {
    let (mut done, mut ios, mut ready) = (Vec::new(), VecDeque::new(), Vec::new());
    let end = core.now() + Nanos(SECOND.0 / 3);
    while core.now() < end {
        lane.poll(core.now(), &mut done);
        lane.submit(core.now(), &mut ios);
        if let Some(why) = lane.broken() {
            return why.to_owned();
        }
        let wake = lane.wake().map_or(end, |at| at.min(end));
        core.turn(Some(wake), &mut ready).unwrap();
    }
    "nothing".to_owned()
}

/// Reason why the lane breaks if nothing arrives for this long.
fn broken_after(core: &Core, lane: &mut dyn Lane, seconds: u64) -> Option<String> {
    lane.poll(core.now() + Nanos::from_secs(seconds), &mut Vec::new());
    lane.broken().map(str::to_owned)
}

fn local() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (listener, address)
}

#[test]
fn whoever_refuses_breaks_a_lane_that_was_begun() {
    let core = core();
    let (listener, address) = local();
    drop(listener);
    let mut lane = begun(&core, &address);
    let why = broken(&core, &mut *lane);
    assert!(why.contains(&format!("cannot connect to {address}")), "{why}");
    assert!(why.contains("refused") && lane.wake().is_none(), "{why}");
    assert!(lane.close(core.now()), "nothing is left to close");
}

/// A listener with a full queue drops SYNs, as a firewall does.
#[test]
fn whoever_does_not_answer_is_not_waited_for() {
    let core = core();
    let (listener, address) = local();
    let number: SocketAddr = address.parse().unwrap();
    // The queue of the standard library's listeners has 128 entries.
    let queue: Vec<_> = (0..200).map(|_| os::Connecting::begin(number).unwrap()).collect();
    let mut lane = begun(&core, &address);
    assert_eq!(broken_after(&core, &mut *lane, 4), None);
    let why = broken_after(&core, &mut *lane, 6).unwrap();
    assert!(why.contains(&format!("cannot connect to {address}: timed out")), "{why}");
    // I/Os submitted meanwhile stay with the caller, or complete.
    let io =
        Io { tag: block::Tag(7), op: block::Op::Flush, fua: false, len: 0, offset: 0, buf: None };
    let mut done = Vec::new();
    lane.submit(core.now(), &mut VecDeque::from([io]));
    lane.poll(core.now(), &mut done);
    assert_eq!(done[0].result, Err(Fault::Disconnected));
    drop((listener, queue));
}

#[test]
fn whoever_hangs_up_breaks_it() {
    let core = core();
    let (listener, address) = local();
    let mut lane = begun(&core, &address);
    let hang_up = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let why = broken(&core, &mut *lane);
    assert!(why.contains("closed the connection") || why.contains("connection failed"), "{why}");
    hang_up.join().unwrap();
}

/// The kernel accepts the connection, and no server answers.
#[test]
fn whoever_is_silent_breaks_it_in_the_time_of_a_login() {
    let core = core();
    let (listener, address) = local();
    let mut lane = begun(&core, &address);
    assert_eq!(broken(&core, &mut *lane), "nothing");
    assert_eq!(broken_after(&core, &mut *lane, 11), None);
    let why = broken_after(&core, &mut *lane, 16).unwrap();
    assert!(why.contains("timed out"), "{why}");
    // The target is notified although the lane still exists: it waits for no live peer.
    let (mut target, _) = listener.accept().unwrap();
    target.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    core.turn(Some(core.now()), &mut Vec::new()).unwrap();
    target.read_to_end(&mut Vec::new()).unwrap();
    drop(lane);
}

/// The resolver may take any time.
#[test]
fn a_name_is_looked_up_meanwhile() {
    let core = core();
    let mut lane = begun(&core, "nowhere.invalid:3260");
    let why = match broken(&core, &mut *lane) {
        why if why != "nothing" => why,
        _ => broken_after(&core, &mut *lane, 21).unwrap(),
    };
    assert!(why.contains("cannot connect to nowhere.invalid:3260"), "{why}");
}

#[test]
fn a_lane_that_is_not_open_can_be_given_up() {
    let core = core();
    let (_listener, address) = local();
    let mut lane = begun(&core, &address);
    assert!(lane.close(core.now()));
}
