//! Reads a whole backup: verifies each frame's checksum and the totals of the index, and
//! restores the files if wanted.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use block::{Buf, Nanos};
use os::Clock;

use crate::BackupError;
use crate::format::{FRAME_HEAD_BYTES, FrameHead, Head, Kept, Kind, checksum, padded, take_index};
use crate::target::Target;
use crate::way::Way;

/// Least bytes per read.
const WINDOW_BYTES: usize = 4 << 20;
/// Longest index, in bytes.
const INDEX_MAX_BYTES: u64 = 1 << 30;
/// Damages listed singly.
const DAMAGES_MAX: usize = 20;
/// Most open files.
const OPEN_MAX: usize = 64;

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// From the first read to the end.
    pub time: Nanos,
    /// Files and volumes.
    pub files: u64,
    /// Good frames.
    pub frames: u64,
    /// Bytes of sources in them.
    pub source_bytes: u64,
    /// The first damages.
    pub damages: Vec<Damage>,
    /// Number of all damages: frames, and files with too few or too many bytes.
    pub damaged: u64,
}

/// A damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Place: an offset in the target, or a path.
    pub at: String,
    /// What is wrong.
    pub what: String,
}

impl Checked {
    /// Compares the bytes found of each file with those of the index.
    fn count(&mut self, entries: &[Kept], found: &[u64]) {
        for (entry, found) in entries.iter().zip(found) {
            self.files += u64::from(matches!(entry.kind, Kind::File | Kind::Volume));
            if *found != entry.bytes {
                let what = format!("{found} of {} bytes are there", entry.bytes);
                self.tell(entry.path.display(), what);
            }
        }
    }

    fn tell(&mut self, at: impl ToString, what: impl ToString) {
        self.damaged += 1;
        if self.damages.len() < DAMAGES_MAX {
            self.damages.push(Damage { at: at.to_string(), what: what.to_string() });
        }
    }
}

/// Verifies a backup. With `into`, a folder that is created if missing, also restores its files
/// there, and overwrites none. Damages are reported; everything else is restored.
///
/// # Errors
///
/// Those of the target and the folder, that there is no complete backup, and
/// [`BackupError::Stopped`].
pub fn restore(
    target: &Target,
    into: Option<&Path>,
    stop: &dyn Fn() -> bool,
) -> Result<Checked, BackupError> {
    let clock = Clock::get();
    let begin = clock.now();
    let mut way = target.way()?;
    let held = target.held_bytes()?;
    let (head, entries) = open(target, &mut way, held)?;
    let mut place = into.map(|into| Restored::begin(into, &entries)).transpose()?;
    let mut checked = Checked::default();
    let mut kept = vec![0_u64; entries.len()];
    let mut unpacked = vec![0; head.transfer_bytes as usize];
    let align = head.align as usize;
    let window = WINDOW_BYTES.max(padded(FRAME_HEAD_BYTES + unpacked.len(), align));
    let mut buf = Buf::new(window)?;
    let mut at = u64::from(head.align);
    while at < head.index_at {
        if stop() {
            return Err(BackupError::Stopped);
        }
        let len = (head.index_at - at).min(window as u64) as usize;
        buf = way.read(at, buf, len).map_err(|why| target.fail(why))?;
        let mut next = 0;
        while next < len {
            let here = at + next as u64;
            let frame = match FrameHead::take(&buf[next..len], here, &head) {
                Ok(frame) if next + frame.whole_bytes(align) <= len => frame,
                // The rest comes with the next window, unless the backup is truncated.
                Ok(_) if next > 0 => break,
                Ok(_) => {
                    checked.tell(here, "a frame that reaches into the index");
                    next = len;
                    break;
                }
                Err(why) => {
                    checked.tell(here, why);
                    next = next_head(&buf[..len], next + align, at, &head);
                    continue;
                }
            };
            let data = &buf[next + FRAME_HEAD_BYTES..][..frame.stored_bytes as usize];
            match unpack(&frame, data, &mut unpacked, &entries) {
                Ok(bytes) => {
                    checked.frames += 1;
                    checked.source_bytes += bytes.len() as u64;
                    kept[frame.entry as usize] += bytes.len() as u64;
                    if let Some(place) = &mut place {
                        place.write(&entries, &frame, bytes)?;
                    }
                }
                Err(why) => checked.tell(here, why),
            }
            next += frame.whole_bytes(align);
        }
        at += next as u64;
    }
    checked.count(&entries, &kept);
    if let Some(place) = place {
        place.end(&entries)?;
    }
    checked.time = clock.now().since(begin);
    Ok(checked)
}

