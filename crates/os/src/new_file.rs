//! A file that gets its name when it is complete: until then an existing file of this name stays as
//! it is, and an interrupted writer leaves no partial file under the name.
//!
//! If the file system supports it, the file has no name until the end, so that even a killed
//! process leaves nothing behind. Otherwise the file has a random name in the same folder.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::Mode;

use crate::folder::handle_path;
use crate::{FileAbout, FileId, Folder, random};

/// Permissions of a new file: its data may be more private than its folder.
const MODE: u32 = 0o600;
/// Longest name of a file in Linux, in bytes.
const NAME_MAX_BYTES: usize = 255;

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    folder: Folder,
    folder_path: PathBuf,
    /// The final name.
    name: OsString,
    /// The random name, if the file has one.
    beside: Option<OsString>,
    file: File,
}

impl NewFile {
    /// Starts the file with the final path `path`, with mode 600. Symbolic links in the path of its
    /// folder are followed, except those of other users. `flags` are additional open flags, such as
    /// [`O_DIRECT`](crate::O_DIRECT).
    ///
    /// # Errors
    ///
    /// Errors of the system; [`io::ErrorKind::InvalidInput`] if a flag is not supported, or if the
    /// path does not end in a name.
    pub fn begin(path: &Path, flags: i32) -> io::Result<NewFile> {
        let (folder_path, name) = split(path)?;
        let folder = Folder::open_trusted(&folder_path)?;
        // A name that is too long fails now, and not after everything is written.
        if let Err(error) = folder.look(Path::new(&name))
            && error.kind() != io::ErrorKind::NotFound
        {
            return Err(error);
        }
        let (file, beside) = match unnamed(&folder, flags) {
            Some(file) => (file, None),
            None => named(&folder, &name, flags)?,
        };
        let new = NewFile { folder, folder_path, name, beside, file };
        // The umask may have removed the owner's permissions, too.
        rustix::fs::fchmod(&new.file, Mode::from_raw_mode(MODE))?;
        Ok(new)
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Folder of the file.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The final name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Properties of the existing file with the final name.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if there is none.
    pub fn old(&self) -> io::Result<FileAbout> {
        self.folder.look(Path::new(&self.name))
    }

    /// Makes the file durable and gives it its final name, or with `name` another one in the same
    /// folder. Without `replace` an existing file stays. Returns its path.
    ///
    /// # Errors
    ///
    /// Errors of the system. If all is written and only the name is refused, the file keeps a
    /// random name, which the error contains: writing may have taken hours.
    pub fn publish(mut self, name: Option<&OsStr>, replace: bool) -> io::Result<PathBuf> {
        self.file.sync_all()?;
        let name = name.unwrap_or(&self.name).to_owned();
        let beside = match self.beside.take() {
            Some(beside) => beside,
            None => {
                let beside = chance_name(&name);
                self.folder.give_name(&self.file, Path::new(&beside))?;
                beside
            }
        };
        self.folder.rename(Path::new(&beside), Path::new(&name), replace).map_err(|error| {
            let left = self.folder_path.join(&beside);
            io::Error::new(
                error.kind(),
                format!("{error}: the data written so far is in {}", left.display()),
            )
        })?;
        self.folder.sync()?;
        Ok(self.folder_path.join(name))
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(beside) = &self.beside {
            // Only a file that this process created is removed.
            let own = FileAbout::of(&self.file).map(|about| about.id).ok();
            let there = self.folder.look(Path::new(beside)).map(|about| about.id).ok();
            if own.is_some() && own == there {
                let _ = self.folder.remove(Path::new(beside));
            }
        }
    }
}

/// The folder of a path, and the name in it.
fn split(path: &Path) -> io::Result<(PathBuf, OsString)> {
    let ends_in_name = !path.as_os_str().as_bytes().ends_with(b"/");
    match path.file_name().filter(|_| ends_in_name) {
        Some(name) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            Ok((parent.unwrap_or(Path::new(".")).to_owned(), name.to_owned()))
        }
        None => Err(io::Error::new(io::ErrorKind::InvalidInput, "the path has no file name")),
    }
}

