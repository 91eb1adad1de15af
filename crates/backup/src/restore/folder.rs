//! The folder of a restore: new, private during the restore, under a name that marks it as
//! incomplete. Everything beneath the folder is reached by the folder's handle, and newly created;
//! links come last, and permissions after them.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use os::{FileAbout, FileId, FileKind, Folder};

use crate::BackupError;
use crate::format::FrameHead;
use crate::format::index::{Kept, Kind};
use crate::target::NAME_MAX_BYTES;
use crate::way::Stop;

/// Maximum open files.
const OPEN_MAX: usize = 64;
/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// Maximum incomplete restores of one name.
const LEFT_MAX: u32 = 1000;

/// Destination and options of a restore.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// The folder, which must not exist. Its parents are created.
    pub folder: &'a Path,
    /// Restores owners, and with them set-user-ID and set-group-ID bits: a task for root.
    pub owners: bool,
}

/// Files being restored.
pub(super) struct Restored {
    parent: Folder,
    parent_path: PathBuf,
    /// Final name of the folder; the working name is next.
    name: OsString,
    working: OsString,
    working_path: PathBuf,
    root: Folder,
    /// Permissions of the complete folder.
    root_mode: u32,
    owners: bool,
    /// Created file or folder, by entry.
    made: Vec<Option<FileId>>,
    open: BTreeMap<u32, File>,
}

impl Restored {
    /// Creates the folder.
    pub(super) fn new(into: Destination) -> Result<Restored, BackupError> {
        let fail = |error| BackupError::Place { path: into.folder.to_owned(), error };
        let invalid = || io::Error::new(ErrorKind::InvalidInput, "the path has no folder name");
        let name = into.folder.file_name().ok_or_else(invalid).map_err(fail)?.to_owned();
        let parent_path = into.folder.parent().filter(|path| !path.as_os_str().is_empty());
        let parent_path = parent_path.unwrap_or(Path::new(".")).to_owned();
        let (parent, _) = Folder::make_trusted(&parent_path).map_err(fail)?;
        match parent.look(Path::new(&name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(fail(error)),
            Ok(_) => {
                let words = "exists, and a restore creates a new folder: choose another name";
                return Err(fail(io::Error::new(ErrorKind::AlreadyExists, words)));
            }
        }
        let (working, root, root_mode) = begin_folder(&parent, &name).map_err(fail)?;
        Ok(Restored {
            working_path: parent_path.join(&working),
            parent,
            parent_path,
            name,
            working,
            root,
            root_mode,
            owners: into.owners,
            made: Vec::new(),
            open: BTreeMap::new(),
        })
    }

    /// Folder that has everything until the restore is complete.
    pub(super) fn path(&self) -> &Path {
        &self.working_path
    }

    /// Creates all folders, and all files without data.
    pub(super) fn begin(&mut self, entries: &[Kept], stop: Stop) -> Result<(), BackupError> {
        for entry in entries {
            check(stop)?;
            let made = match &entry.kind {
                Kind::Folder => self.make_folder(&entry.path),
                Kind::File | Kind::Volume => self.make_file(&entry.path, entry.restored_bytes()),
                // Links come last, so that nothing is written through one.
                Kind::Link(_) | Kind::Hard(_) | Kind::Absent => Ok(None),
            };
            self.made.push(made.map_err(|error| self.fail(entry, error))?);
        }
        Ok(())
    }

    fn make_folder(&self, path: &Path) -> io::Result<Option<FileId>> {
        self.root.create_folder(path, 0o700)?;
        Ok(Some(self.root.look(path)?.id))
    }

    fn make_file(&self, path: &Path, bytes: u64) -> io::Result<Option<FileId>> {
        let file = self.root.create(path, 0o600, 0)?;
        // Parts that no frame fills are holes.
        file.set_len(bytes)?;
        Ok(Some(FileAbout::of(&file)?.id))
    }

    /// Writes the data of a frame into its file.
    pub(super) fn write(
        &mut self,
        entries: &[Kept],
        frame: &FrameHead,
        bytes: &[u8],
    ) -> Result<(), BackupError> {
        let entry = &entries[frame.entry as usize];
        self.write_at(entry, frame, bytes).map_err(|error| self.fail(entry, error))
    }

    fn write_at(&mut self, entry: &Kept, frame: &FrameHead, bytes: &[u8]) -> io::Result<()> {
        if !self.open.contains_key(&frame.entry) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let file = self.root.file_to_write(&entry.path)?;
            self.same(frame.entry as usize, &file, FileKind::File)?;
            self.open.insert(frame.entry, file);
        }
        self.open[&frame.entry].write_all_at(bytes, frame.offset)
    }

    /// Checks that an open file is the one that was created.
    fn same(&self, number: usize, file: &File, kind: FileKind) -> io::Result<()> {
        let about = FileAbout::of(file)?;
        match about.kind == kind && Some(about.id) == self.made[number] {
            true => Ok(()),
            false => Err(io::Error::other("was replaced by another process")),
        }
    }

