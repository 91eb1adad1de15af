//! The first stage: reads extents of the sources. An unreadable part is retried in pieces, and
//! reading continues after it.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use block::Buf;

use super::shared::{Raw, Shared};
use crate::BackupError;
use crate::fate::{Fate, GapKind};
use crate::format::ALIGN;
use crate::source::{Entry, Origin};
use crate::stage::Watch;
use crate::way::{NoWay, ReadError, Way};
use crate::work::{Part, look_again};

/// Sizes of the pieces in which a failed read is retried, one after the other.
const PIECES: [usize; 2] = [64 << 10, ALIGN];
/// Maximum failed reads of a source that are retried in pieces: on a dead drive every read fails,
/// perhaps after seconds.
const SALVAGES_MAX: u32 = 256;
/// Maximum consecutive losses of a connection to a volume.
const LOST_MAX: u32 = 2;

/// Nothing more is to be read.
struct End;

/// Reads until there are no more extents.
pub(super) fn read(shared: &Shared, watch: &mut Watch) {
    let mut reader = Reader { shared, watch, lane: None, lost: 0 };
    let mut mine = None;
    while let Some(part) = shared.work.take(&mut mine) {
        if reader.read_part(&part).is_err() {
            return;
        }
    }
    reader.watch.worked();
}

struct Reader<'r, 'a> {
    shared: &'r Shared<'a>,
    watch: &'r mut Watch,
    /// Way to the volume that is being read, and the volume's entry.
    lane: Option<(usize, Way<'r>)>,
    /// Number of losses of the lane without a successful read in between.
    lost: u32,
}

impl Reader<'_, '_> {
    fn read_part(&mut self, part: &Part) -> Result<(), End> {
        let range = part.offset..part.offset + part.len as u64;
        let entry = &self.shared.entries[part.entry];
        if !self.attempt(part, range.clone())? {
            self.salvage(part, range.clone(), &PIECES)?;
        }
        if let (Some(file), true) = (&part.file, part.last) {
            look_again(entry, file);
        }
        if self.lost > LOST_MAX {
            let rest = self.shared.work.cut(part.entry);
            self.give_up(entry, GapKind::Unread, rest);
        }
        Ok(())
    }

    /// Reads a part again in pieces. A failing piece next to a good one is split in turn, because
    /// it contains the edge of the unreadable range.
    fn salvage(&mut self, part: &Part, range: Range<u64>, pieces: &[usize]) -> Result<(), End> {
        let entry = &self.shared.entries[part.entry];
        let len = range.end - range.start;
        let piece = pieces.iter().position(|piece| (*piece as u64) < len);
        let Some(at) = piece.filter(|_| self.lost == 0 && entry.may_salvage(SALVAGES_MAX)) else {
            self.give_up(entry, GapKind::Unread, range);
            return Ok(());
        };
        let mut found = Vec::new();
        for start in range.clone().step_by(pieces[at]) {
            let piece = start..range.end.min(start + pieces[at] as u64);
            // Once the way is lost, no read of this part is worth another wait.
            let is_good = self.lost == 0 && self.attempt(part, piece.clone())?;
            found.push((piece, is_good));
        }
        for (index, (piece, is_good)) in found.iter().enumerate() {
            let good = |other: usize| found.get(other).is_some_and(|(_, good)| *good);
            let beside = index.checked_sub(1).is_some_and(good) || good(index + 1);
            match (is_good, beside) {
                (true, _) => {}
                (false, true) => self.salvage(part, piece.clone(), &pieces[at + 1..])?,
                (false, false) => self.give_up(entry, GapKind::Unread, piece.clone()),
            }
        }
        Ok(())
    }

