//! Hands out extents of the sources to readers: each has its own source while there are enough,
//! then helps with the longest. A file is opened at its turn, by the handle of its folder, and is
//! read only if it is the listed one.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use os::{FileAbout, FileKind, Folder};

use crate::fate::{Fate, GapKind};
use crate::format::ALIGN;
use crate::format::index::Kind;
use crate::list::open_named;
use crate::progress::Meter;
use crate::source::{Entry, Origin, Root, fate_of};

/// Maximum holes that are kept as holes: each takes 17 bytes of the index. Further ones are read as
/// data.
const HOLES_MAX: usize = 1 << 22;

/// An extent of a source, read by one thread.
pub(crate) struct Part {
    pub(crate) entry: usize,
    pub(crate) offset: u64,
    pub(crate) len: usize,
    /// The open file; `None` for a volume, which has a lane.
    pub(crate) file: Option<Arc<File>>,
    /// Whether this is the last extent of its source.
    pub(crate) last: bool,
}

/// Extents that are still to be read.
pub(crate) struct Work<'a> {
    entries: &'a [Entry],
    transfer_bytes: u64,
    direct: bool,
    meter: &'a Meter<'a>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next: usize,
    open: Vec<Open>,
    /// The folder that files were last opened below.
    root: Option<(Arc<Root>, Folder)>,
    holes: usize,
}

/// A source that is being read.
struct Open {
    entry: usize,
    file: Option<Arc<File>>,
    at: u64,
    /// End of the data that are known to be no hole.
    data_end: u64,
    end: u64,
}

impl<'a> Work<'a> {
    pub(crate) fn new(
        entries: &'a [Entry],
        transfer_bytes: u32,
        direct: bool,
        meter: &'a Meter<'a>,
    ) -> Work<'a> {
        let transfer_bytes = u64::from(transfer_bytes);
        Work { entries, transfer_bytes, direct, meter, state: Mutex::default() }
    }

    /// Next extent for a reader, whose current source is in `mine`.
    pub(crate) fn take(&self, mine: &mut Option<usize>) -> Option<Part> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            state.open.retain(|open| open.at < open.end);
            let own = |open: &Open| Some(open.entry) == *mine;
            let index = state.open.iter().position(own).or_else(|| self.open_next(&mut state));
            let longest = |state: &State| {
                let left = |(_, open): &(usize, &Open)| open.end - open.at;
                state.open.iter().enumerate().max_by_key(left).map(|(index, _)| index)
            };
            let index = index.or_else(|| longest(&state))?;
            *mine = Some(state.open[index].entry);
            self.pass_hole(&mut state, index);
            let open = &mut state.open[index];
            if open.at < open.end {
                let (offset, len) = (open.at, self.transfer_bytes.min(open.data_end - open.at));
                open.at += len;
                let (entry, file, last) = (open.entry, open.file.clone(), open.at == open.end);
                return Some(Part { entry, offset, len: len as usize, file, last });
            }
        }
    }

    /// Stops handing out extents of this source, and returns the remaining range.
    pub(crate) fn cut(&self, entry: usize) -> Range<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(index) = state.open.iter().position(|open| open.entry == entry) else {
            return 0..0;
        };
        let open = state.open.swap_remove(index);
        open.at..open.end
    }

    /// Goes on to the next data of a file with holes.
    fn pass_hole(&self, state: &mut State, index: usize) {
        let holes = state.holes;
        let open = &mut state.open[index];
        let (Some(file), true) = (&open.file, open.at >= open.data_end) else { return };
        let entry = &self.entries[open.entry];
        if holes >= HOLES_MAX {
            open.data_end = open.end;
            return;
        }
        // If holes are not reported, the range is read.
        let data = os::next_data(file, open.at..open.end).unwrap_or(open.at..open.end);
        let align = ALIGN as u64;
        let start = (data.start / align * align).max(open.at);
        let start = if data.is_empty() { open.end } else { start };
        open.data_end = data.end.next_multiple_of(align).min(open.end);
        let hole = open.at..start;
        open.at = start;
        if hole.is_empty() {
            return;
        }
        state.holes += 1;
        let bytes = file.metadata().map_or(hole.end, |about| about.len());
        let cut_at = bytes.clamp(hole.start, hole.end);
        if cut_at < hole.end {
            entry.note(Fate::Shrank);
        }
        entry.note_gap(GapKind::Hole, hole.start..cut_at);
        entry.note_gap(GapKind::Cut, cut_at..hole.end);
        if open.at == open.end {
            look_again(entry, file);
        }
        self.meter.add(hole.end - hole.start);
    }

    fn open_next(&self, state: &mut State) -> Option<usize> {
        while let Some(entry) = self.entries.get(state.next) {
            let number = state.next;
            state.next += 1;
            if entry.listed_bytes == 0 || entry.fate() != Fate::Whole {
                continue;
            }
            let file = match &entry.from {
                Origin::Volume(_) => None,
                _ => match self.open_listed(number, &mut state.root) {
                    Ok(file) => Some(Arc::new(file)),
                    Err(fate) => {
                        entry.note(fate);
                        self.meter.add(entry.listed_bytes);
                        continue;
                    }
                },
            };
            let end = entry.listed_bytes;
            let data_end = if file.is_some() && entry.is_sparse { 0 } else { end };
            state.open.push(Open { entry: number, file, at: 0, data_end, end });
            return Some(state.open.len() - 1);
        }
        None
    }

    /// Opens a listed file, by another of its names if this one is gone.
    fn open_listed(
        &self,
        number: usize,
        root: &mut Option<(Arc<Root>, Folder)>,
    ) -> Result<File, Fate> {
        let entry = &self.entries[number];
        let found = open(entry, entry, self.direct, root);
        if found.is_ok() || !entry.has_names {
            return found;
        }
        let others = self.entries[number + 1..].iter();
        let is_other = |other: &&Entry| other.kind == Kind::Hard(number as u32);
        let mut others = others.filter(is_other);
        others.find_map(|other| open(entry, other, self.direct, root).ok()).map_or(found, Ok)
    }
}