/// Reads head and index.
fn open(target: &Target, way: &mut Way, held: u64) -> Result<(Head, Vec<Kept>), BackupError> {
    let unusable = |why: String| BackupError::Unusable { name: target.name().to_owned(), why };
    let first = target.align();
    if held < first as u64 {
        return Err(unusable("no backup found".to_owned()));
    }
    let block = way.read(0, Buf::new(first)?, first).map_err(|why| target.fail(why))?;
    let head = Head::take(&block).map_err(unusable)?;
    if !head.complete {
        return Err(unusable("the backup is incomplete: it was stopped or failed".to_owned()));
    }
    let align = head.align as usize;
    let end = head.index_at.saturating_add(padded(head.index_bytes as usize, align) as u64);
    if end > held || head.index_bytes > INDEX_MAX_BYTES || align < first {
        return Err(unusable(format!(
            "the backup is truncated: its index ends at {end} of {held} bytes"
        )));
    }
    let mut index = Vec::with_capacity(head.index_bytes as usize);
    let mut buf = Buf::new(WINDOW_BYTES)?;
    let mut at = head.index_at;
    while at < end {
        let len = (end - at).min(WINDOW_BYTES as u64) as usize;
        buf = way.read(at, buf, len).map_err(|why| target.fail(why))?;
        index.extend(&buf[..len]);
        at += len as u64;
    }
    index.truncate(head.index_bytes as usize);
    if checksum(&index) != head.index_crc {
        return Err(unusable("the index is damaged: checksum mismatch".to_owned()));
    }
    let entries = take_index(&index).map_err(unusable)?;
    Ok((head, entries))
}

/// The offset of the next frame in a window, at or after `from`.
fn next_head(window: &[u8], from: usize, at: u64, head: &Head) -> usize {
    let begins =
        |place: &usize| FrameHead::take(&window[*place..], at + *place as u64, head).is_ok();
    let places = (from..window.len()).step_by(head.align as usize);
    { places }.find(begins).unwrap_or(window.len())
}

/// The source's bytes in a frame.
fn unpack<'a>(
    frame: &FrameHead,
    data: &'a [u8],
    unpacked: &'a mut [u8],
    entries: &[Kept],
) -> Result<&'a [u8], String> {
    let entry = entries.get(frame.entry as usize).ok_or("a frame of an unknown file")?;
    let len = frame.source_bytes as usize;
    let bytes = if frame.compressed {
        match lz4_flex::block::decompress_into(data, &mut unpacked[..len]) {
            Ok(found) if found == len => &unpacked[..len],
            _ => return Err(format!("{} is damaged: decompression failed", entry.path.display())),
        }
    } else if data.len() == len {
        data
    } else {
        return Err(format!("{} is damaged: a frame has the wrong length", entry.path.display()));
    };
    if checksum(bytes) != frame.crc {
        let (path, offset) = (entry.path.display(), frame.offset);
        return Err(format!("{path} is damaged at {offset}: checksum mismatch"));
    }
    Ok(bytes)
}

/// Files being restored.
struct Restored<'a> {
    into: &'a Path,
    open: BTreeMap<u32, File>,
}

