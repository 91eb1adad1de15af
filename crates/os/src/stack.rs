//! The storage stack below a file, layer by layer: a file system on a loop device on a file on
//! another file system, down to a disk, memory, or an opaque layer.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use block::Backing;

use crate::Device;
use crate::device::pair;
use crate::mount::Mount;

/// File systems in memory, whatever they say to `O_DIRECT`.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];
/// File systems served by another program or host: their I/O is not charged to this process.
const ELSEWHERE: [&str; 8] = ["fuse", "virtiofs", "9p", "nfs", "cifs", "smb3", "ceph", "vboxsf"];
/// Type of the file system that `attach` mounts.
pub const ATTACHED: &str = "fuse.drumfire";
/// Maximum depth, so that a cycle of loop devices ends.
const MOST_LAYERS: usize = 16;

/// The layers below a file or device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// Names from the top down, as far as known: file systems, disks, files.
    layers: Vec<String>,
    /// The path down to memory of this host.
    memory: Option<String>,
    /// Path down to a layer below which nothing is known.
    hidden: Option<String>,
    /// A loop device that uses the page cache of its file.
    cached: Option<String>,
    /// Backing store reported by a server of this project.
    backing: Option<Backing>,
    /// All block devices, from the top down.
    pub devices: Vec<Device>,
    /// Block devices by level: a device is above those on which it is stacked, or whose file it
    /// serves.
    pub levels: Vec<Vec<Device>>,
    /// The level of the devices that come next.
    level: usize,
    /// Uppermost device, if all I/O of the file passes it.
    pub top: Option<Device>,
    /// Whether every layer is known.
    pub is_whole: bool,
    /// I/O is charged to the calling process.
    pub is_charged: bool,
}

impl Stack {
    /// Stack of an open file or device.
    pub fn of(file: &File) -> Stack {
        let mut stack = Stack { is_whole: true, is_charged: true, ..Stack::default() };
        stack.file(file);
        stack
    }

    /// Layers down to memory of this host, if there is any: "loop0 on /a/file on tmpfs".
    pub fn memory(&self) -> Option<&str> {
        self.memory.as_deref()
    }

    /// Layers down to the first one below which nothing is known, if there is one: "loop0 on
    /// /memfd:x (deleted)".
    pub fn hidden(&self) -> Option<&str> {
        self.hidden.as_deref()
    }

    /// The loop device that uses the page cache of its file, if any.
    pub fn cached_disk(&self) -> Option<&str> {
        self.cached.as_deref()
    }

    /// Backing store reported by a layer: a file that `attach` serves, or a disk of a target of
    /// this project.
    pub fn backing(&self) -> Option<&Backing> {
        self.backing.as_ref()
    }

    /// Whether the disk at the bottom is rotational; `None` where unknown, or behind a hypervisor.
    pub fn turns(&self) -> Option<bool> {
        let turns = |device: &Device| {
            let known = device.settings().rotational;
            known.filter(|_| !device.is_virtual())
        };
        // Every device inherits the flag of the one below it.
        let below = self.devices.iter().filter(|device| !device.has_thread());
        let told: Option<Vec<bool>> = below.map(turns).collect();
        told.filter(|told| !told.is_empty()).map(|told| told.contains(&true))
    }

    fn file(&mut self, file: &File) {
        let Ok(about) = file.metadata() else { return self.end_of_sight() };
        if about.file_type().is_block_device() {
            return match Device::of_number(about.rdev()) {
                Some(device) => self.device(device, true),
                None => self.end_of_sight(),
            };
        }
        let number = about.dev();
        match Mount::of(file).or_else(|| Mount::of_number(&pair(number))) {
            Some(mount) => self.file_system(&mount, number, Some(file)),
            None => self.end_of_sight(),
        }
    }

    fn file_system(&mut self, mount: &Mount, number: u64, file: Option<&File>) {
        let name = mount.system.as_str();
        if !self.enter(name) {
            return;
        }
        if IN_MEMORY.contains(&name) {
            return self.found_memory();
        }
        if ELSEWHERE.iter().any(|known| name.starts_with(known)) && name != "fuseblk" {
            self.is_charged = false;
            self.told(attached(mount));
            return self.end_of_sight();
        }
        self.is_charged &= name != "fuseblk";
        if name == "overlay" {
            return match file.and_then(|file| layer(mount, file)) {
                Some(real) => self.file(&real),
                None => self.end_of_sight(),
            };
        }
        let source = || Device::of_number(fs::metadata(&mount.source).ok()?.rdev());
        let Some(device) = Device::of_number(number).or_else(source) else {
            return self.end_of_sight();
        };
        let all = if name == "btrfs" { btrfs_devices(&device) } else { Vec::new() };
        match all.len() {
            0 | 1 => self.device(device, true),
            _ => self.each(all, false),
        }
    }

    fn device(&mut self, device: Device, alone: bool) {
        if !self.enter(&device.name) {
            return;
        }
        let below = device.made_of();
        let (memory, cached) = (device.is_memory(), device.is_cached());
        let backing = device.backing_file();
        if alone && self.devices.is_empty() {
            self.top = Some(device.clone());
        }
        if memory {
            self.found_memory();
        }
        match cached {
            Some(true) => drop(self.cached.get_or_insert_with(|| device.disk.clone())),
            Some(false) => {}
            None => self.end_of_sight(),
        }
        self.devices.push(device.clone());
        if self.levels.len() <= self.level {
            self.levels.push(Vec::new());
        }
        self.levels[self.level].push(device.clone());
        if device.is_served() {
            self.told(device.product().and_then(|product| Backing::of_product(&product)));
            self.end_of_sight();
        }
        self.level += 1;
        match backing {
            Some(path) => self.loop_file(&device, &path),
            None => self.each(below, alone),
        }
        self.level -= 1;
    }

