use block::{Backing, Geometry};

use super::super::directory::{Namespace, Subsystems};
use super::*;
use crate::{DiskId, UnitId};

fn subsystem(name: char) -> Arc<Subsystem> {
    let geometry = Geometry::new(1 << 20, 512);
    let disk = DiskId::new([0; 16]);
    let namespace = Namespace {
        id: UnitId(0),
        geometry,
        memory: None,
        disk,
        backing: Backing::Unknown,
        instance: None,
        shared: Default::default(),
    };
    let subsystem = Subsystem {
        nqn: format!("nqn.2026-01.io.drumfire:{name}"),
        namespaces: vec![Some(namespace)],
        serial: "S".to_owned(),
        model: "M".to_owned(),
        shared: false,
    };
    Arc::clone(&Subsystems::new(vec![subsystem]).unwrap().list()[0])
}

fn host(name: &str) -> Host {
    Host { nqn: name.to_owned(), id: [name.len() as u8; 16], address: None }
}

fn of(memory_bytes: u64) -> Terms {
    Terms { memory_bytes, keeps_alive: true, ..Terms::default() }
}

fn controllers(controllers: usize, queues: u16, memory_bytes: u64) -> Arc<Controllers> {
    Arc::new(Controllers::new(ControllerLimits { controllers, queues, memory_bytes }))
}

#[test]
fn queues_join_their_controller_and_no_other() {
    let (all, a, b) = (controllers(4, 2, 100), subsystem('a'), subsystem('b'));
    let admin = all.begin(Some(Arc::clone(&a)), host("h"), of(1)).unwrap();
    let id = admin.controller().id;
    let join = |id, subsystem, host: &str, queue| {
        all.join(id, subsystem, &self::host(host), queue, 1).map(|member| member.queue())
    };
    assert_eq!(join(id, &a, "h", 1), Err(Refusal::Sequence));
    admin.enable(true);
    assert_eq!(join(id, &a, "h", 1), Ok(1));
    assert_eq!(join(id + 1, &a, "h", 1), Err(Refusal::Controller));
    assert_eq!(join(id, &b, "h", 1), Err(Refusal::Controller));
    assert_eq!(join(id, &a, "i", 1), Err(Refusal::HostName));
    let impostor = Host { nqn: "h".to_owned(), id: [0; 16], address: None };
    let refusal = all.join(id, &a, &impostor, 1, 1).unwrap_err();
    assert_eq!(refusal, Refusal::HostId);
    assert_eq!(join(id, &a, "h", 3), Err(Refusal::Queue));
    let first = all.join(id, &a, &host("h"), 1, 1).unwrap();
    assert_eq!(join(id, &a, "h", 1), Err(Refusal::Sequence));
    assert_eq!((admin.grant(1), admin.granted()), (None, 2));
    drop(first);
    assert_eq!((admin.grant(9), admin.grant(1), admin.granted()), (Some(2), Some(1), 1));
    assert_eq!(join(id, &a, "h", 2), Err(Refusal::Queue));
}

#[test]
fn a_reset_ends_queues_and_frees_their_numbers() {
    let (all, a) = (controllers(4, 2, 100), subsystem('a'));
    let admin = all.begin(Some(Arc::clone(&a)), host("h"), of(1)).unwrap();
    let id = admin.controller().id;
    admin.enable(true);
    let old = all.join(id, &a, &host("h"), 1, 1).unwrap();
    assert!(old.lives());
    admin.enable(true);
    assert!(old.lives());
    admin.enable(false);
    assert!(!old.lives());
    admin.enable(true);
    assert!(!old.lives());
    let join = || all.join(id, &a, &host("h"), 1, 1);
    assert_eq!(join().unwrap_err(), Refusal::Sequence, "something may be left of the old one");
    drop(old);
    let new = join().unwrap();
    assert!(new.lives());
    assert_eq!(join().unwrap_err(), Refusal::Sequence);
    drop(admin);
    assert!(!new.lives());
    assert_eq!(all.count(), 0);
}

