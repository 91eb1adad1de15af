//! Block devices in `/sys`: the device of a file, its counters, queue settings and users.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::mount::Mount;
use crate::stack::Stack;

/// `LOOP_GET_STATUS64` of linux/loop.h, and the length of its `struct loop_info64`, which begins
/// with the device number of the file system.
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LOOP_STATUS_BYTES: usize = 232;

/// Attribute with the maximum latency of waking an NVMe drive.
const NAP_FILE: &str = "pm_qos_latency_tolerance_us";

/// A block device or a partition of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Kernel name, such as `vda` or `vda1`.
    pub name: String,
    /// Name of the whole disk.
    pub disk: String,
    folder: PathBuf,
}

/// I/O statistics of a device since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounters {
    /// Reads completed.
    pub reads: u64,
    /// Reads merged with others, which count nowhere else.
    pub merged_reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Sum of the durations of reads, in milliseconds.
    pub read_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged with other writes.
    pub merged_writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of the durations of writes, in milliseconds.
    pub write_ms: u64,
    /// Busy time, in milliseconds.
    pub busy_ms: u64,
    /// Sum of the durations of all I/Os, in milliseconds (weighted time in queue).
    pub queue_ms: u64,
    /// Flushes completed.
    pub flushes: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
}

/// Queue settings of a disk in the block layer. `None` where unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceSettings {
    /// The active I/O scheduler.
    pub scheduler: Option<String>,
    /// 0 merges neighbouring I/Os, 1 only simple ones, 2 none.
    pub nomerges: Option<u64>,
    /// CPU of completions: 0 any, 1 in the group of the submitting CPU, 2 the submitting CPU.
    pub rq_affinity: Option<u64>,
    /// Target latency of writeback throttling in microseconds; 0 for none.
    pub wbt_us: Option<u64>,
    /// Read-ahead of sequential buffered reads in bytes.
    pub read_ahead_bytes: Option<u64>,
    /// Maximum I/O size before a split, in bytes.
    pub most_bytes: Option<u64>,
    /// Rotational.
    pub rotational: Option<bool>,
    /// Whether the device has poll queues.
    pub polls: Option<bool>,
    /// Whether the device has a volatile write cache.
    pub volatile_cache: Option<bool>,
    /// Smallest I/O in bytes.
    pub logical_bytes: Option<u64>,
    /// Physical block size in bytes: a write of a part of a block is a read-modify-write.
    pub physical_bytes: Option<u64>,
}

impl Device {
    /// The device that `file` is, or that its file system is on; `None` for memory, network file
    /// systems and file systems on several devices.
    pub fn under(file: &File) -> Option<Device> {
        Stack::of(file).top
    }

    pub(crate) fn of_number(number: u64) -> Option<Device> {
        if libc::major(number) == 0 {
            return None;
        }
        Device::of_link(Path::new(&format!("/sys/dev/block/{}", pair(number))))
    }

    /// The device that a link in `/sys` points to.
    pub(crate) fn of_link(link: &Path) -> Option<Device> {
        Device::of_folder(fs::canonicalize(link).ok()?)
    }

    fn of_folder(folder: PathBuf) -> Option<Device> {
        let name = |path: &Path| Some(path.file_name()?.to_str()?.to_owned());
        let whole = match folder.join("partition").exists() {
            true => folder.parent()?,
            false => &folder,
        };
        Some(Device { name: name(&folder)?, disk: name(whole)?, folder })
    }

    /// Whether a kernel thread of this host does its I/O: a loop device.
    pub fn has_thread(&self) -> bool {
        self.disk.starts_with("loop")
    }

    /// Whether the device's disk is memory of this host or a test device: brd, zram, null_blk,
    /// scsi_debug.
    pub fn is_memory(&self) -> bool {
        let numbered = |name: &str| {
            let number = self.disk.strip_prefix(name).unwrap_or_default();
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        };
        ["ram", "zram", "nullb"].into_iter().any(numbered)
            || self.of_whole("device/model").is_some_and(|model| model == "scsi_debug")
    }

