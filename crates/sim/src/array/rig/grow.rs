//! Growing arrays: legs with room, the writes of a growth, and the new blocks.

use block::Rng;
use volume::array::{
    DATA_OFFSET, Found, Growth, Maps, Page, TAIL_BYTES, page_count, page_slots, region_bytes,
};

use super::super::Happened;
use super::super::disk::PAGE;
use super::super::model::Block;
use super::super::story::{BLOCKS, Step, Story};
use super::{ARRAY, BYTES, GRANULE, PLACES, REGIONS, Run};

impl Run {
    /// The maps on the legs.
    pub(super) fn maps(&self, legs: u32) -> Maps {
        let (world, regions) = (self.world.borrow(), region_bytes(self.bytes));
        let map = |leg: usize| -> (usize, Vec<Option<Page>>) {
            let page = |page| {
                let slots = page_slots(page).map(|at| world.legs[leg].bytes_at(at));
                Page::newest(page, ARRAY, regions, slots.iter().map(|bytes| &bytes[..]))
            };
            (leg, (0..page_count(self.bytes)).map(page).collect())
        };
        (0..self.legs).filter(|leg| legs & 1 << leg != 0).map(map).collect()
    }

    /// Notes the size of the opened array: the old or the new one.
    pub(super) fn sized(&mut self, bytes: u64) -> Result<(), String> {
        if bytes != self.bytes && bytes != self.grows_to {
            return Err(format!(
                "{bytes} bytes, and it had {} and may have {}",
                self.bytes, self.grows_to
            ));
        }
        if bytes > self.bytes {
            self.kept.add(Happened::Grown);
        }
        (self.bytes, self.grows_to) = (bytes, bytes);
        self.model.resize(self.blocks(), Block::new());
        Ok(())
    }

    /// Number of blocks.
    pub(super) fn blocks(&self) -> usize {
        PLACES.iter().filter(|place| **place + PAGE <= self.bytes).count()
    }

    /// Kills the process, and grows the array offline, with at most this many writes.
    pub(super) fn grow(&mut self, writes: u32) -> Result<(), String> {
        self.kill();
        let (assembly, found) = self.assemble()?;
        let number = |leg: &usize| assembly.newest.number_of(100 + *leg as u128);
        let alive: u32 =
            found.iter().filter_map(|(leg, _)| number(leg)).fold(0, |all, leg| all | 1 << leg);
        self.sized(assembly.newest.bytes)?;
        let (assembly, maps) = self.with_maps(assembly, alive)?;
        let legs: Vec<Found> = found.iter().map(|(_, leg)| leg.clone()).collect();
        let some = self.bytes + (1 + self.rng.below(3)) * GRANULE;
        let growth = [Some(some), None]
            .into_iter()
            .find_map(|bytes| Growth::new("a", &legs, &assembly, &maps, bytes).ok());
        let Some(growth) = growth else {
            self.kept.add(Happened::NotGrown);
            return self.open();
        };
        let steps = growth.steps(self.rng.next_u64());
        self.grows_to = growth.bytes();
        let mut world = self.world.borrow_mut();
        let world = &mut *world;
        for (at, step) in steps.iter().enumerate().take(writes as usize + 1) {
            let whole = at < writes as usize;
            world.legs[found[step.leg].0].grow(step, whole, &mut world.rng);
        }
        if (writes as usize) < steps.len() {
            self.kept.add(Happened::CutInGrowth);
            // A leg that has not got the new size may get all of the new part.
            (self.ever, self.touched) = ([true; REGIONS], [true; REGIONS]);
        }
        Ok(())
    }

    /// An existing block.
    pub(super) fn here(&self, block: usize) -> usize {
        if block < self.blocks() { block } else { block % BLOCKS }
    }
}

/// Sizes of the legs. In a story with growth most have room; the smallest decides.
pub(super) fn sizes(story: &Story) -> Vec<u64> {
    let grows = story.steps.iter().any(|step| matches!(step, Step::Grow(_)));
    let mut rng = Rng::new(story.seed, 34);
    let more = |_| match grows && rng.below(12) > 0 {
        true => (2 + rng.below(5)) * GRANULE,
        false => 0,
    };
    let all = (0..story.legs + story.spares).map(more);
    all.map(|more| DATA_OFFSET + BYTES + more + TAIL_BYTES).collect()
}
