//! One leg: its pages, its volatile cache, and its faults.

use super::*;

impl Leg {
    pub(in super::super) fn new(bytes: u64) -> Leg {
        let (durable, cache) = (BTreeMap::new(), BTreeMap::new());
        let (dead, sick, full, bad, spoiled) = (false, false, false, None, false);
        Leg {
            bytes,
            durable,
            cache,
            dead,
            away: false,
            sick,
            bad,
            full,
            spoiled,
            refuses: None,
            hung: false,
            slow: false,
            careless: false,
            plain: false,
            rolled: false,
            image: None,
            image_marks: 0,
            marks: 0,
            own: None,
            epoch: 0,
            blamed: false,
            lost: false,
            losses: 0,
            losses_told: 0,
            forgiven: 0,
        }
    }

    /// Makes a page unreadable until it is rewritten.
    pub(in super::super) fn spoil(&mut self, page: u64) {
        (self.bad, self.spoiled, self.blamed) = (Some(page), true, true);
    }

    /// Whether the leg serves all requests.
    pub(in super::super) fn is_well(&self) -> bool {
        let refuses = self.refuses.is_some() || self.hung || self.slow;
        !self.is_gone() && !self.sick && !self.full && !refuses
    }

    /// Whether the leg is unreachable.
    pub(in super::super) fn is_gone(&self) -> bool {
        self.dead || self.away
    }

    /// Whether a flush fails to report a lost cache.
    pub(super) fn tells(&mut self) -> bool {
        let tells = !self.dead && self.losses > self.losses_told.max(self.forgiven);
        if tells {
            self.losses_told = self.losses;
        }
        tells
    }

    /// Takes a snapshot.
    pub(in super::super) fn snap(&mut self) {
        let pages = self.durable.keys().chain(self.cache.keys());
        let held = pages.filter_map(|page| Some((*page, self.page(*page)?.clone())));
        self.image = Some(held.collect());
        self.image_marks = self.marks;
    }

    /// Whether the leg's snapshot is older than its own and another leg's data, as far as maps
    /// show: a snapshot since which no page was written is not older. Different marks are newer,
    /// whatever the versions.
    pub(in super::super) fn image_is_before(&self, other: &Leg) -> bool {
        let own = self.image.as_ref().and_then(map_of).map(|page| page.version());
        let newest = map_of(&other.durable).map(|page| page.version());
        let versions = own.zip(newest);
        let before = versions.is_some_and(|(own, newest)| own.is_before(newest));
        before || versions.is_some() && self.image_marks != self.marks
    }

    /// Reverts to the snapshot. False if there is none.
    pub(in super::super) fn roll_back(&mut self) -> bool {
        let Some(image) = self.image.clone() else { return false };
        (self.durable, self.bad, self.rolled) = (image, None, true);
        self.cache.clear();
        true
    }

    /// Replaces an older image with the true data.
    pub(in super::super) fn own_again(&mut self) {
        if let Some(own) = self.own.take() {
            self.durable = own;
            self.cache.clear();
            self.epoch += 1;
        }
    }

    /// Whether an older image replaces the true data.
    pub(in super::super) fn is_older_image(&self) -> bool {
        self.own.is_some()
    }

    /// Whether the durable map marks all of a range.
    pub(super) fn is_marked(&self, offset: u64, len: u64) -> bool {
        let Some(page) = map_of(&self.durable) else { return false };
        let region = |at: u64| ((at - DATA_OFFSET) / region_bytes(BYTES)) as usize;
        (region(offset)..=region(offset + len - 1)).all(|region| page.is_dirty(region))
    }

    /// Whether there is room for a write.
    pub(super) fn has_room(&self, io: &Io) -> bool {
        let pages = io.offset / PAGE..(io.offset + u64::from(io.len)) / PAGE;
        let mut data = pages.filter(|page| (DATA_OFFSET / PAGE..self.tail()).contains(page));
        !self.full || data.next().is_some_and(|page| self.page(page).is_some())
    }

    /// The page after the data.
    pub(super) fn tail(&self) -> u64 {
        (self.bytes >> 12) - 256
    }

    /// Content of a page; `None` for zeroes.
    pub(in super::super) fn page(&self, page: u64) -> Option<&Content> {
        let cached = self.cache.get(&page).and_then(|versions| versions.last());
        cached.map(|version| &version.content).or_else(|| self.durable.get(&page))
    }

    /// The 4 KiB of a superblock or map page.
    pub(in super::super) fn bytes_at(&self, offset: u64) -> Vec<u8> {
        match self.page(offset / PAGE) {
            Some(Content::Bytes(bytes)) => bytes.to_vec(),
            _ => vec![0; PAGE as usize],
        }
    }

    /// All non-zero data pages of an array of `bytes` bytes.
    pub(in super::super) fn data(&self, bytes: u64) -> BTreeMap<u64, Content> {
        let data = DATA_OFFSET / PAGE..(DATA_OFFSET + bytes) / PAGE;
        let pages = self.durable.keys().chain(self.cache.keys()).filter(|page| data.contains(page));
        let held = pages.filter_map(|page| Some((*page, self.page(*page)?.clone())));
        held.filter(|(_, content)| matches!(content, Content::Value(value) if *value != 0))
            .collect()
    }

