//! Lists of copies.

use proptest::prelude::*;

use super::super::test::{answer, cdb, refusal, unit};
use super::*;

fn units() -> Vec<Option<Unit>> {
    let other = Unit {
        identity: crate::scsi::Identity {
            disk: crate::DiskId::new([9; 16]),
            product: "ram".to_owned(),
        },
        ..unit(500 * 512, 512)
    };
    let mut large = unit(1 << 20, 4096);
    large.identity.disk = crate::DiskId::new([8; 16]);
    vec![None, Some(unit(1000 * 512, 512)), Some(other), Some(large)]
}

fn unit_descriptor(unit: &Unit) -> Vec<u8> {
    let mut bytes = vec![0; UNIT_BYTES];
    (bytes[0], bytes[4], bytes[5], bytes[7]) = (IDENTIFICATION, 1, 3, 8);
    put(&mut bytes, 8, unit.identity.disk.naa().to_be_bytes());
    bytes
}

fn segment(from: (u16, u64), to: (u16, u64), blocks: u16) -> Vec<u8> {
    let mut bytes = vec![0; SEGMENT_BYTES];
    (bytes[0], bytes[3]) = (BLOCK_TO_BLOCK, 24);
    put(&mut bytes, 4, from.0.to_be_bytes());
    put(&mut bytes, 6, to.0.to_be_bytes());
    put(&mut bytes, 10, blocks.to_be_bytes());
    put(&mut bytes, 12, from.1.to_be_bytes());
    put(&mut bytes, 20, to.1.to_be_bytes());
    bytes
}

/// A list of all units, and these segments.
fn list(segments: &[Vec<u8>]) -> Vec<u8> {
    let units = units().iter().flatten().map(unit_descriptor).collect::<Vec<_>>().concat();
    let segments = segments.concat();
    let mut bytes = vec![0; HEADER];
    bytes[0] = 0x55;
    put(&mut bytes, 2, (units.len() as u16).to_be_bytes());
    put(&mut bytes, 8, (segments.len() as u32).to_be_bytes());
    [bytes, units, segments].concat()
}

fn refused(list: &[u8]) -> Sense {
    parse_copy(list, &units()).expect_err("it is refused")
}

#[test]
fn units_are_found_by_their_names() {
    // Descriptor 0 is LUN 1, descriptor 1 is LUN 2.
    let parsed =
        parse_copy(&list(&[segment((0, 5), (1, 7), 3), segment((1, 0), (1, 9), 0)]), &units());
    let segments = vec![
        CopySegment { from: (1, 5 * 512), to: (2, 7 * 512), len: 3 * 512 },
        CopySegment { from: (2, 0), to: (2, 9 * 512), len: 0 },
    ];
    assert_eq!(parsed, Ok(CopyList { id: Some(0x55), segments: segments.clone() }));
    let mut discards = list(&[segment((0, 5), (1, 7), 3)]);
    discards[1] = 0x10;
    assert_eq!(parse_copy(&discards, &units()).unwrap().id, None);
}

#[test]
fn nothing_else_is_reached() {
    assert_eq!(refused(&list(&[segment((0, 0), (9, 0), 1)])), UNREACHABLE);
    let mut stranger = list(&[segment((0, 0), (1, 0), 1)]);
    stranger[HEADER + UNIT_BYTES + 8] ^= 1;
    assert_eq!(refused(&stranger), UNREACHABLE);
    assert_eq!(refused(&list(&[segment((0, 0), (1, 498), 3)])), OUTSIDE);
    assert_eq!(refused(&list(&[segment((0, u64::MAX), (1, 0), 1)])), OUTSIDE);
    assert_eq!(refused(&list(&[segment((0, 0), (2, 0), 1)])), UNLIKE);
    let mut protected = units();
    protected[2].as_mut().unwrap().geometry.read_only = true;
    let write = list(&[segment((0, 0), (1, 0), 1)]);
    assert_eq!(parse_copy(&write, &protected), Err(OUTSIDE));
}

