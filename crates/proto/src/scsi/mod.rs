//! SCSI of a logical unit: turns a CDB into a [`Plan`] or [`Sense`].
//!
//! This module has no I/O and no transport: `iscsi` moves the data of a plan. A command is a row of
//! `table.rs`, which also serves REPORT SUPPORTED OPERATION CODES, and a function in the file of
//! its family. For the initiator there are [`cdb`] and the parsers.
//!
//! The standards are cited by clause titles, as clause numbers differ between revisions.

mod answer;
mod capacity;
pub mod cdb;
mod check;
mod claims;
mod condition;
mod conflict;
mod copy;
mod field;
mod inquiry;
mod lba_status;
mod lun;
mod mode;
mod mode_select;
mod opcode;
mod ports;
mod provisioning;
mod reports;
mod reservation;
mod reserve_in;
mod reserve_out;
mod sense;
mod sense_text;
mod state;
mod supported;
mod table;
mod transfer;

use std::sync::Arc;

use block::{Backing, Extents, Geometry, Memory, Op};

use crate::{DiskId, Instance, UnitId};

pub(crate) use answer::{
    Capacity, ModeFlags, parse_backing, parse_designation, parse_instance, parse_mode_sense6,
    parse_product, parse_read_capacity10, parse_read_capacity16, parse_serial,
};
pub use check::{Check, CheckKind};
pub(crate) use claims::{Claim, Claims};
pub(crate) use copy::{CopyList, CopySegment, copy_status_data, parse_copy};
pub(crate) use inquiry::{BACKING_PAGE, VENDOR};
pub(crate) use lba_status::{STATUS_BYTES, parse_lba_status};
pub use lun::{LUN_MAX, encode_lun};
pub(crate) use lun::{absent, decode_lun, report_luns};
pub(crate) use reservation::Reservations;
pub use reservation::{
    Action, Effects, Keeper, Kind, Nexus, NotSaved, RecordError, Refusal, ReserveOut,
};
pub use sense::{FieldPointer, Key, Sense, decode_sense, sense_of_codes};
pub use state::Medium;
pub(crate) use state::{Bound, Deed, UnitState, Verdict};

/// A logical unit: a volume with its SCSI identity.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Id of the volume.
    pub id: UnitId,
    /// The volume's geometry.
    pub geometry: Geometry,
    /// The volume's memory, if it is of this process: reads and writes are executed on it at once,
    /// without requests. Same size as the volume.
    pub memory: Option<Memory>,
    /// Identity for INQUIRY.
    pub identity: Identity,
    /// Shows clients that reconnect whether the volatile cache is the same as before.
    pub instance: Option<Instance>,
    /// The backing store.
    pub backing: Backing,
    /// Holes of the volume, if they are known.
    pub extents: Option<Arc<dyn Extents>>,
    /// Ranges in use by commands that read and write in one action.
    pub(crate) claims: Arc<Claims>,
    /// Reservations, and what else binds all sessions.
    pub(crate) state: Arc<UnitState>,
}

/// State of a volume that all its sessions share: reservations, and ranges in use. It outlives a
/// [`Unit`] that is described anew.
#[derive(Clone, Debug, Default)]
pub struct UnitShared {
    claims: Arc<Claims>,
    state: Arc<UnitState>,
}

/// Identity of a logical unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Identity of the disk, from which serial number and designators derive.
    pub disk: DiskId,
    /// Product identification, at most 16 characters: the kind of volume.
    pub product: String,
}

/// Work that a valid command needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: GOOD.
    Good,
    /// Return this data, already cut to the allocation length.
    Data(Vec<u8>),
    /// Read this byte range of the volume.
    Read {
        /// Offset.
        offset: u64,
        /// Length; zero means GOOD without data.
        len: u64,
    },
    /// Write data-out to the volume.
    Write {
        /// Offset.
        offset: u64,
        /// Length.
        len: u64,
        /// Make it durable before GOOD.
        fua: bool,
    },
    /// Flush.
    Flush,
    /// Collect `len` bytes of data-out, then call [`Unit::plan_with`].
    Collect {
        /// Length of the data-out.
        len: u32,
    },
    /// Trim or zero these byte ranges: (offset, length).
    Clear {
        /// [`Op::Trim`] or [`Op::WriteZeroes`].
        op: Op,
        /// Non-empty ranges inside the volume.
        ranges: Vec<(u64, u64)>,
    },
    /// Write `pattern` over a range.
    Fill {
        /// Offset.
        offset: u64,
        /// Length, a multiple of the block.
        len: u64,
        /// One block of data.
        pattern: Vec<u8>,
    },
    /// Look at what a range holds.
    Check(Check),
    /// Change the persistent reservations.
    Reserve(ReserveOut),
    /// Copy blocks: the parameter list says which.
    Copy,
    /// Return the result of a copy.
    CopyStatus {
        /// List identifier.
        id: u8,
    },
    /// Set software write protection.
    Protect {
        /// Otherwise clear it.
        protected: bool,
    },
    /// Eject or load the medium, or prevent that; after an ejection flush.
    Medium(Medium),
    /// Reserve or release the unit for this session, as in SPC-2.
    ReserveUnit {
        /// Otherwise release it.
        reserve: bool,
    },
}

