//! An emulated drive: data of another volume, with completions delayed by a model.
//!
//! [`DelayLane`] over a null volume in virtual time is the simulated drive.

mod profile;

use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use block::{Backing, Done, Fault, Geometry, Io, Lane, Nanos, Op, Tag};
use model::Extent;
use model::device::{Machine, Profile, Way, Ways};
use os::Core;

pub use self::profile::ProfileError;
use self::profile::{Found, TEXT_BYTES_MAX, load};
use crate::watch::watch;
use crate::{Ground, Hints, OpenError, Volume, null};

/// Suffix of a profile's name: accept it although its fit is poor.
const ANYWAY: &str = ",anyway";

/// A volume behind a modelled drive. The profile's file may change during use: I/Os in flight keep
/// their times, later ones follow the new profile.
pub(crate) struct Delay {
    inner: Arc<dyn Volume>,
    drive: Arc<Drive>,
    about: String,
}

/// The emulated drive; changes of the profile's file apply to it.
struct Drive {
    machine: Arc<Machine>,
    /// Accept a profile although its fit is poor.
    anyway: bool,
    changes: Mutex<Changes>,
}

/// Changes of the profile so far.
#[derive(Default)]
struct Changes {
    count: u64,
    /// Name of the last profile.
    name: String,
    /// Reason why the last profile was refused.
    refused: Option<String>,
    /// Lines not reported yet.
    news: Vec<String>,
}

impl Delay {
    pub(crate) fn open(name: &str, inner: Arc<dyn Volume>) -> Result<Delay, OpenError> {
        let (file, anyway) = match name.strip_suffix(ANYWAY) {
            Some(file) => (file, true),
            None => (name, false),
        };
        let Found { profile, is_file } = load(file).map_err(OpenError::Profile)?;
        let refuse = |reason| OpenError::Profile(ProfileError { name: name.to_owned(), reason });
        if let (Err(why), false) = (profile.usable(), anyway) {
            return Err(refuse(format!("{why}; delay:{name}{ANYWAY}(...) accepts it")));
        }
        let machine = Machine::new(profile.network(1), ways(&profile), chance());
        let machine = Arc::new(machine.map_err(|error| refuse(error.to_string()))?);
        machine.set_depth(profile.queue_depth.unwrap_or(u32::MAX));
        let about = match profile.scatter_is_known() {
            Some(source) => format!("emulates {}, calibrated by {source}", profile.name),
            None => format!(
                "emulates {}, not calibrated: percentiles are not those of the drive",
                profile.name
            ),
        };
        let drive = Arc::new(Drive { machine, anyway, changes: Mutex::default() });
        if is_file {
            watch(file.into(), TEXT_BYTES_MAX, Arc::downgrade(&drive), Drive::change);
        }
        Ok(Delay { inner, drive, about })
    }

    fn around(&self, inner: Box<dyn Lane>) -> Box<dyn Lane> {
        let lane = DelayLane::new(self.drive.machine.clone(), 0, u32::MAX, inner);
        Box::new(DelayLane { wakes: true, ..lane })
    }
}

impl Drive {
    /// Applies a new profile; an invalid one changes nothing.
    fn change(&self, text: Result<String, String>) {
        let taken = text.and_then(|text| Profile::parse(&text)).and_then(|profile| {
            if !self.anyway {
                profile.usable()?;
            }
            let replaced = self.machine.replace(profile.network(1), ways(&profile));
            replaced.map_err(|error| error.to_string())?;
            self.machine.set_depth(profile.queue_depth.unwrap_or(u32::MAX));
            Ok(profile.name)
        });
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        match taken {
            Ok(name) => {
                changes.news.push(format!("the profile changed to {name}"));
                (changes.count, changes.name, changes.refused) = (changes.count + 1, name, None);
            }
            Err(reason) => {
                let reason = reason.lines().collect::<Vec<_>>().join("; ");
                let line =
                    format!("the changed profile is invalid, the old one stays in use: {reason}");
                changes.news.push(line);
                changes.refused = Some(reason);
            }
        }
    }

    /// Changes since the last call, a line each.
    fn news(&self) -> Vec<String> {
        std::mem::take(&mut self.changes.lock().unwrap_or_else(PoisonError::into_inner).news)
    }

    /// Changes so far, in words.
    fn incidents(&self) -> Vec<String> {
        let changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Changes { count, name, refused, .. } = &*changes;
        let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
        let taken = (*count > 0)
            .then(|| format!("the profile changed {times} during the run, last to {name}"));
        let refused = refused.as_ref().map(|reason| {
            format!(
                "the last change of the profile was invalid and not applied: {}",
                reason.trim_end()
            )
        });
        taken.into_iter().chain(refused).collect()
    }
}

/// The routes of I/Os through a drive of a profile.
fn ways(profile: &Profile) -> Ways {
    let own = profile.clone();
    Box::new(move |way| Ok(own.route(1, way.drive, way.op, way.len_bytes)))
}

impl Volume for Delay {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(self.inner.lane(core)?))
    }

    fn begin_lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(self.inner.begin_lane(core)?))
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        Ok(self.around(self.inner.hinted_lane(core, hints)?))
    }

    fn read_in(&self, part: Range<u64>, goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        self.inner.read_in(part, goes_on)
    }

    fn below(&self) -> Vec<&dyn Volume> {
        vec![&*self.inner]
    }

    fn kind(&self) -> &'static str {
        "emulated drive"
    }

    fn ground(&self) -> Ground {
        self.inner.ground()
    }

    fn backing(&self) -> Backing {
        Backing::Emulated(self.about.clone()).with(self.inner.backing())
    }

    fn news(&self) -> Vec<String> {
        self.drive.news().into_iter().chain(self.inner.news()).collect()
    }

    fn own_incidents(&self) -> Vec<String> {
        self.drive.incidents()
    }
}

