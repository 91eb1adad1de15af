//! The block device of a volume: created and removed by Linux's ublk driver.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use block::Geometry;
use os::{UblkControl, UblkDevice, UblkShape, UblkWish};
use rustix::fs::OFlags;
use rustix::io::Errno;
use volume::Volume;

use crate::sync::sync;
use crate::{AttachError, Attached, Log, Options, Place, Shared, check_blocks, queue};

/// Mark stored by the kernel with each device of this program, so that another program's device is
/// never removed.
const MARK: u64 = u64::from_be_bytes(*b"drumfire");
/// Requests in flight in a queue. Each has a buffer of the maximum request size.
const DEPTH: u16 = 128;
/// Maximum bytes of a request with data.
const IO_MAX_BYTES: u32 = 128 << 10;
/// Maximum bytes of a request without data.
const CLEAR_MAX_BYTES: u32 = 1 << 30;
/// Minimum block size of the kernel.
const BLOCK_MIN_BYTES: u32 = 512;
/// Physical block size: lower layers use pages of 4 KiB.
const PHYSICAL_BYTES: u32 = 4096;
/// Time limit for the server of a device to release it, in steps.
const STEP: Duration = Duration::from_millis(50);
const STEPS: usize = 100;

/// Block device of the volume.
#[derive(Debug)]
pub(crate) struct Node {
    number: u32,
    pub(crate) path: PathBuf,
}

/// Attaches the volume as a block device: `node`, or the first free one. The device exists on
/// return.
///
/// # Errors
///
/// An obstacle, with the remedy.
pub fn attach_device(
    volume: Arc<dyn Volume>,
    node: Option<&Path>,
    options: &Options,
    log: Log,
) -> Result<Attached, AttachError> {
    let geometry = volume.geometry();
    check_blocks(geometry.block_bytes)?;
    let wanted = match node {
        Some(path) => Some(number_of(path).ok_or_else(|| wrong(path, NO_NODE))?),
        None => None,
    };
    let mut control = control()?;
    let wish = UblkWish {
        number: wanted,
        queues: u16::try_from(options.cores.len().max(1)).unwrap_or(u16::MAX),
        depth: DEPTH,
        max_bytes: IO_MAX_BYTES,
        mark: MARK,
    };
    let added = control.add(wish);
    let device = added.map_err(|error| not_added(&mut control, node, wanted, error))?;
    let number = device.info.number;
    let path = PathBuf::from(format!("/dev/ublkb{number}"));
    let shared = Arc::new(Shared::new(Place::Device(Node { number, path }), log));
    let mut threads = Vec::new();
    let begun = control
        .set_shape(number, &shape(&geometry, options.read_only))
        .map_err(AttachError::from)
        .and_then(|()| serve(&mut control, &shared, &volume, device, options, &mut threads))
        .and_then(|()| Ok(control.start(number)?));
    match begun {
        Ok(()) => Ok(Attached { shared, threads }),
        Err(error) => {
            // Ends the wait of the threads.
            let _ = control.stop(number);
            shared.end_threads();
            // The reason why the threads ended is known.
            threads.into_iter().for_each(|thread| drop(thread.join()));
            let _ = control.delete(number);
            Err(error)
        }
    }
}

/// Starts a thread for each queue, and waits until all wait for requests.
fn serve(
    control: &mut UblkControl,
    shared: &Arc<Shared>,
    volume: &Arc<dyn Volume>,
    device: UblkDevice,
    options: &Options,
    threads: &mut Vec<JoinHandle<()>>,
) -> Result<(), AttachError> {
    let queues = 0..device.info.queues;
    let sets: io::Result<Vec<Vec<usize>>> =
        queues.clone().map(|queue| control.cpus_of(device.info.number, queue)).collect();
    let cpus = place(&sets?, &options.cores);
    for (queue, cpu) in queues.zip(cpus) {
        let (tell, told) = mpsc::channel();
        let (shared, volume) = (Arc::clone(shared), Arc::clone(volume));
        let device = device.another()?;
        let body = move || queue::run(&shared, &*volume, device, queue, cpu, &tell);
        threads.push(std::thread::Builder::new().name(format!("queue {queue}")).spawn(body)?);
        let died = |_| AttachError::Failed("a thread ended during startup".to_owned());
        told.recv().map_err(died)??;
    }
    Ok(())
}

