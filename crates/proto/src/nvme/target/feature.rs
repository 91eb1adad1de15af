//! Get Features and Set Features.

use std::collections::BTreeMap;

use crate::Outbox;

use super::super::pdu::{Command, Status};
use super::NvmeTarget;
use super::admin::in_whole_units;

/// Feature identifiers.
//= NVMe base §Feature Identifiers
mod id {
    pub(super) const ARBITRATION: u8 = 0x01;
    pub(super) const POWER_MANAGEMENT: u8 = 0x02;
    pub(super) const TEMPERATURE: u8 = 0x04;
    pub(super) const ERROR_RECOVERY: u8 = 0x05;
    pub(super) const WRITE_CACHE: u8 = 0x06;
    pub(super) const QUEUES: u8 = 0x07;
    pub(super) const WRITE_ATOMICITY: u8 = 0x0a;
    pub(super) const EVENTS: u8 = 0x0b;
    pub(super) const KEEP_ALIVE: u8 = 0x0f;
    pub(super) const HOST_ID: u8 = 0x81;
    pub(super) const RESERVATION_MASK: u8 = 0x82;
    pub(super) const RESERVATION_PERSISTENCE: u8 = 0x83;
}

/// Features that hosts may set and read back without effect, with their bits.
const KEPT: [(u8, u32); 4] = [
    (id::ARBITRATION, 0xffff_ffff),
    // Power state 0 is the only one.
    (id::POWER_MANAGEMENT, 0xe0),
    (id::WRITE_ATOMICITY, 1),
    (id::EVENTS, 0xffff_ffff),
];

/// Values set by the host.
#[derive(Debug, Default)]
pub(super) struct Features {
    kept: [u32; KEPT.len()],
    /// Thresholds over and under which the composite temperature would be reported.
    temperature: [u32; 2],
    recovery: PerNamespace,
    /// Reservation notifications that the host does not want.
    pub(super) reservation_mask: PerNamespace,
}

/// A feature of which each namespace has its own.
#[derive(Debug, Default)]
pub(super) struct PerNamespace {
    all: u32,
    of: BTreeMap<u32, u32>,
}

/// Bits of Error Recovery.
const RECOVERY_BITS: u32 = 0xffff;

/// Bits of Reservation Notification Mask: the types of entries of the log.
//= NVMe base §Reservation Notification Mask: bits 1 to 3.
const MASK_BITS: u32 = 0xe;

impl PerNamespace {
    /// The value of a namespace.
    pub(super) fn of(&self, namespace: u32) -> u32 {
        self.of.get(&namespace).copied().unwrap_or(self.all)
    }

    fn set(&mut self, namespace: u32, value: u32) {
        if is_of_controller(namespace) {
            *self = PerNamespace { all: value, of: BTreeMap::new() };
        } else {
            self.of.insert(namespace, value);
        }
    }
}

/// Returns which threshold a value of Temperature Threshold is for.
//= NVMe base §Temperature Threshold: THSEL 0 is over and 1 is under, TMPSEL 0 is the composite; there
// are no sensors.
fn threshold_of(value: u32) -> Result<usize, Status> {
    match (value >> 20 & 3, value >> 16 & 0xf) {
        (which @ (0 | 1), 0) => Ok(which as usize),
        _ => Err(Status::INVALID_FIELD),
    }
}

//= NVMe base §Feature Values: 0h and FFFFFFFFh are the whole controller, or all its namespaces.
fn is_of_controller(namespace: u32) -> bool {
    matches!(namespace, 0 | u32::MAX)
}

/// Save bit of Set Features.
//= NVMe base §Set Features: SV, which needs ONCS bit 4.
const SAVE: u32 = 1 << 31;

