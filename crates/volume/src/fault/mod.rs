//! A volume that misbehaves by a schedule: `fault:SCHEDULE(URI)`.
//!
//! Everything above it sees what a drive or a target of that kind would show: I/Os that fail, hang,
//! take long, are lost, torn, misplaced or damaged. Which I/Os are struck comes from the schedule's
//! seed and their order. A file of a schedule may be changed while the volume is used: what it held
//! is answered, and the new schedule's time begins.

mod cache;
mod cached;
mod history;
mod lane;
mod referee;
mod rule;
mod schedule;

use std::ops::Range;
use std::sync::Arc;

use block::{Geometry, Io, Lane, Nanos, Op, Tag};
use os::Core;

use self::cache::Counts;
use self::lane::FaultLane;
use self::referee::{Hold, Referee};
use self::schedule::{Schedule, TEXT_BYTES_MAX};
use crate::watch::watch;
use crate::{Gate, Ground, Hints, OpenError, Volume};

/// A volume whose I/Os meet faults.
pub(crate) struct Faulty {
    inner: Arc<dyn Volume>,
    referee: Arc<Referee>,
    about: String,
}

impl Faulty {
    pub(crate) fn open(name: &str, inner: Arc<dyn Volume>) -> Result<Faulty, OpenError> {
        let refuse = |reason| OpenError::Schedule { name: name.to_owned(), reason };
        let schedule = Schedule::load(name).map_err(refuse)?;
        let about = format!("injects faults by the schedule '{}'", schedule.name);
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

/// Up to which second a schedule is tried: longer than any time in one.
const TRIED_S: u64 = 3 * 366 * 86_400;

/// Reads a schedule and holds I/Os at growing times against it: how many it has struck. For those
/// who feed it with anything.
///
/// # Errors
///
/// Why the schedule makes no sense.
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
            // What is done goes to the volume, and no answer comes before the I/O.
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

    fn flushes_all(&self) -> bool {
        self.inner.flushes_all()
    }

    fn kind(&self) -> &'static str {
        "faulty volume"
    }

    fn transport(&self) -> &'static str {
        self.inner.transport()
    }

    fn ground(&self) -> Ground {
        self.inner.ground()
    }

    fn io_timeout(&self) -> Option<Nanos> {
        self.inner.io_timeout()
    }

    fn emulates(&self) -> Option<&str> {
        Some(&self.about)
    }

    fn incidents(&self) -> Option<String> {
        let (name, counts) = self.referee.strikes();
        let struck: Vec<String> = counts
            .iter()
            .enumerate()
            .filter(|(_, (_, strikes))| *strikes > 0)
            .map(|(index, (word, strikes))| format!("{word} (fault {}) {strikes}", index + 1))
            .collect();
        let struck = if struck.is_empty() { "none".to_owned() } else { struck.join(", ") };
        let mut words = format!("I/Os struck by the faults of '{name}': {struck}");
        let Counts { lies, lost } = self.referee.cache().counts();
        if lies > 0 {
            words += &format!("; the cache has lied about {lies} flushes and writes with FUA");
        }
        if lost > 0 {
            words += &format!("; cuts of the power have lost {lost} blocks of acknowledged writes");
        }
        if let Some(reason) = self.referee.refused() {
            words += &format!("; the last change of the schedule was not taken: {reason}");
        }
        Some(self.inner.incidents().into_iter().fold(words, |words, inner| words + "; " + &inner))
    }

    fn news(&self) -> Vec<String> {
        self.inner.news()
    }
}

#[cfg(test)]
mod crash_test;
#[cfg(test)]
mod test;
