//! Files with the reservations of volumes, one for each disk: `serve --keep-reservations`.
//!
//! A file is replaced as a whole, by a new one that is durable before it gets the name. A file that
//! is damaged is no reason to fence nobody: the server does not start with it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ::serve::{DiskId, Keeper, NotSaved, UnitShared};
use anyhow::{Context, Result, anyhow};
use os::{Entry, Folder};

use crate::exit::UsageError;
use crate::identity;
use crate::output::note;

/// Maximum length of a file: 256 registrations with the longest names have less.
const READ_MAX: u64 = 1 << 20;

/// The folder of the files, and locks that keep other servers from them.
#[derive(Debug)]
pub struct ReservationFiles {
    path: PathBuf,
    locks: Mutex<BTreeMap<String, Option<File>>>,
}

impl ReservationFiles {
    /// The folder in that of the server's state; it is created.
    pub(super) fn open() -> Result<ReservationFiles> {
        ReservationFiles::at(identity::state_folder().join("reservations"))
    }

    fn at(path: PathBuf) -> Result<ReservationFiles> {
        let made = Folder::make_trusted(&path);
        made.with_context(|| format!("cannot keep reservations in {}", path.display()))?;
        Ok(ReservationFiles { path, locks: Mutex::default() })
    }

    /// The reservations of a disk as the server left them, which are saved from now on.
    pub(super) fn of(&self, disk: &DiskId, volume: &str) -> Result<UnitShared> {
        let name = disk.to_string();
        let path = self.path.join(&name);
        let about = || format!("reservations of volume {volume}: {}", path.display());
        let folder = Folder::open_trusted(&self.path).with_context(about)?;
        self.lock(&folder, &name, volume).with_context(about)?;
        let record = read(&folder, &name).with_context(about)?;
        let (volume, shown) = (volume.to_owned(), path.display().to_string());
        let keeper = Arc::new(ReservationFile { folder, name: name.into(), path, volume });
        UnitShared::kept(keeper.clone(), record.as_deref()).map_err(|error| {
            anyhow!(
                "reservations of volume {}: {shown} is damaged: {error}; fix: restore it, or \
                `rm {shown}`, after which no host is registered",
                keeper.volume
            )
        })
    }

    /// Locks the file of a disk for this process.
    fn lock(&self, folder: &Folder, name: &str, volume: &str) -> Result<()> {
        // The map is consistent between any two statements.
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.contains_key(name) {
            return Ok(());
        }
        let file = folder.append(&OsString::from(format!("{name}.lock")))?;
        let lock = match file.try_lock() {
            Ok(()) => Some(file),
            Err(TryLockError::WouldBlock) => {
                let why = format!(
                    "another server keeps the reservations of volume {volume}; fix: stop it, or \
                    serve without --keep-reservations"
                );
                return Err(UsageError(why).into());
            }
            // The file system has no locks.
            Err(TryLockError::Error(_)) => None,
        };
        locks.insert(name.to_owned(), lock);
        Ok(())
    }
}

fn read(folder: &Folder, name: &str) -> io::Result<Option<String>> {
    match folder.entry(name.as_ref())? {
        Entry::Missing => return Ok(None),
        Entry::File => {}
        Entry::Folder | Entry::Other { .. } => return Err(io::Error::other("not a file")),
    }
    let mut text = String::new();
    folder.file(Path::new(name), 0)?.take(READ_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

/// The file of a disk.
#[derive(Debug)]
struct ReservationFile {
    folder: Folder,
    name: OsString,
    path: PathBuf,
    volume: String,
}

impl ReservationFile {
    fn replace(&self, record: &str) -> io::Result<()> {
        let mut draft = self.folder.draft()?;
        draft.file.write_all(record.as_bytes())?;
        draft.file.sync_all()?;
        draft.keep(&self.name)?;
        self.folder.sync()
    }
}

impl Keeper for ReservationFile {
    fn save(&self, record: &str) -> Result<(), NotSaved> {
        self.replace(record).map_err(|error| {
            note(format_args!(
                "drumfire: --volume {}: {}: {error}: a host's change of reservations is refused; \
                fix: make the folder writable, with room for a file",
                self.volume,
                self.path.display()
            ));
            NotSaved
        })
    }
}

#[cfg(test)]
mod test {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place(PathBuf);

    impl Place {
        fn new() -> Place {
            let name = format!("drumfire-reservations-{:x}", os::random());
            Place(std::env::temp_dir().join(name))
        }

        fn files(&self) -> ReservationFiles {
            ReservationFiles::at(self.0.clone()).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn words(result: Result<UnitShared>) -> String {
        format!("{:#}", result.unwrap_err())
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_and_read_again() {
        let place = Place::new();
        let disk = DiskId::new([7; 16]);
        let path = place.0.join(disk.to_string());
        place.files().of(&disk, "disk=/a").unwrap();
        assert!(!path.exists(), "nothing is saved before a host asks for it");
        let keeper = ReservationFile {
            folder: Folder::open_trusted(&place.0).unwrap(),
            name: disk.to_string().into(),
            path: path.clone(),
            volume: "disk=/a".to_owned(),
        };
        let empty = "drumfire reservations 1\nend 00000000\n";
        keeper.save(&format!("{empty}more")).unwrap();
        keeper.save(empty).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), empty);
        assert_eq!(fs::read_dir(&place.0).unwrap().count(), 2, "the file and its lock");
        let why = words(place.files().of(&disk, "disk=/a"));
        assert!(why.contains("line 2") && why.contains("fix: restore it, or `rm "), "{why}");
        fs::remove_dir_all(&place.0).unwrap();
        assert_eq!(keeper.save(empty), Err(NotSaved));
    }

    #[test]
    fn links_and_folders_are_refused() {
        let place = Place::new();
        let disk = DiskId::new([7; 16]);
        let files = place.files();
        let path = place.0.join(disk.to_string());
        fs::write(place.0.join("elsewhere"), "drumfire reservations 1\n").unwrap();
        symlink("elsewhere", &path).unwrap();
        assert!(words(files.of(&disk, "disk=/a")).contains("not a file"));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(words(files.of(&disk, "disk=/a")).contains("not a file"));
    }

    #[test]
    fn one_server_keeps_a_disk() {
        let place = Place::new();
        let (one, other) = (place.files(), place.files());
        let disk = DiskId::new([7; 16]);
        let first = one.of(&disk, "disk=/a").unwrap();
        one.of(&disk, "disk=/a").expect("the volume is opened again");
        let why = words(other.of(&disk, "disk=/a"));
        assert!(why.contains("another server keeps the reservations of volume disk=/a"), "{why}");
        other.of(&DiskId::new([8; 16]), "b=/b").unwrap();
        drop((first, one));
        other.of(&disk, "disk=/a").unwrap();
    }
}
