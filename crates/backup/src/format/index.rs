//! The index of a backup: listed sources, their fates, and their parts without data.
//!
//! | bytes | of an entry |
//! |---|---|
//! | 1 | kind: 0 file, 1 folder, 2 symbolic link, 3 volume, 4 absent, 5 hard link |
//! | 1 | fate: 0 whole, 1 grew, 2 shrank, 3 vanished, 4 skipped, 5 changed, 6 unreadable |
//! | 4, 4, 4 | permissions, user, group |
//! | 8 | listed length |
//! | 2 + n | path |
//! | 2 + n | of a symbolic link: where it leads |
//! | 4 | of a hard link: the number of the entry that it is another name of |
//! | 8 | of a file that grew: its new length |
//! | 2 + n | of one that changed or is unreadable: why, in words |
//! | 4 | number of gaps |
//! | 1, 8, 8 | of each gap: kind (0 hole, 1 unread, 2 cut), start, length |
//!
//! The number of entries comes first, in 4 bytes. The frames of a file and its gaps cover its
//! listed length without overlap.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::{ENTRIES_MAX, get32, get64};
use crate::fate::{Fate, Gap, GapKind};

/// Longest path in bytes: its length has two bytes.
pub const PATH_MAX_BYTES: usize = u16::MAX as usize;
/// Longest reason of a fate, in bytes.
const WHY_MAX_BYTES: usize = 1000;

/// Kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A folder, which may be empty.
    Folder,
    /// A symbolic link, and its target.
    Link(PathBuf),
    /// A volume, restored as a file.
    Volume,
    /// A listed source of which nothing was backed up.
    Absent,
    /// Hard link to the file with this number, which precedes the link.
    Hard(u32),
}

impl Kind {
    /// Whether the entry has its own data.
    pub fn has_data(&self) -> bool {
        matches!(self, Kind::File | Kind::Volume)
    }
}

/// A file, folder or link in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Kind.
    pub kind: Kind,
    /// Relative to the folder of a restore.
    pub path: PathBuf,
    /// Permissions.
    pub mode: u32,
    /// User that owns the file.
    pub uid: u32,
    /// Group that owns the file.
    pub gid: u32,
    /// Size in bytes at the time of listing.
    pub listed_bytes: u64,
    /// The source's fate.
    pub fate: Fate,
    /// Parts without data: sorted, without overlap, within the listed length.
    pub gaps: Vec<Gap>,
}

impl Kept {
    /// Size of the restored file: smaller than the listed size if the file was truncated at its
    /// end.
    pub fn restored_bytes(&self) -> u64 {
        match self.gaps.last() {
            Some(gap) if gap.kind == GapKind::Cut && gap.range.end == self.listed_bytes => {
                gap.range.start
            }
            _ => self.listed_bytes,
        }
    }
}

/// Encodes the index.
pub fn put_index(entries: &[Kept]) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend((entries.len() as u32).to_le_bytes());
    entries.iter().for_each(|entry| put_entry(&mut out, entry));
    out
}

fn put_entry(out: &mut Vec<u8>, entry: &Kept) {
    let kind = match &entry.kind {
        Kind::File => 0_u8,
        Kind::Folder => 1,
        Kind::Link(_) => 2,
        Kind::Volume => 3,
        Kind::Absent => 4,
        Kind::Hard(_) => 5,
    };
    let fate = match &entry.fate {
        Fate::Whole => 0_u8,
        Fate::Grew { .. } => 1,
        Fate::Shrank => 2,
        Fate::Vanished => 3,
        Fate::Skipped => 4,
        Fate::Changed(_) => 5,
        Fate::Unreadable(_) => 6,
    };
    out.extend([kind, fate]);
    [entry.mode, entry.uid, entry.gid].iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(entry.listed_bytes.to_le_bytes());
    put_text(out, entry.path.as_os_str().as_bytes());
    match &entry.kind {
        Kind::Link(to) => put_text(out, to.as_os_str().as_bytes()),
        Kind::Hard(number) => out.extend(number.to_le_bytes()),
        _ => {}
    }
    match &entry.fate {
        Fate::Grew { to } => out.extend(to.to_le_bytes()),
        Fate::Changed(why) | Fate::Unreadable(why) => {
            put_text(out, why.as_bytes().get(..WHY_MAX_BYTES).unwrap_or(why.as_bytes()));
        }
        _ => {}
    }
    out.extend((entry.gaps.len() as u32).to_le_bytes());
    for gap in &entry.gaps {
        out.push(match gap.kind {
            GapKind::Hole => 0,
            GapKind::Unread => 1,
            GapKind::Cut => 2,
        });
        out.extend(gap.range.start.to_le_bytes());
        out.extend((gap.range.end - gap.range.start).to_le_bytes());
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text);
}

