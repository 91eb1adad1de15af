//! A volume in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use block::{
    Ahead, Backing, Cause, Change, Done, Geometry, Immediate, Io, Lane, Memory, Nanos, Op, splitmix,
};
use os::Core;
use os::cgroup::MemoryRoom;

use crate::{Ground, OpenError, Volume};

/// Memory of this process, shared by all cores without locks.
pub(crate) struct Ram {
    geometry: Geometry,
    memory: Memory,
    _share: Share,
}

/// Memory of all RAM volumes of this process. Pages are allocated when touched, so the available
/// memory does not count volumes that were just opened.
static WANTED: Mutex<Wanted> = Mutex::new(Wanted { bytes: 0, available_bytes: 0 });

struct Wanted {
    bytes: u64,
    /// Available when the first was opened, or more if that was more later.
    available_bytes: u64,
}

/// A volume's reservation.
struct Share(u64);

impl Share {
    /// Fails if there is not enough memory.
    fn take(bytes: u64) -> Result<Share, OpenError> {
        let mut wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = wanted.bytes.saturating_add(bytes);
        if let Some(room) = os::cgroup::memory_room() {
            let before = if wanted.bytes == 0 { 0 } else { wanted.available_bytes };
            wanted.available_bytes = room.available_bytes.max(before);
            if sum > wanted.available_bytes {
                let room = MemoryRoom { available_bytes: wanted.available_bytes, ..room };
                return Err(OpenError::NoMemory { wanted: sum, room });
            }
        }
        wanted.bytes = sum;
        Ok(Share(bytes))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        WANTED.lock().unwrap_or_else(PoisonError::into_inner).bytes -= self.0;
    }
}

impl Ram {
    pub(crate) fn new(bytes: u64, block_bytes: u32, fill: Option<u64>) -> Result<Ram, OpenError> {
        let geometry = Geometry { volatile: true, ..Geometry::new(bytes, block_bytes) };
        if geometry.blocks == 0 {
            return Err(OpenError::TooSmall("ram: volume".to_owned(), block_bytes));
        }
        let wanted = geometry.bytes();
        let share = Share::take(wanted)?;
        let memory = Memory::new(wanted).map_err(OpenError::Memory)?;
        if let Some(seed) = fill {
            fill_with_random(&memory, seed);
        }
        Ok(Ram { geometry, memory, _share: share })
    }
}

/// Fills the memory with data that cannot be compressed or deduplicated.
fn fill_with_random(memory: &Memory, seed: u64) {
    // A counter through a bijection: all words differ.
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut block = [0_u8; 4096];
    let mut at = 0;
    while at < memory.len_bytes() {
        for word in block.as_chunks_mut().0 {
            *word = splitmix(&mut state).to_le_bytes();
        }
        let len = (memory.len_bytes() - at).min(4096) as usize;
        memory.write(at, &block[..len]);
        at += len as u64;
    }
}

impl Volume for Ram {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        let memory = self.memory.clone();
        let ready = Vec::with_capacity(1024);
        Ok(Box::new(RamLane { geometry: self.geometry, memory, ready }))
    }

    fn ground(&self) -> Ground {
        Ground::Memory
    }

    fn backing(&self) -> Backing {
        Backing::Memory
    }

    fn kind(&self) -> &'static str {
        "RAM"
    }

    fn memory(&self) -> Option<Memory> {
        Some(self.memory.clone())
    }
}

struct RamLane {
    geometry: Geometry,
    memory: Memory,
    ready: Vec<Done>,
}

impl Immediate for RamLane {
    fn ahead(&mut self, _: Op, offset: u64) -> Ahead {
        self.memory.ahead(offset)
    }

    #[inline]
    fn read(&mut self, offset: u64, to: &mut [u8], next: Ahead) {
        self.memory.read_ahead(offset, to, next);
    }

    #[inline]
    fn change(&mut self, offset: u64, change: Change<'_>, next: Ahead) {
        match change {
            Change::Write(from) => self.memory.write_ahead(offset, from, next),
            Change::Zero(len) => self.memory.zero(offset, len),
            Change::Trim(len) => self.memory.discard(offset, len),
        }
    }
}

impl Lane for RamLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.iter() {
            if matches!(io.op, Op::Read | Op::Write) && self.geometry.check(io).is_ok() {
                self.memory.prefetch(io.offset, io.len as usize);
            }
        }
        while let Some(mut io) = ios.pop_front() {
            let next = ios.front().map_or(Ahead::NONE, |next| self.memory.ahead(next.offset));
            let result = self.geometry.check(&io);
            if result.is_ok() {
                self.execute(&mut io, next);
            }
            let done = Done { tag: io.tag, result, cause: Cause::NONE, buf: io.buf };
            self.ready.push(done);
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