    /// File of a loop device. A deleted file, or one hidden by another mount, is identified by the
    /// device number of its file system.
    fn loop_file(&mut self, device: &Device, path: &Path) {
        let number = device.backing_number();
        let same = |file: &File| {
            let about = file.metadata().ok();
            number.is_none() || about.map(|about| about.dev()) == number
        };
        if !self.enter(&path.to_string_lossy()) {
            return;
        }
        match (File::open(path).ok().filter(same), number) {
            (Some(file), _) => self.file(&file),
            (None, Some(number)) => match Mount::of_number(&pair(number)) {
                Some(mount) => self.file_system(&mount, number, None),
                None => match Device::of_number(number) {
                    Some(device) => self.device(device, true),
                    None => self.end_of_sight(),
                },
            },
            (None, None) => self.end_of_sight(),
        }
    }

    fn each(&mut self, devices: Vec<Device>, alone: bool) {
        for device in devices {
            let depth = self.layers.len();
            self.device(device, alone);
            self.layers.truncate(depth);
        }
    }

    fn enter(&mut self, name: &str) -> bool {
        let room = self.layers.len() < MOST_LAYERS;
        match room {
            true => self.layers.push(name.to_owned()),
            false => self.end_of_sight(),
        }
        room
    }

    /// Marks the lower layers as unknown.
    fn end_of_sight(&mut self) {
        self.is_whole = false;
        self.hidden.get_or_insert_with(|| match self.layers.is_empty() {
            true => "the file itself".to_owned(),
            false => self.layers.join(" on "),
        });
    }

    /// Records a layer's report of its backing store; of several reports the worst counts.
    fn told(&mut self, backing: Option<Backing>) {
        let Some(backing) = backing else { return };
        self.backing = Some(match self.backing.take() {
            Some(known) => known.with(backing),
            None => backing,
        });
    }

    fn found_memory(&mut self) {
        self.memory.get_or_insert_with(|| self.layers.join(" on "));
    }
}

/// The backing store of a file that `attach` serves, by the source of its mount.
fn attached(mount: &Mount) -> Option<Backing> {
    Backing::of_product(mount.source.to_str().filter(|_| mount.system == ATTACHED)?)
}

/// File behind an overlay: of the upper file system, else of the first lower one that has it.
fn layer(mount: &Mount, file: &File) -> Option<File> {
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let below = path.strip_prefix(&mount.point).ok()?;
    let root = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let lower = mount.option("lowerdir").unwrap_or_default();
    let lower = lower.split(':').filter(|part| !part.is_empty()).map(PathBuf::from);
    let upper = mount.option("upperdir").map(PathBuf::from);
    let mut folders = upper.into_iter().chain(lower);
    folders.find_map(|folder| {
        let path = folder.join(root).join(below);
        // Opening anything else could block.
        let is_file = fs::symlink_metadata(&path).is_ok_and(|about| about.is_file());
        is_file.then(|| File::open(&path).ok())?
    })
}

/// All devices of a device's btrfs.
fn btrfs_devices(device: &Device) -> Vec<Device> {
    let names = |folder: &Path| -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    let root = Path::new("/sys/fs/btrfs");
    let folders = names(root).into_iter().map(|name| root.join(name).join("devices"));
    let all = folders.map(|folder| (names(&folder), folder));
    let ours = all.into_iter().find(|(names, _)| names.contains(&device.name));
    let Some((names, folder)) = ours else { return Vec::new() };
    names.iter().filter_map(|name| Device::of_link(&folder.join(name))).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn memory_is_found_below_a_file() {
        let path = format!("/dev/shm/drumfire-stack-{}", std::process::id());
        let Ok(file) = File::create(&path) else { return };
        let stack = Stack::of(&file);
        fs::remove_file(&path).unwrap();
        if crate::file_system(&file).as_deref() != Some("tmpfs") {
            return;
        }
        assert_eq!((stack.memory(), stack.is_whole), (Some("tmpfs"), true));
        assert_eq!(stack.hidden(), None);
        assert!(stack.top.is_none() && stack.devices.is_empty(), "{stack:?}");
    }

    #[test]
    fn a_file_on_a_disk_is_no_memory() {
        let file = File::open(std::env::current_exe().unwrap()).unwrap();
        let stack = Stack::of(&file);
        assert_eq!(stack.top, Device::under(&file));
        if stack.top.as_ref().is_some_and(|device| !device.is_memory() && !device.has_thread()) {
            assert_eq!((stack.memory(), stack.cached_disk()), (None, None), "{stack:?}");
        }
    }

    #[test]
    fn what_does_not_end_ends() {
        let mut stack = Stack { is_whole: true, ..Stack::default() };
        let entered = (0..100).filter(|_| stack.enter("loop0")).count();
        assert_eq!((entered, stack.is_whole), (MOST_LAYERS, false));
        assert!(stack.hidden().is_some_and(|path| path.starts_with("loop0 on loop0")));
    }
}
