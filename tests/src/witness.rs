//! A model of a volume's valid contents after its server died: tracks each write and its
//! completion.
//!
//! A unit of 4 KiB has at most one write in flight, so its writes are ordered. The last durable
//! content and any later one are valid.

use std::collections::HashMap;
use std::io::Result;

use crate::{Nbd, NbdCommand};

/// Bytes of a unit.
pub const UNIT_BYTES: usize = 4096;
/// Queue depth of each connection.
const WINDOW: usize = 12;
/// Units of a read.
const READ_UNITS: usize = 64;
/// Longest write, in units.
const UNITS_MAX: u64 = 20;

/// A random number generator with a seed.
#[derive(Clone, Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (x ^ x >> 31) % limit
    }
}

/// Valid contents of a unit by their number, 0 for zeroes, from the last durable one on.
#[derive(Clone, Debug)]
struct Unit {
    may: Vec<u64>,
    /// Number of contents before these.
    before: u64,
    under_way: bool,
    /// Number of contents until a flush failed: later flushes do not cover them.
    lost: u64,
}

impl Unit {
    /// Records that the unit's first `count` contents completed, and the last of them is durable.
    fn is_durable(&mut self, count: u64) {
        if count <= self.lost {
            return;
        }
        let gone = count.saturating_sub(self.before + 1);
        self.before += gone;
        self.may.drain(..gone as usize);
    }

    fn count(&self) -> u64 {
        self.before + self.may.len() as u64
    }
}

/// A request in flight.
struct Asked {
    units: std::ops::Range<usize>,
    fua: bool,
    /// For a flush: contents of each unit completed when it was sent.
    answered: Option<Vec<u64>>,
}

/// The model.
pub struct Witness {
    units: Vec<Unit>,
    writes: u64,
    /// Writes that completed and were durable when the server died.
    pub durable: u64,
}

impl Witness {
    /// Creates a witness of a volume of `bytes` bytes, all zeroes.
    pub fn new(bytes: u64) -> Witness {
        let unit = Unit { may: vec![0], before: 0, under_way: false, lost: 0 };
        Witness { units: vec![unit; bytes as usize / UNIT_BYTES], writes: 0, durable: 0 }
    }

    /// Writes and flushes on these connections until `answers` responses came, then calls `kill`
    /// with more in flight, and receives the remaining responses.
    ///
    /// # Errors
    ///
    /// Errors of the sockets before the kill, and a failed request.
    pub fn burst(
        &mut self,
        ways: &mut [Nbd],
        chance: &mut Chance,
        answers: u64,
        kill: impl FnOnce(),
    ) -> Result<()> {
        let mut asked: HashMap<u64, Asked> = HashMap::new();
        let mut on_way = vec![0_usize; ways.len()];
        let mut heard = 0;
        while heard < answers {
            let way = chance.below(ways.len() as u64) as usize;
            while on_way[way] < WINDOW {
                let cookie = (self.writes << 8) | way as u64;
                let request = self.ask(&mut ways[way], chance, cookie)?;
                asked.insert(cookie, request);
                on_way[way] += 1;
            }
            let (cookie, done) = ways[way].answer()?;
            assert!(done, "a request failed before the server died");
            on_way[way] -= 1;
            heard += 1;
            self.hear(asked.remove(&cookie).expect("it was asked"));
        }
        std::thread::sleep(std::time::Duration::from_micros(chance.below(3000)));
        kill();
        for way in ways {
            while let Ok((cookie, done)) = way.answer() {
                let request = asked.remove(&cookie).expect("it was asked");
                if done {
                    self.hear(request);
                }
            }
        }
        self.units.iter_mut().for_each(|unit| unit.under_way = false);
        Ok(())
    }

    /// Writes and flushes on these connections until `answers` responses came, calls `act` in the
    /// middle of them, and receives the remaining responses. Requests may fail: a failed write may
    /// be executed or not, and changes that a failed flush should have covered may be lost. Returns
    /// the number of failures.
    ///
    /// # Errors
    ///
    /// Errors of the sockets.
    pub fn ride(
        &mut self,
        ways: &mut [Nbd],
        chance: &mut Chance,
        answers: u64,
        act: impl FnOnce(),
    ) -> Result<u64> {
        let mut asked: HashMap<u64, Asked> = HashMap::new();
        let mut on_way = vec![0_usize; ways.len()];
        let (mut act, mut heard, mut failed) = (Some(act), 0, 0);
        while heard < answers || !asked.is_empty() {
            let way = chance.below(ways.len() as u64) as usize;
            while heard < answers && on_way[way] < WINDOW {
                let cookie = (self.writes << 8) | way as u64;
                let request = self.ask(&mut ways[way], chance, cookie)?;
                asked.insert(cookie, request);
                on_way[way] += 1;
            }
            if heard >= answers / 2 {
                act.take().into_iter().for_each(|act| act());
            }
            if on_way[way] == 0 {
                continue;
            }
            let (cookie, done) = ways[way].answer()?;
            on_way[way] -= 1;
            heard += 1;
            let request = asked.remove(&cookie).expect("it was asked");
            if done {
                self.hear(request);
                continue;
            }
            failed += 1;
            if request.answered.is_some() {
                self.may_have_lost();
            }
            self.units[request.units].iter_mut().for_each(|unit| unit.under_way = false);
        }
        Ok(failed)
    }