impl<'a> Restored<'a> {
    /// Creates the folder, and all folders and empty files in it.
    fn begin(into: &'a Path, entries: &[Kept]) -> Result<Restored<'a>, BackupError> {
        let place = Restored { into, open: BTreeMap::new() };
        let fail = |path: &Path| {
            let path = path.to_owned();
            move |error| BackupError::Place { path, error }
        };
        fs::create_dir_all(into).map_err(fail(into))?;
        for entry in entries {
            let path = into.join(&entry.path);
            match &entry.kind {
                Kind::Folder => fs::create_dir(&path).map_err(fail(&path))?,
                Kind::File | Kind::Volume => {
                    let mut options = OpenOptions::new();
                    options.write(true).create_new(true).mode(0o600);
                    options.open(&path).map_err(fail(&path))?;
                }
                // Links come last, so that nothing is written through one.
                Kind::Link(_) | Kind::Absent => {}
            }
        }
        Ok(place)
    }

    fn write(&mut self, all: &[Kept], head: &FrameHead, bytes: &[u8]) -> Result<(), BackupError> {
        let path = self.into.join(&all[head.entry as usize].path);
        let fail = |error| BackupError::Place { path: path.clone(), error };
        if !self.open.contains_key(&head.entry) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let file = OpenOptions::new().write(true).open(&path).map_err(fail)?;
            self.open.insert(head.entry, file);
        }
        self.open[&head.entry].write_all_at(bytes, head.offset).map_err(fail)
    }

    /// Creates links, sets permissions, and flushes all of it.
    fn end(self, entries: &[Kept]) -> Result<(), BackupError> {
        for entry in entries.iter().rev() {
            let path = self.into.join(&entry.path);
            let fail = |error| BackupError::Place { path: path.clone(), error };
            match &entry.kind {
                Kind::Link(to) => std::os::unix::fs::symlink(to, &path).map_err(fail)?,
                Kind::Absent => {}
                _ => {
                    fs::set_permissions(&path, Permissions::from_mode(entry.mode)).map_err(fail)?
                }
            }
        }
        let fail = |error| BackupError::Place { path: self.into.to_owned(), error };
        let folder = File::open(self.into).map_err(fail)?;
        rustix::fs::syncfs(&folder).map_err(|error| fail(error.into()))
    }
}

#[cfg(test)]
mod test {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use volume::{Purpose, Uri};

    use super::*;
    use crate::source::test::Folder;
    use crate::{Codec, Entry, Fate, Limit, Options, Outcome, Stage, add_volume, list, run};

    const OPTIONS: Options = Options {
        readers: 3,
        compressors: 2,
        writers: 2,
        buffers: 4,
        transfer_bytes: 64 << 10,
        codec: Codec::Lz4,
        direct: false,
    };

    /// A small database: files of many lengths, some compressible, an empty folder and a link.
    /// anything, and a link.
    fn database(folder: &Folder) -> PathBuf {
        let words = |len: usize| -> Vec<u8> {
            (0..len).map(|at| if at % 3 == 0 { (at / 700) as u8 } else { 7 }).collect()
        };
        let mut state = 1;
        let chance: Vec<u8> = (0..150_000).map(|_| block::splitmix(&mut state) as u8).collect();
        folder.file("data/PG_VERSION", b"15\n");
        folder.file("data/base/1", &words(1_000_000));
        folder.file("data/base/2", &chance);
        folder.file("data/base/3", b"");
        folder.file("data/base/4", &words(65_536));
        fs::create_dir(folder.0.join("data/pg_notify")).unwrap();
        std::os::unix::fs::symlink("../x", folder.0.join("data/link")).unwrap();
        folder.0.join("data")
    }

    fn listed(path: &Path) -> Vec<Entry> {
        list(&[path.to_owned()], None).unwrap()
    }

    fn keep(entries: &[Entry], target: &Target, options: Options) -> Outcome {
        run(entries, target, options, &|_| (), &|| false).unwrap()
    }

    fn volume(uri: &str) -> Target {
        Target::volume(uri, open_volume(uri))
    }

    fn open_volume(uri: &str) -> std::sync::Arc<dyn volume::Volume> {
        volume::open(&uri.parse::<Uri>().unwrap(), Purpose::Destroy).unwrap()
    }

    fn same(one: &Path, two: &Path) {
        for name in ["PG_VERSION", "base/1", "base/2", "base/3", "base/4"] {
            assert!(
                fs::read(one.join(name)).unwrap() == fs::read(two.join(name)).unwrap(),
                "{name}"
            );
        }
        assert!(two.join("pg_notify").is_dir());
        assert_eq!(fs::read_link(two.join("link")).unwrap(), Path::new("../x"));
    }