#[test]
fn resets_and_new_controllers_wait_for_what_is_left() {
    let (all, a, b) = (controllers(8, 4, 100), subsystem('a'), subsystem('b'));
    let begin = |name: &str| {
        let admin = all.begin(Some(Arc::clone(&a)), host(name), of(1)).unwrap();
        admin.enable(true);
        admin
    };
    let [admin, other] = [begin("h"), begin("i")];
    let join = |admin: &Membership, name: &str, queue| {
        all.join(admin.controller().id, &a, &host(name), queue, 1).unwrap()
    };
    let waits =
        |subsystem: &Arc<Subsystem>, name: &str| all.has_leftovers_of(subsystem, &host(name));
    let [lost, living] = [1, 2].map(|queue| join(&admin, "h", queue));
    let stranger = join(&other, "i", 1);
    assert!(!waits(&a, "h"), "both of them live");
    lost.end();
    lost.end();
    let of_them = [waits(&a, "h"), waits(&a, "i"), waits(&b, "h")];
    assert_eq!(of_them, [true, false, false]);
    assert!(admin.has_leftovers() && !other.has_leftovers());
    drop(lost);
    assert!(!admin.has_leftovers() && !waits(&a, "h"));
    // A reset is over when its queues are.
    admin.enable(false);
    assert!(admin.has_leftovers() && waits(&a, "h"));
    drop(living);
    assert!(!admin.has_leftovers());
    // The end of a controller is noticed, too.
    drop(other);
    assert!(waits(&a, "i"));
    drop(stranger);
    assert!(!waits(&a, "i"));
    let registry = all.lock();
    assert_eq!((registry.ending, registry.seats.len()), (0, 0));
}

#[test]
fn a_controller_ends_another_one_of_its_host() {
    let (all, a) = (controllers(8, 4, 100), subsystem('a'));
    let begin = |name: &str| {
        let admin = all.begin(Some(Arc::clone(&a)), host(name), of(1)).unwrap();
        admin.enable(true);
        admin
    };
    let [old, new, stranger] = [begin("h"), begin("h"), begin("i")];
    let named = |member: &Membership| (member.controller().id, member.controller().instance());
    let end = |(id, instance)| new.end_other(id, instance);
    let queue = all.join(named(&old).0, &a, &host("h"), 1, 1).unwrap();
    // A controller of another host, or an earlier instance: nothing is done, and nothing is
    // left.
    let (id, (ciu, cirn)) = named(&old);
    assert!(end(named(&stranger)) && end((id, (ciu, cirn + 1))) && end((999, (1, 1))));
    assert!(queue.lives() && stranger.controller().life() & 1 == 1);
    assert!(!end(named(&new)), "not itself");
    assert!(end(named(&old)));
    assert!(old.is_given_up() && !queue.lives() && new.host_has_leftovers());
    drop(queue);
    assert!(!new.host_has_leftovers());
    // CIU and CIRN change with each time that it is enabled.
    let before = named(&new);
    new.enable(false);
    new.enable(true);
    let (id, (ciu, cirn)) = named(&new);
    assert!(id == before.0 && ciu != before.1.0 && cirn != before.1.1 && ciu != 0);
}

#[test]
fn limits_hold_and_are_given_back() {
    let (all, a) = (controllers(4, 2, 20), subsystem('a'));
    let begin = |memory| all.begin(Some(Arc::clone(&a)), host("h"), of(memory));
    let [first, second] = [begin(4).unwrap(), begin(4).unwrap()];
    first.enable(true);
    second.enable(true);
    assert_eq!(begin(0).unwrap_err(), Refusal::Busy, "a host has half of the controllers");
    drop(second);
    assert_eq!(begin(7).unwrap_err(), Refusal::Busy, "and half of the memory");
    let id = first.controller().id;
    assert_eq!(all.join(id, &a, &host("h"), 1, 7).unwrap_err(), Refusal::Busy);
    let queue = all.join(id, &a, &host("h"), 1, 6).unwrap();
    let other = all.begin(Some(Arc::clone(&a)), host("other"), of(10)).unwrap();
    drop((first, queue, other));
    let registry = all.lock();
    assert_eq!((registry.all, registry.by_host.len()), (Holding::default(), 0));
}

