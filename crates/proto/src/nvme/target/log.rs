//! Get Log Page.

use std::sync::Arc;

use crate::Outbox;

use super::super::directory::{Portal, Subsystem};
use super::super::pdu::{Command, Status, admin, io};
use super::NvmeTarget;
use super::event::{Events, retains_event};
use super::identify::FIRMWARE;

/// Log page identifiers.
//= NVMe base §Get Log Page: log page identifiers.
mod page {
    pub(super) const ERRORS: u8 = 0x01;
    pub(super) const HEALTH: u8 = 0x02;
    pub(super) const FIRMWARE: u8 = 0x03;
    pub(super) const NAMESPACES: u8 = 0x04;
    pub(super) const EFFECTS: u8 = 0x05;
    pub(super) const RESETS: u8 = 0x1e;
    pub(super) const DISCOVERY: u8 = 0x70;
    pub(super) const RESERVATIONS: u8 = 0x80;
}

/// Length of a header or an entry of the discovery log.
//= NVMe-oF §Discovery Log Page: header and entries are 1024 bytes each.
const RECORD_BYTES: usize = 1024;

/// Maximum admin queue size in discovery entries.
//= NVMe-oF §Discovery Log Page: ASQSZ is at least 32.
const ADMIN_QUEUE_ENTRIES: u16 = 32;

impl NvmeTarget {
    /// Handles Get Log Page.
    pub(super) fn get_log_page(
        &mut self,
        command: Command<'_>,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        //= NVMe base §Get Log Page: NUMDL and NUMDU are dwords less one, LPOL and LPOU bytes.
        let dwords = u64::from(command.word(10) >> 16) | u64::from(command.word(11) & 0xffff) << 16;
        let len = (dwords + 1) * 4;
        let offset = u64::from(command.word(12)) | u64::from(command.word(13)) << 32;
        if offset % 4 != 0 || len > u64::from(self.max_transfer()) {
            return Err(Status::INVALID_FIELD);
        }
        let id = command.word(10) as u8;
        //= NVMe base §SMART / Health Information: only of the controller while LPA bit 0 is zero.
        if id == page::HEALTH && !matches!(command.namespace(), 0 | u32::MAX) {
            return Err(Status::INVALID_FIELD);
        }
        let discovery = self.admin.as_ref().is_some_and(|admin| admin.discovery);
        let log = match (id, discovery) {
            //= NVMe base §Error Information: entries without an error are zero.
            (page::ERRORS, _) => vec![0; 64],
            (page::HEALTH, false) => health(),
            (page::FIRMWARE, false) => firmware(),
            (page::NAMESPACES, false) => {
                let events = self.admin.as_mut().map(|admin| &mut admin.events);
                let retain = retains_event(command);
                events.map_or_else(Vec::new, |events| events.changed_list(retain))
            }
            (page::EFFECTS, false) => effects(),
            (page::RESERVATIONS, false) => {
                let events = self.admin.as_ref().map(|admin| &admin.events);
                events.map_or_else(Vec::new, Events::reservation_log)
            }
            // Every reset of another controller is complete when it is answered.
            //= NVMe base §Cross-Controller Reset log page: NE is the number of entries.
            (page::RESETS, false) => vec![0; 8],
            (page::DISCOVERY, true) => return self.discovery_log(command, offset, len, out),
            _ => return Err(Status::INVALID_LOG_PAGE),
        };
        //= NVMe base §Get Log Page: an offset beyond the log is an invalid field.
        let from = usize::try_from(offset).ok().filter(|from| *from <= log.len());
        let part = &log[from.ok_or(Status::INVALID_FIELD)?..];
        self.answer_page(command, &part[..part.len().min(len as usize)], len as usize, out)?;
        if id == page::RESERVATIONS && offset == 0 && !retains_event(command) {
            self.admin.iter_mut().for_each(|admin| admin.events.reservation_log_was_read());
        }
        Ok(())
    }

