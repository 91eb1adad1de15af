//! The write-intent bitmap: regions in which the legs of an array may differ, and regions that were
//! ever written.
//!
//! The array is divided into regions. Each has a state in memory, which writers and the keeper
//! change by [`next`], and two bits on every leg: *written* and *dirty*. The bits are durable
//! before the first write into a region goes to any leg. A page of the map is 4 KiB with a
//! checksum.

mod region;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use proto::crc32c::crc32c;

pub use self::region::{Event, Region, next};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Offset of the map on a leg.
pub const MAP_OFFSET: u64 = 128 << 10;
/// Maximum number of pages.
pub const PAGES_MAX: usize = 32;
/// Bytes of one of the two slots of a page; the second slots follow all first ones.
const SLOTS_BYTES: u64 = (PAGES_MAX * PAGE_BYTES) as u64;
/// Regions of a page, two bits each.
pub const PAGE_REGIONS: usize = (PAGE_BYTES - HEAD_BYTES) * 4;

const HEAD_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"DRUMMAP\x1a";
const CRC_AT: usize = 8;
/// Offset of the region size in a page, so that a page is never read with another size while an
/// array grows. Earlier versions have 0 there: the superblock's size applies.
const REGION_AT: usize = 32;
/// Offset of the version of a page. Programs before versions have 0 there.
const VERSION_AT: usize = 40;
/// Smallest region.
const REGION_MIN_BYTES: u64 = 64 << 10;

/// Offsets on a leg of the two slots of a page. A version overwrites the one before the last: an
/// interrupted write leaves the last one intact.
pub fn page_slots(page: usize) -> [u64; 2] {
    let first = MAP_OFFSET + (page * PAGE_BYTES) as u64;
    [first, first + SLOTS_BYTES]
}

/// Bytes of a region of an array of `bytes` bytes: the smallest that the map has room for.
pub fn region_bytes(bytes: u64) -> u64 {
    let least = bytes.div_ceil((PAGES_MAX * PAGE_REGIONS) as u64);
    least.next_power_of_two().max(REGION_MIN_BYTES)
}

/// Number of writes of a page.
///
/// Every write of data is enclosed by two writes of its page: one marks its region dirty before,
/// and one marks its region clean long after. So a leg whose page lacks both, such as an older
/// image, may lack data in regions that no map marks. A leg that lacks one write of a page, which a
/// crash interrupted, or marks of dirty regions only, lacks only data of regions that a map still
/// marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Version {
    /// Number of writes of the page.
    writes: u64,
    /// Number of those writes in which a region became clean.
    cleans: u64,
}

impl Version {
    /// Whether a leg with this version may lack data that no map marks, if another leg has
    /// `newest`.
    pub(crate) fn lacks(self, newest: Version) -> bool {
        newest.writes >= self.writes.saturating_add(2) && newest.cleans > self.cleans
    }

    /// Offset on a leg of this version of a page.
    pub fn place(self, page: usize) -> u64 {
        page_slots(page)[(self.writes % 2) as usize]
    }

    /// Whether a leg with this version has not got the last write of the page.
    pub fn is_before(self, newest: Version) -> bool {
        self.writes < newest.writes
    }

    fn max(self, other: Version) -> Version {
        Version { writes: self.writes.max(other.writes), cleans: self.cleans.max(other.cleans) }
    }
}

/// The version of a page in memory.
#[derive(Default)]
struct Count {
    writes: AtomicU64,
    cleans: AtomicU64,
    /// A region became clean since the page was written.
    cleaned: AtomicBool,
}

/// The states of all regions, shared by the lanes and the keeper.
pub(crate) struct Map {
    regions: Box<[AtomicU8]>,
    counts: Box<[Count]>,
    /// Pages to be written.
    asked: Box<[AtomicBool]>,
    any_asked: AtomicBool,
    /// Number of regions that need a resync.
    behind: AtomicUsize,
    /// Number of times that legs came to differ: a copy in progress then restarts.
    differences: AtomicUsize,
    region_bytes: u64,
}