/// Decodes the index.
///
/// # Errors
///
/// The reason why the index is invalid: truncated, an entry that contradicts itself or another one,
/// or a path outside the folder of a restore.
pub fn take_index(bytes: &[u8]) -> Result<Vec<Kept>, String> {
    let mut rest = Rest(bytes);
    let count = rest.number32()?;
    if count > ENTRIES_MAX {
        return Err("the index is invalid: too many entries".to_owned());
    }
    let mut entries: Vec<Kept> = Vec::new();
    for number in 0..count {
        let entry = take_entry(&mut rest)?;
        if let Err(why) = check_entry(&entry, number, &entries) {
            return Err(format!("the index is invalid: {}: {why}", entry.path.display()));
        }
        entries.try_reserve(1).map_err(|error| format!("the index is too long: {error}"))?;
        entries.push(entry);
    }
    if !rest.0.is_empty() {
        return Err("the index is invalid: it is longer than its entries".to_owned());
    }
    check_tree(&entries)?;
    Ok(entries)
}

fn take_entry(rest: &mut Rest) -> Result<Kept, String> {
    let [kind, fate] = *rest.bytes(2)? else { unreachable!("two bytes") };
    let (mode, uid, gid) = (rest.number32()?, rest.number32()?, rest.number32()?);
    let listed_bytes = rest.number64()?;
    let path = rest.path()?;
    let kind = match kind {
        0 => Kind::File,
        1 => Kind::Folder,
        2 => Kind::Link(rest.path()?),
        3 => Kind::Volume,
        4 => Kind::Absent,
        5 => Kind::Hard(rest.number32()?),
        _ => return Err("the index has an entry of an unknown kind".to_owned()),
    };
    let fate = match fate {
        0 => Fate::Whole,
        1 => Fate::Grew { to: rest.number64()? },
        2 => Fate::Shrank,
        3 => Fate::Vanished,
        4 => Fate::Skipped,
        5 => Fate::Changed(String::from_utf8_lossy(rest.text()?).into_owned()),
        6 => Fate::Unreadable(String::from_utf8_lossy(rest.text()?).into_owned()),
        _ => return Err("the index has an entry of an unknown fate".to_owned()),
    };
    let mut gaps = Vec::new();
    for _ in 0..rest.number32()? {
        let kind = match rest.bytes(1)?[0] {
            0 => GapKind::Hole,
            1 => GapKind::Unread,
            2 => GapKind::Cut,
            _ => return Err("the index has a gap of an unknown kind".to_owned()),
        };
        let (start, len) = (rest.number64()?, rest.number64()?);
        gaps.push(Gap { kind, range: start..start.saturating_add(len) });
    }
    Ok(Kept { kind, path, mode, uid, gid, listed_bytes, fate, gaps })
}

/// Checks an entry alone, and against the one to which it refers.
fn check_entry(entry: &Kept, number: u32, before: &[Kept]) -> Result<(), &'static str> {
    if !is_plain(&entry.path) {
        return Err("a path outside its folder");
    }
    if entry.listed_bytes > i64::MAX as u64 {
        return Err("longer than any file");
    }
    match &entry.kind {
        Kind::Link(to) if to.as_os_str().is_empty() || holds_zero(to) => {
            return Err("a link without a destination");
        }
        Kind::Hard(to) if *to >= number || before[*to as usize].kind != Kind::File => {
            return Err("a hard link to an entry that is not an earlier file");
        }
        Kind::File | Kind::Volume | Kind::Absent => {}
        _ if !entry.gaps.is_empty() => return Err("gaps in an entry without data"),
        _ => {}
    }
    let mut at = 0;
    for gap in &entry.gaps {
        if gap.range.start < at || gap.range.is_empty() || gap.range.end > entry.listed_bytes {
            return Err("gaps that overlap or are outside the file");
        }
        at = gap.range.end;
    }
    Ok(())
}

/// Checks that each name is unique, and is below a folder that precedes it.
fn check_tree(entries: &[Kept]) -> Result<(), String> {
    let mut is_folder: HashMap<&Path, bool> = HashMap::new();
    for entry in entries {
        let path: &Path = &entry.path;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        if parent.is_some_and(|parent| is_folder.get(parent) != Some(&true)) {
            return Err(format!("the index has no folder for {}", path.display()));
        }
        if is_folder.insert(path, entry.kind == Kind::Folder).is_some() {
            return Err(format!("the index lists {} twice", path.display()));
        }
    }
    Ok(())
}

/// Whether a path has plain names only, with one `/` between them.
fn is_plain(path: &Path) -> bool {
    let mut names = path.as_os_str().as_bytes().split(|byte| *byte == b'/');
    !holds_zero(path) && names.all(|name| !matches!(name, b"" | b"." | b".."))
}

fn holds_zero(path: &Path) -> bool {
    path.as_os_str().as_bytes().contains(&0)
}

