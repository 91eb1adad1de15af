//! Backups that somebody has forged, restored into a folder next to traps.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use backup::format::index::{Kept, Kind, put_index};
use backup::format::{ALIGN, FRAME_HEAD_BYTES, FrameHead, Head, checksum, padded};
use backup::{Destination, Fate, Gap, GapKind, Target, restore};

/// Names of entries: plain ones, and those that lead elsewhere.
const NAMES: [&str; 24] = [
    "a",
    "b",
    "c",
    "d",
    "d/a",
    "d/b",
    "d/e",
    "d/e/a",
    "a/b",
    "link",
    "link/secret",
    "victim",
    "../victim",
    "../outside/secret",
    "d/../../victim",
    "/tmp/x",
    ".",
    "..",
    "",
    "a/",
    "a//b",
    "./a",
    "pipe",
    "outside/secret",
];
/// Targets of links.
const LINKS: [&str; 10] =
    ["a", "..", ".", "../victim", "../outside", "../outside/secret", "../pipe", "/", "d/e", ""];
/// Folders for the restore: a new folder most of the time, or an existing path.
const FOLDERS: [&str; 8] =
    ["new", "new", "new", "deep/new", "outside", "to-outside", "victim", "pipe"];

/// Restores the backup that `input` describes, and checks that its surroundings are unchanged.
pub fn restore_forged(input: &[u8]) {
    let place = Place::new();
    let before = place.look();
    let mut input = Input(input);
    let options = input.byte();
    let folder = place.0.join(FOLDERS[usize::from(options & 7)]);
    let owners = options & 8 != 0 && rustix::process::geteuid().is_root();
    let backup = place.0.join("forged");
    let bytes = forge(&mut input, options);
    fs::write(&backup, bytes).unwrap();
    let target = Target::open(&backup).unwrap();
    let found = restore(&target, Some(Destination { folder: &folder, owners }), &|_| (), &|| false);
    fs::remove_file(&backup).unwrap();
    let is_whole = found.as_ref().is_ok_and(|it| it.damaged == 0 && it.partial == 0);
    let is_new = folder.ends_with("new");
    assert_eq!(folder.is_dir() && is_new, is_whole, "{found:?}");
    if is_new {
        let parent = folder.parent().unwrap();
        let working = if parent == place.0 { "new.incomplete-2" } else { "new.incomplete" };
        for made in [folder.clone(), parent.join(working)] {
            if made.exists() {
                holds_only_its_own(&made, owners);
                fs::remove_dir_all(made).unwrap();
            }
        }
        if parent != place.0 && parent.exists() {
            fs::remove_dir(parent).unwrap_or_else(|error| panic!("{found:?}: {error}"));
        }
    }
    assert_eq!(place.look(), before, "{found:?}");
}

/// Checks that a restore has no special files, no set-user-ID or set-group-ID bits without
/// `owners`, and no hard link to a file outside.
fn holds_only_its_own(folder: &Path, owners: bool) {
    let mut names: BTreeMap<u64, u64> = BTreeMap::new();
    let mut links: BTreeMap<u64, u64> = BTreeMap::new();
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = fs::symlink_metadata(&path).unwrap();
        let kind = about.file_type();
        assert!(kind.is_dir() || kind.is_file() || kind.is_symlink(), "{path:?}: {kind:?}");
        assert!(owners || kind.is_symlink() || about.mode() & 0o6000 == 0, "{path:?}");
        if kind.is_file() {
            *names.entry(about.ino()).or_default() += 1;
            links.insert(about.ino(), about.nlink());
        }
        if kind.is_dir() {
            fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
            waiting.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert_eq!(names, links, "each name of a file is in the folder");
}

/// A place with traps, removed on drop unless a check fails.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let place = base.join(format!("drumfire-fuzz-{}", std::process::id()));
        fs::create_dir_all(place.join("outside")).unwrap();
        fs::create_dir(place.join("new.incomplete")).unwrap();
        for (name, mode) in [
            ("victim", 0o600),
            ("outside/secret", 0o644),
            ("outside/program", 0o4755),
            ("new.incomplete/a", 0o640),
        ] {
            fs::write(place.join(name), name).unwrap();
            fs::set_permissions(place.join(name), Permissions::from_mode(mode)).unwrap();
        }
        symlink("outside", place.join("to-outside")).unwrap();
        symlink("nowhere", place.join("dangling")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, place.join("pipe"), mode).unwrap();
        Place(place)
    }

    /// Returns all entries: kind, permissions, owner, names, content or target.
    fn look(&self) -> BTreeMap<PathBuf, (u32, u32, u64, Vec<u8>)> {
        let mut all = BTreeMap::new();
        let mut waiting = vec![self.0.clone()];
        while let Some(path) = waiting.pop() {
            let about = fs::symlink_metadata(&path).unwrap();
            let kind = about.file_type();
            let mut content = Vec::new();
            if kind.is_dir() {
                waiting.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if kind.is_symlink() {
                content = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
            } else if !kind.is_fifo() {
                content = fs::read(&path).unwrap();
            }
            let links = if kind.is_dir() { 0 } else { about.nlink() };
            all.insert(path, (about.mode(), about.uid(), links, content));
        }
        all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }
}