    /// Whether a program of this host or another host serves the device's I/Os, so that its backing
    /// store is not visible: NBD, ublk, RBD, DRBD, a volume of ZFS, NVMe over fabrics, iSCSI of the
    /// kernel.
    pub fn is_served(&self) -> bool {
        if self.has_thread() || self.is_memory() || !self.made_of().is_empty() {
            return false;
        }
        let links = self.transports();
        let path = self.whole().to_string_lossy();
        match links.is_empty() {
            true => is_behind_software(&path),
            false => links.iter().any(|link| link != "pcie" && link != "apple-nvme"),
        }
    }

    /// Transports of the NVMe controllers of the disk; empty for other disks.
    fn transports(&self) -> Vec<String> {
        let device = self.whole().join("device");
        let paths = entries(&device).into_iter().filter(|name| name.starts_with("nvme"));
        let folders = paths.map(|name| device.join(name)).chain([device.clone()]);
        let texts = folders.filter_map(|it| fs::read_to_string(it.join("transport")).ok());
        texts.map(|text| text.trim().to_owned()).collect()
    }

    /// Vendor and product of its disk, or the model of its controller.
    pub fn product(&self) -> Option<String> {
        let model = self.of_whole("device/model")?;
        Some(match self.of_whole("device/vendor") {
            // The `vendor` of a PCI device is its vendor ID.
            Some(vendor) if !vendor.starts_with("0x") => format!("{vendor} {model}"),
            _ => model,
        })
    }

    /// The devices below a device mapper or MD device.
    pub(crate) fn made_of(&self) -> Vec<Device> {
        let folder = self.whole().join("slaves");
        entries(&folder).iter().filter_map(|name| Device::of_link(&folder.join(name))).collect()
    }

    /// Whether the device is a device mapper or MD device, stacked on others.
    pub fn is_made(&self) -> bool {
        !self.made_of().is_empty()
    }

    /// Whether the device is paravirtual: its backing store is unknown.
    pub fn is_virtual(&self) -> bool {
        let driver = fs::canonicalize(self.whole().join("device/driver")).ok();
        driver.is_some_and(|path| path.ends_with("virtio_blk"))
    }

    /// Device number of the whole disk, such as `254:0`.
    pub fn disk_number(&self) -> Option<String> {
        self.of_whole("dev")
    }

