//! Asynchronous events: hosts hear of namespaces that come and go, of new subsystems, and of
//! reservations that other hosts have taken from them.
//!
//! The server withdraws a namespace before it leaves the subsystem, so that no new command reaches
//! it. A queue keeps the former subsystem until the namespace's last command has ended.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::{Outbox, UnitId};

use super::super::directory::Subsystem;
use super::super::pdu::{Command, Status};
use super::{NvmeTarget, Stage};

/// Bits of Asynchronous Event Configuration and of OAES.
//= NVMe base §Asynchronous Event Configuration: bit 8 namespace attributes, bit 31 discovery log.
pub(super) const NAMESPACES: u32 = 1 << 8;
pub(super) const DISCOVERY: u32 = 1 << 31;

/// Results of event requests: log page, information and type Notice.
//= NVMe base §Asynchronous Event Request: type 2h; 00h with log page 04h, F0h with 70h.
const NAMESPACES_CHANGED: u64 = 0x04_00_02;
const DISCOVERY_CHANGED: u64 = 0x70_f0_02;

/// The event of a new entry of the Reservation Notification log, which is always enabled: features
/// mask entries. The bit is of no use to hosts.
//= NVMe base §Asynchronous Event Request: type 6h, information 00h, log page 80h.
const RESERVATIONS: u32 = 1 << 30;
const RESERVATION_LOG: u64 = 0x80_00_06;

/// Entries of the Reservation Notification log. Later ones are counted, but lost.
const NOTES_MAX: usize = 256;

/// Maximum outstanding Asynchronous Event Requests, less one.
//= NVMe base §AERL: a 0's based value.
pub(super) const EVENTS_LIMIT: u8 = 3;

/// Identifiers in the Changed Attached Namespace List.
//= NVMe base §Changed Attached Namespace List: 1024 at most, else FFFFFFFFh alone.
const CHANGED_MAX: usize = 1024;

/// Events of a controller.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// Outstanding requests.
    requests: Vec<u16>,
    /// Namespaces that changed since the host last read the list.
    changed: BTreeSet<u32>,
    /// The discovery log changed since the host last read it.
    log_changed: bool,
    /// The Reservation Notification log, oldest first, and the number of all entries ever.
    notes: VecDeque<Note>,
    noted: u64,
    /// Events that were sent, and whose log pages the host has not read.
    sent: u32,
}

/// Entry of the Reservation Notification log.
#[derive(Debug)]
struct Note {
    count: u64,
    kind: u8,
    namespace: u32,
}

/// Types of entries.
//= NVMe base §Reservation Notification log page: byte 8.
pub(super) const REGISTRATION_PREEMPTED: u8 = 1;
pub(super) const RESERVATION_RELEASED: u8 = 2;
pub(super) const RESERVATION_PREEMPTED: u8 = 3;

impl Events {
    /// Keeps a request until there is an event.
    pub(super) fn park(&mut self, id: u16) -> Result<(), Status> {
        if self.requests.len() > usize::from(EVENTS_LIMIT) {
            return Err(Status::ASYNC_LIMIT_EXCEEDED);
        }
        self.requests.push(id);
        Ok(())
    }

    /// Takes back a request.
    pub(super) fn abort(&mut self, id: u16) -> Option<u16> {
        let at = self.requests.iter().position(|event| *event == id)?;
        Some(self.requests.swap_remove(at))
    }

    /// The request that an event completes now, with its result. `enabled` are bits of the
    /// configuration.
    //= NVMe base §Asynchronous Event Request: an event is masked until its log page is read.
    fn next(&mut self, enabled: u32) -> Option<(u16, u64)> {
        let enabled = enabled | RESERVATIONS;
        let due = |bit: u32, is_new: bool| is_new && enabled & !self.sent & bit != 0;
        let (bit, result) = if due(NAMESPACES, !self.changed.is_empty()) {
            (NAMESPACES, NAMESPACES_CHANGED)
        } else if due(DISCOVERY, self.log_changed) {
            (DISCOVERY, DISCOVERY_CHANGED)
        } else if due(RESERVATIONS, !self.notes.is_empty()) {
            (RESERVATIONS, RESERVATION_LOG)
        } else {
            return None;
        };
        let id = self.requests.pop()?;
        self.sent |= bit;
        Some((id, result))
    }

    /// The Changed Attached Namespace List. Without `retain` it begins anew.
    pub(super) fn changed_list(&mut self, retain: bool) -> Vec<u8> {
        let mut ids: Vec<u32> = self.changed.iter().copied().collect();
        if ids.len() > CHANGED_MAX {
            ids = vec![u32::MAX];
        }
        if !retain {
            self.changed.clear();
            self.sent &= !NAMESPACES;
        }
        ids.resize(CHANGED_MAX, 0);
        ids.iter().flat_map(|id| id.to_le_bytes()).collect()
    }

    /// Adds an entry to the Reservation Notification log.
    pub(super) fn note(&mut self, kind: u8, namespace: u32) {
        self.noted += 1;
        if self.notes.len() < NOTES_MAX {
            self.notes.push_back(Note { count: self.noted, kind, namespace });
        }
    }

    /// The oldest entry of the Reservation Notification log; zeroes without one.
    //= NVMe base §Reservation Notification log page: count, type, number of further pages, NSID.
    pub(super) fn reservation_log(&self) -> Vec<u8> {
        let mut log = vec![0; 64];
        if let Some(note) = self.notes.front() {
            log[..8].copy_from_slice(&note.count.to_le_bytes());
            log[8] = note.kind;
            log[9] = (self.notes.len() - 1).min(255) as u8;
            log[12..16].copy_from_slice(&note.namespace.to_le_bytes());
        }
        log
    }