    /// Records a failed flush: completed writes may be lost, even if later flushes succeed.
    pub fn may_have_lost(&mut self) {
        for unit in &mut self.units {
            // Also a write whose response is in flight.
            unit.lost = unit.count();
        }
    }

    fn ask(&mut self, way: &mut Nbd, chance: &mut Chance, cookie: u64) -> Result<Asked> {
        self.writes += 1;
        if chance.below(12) == 0 {
            let answered = |unit: &Unit| unit.count() - u64::from(unit.under_way);
            let answered = Some(self.units.iter().map(answered).collect());
            way.send(NbdCommand::Flush, false, cookie, (0, 0), &[])?;
            return Ok(Asked { units: 0..0, fua: false, answered });
        }
        // Some writes go to a few units, which are thus written repeatedly.
        let hot = chance.below(3) == 0;
        let places = if hot { 64 } else { self.units.len() as u64 };
        let (first, len) = loop {
            let first = chance.below(places) as usize;
            let len = (1 + chance.below(UNITS_MAX)).min(1 + chance.below(UNITS_MAX)) as usize;
            let len = len.min(self.units.len() - first);
            if self.units[first..first + len].iter().all(|unit| !unit.under_way) {
                break (first, len);
            }
        };
        let (fua, zeroes) = (chance.below(4) == 0, chance.below(10) == 0);
        let content = if zeroes { 0 } else { self.writes };
        for unit in &mut self.units[first..first + len] {
            unit.may.push(content);
            unit.under_way = true;
        }
        let place = ((first * UNIT_BYTES) as u64, (len * UNIT_BYTES) as u32);
        if zeroes {
            way.send(NbdCommand::WriteZeroes, fua, cookie, place, &[])?;
        } else {
            let data: Vec<u8> = (first..first + len).flat_map(|at| stamp(at, content)).collect();
            way.send(NbdCommand::Write, fua, cookie, place, &data)?;
        }
        Ok(Asked { units: first..first + len, fua, answered: None })
    }

    /// Records a completed request.
    fn hear(&mut self, asked: Asked) {
        for unit in &mut self.units[asked.units] {
            unit.under_way = false;
            if asked.fua {
                self.durable += 1;
                unit.lost = 0;
                unit.is_durable(unit.count());
            }
        }
        for (unit, count) in self.units.iter_mut().zip(asked.answered.into_iter().flatten()) {
            self.durable += u64::from(count > unit.before + 1);
            unit.is_durable(count);
        }
    }

    /// Reads everything and returns each invalid unit in words. If there is none, flushes: the data
    /// read are durable from then on.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn look(&mut self, way: &mut Nbd) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        for first in (0..self.units.len()).step_by(READ_UNITS) {
            let units = READ_UNITS.min(self.units.len() - first);
            let place = ((first * UNIT_BYTES) as u64, (units * UNIT_BYTES) as u32);
            let data = way.read(place.0, place.1)?;
            for (at, held) in (first..).zip(data.chunks_exact(UNIT_BYTES)) {
                let unit = &mut self.units[at];
                let number = u64::from_le_bytes(held[..8].try_into().expect("eight"));
                let may = unit.may.contains(&number) && held == stamp(at, number);
                match may {
                    true => unit.may = vec![number],
                    false => {
                        let may = &unit.may;
                        wrong.push(format!("unit {at} holds {number:#x}, and may hold {may:x?}"));
                    }
                }
                (unit.before, unit.lost) = (0, 0);
            }
        }
        Ok(wrong)
    }
}

/// Content of a unit by its write's number, unique to both; zeroes for 0.
fn stamp(at: usize, content: u64) -> Vec<u8> {
    if content == 0 {
        return vec![0; UNIT_BYTES];
    }
    let step = (content << 20 ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(UNIT_BYTES);
    let mut word = content;
    while bytes.len() < UNIT_BYTES {
        bytes.extend_from_slice(&word.to_le_bytes());
        word = word.wrapping_add(step);
    }
    bytes
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_what_was_answered_before_a_flush_is_durable_by_it() {
        let mut unit = Unit { may: vec![0], before: 0, under_way: false, lost: 0 };
        unit.may.extend([5, 6, 7]);
        unit.is_durable(3);
        assert_eq!((unit.may.clone(), unit.count()), (vec![6, 7], 4));
        // An older flush that completes later changes nothing.
        unit.is_durable(2);
        assert_eq!(unit.may, [6, 7]);
        unit.is_durable(unit.count());
        assert_eq!((unit.may.clone(), unit.count()), (vec![7], 4));
        // Writes that a failed flush did not cover stay uncertain, until something newer is
        // durable.
        unit.may.push(8);
        unit.lost = unit.count();
        unit.is_durable(5);
        assert_eq!(unit.may, [7, 8]);
        unit.may.push(9);
        unit.is_durable(6);
        assert_eq!(unit.may, [9]);
    }
}