    /// Reads a range of a source, and passes it on. False if the range is unreadable, which is
    /// recorded.
    fn attempt(&mut self, part: &Part, range: Range<u64>) -> Result<bool, End> {
        let shared = self.shared;
        if shared.is_stopped() {
            return Err(End);
        }
        self.watch.worked();
        let buf = shared.free.take().ok_or(End)?;
        self.watch.blocked();
        let (entry, len) = (&shared.entries[part.entry], (range.end - range.start) as usize);
        let found = match self.reach(part) {
            Ok(()) => self.read_range(part, range.start, len, buf),
            Err(NoWay::Volume(why)) => Err(ReadError { why, buf: Some(buf), lost: true }),
            Err(NoWay::Host(error)) => {
                // The sources may be good: a backup that marks them as unreadable would be wrong.
                shared.fail(BackupError::System(error));
                return Err(End);
            }
        };
        self.watch.worked();
        match found {
            Ok((buf, read)) => {
                self.lost = 0;
                if read < len {
                    // A short read is the end of the file.
                    entry.note(Fate::Shrank);
                    let end = range.start + read as u64;
                    self.give_up(entry, GapKind::Cut, end..range.end);
                    let rest = shared.work.cut(part.entry);
                    self.give_up(entry, GapKind::Cut, rest);
                }
                self.hand_on(part.entry, range.start, buf, read)?;
                Ok(true)
            }
            Err(_) if shared.is_stopped() => Err(End),
            Err(ReadError { why, buf, lost }) => {
                entry.note(Fate::Unreadable(why));
                if lost {
                    self.lane = None;
                    self.lost += 1;
                }
                // An unfinished I/O keeps the buffer: the others need another one.
                let buf = buf.map_or_else(|| Buf::new(shared.options.transfer_bytes as usize), Ok);
                match buf {
                    // The queue has room for all buffers.
                    Ok(buf) => drop(shared.free.give(buf)),
                    Err(error) => {
                        shared.fail(BackupError::System(error));
                        return Err(End);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Opens a way to the volume of a part, unless there is one.
    fn reach(&mut self, part: &Part) -> Result<(), NoWay> {
        if let Origin::Volume(volume) = &self.shared.entries[part.entry].from
            && self.lane.as_ref().is_none_or(|(of, _)| *of != part.entry)
        {
            self.lane = Some((part.entry, Way::to(&**volume, self.shared.stop)?));
        }
        Ok(())
    }

    /// Reads up to `len` bytes; fewer only at the end of a file.
    fn read_range(
        &mut self,
        part: &Part,
        at: u64,
        len: usize,
        mut buf: Buf,
    ) -> Result<(Buf, usize), ReadError> {
        let shared = self.shared;
        if let Origin::Volume(_) = &shared.entries[part.entry].from {
            let (_, way) = self.lane.as_mut().expect("it was reached");
            return way.read(at, buf, len).map(|buf| (buf, len));
        }
        let file = part.file.as_ref().expect("a file was opened");
        match read_at(file, &mut buf, at, len, shared.options.direct) {
            Ok(read) => Ok((buf, read)),
            Err(error) => Err(ReadError { why: error.to_string(), buf: Some(buf), lost: false }),
        }
    }

    /// Passes read data to the next stage.
    fn hand_on(&mut self, entry: usize, offset: u64, buf: Buf, len: usize) -> Result<(), End> {
        let shared = self.shared;
        let of = &shared.entries[entry];
        of.add_read(len as u64);
        let is_hole = of.is_sparse && is_zero(&buf[..len]);
        if len == 0 || is_hole {
            of.note_gap(GapKind::Hole, offset..offset + len as u64);
            shared.count(len as u64);
            // The queue has room for all buffers.
            drop(shared.free.give(buf));
            return Ok(());
        }
        let raw = Raw { entry: entry as u32, offset, len, buf };
        let given = shared.raw.give(raw).map_err(|_| End);
        self.watch.blocked();
        given
    }

    /// Notes a range without data.
    fn give_up(&self, entry: &Entry, kind: GapKind, range: Range<u64>) {
        let bytes = range.end - range.start;
        entry.note_gap(kind, range);
        self.shared.meter.add(bytes);
    }
}

/// Reads up to `len` bytes of a file into the front of `buf`; less only at the file's end.
fn read_at(
    file: &File,
    buf: &mut [u8],
    at: u64,
    len: usize,
    direct: bool,
) -> std::io::Result<usize> {
    let mut read = 0;
    while read < len {
        // O_DIRECT needs whole blocks; a short read is the file's end.
        let end = if direct { len.next_multiple_of(ALIGN).min(buf.len()) } else { len };
        match file.read_at(&mut buf[read..end], at + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if direct && !read.is_multiple_of(ALIGN) {
            break;
        }
    }
    Ok(read.min(len))
}

/// Whether all bytes are zero.
fn is_zero(bytes: &[u8]) -> bool {
    const ZEROES: [u8; 4096] = [0; 4096];
    bytes.chunks(ZEROES.len()).all(|chunk| *chunk == ZEROES[..chunk.len()])
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn one_byte_is_enough_to_be_no_hole() {
        let mut bytes = vec![0; 10_000];
        assert!(is_zero(&bytes) && is_zero(&[]));
        for at in [0, 4095, 4096, 9999] {
            bytes[at] = 1;
            assert!(!is_zero(&bytes), "{at}");
            bytes[at] = 0;
        }
    }
}