#[test]
fn one_host_does_not_lock_others_out() {
    let (all, a) = (controllers(64, 2, 1 << 30), subsystem('a'));
    let begin = |name: &str, address: u128| {
        let host = Host { address: Some(address), ..host(name) };
        all.begin(Some(Arc::clone(&a)), host, Terms::default())
    };
    let enabled = |member: &Membership| member.enable(true);
    // A host with a new NQN for each controller, and one with many addresses.
    let names = (0..).map_while(|n| begin(&format!("n{n}"), 1).ok());
    let names: Vec<_> = names.inspect(enabled).take(40).collect();
    let places: Vec<_> = (0..40).filter_map(|n| begin("m", 10 + n).ok()).collect();
    assert_eq!(names.len() - given_up(&names), 32);
    assert_eq!(places.len() - given_up(&places), 16);
    for newcomer in ["x", "y", "z"] {
        begin(newcomer, 100 + u128::from(newcomer.as_bytes()[0])).unwrap();
    }
}

fn given_up(members: &[Membership]) -> usize {
    members.iter().filter(|member| member.is_given_up()).count()
}

#[test]
fn those_that_do_nothing_are_given_up_first() {
    let (all, a) = (controllers(8, 2, 1 << 30), subsystem('a'));
    let begin = |name: &str, keeps_alive| {
        let terms = Terms { keeps_alive, ..Terms::default() };
        all.begin(Some(Arc::clone(&a)), host(name), terms)
    };
    let [idle, never, kept, busy] =
        [false, false, true, false].map(|keeps| begin("h", keeps).unwrap());
    [&idle, &kept, &busy].into_iter().for_each(|member| member.enable(true));
    let queue = all.join(busy.controller().id, &a, &host("h"), 1, 0).unwrap();
    let next = begin("h", true).unwrap();
    assert_eq!(
        [&idle, &never, &kept, &busy].map(|one| one.is_given_up()),
        [false, true, false, false]
    );
    next.enable(true);
    let last = begin("h", true).unwrap();
    assert!(idle.is_given_up() && !kept.is_given_up() && queue.lives());
    last.enable(true);
    assert_eq!(begin("h", true).unwrap_err(), Refusal::Busy);
    // Dropping an ended controller takes nothing from its successor.
    drop((idle, never));
    assert_eq!(all.count(), 4);
    assert!(all.join(last.controller().id, &a, &host("h"), 1, 0).is_ok());
}

#[test]
fn identifiers_are_not_given_again_at_once() {
    let (all, a) = (controllers(8, 2, 100), subsystem('a'));
    let begin = || all.begin(Some(Arc::clone(&a)), host("h"), of(0)).unwrap();
    let kept = begin();
    assert_eq!(kept.controller().id, 1);
    assert_eq!([begin(), begin()].map(|one| one.controller().id), [2, 3]);
    all.lock().last = IDS_END - 2;
    assert_eq!([begin(), begin()].map(|one| one.controller().id), [IDS_END - 1, 2]);
    for (first, ids) in [(500, [500, 501]), (0, [1, 2]), (u16::MAX, [1, 2]), (IDS_END, [1, 2])] {
        let all = Controllers::new(ControllerLimits::default()).beginning_at(first);
        let all = Arc::new(all);
        let begin = || all.begin(Some(Arc::clone(&a)), host("h"), of(0)).unwrap();
        assert_eq!([begin(), begin()].map(|one| one.controller().id), ids, "{first}");
    }
}
