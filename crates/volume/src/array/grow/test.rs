//! Arrays grow, and the process dies at every write.

use std::collections::BTreeMap;

use block::Rng;

use super::super::map::{Event, PAGE_REGIONS, PAGES_MAX, Page, page_slots};
use super::super::superblock::{Generation, Member, TAIL_BYTES};
use super::super::{assemble, leave_older_images, page_count};
use super::*;

const ARRAY: u128 = 7;
/// Bytes that the map covers with the smallest regions.
const MOST: u64 = ((PAGES_MAX * PAGE_REGIONS) as u64) << 16;

/// A leg: random junk, except for written blocks.
#[derive(Clone)]
struct Leg {
    bytes: u64,
    pages: BTreeMap<u64, [u8; PAGE_BYTES]>,
    zero: Vec<(u64, u64)>,
}

impl Leg {
    fn read(&self, at: u64) -> Vec<u8> {
        self.pages.get(&at).map_or(vec![0x5a; PAGE_BYTES], |page| page.to_vec())
    }

    fn found(&self, name: usize) -> Found {
        let copies = copies_of(self.bytes).map(|at| Some(self.read(at)));
        Found { name: format!("leg {name}"), bytes: self.bytes, block_bytes: 512, copies }
    }

    /// Applies a write, or only some of its sectors or bytes.
    fn take(&mut self, step: &Step, whole: bool, rng: &mut Rng) {
        match &step.put {
            Put::Bytes(bytes) => {
                let mut page = self.read(step.offset);
                for at in (0..PAGE_BYTES).step_by(512).filter(|_| whole || rng.below(2) == 0) {
                    page[at..at + 512].copy_from_slice(&bytes[at..at + 512]);
                }
                self.pages.insert(step.offset, page.try_into().unwrap());
            }
            Put::Zeroes(len) => {
                let len = if whole { *len } else { len / 8192 * 4096 };
                let end = step.offset + len;
                self.pages.retain(|at, _| !(step.offset..end).contains(at));
                self.zero.push((step.offset, end));
            }
        }
    }

    fn is_zero(&self, from: u64, end: u64) -> bool {
        let covered = self.zero.iter().any(|(start, stop)| *start <= from && end <= *stop);
        covered && self.pages.range(from..end).next().is_none()
    }
}

struct Case {
    legs: Vec<Leg>,
    old: Superblock,
    /// Blocks that are written and may differ, in units of 64 KiB.
    written: Vec<u64>,
    dirty: Vec<u64>,
}

impl Case {
    /// An array of `bytes` whose legs have room for at least `larger`, and were once shorter.
    fn new(bytes: u64, larger: u64, rng: &mut Rng) -> Case {
        let count = 1 + rng.below(3) as usize;
        let spares = rng.below(2) as usize;
        let member = |number: usize| Member {
            uuid: 100 + number as u128,
            state: if number < count { LegState::In } else { LegState::Spare },
            empty: number >= count,
            left: Generation::default(),
        };
        let old = Superblock {
            array: ARRAY,
            name: "disk".to_owned(),
            leg: 100,
            generation: Generation { number: 3, tag: 4 },
            bytes,
            block_bytes: 512,
            region_bytes: region_bytes(bytes),
            copies: count as u32,
            members: (0..count + spares).map(member).collect(),
            history: vec![Generation { number: 2, tag: 9 }],
        };
        let place = |rng: &mut Rng| rng.below(bytes >> 16) << 16;
        let written: Vec<u64> = (0..rng.below(6)).map(|_| place(rng)).collect();
        let dirty = written.iter().copied().filter(|_| rng.below(2) == 0).collect();
        let mut case = Case { legs: Vec::new(), old, written, dirty };
        let pages = case.pages();
        for member in &case.old.members {
            let more = (rng.below(3) << 16) + rng.below(2) * 512;
            let mut leg = Leg {
                bytes: DATA_OFFSET + larger + more + TAIL_BYTES,
                pages: BTreeMap::new(),
                zero: Vec::new(),
            };
            let copy = case.old.encode(member.uuid);
            let before = DATA_OFFSET + bytes + TAIL_BYTES;
            // A replaced leg has its second superblock at its end; a leg that was enlarged has it
            // at its old end.
            let second = if rng.below(2) == 0 { leg.bytes } else { before };
            for at in copies_of(second) {
                leg.pages.insert(at, copy);
            }
            for (page, bytes) in pages.iter().enumerate() {
                leg.pages.insert(page_slots(page)[0], *bytes);
            }
            case.legs.push(leg);
        }
        case
    }

    fn pages(&self) -> Vec<[u8; PAGE_BYTES]> {
        let map = Map::new(self.old.bytes);
        for at in &self.written {
            let region = (at / map.region_bytes()) as usize;
            map.tell(region, Event::Write);
            map.tell(region, Event::Marked);
            if !self.dirty.iter().any(|dirty| dirty / map.region_bytes() == region as u64) {
                map.tell(region, Event::Look);
                map.tell(region, Event::Flushed);
            }
        }
        pages_of(&map, ARRAY)
    }
}

