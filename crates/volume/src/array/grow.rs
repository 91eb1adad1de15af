//! Growth of an array: its writes to the legs, in an order that a crash may interrupt anywhere.
//!
//! The space after a leg's data may hold old data, or the superblock of a shorter leg. So the new
//! part is zeroed on all legs first, and the new map marks it clean. The array keeps its old size
//! until a superblock has the new one; until then the new map matches the old map in the old part,
//! and a page with larger regions is not mistaken for an old one.

use block::{Plant, planted};

use super::assemble::{Assembly, Found, Maps, copies_of};
use super::error::ArrayError;
use super::map::{Map, PAGE_BYTES, region_bytes};
use super::pages_of;
use super::superblock::{DATA_OFFSET, LegState, SUPERBLOCK_BYTES, Superblock, data_bytes};

/// A planned growth.
pub struct Growth {
    old: Superblock,
    bytes: u64,
    map: Map,
    /// Each member's index among the legs found, and its size in bytes.
    legs: Vec<(usize, u64)>,
    /// Superblock copy of each leg that is written first.
    first: Vec<usize>,
}

/// One write, durable before the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The leg, by its index among those found.
    pub leg: usize,
    /// Offset on the leg.
    pub offset: u64,
    /// Content.
    pub put: Put,
}

/// Data to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Put {
    /// A superblock, or a page of the map.
    Bytes(Box<[u8; PAGE_BYTES]>),
    /// This many zero bytes.
    Zeroes(u64),
}

const _: () = assert!(PAGE_BYTES == SUPERBLOCK_BYTES);

impl Growth {
    /// Plans growth to `bytes`, or as far as the smallest leg allows. `maps` are those of the legs
    /// that are in.
    ///
    /// # Errors
    ///
    /// The reason why the array cannot grow.
    pub fn new(
        array: &str,
        found: &[Found],
        assembly: &Assembly,
        maps: &Maps,
        bytes: Option<u64>,
    ) -> Result<Growth, ArrayError> {
        let old = &assembly.newest;
        let wrong = |why: String| Err(ArrayError::Change { array: array.to_owned(), why });
        let mut legs = Vec::new();
        for (number, (member, place)) in old.members.iter().zip(&assembly.places).enumerate() {
            match (place, member.state) {
                (Some(place), LegState::In | LegState::Spare) => {
                    legs.push((*place, found[*place].bytes));
                }
                (None, _) => {
                    let number = number + 1;
                    return wrong(format!(
                        "leg {number} is missing: name it, or remove it with `drumfire volume \
                        remove`, then grow"
                    ));
                }
                (Some(place), LegState::Out | LegState::Syncing) => {
                    let (number, name) = (number + 1, &found[*place].name);
                    return wrong(format!(
                        "leg {number} ({name}) is stale: serve the array until the leg is in \
                        sync, or remove it with `drumfire volume remove`, then grow"
                    ));
                }
            }
        }
        let Some((smallest, leg_bytes)) = legs.iter().copied().min_by_key(|(_, bytes)| *bytes)
        else {
            return wrong("no legs".to_owned());
        };
        let (most, name) = (data_bytes(leg_bytes), &found[smallest].name);
        let wanted = bytes.unwrap_or(most);
        if wanted > most || (bytes.is_none() && most <= old.bytes) {
            return wrong(format!(
                "the smallest leg, {name}, limits the capacity to {most} bytes: replace it by a \
                larger one with `drumfire volume replace`"
            ));
        }
        if wanted <= old.bytes || !wanted.is_multiple_of(1 << 16) {
            let now = old.bytes;
            return wrong(format!(
                "{wanted} bytes: a multiple of 64 KiB above the current {now}, maximum {most}"
            ));
        }
        let map = Map::read(old.bytes, maps).grown(wanted);
        let first = assembly.first.clone();
        Ok(Growth { old: old.clone(), bytes: wanted, map, legs, first })
    }

    /// The new capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Lists all writes; `tag` names the generation that has the new size.
    pub fn steps(&self, tag: u64) -> Vec<Step> {
        let mut new = self.old.clone();
        new.advance(tag);
        (new.bytes, new.region_bytes) = (self.bytes, region_bytes(self.bytes));
        let block = |(number, round): (usize, usize)| {
            let ((leg, bytes), member) = (self.legs[number], &new.members[number]);
            let offset = copies_of(bytes)[self.first[number] ^ round];
            Step { leg, offset, put: Put::Bytes(Box::new(new.encode(member.uuid))) }
        };
        let numbers = || 0..self.legs.len();
        let shown = numbers().map(|number| (number, 0)).chain(numbers().map(|number| (number, 1)));
        let shown: Vec<Step> = shown.map(block).collect();
        let mut steps = Vec::new();
        if planted(Plant::GrowEarly) {
            steps.extend(shown.clone());
        }
        let (from, len) = (DATA_OFFSET + self.old.bytes, self.bytes - self.old.bytes);
        for (leg, _) in self.legs.iter().filter(|_| !planted(Plant::GrowUnzeroed)) {
            steps.push(Step { leg: *leg, offset: from, put: Put::Zeroes(len) });
        }
        let pages = pages_of(&self.map, self.old.array);
        // Leg by leg: if the region size grows, one leg has a complete map of the old size until
        // the last leg is written.
        for (leg, _) in &self.legs {
            steps.extend(pages.iter().enumerate().map(|(page, bytes)| Step {
                leg: *leg,
                offset: self.map.version(page).place(page),
                put: Put::Bytes(Box::new(*bytes)),
            }));
        }
        steps.extend(shown);
        steps
    }
}

#[cfg(test)]
mod test;
