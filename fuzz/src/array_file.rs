//! Malformed superblocks and maps of arrays.

use block::{Geometry, Nanos, Rng};
use proto::crc32c::crc32c;
use volume::array::{
    Array, Assembly, DATA_OFFSET, Found, LegState, PAGE_BYTES, Page, SUPERBLOCK_BYTES, Superblock,
    assemble, page_count, region_bytes, second_copy,
};

/// Bytes of a leg.
const LEG_BYTES: u64 = 8 << 20;
/// Offset of the checksum in both.
const CRC_AT: usize = 8;

/// Parses a superblock as it is and with a valid checksum: it is refused, or survives a round trip;
/// a leg with it assembles, or fails with one line of reason.
pub fn read_superblock(input: &[u8]) {
    for bytes in [input.to_vec(), sealed(input, SUPERBLOCK_BYTES)] {
        let block = Superblock::decode(&bytes).ok();
        if let Some(block) = &block {
            assert_eq!(Superblock::decode(&block.encode(block.leg)).as_ref(), Ok(block));
            assert_eq!(block.region_bytes, region_bytes(block.bytes));
            assert!(block.number_of(block.leg).is_some() && !block.members.is_empty());
        }
        let name = block.as_ref().map_or("a", |block| block.name.as_str());
        let copies = [Some(bytes), None];
        let leg = Found { name: "leg".to_owned(), bytes: LEG_BYTES, block_bytes: 512, copies };
        for degraded in [false, true] {
            match assemble(name, std::slice::from_ref(&leg), &[], degraded) {
                Ok(assembly) => fits(&assembly),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}

/// All parts of an assembly lie on the leg.
fn fits(Assembly { newest, places, missing, .. }: &Assembly) {
    assert!(DATA_OFFSET + newest.bytes <= second_copy(LEG_BYTES), "{newest:?}");
    assert_eq!(places.len(), newest.members.len());
    assert!(newest.in_state(LegState::In) & !missing != 0);
}

/// Parses a page of a map: it is refused, or exactly its dirty regions are resynchronised.
pub fn read_map(input: &[u8]) {
    const BYTES: u64 = 64 << 20;
    let mut bytes = sealed(input, PAGE_BYTES);
    let as_it_is = Page::decode(0, 1, region_bytes(BYTES), input);
    assert!(as_it_is.is_none() || input.len() >= PAGE_BYTES);
    // Mostly with this array's identity.
    if Rng::new(input.len() as u64, 1).below(4) > 0 {
        let good = volume::array::blank_pages(1, BYTES).swap_remove(0);
        bytes[..8].copy_from_slice(&good[..8]);
        bytes[12..40].copy_from_slice(&good[12..40]);
        bytes = sealed(&bytes, PAGE_BYTES);
    }
    let Some(page) = Page::decode(0, 1, region_bytes(BYTES), &bytes) else { return };
    assert_eq!(page_count(BYTES), 1);
    let regions = (BYTES / region_bytes(BYTES)) as usize;
    let dirty = (0..regions).filter(|region| page.is_dirty(*region)).count();
    let (maps, geometry) = (vec![(0, vec![Some(page)])], Geometry::new(BYTES, 512));
    let names = vec![String::new()];
    let array = Array::new(&assembly(BYTES), names, &maps, geometry, Nanos::from_secs(30));
    assert_eq!(array.behind(), dirty);
}

fn assembly(bytes: u64) -> Assembly {
    let member = volume::array::Member {
        uuid: 1,
        state: LegState::In,
        empty: false,
        left: volume::array::Generation::default(),
    };
    let newest = Superblock {
        array: 1,
        name: "a".to_owned(),
        leg: 1,
        generation: volume::array::Generation { number: 1, tag: 1 },
        bytes,
        block_bytes: 512,
        region_bytes: region_bytes(bytes),
        copies: 1,
        members: vec![member],
        history: Vec::new(),
    };
    let stands = vec![newest.generation];
    let (places, first) = (vec![Some(0)], vec![0]);
    let sizes = vec![bytes];
    Assembly { newest, places, stands, first, sizes, missing: 0, notes: Vec::new() }
}

/// `len` bytes with a valid checksum.
fn sealed(input: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = input[..input.len().min(len)].to_vec();
    bytes.resize(len, 0);
    bytes[CRC_AT..CRC_AT + 4].fill(0);
    let crc = crc32c(&bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    bytes
}
