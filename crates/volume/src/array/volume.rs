//! An array as a volume: opens and assembles the legs, and runs the keeper on a thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;

use block::{Geometry, Lane, Nanos, Pool, Rng};
use os::{Core, Waker};

use super::admin::suits;
use super::assemble::{Found, Maps, assemble, leave_older_images};
use super::desk::Desk;
use super::superblock::{LegState, Member};
use super::{
    Array, ArrayError, Assembly, CheckOrder, CheckReport, PAGE_BYTES, Page, Ways, copies_of,
    page_slots,
};
use crate::uri::ArrayUri;
use crate::{Ground, Hidden, Hints, OpenError, Purpose, Volume};

/// Time limit of the keeper to mark the map clean at the end.
///
/// Less than a program has after a signal. Unfinished regions, such as unreadable ones, stay
/// marked, and are copied after the next opening.
const CLOSING: Nanos = Nanos::from_secs(1);
/// Time between looks at the progress of a check.
const PROGRESS: std::time::Duration = std::time::Duration::from_millis(100);
/// Longest time between steps of the keeper.
const LOOK: Nanos = Nanos::from_millis(1000);

/// An open array.
pub(crate) struct ArrayVolume {
    /// Legs by number; `None` for absent ones.
    legs: Arc<[Option<Arc<dyn Volume>>]>,
    array: Array,
    geometry: Geometry,
    /// `None` for an array opened read-only.
    thread: Option<Arc<Thread>>,
    notes: Vec<String>,
    /// Number of legs in the superblocks, without spares.
    members: usize,
}

/// Legs that were read, and the array they make.
pub(super) struct Opened {
    pub(super) desks: Vec<Desk>,
    pub(super) found: Vec<Found>,
    pub(super) assembly: Assembly,
    pub(super) maps: Maps,
}

/// Opens and assembles the legs of an array without writing.
pub(super) fn look(uri: &ArrayUri, writes: bool) -> Result<Opened, OpenError> {
    let purpose = if writes { Purpose::Store } else { Purpose::Read };
    let (mut desks, mut lost) = (Vec::new(), Vec::new());
    for leg in &uri.legs {
        suits(&uri.name, leg)?;
        match Desk::open(leg, purpose) {
            Ok(desk) => desks.push(desk),
            // The leg is not lost, but in use by another process.
            Err(why @ (OpenError::Locked { .. } | OpenError::InUse { .. })) => return Err(why),
            Err(why) => lost.push(why.to_string()),
        }
    }
    let found: Vec<Found> = desks.iter_mut().map(Desk::found).collect();
    if found.is_empty() {
        let (array, why) = (uri.name.clone(), lost.join(", "));
        return Err(ArrayError::Io { array, leg: "no leg is available".to_owned(), why }.into());
    }
    let mut assembly = assemble(&uri.name, &found, &lost, uri.degraded)?;
    let maps = read_maps(&mut desks, &assembly);
    let maps = leave_older_images(&uri.name, &mut assembly, maps)?;
    desks.iter().for_each(Desk::looked);
    Ok(Opened { desks, found, assembly, maps })
}

/// The maps on the legs that are in.
fn read_maps(desks: &mut [Desk], assembly: &Assembly) -> Maps {
    let block = &assembly.newest;
    let mut maps = Vec::new();
    for (number, (place, member)) in assembly.places.iter().zip(&block.members).enumerate() {
        let Some(place) = place.filter(|_| member.state == LegState::In) else { continue };
        let page = |page: usize| {
            let slots = page_slots(page).map(|at| desks[place].read(at, PAGE_BYTES).ok());
            let slots = slots.iter().flatten().map(|bytes| &bytes[..]);
            Page::newest(page, block.array, block.region_bytes, slots)
        };
        maps.push((number, (0..super::page_count(block.bytes)).map(page).collect()));
    }
    maps
}