    /// The requested part of the discovery log.
    fn discovery_log(
        &mut self,
        command: Command<'_>,
        offset: u64,
        len: u64,
        out: &mut Outbox,
    ) -> Result<(), Status> {
        if let Some(admin) = &mut self.admin {
            admin.events.log_was_read(retains_event(command));
        }
        let all = self.subsystems.now();
        let others = all.portals().iter().filter(|portal| **portal != self.portal);
        let portals: Vec<&Portal> = std::iter::once(&self.portal).chain(others).collect();
        let host = self.host_nqn().unwrap_or_default();
        let admitted = |subsystem: &&Arc<Subsystem>| all.admits(subsystem, host);
        let subsystems: Vec<_> = all.list().iter().filter(admitted).collect();
        let count = subsystems.len() * portals.len();
        let whole = ((count + 1) * RECORD_BYTES) as u64;
        if offset > whole {
            return Err(Status::INVALID_FIELD);
        }
        let end = whole.min(offset + len);
        let mut log = Vec::with_capacity((end - offset) as usize + 2 * RECORD_BYTES);
        let first = (offset / RECORD_BYTES as u64) as usize;
        for record in first..end.div_ceil(RECORD_BYTES as u64) as usize {
            let Some(entry) = record.checked_sub(1) else {
                log.extend(header(count, all.generation()));
                continue;
            };
            let number = entry / portals.len();
            let portal = entry % portals.len();
            log.extend(self::entry(&subsystems[number].nqn, portals[portal], portal as u16));
        }
        let skip = offset as usize - first * RECORD_BYTES;
        let there = (end - offset) as usize;
        let part = log.get(skip..skip + there).unwrap_or_default();
        self.answer_page(command, part, len as usize, out)
    }
}

//= NVMe-oF §Discovery Log Page: GENCTR, NUMREC, RECFMT 0.
fn header(count: usize, generation: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&generation.to_le_bytes());
    record[8..16].copy_from_slice(&(count as u64).to_le_bytes());
    record
}

//= NVMe-oF §Discovery Log Page Entry
fn entry(nqn: &str, portal: &Portal, number: u16) -> [u8; RECORD_BYTES] {
    const TCP: u8 = 3;
    const IPV4: u8 = 1;
    const IPV6: u8 = 2;
    const NVM_SUBSYSTEM: u8 = 2;
    //= NVMe-oF §Discovery Log Page Entry: TREQ bit 2, SQ flow control can be disabled.
    const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;
    const ANY_CONTROLLER: [u8; 2] = [0xff, 0xff];
    let mut record = [0; RECORD_BYTES];
    let family = if portal.address.contains(':') { IPV6 } else { IPV4 };
    record[..4].copy_from_slice(&[TCP, family, NVM_SUBSYSTEM, FLOW_CONTROL_OPTIONAL]);
    record[4..6].copy_from_slice(&number.to_le_bytes());
    record[6..8].copy_from_slice(&ANY_CONTROLLER);
    record[8..10].copy_from_slice(&ADMIN_QUEUE_ENTRIES.to_le_bytes());
    //= NVMe base §1.5.3: ASCII fields are padded with spaces, names with zeroes.
    text(&mut record[32..64], &portal.port, b' ');
    text(&mut record[256..512], nqn, 0);
    text(&mut record[512..768], &portal.address, b' ');
    record
}

fn text(field: &mut [u8], text: &str, filler: u8) {
    let bytes = text.bytes().chain(std::iter::repeat(filler));
    field.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
}

/// Health of a device without sensors and wear.
//= NVMe base §SMART: byte 3 is the available spare in percent; counters of 0 are not reported.
fn health() -> Vec<u8> {
    let mut log = vec![0; 512];
    log[3] = 100;
    log
}

//= NVMe base §Firmware Slot Information: the active slot, and the revision in slot 1.
fn firmware() -> Vec<u8> {
    let mut log = vec![0; 512];
    log[0] = 1;
    text(&mut log[8..16], FIRMWARE, b' ');
    log
}

//= NVMe base §Commands Supported and Effects: a word for each admin and each I/O command.
fn effects() -> Vec<u8> {
    const SUPPORTED: u8 = 1;
    const CHANGES_BLOCKS: u8 = 2;
    const IO_COMMANDS: usize = 1024;
    let mut log = vec![0; 4096];
    for opcode in [
        admin::GET_LOG_PAGE,
        admin::IDENTIFY,
        admin::ABORT,
        admin::SET_FEATURES,
        admin::GET_FEATURES,
        admin::ASYNC_EVENT,
        admin::KEEP_ALIVE,
        admin::CROSS_CONTROLLER_RESET,
    ] {
        log[usize::from(opcode) * 4] = SUPPORTED;
    }
    for opcode in [
        io::FLUSH,
        io::READ,
        io::COMPARE,
        io::VERIFY,
        io::RESERVATION_REGISTER,
        io::RESERVATION_REPORT,
        io::RESERVATION_ACQUIRE,
        io::RESERVATION_RELEASE,
    ] {
        log[IO_COMMANDS + usize::from(opcode) * 4] = SUPPORTED;
    }
    for opcode in [io::WRITE, io::WRITE_ZEROES, io::DATASET_MANAGEMENT, io::COPY] {
        log[IO_COMMANDS + usize::from(opcode) * 4] = SUPPORTED | CHANGES_BLOCKS;
    }
    log
}