    /// Creates links, then sets owners and permissions from the bottom to the top, and makes all of
    /// it durable. Returns the number of omitted set-ID bits.
    pub(super) fn end(&mut self, entries: &[Kept], stop: Stop) -> Result<u64, BackupError> {
        self.open.clear();
        for entry in entries {
            check(stop)?;
            if let Kind::Hard(to) = entry.kind {
                let file = &entries[to as usize].path;
                let made = self.root.create_hard_link(file, &entry.path);
                made.map_err(|error| self.fail(entry, error))?;
            }
        }
        for entry in entries {
            check(stop)?;
            if let Kind::Link(to) = &entry.kind {
                let made = self.root.create_link(to, &entry.path);
                made.map_err(|error| self.fail(entry, error))?;
            }
        }
        let mut left_out = 0;
        for (number, entry) in entries.iter().enumerate().rev() {
            check(stop)?;
            self.settle(number, entry).map_err(|error| self.fail(entry, error))?;
            let has_bits = !matches!(entry.kind, Kind::Link(_) | Kind::Hard(_) | Kind::Absent);
            left_out += u64::from(has_bits && !self.owners && entry.mode & SET_ID != 0);
        }
        self.root.sync_file_system().map_err(|error| self.fail_here(error))?;
        Ok(left_out)
    }

    /// Sets owner and permissions of one entry.
    fn settle(&self, number: usize, entry: &Kept) -> io::Result<()> {
        let (path, uid, gid) = (&entry.path, entry.uid, entry.gid);
        let kind = match entry.kind {
            Kind::File | Kind::Volume => FileKind::File,
            Kind::Folder => FileKind::Folder,
            Kind::Link(_) if self.owners => return self.root.set_owner(path, uid, gid),
            // The other name of a file has the owner and permissions of the file.
            Kind::Link(_) | Kind::Hard(_) | Kind::Absent => return Ok(()),
        };
        let file = self.root.file(path, 0)?;
        self.same(number, &file, kind)?;
        // A change of the owner clears set-ID bits, so that it comes first.
        if self.owners {
            std::os::unix::fs::fchown(&file, Some(uid), Some(gid))?;
        }
        let mode = if self.owners { entry.mode } else { entry.mode & !SET_ID };
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode & 0o7777);
        file.set_permissions(mode)
    }

    /// Gives a complete folder its name. A folder that lacks data keeps its working name, which
    /// marks it as incomplete. Returns the final path.
    pub(super) fn publish(&self, is_whole: bool) -> Result<PathBuf, BackupError> {
        let fail = |error| self.fail_here(error);
        if !is_whole {
            return Ok(self.working_path.clone());
        }
        let (working, name) = (Path::new(&self.working), Path::new(&self.name));
        let id = |about: io::Result<FileAbout>| about.map(|about| about.id).map_err(fail);
        if id(self.parent.look(working))? != id(self.root.about())? {
            return Err(fail(io::Error::other("was replaced by another process")));
        }
        self.root.set_mode(self.root_mode).map_err(fail)?;
        self.parent.rename(working, name, false).map_err(fail)?;
        self.parent.sync().map_err(fail)?;
        Ok(self.parent_path.join(&self.name))
    }

    fn fail(&self, entry: &Kept, error: io::Error) -> BackupError {
        BackupError::Place { path: self.working_path.join(&entry.path), error }
    }

    fn fail_here(&self, error: io::Error) -> BackupError {
        BackupError::Place { path: self.working_path.clone(), error }
    }
}

/// Creates `NAME.incomplete`, or if earlier ones were left, `NAME.incomplete-2` and so on: a second
/// attempt starts again, and deletes nothing. Returns its name, its handle, and the permissions
/// that a folder made here would have.
fn begin_folder(parent: &Folder, name: &OsStr) -> io::Result<(OsString, Folder, u32)> {
    for number in 1..=LEFT_MAX {
        let end = match number {
            1 => ".incomplete".to_owned(),
            _ => format!(".incomplete-{number}"),
        };
        let kept = name.len().min(NAME_MAX_BYTES - end.len());
        let mut working = OsStr::from_bytes(&name.as_bytes()[..kept]).to_owned();
        working.push(end);
        let path = Path::new(&working);
        match parent.create_folder(path, 0o777) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let root = parent.folder(path)?;
        let about = root.about()?;
        root.set_mode(0o700)?;
        let own = rustix::process::geteuid().as_raw();
        if about.uid != own || !root.names()?.is_empty() {
            return Err(io::Error::other("the folder was replaced by another process"));
        }
        return Ok((working, root, about.mode));
    }
    let words = format!("{LEFT_MAX} folders of incomplete restores are next to it: delete them");
    Err(io::Error::new(ErrorKind::AlreadyExists, words))
}

fn check(stop: Stop) -> Result<(), BackupError> {
    if stop() { Err(BackupError::Stopped) } else { Ok(()) }
}
