//! The end of a story: everything is resynced, read and compared.

use block::{Nanos, Op};
use volume::array::DATA_OFFSET;

use super::super::disk::{Content, PAGE};
use super::{Away, PLACES, ROUNDS, Run};

impl Run {
    /// Ends a story: all legs return and are resynced; all data is read from each of them, and
    /// again after a crash.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.own_again();
        (0..self.legs).for_each(|leg| self.bring_back(leg));
        self.rest()?;
        if self.ends_with_writes {
            self.writes_go_on()?;
        }
        self.open_anew()?;
        for after_crash in [false, true] {
            if !self.sync(Nanos::from_secs(300), true)? {
                let process = self.process.as_ref().expect("it is open");
                let words = process.array.words().unwrap_or_default();
                return Err(format!("the legs are not made equal; {words}"));
            }
            self.read_all()?;
            self.compare()?;
            self.check_all()?;
            if !after_crash {
                self.crash()?;
                let behind = self.process.as_ref().map_or(0, |process| process.array.behind());
                if behind > 0 {
                    return Err(format!("{behind} regions are behind after a quiet time"));
                }
            }
        }
        Ok(())
    }

    /// Reopens an array whose last leg returned as an older image, which requires the user, or one
    /// that was opened without a leg.
    fn open_anew(&mut self) -> Result<(), String> {
        self.sync(Nanos::from_secs(30), false)?;
        let process = self.process.as_ref().expect("it is open");
        let is_missing = self.away.as_ref().is_some_and(Away::is_missing);
        if (self.has_older_image() || is_missing) && !process.keeper.is_whole() {
            self.crash()?;
        }
        Ok(())
    }

    fn read_all(&mut self) -> Result<(), String> {
        (0..self.blocks()).for_each(|block| self.submit(Op::Read, false, block..block + 1));
        self.rest()
    }

    /// A check of the array itself finds no difference, either.
    fn check_all(&mut self) -> Result<(), String> {
        self.order_check(false);
        let process = self.process.as_ref().expect("it is open");
        let array = process.array.clone();
        for _ in 0..ROUNDS {
            let report = array.checked();
            if report.has_ended {
                let different = report.different_bytes;
                return match different {
                    0 => Ok(()),
                    _ => Err(format!("a check finds {different} bytes that differ: {report:?}")),
                };
            }
            if !self.round()? {
                self.now = self.now + self.pause();
            }
        }
        Err("a check does not end".to_owned())
    }

    /// Checks that all legs that are in hold the same allowed data.
    fn compare(&mut self) -> Result<(), String> {
        let process = self.process.as_ref().expect("it is open");
        let in_it = process.array.in_it();
        let world = self.world.borrow();
        let mut legs = (0..self.legs).filter(|leg| in_it & 1 << leg != 0);
        let first = legs.next().ok_or("no leg is in")?;
        let data = world.legs[first].data(self.bytes);
        for leg in legs {
            let other = world.legs[leg].data(self.bytes);
            if other != data {
                return Err(format!("legs differ: {first} has {data:?}, {leg} has {other:?}"));
            }
        }
        for (block, place) in PLACES.into_iter().enumerate().take(self.blocks()) {
            let value = match data.get(&((DATA_OFFSET + place) / PAGE)) {
                Some(Content::Value(value)) => *value,
                _ => 0,
            };
            self.model[block].is_now(value);
        }
        Ok(())
    }
}
