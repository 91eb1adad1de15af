//! Read-back of a worker's writes by the worker: after a number of bytes, and at its end.

use block::{Nanos, Op};

use super::Next;
use super::general::General;

/// Reads of the same pattern, some I/Os after its writes.
#[derive(Debug)]
pub(super) struct ReadBack {
    again: General,
    /// Bytes of all I/Os between two read-backs.
    bytes_each: u64,
    /// Bytes and I/Os since the last read-back.
    bytes: u64,
    ios: u64,
    /// I/Os of the pattern left in the current read-back.
    behind: u64,
}

impl ReadBack {
    /// With the pattern at its beginning.
    pub(super) fn new(again: General, bytes_each: u64) -> ReadBack {
        ReadBack { again, bytes_each, bytes: 0, ios: 0, behind: 0 }
    }

    /// Returns the next I/O: one of the pattern, or one that reads back a write.
    pub(super) fn next(&mut self, mut own: impl FnMut() -> Option<Next>) -> Option<Next> {
        loop {
            while self.behind > 0 {
                self.behind -= 1;
                if let Some(io @ Next { op: Op::Write, .. }) = self.again.next_forward() {
                    return Some(Next {
                        op: Op::Read,
                        fua: false,
                        pause: Nanos(0),
                        reply: 0,
                        ..io
                    });
                }
            }
            let full = self.bytes >= self.bytes_each;
            let next = if full { None } else { own() };
            let Some(next) = next else {
                if self.ios == 0 {
                    return None;
                }
                (self.behind, self.ios, self.bytes) = (self.ios, 0, 0);
                continue;
            };
            self.ios += 1;
            self.bytes += u64::from(next.len);
            return Some(next);
        }
    }

    /// Maximum number of reads left for the writes so far.
    pub(super) fn left(&self) -> u64 {
        self.behind + self.ios
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::pattern::Pattern;
    use block::Geometry;
    use job::spec::{Access, Line, Part, Places, Verify, Workload};

    fn ios(access: Access, each: u64, limit: Option<u64>, count: usize) -> Vec<Next> {
        let geometry = Geometry::new(1 << 20, 512);
        let verify = Verify { fill: false, read_back_bytes: each, ..Verify::default() };
        let workload =
            Workload { verify: Some(verify), limit_bytes: limit, ..Workload::new(access, 1) };
        let mut pattern = Pattern::new(&workload, geometry, 1, 1, Part::WHOLE);
        std::iter::from_fn(|| pattern.next()).take(count).collect()
    }

    #[test]
    fn each_pass_is_read_in_the_order_in_which_it_was_written() {
        let line = |size, share_percent| Line { share_percent, ..Line::new(size, 0.0, 100.0) };
        let long = Line { align_bytes: Some(4096), ..line(16384, 50.0) };
        let lines = vec![line(4096, 50.0), long];
        let access = Access { random: Places::Once, ..Access::of(lines) };
        let all = ios(access, 1 << 20, Some(2 << 20), usize::MAX);
        let (mut written, mut passes) = (Vec::new(), 0);
        let mut rest = &all[..];
        while let Some(end) = rest.iter().position(|io| io.op == Op::Read) {
            written.extend(rest[..end].iter().map(|io| (io.offset, io.len)));
            let bytes: u64 = written.iter().map(|(_, len)| u64::from(*len)).sum();
            assert_eq!(bytes, 1 << 20);
            let read = &rest[end..end + written.len()];
            assert!(read.iter().all(|io| io.op == Op::Read));
            let read: Vec<(u64, u32)> = read.iter().map(|io| (io.offset, io.len)).collect();
            assert_eq!(read, written);
            rest = &rest[end + written.len()..];
            (written, passes) = (Vec::new(), passes + 1);
        }
        assert_eq!((passes, rest.len()), (2, 0));
    }

    #[test]
    fn a_part_of_a_pass_is_read_at_the_end() {
        let of = |io: &Next| (io.op, io.offset / 4096);
        let all = ios(Access::new(4096, 0.0, 0.0), 2 * 4096, Some(3 * 4096), 20);
        let ops: Vec<_> = all.iter().map(of).collect();
        let (read, write) = (Op::Read, Op::Write);
        assert_eq!(ops, [(write, 0), (write, 1), (read, 0), (read, 1), (write, 2), (read, 2)]);
        // A read of the pattern is not repeated.
        let access = Access { random: Places::Once, ..Access::new(4096, 50.0, 100.0) };
        let all = ios(access, 1 << 20, Some(1 << 20), usize::MAX);
        let own = &all[..256];
        let written = own.iter().filter(|io| io.op == Op::Write).map(|io| io.offset);
        assert!(written.eq(all[256..].iter().map(|io| io.offset)));
    }
}