impl Map {
    /// The map of a new array of `bytes` bytes.
    pub(crate) fn new(bytes: u64) -> Map {
        let region_bytes = region_bytes(bytes);
        let count = bytes.div_ceil(region_bytes) as usize;
        Map {
            regions: (0..count).map(|_| AtomicU8::new(0)).collect(),
            asked: (0..count.div_ceil(PAGE_REGIONS)).map(|_| AtomicBool::new(false)).collect(),
            counts: (0..count.div_ceil(PAGE_REGIONS)).map(|_| Count::default()).collect(),
            any_asked: AtomicBool::new(false),
            behind: AtomicUsize::new(0),
            differences: AtomicUsize::new(0),
            region_bytes,
        }
    }

    /// Map of an array of `bytes` bytes, read from the legs that are in, by leg and page. A page is
    /// on all of them before its regions are written, so any intact copy suffices.
    pub(crate) fn read(bytes: u64, legs: &[(usize, Vec<Option<Page>>)]) -> Map {
        let map = Map::new(bytes);
        for page in 0..map.pages() {
            let pages = legs.iter().map(|(_, pages)| pages);
            let mut found = pages.filter_map(|pages| pages.get(page)?.as_ref()).peekable();
            if found.peek().is_none() {
                map.load(page, None);
            }
            found.for_each(|found| map.load(page, Some(found)));
        }
        map
    }

    /// Map after a growth; the new part is unwritten. Its pages are newer than all earlier ones.
    pub(crate) fn grown(&self, bytes: u64) -> Map {
        let map = Map::new(bytes);
        let all = (0..self.pages()).map(|page| self.version(page));
        let newest = all.fold(Version::default(), Version::max);
        for (page, count) in map.counts.iter().enumerate() {
            // One more write, into the slot that does not have the old page: a crash may leave the
            // old one on some legs.
            let before = if page < self.pages() { self.version(page) } else { newest };
            count.writes.store(before.writes + 1, Ordering::SeqCst);
            count.cleans.store(before.cleans, Ordering::SeqCst);
        }
        for region in 0..self.len() {
            let at = (region as u64 * self.region_bytes / map.region_bytes) as usize;
            let both = Region::of_bits(self.get(region).bits() | map.get(at).bits());
            map.regions[at].store(both as u8, Ordering::SeqCst);
        }
        map
    }

    pub(crate) fn region_bytes(&self) -> u64 {
        self.region_bytes
    }

    /// Number of regions.
    pub(crate) fn len(&self) -> usize {
        self.regions.len()
    }

    pub(crate) fn pages(&self) -> usize {
        self.asked.len()
    }

    pub(crate) fn get(&self, region: usize) -> Region {
        Region::of(self.regions[region].load(Ordering::SeqCst))
    }

    /// Number of regions that need a resync.
    pub(crate) fn behind(&self) -> usize {
        self.behind.load(Ordering::SeqCst)
    }

    fn range(&self, offset: u64, len: u64) -> std::ops::RangeInclusive<usize> {
        let last = (offset + len.max(1) - 1) / self.region_bytes;
        (offset / self.region_bytes) as usize..=last as usize
    }

    /// Applies an event to a region; returns the state before.
    pub(crate) fn tell(&self, region: usize, event: Event) -> Region {
        let place = &self.regions[region];
        let mut seen = place.load(Ordering::SeqCst);
        loop {
            let (was, now) = (Region::of(seen), next(Region::of(seen), event));
            if was == now {
                return was;
            }
            // Before the change of state: whoever sees the state sees the request for its page,
            // too.
            if now.is_behind() {
                self.behind.fetch_add(1, Ordering::SeqCst);
            }
            let (order, new) = (Ordering::SeqCst, now as u8);
            match place.compare_exchange_weak(seen, new, order, order) {
                Ok(_) => {
                    if was.is_behind() {
                        self.behind.fetch_sub(1, Ordering::SeqCst);
                    }
                    if now == Region::Asked || now == Region::Clean {
                        let page = region / PAGE_REGIONS;
                        if now == Region::Clean {
                            self.counts[page].cleaned.store(true, Ordering::SeqCst);
                        }
                        self.ask(page);
                    }
                    return was;
                }
                Err(now_seen) => {
                    if now.is_behind() {
                        self.behind.fetch_sub(1, Ordering::SeqCst);
                    }
                    seen = now_seen;
                }
            }
        }
    }

