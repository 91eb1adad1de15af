//! Identity of a volume's data, across restarts. `serve` derives disk identities from this one, and
//! refuses to serve the same data under two names.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use os::Device;

use crate::{ArrayUri, Ground, Uri, Volume};

/// Lifetime of a volume's data, and the identity of the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Lifetime of this process: opening the same URI again gives other data.
    Process,
    /// Persistent data, with an identity that is stable on this host.
    Lasting(Vec<u8>),
}

impl Lifetime {
    /// Lifetime of the volume opened from `uri`. Looks at a file or device again; a missing one is
    /// identified by its path.
    pub fn of(uri: &Uri, volume: &dyn Volume) -> Lifetime {
        let name = match uri {
            Uri::Null { .. } | Uri::Ram { .. } => return Lifetime::Process,
            Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => {
                return Lifetime::of(inner, volume);
            }
            Uri::Stripe { chunk_bytes, parts } => {
                let mut name = format!("stripe {chunk_bytes}").into_bytes();
                for part in parts {
                    let Lifetime::Lasting(part) = Lifetime::of(part, volume) else {
                        return Lifetime::Process;
                    };
                    name.extend([&b" "[..], &part.len().to_le_bytes(), &part].concat());
                }
                name
            }
            // An array is identified by its name, because its legs may be replaced one by one.
            Uri::Array(array) => [b"array ", array.name.as_bytes()].concat(),
            // No metadata records which leg is in sync.
            Uri::Mirror { .. } => return Lifetime::Process,
            Uri::File(file) => name_of(&file.path),
            Uri::Iscsi(far) => format!("iscsi {} {} {}", far.address, far.target, far.lun).into(),
            Uri::VhostUser { path } => format!("vhost-user {}", path.display()).into(),
            Uri::Nbd(far) => format!("nbd {} {}", far.address, far.export).into(),
            Uri::Nvme(far) => format!("nvme {} {} {}", far.address, far.subsystem, far.nsid).into(),
        };
        match volume.ground() {
            // Kernel memory (brd, zram) is another disk after each boot.
            Ground::File(ground) if ground.stack.memory().is_some() => {
                let boot = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
                Lifetime::Lasting([name, boot].concat())
            }
            _ => Lifetime::Lasting(name),
        }
    }
}

/// Identity of a device, its serial number or WWN, as its path may be another disk's after a
/// reboot; of a file, its resolved path.
fn name_of(path: &Path) -> Vec<u8> {
    let device = block_device(path).and_then(|device| device.lasting_name());
    match device {
        Some(name) => format!("device {name}").into(),
        None => {
            let real = fs::canonicalize(path).or_else(|_| std::path::absolute(path));
            let real = real.unwrap_or_else(|_| path.to_owned());
            [b"file ", real.as_os_str().as_encoded_bytes()].concat()
        }
    }
}

fn block_device(path: &Path) -> Option<Device> {
    let twin = os::block_twin(path);
    let path = twin.as_deref().unwrap_or(path);
    let is_device = fs::metadata(path).ok()?.file_type().is_block_device();
    if is_device { Device::under(&File::open(path).ok()?) } else { None }
}

/// Location of a volume's data, to find volumes with the same data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataLocation {
    /// In a file (by file system and inode), on a device, or both: a loop device is its file.
    Here {
        /// Device number and inode of the file.
        file: Option<(u64, u64)>,
        /// Kernel names of the device and of its whole disk.
        device: Option<(String, String)>,
    },
    /// On another host, by its address.
    There(String),
    /// Several locations.
    Several(Vec<DataLocation>),
}

impl DataLocation {
    /// Location of the volume that `uri` names; `None` for memory of this process, and for a
    /// missing file.
    pub fn of(uri: &Uri) -> Option<DataLocation> {
        let path = match uri {
            Uri::Null { .. } | Uri::Ram { .. } => return None,
            Uri::Delay { inner, .. } | Uri::Fault { inner, .. } => return DataLocation::of(inner),
            Uri::Stripe { parts: legs, .. }
            | Uri::Mirror { legs }
            | Uri::Array(ArrayUri { legs, .. }) => {
                return Some(DataLocation::Several(
                    legs.iter().filter_map(DataLocation::of).collect(),
                ));
            }
            Uri::File(file) => &file.path,
            Uri::Iscsi(far) => {
                return Some(DataLocation::There(format!(
                    "{}/{}/{}",
                    far.address, far.target, far.lun
                )));
            }
            Uri::VhostUser { path } => {
                return Some(DataLocation::There(format!("vhost-user {}", path.display())));
            }
            Uri::Nbd(far) => {
                return Some(DataLocation::There(format!("{}/{}", far.address, far.export)));
            }
            Uri::Nvme(far) => {
                let name = format!("{}/{}/{}", far.address, far.subsystem, far.nsid);
                return Some(DataLocation::There(name));
            }
        };
        let twin = os::block_twin(path);
        let path = twin.as_ref().unwrap_or(path);
        let about = fs::metadata(path).ok()?;
        if !about.file_type().is_block_device() {
            return Some(DataLocation::Here {
                file: Some((about.dev(), about.ino())),
                device: None,
            });
        }
        let found = block_device(path);
        let backing = found.as_ref().and_then(Device::backing_file);
        let file = backing.and_then(|path| fs::metadata(path).ok());
        let number = about.rdev().to_string();
        let device = found.map_or((number.clone(), number), |found| (found.name, found.disk));
        let file = file.map(|about| (about.dev(), about.ino()));
        Some(DataLocation::Here { file, device: Some(device) })
    }