/// The rest of the input, and zeroes after its end.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::from(self.byte()) % limit
    }

    /// A small number, or rarely any.
    fn number(&mut self) -> u64 {
        match self.byte() {
            255 => u64::from_le_bytes(std::array::from_fn(|_| self.byte())),
            254 => u64::from(self.byte()) << 12,
            small => u64::from(small) / 8,
        }
    }
}

/// A backup with right checksums.
fn forge(input: &mut Input, options: u8) -> Vec<u8> {
    let entries: Vec<Kept> = (0..input.below(12)).map(|_| entry(input)).collect();
    let mut bytes = vec![0; ALIGN];
    for _ in 0..input.below(12) {
        put_frame(&mut bytes, input);
    }
    let mut index = put_index(&entries);
    // Some have an index that no encoder makes.
    if options & 16 != 0 {
        for _ in 0..input.below(6) {
            let at = usize::from(u16::from_le_bytes([input.byte(), input.byte()])) % index.len();
            index[at] = input.byte();
        }
    }
    let head = Head {
        id: 7,
        complete: true,
        align: ALIGN as u32,
        transfer_bytes: 1 << 16,
        index_at: bytes.len() as u64,
        index_bytes: index.len() as u64,
        index_crc: checksum(&index),
    };
    head.put(&mut bytes[..ALIGN]);
    bytes.extend(&index);
    bytes.resize(padded(bytes.len(), ALIGN), 0);
    bytes
}

fn entry(input: &mut Input) -> Kept {
    let path = NAMES[input.below(NAMES.len())].into();
    let kind = match input.below(9) {
        0..=2 => Kind::File,
        3 | 4 => Kind::Folder,
        5 => Kind::Link(LINKS[input.below(LINKS.len())].into()),
        6 => Kind::Volume,
        7 => Kind::Absent,
        _ => Kind::Hard(input.number() as u32),
    };
    let fate = match input.below(12) {
        1 => Fate::Grew { to: input.number() },
        2 => Fate::Shrank,
        3 => Fate::Vanished,
        4 => Fate::Skipped,
        5 => Fate::Changed("a link".to_owned()),
        6 => Fate::Unreadable("an error".to_owned()),
        _ => Fate::Whole,
    };
    let count = input.below(8).saturating_sub(4);
    let gap = |_| {
        let kind = [GapKind::Hole, GapKind::Unread, GapKind::Cut][input.below(3)];
        let start = input.number();
        Gap { kind, range: start..start.saturating_add(input.number()) }
    };
    let gaps = (0..count).map(gap).collect();
    let mode = u32::from(u16::from_le_bytes([input.byte(), input.byte()]));
    let (uid, gid) = (u32::from(input.byte()), u32::from(input.byte()));
    Kept { kind, path, mode, uid, gid, listed_bytes: input.number(), fate, gaps }
}

fn put_frame(bytes: &mut Vec<u8>, input: &mut Input) {
    let at = bytes.len();
    let (entry, offset) = (input.number() as u32, input.number());
    let data: Vec<u8> = (0..input.below(40)).map(|_| input.byte()).collect();
    let odd = input.byte();
    let frame = FrameHead {
        id: if odd == 1 { 8 } else { 7 },
        at: if odd == 2 { 0 } else { at as u64 },
        entry,
        offset,
        source_bytes: if odd & 0x80 != 0 { input.number() as u32 } else { data.len() as u32 },
        stored_bytes: if odd & 0x40 != 0 { input.number() as u32 } else { data.len() as u32 },
        compressed: odd & 0x20 != 0,
        crc: if odd == 3 { 0 } else { checksum(&data) },
    };
    bytes.resize(at + padded(FRAME_HEAD_BYTES + data.len(), ALIGN), 0);
    frame.put(&mut bytes[at..]);
    bytes[at + FRAME_HEAD_BYTES..][..data.len()].copy_from_slice(&data);
}
