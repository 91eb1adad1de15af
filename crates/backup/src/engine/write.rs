//! The third stage: writes frames to the target.

use block::{Io, Nanos, Op, Tag};

use super::shared::{Packed, Shared};
use crate::stage::Watch;
use crate::way::{Waited, Way};

/// Interval in which a writer with writes in flight polls for more.
const GLANCE: Nanos = Nanos(500_000);

/// Writes until the compressors have ended.
pub(super) fn write(shared: &Shared, watch: &mut Watch) {
    // The target is not touched before there are data for it.
    let Some(first) = shared.packed.take() else { return watch.starved() };
    watch.starved();
    let mut way = match shared.target.way(shared.stop) {
        Ok(way) => way,
        Err(error) => return shared.fail(error),
    };
    let written = shared.begin_target(&mut way).and_then(|()| match way {
        Way::Lane(mut lane) => write_lane(shared, watch, &mut lane, first),
        way => write_calls(shared, watch, way, first),
    });
    if let Err(why) = written {
        let error = shared.failure(why);
        shared.fail(error);
    }
}

/// Writes one frame after the other with system calls.
fn write_calls(
    shared: &Shared,
    watch: &mut Watch,
    mut way: Way,
    first: Packed,
) -> Result<(), String> {
    let mut next = Some(first);
    while let Some(packed) = next {
        let buf = way.write(packed.at, packed.buf, packed.len)?;
        watch.worked();
        shared.count(packed.source_bytes);
        if shared.room.give(buf).is_err() {
            return Ok(());
        }
        next = shared.packed.take();
        watch.starved();
    }
    Ok(())
}

/// Keeps the volume's write queue full, and makes the written data durable.
fn write_lane(
    shared: &Shared,
    watch: &mut Watch,
    lane: &mut Waited,
    first: Packed,
) -> Result<(), String> {
    let places = shared.options.writers as usize;
    let mut done = Vec::new();
    lane.begin(io(first));
    loop {
        while lane.in_flight() < places {
            let next = match lane.in_flight() {
                0 => shared.packed.take(),
                _ => shared.packed.take_now(),
            };
            watch.shared(lane.in_flight(), places);
            match next {
                Some(packed) => lane.begin(io(packed)),
                None if lane.in_flight() == 0 => {
                    lane.flush()?;
                    watch.worked();
                    return Ok(());
                }
                None => break,
            }
        }
        let patience = if lane.in_flight() < places { GLANCE } else { Nanos::from_millis(100) };
        lane.turn(patience, &mut done)?;
        watch.shared(lane.in_flight() + done.len(), places);
        for one in done.drain(..) {
            one.result.map_err(|fault| format!("a write: {}", lane.words(fault, one.cause)))?;
            shared.count(one.tag.0);
            if shared.room.give(one.buf.expect("a write gives its buffer back")).is_err() {
                return Ok(());
            }
        }
    }
}

/// A write; its tag is the number of the source's bytes.
fn io(packed: Packed) -> Io {
    let Packed { at, len, source_bytes, buf } = packed;
    let (len, buf) = (len as u32, Some(buf));
    Io { tag: Tag(source_bytes), op: Op::Write, fua: false, len, offset: at, buf }
}
