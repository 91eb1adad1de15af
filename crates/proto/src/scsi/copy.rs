//! EXTENDED COPY (LID1): the parameter list, and what the target says of copies.
//!
//! Only units of the same target are copied, named by their NAA designators: a list cannot reach
//! anything that its initiator could not read and write itself.

use super::field::{be16, be32, be64, put};
use super::{Cdb, Key, Plan, Sense, Unit, data};

/// A list of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyList {
    /// List identifier, if the results are to be kept.
    pub id: Option<u8>,
    /// Copies, in order.
    pub segments: Vec<CopySegment>,
}

/// A copy of blocks. The units are LUNs of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopySegment {
    /// LUN and offset to read from.
    pub from: (u16, u64),
    /// LUN and offset to write to.
    pub to: (u16, u64),
    /// Length in bytes, perhaps zero; at most [`Unit::TRANSFER_BYTES_MAX`].
    pub len: u32,
}

/// Maximum number of descriptors of units, and of segments.
const UNITS_MAX: usize = 8;
const SEGMENTS_MAX: usize = 64;
/// Length of the header of a list, and of descriptors.
const HEADER: usize = 16;
const UNIT_BYTES: usize = 32;
const SEGMENT_BYTES: usize = 28;
/// MAXIMUM DESCRIPTOR LIST LENGTH.
const LIST_MAX: usize = UNITS_MAX * UNIT_BYTES + SEGMENTS_MAX * SEGMENT_BYTES;
/// Longest parameter list, header included.
const WHOLE_MAX: usize = HEADER + LIST_MAX;
/// An identification descriptor, and a segment from block device to block device.
const IDENTIFICATION: u8 = 0xe4;
const BLOCK_TO_BLOCK: u8 = 0x02;
/// Log₂ of the bytes of a segment's granularity: nothing is gained by longer ones than a buffer.
const GRANULARITY: u8 = 18;

/// A unit of a list is not one of this target.
//= SPC-4 §ASC and ASCQ assignments: 08h/04h, unreachable copy target.
const UNREACHABLE: Sense = Sense::new(Key::CopyAborted, 0x08, 0x04);
/// The blocks are not those of the unit.
const OUTSIDE: Sense = Sense::new(Key::CopyAborted, 0x00, 0x00);
/// Block sizes differ.
//= SPC-4 §ASC and ASCQ assignments: 26h/0Ch, invalid operation for copy source or destination.
const UNLIKE: Sense = Sense::new(Key::CopyAborted, 0x26, 0x0c);
const TOO_MANY_UNITS: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x06);
const UNKNOWN_UNIT_CODE: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x07);
const TOO_MANY_SEGMENTS: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x08);
const UNKNOWN_SEGMENT_CODE: Sense = Sense::new(Key::IllegalRequest, 0x26, 0x09);

//= SPC-4 §EXTENDED COPY (LID1) command: a parameter list length of zero is no error.
pub(super) fn extended_copy(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    match be32(cdb, 10) as usize {
        0 => Ok(Plan::Good),
        len @ HEADER..=WHOLE_MAX => Ok(Plan::Collect { len: len as u32 }),
        _ => Err(Sense::PARAMETER_LIST_LENGTH_ERROR),
    }
}

/// The session knows the other units, and parses the list.
pub(super) fn extended_copy_list(_: &Unit, _: &Cdb, _: &[u8]) -> Result<Plan, Sense> {
    Ok(Plan::Copy)
}

/// Parses a list for the units of a target, by LUN. Every segment is checked before any is copied.
//= SPC-4 §EXTENDED COPY (LID1) parameter list
pub(crate) fn parse_copy(list: &[u8], units: &[Option<Unit>]) -> Result<CopyList, Sense> {
    let (header, rest) = list.split_at_checked(HEADER).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    let (units_len, segments_len) = (usize::from(be16(header, 2)), be32(header, 8) as usize);
    let unit_list = rest.get(..units_len).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    let end = units_len.saturating_add(segments_len);
    let segment_list = rest.get(units_len..end).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
    //= SPC-4 §EXTENDED COPY (LID1) parameter list: inline data is not supported.
    if be32(header, 12) != 0 {
        return Err(Sense::parameter_field(12));
    }
    if unit_list.len() / UNIT_BYTES > UNITS_MAX {
        return Err(TOO_MANY_UNITS);
    }
    if segment_list.len() / SEGMENT_BYTES > SEGMENTS_MAX {
        return Err(TOO_MANY_SEGMENTS);
    }
    let luns: Vec<Option<u16>> = unit_list
        .chunks(UNIT_BYTES)
        .map(|descriptor| unit_of(descriptor, units))
        .collect::<Result<_, _>>()?;
    let segments = segments(segment_list, &luns, units)?;
    //= SPC-4 §LIST ID USAGE: 00b holds results, 10b discards them, 11b has no identifier.
    let id = (header[1] >> 3 & 3 == 0).then_some(header[0]);
    Ok(CopyList { id, segments })
}