/// A random seed: different for each drive and run. A fixed seed would make nothing repeatable in
/// real time.
fn chance() -> u64 {
    RandomState::new().hash_one(())
}

/// A lane to one drive of `machine` that stores nothing. At most `depth` I/Os are in the drive at
/// once. The lane never requests a poll: [`Machine::advance`] returns the completions.
pub fn simulated(
    machine: &Arc<Machine>,
    drive: u32,
    depth: u32,
    geometry: Geometry,
) -> Box<dyn Lane> {
    let inner = null::lane(geometry);
    Box::new(DelayLane::new(machine.clone(), drive, depth, inner))
}

/// Holds each completion of another lane back until it is due by the model.
///
/// Faults are delayed, too: a drive needs time to detect them. The model's queue depth applies per
/// lane; I/Os beyond that depth stay with the caller.
struct DelayLane {
    machine: Arc<Machine>,
    /// The drive's number in the machine.
    number: usize,
    drive: u32,
    depth: usize,
    inner: Box<dyn Lane>,
    /// Wakes at the model's times; otherwise the caller watches them.
    wakes: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// I/Os for the inner lane, with the model's view of each.
    batch: VecDeque<Io>,
    ways: Vec<(u32, Way, Extent)>,
    finished: Vec<Done>,
    due: Vec<u32>,
    /// Completions that are due.
    ready: Vec<Done>,
    broken: Option<String>,
}

/// An I/O in flight.
struct Slot {
    /// Tag of the submitter.
    tag: Tag,
    /// The model has released the I/O.
    due: bool,
    done: Option<Done>,
}

impl DelayLane {
    fn new(machine: Arc<Machine>, drive: u32, depth: u32, inner: Box<dyn Lane>) -> DelayLane {
        DelayLane {
            number: machine.join(),
            machine,
            drive,
            depth: depth as usize,
            inner,
            wakes: false,
            slots: Vec::new(),
            free: Vec::new(),
            batch: VecDeque::new(),
            ways: Vec::new(),
            finished: Vec::new(),
            due: Vec::new(),
            ready: Vec::new(),
            broken: None,
        }
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    fn take_slot(&mut self, tag: Tag) -> u32 {
        let slot = Slot { tag, due: false, done: None };
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() as u32 - 1
            }
        }
    }

    /// Collects completions of the inner lane.
    fn gather(&mut self, now: Nanos) {
        self.inner.poll(now, &mut self.finished);
        let mut finished = std::mem::take(&mut self.finished);
        for done in finished.drain(..) {
            let index = done.tag.0 as u32;
            self.slots[index as usize].done = Some(done);
            self.answer(index);
        }
        self.finished = finished;
    }

    /// Completes an I/O that is both done and due.
    fn answer(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.due
            && let Some(done) = slot.done.take()
        {
            self.ready.push(Done { tag: slot.tag, ..done });
            self.free.push(index);
        }
    }

    /// Handles a failure of the model: no I/O waits for it any more.
    #[cold]
    fn give_up(&mut self, why: String) {
        self.broken = Some(why);
        for index in 0..self.slots.len() as u32 {
            if !self.free.contains(&index) {
                self.slots[index as usize].due = true;
                self.answer(index);
            }
        }
    }

    fn refuse(&mut self, ios: &mut VecDeque<Io>) {
        self.ready.extend(ios.drain(..).map(|io| io.failed(Fault::Disconnected)));
    }
}

impl Lane for DelayLane {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if self.broken.is_some() {
            self.refuse(ios);
        }
        let depth = self.depth.min(self.machine.depth() as usize);
        let within = self.inner.geometry().bytes();
        while self.in_flight() < depth
            && let Some(mut io) = ios.pop_front()
        {
            let way = Way { drive: self.drive, op: io.op, len_bytes: io.len };
            let index = self.take_slot(io.tag);
            let bytes = if matches!(io.op, Op::Read | Op::Write) { io.len } else { 0 };
            let write = io.op == Op::Write;
            self.ways.push((index, way, Extent { offset: io.offset, bytes, within, write }));
            io.tag = Tag(u64::from(index));
            self.batch.push_back(io);
        }
        self.inner.submit(now, &mut self.batch);
        // I/Os beyond the inner lane's room stay with the caller, as if never submitted.
        while let Some(mut io) = self.batch.pop_back() {
            let index = io.tag.0 as u32;
            io.tag = self.slots[index as usize].tag;
            self.free.push(index);
            self.ways.pop();
            ios.push_front(io);
        }
        if !self.ways.is_empty() {
            let begun = self.machine.begin(now, self.number, self.ways.drain(..));
            if let Err(error) = begun {
                self.give_up(error.to_string());
            }
        }
        // Ready completions need no further turn.
        if self.inner.wake().is_some_and(|at| at <= now) {
            self.gather(now);
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        self.gather(now);
        self.machine.due(now, self.number, &mut self.due);
        let mut due = std::mem::take(&mut self.due);
        for index in due.drain(..) {
            self.slots[index as usize].due = true;
            self.answer(index);
        }
        self.due = due;
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        if !self.ready.is_empty() {
            return Some(Nanos(0));
        }
        let model = if self.wakes { self.machine.wake(self.number) } else { None };
        match (self.inner.wake(), model) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn inner(&self) -> Option<&dyn Lane> {
        Some(&*self.inner)
    }

    fn broken(&self) -> Option<&str> {
        self.broken.as_deref().or_else(|| self.inner.broken())
    }

    fn close(&mut self, now: Nanos) -> bool {
        self.inner.close(now) && self.in_flight() == 0
    }
}

#[cfg(test)]
mod test;