impl NvmeTarget {
    /// Handles Get Features.
    //= NVMe base §Get Features: SEL needs ONCS bit 4, without which the current value is returned.
    pub(super) fn get_features(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        let which = command.word(10) as u8;
        if which == id::HOST_ID {
            //= NVMe base §Host Identifier: over fabrics it has 128 bits, EXHID is 1.
            if command.word(11) & 1 == 0 {
                return Err(Status::INVALID_FIELD);
            }
            let host = self.member.as_ref().map_or([0; 16], |member| member.controller().host.id);
            return self.answer_page(command, &host, host.len(), out);
        }
        let value = match which {
            id::TEMPERATURE
            | id::ERROR_RECOVERY
            | id::RESERVATION_MASK
            | id::RESERVATION_PERSISTENCE => self.selected_feature(command)?,
            _ => self.feature(which)?,
        };
        self.answer_result(command.id(), Status::SUCCESS, u64::from(value), out);
        Ok(())
    }

    /// The value of a feature that has several.
    fn selected_feature(&self, command: Command<'_>) -> Result<u32, Status> {
        let features = &self.admin.as_ref().ok_or(Status::INVALID_FIELD)?.features;
        if command.word(10) as u8 == id::TEMPERATURE {
            return Ok(features.temperature[threshold_of(command.word(11))?]);
        }
        let namespace = command.namespace();
        let which = command.word(10) as u8;
        if which == id::ERROR_RECOVERY {
            self.check_namespace(namespace)?;
            return Ok(features.recovery.of(namespace));
        }
        self.feature(which)?;
        let shared = &self.subsystem.active(namespace)?.shared;
        Ok(match which {
            id::RESERVATION_MASK => features.reservation_mask.of(namespace),
            _ => shared.read(|reservations| reservations.persist()).into(),
        })
    }

    /// Checks that a namespace is active, or all are meant.
    fn check_namespace(&self, namespace: u32) -> Result<(), Status> {
        match is_of_controller(namespace) {
            true => Ok(()),
            false => self.subsystem.active(namespace).map(|_| ()),
        }
    }

    fn feature(&self, which: u8) -> Result<u32, Status> {
        let admin = self.admin.as_ref().ok_or(Status::INVALID_FIELD)?;
        match which {
            id::KEEP_ALIVE => Ok(admin.keep_alive_ms),
            id::WRITE_CACHE if self.has_cache() => Ok(1),
            id::QUEUES if !admin.discovery => Ok(queues(self.granted_queues())),
            id::TEMPERATURE | id::ERROR_RECOVERY => Ok(0),
            id::RESERVATION_MASK | id::RESERVATION_PERSISTENCE if !admin.discovery => Ok(0),
            which => {
                let at = KEPT.iter().position(|(kept, _)| *kept == which);
                Ok(admin.features.kept[at.ok_or(Status::INVALID_FIELD)?])
            }
        }
    }

    /// Events that the host has enabled.
    pub(super) fn enabled_events(&self) -> u32 {
        self.feature(id::EVENTS).unwrap_or(0)
    }

    fn granted_queues(&self) -> u16 {
        self.member.as_ref().map_or(0, |member| member.granted())
    }