    #[test]
    fn what_is_kept_comes_back_from_a_file_and_from_volumes_of_all_shapes() {
        let folder = Folder::new();
        let data = database(&folder);
        fs::set_permissions(data.join("base/4"), Permissions::from_mode(0o640)).unwrap();
        let entries = listed(&data);
        let targets = [
            Target::create(&folder.0.join("to"), false, false).unwrap(),
            volume("ram:2m"),
            volume("ram:4m?block=4096"),
            volume("stripe:64k(mirror(ram:1m,ram:2m),mirror(ram:3m,ram:1m))"),
        ];
        for (number, target) in targets.iter().enumerate() {
            let entries = if number == 0 { &entries } else { &listed(&data) };
            let outcome = keep(entries, target, OPTIONS);
            assert_eq!(outcome.source_bytes, 3 + 1_000_000 + 150_000 + 65_536);
            assert!(outcome.stored_bytes < 900_000, "{}", outcome.stored_bytes);
            let into = folder.0.join(format!("back-{number}"));
            let checked = restore(target, Some(&into), &|| false).unwrap();
            assert_eq!((checked.damaged, checked.files), (0, 5), "{:?}", checked.damages);
            assert_eq!(checked.frames, outcome.frames);
            same(&data, &into.join("data"));
            let mode = fs::metadata(into.join("data/base/4")).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
            // Again: nothing is overwritten.
            assert!(restore(target, Some(&into), &|| false).is_err());
        }
    }

    #[test]
    fn any_number_of_threads_and_buffers_will_do() {
        let folder = Folder::new();
        let data = database(&folder);
        for (readers, compressors, writers, buffers) in [(1, 1, 1, 1), (9, 1, 1, 1), (1, 5, 4, 2)] {
            let options = Options { readers, compressors, writers, buffers, ..OPTIONS };
            for codec in [Codec::Lz4, Codec::Stored] {
                let entries = listed(&data);
                let target = volume("ram:4m");
                let outcome = keep(&entries, &target, Options { codec, ..options });
                assert_eq!(
                    outcome.stages.map(|(_, times)| times.threads),
                    [readers, compressors, 1]
                );
                let checked = restore(&target, None, &|| false).unwrap();
                assert_eq!((checked.damaged, checked.source_bytes), (0, outcome.source_bytes));
            }
        }
    }

    #[test]
    fn volumes_are_kept_beside_files() {
        let folder = Folder::new();
        let mut entries = listed(&database(&folder));
        add_volume(&mut entries, "volume-1", open_volume("ram:300k?fill=3"));
        let target = volume("ram:4m");
        keep(&entries, &target, OPTIONS);
        let into = folder.0.join("back");
        assert_eq!(restore(&target, Some(&into), &|| false).unwrap().damaged, 0);
        let back = fs::read(into.join("volume-1")).unwrap();
        let again = Target::volume("again", open_volume("ram:300k?fill=3"));
        let read = again.way().unwrap().read(0, Buf::new(300 << 10).unwrap(), 300 << 10).unwrap();
        assert!(back[..] == read[..]);
    }

    #[test]
    fn files_that_change_meanwhile_are_told_and_stop_nothing() {
        let folder = Folder::new();
        let data = database(&folder);
        let entries = listed(&data);
        fs::remove_file(data.join("base/2")).unwrap();
        fs::write(data.join("base/4"), [0; 70_000]).unwrap();
        fs::File::options().write(true).open(data.join("base/1")).unwrap().set_len(99_999).unwrap();
        let target = volume("ram:4m");
        let outcome = keep(&entries, &target, OPTIONS);
        let fate = |name: &str| {
            let path = Path::new("data/base").join(name);
            entries.iter().find(|entry| entry.path == path).unwrap().fate()
        };
        assert_eq!(fate("1"), Fate::Shrank);
        assert_eq!(fate("2"), Fate::Vanished);
        assert_eq!(fate("4"), Fate::Grew { to: 70_000 });
        assert_eq!(outcome.source_bytes, 3 + 99_999 + 65_536);
        let into = folder.0.join("back");
        assert_eq!(restore(&target, Some(&into), &|| false).unwrap().damaged, 0);
        assert!(!into.join("data/base/2").exists());
        assert_eq!(fs::metadata(into.join("data/base/1")).unwrap().len(), 99_999);
    }

