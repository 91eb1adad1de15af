//! A null volume stores nothing and completes at once: the upper bound of everything above it.

use std::collections::VecDeque;

use block::{Ahead, Backing, Cause, Change, Done, Geometry, Immediate, Io, Lane, Nanos, Op};
use os::Core;

use crate::call::Call;
use crate::{Ground, OpenError, Volume};

/// Discards writes; a read returns its buffer unchanged.
pub(crate) struct Null {
    pub(crate) geometry: Geometry,
    /// System call that replaces each I/O.
    pub(crate) call: Option<Call>,
}

impl Null {
    pub(crate) fn new(bytes: u64, block_bytes: u32) -> Null {
        Null { geometry: Geometry::new(bytes, block_bytes), call: None }
    }
}

impl Volume for Null {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        match &self.call {
            Some(call) => call.lane(self.geometry),
            None => Ok(lane(self.geometry)),
        }
    }

    fn ground(&self) -> Ground {
        self.call.as_ref().map_or(Ground::Nothing, Call::ground)
    }

    fn backing(&self) -> Backing {
        Backing::Nothing
    }

    fn kind(&self) -> &'static str {
        "null"
    }
}

/// A lane to a null volume.
pub(crate) fn lane(geometry: Geometry) -> Box<dyn Lane> {
    Box::new(NullLane { geometry, ready: Vec::with_capacity(1024) })
}

struct NullLane {
    geometry: Geometry,
    ready: Vec<Done>,
}

impl Lane for NullLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            let result = self.geometry.check(&io);
            self.ready.push(Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.ready);
    }

    fn wake(&self) -> Option<Nanos> {
        if self.ready.is_empty() { None } else { Some(Nanos(0)) }
    }

    fn immediate(&mut self) -> Option<&mut dyn Immediate> {
        Some(self)
    }
}

impl Immediate for NullLane {
    fn ahead(&mut self, _: Op, _: u64) -> Ahead {
        Ahead::NONE
    }

    fn read(&mut self, _: u64, _: &mut [u8], _: Ahead) {}

    fn change(&mut self, _: u64, _: Change<'_>, _: Ahead) {}
}
