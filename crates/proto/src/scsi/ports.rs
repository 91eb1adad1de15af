//! REPORT TARGET PORT GROUPS, and what the Device Identification page says of ports.
//!
//! A target has one port in one group, which every address of the server reaches alike.

use super::field::be32;
use super::{Cdb, Plan, Sense, Unit, data};

/// TPGS: only the target changes states of ports, in byte 5 of INQUIRY data.
//= SPC-4 §Standard INQUIRY data: 01b is implicit asymmetric logical unit access.
pub(super) const TPGS_IMPLICIT: u8 = 0x10;

/// The only group, and the only port.
const GROUP: [u8; 2] = [0, 1];
const PORT: [u8; 2] = [0, 1];
/// AO_SUP: no port is ever in another state than active/optimized.
const SUPPORTED_STATES: u8 = 0x01;

//= SPC-4 §REPORT TARGET PORT GROUPS command: PARAMETER DATA FORMAT 000b or 001b.
pub(super) fn report_target_port_groups(_: &Unit, cdb: &Cdb) -> Result<Plan, Sense> {
    // Active/optimized, and as the only group not preferred; states; group; reserved, status,
    // vendor; number of ports.
    let mut group = vec![0, SUPPORTED_STATES, GROUP[0], GROUP[1], 0, 0, 0, 1];
    group.extend([0, 0, PORT[0], PORT[1]]);
    let head: &[u8] = match cdb[1] >> 5 {
        0 => &[],
        // The format; IMPLICIT TRANSITION TIME zero: none is said.
        1 => &[0x10, 0, 0, 0],
        _ => return Err(Sense::cdb_bit(1, 7)),
    };
    let len = (head.len() + group.len()) as u32;
    let bytes = [&len.to_be_bytes()[..], head, &group].concat();
    data(bytes, be32(cdb, 6))
}

/// Designators of the port and its group.
//= SPC-4 §Designation descriptor: PIV and iSCSI, association 01b, types 4h and 5h.
pub(super) fn designators(bytes: &mut Vec<u8>) {
    bytes.extend([0x51, 0x94, 0, 4, 0, 0, PORT[0], PORT[1]]);
    bytes.extend([0x51, 0x95, 0, 4, 0, 0, GROUP[0], GROUP[1]]);
}

#[cfg(test)]
mod test {
    use super::super::cdb as build;
    use super::super::test::{answer, refusal, unit};
    use super::*;

    #[test]
    fn golden() {
        let unit = unit(1 << 20, 512);
        let ask =
            |format: u8| answer(&unit, &[0xa3, format << 5 | 0x0a, 0, 0, 0, 0, 0, 0, 0, 255, 0, 0]);
        let group = [0, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1];
        assert_eq!(ask(0), [&[0, 0, 0, 12][..], &group].concat());
        assert_eq!(ask(1), [&[0, 0, 0, 16, 0x10, 0, 0, 0][..], &group].concat());
        assert_eq!(refusal(&unit, &[0xa3, 0x4a]), Sense::cdb_bit(1, 7));
    }

    #[test]
    fn inquiry_says_the_same() {
        let unit = unit(1 << 20, 512);
        assert_eq!(answer(&unit, &build::inquiry(None, 96))[5] & 0x30, TPGS_IMPLICIT);
        let page = answer(&unit, &build::inquiry(Some(0x83), 255));
        assert!(page.ends_with(&[0x51, 0x94, 0, 4, 0, 0, 0, 1, 0x51, 0x95, 0, 4, 0, 0, 0, 1]));
    }
}