/// The rest of the index.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], String> {
        let (taken, left) = self.0.split_at_checked(len).ok_or("the index is truncated")?;
        self.0 = left;
        Ok(taken)
    }

    fn number32(&mut self) -> Result<u32, String> {
        Ok(get32(self.bytes(4)?, 0))
    }

    fn number64(&mut self) -> Result<u64, String> {
        Ok(get64(self.bytes(8)?, 0))
    }

    fn text(&mut self) -> Result<&'a [u8], String> {
        let len = self.bytes(2)?;
        self.bytes(usize::from(u16::from_le_bytes([len[0], len[1]])))
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        Ok(PathBuf::from(OsString::from_vec(self.text()?.to_vec())))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn kept(path: &str, kind: Kind) -> Kept {
        Kept {
            kind,
            path: path.into(),
            mode: 0o640,
            uid: 7,
            gid: 9,
            listed_bytes: 12,
            fate: Fate::Whole,
            gaps: Vec::new(),
        }
    }

    fn gap(kind: GapKind, range: std::ops::Range<u64>) -> Gap {
        Gap { kind, range }
    }

    fn all() -> Vec<Kept> {
        let holes = vec![gap(GapKind::Hole, 0..4), gap(GapKind::Unread, 4..5)];
        let unread = Fate::Unreadable("input/output error".to_owned());
        vec![
            kept("data", Kind::Folder),
            Kept { fate: unread, gaps: holes, ..kept("data/1", Kind::File) },
            Kept { fate: Fate::Grew { to: 99 }, ..kept("data/2", Kind::File) },
            kept("data/link", Kind::Link("/elsewhere".into())),
            kept("data/two", Kind::Hard(2)),
            Kept {
                fate: Fate::Shrank,
                gaps: vec![gap(GapKind::Cut, 3..12)],
                ..kept("data/3", Kind::File)
            },
            Kept { fate: Fate::Changed("a link".to_owned()), ..kept("data/4", Kind::Absent) },
            Kept { fate: Fate::Vanished, ..kept("data/5", Kind::Absent) },
            Kept { fate: Fate::Skipped, ..kept("data/6", Kind::Absent) },
            kept("volume-1", Kind::Volume),
        ]
    }

    #[test]
    fn an_index_comes_back_and_a_cut_one_does_not() {
        let all = all();
        let bytes = put_index(&all);
        assert_eq!(take_index(&bytes).unwrap(), all);
        for cut in 0..bytes.len() {
            assert!(take_index(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(take_index(&[0xff; 64]).is_err());
        assert!(take_index(&[bytes, vec![0]].concat()).unwrap_err().contains("longer"));
        assert_eq!((all[5].restored_bytes(), all[1].restored_bytes()), (3, 12));
    }

    fn why(entries: &[Kept]) -> String {
        take_index(&put_index(entries)).unwrap_err()
    }

    #[test]
    fn no_path_leads_out_of_a_restore() {
        let wrong =
            ["../x", "/etc/passwd", "a/../../x", "", "a//b", "a/./b", "a/", ".", "..", "a\0b"];
        for path in wrong {
            let found = why(&[kept("a", Kind::Folder), kept(path, Kind::File)]);
            assert!(found.contains("outside its folder"), "{path}: {found}");
        }
    }

    #[test]
    fn names_stand_once_and_below_folders_only() {
        for under in [Kind::File, Kind::Link("..".into()), Kind::Absent] {
            let found = why(&[kept("a", under), kept("a/b", Kind::File)]);
            assert!(found.contains("no folder for a/b"), "{found}");
        }
        assert!(why(&[kept("a/b", Kind::File), kept("a", Kind::Folder)]).contains("no folder"));
        let twice = [kept("a", Kind::Folder), kept("a", Kind::Link("..".into()))];
        assert!(why(&twice).contains("a twice"));
    }

    #[test]
    fn entries_that_contradict_themselves_are_refused() {
        let with = |gaps: Vec<Gap>| Kept { gaps, ..kept("a", Kind::File) };
        let hole = |range| gap(GapKind::Hole, range);
        for wrong in [
            vec![with(vec![hole(0..13)])],
            vec![with(vec![hole(4..8), hole(7..9)])],
            vec![with(vec![hole(4..8), hole(0..2)])],
            vec![with(vec![hole(4..4)])],
            vec![with(vec![hole(u64::MAX - 1..u64::MAX)])],
            vec![Kept { listed_bytes: 1 << 63, ..kept("a", Kind::File) }],
            vec![Kept { gaps: vec![hole(0..1)], ..kept("a", Kind::Folder) }],
            vec![kept("a", Kind::Hard(0))],
            vec![kept("a", Kind::Hard(1)), kept("b", Kind::File)],
            vec![kept("a", Kind::Folder), kept("b", Kind::Hard(0))],
            vec![kept("a", Kind::Absent), kept("b", Kind::Hard(0))],
            vec![kept("a", Kind::Volume), kept("b", Kind::Hard(0))],
            vec![kept("a", Kind::Link(PathBuf::new()))],
        ] {
            assert!(why(&wrong).contains("index is invalid"), "{wrong:?}");
        }
    }
}
