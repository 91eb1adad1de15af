//! I/Os of a lost connection.
//!
//! A volume cannot cancel these I/Os. Until they complete, their writes may overwrite those of
//! another connection of the same peer, so that connection has to wait. A flush among them may
//! fail, which affects all clients of the unit.

use std::collections::VecDeque;

use crate::{Request, UnitId};

use super::slot_of;

/// I/Os that a volume still has from a lost connection. Reads do no harm, and are not listed.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    list: Vec<Leftover>,
}

/// The I/Os of a command, by its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leftover {
    pub(crate) slot: u16,
    pub(crate) unit: UnitId,
    /// Number of I/Os.
    pub(crate) count: u32,
    /// Whether the I/Os are flushes, not changes.
    pub(crate) flushes: bool,
}

impl Leftovers {
    /// Collects the leftovers of `commands`. I/Os in `requests` were never handed over.
    #[cold]
    pub(crate) fn new(
        commands: impl Iterator<Item = Leftover>,
        requests: &VecDeque<Request>,
    ) -> Leftovers {
        let handed_over = |left: Leftover| {
            let kept = requests.iter().filter(|request| slot_of(request.io.tag) == left.slot);
            Leftover { count: left.count.saturating_sub(kept.count() as u32), ..left }
        };
        let list = commands.map(handed_over).filter(|left| left.count != 0).collect();
        Leftovers { list }
    }

    /// Counts a completed I/O of the command in that slot. Returns the unit if it was a flush.
    #[cold]
    pub(crate) fn came(&mut self, slot: u16) -> Option<UnitId> {
        let at = self.list.iter().position(|left| left.slot == slot)?;
        let left = &mut self.list[at];
        left.count -= 1;
        let flushed = left.flushes.then_some(left.unit);
        if left.count == 0 {
            self.list.swap_remove(at);
        }
        flushed
    }

    /// Returns whether all changes have completed.
    pub(crate) fn have_no_changes(&self) -> bool {
        self.list.iter().all(|left| left.flushes)
    }
}

#[cfg(test)]
mod test {
    use block::{Io, Op, Tag};

    use super::*;

    #[test]
    fn what_was_handed_over_is_left_until_it_comes_back() {
        let io =
            |tag| Io { tag: Tag(tag), op: Op::Flush, fua: false, len: 0, offset: 0, buf: None };
        let request = |tag| Request { unit: UnitId(0), io: io(tag) };
        // One of slot 3 has not been taken, and none of slot 9.
        let requests = VecDeque::from([request(3 | 1 << 16), request(9)]);
        let command = |slot, count, flushes| Leftover { slot, unit: UnitId(5), count, flushes };
        let commands = [command(3, 3, false), command(9, 1, false), command(7, 1, true)];
        let mut left = Leftovers::new(commands.into_iter(), &requests);
        assert!(!left.have_no_changes());
        assert_eq!([left.came(9), left.came(3), left.came(1)], [None; 3]);
        assert!(!left.have_no_changes());
        assert_eq!(left.came(3), None);
        assert!(left.have_no_changes(), "a flush changes nothing");
        assert_eq!([left.came(7), left.came(7), left.came(3)], [Some(UnitId(5)), None, None]);
    }
}