impl ArrayVolume {
    pub(crate) fn open(uri: &ArrayUri, purpose: Purpose) -> Result<ArrayVolume, OpenError> {
        let Opened { desks, found, assembly, maps } = look(uri, purpose.writes())?;
        let block = &assembly.newest;
        let volume = |place: Option<usize>| Some(Arc::clone(&desks[place?].volume));
        let legs: Arc<[_]> = assembly.places.iter().map(|place| volume(*place)).collect();
        let name = |place: &Option<usize>| {
            place.map_or_else(|| "missing".to_owned(), |place| found[place].name.clone())
        };
        let names = assembly.places.iter().map(name).collect();
        let shapes: Vec<Geometry> = legs.iter().flatten().map(|leg| leg.geometry()).collect();
        let geometry = Geometry {
            read_only: !purpose.writes() || shapes.iter().any(|shape| shape.read_only),
            volatile: shapes.iter().any(|shape| shape.volatile),
            trim_zeroes: shapes.iter().all(|shape| shape.trim_zeroes),
            ..Geometry::new(block.bytes, block.block_bytes)
        };
        let present: Vec<_> = legs.iter().flatten().cloned().collect();
        let limit = uri.leg_timeout_seconds.map(|seconds| Nanos::from_secs(seconds.into()));
        let patience = limit.unwrap_or_else(|| crate::mirror::patience(&present));
        let array = Array::new(&assembly, names, &maps, geometry, patience);
        if purpose == Purpose::Write && array.is_written() {
            return Err(ArrayError::Written(uri.name.clone()).into());
        }
        // Lanes opened only to read the metadata.
        drop(desks);
        let thread = match purpose.writes() {
            true => {
                let every = uri.check_seconds.map(|seconds| Nanos::from_secs(seconds.into()));
                Some(Arc::new(Thread::start(&array, &assembly, &legs, every)?))
            }
            false => None,
        };
        let is_leg = |member: &&Member| member.state != LegState::Spare;
        let members = assembly.newest.members.iter().filter(is_leg).count();
        let notes = assembly.notes;
        Ok(ArrayVolume { legs, array, geometry, thread, notes, members })
    }
}

/// New lanes to the legs on a core; they keep the keeper's thread alive.
fn ways(core: &Core, legs: &Arc<[Option<Arc<dyn Volume>>]>, thread: Option<Arc<Thread>>) -> Ways {
    let (core, legs) = (core.clone(), Arc::clone(legs));
    Box::new(move |leg| {
        let _kept = &thread;
        let volume = legs[leg].as_ref().ok_or("it was missing when the array was opened")?;
        volume.begin_lane(&core).map_err(|error| error.to_string())
    })
}