/// A CDB, padded with zeroes.
type Cdb = [u8; 16];

impl UnitShared {
    /// State whose registrations and reservation may outlive the server: hosts decide. They begin
    /// as in the record that `keeper` saved last.
    ///
    /// # Errors
    ///
    /// The record is damaged.
    pub fn kept(keeper: Arc<dyn Keeper>, record: Option<&str>) -> Result<UnitShared, RecordError> {
        let state = Arc::new(UnitState::kept(keeper, record)?);
        Ok(UnitShared { claims: Arc::default(), state })
    }

    /// Makes the medium removable: initiators may eject it for all hosts, and load it again.
    pub fn removable(self) -> UnitShared {
        self.state.make_removable();
        self
    }

    /// Whether registrations and reservation may outlive the server.
    pub(crate) fn may_persist(&self) -> bool {
        self.state.may_persist()
    }

    /// Sets whether they do, of a state that may.
    pub(crate) fn set_persist(&self, persists: bool) -> Result<(), Refusal> {
        self.state.set_persist(persists)
    }

    /// Refuses new commands of all hosts: the server offers the volume no longer, but other volumes
    /// of its target. Commands in flight are executed.
    pub fn withdraw(&self) {
        self.state.withdraw();
    }

    /// Whether the volume was [withdrawn](Self::withdraw).
    #[inline(always)]
    pub(crate) fn is_gone(&self) -> bool {
        self.state.is_gone()
    }

    /// Zero if nothing binds anybody.
    #[inline(always)]
    pub(crate) fn word(&self) -> u64 {
        self.state.word()
    }

    /// Judges a command of a host over NVMe: see [`UnitState::judge_host`].
    pub(crate) fn judge_host(&self, host: &Nexus, deed: Deed) -> Result<u64, Bound> {
        self.state.judge_host(host, deed)
    }

    /// Changes the reservations for a host.
    pub(crate) fn reserve(&self, host: &Nexus, out: &ReserveOut) -> Result<Effects, Refusal> {
        self.state.reserve(host, out)
    }

    /// Claims a range for work that reads and writes in one action: see [`Claims::claim`].
    pub(crate) fn claim(&self, offset: u64, len: u64) -> Option<Claim> {
        self.claims.claim(offset, len)
    }

    /// Reads the reservations.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&Reservations) -> T) -> T {
        self.state.read(read)
    }

    /// Bond of a client over NBD that reads blocks, or changes them. One relaxed load
    /// if nothing binds anybody.
    #[inline(always)]
    pub(crate) fn binds(&self, changes: bool) -> Option<Bound> {
        if self.state.word() == 0 { None } else { self.state.outsider(changes) }
    }
}

impl Unit {
    /// Longest READ or WRITE in bytes, reported in blocks by the Block Limits page.
    ///
    /// Twice the most that a known initiator sends (ESXi: 32 MiB); it bounds the time that one
    /// command occupies a connection.
    pub const TRANSFER_BYTES_MAX: u64 = 64 << 20;

    /// A logical unit on the volume `id`.
    ///
    /// Names in `identity` are cut to their fields, with dots for unprintable characters. Panics if
    /// the block size is not a power of two from 512 to 65536 bytes, or the capacity in bytes
    /// exceeds 2⁶⁴−1.
    pub fn new(id: UnitId, geometry: Geometry, memory: Option<Memory>, identity: Identity) -> Unit {
        let Geometry { block_bytes, blocks, .. } = geometry;
        assert!(block_bytes.is_power_of_two() && (512..=65536).contains(&block_bytes));
        assert!(blocks.checked_mul(block_bytes.into()).is_some(), "{blocks} × {block_bytes} bytes");
        let (instance, backing, extents) = (None, Backing::Unknown, None);
        let (claims, state) = (Arc::default(), Arc::default());
        Unit { id, geometry, memory, identity, instance, backing, extents, claims, state }
    }

    /// Adds the backing store, which a vital product data page reports.
    pub fn backed_by(self, backing: Backing) -> Unit {
        Unit { backing, ..self }
    }

    /// Adds the state that all sessions of the volume share.
    pub fn sharing(self, shared: &UnitShared) -> Unit {
        let UnitShared { claims, state } = shared.clone();
        Unit { claims, state, ..self }
    }

    /// Adds the extents, which GET LBA STATUS reports.
    pub fn of_extents(self, extents: Option<Arc<dyn Extents>>) -> Unit {
        Unit { extents, ..self }
    }

