//! Fault injection by a schedule: `fault:SCHEDULE(URI)`.
//!
//! I/Os fail, hang, take long, are lost, torn, misdirected or damaged, as on a failing drive or
//! target. The schedule's seed and the order of I/Os decide which ones. The file of a schedule may
//! change while the volume is used: held I/Os complete, and the new schedule's time begins.

mod cache;
mod cached;
mod history;
mod lane;
mod referee;
mod rule;
mod schedule;

use std::ops::Range;
use std::sync::Arc;

use block::{Backing, Geometry, Io, Lane, Nanos, Op, Tag};
use os::Core;

use self::cache::Counts;
use self::lane::FaultLane;
use self::referee::{Hold, Referee};
use self::schedule::{Schedule, TEXT_BYTES_MAX};
use crate::watch::watch;
use crate::{Gate, Ground, Hints, OpenError, Volume};

/// A volume with injected faults.
pub(crate) struct Faulty {
    inner: Arc<dyn Volume>,
    referee: Arc<Referee>,
    about: String,
}

impl Faulty {
    pub(crate) fn open(name: &str, inner: Arc<dyn Volume>) -> Result<Faulty, OpenError> {
        let refuse = |reason| OpenError::Schedule { name: name.to_owned(), reason };
        let schedule = Schedule::load(name).map_err(refuse)?;
        let about = format!("injects faults of schedule '{}'", schedule.name);
        let referee = Arc::new(Referee::new(schedule, inner.geometry()).map_err(refuse)?);
        if !Schedule::is_shipped(name) {
            let take = |referee: &Referee, text: Result<String, String>| {
                referee.replace(text.and_then(|text| Schedule::parse(&text)));
            };
            watch(name.into(), TEXT_BYTES_MAX, Arc::downgrade(&referee), take);
        }
        Ok(Faulty { inner, referee, about })
    }

    fn around(&self, core: &Core, inner: Box<dyn Lane>) -> Box<dyn Lane> {
        Box::new(FaultLane::new(self.referee.clone(), inner, core.pool().clone()))
    }
}

/// Seconds up to which a schedule is tried: beyond all times in it.
const TRIED_S: u64 = 3 * 366 * 86_400;

/// Parses a schedule and tries it on I/Os at growing times; returns the number of affected I/Os.
/// For fuzzing.
///
/// # Errors
///
/// The reason why the schedule is invalid.
pub fn try_schedule(text: &str) -> Result<u64, String> {
    let geometry = Geometry::new(1 << 20, 512);
    let referee = Referee::new(Schedule::parse(text)?, geometry)?;
    let (mut sentences, mut now) = (Vec::new(), Nanos(0));
    for tag in 0..64_u64 {
        let op = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes][tag as usize % 5];
        let (offset, len) = if op == Op::Flush { (0, 0) } else { (tag * 16384, 16384) };
        let io = Io { tag: Tag(tag), op, fua: tag % 3 == 0, len, offset, buf: None };
        referee.tick(now);
        referee.judge(now, [&io].into_iter(), &mut sentences);
        for sentence in sentences.drain(..) {
            // Executed I/Os stay within the volume, and no I/O completes before it began.
            let place = sentence.place.unwrap_or(offset);
            let len = u64::from(sentence.keep.unwrap_or(len));
            assert!(place + len <= geometry.bytes(), "beyond the volume");
            match sentence.due(now, now) {
                Hold::Until(at) => assert!(at >= now, "answered before it began"),
                Hold::No | Hold::Forever => {}
            }
        }
        now = Nanos(now.0 * 2 + 1_000_000).min(Nanos::from_secs(TRIED_S));
    }
    Ok(referee.strikes().1.iter().map(|(_, strikes)| strikes).sum())
}

impl Volume for Faulty {
    fn geometry(&self) -> Geometry {
        self.referee.geometry()
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(core, self.inner.lane(core)?))
    }

    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(core, self.inner.begin_lane(core)?))
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(core, self.inner.hinted_lane(core, hints)?))
    }

    fn gate(&self) -> Option<Arc<dyn Gate>> {
        Some(self.referee.clone())
    }

    fn read_in(&self, part: Range<u64>, goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        self.inner.read_in(part, goes_on)
    }

    fn below(&self) -> Vec<&dyn Volume> {
        vec![&*self.inner]
    }

    fn kind(&self) -> &'static str {
        "faulty volume"
    }

    fn ground(&self) -> Ground {
        self.inner.ground()
    }

    fn backing(&self) -> Backing {
        Backing::Faulty(self.about.clone()).with(self.inner.backing())
    }

    fn news(&self) -> Vec<String> {
        self.referee.news().into_iter().chain(self.inner.news()).collect()
    }

    fn own_incidents(&self) -> Vec<String> {
        let (name, counts) = self.referee.strikes();
        let struck: Vec<String> = counts
            .iter()
            .enumerate()
            .filter(|(_, (_, strikes))| *strikes > 0)
            .map(|(index, (word, strikes))| format!("{word} (fault {}) {strikes}", index + 1))
            .collect();
        let struck = if struck.is_empty() { "none".to_owned() } else { struck.join(", ") };
        let mut words = format!("I/Os affected by the faults of '{name}': {struck}");
        let Counts { lies, lost } = self.referee.cache().counts();
        if lies > 0 {
            words += &format!("; {lies} flushes and FUA writes were acknowledged but not executed");
        }
        if lost > 0 {
            words += &format!("; power cuts lost {lost} blocks of acknowledged writes");
        }
        if let Some(reason) = self.referee.refused() {
            words += &format!(
                "; the last change of the schedule was invalid and not applied: \
                {reason}"
            );
        }
        vec![words]
    }
}

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod test;
