//! The keeper's job that writes map pages. Requested regions may be written when their page is
//! durable on all legs that get writes.

use block::{Nanos, Op, Plant, planted};

use super::map::{Event, PAGE_BYTES, Region, Version};
use super::port::{Deed, Job, Port, legs};
use crate::mirror::Rules;

/// Delay before a page that no leg accepts is retried.
const PAUSE: Nanos = Nanos::from_millis(100);

pub(super) struct Pages {
    job: Job,
    array: u128,
    /// The pages being written.
    writing: Option<Writing>,
    /// All pages are to be written to all legs.
    all: bool,
    /// Number of complete rounds of page writes.
    rounds: u64,
    retry_at: Nanos,
    /// Version of each page that all legs that are in have confirmed.
    durable: Vec<Version>,
}

struct Writing {
    pages: Vec<usize>,
    versions: Vec<Version>,
    /// Regions that these pages mark dirty.
    asked: Vec<usize>,
    all: bool,
    /// Number of returns of the last leg when the pages were sent.
    renewals: u32,
}

impl Pages {
    /// Starts with all pages: the legs may hold different ones.
    pub(super) fn new(job: Job, array: u128) -> Pages {
        let (durable, retry_at) = (Vec::new(), Nanos(0));
        Pages { job, array, writing: None, all: true, rounds: 0, retry_at, durable }
    }

    /// Requests a write of all pages to all legs; returns the value of [`rounds`](Self::rounds)
    /// when that is done.
    pub(super) fn write_all(&mut self) -> u64 {
        self.all = true;
        let in_flight = self.writing.as_ref().is_some_and(|writing| writing.all);
        self.rounds + 1 + u64::from(in_flight)
    }

    /// Number of times that all pages were written to all legs.
    pub(super) fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Version of a page that all legs that are in have confirmed.
    pub(super) fn durable(&self, page: usize) -> Version {
        self.durable.get(page).copied().unwrap_or_default()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.writing.is_none() && !self.all
    }

    pub(super) fn wake(&self, asked: bool) -> Option<Nanos> {
        (self.writing.is_none() && (self.all || asked)).then_some(self.retry_at)
    }

    pub(super) fn step(&mut self, port: &mut Port) {
        match self.writing.take() {
            Some(writing) => match port.verdict(self.job) {
                Some((good, bad)) => self.written(port, &writing, good, bad),
                None => self.writing = Some(writing),
            },
            None if port.now >= self.retry_at => self.begin(port),
            None => {}
        }
    }

    fn begin(&mut self, port: &mut Port) {
        let shared = port.shared.clone();
        let asked = shared.map.take_asked();
        let all = std::mem::take(&mut self.all);
        let pages = if all { (0..shared.map.pages()).collect() } else { asked };
        if pages.is_empty() {
            return;
        }
        let mut regions = Vec::new();
        let mut bytes = [0; PAGE_BYTES];
        // A joining leg gets all pages before it is in.
        let to = shared.writers_now();
        for page in &pages {
            let asked = |region: &usize| shared.map.get(*region) == Region::Asked;
            regions.extend(shared.map.of_page(*page).filter(asked));
            if !planted(Plant::TrustOldImage) {
                shared.map.advance(*page);
            }
            shared.map.encode(*page, self.array, &mut bytes);
            for leg in legs(to) {
                let offset = shared.map.version(*page).place(*page);
                let (op, len, fua) = (Op::Write, PAGE_BYTES as u32, true);
                if planted(Plant::MapOnOneLeg) && leg != to.trailing_zeros() as usize {
                    continue;
                }
                let buf = port.copy(&bytes);
                port.send(self.job, leg, Deed { op, offset, len, fua, buf });
            }
        }
        if port.takes_writes() {
            shared.set_map_failed(false);
        }
        let versions = pages.iter().map(|page| shared.map.version(*page)).collect();
        let renewals = shared.renewals();
        self.writing = Some(Writing { pages, versions, asked: regions, all, renewals });
    }

    fn written(&mut self, port: &mut Port, writing: &Writing, good: u32, bad: u32) {
        let shared = &port.shared;
        for leg in legs(bad) {
            shared.leave(leg, &|| "its write-intent bitmap could not be written".to_owned());
        }
        // A page is written once every remaining leg has it; the others fail.
        if good & shared.recorded() == 0 || bad & shared.in_it() != 0 {
            writing.pages.iter().for_each(|page| shared.map.ask(*page));
            self.all |= writing.all;
            if writing.renewals == shared.renewals() {
                self.retry_at = port.now + PAUSE;
                shared.set_map_failed(true);
            }
            return;
        }
        shared.set_map_failed(false);
        self.rounds += u64::from(writing.all);
        self.durable.resize(shared.map.pages(), Version::default());
        for (page, version) in writing.pages.iter().zip(&writing.versions) {
            self.durable[*page] = *version;
        }
        for region in &writing.asked {
            shared.map.tell(*region, Event::Marked);
        }
    }
}