    /// Adds an instance, which INQUIRY reports.
    pub fn of_instance(self, instance: Instance) -> Unit {
        Unit { instance: Some(instance), ..self }
    }

    /// Validates a command.
    ///
    /// An error is the sense data of a CHECK CONDITION. After [`Plan::Collect`] call
    /// [`plan_with`](Self::plan_with) with the data-out.
    #[inline]
    pub fn plan(&self, cdb: &[u8; 16]) -> Result<Plan, Sense> {
        // These eight are nearly all commands; each has its row in the table, too.
        match cdb[0] {
            opcode::READ_10 => transfer::read_10(self, cdb),
            opcode::WRITE_10 => transfer::write_10(self, cdb),
            opcode::READ_16 => transfer::read_16(self, cdb),
            opcode::WRITE_16 => transfer::write_16(self, cdb),
            opcode::READ_6 => transfer::read_6(self, cdb),
            opcode::WRITE_6 => transfer::write_6(self, cdb),
            opcode::READ_12 => transfer::read_12(self, cdb),
            opcode::WRITE_12 => transfer::write_12(self, cdb),
            _ => table::plan(self, cdb),
        }
    }

    /// Validates a command with its data-out, as long as [`Plan::Collect`] requested.
    ///
    /// Equals [`plan`](Self::plan) for a command without data-out. Another length is a parameter
    /// list length error.
    pub fn plan_with(&self, cdb: &[u8; 16], data: &[u8]) -> Result<Plan, Sense> {
        table::plan_with(self, cdb, data)
    }

    /// The block size.
    #[inline]
    fn block_bytes(&self) -> u64 {
        self.geometry.block_bytes.into()
    }

    /// Byte offset and length of `blocks` from `lba` on, if they lie inside the volume.
    ///
    /// Zero blocks at the very end are outside.
    #[inline]
    fn extent(&self, lba: u64, blocks: u64) -> Result<(u64, u64), Sense> {
        let capacity = self.geometry.blocks;
        //= SBC-4 §Logical block addressing: a range beyond the capacity is out of range.
        if lba > capacity || blocks > capacity - lba {
            return Err(Sense::LBA_OUT_OF_RANGE);
        }
        // Neither product overflows, because the capacity in bytes does not.
        Ok((lba * self.block_bytes(), blocks * self.block_bytes()))
    }

    /// Checks that the volume is writable.
    #[inline]
    fn writable(&self) -> Result<(), Sense> {
        if self.geometry.read_only { Err(Sense::WRITE_PROTECTED) } else { Ok(()) }
    }
}

/// Parameter data, cut to the allocation length.
//= SPC-4 §Allocation length: longer data is cut, which is no error.
fn data(mut bytes: Vec<u8>, allocation: impl Into<u64>) -> Result<Plan, Sense> {
    bytes.truncate(usize::try_from(allocation.into()).unwrap_or(usize::MAX));
    Ok(Plan::Data(bytes))
}

#[cfg(test)]
mod test {
    use proptest::prelude::*;

    use super::*;

    /// A unit for the tests of all families.
    pub(super) fn unit(bytes: u64, block_bytes: u32) -> Unit {
        let disk = DiskId::new(*b"0123456789abcdef");
        let identity = Identity { disk, product: "ram".to_owned() };
        Unit::new(UnitId(7), Geometry::new(bytes, block_bytes), None, identity)
    }

    /// A read-only unit for the tests of all families.
    pub(super) fn protected(bytes: u64, block_bytes: u32) -> Unit {
        let mut unit = unit(bytes, block_bytes);
        unit.geometry.read_only = true;
        unit
    }

    /// A CDB from its first bytes.
    pub(super) fn cdb(bytes: &[u8]) -> Cdb {
        let mut cdb = [0; 16];
        cdb[..bytes.len()].copy_from_slice(bytes);
        cdb
    }

    /// The data of a response.
    pub(super) fn answer(unit: &Unit, bytes: &[u8]) -> Vec<u8> {
        match unit.plan(&cdb(bytes)) {
            Ok(Plan::Data(bytes)) => bytes,
            other => panic!("{bytes:02x?} gave {other:?}"),
        }
    }

    /// The sense data of a refusal.
    pub(super) fn refusal(unit: &Unit, bytes: &[u8]) -> Sense {
        match unit.plan(&cdb(bytes)) {
            Err(sense) => sense,
            Ok(plan) => panic!("{bytes:02x?} gave {plan:?}"),
        }
    }

    fn units() -> Vec<Unit> {
        let mut volatile = unit(1 << 30, 512);
        volatile.geometry.volatile = true;
        let mut most = unit(0, 512);
        most.geometry.blocks = u64::MAX >> 9;
        vec![
            volatile,
            unit(1 << 30, 4096),
            unit(0, 512),
            unit(512, 512),
            unit(65536 * 3, 65536),
            unit(1 << 63, 512),
            unit(1 << 63, 4096),
            protected(1 << 20, 512),
            most,
        ]
    }