    /// Stores bytes durably.
    pub(in super::super) fn put(&mut self, offset: u64, bytes: &[u8]) {
        let bytes: Box<[u8; PAGE as usize]> = Box::new(bytes.try_into().expect("a page"));
        self.durable.insert(offset / PAGE, Content::Bytes(bytes));
    }

    /// Fills the space after an array of `bytes` bytes with old data.
    pub(in super::super) fn fill_behind(&mut self, bytes: u64, junk: u64) {
        for page in (DATA_OFFSET + bytes) / PAGE..self.tail() {
            self.durable.insert(page, Content::Value(junk));
        }
    }

    /// Executes a growth's write, durably, or a part of it.
    pub(in super::super) fn grow(
        &mut self,
        step: &volume::array::Step,
        whole: bool,
        rng: &mut Rng,
    ) {
        match &step.put {
            Put::Bytes(bytes) => {
                let mut page = self.bytes_at(step.offset);
                let sectors = (0..PAGE as usize).step_by(SECTOR);
                for at in sectors.filter(|_| whole || rng.below(2) == 0) {
                    page[at..at + SECTOR].copy_from_slice(&bytes[at..at + SECTOR]);
                }
                self.cache.remove(&(step.offset / PAGE));
                self.put(step.offset, &page);
            }
            Put::Zeroes(len) => {
                for page in step.offset / PAGE..(step.offset + len) / PAGE {
                    if whole || rng.below(2) == 0 {
                        self.cache.remove(&page);
                        self.durable.remove(&page);
                    }
                }
            }
        }
    }

    /// Loses a random part of its cache.
    pub(super) fn lose(&mut self, rng: &mut Rng) {
        for (page, mut versions) in std::mem::take(&mut self.cache) {
            let kept = rng.below(versions.len() as u64 + 1) as usize;
            if kept > 0 {
                self.durable.insert(page, versions.swap_remove(kept - 1).content);
            }
        }
    }

    /// Executes a write, trim or zeroing on the pages that `which` picks.
    pub(super) fn write(&mut self, io: &Io, id: u64, mut which: impl FnMut() -> bool) {
        for at in 0..u64::from(io.len) / PAGE {
            if !which() {
                continue;
            }
            let page = io.offset / PAGE + at;
            self.bad = self.bad.filter(|bad| *bad != page);
            let from = (at * PAGE) as usize;
            let content = match &io.buf {
                Some(buf) if io.offset < DATA_OFFSET || page >= self.tail() => {
                    let bytes = buf[from..from + PAGE as usize].try_into().expect("a page");
                    Content::Bytes(Box::new(bytes))
                }
                Some(buf) => {
                    let word = buf[from..from + 8].try_into().expect("a word");
                    Content::Value(u64::from_le_bytes(word))
                }
                None => Content::Value(0),
            };
            if io.fua {
                let before = marks_of(&self.durable);
                self.cache.remove(&page);
                self.durable.insert(page, content);
                self.marks += u64::from(marks_of(&self.durable) != before);
            } else {
                let version = Version { content, io: id, answered: u64::MAX };
                self.cache.entry(page).or_default().push(version);
            }
        }
    }

    pub(super) fn read(&self, io: &mut Io) {
        let Some(buf) = io.buf.as_mut() else { return };
        for at in 0..u64::from(io.len) / PAGE {
            let from = (at * PAGE) as usize;
            let page = &mut buf[from..from + PAGE as usize];
            page.fill(0);
            match self.page(io.offset / PAGE + at) {
                Some(Content::Bytes(bytes)) => page.copy_from_slice(&bytes[..]),
                Some(Content::Value(value)) => page[..8].copy_from_slice(&value.to_le_bytes()),
                None => {}
            }
        }
    }

    /// Makes writes durable that completed before the flush was submitted.
    pub(super) fn flush(&mut self, came: u64) {
        let durable = &mut self.durable;
        self.cache.retain(|page, versions| {
            let covered = versions.iter().rposition(|version| version.answered < came);
            if let Some(last) = covered {
                let version = versions.drain(..=last).next_back().expect("one is covered");
                durable.insert(*page, version.content);
            }
            !versions.is_empty()
        });
    }
}

/// The first page of the map among these pages.
pub(super) fn map_of(pages: &BTreeMap<u64, Content>) -> Option<Page> {
    let slots = page_slots(0).into_iter().filter_map(|at| match pages.get(&(at / PAGE)) {
        Some(Content::Bytes(bytes)) => Some(&bytes[..]),
        _ => None,
    });
    Page::newest(0, ARRAY, region_bytes(BYTES), slots)
}

fn marks_of(pages: &BTreeMap<u64, Content>) -> Option<Vec<bool>> {
    let page = map_of(pages)?;
    Some((0..REGIONS).map(|region| page.is_dirty(region)).collect())
}
