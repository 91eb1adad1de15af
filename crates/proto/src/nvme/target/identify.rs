//! Identify data of controllers and namespaces.

use block::{BACKING_BYTES_MAX, Geometry};

use crate::Instance;

use super::super::controllers::{Controller, Membership};
use super::super::directory::Namespace;
use super::super::pdu::{Command, Status};
use super::super::{BACKING_AT, instance_bytes};
use super::NvmeTarget;
use super::admin::KEEP_ALIVE_UNIT_MS;
use super::copy;
use super::event;
use super::property::VERSION;
use super::reset::{QUIESCE_TIME_MS, RESETS_MAX};

/// CNS values.
//= NVMe base §Identify: CNS values.
mod cns {
    pub(super) const NAMESPACE: u8 = 0x00;
    pub(super) const CONTROLLER: u8 = 0x01;
    pub(super) const NAMESPACE_LIST: u8 = 0x02;
    pub(super) const DESCRIPTORS: u8 = 0x03;
    pub(super) const NAMESPACE_OF_SET: u8 = 0x05;
    pub(super) const CONTROLLER_OF_SET: u8 = 0x06;
    pub(super) const NAMESPACE_LIST_OF_SET: u8 = 0x07;
    pub(super) const NAMESPACE_OF_ANY_SET: u8 = 0x08;
}

/// Length of every data structure.
//= NVMe base §Identify: data structures are 4096 bytes.
const PAGE_BYTES: usize = 4096;

/// Optional commands: Compare, Dataset Management, Write Zeroes, reservations, Verify, Copy.
//= NVMe base §ONCS: bits 0, 2, 3, 5, 7 and 8.
const COMMANDS: u16 = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 7 | 1 << 8;

/// Compare and Write.
//= NVMe base §FUSES: bit 0. ACWU is 0: one block.
const FUSED: u16 = 1;

/// Reservations: all six types, the bit IEKEY of NVMe 1.3, and whether they may outlive the server.
//= NVMe base §RESCAP: bits 1 to 6, 7, and 0.
fn reservations(namespace: &Namespace) -> u8 {
    0xfe | u8::from(namespace.shared.may_persist())
}

/// Log pages: Commands Supported and Effects, and offsets.
//= NVMe base §LPA: bits 1 and 2.
const LOG_PAGES: u8 = 1 << 1 | 1 << 2;

/// SGLs of any length and alignment, with in-capsule offsets and transport descriptors.
//= NVMe base §SGLS: bits 1:0, 20 and 21.
const SGLS: u32 = 1 | 1 << 20 | 1 << 21;

/// Types of controllers.
//= NVMe base §CNTRLTYPE: 1 and 2.
const IO_CONTROLLER: u8 = 1;
const DISCOVERY_CONTROLLER: u8 = 2;

/// One read-only firmware slot.
//= NVMe base §FRMW: bit 0 read-only, bits 3:1 number of slots.
const FIRMWARE_SLOTS: u8 = 1 | 1 << 1;

/// Firmware revision: our version.
pub(super) const FIRMWARE: &str = env!("CARGO_PKG_VERSION");

/// A data structure under construction.
struct Page(Vec<u8>);

impl Page {
    fn new() -> Page {
        Page(vec![0; PAGE_BYTES])
    }

    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) -> &mut Page {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    fn put16(&mut self, at: usize, value: u16) -> &mut Page {
        self.put(at, value.to_le_bytes())
    }

    fn put32(&mut self, at: usize, value: u32) -> &mut Page {
        self.put(at, value.to_le_bytes())
    }

    fn put64(&mut self, at: usize, value: u64) -> &mut Page {
        self.put(at, value.to_le_bytes())
    }

    /// Text, padded or cut to `len` bytes.
    fn text(&mut self, at: usize, len: usize, text: &str, filler: u8) -> &mut Page {
        let bytes = text.bytes().chain(std::iter::repeat(filler));
        self.0[at..at + len].iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        self
    }
}

