//! Model of a block: its possible values, from writes, completions, flushes and losses.

/// A write of a block.
#[derive(Clone, Copy, Debug)]
struct Write {
    value: u64,
    /// Number of its I/O.
    io: u64,
    begun: u64,
    /// Time of the completion, or of the process's end.
    ended: Option<u64>,
    /// The write was acknowledged, and not lost since.
    told: bool,
    /// The write was acknowledged, and no flush has failed since: the next good one covers it.
    owed: bool,
    /// The write was acknowledged with FUA, or before an acknowledged flush.
    durable: bool,
    /// The write was in flight when the last leg lost its cache: it may be lost before it is
    /// acknowledged.
    doomed: bool,
    /// Time of a read that returned the value and began after the write's end: later reads return
    /// nothing older.
    seen: Option<u64>,
}

/// Writes that a block may still hold.
#[derive(Clone, Debug)]
pub(super) struct Block {
    writes: Vec<Write>,
    /// Time of the last loss of writes: an earlier read has seen nothing permanent.
    lost_at: u64,
}

impl Block {
    /// Zeroes, durably.
    pub(super) fn new() -> Block {
        let (told, owed, durable, doomed) = (true, true, true, false);
        let (ended, seen) = (Some(0), None);
        let zero = Write { value: 0, io: 0, begun: 0, ended, told, owed, durable, doomed, seen };
        Block { writes: vec![zero], lost_at: 0 }
    }

    pub(super) fn begin(&mut self, io: u64, value: u64, time: u64) {
        let (told, owed, durable, doomed) = (false, false, false, false);
        let (begun, ended, seen) = (time, None, None);
        self.writes.push(Write { value, io, begun, ended, told, owed, durable, doomed, seen });
    }

    /// Records that a write completed.
    pub(super) fn end(&mut self, io: u64, time: u64, good: bool, fua: bool) {
        for write in self.writes.iter_mut().filter(|write| write.io == io) {
            write.ended = Some(time);
            write.told = good && (fua || !write.doomed);
            (write.owed, write.durable) = (good, good && fua);
        }
    }

    /// Records that a flush begun at this time was acknowledged. A cache lost meanwhile by the last
    /// leg excuses nothing: the flush had to fail.
    pub(super) fn flushed(&mut self, begun: u64) {
        for write in &mut self.writes {
            write.durable |= write.owed && write.ended.is_some_and(|ended| ended < begun);
            write.told |= write.durable;
        }
    }

    /// Records a failed flush: the client knows that its writes may be lost.
    pub(super) fn flush_failed(&mut self) {
        self.writes.iter_mut().for_each(|write| write.owed = false);
    }

    /// Records that the last leg lost its cache, including completions not acknowledged yet.
    pub(super) fn lost(&mut self, time: u64) {
        self.lost_at = time;
        for write in &mut self.writes {
            write.told &= write.durable;
            write.doomed |= write.ended.is_none();
            write.seen = None;
        }
    }

    /// Records that the only remaining leg is an older image: everything may be lost.
    pub(super) fn lost_all(&mut self, time: u64) {
        self.lost_at = time;
        for write in &mut self.writes {
            (write.told, write.owed, write.durable, write.seen) = (false, false, false, None);
            write.doomed |= write.ended.is_none();
        }
    }

    /// The process died: only durable writes count.
    pub(super) fn crashed(&mut self, time: u64) {
        for write in &mut self.writes {
            write.ended = write.ended.or(Some(time));
            (write.told, write.owed) = (false, false);
            // Writes that were not flushed may be lost, whoever has read them.
            write.seen = None;
        }
        self.forget();
    }

    /// A read that began at this time has returned this value.
    pub(super) fn seen(&mut self, value: u64, read_begun: u64, now: u64) {
        let over = |write: &&mut Write| {
            write.value == value && write.ended.is_some_and(|ended| ended < read_begun)
        };
        let stays = read_begun > self.lost_at;
        if let Some(write) = self.writes.iter_mut().rev().find(over).filter(|_| stays) {
            write.seen.get_or_insert(now);
        }
    }

    /// Whether a read begun at this time may return this value.
    pub(super) fn may_be(&self, value: u64, read_begun: u64) -> bool {
        let hidden = |write: &Write| {
            let later = |other: &Write| {
                let told = other.told && other.ended.is_some_and(|ended| ended < read_begun);
                told || other.seen.is_some_and(|seen| seen < read_begun)
            };
            self.writes.iter().any(|other| later(other) && is_before(write, other))
        };
        self.writes.iter().any(|write| write.value == value && !hidden(write))
    }

    /// Records that all legs hold this value.
    pub(super) fn is_now(&mut self, value: u64) {
        let in_flight = self.writes.iter().any(|write| write.ended.is_none());
        if in_flight || !self.writes.iter().any(|write| write.value == value) {
            return;
        }
        self.writes.retain(|write| write.value == value || write.durable);
        self.writes.iter_mut().for_each(|write| write.told |= write.value == value);
    }

    /// All values that the block may hold.
    pub(super) fn values(&self) -> Vec<u64> {
        self.writes.iter().map(|write| write.value).collect()
    }

    /// Drops writes older than a durable one. Only without reads in flight, which may return them.
    fn forget(&mut self) {
        let durable: Vec<Write> = self.writes.iter().filter(|one| one.durable).copied().collect();
        self.writes.retain(|write| !durable.iter().any(|other| is_before(write, other)));
    }
}

/// Whether one write completed before the other began.
fn is_before(one: &Write, other: &Write) -> bool {
    one.ended.is_some_and(|ended| ended < other.begun)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn what_is_durable_stays_and_what_is_not_may_go() {
        let mut block = Block::new();
        block.begin(1, 10, 1);
        assert!(block.may_be(0, 2) && block.may_be(10, 2), "in flight");
        block.end(1, 3, true, false);
        assert!(!block.may_be(0, 4) && block.may_be(10, 4));
        block.crashed(5);
        assert!(block.may_be(0, 6) && block.may_be(10, 6), "it was not flushed");
        block.begin(2, 20, 7);
        block.end(2, 8, true, true);
        block.crashed(9);
        assert!(block.may_be(20, 10) && !block.may_be(10, 10) && !block.may_be(0, 10));
        block.begin(3, 30, 11);
        block.end(3, 12, true, false);
        block.flushed(12);
        block.crashed(13);
        assert!(block.may_be(20, 14) && block.may_be(30, 14), "the flush was begun too early");
    }

    #[test]
    fn a_cache_that_was_lost_fails_the_next_flush() {
        for (fua, fails) in [(false, false), (false, true), (true, true)] {
            let mut block = Block::new();
            block.begin(1, 10, 1);
            block.end(1, 3, true, fua);
            block.lost(3);
            assert_eq!(block.may_be(0, 4), !fua, "it is lost until somebody says otherwise");
            if fails {
                block.flush_failed();
            }
            block.flushed(5);
            block.crashed(6);
            assert!(block.may_be(10, 7));
            assert_eq!(block.may_be(0, 7), fails && !fua);
        }
    }

    #[test]
    fn writes_at_the_same_time_may_end_in_any_order() {
        let mut block = Block::new();
        block.begin(1, 10, 1);
        block.begin(2, 20, 2);
        block.end(1, 3, true, true);
        block.end(2, 4, true, false);
        assert!(block.may_be(10, 5) && block.may_be(20, 5) && !block.may_be(0, 5));
    }
}
