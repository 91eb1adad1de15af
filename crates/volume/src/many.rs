//! Opens many volumes or lanes at once, waiting for remote ones in parallel.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use block::{Lane, Nanos};
use os::Core;

use crate::{OpenError, Purpose, Uri, Volume, open};

/// Volumes opened at once. Each takes round trips of a login; more would only queue up in the
/// target.
const AT_ONCE: usize = 32;
/// Time limit of the logins.
const OPENING: Nanos = Nanos::from_secs(20);

/// Opens volumes as [`open`] does, several at once, in the order of `wanted`.
///
/// # Errors
///
/// The first volume in order that cannot be opened; those after it may not have been tried.
pub fn open_all(wanted: &[(Uri, Purpose)]) -> Result<Vec<Arc<dyn Volume>>, OpenError> {
    let next = AtomicUsize::new(0);
    let found: Vec<_> = wanted.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some((uri, purpose)) = wanted.get(index) else { return };
            let opened = open(uri, *purpose);
            if opened.is_err() {
                // Earlier volumes are already being opened, so the first error is among the
                // results.
                next.store(wanted.len(), Ordering::Relaxed);
            }
            *found[index].lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
        }
    };
    std::thread::scope(|scope| {
        // If a thread cannot be started, the others do the work.
        for _ in 1..AT_ONCE.min(wanted.len()) {
            let _ = std::thread::Builder::new().name("open".to_owned()).spawn_scoped(scope, work);
        }
        work();
    });
    let found =
        found.into_iter().map(|one| one.into_inner().unwrap_or_else(PoisonError::into_inner));
    // After an error there may be volumes that were not tried.
    found.map_while(|one| one).collect()
}

/// Waits until all lanes begun with [`Volume::begin_lane`] on a core are open.
///
/// # Errors
///
/// Index of the lane that failed to open, and the reason.
pub fn await_open(core: &Core, lanes: &mut [Box<dyn Lane>]) -> Result<(), (usize, String)> {
    let give_up = core.now() + OPENING;
    let (mut done, mut ios, mut ready) = (Vec::new(), VecDeque::new(), Vec::new());
    loop {
        let now = core.now();
        let mut waiting = None;
        let mut wake = give_up;
        for (index, lane) in lanes.iter_mut().enumerate().filter(|(_, lane)| !lane.is_open()) {
            lane.poll(now, &mut done);
            lane.submit(now, &mut ios);
            if let Some(why) = lane.broken() {
                return Err((index, why.to_owned()));
            }
            if !lane.is_open() {
                waiting.get_or_insert(index);
                wake = lane.wake().map_or(wake, |at| wake.min(at));
            }
        }
        let Some(first) = waiting else { return Ok(()) };
        if now > give_up {
            return Err((first, "timed out while connecting".to_owned()));
        }
        ready.clear();
        core.turn(Some(wake), &mut ready).map_err(|error| (first, error.to_string()))?;
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn volumes_come_in_the_order_that_was_asked_for() {
        let wanted: Vec<(Uri, Purpose)> = (1..200)
            .map(|mib: u32| (format!("null:{mib}m").parse().unwrap(), Purpose::Read))
            .collect();
        let opened = open_all(&wanted).unwrap();
        let sizes: Vec<u64> = opened.iter().map(|volume| volume.geometry().bytes() >> 20).collect();
        assert_eq!(sizes, (1..200).collect::<Vec<u64>>());
        assert!(open_all(&[]).unwrap().is_empty());
    }

    #[test]
    fn the_first_that_cannot_be_opened_is_named() {
        for bad in [0, 40, 99] {
            let uri = |index: usize| match index >= bad {
                true => format!("file:/nowhere/{index}").parse().unwrap(),
                false => "null:1m".parse().unwrap(),
            };
            let wanted: Vec<(Uri, Purpose)> =
                (0..100).map(|index| (uri(index), Purpose::Read)).collect();
            let error = open_all(&wanted).err().expect("an error").to_string();
            assert!(error.starts_with(&format!("/nowhere/{bad}:")), "{error}");
        }
    }
}