    /// Requests that a page be written.
    pub(crate) fn ask(&self, page: usize) {
        self.asked[page].store(true, Ordering::SeqCst);
        self.any_asked.store(true, Ordering::SeqCst);
    }

    /// Takes the requested pages, each once.
    pub(crate) fn take_asked(&self) -> Vec<usize> {
        if !self.any_asked.swap(false, Ordering::SeqCst) {
            return Vec::new();
        }
        let asked = |page: &usize| self.asked[*page].swap(false, Ordering::SeqCst);
        (0..self.asked.len()).filter(asked).collect()
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.any_asked.load(Ordering::SeqCst)
    }

    /// Whether a range may be written now. `asked` is true if this call made the first request.
    pub(crate) fn opens(&self, offset: u64, len: u64) -> Opened {
        let (mut marked, mut asked) = (true, false);
        for region in self.range(offset, len) {
            let was = match self.get(region) {
                same @ (Region::Dirty | Region::Behind | Region::Unsettled) => same,
                _ => self.tell(region, Event::Write),
            };
            marked &= was.is_marked();
            asked |= matches!(was, Region::Unwritten | Region::Clean);
        }
        Opened { marked, asked }
    }

    /// Whether any region of a range needs a resync.
    pub(crate) fn is_behind(&self, offset: u64, len: u64) -> bool {
        self.behind() > 0 && self.range(offset, len).any(|region| self.get(region).is_behind())
    }

    /// Whether any region was written since its legs were known to be equal and flushed.
    pub(crate) fn is_dirty(&self) -> bool {
        let clean = |region| matches!(self.get(region), Region::Unwritten | Region::Clean);
        !(0..self.len()).all(clean)
    }

    /// The first region of a range in which legs that are in may differ.
    pub(crate) fn first_unsettled(&self, offset: u64, len: u64) -> Option<usize> {
        if self.behind() == 0 {
            return None;
        }
        self.range(offset, len).find(|region| self.get(*region) == Region::Unsettled)
    }

    /// Records that a write left the legs different.
    pub(crate) fn differs(&self, offset: u64, len: u64) {
        self.range(offset, len).for_each(|region| {
            self.tell(region, Event::Differs);
        });
        self.differed();
    }

    /// Notes that regions differ again: copies in progress restart.
    pub(crate) fn differed(&self) {
        self.differences.fetch_add(1, Ordering::SeqCst);
    }

    /// A leg joined that may have missed writes to any dirty region.
    pub(crate) fn joined(&self) {
        (0..self.len()).for_each(|region| {
            self.tell(region, Event::Joined);
        });
        self.differed();
    }

    /// Number of times that legs came to differ so far.
    pub(crate) fn differences(&self) -> usize {
        self.differences.load(Ordering::SeqCst)
    }

    /// The regions of a page.
    pub(crate) fn of_page(&self, page: usize) -> std::ops::Range<usize> {
        page * PAGE_REGIONS..((page + 1) * PAGE_REGIONS).min(self.len())
    }

    /// The version of a page.
    pub(crate) fn version(&self, page: usize) -> Version {
        let count = &self.counts[page];
        Version {
            writes: count.writes.load(Ordering::SeqCst),
            cleans: count.cleans.load(Ordering::SeqCst),
        }
    }

    /// Raises the version of a page above this one, which a leg has.
    pub(crate) fn raise(&self, page: usize, found: Version) {
        self.counts[page].writes.fetch_max(found.writes, Ordering::SeqCst);
    }