impl NvmeTarget {
    /// Handles Identify.
    pub(super) fn identify(&self, command: Command<'_>) -> Result<Vec<u8>, Status> {
        let (what, id) = (command.word(10) as u8, command.namespace());
        let discovery = self.admin.as_ref().is_some_and(|admin| admin.discovery);
        if discovery && what != cns::CONTROLLER {
            return Err(Status::INVALID_FIELD);
        }
        //= NVMe base §Identify: CSI is bits 31:24 of Dword 11; the NVM command set is 0.
        let of_set = [cns::NAMESPACE_OF_SET, cns::CONTROLLER_OF_SET, cns::NAMESPACE_LIST_OF_SET];
        if of_set.contains(&what) && command.word(11) >> 24 != 0 {
            return Err(Status::INVALID_FIELD);
        }
        match what {
            cns::NAMESPACE => {
                let shared = self.subsystem.shared;
                self.about_namespace(id, |page, namespace| describe(page, namespace, shared))
            }
            cns::CONTROLLER => Ok(self.identify_controller(discovery)),
            cns::NAMESPACE_LIST | cns::NAMESPACE_LIST_OF_SET => self.namespace_list(id),
            cns::DESCRIPTORS => self.descriptors(id),
            // Protection information formats: none.
            cns::NAMESPACE_OF_SET => self.about_namespace(id, |_, _| {}),
            //= NVM command set §VSL: as MDTS. Zero: no limits for Write Zeroes and Dataset Management.
            cns::CONTROLLER_OF_SET => {
                let mut page = Page::new();
                page.put(0, [self.transfer_exponent()]);
                Ok(page.0)
            }
            cns::NAMESPACE_OF_ANY_SET => self.about_namespace(id, |page, namespace| {
                //= NVMe base §I/O Command Set Independent Identify Namespace: NMIC, RESCAP, NSATTR and
                // NSTAT.
                page.put(1, [u8::from(self.subsystem.shared), reservations(namespace)])
                    .put(8, [protected(&namespace.geometry)])
                    .put(14, [1]);
            }),
            _ => Err(Status::INVALID_FIELD),
        }
    }

    /// Identify data of a namespace; zeroes if its identifier is valid but inactive.
    //= NVMe base §Identify Namespace: an inactive identifier is answered by zeroes.
    fn about_namespace(
        &self,
        id: u32,
        tell: impl Fn(&mut Page, &Namespace),
    ) -> Result<Vec<u8>, Status> {
        if id == 0 || id as usize > self.subsystem.namespaces.len() {
            return Err(Status::INVALID_NAMESPACE);
        }
        let mut page = Page::new();
        self.subsystem.namespace(id).iter().for_each(|namespace| tell(&mut page, namespace));
        Ok(page.0)
    }

    //= NVMe base §Active Namespace ID list: identifiers greater than NSID, rising, then zeroes.
    fn namespace_list(&self, after: u32) -> Result<Vec<u8>, Status> {
        if after >= 0xffff_fffe {
            return Err(Status::INVALID_NAMESPACE);
        }
        let mut page = Page::new();
        let ids = self.subsystem.ids().filter(|id| *id > after);
        for (at, id) in (0..PAGE_BYTES).step_by(4).zip(ids) {
            page.put32(at, id);
        }
        Ok(page.0)
    }

    //= NVMe base §Namespace Identification Descriptor: type, length, two reserved bytes, value.
    fn descriptors(&self, id: u32) -> Result<Vec<u8>, Status> {
        let namespace = self.subsystem.namespace(id).ok_or(Status::INVALID_NAMESPACE)?;
        const EUI64: u8 = 1;
        const NGUID: u8 = 2;
        const UUID: u8 = 3;
        const COMMAND_SET: u8 = 4;
        let disk = namespace.disk;
        let mut page = Page::new();
        page.put(0, [UUID, 16]).put(4, disk.uuid());
        page.put(20, [NGUID, 16]).put(24, disk.nguid());
        page.put(40, [EUI64, 8]).put(44, disk.eui64());
        page.put(52, [COMMAND_SET, 1]).put(56, [0]);
        Ok(page.0)
    }

