//! NVMe passthrough: `IORING_OP_URING_CMD` on a generic character device `/dev/ngXnY`, as by fio's
//! `io_uring_cmd`.
//!
//! Such a device reports neither capacity nor block size: both, and the transfer limits, come from
//! Identify. Passthrough commands need a ring with entries of 128 bytes and completions of 32, in
//! addition to the core's.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use block::Count;
use io_uring::squeue::Entry128;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode};

use crate::core::CoreState;
use crate::device::pair;
use crate::file::{FileOp, FileOpKind};
use crate::polled::Polling;
use crate::ring::{self, OpenRingError};

/// `NVME_IOCTL_ID` of linux/nvme_ioctl.h: `_IO('N', 0x40)`.
const NVME_IOCTL_ID: libc::Ioctl = 0x4E40;
/// `NVME_IOCTL_ADMIN_CMD`: `_IOWR('N', 0x41, struct nvme_passthru_cmd)` of 72 bytes.
const NVME_IOCTL_ADMIN_CMD: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;
/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)` of 72 bytes.
const NVME_URING_CMD_IO: u32 = 0xC048_4E80;

/// Bytes of every Identify data structure.
const IDENTIFY_BYTES: usize = 4096;
/// Controllers answer Identify in milliseconds, unless they are being reset.
const IDENTIFY_LIMIT_MS: u32 = 10_000;
/// Longest transfer where the kernel's limits of length and segments are unknown.
const SAFE_BYTES: u32 = 128 << 10;
/// Page size in which virtually contiguous memory is scattered.
const PAGE_BYTES: u64 = 4096;
/// Blocks of a Write Zeroes command: NLB has 16 bits.
const ZEROES_BLOCKS: u32 = 1 << 16;

/// Entries of the ring, as for polled files.
const SUBMISSIONS: u32 = 512;
const COMPLETIONS: u32 = 4096;

/// A namespace of a generic character device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Namespace identifier.
    pub id: u32,
    /// Number of logical blocks.
    pub blocks: u64,
    /// Logarithm of the block size.
    pub block_shift: u8,
    /// Longest transfer of a command: MDTS, and the kernel's limits.
    pub most_bytes: u32,
    /// Whether the controller has a volatile write cache.
    pub volatile_cache: bool,
    /// Whether the namespace supports Dataset Management.
    pub deallocates: bool,
    /// Whether the namespace supports Write Zeroes.
    pub writes_zeroes: bool,
}

/// Status of a failed command: status code type and status code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NVMe status {code_type:#x}/{code:#04x}", code_type = .0 >> 8 & 7, code = .0 & 0xff)]
pub struct NvmeStatus(pub u16);

impl NvmeStatus {
    pub(crate) fn error(self) -> io::Error {
        io::Error::other(self)
    }

    /// The NVMe status of an operation's error, if it has one.
    pub fn of(error: &io::Error) -> Option<NvmeStatus> {
        error.get_ref()?.downcast_ref().copied()
    }
}

/// Block device of the same namespace as a generic character device; `None` for any other file, or
/// if the kernel has none.
pub fn block_twin(path: &Path) -> Option<PathBuf> {
    let about = fs::metadata(path).ok()?;
    let name = twin_folder(&about)?.file_name()?.to_owned();
    let twin = Path::new("/dev").join(name);
    fs::metadata(&twin).ok()?.file_type().is_block_device().then_some(twin)
}

/// Directory of the device in `/sys`.
pub(crate) fn twin_folder(about: &fs::Metadata) -> Option<PathBuf> {
    if !about.file_type().is_char_device() {
        return None;
    }
    let link = format!("/sys/dev/char/{}", pair(about.rdev()));
    let folder = fs::canonicalize(link).ok()?;
    let number = folder.file_name()?.to_str()?.strip_prefix("ng")?;
    // Both are siblings below their controller or, with multipath, their subsystem.
    let twin = folder.parent()?.join(format!("nvme{number}"));
    twin.join("dev").exists().then_some(twin)
}

impl Namespace {
    /// Identifies an open character device.
    ///
    /// # Errors
    ///
    /// The device is no NVMe namespace, access is denied, or its format is unsupported.
    pub fn identify(file: &File) -> io::Result<Namespace> {
        // SAFETY: a call with a number on an open file.
        let id = unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ID) };
        let about = file.metadata()?;
        if id <= 0 {
            let message = "not a file, a block device or an NVMe namespace (/dev/ngXnY)";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let id = id as u32;
        //= NVMe base §Identify command: CNS 00h is the namespace, 01h the controller.
        let namespace = identify(file, id, 0)?;
        let controller = identify(file, 0, 1)?;
        let kernel = kernel_limit(&about).unwrap_or(SAFE_BYTES);
        Namespace::read(id, &namespace, &controller, kernel)
    }

    /// Parses Identify data.
    fn read(id: u32, namespace: &[u8], controller: &[u8], kernel: u32) -> io::Result<Namespace> {
        let odd = |why: String| Err(io::Error::new(io::ErrorKind::Unsupported, why));
        //= NVMe base §Identify Namespace: NSZE, NLBAF, FLBAS, and formats from byte 128 on.
        let blocks = u64::from_le_bytes(namespace[..8].try_into().expect("eight bytes"));
        let (formats, chosen) = (namespace[25], namespace[26]);
        let high = if formats < 16 { 0 } else { chosen >> 5 & 3 };
        let format = usize::from(high << 4 | chosen & 0xf);
        let format = &namespace[128 + 4 * format..][..4];
        let (metadata, block_shift) = (u16::from_le_bytes([format[0], format[1]]), format[2]);
        if metadata > 0 {
            return odd(format!(
                "its blocks have {metadata} bytes of metadata: reformat without metadata (nvme \
                format --ms=0 --lbaf=N)"
            ));
        }
        if !(9..=16).contains(&block_shift) {
            return odd(format!("block size 2^{block_shift} bytes: 512 to 65536 are supported"));
        }
        //= NVMe base §Identify Controller: MDTS is a power of two of pages of the least size.
        let most = match controller[77] {
            0 => u64::MAX,
            power => 4096_u64.checked_shl(power.into()).unwrap_or(u64::MAX),
        };
        let most_bytes = most.min(u64::from(kernel)).max(1 << block_shift) as u32;
        let optional = u16::from_le_bytes([controller[520], controller[521]]);
        Ok(Namespace {
            id,
            blocks,
            block_shift,
            most_bytes: most_bytes >> block_shift << block_shift,
            volatile_cache: controller[525] & 1 != 0,
            deallocates: optional & 1 << 2 != 0,
            writes_zeroes: optional & 1 << 3 != 0,
        })
    }

    /// Capacity in bytes.
    pub fn bytes(&self) -> u64 {
        self.blocks << self.block_shift
    }

    /// Bytes of an operation covered by the next command, of `left` bytes.
    fn step(&self, kind: FileOpKind, left: u32) -> u32 {
        match kind {
            FileOpKind::Read | FileOpKind::Write { .. } => left.min(self.most_bytes),
            FileOpKind::Zero => {
                let most = u64::from(ZEROES_BLOCKS) << self.block_shift;
                u64::from(left).min(most) as u32
            }
            FileOpKind::Sync | FileOpKind::Punch | FileOpKind::Discard => left,
        }
    }

    /// Whether this kind of operation has a command.
    fn knows(&self, kind: FileOpKind) -> bool {
        match kind {
            FileOpKind::Read | FileOpKind::Write { .. } | FileOpKind::Sync => true,
            FileOpKind::Punch | FileOpKind::Discard => self.deallocates,
            FileOpKind::Zero => self.writes_zeroes,
        }
    }

    /// The `struct nvme_uring_cmd` for the next part of an operation. `data` is the address of its
    /// buffer or, for a deallocation, of its range.
    fn command(&self, op: &FileOp, sofar: u32, data: u64, range: &mut Range) -> [u8; 80] {
        let step = self.step(op.kind, op.len - sofar);
        let block = (op.offset + u64::from(sofar)) >> self.block_shift;
        let count = step >> self.block_shift;
        let (low, high) = (block as u32, (block >> 32) as u32);
        //= NVMe base §NVM commands: opcodes; FUA is bit 30, deallocate bit 25 or attribute 4.
        let (code, data_bytes, words): (u8, u32, [u32; 3]) = match op.kind {
            FileOpKind::Sync => (0x00, 0, [0; 3]),
            FileOpKind::Write { durable } => {
                (0x01, step, [low, high, (count - 1) | u32::from(durable) << 30])
            }
            FileOpKind::Read => (0x02, step, [low, high, count - 1]),
            FileOpKind::Zero => (0x08, 0, [low, high, (count - 1) | 1 << 25]),
            FileOpKind::Punch | FileOpKind::Discard => {
                *range = Range([u64::from(count) << 32, block]);
                (0x09, size_of::<Range>() as u32, [0, 1 << 2, 0])
            }
        };
        let mut command = [0; 80];
        command[0] = code;
        command[4..8].copy_from_slice(&self.id.to_ne_bytes());
        command[24..32].copy_from_slice(&(if data_bytes > 0 { data } else { 0 }).to_ne_bytes());
        command[36..40].copy_from_slice(&data_bytes.to_ne_bytes());
        for (at, word) in (40..).step_by(4).zip(words) {
            command[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        command
    }
}

/// The range of a deallocation: attributes, blocks and start.
#[derive(Debug, Default)]
#[repr(C, align(16))]
pub(crate) struct Range([u64; 2]);

/// Reads an Identify data structure.
fn identify(file: &File, id: u32, what: u32) -> io::Result<Vec<u8>> {
    admin(file, (0x06, id, what), IDENTIFY_BYTES)
}

/// Reads the start of a log page of the controller, in 32-bit words.
pub(crate) fn log_page(file: &File, page: u8, bytes: usize) -> io::Result<Vec<u8>> {
    //= NVMe base §Get Log Page: LID, and the number of words less one in the upper half.
    let words = (bytes / 4).clamp(1, 1 << 16) as u32 - 1;
    admin(file, (0x02, u32::MAX, u32::from(page) | words << 16), bytes)
}

/// Sends an admin command that reads `bytes` bytes: its opcode, namespace and first word.
fn admin(file: &File, (opcode, id, what): (u32, u32, u32), bytes: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0_u8; bytes];
    // A `struct nvme_passthru_cmd` as 32-bit words.
    let mut command = [0_u32; 18];
    command[0] = opcode;
    command[1] = id;
    let at = data.as_mut_ptr() as u64;
    (command[6], command[7]) = (at as u32, (at >> 32) as u32);
    command[9] = bytes as u32;
    command[10] = what;
    command[16] = IDENTIFY_LIMIT_MS;
    // SAFETY: the kernel reads and writes the structure of 72 bytes, and fills the buffer up to the
    // length in the structure; we own both.
    let status =
        unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ADMIN_CMD, command.as_mut_ptr()) };
    match status {
        0 => Ok(data),
        ..0 => Err(io::Error::last_os_error()),
        status => Err(NvmeStatus(status as u16).error()),
    }
}

/// The kernel's maximum data length of a command: longer commands are refused, not split.
fn kernel_limit(about: &fs::Metadata) -> Option<u32> {
    let queue = twin_folder(about)?.join("queue");
    let read = |name: &str| fs::read_to_string(queue.join(name)).ok()?.trim().parse::<u64>().ok();
    let most = read("max_hw_sectors_kb")?.checked_mul(1024)?;
    // One page less: a buffer need not be page-aligned.
    let scattered = read("max_segments")?.saturating_sub(1).checked_mul(PAGE_BYTES)?;
    u32::try_from(most.min(scattered)).ok().filter(|bytes| *bytes > 0)
}

/// A ring for commands, polled or not.
pub(crate) struct CommandRing {
    polling: Polling,
    uring: IoUring<Entry128, cqueue::Entry32>,
    /// Commands in the kernel.
    in_flight: usize,
}

impl CommandRing {
    fn open(polling: Polling) -> Result<CommandRing, OpenRingError> {
        let mut builder = IoUring::<Entry128, cqueue::Entry32>::builder();
        builder.setup_cqsize(COMPLETIONS).setup_clamp();
        if polling.completions {
            builder.setup_iopoll();
        }
        if polling.submissions {
            ring::setup_sqpoll(&mut builder);
        }
        match builder.build(SUBMISSIONS) {
            Ok(uring) => Ok(CommandRing { polling, uring, in_flight: 0 }),
            // Entries of this size exist since Linux 5.19.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Err(OpenRingError::Commands)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Enters the kernel to submit and, unless an SQPOLL thread does, to run completions.
    fn enter(&mut self) -> io::Result<()> {
        const GET_EVENTS: u32 = 1;
        if self.polling.submissions {
            return ring::tolerate(self.uring.submitter().submit().map(drop));
        }
        let queued = self.uring.submission().len() as u32;
        // SAFETY: entries were pushed under the promise of `push`; no argument is passed.
        let entered =
            unsafe { self.uring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) };
        ring::tolerate(entered.map(drop))
    }

    /// Queues a command.
    ///
    /// # Safety
    /// The memory that the command points to stays valid and untouched until its completion was
    /// taken.
    unsafe fn push(&mut self, fd: RawFd, command: [u8; 80], data: u64) -> io::Result<()> {
        let entry = opcode::UringCmd80::new(Fd(fd), NVME_URING_CMD_IO).cmd(command).build();
        let entry = entry.user_data(data);
        // SAFETY: the caller's promise.
        while unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.enter()?;
        }
        self.in_flight += 1;
        Ok(())
    }
}

/// State of a file with commands.
pub(crate) struct Commands {
    namespace: Namespace,
    /// The ring for reads and writes, and that for commands without data, which cannot be polled.
    rings: [usize; 2],
    /// Ranges of deallocations, by number of the operation.
    #[expect(clippy::vec_box, reason = "the kernel knows where each lies: it must stay there")]
    ranges: Vec<Box<Range>>,
}

impl Commands {
    /// Bytes of an operation done by its last command.
    pub(crate) fn step(&self, kind: FileOpKind, left: u32) -> u32 {
        self.namespace.step(kind, left)
    }
}

impl CoreState {
    /// Opens the rings for the commands of a file.
    pub(crate) fn open_commands(
        &mut self,
        namespace: Namespace,
        polling: Polling,
    ) -> Result<Commands, OpenRingError> {
        let quiet = Polling { completions: false, ..polling };
        let rings = [self.command_ring(polling)?, self.command_ring(quiet)?];
        Ok(Commands { namespace, rings, ranges: Vec::new() })
    }

    fn command_ring(&mut self, polling: Polling) -> Result<usize, OpenRingError> {
        if let Some(known) = self.commands.iter().position(|ring| ring.polling == polling) {
            return Ok(known);
        }
        self.commands.push(CommandRing::open(polling)?);
        Ok(self.commands.len() - 1)
    }

    /// Queues the next command of an operation; `fd` is its file's.
    ///
    /// # Safety
    /// The operation keeps its buffer, and its file keeps `commands`, until the completion was
    /// taken.
    pub(crate) unsafe fn push_command(
        rings: &mut [CommandRing],
        commands: &mut Commands,
        (fd, index, part): (RawFd, u32, u32),
        (op, sofar): &mut (FileOp, u32),
    ) -> io::Result<()> {
        if !commands.namespace.knows(op.kind) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let part_index = part as usize;
        if commands.ranges.len() <= part_index {
            commands.ranges.resize_with(part_index + 1, Box::default);
        }
        let range = &mut commands.ranges[part_index];
        let moves_data = matches!(op.kind, FileOpKind::Read | FileOpKind::Write { .. });
        let at = match &mut op.buf {
            Some(buf) if moves_data => buf[*sofar as usize..op.len as usize].as_mut_ptr() as u64,
            _ => std::ptr::from_mut::<Range>(range) as u64,
        };
        let command = commands.namespace.command(op, *sofar, at, range);
        let ring = &mut rings[commands.rings[usize::from(!moves_data)]];
        // SAFETY: the caller's promise.
        unsafe { ring.push(fd, command, u64::from(part) << 32 | u64::from(index)) }
    }

    /// Commands in the kernel.
    pub(crate) fn commands_in_flight(&self) -> usize {
        self.commands.iter().map(|ring| ring.in_flight).sum()
    }

    /// Submits commands and reaps their completions.
    #[inline]
    pub(crate) fn turn_commands(&mut self) {
        for index in 0..self.commands.len() {
            let ring = &mut self.commands[index];
            if ring.in_flight == 0 {
                continue;
            }
            // An error leaves the submissions queued for the next turn.
            let _ = ring.enter();
            let mut batch = std::mem::take(&mut self.batch);
            let done = ring.uring.completion();
            batch.extend(done.map(|it| (it.user_data(), it.result(), 0)));
            ring.in_flight.lower(batch.len());
            for (data, result, _) in batch.drain(..) {
                self.file_done(data as u32, (data >> 32) as u32 & 0xff_ffff, result);
            }
            self.batch = batch;
        }
    }
}

#[cfg(test)]
mod test;