/// Thread of the keeper. The thread ends with its last owner.
struct Thread {
    stop: Arc<AtomicBool>,
    waker: Waker,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Thread {
    fn start(
        array: &Array,
        assembly: &Assembly,
        legs: &Arc<[Option<Arc<dyn Volume>>]>,
        every: Option<Nanos>,
    ) -> Result<Thread, OpenError> {
        let (array, assembly, legs) = (array.clone(), assembly.clone(), Arc::clone(legs));
        let stop = Arc::new(AtomicBool::new(false));
        let (stops, (started, wait)) = (Arc::clone(&stop), mpsc::channel());
        let name = array.shared.name.clone();
        let failed = |why: String| OpenError::Leg { leg: format!("array {name}"), why };
        let body = move || match Core::open(Pool::new(64, 16)) {
            Ok(core) => match core.waker() {
                Ok((waker, _)) => {
                    array.shared.wakes(waker.clone());
                    let _ = started.send(Ok(waker));
                    keep(&core, &array, &assembly, &legs, (&stops, every));
                }
                Err(error) => drop(started.send(Err(error.to_string()))),
            },
            Err(error) => drop(started.send(Err(error.to_string()))),
        };
        let thread = std::thread::Builder::new().name("array".to_owned()).spawn(body);
        let handle = thread.map_err(|error| failed(error.to_string()))?;
        let died = |_| failed("its thread ended during startup".to_owned());
        let waker = wait.recv().map_err(died)?.map_err(failed)?;
        Ok(Thread { stop, waker, handle: Mutex::new(Some(handle)) })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.waker.wake();
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle {
            // A thread that panicked has reported it itself.
            let _ = handle.join();
        }
    }
}

/// Runs the keeper until it is stopped, then marks the map clean.
fn keep(
    core: &Core,
    array: &Array,
    assembly: &Assembly,
    legs: &Arc<[Option<Arc<dyn Volume>>]>,
    (stop, every): (&AtomicBool, Option<Nanos>),
) {
    let mut source = ways(core, legs, None);
    let lanes = (0..legs.len()).map(|leg| source(leg).ok()).collect();
    let place = |leg: &Option<Arc<dyn Volume>>| {
        copies_of(leg.as_ref().map_or(0, |leg| leg.geometry().bytes()))
    };
    let places = legs.iter().map(place).collect();
    let rng = Rng::new(os::random(), os::random());
    let fence = legs.iter().flatten().map(|leg| leg.fence_time()).max().unwrap_or(Nanos(0));
    let pool = core.pool().clone();
    let mut keeper = array.keeper(assembly, places, pool, rng, (lanes, source), fence);
    keeper.check_every(every);
    let mut ready = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let now = core.now();
        keeper.step(now);
        let wake = keeper.wake().map_or(now + LOOK, |at| at.min(now + LOOK));
        ready.clear();
        if core.turn(Some(wake), &mut ready).is_err() {
            return;
        }
    }
    let end = core.now() + CLOSING;
    while !keeper.close(core.now()) && core.now() < end {
        ready.clear();
        let wake = keeper.wake().map_or(end, |at| at.min(core.now() + Nanos::from_millis(1)));
        if core.turn(Some(wake), &mut ready).is_err() {
            return;
        }
    }
}

/// Opens an array, compares its legs and closes it. `goes_on` gets the findings so far several
/// times a second, and may end the check by returning false.
///
/// # Errors
///
/// The array cannot be opened.
pub fn check(
    uri: &ArrayUri,
    order: CheckOrder,
    goes_on: &mut dyn FnMut(&CheckReport, &[String]) -> bool,
) -> Result<CheckReport, OpenError> {
    let volume = ArrayVolume::open(uri, Purpose::Store)?;
    volume.array.order_check(order);
    loop {
        std::thread::sleep(PROGRESS);
        let report = volume.array.checked();
        let more = goes_on(&report, &volume.news());
        if report.has_ended || !more {
            return Ok(report);
        }
    }
}

impl Volume for ArrayVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.hinted_lane(core, Hints::default())
    }

    fn hinted_lane(&self, core: &Core, _: Hints) -> Result<Box<dyn Lane>, OpenError> {
        let mut source = ways(core, &self.legs, self.thread.clone());
        let lanes = (0..self.legs.len()).map(|leg| source(leg).ok()).collect();
        self.array.lane(lanes, source, core.pool().clone())
    }

    fn below(&self) -> Vec<&dyn Volume> {
        self.legs.iter().flatten().map(|leg| &**leg).collect()
    }

    fn kind(&self) -> &'static str {
        "array"
    }

    /// Local, whatever its legs are.
    fn transport(&self) -> &'static str {
        "local"
    }

    fn own_incidents(&self) -> Vec<String> {
        self.notes.iter().cloned().chain(self.array.words()).collect()
    }

    fn hidden(&self) -> Vec<Hidden> {
        let each = self.legs.iter().flatten().flat_map(|leg| leg.hidden());
        self.array.hidden(self.members).into_iter().chain(each).collect()
    }

    fn news(&self) -> Vec<String> {
        let each = self.legs.iter().flatten().flat_map(|leg| leg.news());
        self.array.news().into_iter().chain(each).collect()
    }

    fn ground(&self) -> Ground {
        Ground::Elsewhere
    }
}