/// Opens a file by one of its names, if it is the listed one.
fn open(
    entry: &Entry,
    name: &Entry,
    direct: bool,
    root: &mut Option<(Arc<Root>, Folder)>,
) -> Result<File, Fate> {
    let file = match &name.from {
        Origin::Named(path) => with_direct(direct, |flags| open_named(path, flags)),
        Origin::Below(of) => {
            let is_it = root.as_ref().is_some_and(|(its, _)| Arc::ptr_eq(its, of));
            if !is_it {
                *root = Some((Arc::clone(of), of.again()?));
            }
            let (_, folder) = root.as_ref().expect("it was just opened");
            with_direct(direct, |flags| folder.file(name.below(), flags))
        }
        Origin::Volume(_) => unreachable!("a volume has no file"),
    };
    let file = file.map_err(|error| fate_of(&error))?;
    let about = FileAbout::of(&file).map_err(|error| fate_of(&error))?;
    if about.kind != FileKind::File {
        return Err(Fate::Changed("it is no longer a file".to_owned()));
    }
    if entry.id != Some(about.id) {
        return Err(Fate::Changed("replaced by another file".to_owned()));
    }
    entry.note_owner(&about);
    Ok(file)
}

/// Opens with `O_DIRECT` if that is requested and the file system supports it.
fn with_direct(direct: bool, open: impl Fn(i32) -> io::Result<File>) -> io::Result<File> {
    match direct.then(|| open(os::O_DIRECT)) {
        Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => open(0),
        Some(found) => found,
        None => open(0),
    }
}

/// Checks how a file that was read to its end has changed.
pub(crate) fn look_again(entry: &Entry, file: &File) {
    let Ok(about) = FileAbout::of(file) else { return };
    if about.bytes > entry.listed_bytes {
        entry.note(Fate::Grew { to: about.bytes });
    }
    entry.note_owner(&about);
}

#[cfg(test)]
mod test {
    use std::fs;
    use std::os::unix::fs::{FileExt, symlink};

    use super::*;
    use crate::list::{Skip, list};
    use crate::test::Scratch;

    fn listed(scratch: &Scratch, name: &str) -> Vec<Entry> {
        list(&[scratch.at(name)], &Skip::default(), &|| false).unwrap()
    }