fn look(legs: &[Leg]) -> (Vec<Found>, Assembly, Maps) {
    let found: Vec<Found> =
        legs.iter().enumerate().map(|(number, leg)| leg.found(number)).collect();
    let assembly = assemble("disk", &found, &[], false).unwrap();
    let block = &assembly.newest;
    let map = |place: usize| {
        let page = |page: usize| {
            let slots = page_slots(page).map(|at| legs[place].read(at));
            let slots = slots.iter().map(|bytes| &bytes[..]);
            Page::newest(page, block.array, block.region_bytes, slots)
        };
        (0..page_count(block.bytes)).map(page).collect()
    };
    let in_it = block.in_state(LegState::In);
    let places = assembly.places.iter().enumerate();
    let maps = places
        .filter(|(number, _)| in_it & 1 << number != 0)
        .filter_map(|(number, place)| Some((number, place.map(map)?)))
        .collect();
    let mut assembly = assembly;
    // A crash leaves legs of several versions: stale ones are out.
    let maps = leave_older_images("disk", &mut assembly, maps).unwrap();
    (found, assembly, maps)
}

/// Checks that the legs hold an allowed state.
fn check(case: &Case, legs: &[Leg], wanted: u64, all: bool) {
    let (_, Assembly { newest, .. }, maps) = look(legs);
    let old = case.old.bytes;
    assert!(newest.bytes == old || newest.bytes == wanted, "{}", newest.bytes);
    assert!(!all || newest.bytes == wanted);
    let map = Map::read(newest.bytes, &maps);
    let bits = |at: u64| map.get((at / map.region_bytes()) as usize).bits();
    assert!(
        case.written.iter().all(|at| bits(*at) & 1 != 0),
        "a written block is not marked written"
    );
    assert!(
        case.dirty.iter().all(|at| bits(*at) == 3),
        "a block that may differ is not marked dirty"
    );
    if newest.bytes == wanted {
        let zero = |leg: &Leg| leg.is_zero(DATA_OFFSET + old, DATA_OFFSET + wanted);
        assert!(legs.iter().all(zero), "the new part is not zero");
    }
    if all {
        let marked = (0..map.len()).filter(|region| map.get(*region).bits() != 0).count();
        assert!(marked <= case.written.len(), "blocks are marked that were never written");
    }
}

#[test]
fn an_array_whose_growth_is_cut_has_its_old_size_or_the_new_one() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed, 1);
        let (bytes, wanted) = match seed {
            // The region size grows.
            0 => (MOST - (rng.below(3) << 16), MOST * 3 + 65_536),
            _ => ((1 + rng.below(40)) << 16, (50 + rng.below(40)) << 16),
        };
        let case = Case::new(bytes, wanted, &mut rng);
        let (found, assembly, maps) = look(&case.legs);
        let growth = Growth::new("disk", &found, &assembly, &maps, Some(wanted)).unwrap();
        let steps = growth.steps(rng.next_u64());
        let cuts = if steps.len() < 40 {
            (0..=steps.len()).collect()
        } else {
            let all = steps.len() as u64;
            (0..4).map(|_| rng.below(all + 1) as usize).chain([steps.len()]).collect::<Vec<_>>()
        };
        for cut in cuts {
            let mut legs = case.legs.clone();
            for step in &steps[..cut] {
                legs[step.leg].take(step, true, &mut rng);
            }
            if let Some(step) = steps.get(cut) {
                legs[step.leg].take(step, false, &mut rng);
            }
            check(&case, &legs, wanted, cut == steps.len());
        }
    }
}

#[test]
fn what_cannot_grow_is_told_with_the_remedy() {
    let mut rng = Rng::new(3, 1);
    let case = loop {
        let case = Case::new(4 << 16, 8 << 16, &mut rng);
        if case.old.members.len() == 2 && case.old.copies == 2 {
            break case;
        }
    };
    let (found, assembly, maps) = look(&case.legs);
    let say = |assembly: &Assembly, bytes| match Growth::new("disk", &found, assembly, &maps, bytes)
    {
        Ok(growth) => panic!("it grows to {}", growth.bytes()),
        Err(why) => why.to_string(),
    };
    let most = found.iter().map(|leg| data_bytes(leg.bytes)).min().unwrap();
    assert_eq!(Growth::new("disk", &found, &assembly, &maps, None).unwrap().bytes(), most);
    for bytes in [0, 1, 4 << 16, (5 << 16) + 1, 3 << 16] {
        assert!(say(&assembly, Some(bytes)).contains("above the current 262144"), "{bytes}");
    }
    assert!(say(&assembly, Some(most + 65_536)).contains("drumfire volume replace"));
    let mut full = assembly.clone();
    full.newest.bytes = most;
    assert!(say(&full, None).contains("drumfire volume replace"));
    let mut behind = assembly.clone();
    behind.newest.members[1].state = LegState::Out;
    assert!(say(&behind, None).contains("leg 2 (leg 1) is stale: serve the array"));
    let mut away = assembly.clone();
    away.places[1] = None;
    assert!(say(&away, None).contains("leg 2 is missing"));
}