    /// Capacity of the whole disk in bytes.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.of_whole("size")?.parse::<u64>().ok()?.checked_mul(512)
    }

    /// NUMA node of the device; `None` if unknown, or with a single node.
    pub fn node(&self) -> Option<usize> {
        let above = self.whole().ancestors().map(|folder| folder.join("numa_node"));
        let inner = ["device/numa_node", "device/device/numa_node"].map(|it| self.whole().join(it));
        let mut texts =
            inner.into_iter().chain(above.take(8)).filter_map(|it| fs::read_to_string(it).ok());
        texts.find_map(|text| text.trim().parse().ok())
    }

    fn of_whole(&self, file: &str) -> Option<String> {
        Some(fs::read_to_string(self.whole().join(file)).ok()?.trim().to_owned())
    }

    /// Whether the disk is a loop device that uses the page cache, the default; `None` if it does
    /// not report this.
    pub fn is_cached(&self) -> Option<bool> {
        let dio = fs::read_to_string(self.whole().join("loop/dio"));
        match dio {
            Ok(text) => Some(text.trim() == "0"),
            Err(_) => (!self.has_thread()).then_some(false),
        }
    }

    fn whole(&self) -> &Path {
        let parent = self.folder.parent().unwrap_or(&self.folder);
        if self.name == self.disk { &self.folder } else { parent }
    }

    /// File of the I/O statistics, if it is not the kernel's.
    pub fn foreign_counters(&self) -> Option<PathBuf> {
        let file = self.folder.join("stat");
        (crate::kernel_files::is_kernels(&file) == Some(false)).then_some(file)
    }

    /// I/O statistics of the device.
    pub fn counters(&self) -> Option<DeviceCounters> {
        DeviceCounters::parse(&fs::read_to_string(self.folder.join("stat")).ok()?)
    }

    /// I/O statistics of the whole disk.
    pub fn disk_counters(&self) -> Option<DeviceCounters> {
        DeviceCounters::parse(&fs::read_to_string(self.whole().join("stat")).ok()?)
    }

    /// Queue settings of its disk.
    pub fn settings(&self) -> DeviceSettings {
        DeviceSettings::read(|file| fs::read_to_string(self.whole().join("queue").join(file)).ok())
    }

    /// Bytes from the start of the device to its first physical block; `None` if that offset is
    /// unknown.
    pub fn offset_bytes(&self) -> Option<u64> {
        match fs::read_to_string(self.folder.join("alignment_offset")) {
            // -1 for devices whose components have different alignments.
            Ok(text) => text.trim().parse().ok(),
            Err(_) => Some(0),
        }
    }

    /// Maximum wake-up time of the NVMe drive that Linux allows (APST), in microseconds: 0 if the
    /// drive never sleeps. `None` if the system does not report it.
    pub fn nap_us(&self) -> Option<u64> {
        let device = self.whole().join("device");
        let paths = entries(&device).into_iter().filter(|name| name.starts_with("nvme"));
        let folders = paths.map(|name| device.join(name)).chain([device.clone()]);
        let folders = folders.map(|folder| folder.join("power")).filter(|folder| folder.is_dir());
        // Linux shows the file for drives with power states, if APST is enabled. "any" is no limit
        // at all.
        let one = |folder: PathBuf| match fs::read_to_string(folder.join(NAP_FILE)) {
            Ok(text) => text.trim().parse().unwrap_or(u64::MAX),
            Err(_) => 0,
        };
        folders.map(one).max()
    }

    /// Whether the device's disk is an NVMe drive.
    pub fn is_nvme(&self) -> bool {
        !self.transports().is_empty()
    }

    /// The serial number of its disk.
    pub fn serial(&self) -> Option<String> {
        let read = |file: &str| fs::read_to_string(self.whole().join(file)).ok();
        let text = read("serial").or_else(|| read("device/serial"))?;
        Some(text.trim().to_owned()).filter(|serial| !serial.is_empty())
    }

    /// Persistent name of the disk, with the partition number: the same after a reboot that
    /// reorders disks; `None` without an identity on the disk.
    pub fn lasting_name(&self) -> Option<String> {
        let read = |file: &str| fs::read_to_string(self.whole().join(file)).ok();
        let whole = ["wwid", "device/wwid", "dm/uuid", "md/uuid", "loop/backing_file"];
        let text = whole.into_iter().find_map(|file| read(file).filter(|it| !it.trim().is_empty()));
        let disk = text.map(|text| text.trim().to_owned()).or_else(|| self.serial())?;
        match fs::read_to_string(self.folder.join("partition")) {
            Ok(number) => Some(format!("{disk} partition {}", number.trim())),
            Err(_) => Some(disk),
        }
    }

    /// The backing file of a loop device.
    pub fn backing_file(&self) -> Option<PathBuf> {
        let path = fs::read_to_string(self.whole().join("loop/backing_file")).ok()?;
        Some(PathBuf::from(path.trim_end_matches('\n')))
    }

    /// The loop devices that show a file.
    pub fn loops_of(path: &Path) -> Vec<Device> {
        let Ok(about) = fs::metadata(path) else { return Vec::new() };
        let is_it = |device: &Device| {
            let shown = device.backing_file().and_then(|path| fs::metadata(path).ok());
            shown.is_some_and(|shown| (shown.dev(), shown.ino()) == (about.dev(), about.ino()))
        };
        let blocks = Path::new("/sys/block");
        let loops = entries(blocks).into_iter().filter(|name| name.starts_with("loop"));
        let devices = loops.filter_map(|name| Device::of_link(&blocks.join(name)));
        devices.filter(is_it).collect()
    }

    /// Device number of the file system with the backing file of a loop device.
    pub(crate) fn backing_number(&self) -> Option<u64> {
        let disk = File::open(Path::new("/dev").join(&self.disk)).ok()?;
        let mut status = [0_u64; LOOP_STATUS_BYTES / 8];
        // SAFETY: the kernel fills a `struct loop_info64`, for which we own enough bytes, and the
        // descriptor is open.
        let result =
            unsafe { libc::ioctl(disk.as_raw_fd(), LOOP_GET_STATUS64, status.as_mut_ptr()) };
        (result == 0).then_some(status[0])
    }

    /// Other users: mounts of the device or its partitions, and devices stacked on it.
    pub fn users(&self) -> Vec<String> {
        let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let mut found = Vec::new();
        for part in self.parts() {
            let number = fs::read_to_string(part.join("dev")).unwrap_or_default();
            let name = part.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Some((point, _)) = mount_of(&table, number.trim()) {
                found.push(format!("{name} is mounted on {point}"));
            }
            for holder in entries(&part.join("holders")) {
                found.push(format!("{name} is part of {holder}"));
            }
        }
        found
    }

    /// Directories of the disk and of its partitions.
    fn parts(&self) -> Vec<PathBuf> {
        let names = entries(&self.folder);
        let inner = names.into_iter().map(|name| self.folder.join(name));
        let parts = inner.filter(|folder| folder.join("partition").exists());
        std::iter::once(self.folder.clone()).chain(parts).collect()
    }
}