/// Returns a CPU for each queue, from the given cores: one whose requests use that queue, if
/// possible.
fn place(queues: &[Vec<usize>], cores: &[usize]) -> Vec<Option<usize>> {
    let mut free = cores.to_vec();
    let mut take = |fits: &dyn Fn(&usize) -> bool| {
        let at = free.iter().position(fits)?;
        Some(free.remove(at))
    };
    let mut placed: Vec<Option<usize>> =
        queues.iter().map(|set| take(&|cpu| set.contains(cpu))).collect();
    for cpu in placed.iter_mut().filter(|cpu| cpu.is_none()) {
        *cpu = take(&|_| true);
    }
    placed
}

fn shape(geometry: &Geometry, read_only: bool) -> UblkShape {
    let block_bytes = geometry.block_bytes.max(BLOCK_MIN_BYTES);
    UblkShape {
        bytes: geometry.bytes() / u64::from(block_bytes) * u64::from(block_bytes),
        block_bytes,
        physical_bytes: PHYSICAL_BYTES.max(block_bytes),
        read_only: geometry.read_only || read_only,
        volatile: geometry.volatile,
        max_bytes: IO_MAX_BYTES,
        max_clear_bytes: CLEAR_MAX_BYTES,
    }
}

const NO_NODE: &str = "ublk devices are /dev/ublkb0, /dev/ublkb1, …; without a name, the first \
    free one is used";

fn wrong(path: &Path, why: impl Into<String>) -> AttachError {
    AttachError::Place { path: path.to_owned(), why: why.into() }
}

/// The number in `/dev/ublkbN`.
pub(crate) fn number_of(path: &Path) -> Option<u32> {
    let found = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let digits = found.to_str()?.strip_prefix("/dev/ublkb")?;
    let number: u32 = digits.parse().ok()?;
    // Refuses numbers such as `+1` and `01`.
    (number.to_string() == digits).then_some(number)
}

fn control() -> Result<UblkControl, AttachError> {
    UblkControl::open().map_err(|error| match error.kind() {
        ErrorKind::NotFound => AttachError::Ublk(
            "/dev/ublk-control is missing: modprobe ublk_drv (Linux 6.4 or newer); without that \
            module, attach a FILE"
                .to_owned(),
        ),
        ErrorKind::PermissionDenied => {
            AttachError::Ublk(format!("/dev/ublk-control: {error}: attach as root"))
        }
        _ => AttachError::Ublk(format!("/dev/ublk-control: {error}")),
    })
}

/// Error for a device that could not be added.
fn not_added(
    control: &mut UblkControl,
    node: Option<&Path>,
    number: Option<u32>,
    error: io::Error,
) -> AttachError {
    match (error.raw_os_error().map(Errno::from_raw_os_error), node, number) {
        (Some(Errno::EXIST), Some(node), Some(number)) => wrong(
            node,
            match control.info(number) {
                Ok(info) if info.mark != MARK => "in use by another program: name another device",
                Ok(info) if info.is_live => {
                    "a volume is already attached there: run `drumfire detach` first"
                }
                _ => "its server process died: run `drumfire detach`, then attach again",
            },
        ),
        (Some(Errno::PERM | Errno::ACCESS), ..) => {
            AttachError::Ublk("creating a block device needs root: attach as root".to_owned())
        }
        // Errors of the driver for commands that it does not know.
        (Some(Errno::INVAL | Errno::NODEV | Errno::OPNOTSUPP), ..) => AttachError::Ublk(format!(
            "the ublk driver of the kernel is too old, Linux 6.4 or newer is needed: {error}"
        )),
        _ => AttachError::Ublk(error.to_string()),
    }
}

/// Whether the device is in exclusive use: a mounted file system, a RAID, swap.
fn is_in_use(path: &Path) -> bool {
    let mut options = OpenOptions::new();
    let opened = options.read(true).custom_flags(OFlags::EXCL.bits() as i32).open(path);
    opened.is_err_and(|error| error.raw_os_error() == Some(Errno::BUSY.raw_os_error()))
}

