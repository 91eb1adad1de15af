//! The machine against the model, by seeded histories.

use super::model::{Ask, End, HOSTS, JOIN, LEAVE, Model, PORTS, REPLACE};
use super::*;
use crate::scsi::Key;

const HISTORIES: u64 = 10_000;
const COMMANDS: usize = 24;
const KINDS: [u8; 6] = [1, 3, 5, 6, 7, 8];

fn nexus(port: usize) -> Nexus {
    match port {
        HOSTS.. => Nexus::Host([port as u8; 16]),
        _ => Nexus::Port { name: format!("iqn.2026-01.test:{port}"), isid: [port as u8; 6] },
    }
}

/// A command that is likely to do something: few keys, mostly the right one.
fn any_ask(model: &Model, port: usize, chance: &mut u64) -> Ask {
    let mut below = |limit: usize| (block::splitmix(chance) % limit as u64) as usize;
    let own = model.keys[port];
    let key = if below(8) == 0 { below(4) as u64 } else { own };
    let other = model.keys[below(PORTS)];
    let new_key = if below(4) == 0 { other } else { below(4) as u64 };
    let action = [0, 1, 1, 2, 3, 4, 4, 5, 6, 6][below(10)];
    let kind = KINDS[below(6)];
    let (action, new_key) = match action {
        // No host registers the key zero: the command is refused before.
        0 if port >= HOSTS => ([JOIN, LEAVE[0], REPLACE[0]][below(3)], new_key.max(1)),
        6 if port >= HOSTS => ([JOIN, LEAVE[1], REPLACE[1]][below(3)], new_key.max(1)),
        action => (action, new_key),
    };
    Ask { action, kind, key, new_key }
}

fn out_of(ask: Ask) -> ReserveOut {
    let action = match ask.action {
        0 => Action::Register { ignore: false },
        1 => Action::Reserve,
        2 => Action::Release,
        3 => Action::Clear,
        4 => Action::Preempt { abort: false },
        5 => Action::Preempt { abort: true },
        JOIN => Action::Join,
        action if LEAVE.contains(&action) => Action::Leave { ignore: action == LEAVE[1] },
        action if REPLACE.contains(&action) => Action::Replace { ignore: action == REPLACE[1] },
        _ => Action::Register { ignore: true },
    };
    let (kind, key, service_key) = (Kind::of_code(ask.kind), ask.key, ask.new_key);
    ReserveOut { action, kind, key, service_key, persist: None }
}

/// Effects on others, in the model's words.
fn consequences(effects: &Effects) -> (Vec<(usize, u8)>, Vec<usize>) {
    let port = |nexus: &Nexus| match nexus {
        Nexus::Port { isid, .. } => usize::from(isid[0]),
        Nexus::Host(id) => usize::from(id[0]),
    };
    let told = |(to, sense): &(Nexus, Sense)| {
        assert_eq!((sense.key, sense.asc), (Key::UnitAttention, 0x2a));
        (port(to), sense.ascq)
    };
    let mut told: Vec<_> = effects.attentions.iter().map(told).collect();
    let mut stopped: Vec<_> = effects.aborted.iter().map(port).collect();
    told.sort_unstable();
    stopped.sort_unstable();
    (told, stopped)
}

fn compare(machine: &Reservations, model: &Model, at: &str) {
    let listed = |port: usize| machine.list().find(|(it, ..)| **it == nexus(port));
    let keys: Vec<u64> = (0..PORTS).map(|port| listed(port).map_or(0, |it| it.1)).collect();
    assert_eq!(keys, model.keys, "{at}");
    let held = machine.held().map_or((0, 0), |(kind, key)| (kind as u8, key));
    let expect = if model.kind == 0 { (0, 0) } else { (model.kind, model.shown()) };
    assert_eq!((held, machine.generation()), (expect, model.count), "{at}");
    for port in 0..PORTS {
        let access = machine.access(&nexus(port), port as u32);
        let may = [Class::Look, Class::Change].map(|class| access.allows(class));
        assert_eq!(may, model.may(port), "{at}: port {port}");
        assert!(access.allows(Class::Status), "{at}: port {port}");
    }
}

#[test]
fn ten_thousand_histories_grant_nothing_wrong() {
    let mut ends = [0_u32; 3];
    for seed in 0..HISTORIES {
        let (mut machine, mut model) = (Reservations::default(), Model::default());
        let mut chance = seed;
        for step in 0..COMMANDS {
            let port = (block::splitmix(&mut chance) % PORTS as u64) as usize;
            let ask = any_ask(&model, port, &mut chance);
            let at = format!("seed {seed}, step {step}, port {port}, {ask:?}");
            let end = model.ask(port, ask);
            ends[end as usize] += 1;
            match (machine.change(&nexus(port), &out_of(ask)), end) {
                (Ok(effects), End::Good) => {
                    let mut told = model.told.clone();
                    told.sort_unstable();
                    assert_eq!(consequences(&effects), (told, model.stopped.clone()), "{at}");
                }
                (Err(Refusal::Conflict), End::Conflict) => {}
                (Err(Refusal::Check(sense)), End::Illegal) => {
                    assert_eq!(sense.key, Key::IllegalRequest, "{at}");
                }
                (result, end) => panic!("{at}: {result:?}, not {end:?}"),
            }
            compare(&machine, &model, &at);
        }
    }
    // The histories are of some use: each end is common.
    assert!(ends.iter().all(|count| *count > 1000), "{ends:?}");
}

#[test]
fn registrations_have_a_limit() {
    let mut machine = Reservations::default();
    let register = ReserveOut {
        action: Action::Register { ignore: true },
        kind: None,
        key: 0,
        service_key: 5,
        persist: None,
    };
    let port = |number: usize| Nexus::Port { name: format!("iqn.{number}"), isid: [0; 6] };
    for number in 0..REGISTRATIONS_MAX {
        assert_eq!(machine.change(&port(number), &register), Ok(Effects::default()));
    }
    let full = Err(Refusal::Check(Sense::INSUFFICIENT_REGISTRATION_RESOURCES));
    assert_eq!(machine.change(&port(REGISTRATIONS_MAX), &register), full);
    assert!(machine.change(&port(0), &register).is_ok(), "which is registered");
}

#[test]
fn spc_2_reservations_do_not_mix_with_persistent_ones() {
    let mut machine = Reservations::default();
    let register = ReserveOut {
        action: Action::Register { ignore: true },
        kind: None,
        key: 0,
        service_key: 5,
        persist: None,
    };
    machine.reserve_legacy(1).unwrap();
    assert_eq!(machine.change(&nexus(1), &register), Err(Refusal::Conflict));
    assert_eq!(machine.access(&nexus(2), 2), Access::Few);
    machine.release_legacy(1).unwrap();
    machine.change(&nexus(1), &register).unwrap();
    assert_eq!(machine.reserve_legacy(1), Err(Refusal::Conflict));
    assert_eq!(machine.release_legacy(2), Err(Refusal::Conflict));
    assert_eq!(machine.access(&nexus(2), 2), Access::All);
}