    /// The host has read the Reservation Notification log.
    pub(super) fn reservation_log_was_read(&mut self) {
        self.notes.pop_front();
        self.sent &= !RESERVATIONS;
    }

    /// The host reads the discovery log.
    pub(super) fn log_was_read(&mut self, retain: bool) {
        if !retain {
            self.log_changed = false;
            self.sent &= !DISCOVERY;
        }
    }
}

//= NVMe base §Get Log Page: RAE is bit 15 of Dword 10.
pub(super) fn retains_event(command: Command<'_>) -> bool {
    command.word(10) & 1 << 15 != 0
}

impl NvmeTarget {
    /// Takes over the subsystem as the server offers it now, unless commands are in flight on
    /// namespaces that it has no more. Returns whether the server still offers the subsystem.
    pub(super) fn take_over(&mut self) -> bool {
        if self.member.is_none() || self.finished {
            return true;
        }
        let all = self.subsystems.now();
        let is_discovery = self.admin.as_ref().is_some_and(|admin| admin.discovery);
        if is_discovery {
            let admin = self.admin.iter_mut();
            admin.for_each(|admin| admin.events.log_changed = true);
            return true;
        }
        let Some(new) = all.find(&self.subsystem.nqn) else { return false };
        let (former, ids) = (&self.subsystem, self.subsystem.namespaces.len());
        let ids = 1..=ids.max(new.namespaces.len()) as u32;
        let changed: BTreeSet<u32> = ids.filter(|id| unit(former, *id) != unit(new, *id)).collect();
        let gone: Vec<UnitId> = changed.iter().filter_map(|id| unit(former, *id)).collect();
        if self.slots.iter().any(|(_, slot)| gone.contains(&slot.data.unit)) {
            return true;
        }
        if !changed.is_empty() {
            self.subsystem = Arc::clone(new);
            let admin = self.admin.iter_mut();
            admin.for_each(|admin| admin.events.changed.extend(&changed));
        }
        true
    }

    /// Completes event requests for which there are events.
    pub(super) fn announce(&mut self, out: &mut Outbox) {
        if self.stage != Stage::Admin || !self.is_ready() {
            return;
        }
        let enabled = self.enabled_events();
        while let Some((id, result)) =
            self.admin.as_mut().and_then(|admin| admin.events.next(enabled))
        {
            self.answer_result(id, Status::SUCCESS, result, out);
        }
    }

    /// Whether the server offers a namespace that this queue does not know yet: another queue of
    /// the controller may have told the host.
    #[cold]
    pub(super) fn learns(&mut self, namespace: u32) -> bool {
        self.subsystem.namespace(namespace).is_none() && {
            self.take_over();
            self.subsystem.namespace(namespace).is_some()
        }
    }
}

fn unit(subsystem: &Subsystem, id: u32) -> Option<UnitId> {
    Some(subsystem.namespace(id)?.id)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn an_event_is_sent_once_until_its_log_page_is_read() {
        let mut events = Events::default();
        events.changed.extend([3, 1]);
        assert_eq!(events.next(u32::MAX), None, "no request");
        (7..=10).for_each(|id| events.park(id).unwrap());
        assert_eq!(events.park(11), Err(Status::ASYNC_LIMIT_EXCEEDED));
        assert_eq!(events.next(!NAMESPACES), None, "not enabled");
        assert_eq!(events.next(NAMESPACES), Some((10, 0x04_00_02)));
        events.changed.insert(2);
        assert_eq!(events.next(NAMESPACES), None, "masked");
        let list = |list: Vec<u8>| [0, 4, 8, 12].map(|at| list[at]);
        assert_eq!(list(events.changed_list(true)), [1, 2, 3, 0]);
        assert_eq!(events.next(NAMESPACES), None, "the event was retained");
        assert_eq!(list(events.changed_list(false)), [1, 2, 3, 0]);
        assert_eq!(list(events.changed_list(false)), [0; 4]);
        assert_eq!(events.next(NAMESPACES), None, "nothing changed");
        events.log_changed = true;
        assert_eq!(events.next(DISCOVERY), Some((9, 0x70_f0_02)));
        events.log_was_read(false);
        events.changed.extend(1..=1025);
        assert_eq!(events.changed_list(false)[..8], [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert_eq!((events.abort(8), events.abort(8)), (Some(8), None));
    }

    #[test]
    fn entries_of_the_reservation_log_are_read_one_by_one() {
        let mut events = Events::default();
        (7..=9).for_each(|id| events.park(id).unwrap());
        (1..=300).for_each(|namespace| events.note(RESERVATION_RELEASED, namespace));
        assert_eq!(events.next(0), Some((9, 0x80_00_06)), "nobody enables it");
        assert_eq!(events.next(0), None, "masked");
        for namespace in 1_u32..=256 {
            let log = events.reservation_log();
            let left = (256 - namespace).min(255) as u8;
            assert_eq!(log[..10], [&(u64::from(namespace)).to_le_bytes()[..], &[2, left]].concat());
            assert_eq!(log[12..16], namespace.to_le_bytes());
            events.reservation_log_was_read();
        }
        assert_eq!((events.reservation_log(), events.next(0)), (vec![0; 64], None));
        events.note(REGISTRATION_PREEMPTED, 5);
        assert_eq!(events.reservation_log()[..9], [45, 1, 0, 0, 0, 0, 0, 0, 1], "44 were lost");
        assert_eq!(events.next(0), Some((8, 0x80_00_06)));
    }
}