    /// Device numbers and inodes of the files with the data.
    pub fn files(&self) -> Vec<(u64, u64)> {
        match self {
            DataLocation::Here { file, .. } => file.iter().copied().collect(),
            DataLocation::There(_) => Vec::new(),
            DataLocation::Several(parts) => parts.iter().flat_map(DataLocation::files).collect(),
        }
    }

    /// Whether a write to one location may appear in the other.
    pub fn overlaps(&self, other: &DataLocation) -> bool {
        if let (DataLocation::Several(parts), one) | (one, DataLocation::Several(parts)) =
            (self, other)
        {
            return parts.iter().any(|part| part.overlaps(one));
        }
        let (
            DataLocation::Here { file, device },
            DataLocation::Here { file: other_file, device: other_device },
        ) = (self, other)
        else {
            return self == other;
        };
        if let (Some((name, disk)), Some((other, other_disk))) = (device, other_device)
            && disk == other_disk
        {
            // Two partitions do not overlap; the disk overlaps both.
            return name == other || name == disk || other == other_disk;
        }
        file.is_some() && file == other_file
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Purpose, open};

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("drumfire-{name}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn uri(&self, rest: &str) -> Uri {
            format!("file:{}/{rest}", self.0.display()).parse().unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn lifetime(uri: &Uri) -> Lifetime {
        Lifetime::of(uri, &*open(uri, Purpose::Store).unwrap())
    }

    #[test]
    fn files_are_known_by_their_path_whatever_leads_there() {
        let folder = Scratch::new("lifetime");
        let (a, b) = (folder.uri("a.img?size=1m"), folder.uri("b.img?size=1m"));
        std::os::unix::fs::symlink("a.img", folder.0.join("link")).unwrap();
        let known = lifetime(&a);
        assert_ne!(known, lifetime(&b));
        for same in ["a.img", "./a.img", "a.img?block=4k", "link"] {
            assert_eq!(lifetime(&folder.uri(same)), known, "{same}");
        }
        let delayed = format!("delay:x25-m({})", folder.uri("a.img")).parse().unwrap();
        assert_eq!((lifetime(&delayed), DataLocation::of(&delayed)), (known, DataLocation::of(&a)));
        for uri in ["ram:1m", "null:1m"] {
            assert_eq!(lifetime(&uri.parse().unwrap()), Lifetime::Process);
        }
    }

    #[test]
    fn the_same_data_are_found_by_any_name() {
        let folder = Scratch::new("place");
        assert_eq!(DataLocation::of(&folder.uri("a.img?size=1m")), None, "not made yet");
        for name in ["a.img", "b.img"] {
            fs::write(folder.0.join(name), [0; 512]).unwrap();
        }
        fs::hard_link(folder.0.join("a.img"), folder.0.join("hard")).unwrap();
        std::os::unix::fs::symlink("hard", folder.0.join("soft")).unwrap();
        let place = |name: &str| DataLocation::of(&folder.uri(name)).unwrap();
        for same in ["a.img", "hard", "soft", "./soft", "x/../a.img"] {
            fs::create_dir_all(folder.0.join("x")).unwrap();
            assert!(place("a.img").overlaps(&place(same)), "{same}");
        }
        assert!(!place("a.img").overlaps(&place("b.img")));
        let far = |uri: &str| DataLocation::of(&uri.parse().unwrap()).unwrap();
        let there = far("iscsi://h/iqn.2026-11.io.drumfire:a/1");
        assert!(there.overlaps(&far("iscsi://h:3260/iqn.2026-11.io.drumfire:a/1?reconnect=3s")));
        assert!(!there.overlaps(&far("iscsi://h/iqn.2026-11.io.drumfire:a/2")));
        assert!(!there.overlaps(&place("a.img")));
    }

    #[test]
    fn partitions_lie_side_by_side_on_their_disk() {
        let device = |name: &str, disk: &str, file: Option<(u64, u64)>| DataLocation::Here {
            file,
            device: Some((name.to_owned(), disk.to_owned())),
        };
        let (disk, one, two) =
            (device("sda", "sda", None), device("sda1", "sda", None), device("sda2", "sda", None));
        assert!(disk.overlaps(&disk) && disk.overlaps(&one) && one.overlaps(&disk));
        assert!(one.overlaps(&one) && !one.overlaps(&two));
        assert!(!disk.overlaps(&device("sdb", "sdb", None)));
        // Loop devices equal their files; their partitions still do not overlap.
        let file = Some((1, 2));
        let image = DataLocation::Here { file, device: None };
        let (loop0, loop1) = (device("loop0", "loop0", file), device("loop1", "loop1", file));
        assert!(loop0.overlaps(&image) && image.overlaps(&loop1) && loop0.overlaps(&loop1));
        let parts = ["loop0p1", "loop0p2"].map(|name| device(name, "loop0", file));
        assert!(!parts[0].overlaps(&parts[1]) && parts[0].overlaps(&image));
    }
}
