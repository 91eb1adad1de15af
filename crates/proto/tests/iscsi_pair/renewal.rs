//! Logical units that come and go while initiators are connected.

use std::sync::Arc;

use block::Memory;
use proto::iscsi::{Directory, TargetEntry};
use proto::scsi::{Sense, UnitShared, cdb};
use proto::{Target, UnitId};

use crate::harness::{SECOND_UNIT, Setup, TARGET};
use crate::raw::{End, Raw, Way, end_of};

/// A server whose target has volumes of its own as LUN 1 and LUN 2.
fn server() -> (Setup, Arc<Directory>, UnitShared) {
    let setup = Setup::default().together();
    let (directory, disk) = setup.shared.clone().unwrap();
    let mut entry = TargetEntry::clone(entry_of(&directory));
    let second = UnitShared::default();
    let unit = entry.units[2].take().unwrap();
    let mut unit = unit.sharing(&second);
    unit.id = SECOND_UNIT;
    entry.units[2] = Some(unit);
    let directory = Arc::new(Directory::new(vec![entry]).unwrap());
    let shared: Option<(Arc<Directory>, Memory)> = Some((Arc::clone(&directory), disk));
    (Setup { shared, ..setup }, directory, second)
}

fn entry_of(directory: &Directory) -> &TargetEntry {
    directory.targets().iter().find(|entry| entry.name == TARGET).unwrap()
}

/// Offers the target with these LUNs.
fn offer(setup: &Setup, all: &Directory, luns: &[usize]) {
    let mut entry = TargetEntry::clone(entry_of(all));
    let units = entry.units.into_iter().enumerate();
    entry.units = units.map(|(lun, unit)| unit.filter(|_| luns.contains(&lun))).collect();
    *setup.later.borrow_mut() = Some(Arc::new(Directory::new(vec![entry]).unwrap()));
}

fn run(raw: &mut Raw, lun: u16, cdb: [u8; 16], way: Way, len: u32) -> End {
    let tag = raw.command(lun, cdb, way, len, &[]);
    raw.served.complete_all(raw.now);
    raw.end(tag)
}

fn ready(raw: &mut Raw, lun: u16) -> Option<Sense> {
    run(raw, lun, cdb::test_unit_ready(), Way::None, 0).sense
}

/// The LUNs that REPORT LUNS lists.
fn luns(raw: &mut Raw, through: u16) -> Vec<u8> {
    let mut cdb = [0; 16];
    (cdb[0], cdb[9]) = (0xa0, 255);
    let list = run(raw, through, cdb, Way::Read, 255).data;
    list[8..].chunks(8).map(|lun| lun[1]).collect()
}

fn renew(raw: &mut Raw) -> bool {
    raw.served.end.renew(&mut raw.served.out)
}

const CHANGED: Option<Sense> = Some(Sense::REPORTED_LUNS_CHANGED);

#[test]
fn an_initiator_hears_of_a_new_unit_and_uses_it() {
    let (setup, all, _) = server();
    offer(&setup, &all, &[1]);
    let mut raw = Raw::logged_in(&setup, &[]);
    assert_eq!(ready(&mut raw, 1), Some(Sense::POWER_ON_RESET));
    assert_eq!(ready(&mut raw, 2), Some(Sense::LOGICAL_UNIT_NOT_SUPPORTED));
    assert!(renew(&mut raw), "nothing has changed");
    assert_eq!(ready(&mut raw, 1), None);
    offer(&setup, &all, &[1, 2]);
    assert!(renew(&mut raw));
    assert_eq!(ready(&mut raw, 1), CHANGED);
    assert_eq!(ready(&mut raw, 1), None, "once");
    assert_eq!(ready(&mut raw, 2), Some(Sense::POWER_ON_RESET));
    assert_eq!(luns(&mut raw, 2), [1, 2]);
    assert_eq!(run(&mut raw, 2, cdb::read10(0, 1), Way::Read, 512).data.len(), 512);
}

#[test]
fn an_initiator_that_has_read_the_list_hears_nothing() {
    let (setup, all, _) = server();
    let mut raw = Raw::ready(&setup, &[]);
    offer(&setup, &all, &[1]);
    assert!(renew(&mut raw));
    // Through a LUN that is there, or one that is gone.
    assert_eq!(luns(&mut raw, 2), [1]);
    assert_eq!(ready(&mut raw, 1), None);
}

#[test]
fn a_withdrawn_unit_ends_when_its_last_command_has() {
    let (setup, all, second) = server();
    let mut raw = Raw::ready(&setup, &[]);
    let tag = raw.command(2, cdb::read10(0, 1), Way::Read, 512, &[]);
    raw.served.take_requests();
    offer(&setup, &all, &[1]);
    second.withdraw();
    assert!(renew(&mut raw));
    assert!(raw.served.end.uses(SECOND_UNIT), "a command is in flight");
    // Nothing new begins, and the unit is listed no more.
    let gone = Some(Sense::LOGICAL_UNIT_NOT_SUPPORTED);
    for (cdb, way, len) in [
        (cdb::read10(0, 1), Way::Read, 512),
        (cdb::synchronize_cache10(), Way::None, 0),
        (cdb::test_unit_ready(), Way::None, 0),
    ] {
        let other = raw.command(2, cdb, way, len, &[]);
        let answers = raw.answers();
        assert_eq!(end_of(other, answers).0.unwrap().sense, gone);
    }
    let mut inquiry = [0; 16];
    (inquiry[0], inquiry[4]) = (0x12, 36);
    let other = raw.command(2, inquiry, Way::Read, 36, &[]);
    let answers = raw.answers();
    assert_eq!(end_of(other, answers).0.unwrap().data[0], 0x7f, "no unit can be there");
    raw.served.complete_all(raw.now);
    assert_eq!(raw.end(tag).data.len(), 512);
    assert!(renew(&mut raw));
    assert!(!raw.served.end.uses(SECOND_UNIT) && raw.served.end.uses(UnitId(0)));
    assert_eq!((ready(&mut raw, 2), ready(&mut raw, 1)), (gone, CHANGED));
}

#[test]
fn a_target_that_is_gone_is_left() {
    let (setup, _, _) = server();
    let mut raw = Raw::ready(&setup, &[]);
    *setup.later.borrow_mut() = Some(Arc::new(Directory::new(Vec::new()).unwrap()));
    assert!(!renew(&mut raw));
    assert_eq!(ready(&mut raw, 1), None, "until it logs out");
}