    /// Starts a new version of a page that is about to be encoded and written.
    pub(crate) fn advance(&self, page: usize) {
        let count = &self.counts[page];
        count.writes.fetch_add(1, Ordering::SeqCst);
        if count.cleaned.swap(false, Ordering::SeqCst) {
            count.cleans.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Encodes a page as the legs should hold it now.
    pub(crate) fn encode(&self, page: usize, array: u128, bytes: &mut [u8]) {
        let bytes = &mut bytes[..PAGE_BYTES];
        bytes.fill(0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[12..16].copy_from_slice(&(page as u32).to_le_bytes());
        bytes[16..32].copy_from_slice(&array.to_le_bytes());
        bytes[REGION_AT..REGION_AT + 8].copy_from_slice(&self.region_bytes.to_le_bytes());
        let Version { writes, cleans } = self.version(page);
        bytes[VERSION_AT..VERSION_AT + 8].copy_from_slice(&writes.to_le_bytes());
        bytes[VERSION_AT + 8..VERSION_AT + 16].copy_from_slice(&cleans.to_le_bytes());
        let first = page * PAGE_REGIONS;
        for region in self.of_page(page) {
            let at = region - first;
            bytes[HEAD_BYTES + at / 4] |= self.get(region).bits() << (at % 4 * 2);
        }
        let crc = crc32c(bytes);
        bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Merges a page of a leg: a region that any leg marks dirty is dirty. Without a page all its
    /// regions may differ.
    pub(crate) fn load(&self, page: usize, found: Option<&Page>) {
        let first = page * PAGE_REGIONS;
        if let Some(found) = found {
            let Version { writes, cleans } = self.version(page).max(found.version());
            self.counts[page].writes.store(writes, Ordering::SeqCst);
            self.counts[page].cleans.store(cleans, Ordering::SeqCst);
        }
        for region in self.of_page(page) {
            let bits = found.map_or(3, |found| found.bits(region - first));
            let both = Region::of_bits(bits | self.get(region).bits());
            self.regions[region].store(both as u8, Ordering::SeqCst);
        }
    }

    /// Records that the array is opened: dirty regions may differ.
    pub(crate) fn opened(&self) {
        (0..self.len()).for_each(|region| {
            self.tell(region, Event::Opened);
        });
    }
}

/// The result of [`Map::opens`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Opened {
    pub(crate) marked: bool,
    pub(crate) asked: bool,
}

/// A page as read from a leg.
#[derive(Clone)]
pub struct Page(Box<[u8; PAGE_BYTES]>);

impl Page {
    /// Decodes page number `page` of an array with this region size; `None` if the page is damaged,
    /// foreign or of another region size.
    pub fn decode(page: usize, array: u128, region_bytes: u64, bytes: &[u8]) -> Option<Page> {
        let mut bytes: Box<[u8; PAGE_BYTES]> = Box::new(bytes.get(..PAGE_BYTES)?.try_into().ok()?);
        let crc = u32::from_le_bytes(bytes[CRC_AT..CRC_AT + 4].try_into().ok()?);
        bytes[CRC_AT..CRC_AT + 4].fill(0);
        let is_ours = bytes[..8] == MAGIC
            && bytes[12..16] == (page as u32).to_le_bytes()
            && bytes[16..32] == array.to_le_bytes();
        let regions = u64::from_le_bytes(bytes[REGION_AT..REGION_AT + 8].try_into().ok()?);
        let is_ours = is_ours && (regions == 0 || regions == region_bytes);
        (is_ours && crc32c(&bytes[..]) == crc).then_some(Page(bytes))
    }

    /// The newer of the two slots of a page, as above.
    pub fn newest<'a>(
        page: usize,
        array: u128,
        region_bytes: u64,
        slots: impl IntoIterator<Item = &'a [u8]>,
    ) -> Option<Page> {
        let decode = |bytes: &[u8]| Page::decode(page, array, region_bytes, bytes);
        let found = slots.into_iter().filter_map(decode);
        found.max_by_key(|page| page.version().writes)
    }

    /// The page's version.
    pub fn version(&self) -> Version {
        let word =
            |at: usize| u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"));
        Version { writes: word(VERSION_AT), cleans: word(VERSION_AT + 8) }
    }

    /// The two bits of a region of the page.
    pub(crate) fn bits(&self, at: usize) -> u8 {
        self.0[HEAD_BYTES + at / 4] >> (at % 4 * 2) & 3
    }

    /// Whether a region of the page is marked dirty.
    pub fn is_dirty(&self, at: usize) -> bool {
        self.bits(at) & 2 != 0
    }
}

#[cfg(test)]
mod test;
