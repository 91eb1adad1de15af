//! Mounts: mount point and source of the file system of an open file.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// A line of the mount table, by proc(5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The mounted part of the file system.
    pub(crate) root: PathBuf,
    /// Mount point.
    pub(crate) point: PathBuf,
    /// Type of the file system, such as `ext4`.
    pub(crate) system: String,
    /// Source of the mount, such as `/dev/vda1`; any word if it is no device.
    pub(crate) source: PathBuf,
    /// Options of the file system.
    options: String,
}

impl Mount {
    /// The mount that a file was opened through. Not by device number: file systems such as btrfs
    /// give files other numbers than the table has.
    pub(crate) fn of(file: &File) -> Option<Mount> {
        let about = fs::read_to_string(format!("/proc/self/fdinfo/{}", file.as_raw_fd())).ok()?;
        let id = about.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim();
        Mount::find(&table(), |fields| fields.first() == Some(&id))
    }

    /// A mount of the file system with this device number, such as `0:45`.
    pub(crate) fn of_number(number: &str) -> Option<Mount> {
        Mount::find(&table(), |fields| fields.get(2) == Some(&number))
    }

    fn find(table: &str, is: impl Fn(&[&str]) -> bool) -> Option<Mount> {
        table.lines().find_map(|line| {
            let (front, back) = line.split_once(" - ")?;
            let front: Vec<&str> = front.split(' ').collect();
            let mut back = back.split(' ');
            let (system, source) = (back.next()?, back.next()?);
            is(&front).then(|| Mount {
                root: PathBuf::from(plain(front.get(3).unwrap_or(&"/"))),
                point: PathBuf::from(plain(front.get(4).unwrap_or(&"/"))),
                system: system.to_owned(),
                source: PathBuf::from(plain(source)),
                options: back.next().unwrap_or_default().to_owned(),
            })
        })
    }

    /// The value of an option of the file system, such as `upperdir`.
    pub(crate) fn option(&self, name: &str) -> Option<String> {
        let mut options = self.options.split(',');
        let value = options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))?;
        Some(plain(value))
    }
}

fn table() -> String {
    fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()
}

/// A field of the table with its octal escapes decoded.
fn plain(word: &str) -> String {
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|it| std::str::from_utf8(it).ok());
        let number = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match number.filter(|_| *first == b'\\') {
            Some(number) => (bytes.push(number), rest = &behind[3..]).1,
            None => (bytes.push(*first), rest = behind).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    const TABLE: &str = "\
22 27 0:21 / /proc rw - proc proc rw
27 1 254:0 / /a\\040b rw,noatime shared:1 - ext4 /dev/vda rw
40 27 0:44 /sub /mnt rw - btrfs /dev/vdb1 rw,subvol=/sub
41 27 0:45 / /merged rw - overlay overlay rw,lowerdir=/l\\0541:/l2,upperdir=/u,workdir=/w
";

    #[test]
    fn reads_the_table() {
        let number = |number| Mount::find(TABLE, |fields| fields.get(2) == Some(&number));
        assert_eq!(number("254:0").unwrap().point, PathBuf::from("/a b"));
        let id = |id| Mount::find(TABLE, |fields| fields.first() == Some(&id)).unwrap();
        let btrfs = id("40");
        assert_eq!((btrfs.system.as_str(), btrfs.root.to_str()), ("btrfs", Some("/sub")));
        assert_eq!(btrfs.source, PathBuf::from("/dev/vdb1"));
        let overlay = id("41");
        assert_eq!(overlay.option("upperdir").as_deref(), Some("/u"));
        assert_eq!(overlay.option("lowerdir").as_deref(), Some("/l,1:/l2"));
        assert_eq!(overlay.option("dir"), None);
        assert_eq!(number("9:9"), None);
        assert_eq!(Mount::find("nonsense", |_| true), None);
        assert_eq!(plain("a\\x\\"), "a\\x\\");
    }

    #[test]
    fn an_open_file_has_a_mount() {
        let file = File::open("/proc/self/mountinfo").unwrap();
        assert_eq!(Mount::of(&file).unwrap().system, "proc");
    }
}