#[test]
fn lists_have_limits() {
    let many = vec![segment((0, 0), (1, 0), 1); SEGMENTS_MAX + 1];
    assert_eq!(refused(&list(&many)), TOO_MANY_SEGMENTS);
    assert!(parse_copy(&list(&many[1..]), &units()).is_ok());
    let mut crowd = vec![0; HEADER];
    let unit = unit_descriptor(units()[1].as_ref().unwrap());
    put(&mut crowd, 2, ((UNITS_MAX + 1) as u16 * UNIT_BYTES as u16).to_be_bytes());
    (0..=UNITS_MAX).for_each(|_| crowd.extend(&unit));
    assert_eq!(refused(&crowd), TOO_MANY_UNITS);
    let whole = list(&[segment((0, 0), (1, 0), 1)]);
    for len in 0..whole.len() {
        assert_eq!(refused(&whole[..len]), Sense::PARAMETER_LIST_LENGTH_ERROR, "{len}");
    }
    for (at, sense) in
        [(HEADER, UNKNOWN_UNIT_CODE), (HEADER + 3 * UNIT_BYTES, UNKNOWN_SEGMENT_CODE)]
    {
        let mut other = whole.clone();
        other[at] = 0xe0;
        assert_eq!(refused(&other), sense);
    }
    let mut inline = whole.clone();
    inline[15] = 1;
    assert_eq!(refused(&inline), Sense::parameter_field(12));
    let unit = super::super::test::unit(1 << 20, 512);
    let len = |len: u32| {
        unit.plan(&cdb(&[&[0x83, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &len.to_be_bytes()].concat()))
    };
    assert_eq!((len(0), len(16)), (Ok(Plan::Good), Ok(Plan::Collect { len: 16 })));
    for wrong in [1, 15, (HEADER + LIST_MAX + 1) as u32, u32::MAX] {
        assert_eq!(len(wrong), Err(Sense::PARAMETER_LIST_LENGTH_ERROR));
    }
}

#[test]
fn what_is_said_of_copies() {
    let unit = unit(1 << 20, 512);
    let parameters = answer(&unit, &[0x84, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
    assert_eq!(parameters[..20], [0, 0, 0, 42, 1, 0, 0, 0, 0, 8, 0, 64, 0, 0, 8, 0, 4, 0, 0, 0]);
    assert_eq!(parameters[34..], [0, 1, 1, 18, 0, 0, 0, 0, 0, 2, 2, 0xe4]);
    let page = answer(&unit, &[0x12, 1, 0x8f, 0, 255]);
    assert_eq!(page.len(), 4 + 12 + 32 + 8 + 8 + 36);
    assert!(page.len().is_multiple_of(4) && usize::from(be16(&page, 2)) == page.len() - 4);
    assert_eq!(answer(&unit, &[0x12, 0, 0, 0, 96])[5] & 0x08, 0x08, "3PC");
    let status =
        copy_status_data(&cdb(&[0x84, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255]), true, 3, 5000);
    assert_eq!(status, [0, 0, 0, 8, 1, 0, 3, 1, 0, 0, 0, 4]);
    assert_eq!(refusal(&unit, &[0x84, 1]), Sense::cdb_bit(1, 4));
}

proptest! {
    #[test]
    fn any_list_is_survived_and_stays_inside(
        noise: Vec<u8>,
        at in 0..400_usize,
        byte: u8,
        lba in 0..600_u64,
        blocks in 0..600_u16,
    ) {
        let _ = parse_copy(&noise, &units());
        let mut bytes = list(&[segment((0, lba), (1, lba / 2), blocks)]);
        if let Some(spoiled) = bytes.get_mut(at) {
            *spoiled = byte;
        }
        for segment in parse_copy(&bytes, &units()).map(|list| list.segments).unwrap_or_default() {
            for (lun, offset) in [segment.from, segment.to] {
                let unit = units()[usize::from(lun)].clone().expect("a unit that is there");
                prop_assert!(offset + u64::from(segment.len) <= unit.geometry.bytes());
            }
        }
    }
}