    /// Handles Set Features; returns the result for the completion.
    pub(super) fn set_features(&mut self, command: Command<'_>) -> Result<u64, Status> {
        let (which, value) = (command.word(10) as u8, command.word(11));
        let now = self.alive.last_heard();
        let has_cache = self.has_cache();
        if command.word(10) & SAVE != 0 {
            return Err(Status::FEATURE_NOT_SAVEABLE);
        }
        self.check_scope(which, command.namespace())?;
        let Some(admin) = &mut self.admin else { return Err(Status::INVALID_FIELD) };
        match which {
            id::QUEUES if !admin.discovery => self.set_queues(value),
            id::KEEP_ALIVE => {
                admin.keep_alive_ms = in_whole_units(value);
                self.member.iter().for_each(|member| member.keep_alive(value != 0));
                self.restart_keep_alive(now);
                Ok(0)
            }
            //= NVMe base §Volatile Write Cache: ours cannot be switched off.
            id::WRITE_CACHE if has_cache && value & 1 == 1 => Ok(0),
            id::WRITE_CACHE if has_cache => Err(Status::FEATURE_NOT_CHANGEABLE),
            //= NVMe base §Host Identifier: over fabrics Connect sets it, and nothing else does.
            id::HOST_ID => Err(Status::SEQUENCE_ERROR),
            id::TEMPERATURE => {
                if value >> 22 != 0 {
                    return Err(Status::INVALID_FIELD);
                }
                admin.features.temperature[threshold_of(value)?] = value & 0xffff;
                Ok(0)
            }
            id::ERROR_RECOVERY if value & !RECOVERY_BITS != 0 => Err(Status::INVALID_FIELD),
            id::ERROR_RECOVERY => {
                admin.features.recovery.set(command.namespace(), value);
                Ok(0)
            }
            id::RESERVATION_MASK if value & !MASK_BITS == 0 => {
                admin.features.reservation_mask.set(command.namespace(), value);
                Ok(0)
            }
            id::RESERVATION_PERSISTENCE if value <= 1 => {
                self.set_persistence(command.namespace(), value == 1)
            }
            which => {
                let at = KEPT.iter().position(|(kept, _)| *kept == which);
                let at = at.ok_or(Status::INVALID_FIELD)?;
                if value & !KEPT[at].1 != 0 {
                    return Err(Status::INVALID_FIELD);
                }
                admin.features.kept[at] = value;
                Ok(0)
            }
        }
    }

    //= NVMe base §Reservation Persistence: PTPL is bit 0; all namespaces that can if NSID is FFFFFFFFh.
    fn set_persistence(&self, namespace: u32, persists: bool) -> Result<u64, Status> {
        let all = namespace == u32::MAX;
        let ids = self.subsystem.ids().filter(|id| all || *id == namespace);
        for shared in ids.filter_map(|id| Some(&self.subsystem.namespace(id)?.shared)) {
            if shared.may_persist() {
                shared.set_persist(persists).map_err(|_| Status::INTERNAL_ERROR)?;
            } else if persists && !all {
                return Err(Status::INVALID_FIELD);
            }
        }
        Ok(0)
    }

    /// Checks the namespace identifier of a feature.
    fn check_scope(&self, which: u8, namespace: u32) -> Result<(), Status> {
        if which != id::HOST_ID {
            self.feature(which)?;
        }
        match which {
            id::ERROR_RECOVERY => return self.check_namespace(namespace),
            id::RESERVATION_MASK | id::RESERVATION_PERSISTENCE if namespace == u32::MAX => {
                return Ok(());
            }
            id::RESERVATION_MASK | id::RESERVATION_PERSISTENCE => {
                return self.subsystem.active(namespace).map(|_| ());
            }
            _ => {}
        }
        if is_of_controller(namespace) {
            return Ok(());
        }
        match namespace as usize > self.subsystem.namespaces.len() {
            true => Err(Status::INVALID_NAMESPACE),
            false => Err(Status::FEATURE_NOT_NAMESPACE_SPECIFIC),
        }
    }

    //= NVMe base §Number of Queues: NSQR and NCQR, 0's based; FFFFh is invalid.
    fn set_queues(&mut self, value: u32) -> Result<u64, Status> {
        let (submission, completion) = (value as u16, (value >> 16) as u16);
        if submission == u16::MAX || completion == u16::MAX {
            return Err(Status::INVALID_FIELD);
        }
        // A queue is a pair of both.
        let asked = submission.min(completion) + 1;
        let granted = self.member.as_ref().and_then(|member| member.grant(asked));
        //= NVMe base §Number of Queues: not once I/O queues exist.
        Ok(u64::from(queues(granted.ok_or(Status::SEQUENCE_ERROR)?)))
    }
}

/// The value of the feature for `count` queue pairs.
fn queues(count: u16) -> u32 {
    let count = u32::from(count.saturating_sub(1));
    count | count << 16
}