    #[test]
    fn each_damaged_byte_is_told_and_the_rest_is_restored() {
        let folder = Folder::new();
        let data = database(&folder);
        let entries = listed(&data);
        let path = folder.0.join("to");
        keep(&entries, &Target::create(&path, false, false).unwrap(), OPTIONS);
        let right = fs::read(&path).unwrap();
        let head = Head::take(&right).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            restore(&Target::open(&path).unwrap(), None, &|| false)
        };
        assert_eq!(check(&right).unwrap().damaged, 0);
        // A byte of the head, of the data, and of a later frame's head.
        for at in [4096 + 20, 4096 + 70, 4096 + 3000] {
            let mut wrong = right.clone();
            wrong[at] ^= 1;
            let frame = FrameHead::take(&right[4096..], 4096, &head).unwrap();
            let padding = at >= 4096 + FRAME_HEAD_BYTES + frame.stored_bytes as usize;
            let found = check(&wrong).unwrap();
            assert!((found.damaged > 0) != padding, "{at}: {:?}", found.damages);
            assert!(found.frames + 1 >= head.frames, "others are found: {at}");
        }
        let mut wrong = right.clone();
        wrong[head.index_at as usize + 3] ^= 1;
        assert!(check(&wrong).unwrap_err().to_string().contains("index is damaged"));
        let cut = &right[..right.len() - 4096];
        assert!(check(cut).unwrap_err().to_string().contains("is truncated"));
        assert!(check(b"").unwrap_err().to_string().contains("no backup"));
        assert!(check(&[0; 8192]).unwrap_err().to_string().contains("no backup"));
    }

    #[test]
    fn a_target_that_is_too_small_says_so_and_holds_no_backup() {
        let folder = Folder::new();
        let entries = listed(&database(&folder));
        let target = volume("ram:128k");
        let error = run(&entries, &target, OPTIONS, &|_| (), &|| false).unwrap_err();
        assert!(matches!(error, BackupError::Full { .. }), "{error}");
        let why = restore(&target, None, &|| false).unwrap_err().to_string();
        assert!(why.contains("the backup is incomplete"), "{why}");
    }

    #[test]
    fn a_stopped_one_is_not_whole_and_an_older_one_is_no_longer_there() {
        let folder = Folder::new();
        let data = database(&folder);
        let target = volume("ram:4m");
        keep(&listed(&data), &target, OPTIONS);
        let asked = AtomicU32::new(0);
        let stop = || asked.fetch_add(1, Ordering::Relaxed) > 2;
        let entries = listed(&data);
        let error = run(&entries, &target, OPTIONS, &|_| (), &stop).unwrap_err();
        assert!(matches!(error, BackupError::Stopped), "{error}");
        assert!(restore(&target, None, &|| false).is_err());
    }

    #[test]
    fn each_tenth_is_told_once_and_nothing_is_written_to_null() {
        let folder = Folder::new();
        let entries = listed(&database(&folder));
        let told = Mutex::new(Vec::new());
        let progress = |percent| told.lock().unwrap().push(percent);
        let options = Options { writers: 1, ..OPTIONS };
        let outcome = run(&entries, &Target::null(), options, &progress, &|| false).unwrap();
        assert_eq!(*told.lock().unwrap(), (1..=10).map(|tenth| 10 * tenth).collect::<Vec<u32>>());
        assert_ne!(outcome.limit, Limit::Stage(Stage::Writing));
        assert!(restore(&Target::null(), None, &|| false).is_err());
    }

    #[test]
    fn nothing_at_all_is_a_backup_too() {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("none")).unwrap();
        let entries = listed(&folder.0.join("none"));
        let target = volume("ram:64k");
        assert_eq!(keep(&entries, &target, OPTIONS).source_bytes, 0);
        let into = folder.0.join("back");
        assert_eq!(restore(&target, Some(&into), &|| false).unwrap().files, 0);
        assert!(into.join("none").is_dir());
    }
}