/// Whether a path in `/sys` is that of a device without a bus, or of a session of iSCSI.
fn is_behind_software(path: &str) -> bool {
    let is_session = |part: &str| {
        let number = part.strip_prefix("session").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    path.starts_with("/sys/devices/virtual/") || path.split('/').any(is_session)
}

/// Names in a directory, sorted; empty if the directory does not exist.
fn entries(folder: &Path) -> Vec<String> {
    let read = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        read.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

/// Formats a device number: `8:1`.
pub(crate) fn pair(number: u64) -> String {
    format!("{}:{}", libc::major(number), libc::minor(number))
}

/// Mount point and source of a device number, by proc(5).
fn mount_of<'a>(table: &'a str, number: &str) -> Option<(&'a str, &'a str)> {
    table.lines().find_map(|line| {
        let (front, back) = line.split_once(" - ")?;
        let mut front = front.split(' ').skip(2);
        let (found, point) = (front.next()?, front.nth(1)?);
        (found == number).then_some((point, back.split(' ').nth(1)?))
    })
}

/// The file system of a file, such as `ext4`, by the mount table.
pub fn file_system(file: &File) -> Option<String> {
    let number = || file.metadata().ok().map(|about| pair(about.dev()));
    let mount = Mount::of(file).or_else(|| Mount::of_number(&number()?))?;
    Some(mount.system)
}

impl DeviceCounters {
    fn parse(text: &str) -> Option<DeviceCounters> {
        // Fields of Documentation/block/stat.rst; sectors have 512 bytes whatever the device.
        let fields: Vec<u64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let field = |index: usize| fields.get(index).copied();
        Some(DeviceCounters {
            reads: field(0)?,
            merged_reads: field(1)?,
            read_bytes: field(2)?.checked_mul(512)?,
            read_ms: field(3)?,
            writes: field(4)?,
            merged_writes: field(5)?,
            written_bytes: field(6)?.checked_mul(512)?,
            write_ms: field(7)?,
            busy_ms: field(9)?,
            queue_ms: field(10)?,
            flushes: field(15).unwrap_or(0),
            trimmed_bytes: field(13).unwrap_or(0).saturating_mul(512),
        })
    }

    /// The difference since `earlier`.
    pub fn since(&self, earlier: &DeviceCounters) -> DeviceCounters {
        let since = |of: fn(&DeviceCounters) -> u64| of(self).saturating_sub(of(earlier));
        DeviceCounters {
            reads: since(|it| it.reads),
            merged_reads: since(|it| it.merged_reads),
            read_bytes: since(|it| it.read_bytes),
            read_ms: since(|it| it.read_ms),
            writes: since(|it| it.writes),
            merged_writes: since(|it| it.merged_writes),
            written_bytes: since(|it| it.written_bytes),
            write_ms: since(|it| it.write_ms),
            busy_ms: since(|it| it.busy_ms),
            queue_ms: since(|it| it.queue_ms),
            flushes: since(|it| it.flushes),
            trimmed_bytes: since(|it| it.trimmed_bytes),
        }
    }
}

impl DeviceSettings {
    fn read(file: impl Fn(&str) -> Option<String>) -> DeviceSettings {
        let number = |name: &str| file(name)?.trim().parse::<u64>().ok();
        let kib = |name: &str| number(name)?.checked_mul(1024);
        let scheduler = file("scheduler").map(|text| {
            // "none [mq-deadline] kyber": the one in brackets, or the only one.
            let chosen = text.split(['[', ']']).nth(1).unwrap_or(text.trim());
            chosen.to_owned()
        });
        DeviceSettings {
            scheduler,
            nomerges: number("nomerges"),
            rq_affinity: number("rq_affinity"),
            wbt_us: number("wbt_lat_usec"),
            read_ahead_bytes: kib("read_ahead_kb"),
            most_bytes: kib("max_sectors_kb"),
            rotational: number("rotational").map(|turns| turns != 0),
            polls: number("io_poll").map(|polls| polls != 0),
            volatile_cache: file("write_cache").map(|text| text.trim() == "write back"),
            logical_bytes: number("logical_block_size"),
            physical_bytes: number("physical_block_size"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_counters() {
        let old = DeviceCounters::parse("5 1 80 9 3 0 24 1 0 2 3").unwrap();
        assert_eq!((old.reads, old.read_bytes, old.writes), (5, 40_960, 3));
        let new = DeviceCounters::parse("  9 3 88 19 4 2 32 5 0 6 8 0 0 0 0 7 1\n").unwrap();
        let since = new.since(&old);
        assert_eq!((since.reads, since.read_bytes), (4, 4096));
        assert_eq!((since.written_bytes, since.flushes), (4096, 7));
        assert_eq!((since.merged_reads, since.merged_writes), (2, 2));
        assert_eq!((since.read_ms, since.write_ms), (10, 4));
        assert_eq!((since.busy_ms, since.queue_ms), (4, 5));
        assert_eq!(DeviceCounters::parse("1 2 x"), None);
        assert_eq!(DeviceCounters::parse(""), None);
    }

    #[test]
    fn memory_is_known_by_its_name() {
        let disk = |name: &str| Device {
            name: name.to_owned(),
            disk: name.to_owned(),
            folder: PathBuf::from("/none"),
        };
        assert_eq!(["ram0", "zram12"].map(|name| disk(name).is_memory()), [true; 2]);
        assert_eq!(
            ["ram", "ramdisk", "vda", "loop0"].map(|name| disk(name).is_memory()),
            [false; 4]
        );
        assert_eq!(disk("loop0").is_cached(), None, "it does not tell");
        assert_eq!(disk("vda").is_cached(), Some(false));
    }

    #[test]
    fn devices_of_programs_and_hosts_are_served() {
        let served = [
            "/sys/devices/virtual/block/nbd0",
            "/sys/devices/virtual/block/ublkb0",
            "/sys/devices/virtual/block/zd16",
            "/sys/devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1",
            "/sys/devices/platform/host3/session1/target3:0:0/3:0:0:1/block/sdb",
        ];
        assert_eq!(served.map(is_behind_software), [true; 5]);
        let others = [
            "/sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda",
            "/sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda",
            "/sys/devices/vbd-51712/block/xvda",
        ];
        assert_eq!(others.map(is_behind_software), [false; 3]);
    }

    #[test]
    fn disks_and_partitions_have_names_that_last() {
        let root = std::env::temp_dir().join(format!("drumfire-device-{}", std::process::id()));
        let file = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        file("sda/device/wwid", "naa.5000c500a1b2c3d4\n");
        file("sda/sda2/partition", "2\n");
        file("vda/serial", "root-disk");
        file("vdb/serial", "\n");
        file("dm-3/dm/uuid", "LVM-abc\n");
        file("loop0/loop/backing_file", "/a file\n");
        file("nvme0n1/device/transport", "pcie\n");
        file("nvme0n1/device/power/pm_qos_latency_tolerance_us", "100000\n");
        file("nvme2n1/device/power/control", "auto\n");
        file("nvme1n1/device/nvme1/power/pm_qos_latency_tolerance_us", "any\n");
        file("sda/sda2/alignment_offset", "3584\n");
        file("dm-3/alignment_offset", "-1\n");
        let device = |path: &str| Device::of_folder(root.join(path)).unwrap();
        let name = |path: &str| device(path).lasting_name();
        assert_eq!(name("sda").as_deref(), Some("naa.5000c500a1b2c3d4"));
        assert_eq!(name("sda/sda2").as_deref(), Some("naa.5000c500a1b2c3d4 partition 2"));
        assert_eq!(name("vda").as_deref(), Some("root-disk"));
        assert_eq!(name("vdb"), None);
        assert_eq!(name("dm-3").as_deref(), Some("LVM-abc"));
        assert_eq!(name("loop0").as_deref(), Some("/a file"));
        assert_eq!(device("loop0").backing_file(), Some(PathBuf::from("/a file")));
        assert_eq!(device("sda").backing_file(), None);
        let naps = ["nvme0n1", "nvme1n1", "nvme2n1", "sda"].map(|path| device(path).nap_us());
        assert_eq!(naps, [Some(100_000), Some(u64::MAX), Some(0), None]);
        assert_eq!(["nvme0n1", "sda"].map(|path| device(path).is_nvme()), [true, false]);
        let offsets = ["sda", "sda/sda2", "dm-3"].map(|path| device(path).offset_bytes());
        assert_eq!(offsets, [Some(0), Some(3584), None]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn reads_settings() {
        let settings = DeviceSettings::read(|file| {
            let text = match file {
                "scheduler" => "none [mq-deadline] kyber\n",
                "nomerges" => "0\n",
                "wbt_lat_usec" => "75000\n",
                "read_ahead_kb" => "128\n",
                "io_poll" => "1\n",
                "write_cache" => "write through\n",
                "logical_block_size" => "512\n",
                "physical_block_size" => "4096\n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        assert_eq!(settings.scheduler.as_deref(), Some("mq-deadline"));
        assert_eq!((settings.wbt_us, settings.read_ahead_bytes), (Some(75_000), Some(131_072)));
        assert_eq!((settings.volatile_cache, settings.rotational), (Some(false), None));
        assert_eq!(settings.polls, Some(true));
        assert_eq!((settings.logical_bytes, settings.physical_bytes), (Some(512), Some(4096)));
        let none = DeviceSettings::read(|_| Some("none\n".to_owned()));
        assert_eq!(none.scheduler.as_deref(), Some("none"));
    }

    #[test]
    fn finds_mounts() {
        let table = "22 27 0:21 / /proc rw - proc proc rw\n\
                     27 1 254:0 / /a\\040b rw,noatime shared:1 - ext4 /dev/vda rw\n";
        assert_eq!(mount_of(table, "254:0"), Some(("/a\\040b", "/dev/vda")));
        assert_eq!(mount_of(table, "254:1"), None);
        assert_eq!(mount_of("nonsense", "254:1"), None);
    }
}