/// A file without a name, if the folder's file system supports such files and linking them later: a
/// test with another file checks this, because a failure after hours of work is costly.
fn unnamed(folder: &Folder, flags: i32) -> Option<File> {
    let file = folder.create_unnamed(MODE, flags).ok()?;
    let shown = File::open(handle_path(&file)).ok()?;
    let id = |file: &File| FileAbout::of(file).map(|about| about.id).ok();
    let trial = folder.create_unnamed(MODE, 0).ok()?;
    let name = chance_name(OsStr::new("trial"));
    folder.give_name(&trial, Path::new(&name)).ok()?;
    let removed = folder.remove(Path::new(&name));
    let same: Option<FileId> = id(&file).filter(|one| id(&shown) == Some(*one));
    (same.is_some() && removed.is_ok()).then_some(file)
}

/// Creates a file with a random name, in the folder of the final one.
fn named(folder: &Folder, name: &OsStr, flags: i32) -> io::Result<(File, Option<OsString>)> {
    let beside = chance_name(name);
    match folder.create(Path::new(&beside), MODE, flags) {
        Ok(file) => Ok((file, Some(beside))),
        Err(error) => {
            // An unsupported flag may be refused after the file was created.
            let _ = folder.remove(Path::new(&beside));
            Err(error)
        }
    }
}

/// `name`, a random number and ".part": no other file has this name, and a user who finds it knows
/// its purpose.
fn chance_name(name: &OsStr) -> OsString {
    let end = format!(".{:016x}.part", random());
    let kept = name.len().min(NAME_MAX_BYTES - end.len());
    let mut bytes = name.as_bytes()[..kept].to_vec();
    bytes.extend(end.as_bytes());
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod test {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            let path = std::env::temp_dir().join(format!("drumfire-new-file-{:x}", random()));
            std::fs::create_dir(&path).unwrap();
            Place(path)
        }

        fn names(&self) -> Vec<OsString> {
            Folder::open(&self.0).unwrap().names().unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// New files on a file system with and without files without names.
    fn both(path: &Path) -> [NewFile; 2] {
        let first = NewFile::begin(path, 0).unwrap();
        let mut second = NewFile::begin(path, 0).unwrap();
        (second.file, second.beside) = named(&second.folder, &second.name, 0).unwrap();
        [first, second]
    }

    #[test]
    fn the_old_file_stays_until_the_new_one_is_whole() {
        let place = Place::new();
        let path = place.0.join("kept");
        for way in 0..2 {
            std::fs::write(&path, b"old").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
            let new = both(&path).into_iter().nth(way).unwrap();
            new.file().write_all(b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"old");
            assert_eq!(new.publish(None, true).unwrap(), path);
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            let mode = std::fs::metadata(&path).unwrap().permissions().mode();
            assert_eq!((mode & 0o7777, place.names()), (0o600, vec!["kept".into()]));
        }
    }

    #[test]
    fn one_that_is_given_up_leaves_nothing() {
        let place = Place::new();
        let path = place.0.join("kept");
        drop(both(&path));
        assert!(place.names().is_empty());
        // A name of chance that somebody took over is not removed.
        let [_, two] = both(&path);
        let beside = place.0.join(two.beside.clone().unwrap());
        std::fs::rename(&beside, place.0.join("moved")).unwrap();
        std::fs::write(&beside, b"foreign").unwrap();
        drop(two);
        assert_eq!(std::fs::read(&beside).unwrap(), b"foreign");
    }

    #[test]
    fn a_name_that_was_made_meanwhile_stays_and_the_work_is_not_lost() {
        let place = Place::new();
        let path = place.0.join("kept");
        for new in both(&path) {
            new.file().write_all(b"new").unwrap();
            std::fs::write(&path, b"theirs").unwrap();
            let error = new.publish(None, false).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(std::fs::read(&path).unwrap(), b"theirs");
            let words = error.to_string();
            let left = words.rsplit_once(" is in ").unwrap().1;
            assert_eq!(std::fs::read(left).unwrap(), b"new", "{words}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn names_of_any_length_have_one_beside_and_paths_without_a_name_are_refused() {
        let place = Place::new();
        let path = place.0.join("n".repeat(NAME_MAX_BYTES));
        for new in both(&path) {
            new.publish(None, true).unwrap();
        }
        assert_eq!(place.names().len(), 1);
        assert!(NewFile::begin(&place.0.join("n".repeat(NAME_MAX_BYTES + 1)), 0).is_err());
        for wrong in ["/", "..", "a/..", "a/"] {
            assert!(NewFile::begin(Path::new(wrong), 0).is_err(), "{wrong}");
        }
    }
}