impl Node {
    /// Makes the kernel write back dirty pages, and the volume flush.
    pub(crate) fn sync(&self) -> io::Result<()> {
        sync(&self.path)
    }

    /// Removes the block device, and reports to `log` if it is in use.
    pub(crate) fn stop(&self, log: &Log) -> Result<(), AttachError> {
        if is_in_use(&self.path) {
            log("the device is still in use: its users get I/O errors from now on");
        }
        match control()?.stop(self.number) {
            Err(error) if !is_gone(&error) => Err(wrong(&self.path, error.to_string())),
            _ => Ok(()),
        }
    }

    /// Frees the number of the device once it is no longer served.
    pub(crate) fn forget(&self) {
        if let Ok(mut control) = control() {
            // The process that stopped the device has deleted it, or this call does.
            let _ = control.delete(self.number);
        }
    }
}

/// Whether there is no such device.
fn is_gone(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NODEV.raw_os_error())
}

/// Makes written data of an attached device durable, and removes the device, or its remains if its
/// server has died.
pub(crate) fn detach(path: &Path, number: u32) -> Result<(), AttachError> {
    let mut control = control()?;
    let info = match control.info(number) {
        Ok(info) if info.mark == MARK => info,
        Ok(_) => {
            return Err(wrong(
                path,
                "not a device of drumfire: remove it with the program \
            that created it",
            ));
        }
        Err(error) if is_gone(&error) => {
            return Err(wrong(path, "no volume is attached there"));
        }
        Err(error) => return Err(wrong(path, error.to_string())),
    };
    if info.is_live {
        if is_in_use(path) {
            return Err(wrong(
                path,
                "in use: unmount it, or stop the program that has it open \
                (lsblk lists its users)",
            ));
        }
        File::open(path).and_then(|file| file.sync_all()).map_err(|error| {
            wrong(
                path,
                format!(
                    "flush failed, so written data may not be durable: {error}; the volume stays \
                    attached; to detach it anyway, send SIGTERM to its server process"
                ),
            )
        })?;
    }
    for done in [control.stop(number), control.delete(number)] {
        match done {
            Err(error) if !is_gone(&error) => return Err(wrong(path, error.to_string())),
            _ => {}
        }
    }
    // The number is free once the server has ended.
    for _ in 0..STEPS {
        if control.info(number).is_err_and(|error| is_gone(&error)) {
            break;
        }
        std::thread::sleep(STEP);
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_device_is_named_by_its_number() {
        let number = |path: &str| number_of(Path::new(path));
        assert_eq!(number("/dev/ublkb0"), Some(0));
        assert_eq!(number("/dev/ublkb17"), Some(17));
        for path in ["/dev/ublkb", "/dev/ublkb01", "/dev/ublkb+1", "/dev/ublkc0", "/tmp/ublkb0"] {
            assert_eq!(number(path), None, "{path}");
        }
    }

    #[test]
    fn a_queue_is_served_where_its_requests_come_from() {
        let queues = [vec![0, 2], vec![1, 3]];
        assert_eq!(place(&queues, &[1, 0]), [Some(0), Some(1)]);
        assert_eq!(place(&queues, &[0, 2]), [Some(0), Some(2)], "none is left over");
        assert_eq!(place(&queues, &[3]), [None, Some(3)]);
        assert_eq!(place(&queues, &[9, 8]), [Some(9), Some(8)]);
        assert_eq!(place(&[vec![0, 1]], &[]), [None]);
    }

    #[test]
    fn a_shape_has_blocks_that_the_kernel_knows() {
        let bytes = Geometry { volatile: true, ..Geometry::new(10_000, 1) };
        let shape_of_bytes = shape(&bytes, false);
        assert_eq!((shape_of_bytes.bytes, shape_of_bytes.block_bytes), (9728, 512));
        assert_eq!((shape_of_bytes.physical_bytes, shape_of_bytes.volatile), (4096, true));
        let long = shape(&Geometry::new(1 << 20, 4096), true);
        assert_eq!((long.block_bytes, long.physical_bytes, long.read_only), (4096, 4096, true));
        assert!(!long.volatile);
    }
}