    #[test]
    #[should_panic(expected = "bytes")]
    fn a_capacity_beyond_64_bits_is_no_unit() {
        let geometry = Geometry { blocks: 1 << 55, ..Geometry::new(0, 512) };
        let identity = Identity { disk: DiskId::new([0; 16]), product: String::new() };
        Unit::new(UnitId(0), geometry, None, identity);
    }

    #[test]
    fn answers_are_cut_to_the_allocation_length() {
        let bytes = vec![1, 2, 3];
        assert_eq!(data(bytes.clone(), 2_u8), Ok(Plan::Data(vec![1, 2])));
        assert_eq!(data(bytes.clone(), 0_u8), Ok(Plan::Data(vec![])));
        assert_eq!(data(bytes.clone(), u32::MAX), Ok(Plan::Data(bytes)));
    }

    /// Checks the guarantees that a plan gives its callers.
    fn check(unit: &Unit, plan: &Plan) {
        let inside = |offset: u64, len: u64| {
            let end = offset.checked_add(len).expect("ends within 64 bits");
            assert!(end <= unit.geometry.bytes());
            assert_eq!((offset | len) % unit.block_bytes(), 0);
        };
        match plan {
            Plan::Good | Plan::Flush | Plan::Reserve(_) => {}
            Plan::ReserveUnit { .. } | Plan::Protect { .. } | Plan::Medium(_) => {}
            Plan::Copy | Plan::CopyStatus { .. } => {}
            Plan::Data(bytes) => assert!(bytes.len() <= 4096),
            Plan::Collect { len } => assert!((1..=256 << 10).contains(len)),
            Plan::Read { offset, len } => inside(*offset, *len),
            Plan::Write { offset, len, .. } => {
                inside(*offset, *len);
                assert!(!unit.geometry.read_only);
            }
            Plan::Clear { op, ranges } => {
                assert!(matches!(op, Op::Trim | Op::WriteZeroes) && !unit.geometry.read_only);
                assert!((1..=256).contains(&ranges.len()));
                for (offset, len) in ranges {
                    inside(*offset, *len);
                    assert_ne!(*len, 0);
                }
            }
            Plan::Fill { offset, len, pattern } => {
                inside(*offset, *len);
                assert!(*len != 0 && !unit.geometry.read_only);
                assert_eq!(pattern.len() as u64, unit.block_bytes());
            }
            Plan::Check(Check { kind, offset, len, .. }) => {
                inside(*offset, (*len).into());
                let reads =
                    matches!(kind, CheckKind::Medium | CheckKind::Compare | CheckKind::CompareSame);
                assert!(*len != 0 && (reads || !unit.geometry.read_only));
            }
        }
    }

    /// A CDB that is probably valid.
    fn any_cdb() -> impl Strategy<Value = Cdb> {
        let code = 0..table::COMMANDS.len() * 2;
        (code, any::<[u8; 16]>(), any::<u64>(), any::<bool>()).prop_map(
            |(index, mut cdb, mask, small)| {
                // Clear random bytes, so that not all flags and addresses are set.
                let bytes = cdb.iter_mut().enumerate();
                bytes.filter(|(i, _)| mask >> i & 1 != 0).for_each(|(_, byte)| *byte = 0);
                if small {
                    cdb[2..9].fill(0);
                }
                if let Some(command) = table::COMMANDS.get(index) {
                    cdb[0] = command.code;
                    cdb[1] = command.action.unwrap_or(cdb[1]);
                }
                cdb
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn no_command_panics_or_leaves_the_volume(cdb in any_cdb(), mut list: Vec<u8>) {
            for unit in units() {
                let Ok(plan) = unit.plan(&cdb) else { continue };
                check(&unit, &plan);
                if let Ok(plan) = unit.plan_with(&cdb, &list) {
                    check(&unit, &plan);
                }
                if let Plan::Collect { len } = plan {
                    list.resize(len as usize, 0);
                    if let Ok(plan) = unit.plan_with(&cdb, &list) {
                        check(&unit, &plan);
                    }
                }
            }
        }

        #[test]
        fn the_short_cut_agrees_with_the_table(cdb in any_cdb()) {
            for unit in units() {
                prop_assert_eq!(unit.plan(&cdb), table::plan(&unit, &cdb));
            }
        }

        #[test]
        fn any_cdb_to_an_absent_unit(
            cdb in any_cdb(),
            luns in prop::collection::vec(0..=LUN_MAX, 0..9),
        ) {
            let _ = absent(&cdb, &luns);
            let _ = report_luns(&cdb, &luns);
        }
    }
}