    //= NVMe base §Identify Controller data structure
    fn identify_controller(&self, discovery: bool) -> Vec<u8> {
        let subsystem = &self.subsystem;
        let controller = self.member.as_ref().map(Membership::controller);
        let id = controller.map_or(0, |controller| controller.id);
        let mut page = Page::new();
        page.text(4, 20, &subsystem.serial, b' ').text(24, 40, &subsystem.model, b' ');
        page.text(64, 8, FIRMWARE, b' ');
        page.put(77, [self.transfer_exponent()]);
        page.put16(78, id).put32(80, VERSION);
        //= NVMe base §CTRATT: bit 0, host identifiers of 128 bits.
        page.put32(96, 1);
        page.put(111, [if discovery { DISCOVERY_CONTROLLER } else { IO_CONTROLLER }]);
        let events = if discovery { event::DISCOVERY } else { event::NAMESPACES };
        page.put32(92, events).put(259, [event::EVENTS_LIMIT]);
        //= NVMe base §KAS: in units of 100 milliseconds.
        page.put16(320, (KEEP_ALIVE_UNIT_MS / 100) as u16);
        page.put16(514, self.max_entries());
        page.put32(536, SGLS);
        page.text(768, 256, &subsystem.nqn, 0);
        //= NVMe-oF §Identify Controller: IOCCSZ and IORCSZ in units of 16 bytes, ICDOFF, MSDBD.
        page.put32(1792, (64 + self.in_capsule_bytes()) / 16).put32(1796, 1).put(1803, [1]);
        if discovery {
            // Only offsets are supported.
            page.put(261, [1 << 2]);
            return page.0;
        }
        //= NVMe base §Identify Controller data structure: CIU is byte 135, CIRN bytes 143:136, CQT
        // bytes 387:386, CCRL byte 1807.
        let (ciu, cirn) = controller.map_or((0, 0), Controller::instance);
        page.put(135, [ciu]).put64(136, cirn);
        page.put16(386, QUIESCE_TIME_MS).put(1807, [RESETS_MAX]);
        if let Some(instance) = self.instance() {
            page.put(3072, instance_bytes(instance));
        }
        //= NVMe base §CMIC: several ports, bit 0, and several controllers, bit 1.
        page.put(76, [CONTROLLERS | u8::from(subsystem.shared)]);
        page.put(258, [3]).put(260, [FIRMWARE_SLOTS]).put(261, [LOG_PAGES]);
        //= NVMe base §SQES, CQES: entries of 2⁶ and 2⁴ bytes, least and most.
        page.put(512, [0x66, 0x44]);
        page.put32(516, subsystem.namespaces.len() as u32).put16(520, COMMANDS);
        page.put16(522, FUSED).put16(534, copy::FORMATS);
        //= NVMe base §VWC: bit 0 if there is a cache; bits 2:1 = 10b, no flush of all at once.
        page.put(525, [4 | u8::from(self.has_cache())]);
        //= NVMe-oF §Identify Controller: OFCS bit 0, Disconnect.
        page.put16(1804, 1);
        page.0
    }

    /// Longest transfer.
    //= NVMe base §MDTS: a power of two in units of the smallest page, 4096 bytes.
    fn transfer_exponent(&self) -> u8 {
        (self.max_transfer() / 4096).ilog2() as u8
    }

    /// The instance of all namespaces together.
    fn instance(&self) -> Option<u64> {
        let namespaces = self.subsystem.namespaces.iter().flatten();
        let numbers = namespaces.filter_map(|it| it.instance.as_ref()).map(Instance::number);
        numbers.reduce(|mut all, one| block::splitmix(&mut all) ^ one)
    }

    /// Whether any namespace has a volatile write cache.
    pub(super) fn has_cache(&self) -> bool {
        self.subsystem.namespaces.iter().flatten().any(|namespace| namespace.geometry.volatile)
    }
}

/// Several hosts, and several controllers of a host, may use a subsystem.
//= NVMe base §CMIC: bit 1.
const CONTROLLERS: u8 = 1 << 1;

//= NVMe base §NSATTR: bit 0, write protected.
fn protected(geometry: &Geometry) -> u8 {
    u8::from(geometry.read_only)
}

/// Identify Namespace data.
//= NVMe base §Identify Namespace data structure
fn describe(page: &mut Page, namespace: &Namespace, shared: bool) {
    let geometry = &namespace.geometry;
    page.put64(0, geometry.blocks).put64(8, geometry.blocks).put64(16, geometry.blocks);
    // Hosts combine namespaces of one NSID and subsystem NQN only if they are marked as shared.
    // Namespaces of unrelated servers have different identities and would be refused then, so
    // unshared ones become separate disks.
    //= NVMe base §NMIC: bit 0, several controllers may be attached at once.
    page.put(30, [u8::from(shared), reservations(namespace)]);
    //= NVMe base §DLFEAT: deallocated blocks read as zeroes; Write Zeroes may deallocate.
    page.put(33, [if geometry.trim_zeroes { 1 | 1 << 3 } else { 0 }]);
    page.put(48, u128::from(geometry.bytes()).to_le_bytes());
    //= NVM command set §Identify Namespace data structure: MSSRL, MCL, MSRC.
    page.put16(74, copy::range_max(geometry)).put32(76, copy::blocks_max(geometry));
    page.put(80, [copy::RANGES_LIMIT]);
    page.put(99, [protected(geometry)]);
    page.put(104, namespace.disk.nguid()).put(120, namespace.disk.eui64());
    //= NVMe base §LBAF: no metadata, LBADS is the logarithm of the block size.
    page.put(130, [geometry.block_bytes.trailing_zeros() as u8]);
    page.text(BACKING_AT, BACKING_BYTES_MAX, &namespace.backing.line(), 0);
}
