use super::*;

/// Tests every cell of the table.
#[test]
fn every_event_does_to_every_region_what_the_table_says() {
    use Region::{Asked, Behind, Clean, Cooling, Dirty, Unsettled, Unwritten};
    let events = [
        Event::Write,
        Event::Marked,
        Event::Look,
        Event::Flushed,
        Event::Joined,
        Event::Differs,
        Event::Copied,
        Event::Opened,
    ];
    let table = [
        [Asked, Unwritten, Unwritten, Unwritten, Unwritten, Unwritten, Unwritten, Unwritten],
        [Asked, Clean, Clean, Clean, Clean, Clean, Clean, Clean],
        [Asked, Dirty, Asked, Asked, Asked, Asked, Asked, Unsettled],
        [Dirty, Dirty, Cooling, Dirty, Behind, Unsettled, Dirty, Unsettled],
        [Dirty, Cooling, Cooling, Clean, Behind, Unsettled, Cooling, Unsettled],
        [Behind, Behind, Behind, Behind, Behind, Unsettled, Dirty, Unsettled],
        [Unsettled, Unsettled, Unsettled, Unsettled, Unsettled, Unsettled, Dirty, Unsettled],
    ];
    for (region, row) in Region::ALL.into_iter().zip(table) {
        for (event, becomes) in events.into_iter().zip(row) {
            assert_eq!(next(region, event), becomes, "{region:?} {event:?}");
        }
    }
}

#[test]
fn nothing_becomes_clean_without_a_flush_and_nothing_dirty_without_its_mark() {
    for region in Region::ALL {
        for event in [Event::Write, Event::Look, Event::Joined, Event::Copied, Event::Differs] {
            assert!(next(region, event) != Region::Clean || region == Region::Clean);
            let unmarked = !region.is_marked();
            assert!(!(unmarked && next(region, event).is_marked()), "{region:?} {event:?}");
        }
    }
}

#[test]
fn regions_are_as_small_as_the_map_has_room_for() {
    for (bytes, region) in [
        (1 << 16, 1 << 16),
        (1 << 35, 1 << 17),
        (PAGES_MAX as u64 * PAGE_REGIONS as u64 * 65_536, 65_536),
        (1 << 40, 4 << 20),
        (1 << 50, 4 << 30),
    ] {
        assert_eq!(region_bytes(bytes), region, "{bytes}");
        assert!(Map::new(bytes.min(1 << 40)).pages() <= PAGES_MAX);
    }
}

fn decode(page: usize, array: u128, bytes: &[u8]) -> Option<Page> {
    Page::decode(page, array, REGION_MIN_BYTES, bytes)
}

/// Pages of versions that did not write the region size.
#[test]
fn a_page_of_an_earlier_program_is_read() {
    let map = Map::new(1 << 20);
    map.opens(5 << 16, 1);
    let mut page = [0; PAGE_BYTES];
    map.encode(0, 5, &mut page);
    page[REGION_AT..REGION_AT + 8].fill(0);
    page[CRC_AT..CRC_AT + 4].fill(0);
    let crc = crc32c(&page);
    page[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    let found = decode(0, 5, &page).unwrap();
    assert!((0..16).all(|region| found.is_dirty(region) == (region == 5)));
}

#[test]
fn a_larger_map_says_of_each_place_what_it_said_before() {
    let most = (PAGES_MAX * PAGE_REGIONS) as u64 * REGION_MIN_BYTES;
    for (small, large) in [(1 << 20, 5 << 20), (most - 65_536, most * 4)] {
        let map = Map::new(small);
        let dirty = [0, 7, 8, map.len() - 1];
        for region in dirty {
            map.tell(region, Event::Write);
        }
        map.regions[3].store(Region::Clean as u8, Ordering::SeqCst);
        let grown = map.grown(large);
        let at =
            |region: usize| (region as u64 * map.region_bytes() / grown.region_bytes()) as usize;
        let expected: std::collections::BTreeSet<usize> = dirty.map(at).into();
        for region in 0..grown.len() {
            let found = grown.get(region).bits();
            let right = match expected.contains(&region) {
                true => 3,
                false => u8::from(region == at(3)),
            };
            assert_eq!(found, right, "{small} {large} {region}");
        }
    }
}

#[test]
fn what_was_asked_comes_back_from_a_page_and_a_damaged_one_is_dirty_all_over() {
    let bytes = (PAGE_REGIONS as u64 + 3) << 16;
    let map = Map::new(bytes);
    assert_eq!((map.pages(), map.len()), (2, PAGE_REGIONS + 3));
    let opened = map.opens((PAGE_REGIONS as u64 - 1) << 16, 2 << 16);
    assert_eq!(opened, Opened { marked: false, asked: true });
    assert_eq!(map.opens(0, 512), Opened { marked: false, asked: true });
    assert_eq!(map.opens(1, 512), Opened { marked: false, asked: false });
    assert_eq!(map.take_asked(), [0, 1]);
    assert!(map.take_asked().is_empty());
    let mut page = [0; PAGE_BYTES];
    map.encode(1, 5, &mut page);
    assert!(decode(0, 5, &page).is_none() && decode(1, 6, &page).is_none());
    assert!(Page::decode(1, 5, 1 << 17, &page).is_none(), "of other regions");
    let other = Map::new(bytes);
    other.load(1, decode(1, 5, &page).as_ref());
    assert_eq!(other.get(PAGE_REGIONS), Region::Dirty);
    assert_eq!(other.get(PAGE_REGIONS + 1), Region::Unwritten);
    other.load(0, None);
    other.opened();
    assert_eq!(other.behind(), PAGE_REGIONS + 1);
    for bit in 0..PAGE_BYTES * 8 {
        let mut wrong = page;
        wrong[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(1, 5, &wrong).is_none(), "bit {bit}");
    }
}