/// The LUN that an identification descriptor names.
//= SPC-4 §Identification descriptor CSCD descriptor
fn unit_of(descriptor: &[u8], units: &[Option<Unit>]) -> Result<Option<u16>, Sense> {
    if descriptor[0] != IDENTIFICATION {
        return Err(UNKNOWN_UNIT_CODE);
    }
    if descriptor.len() < UNIT_BYTES {
        return Err(Sense::PARAMETER_LIST_LENGTH_ERROR);
    }
    // Binary, NAA, of the logical unit, eight bytes.
    let naa = descriptor[4] & 0x0f == 1 && descriptor[5] & 0x3f == 3 && descriptor[7] == 8;
    let wanted = Some(be64(descriptor, 8)).filter(|_| naa);
    let same = |unit: &Option<Unit>| {
        unit.as_ref().is_some_and(|unit| Some(unit.identity.disk.naa()) == wanted)
    };
    Ok(units.iter().position(same).map(|lun| lun as u16))
}

fn segments(
    mut list: &[u8],
    luns: &[Option<u16>],
    units: &[Option<Unit>],
) -> Result<Vec<CopySegment>, Sense> {
    let mut segments = Vec::new();
    while let [code, ..] = *list {
        if code != BLOCK_TO_BLOCK {
            return Err(UNKNOWN_SEGMENT_CODE);
        }
        let segment = list.get(..SEGMENT_BYTES).ok_or(Sense::PARAMETER_LIST_LENGTH_ERROR)?;
        let side = |index_at: usize, lba_at: usize| {
            let lun = luns.get(usize::from(be16(segment, index_at))).copied().flatten();
            let unit =
                lun.and_then(|lun| units.get(usize::from(lun))?.as_ref()).ok_or(UNREACHABLE)?;
            let blocks = be16(segment, 10).into();
            let (offset, len) = unit.extent(be64(segment, lba_at), blocks).map_err(|_| OUTSIDE)?;
            Ok((unit, (lun.unwrap_or(0), offset), len))
        };
        let ((source, from, len), (sink, to, _)) = (side(4, 12)?, side(6, 20)?);
        if source.geometry.block_bytes != sink.geometry.block_bytes {
            return Err(UNLIKE);
        }
        if len > Unit::TRANSFER_BYTES_MAX {
            return Err(Sense::INVALID_FIELD_IN_PARAMETER_LIST);
        }
        sink.writable().map_err(|_| OUTSIDE)?;
        segments.push(CopySegment { from, to, len: len as u32 });
        list = &list[SEGMENT_BYTES..];
    }
    Ok(segments)
}

/// The session knows the results of copies.
pub(super) fn copy_status(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    Ok(Plan::CopyStatus { id: cdb[2] })
}

/// COPY STATUS data of a copy that has ended.
//= SPC-4 §RECEIVE COPY STATUS (LID1) parameter data: counts in KiB.
pub(crate) fn copy_status_data(cdb: &Cdb, good: bool, segments: u16, bytes: u64) -> Vec<u8> {
    let mut data = vec![0, 0, 0, 8, if good { 1 } else { 2 }, 0, 0, 1, 0, 0, 0, 0];
    put(&mut data, 5, segments.to_be_bytes());
    put(&mut data, 8, ((bytes >> 10).min(u32::MAX.into()) as u32).to_be_bytes());
    data.truncate(be32(cdb, 10) as usize);
    data
}

//= SPC-4 §RECEIVE COPY OPERATING PARAMETERS command
pub(super) fn operating_parameters(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    let mut bytes = vec![0; 44];
    bytes[4] = 0x01; // SNLID: a list may have no identifier.
    limits(&mut bytes[8..]);
    put(&mut bytes, 16, (Unit::TRANSFER_BYTES_MAX as u32).to_be_bytes());
    (bytes[35], bytes[36], bytes[37]) = (1, 1, GRANULARITY);
    let codes = [BLOCK_TO_BLOCK, IDENTIFICATION];
    bytes[43] = codes.len() as u8;
    bytes.extend(codes);
    let len = (bytes.len() - 4) as u32;
    put(&mut bytes, 0, len.to_be_bytes());
    data(bytes, be32(cdb, 10))
}

/// Maximum number of units, of segments, and length of both.
fn limits(bytes: &mut [u8]) {
    put(bytes, 0, (UNITS_MAX as u16).to_be_bytes());
    put(bytes, 2, (SEGMENTS_MAX as u16).to_be_bytes());
    put(bytes, 4, (LIST_MAX as u32).to_be_bytes());
}

//= SPC-4 §Third-party Copy VPD page: commands, limits, descriptors, no other identifiers, copies.
pub(super) fn third_party_page(_: &Unit, bytes: &mut Vec<u8>) {
    bytes.extend([0x00, 0x01, 0, 8, 7, 0x83, 1, 0x00, 0x84, 2, 0x00, 0x03]);
    bytes.extend([0x00, 0x04, 0, 28]);
    let at = bytes.len();
    bytes.resize(at + 28, 0);
    limits(&mut bytes[at + 4..]);
    bytes.extend([0x00, 0x08, 0, 4, 2, BLOCK_TO_BLOCK, IDENTIFICATION, 0]);
    bytes.extend([0x00, 0x0c, 0, 4, 0, 0, 0, 0]);
    bytes.extend([0x80, 0x01, 0, 32, 0, 0, 0, 1, 0, 0, 0, 1]);
    bytes.extend((Unit::TRANSFER_BYTES_MAX as u32).to_be_bytes());
    bytes.extend([GRANULARITY, 0]);
    bytes.resize(bytes.len() + 18, 0);
}

#[cfg(test)]
#[path = "copy_test.rs"]
mod test;