    #[test]
    fn readers_have_sources_of_their_own_and_then_help() {
        let scratch = Scratch::new();
        scratch.file("d/a", &[1; 3000]);
        scratch.file("d/b", &[1; 5000]);
        let gone = scratch.file("d/c", &[1; 10]);
        let entries = listed(&scratch, "d");
        fs::remove_file(gone).unwrap();
        let meter = Meter::new(8010, &|_| ());
        let work = Work::new(&entries, 1000, false, &meter);
        let (mut one, mut two) = (None, None);
        let part = |mine: &mut Option<usize>| {
            work.take(mine).map(|part| (part.entry, part.offset, part.len, part.last))
        };
        assert_eq!(part(&mut one), Some((1, 0, 1000, false)));
        assert_eq!(part(&mut two), Some((2, 0, 1000, false)));
        assert_eq!(part(&mut one), Some((1, 1000, 1000, false)));
        assert_eq!(part(&mut one), Some((1, 2000, 1000, true)));
        // The first thread has no source left, and c vanished: the thread helps with b.
        assert_eq!(part(&mut one), Some((2, 1000, 1000, false)));
        assert_eq!(part(&mut two), Some((2, 2000, 1000, false)));
        assert_eq!(work.cut(2), 3000..5000);
        assert_eq!(part(&mut one), None);
        assert_eq!(entries[3].fate(), Fate::Vanished);
    }

    /// Fate of each file after `swap` has changed the listed `d`.
    fn fate_after(swap: impl Fn(&Scratch)) -> (Fate, Option<Vec<u8>>) {
        let scratch = Scratch::new();
        scratch.file("d/sub/file", b"listed text");
        scratch.file("secret", b"private text");
        let entries = listed(&scratch, "d");
        swap(&scratch);
        let meter = Meter::new(0, &|_| ());
        let part = Work::new(&entries, 4096, false, &meter).take(&mut None);
        let read = part.map(|part| {
            let mut bytes = vec![0; part.len];
            part.file.unwrap().read_exact_at(&mut bytes, part.offset).unwrap();
            bytes
        });
        (entries[2].fate(), read)
    }

    #[test]
    fn only_what_was_listed_is_read() {
        let file = |scratch: &Scratch| scratch.at("d/sub/file");
        let (fate, read) = fate_after(|_| ());
        assert_eq!((fate, read.unwrap()), (Fate::Whole, b"listed text".to_vec()));
        let swaps: [&dyn Fn(&Scratch); 7] = [
            &|scratch| {
                fs::remove_file(file(scratch)).unwrap();
                symlink(scratch.at("secret"), file(scratch)).unwrap();
            },
            &|scratch| {
                fs::remove_file(file(scratch)).unwrap();
                fs::hard_link(scratch.at("secret"), file(scratch)).unwrap();
            },
            &|scratch| fs::rename(scratch.at("secret"), file(scratch)).unwrap(),
            &|scratch| {
                fs::remove_file(file(scratch)).unwrap();
                let mode = rustix::fs::Mode::from_raw_mode(0o600);
                rustix::fs::mkfifoat(rustix::fs::CWD, file(scratch), mode).unwrap();
            },
            &|scratch| {
                fs::rename(scratch.at("d/sub"), scratch.at("d/moved")).unwrap();
                fs::create_dir(scratch.at("other")).unwrap();
                fs::rename(scratch.at("secret"), scratch.at("other/file")).unwrap();
                symlink(scratch.at("other"), scratch.at("d/sub")).unwrap();
            },
            &|scratch| {
                fs::rename(scratch.at("d"), scratch.at("moved")).unwrap();
                scratch.file("d/sub/file", b"private text");
            },
            &|scratch| {
                fs::remove_file(file(scratch)).unwrap();
                fs::create_dir(file(scratch)).unwrap();
            },
        ];
        for (number, swap) in swaps.iter().enumerate() {
            let (fate, read) = fate_after(swap);
            assert!(matches!(fate, Fate::Changed(_)), "{number}: {fate:?}");
            assert_eq!(read, None, "{number}");
        }
    }

    #[test]
    fn a_file_is_read_by_another_of_its_names_when_the_first_is_gone() {
        let scratch = Scratch::new();
        let one = scratch.file("d/one", b"text");
        fs::hard_link(&one, scratch.at("d/two")).unwrap();
        let entries = listed(&scratch, "d");
        fs::remove_file(one).unwrap();
        let meter = Meter::new(4, &|_| ());
        let part = Work::new(&entries, 4096, false, &meter).take(&mut None).unwrap();
        assert_eq!((part.entry, entries[1].fate()), (1, Fate::Whole));
    }
}
