//! A file or block device on a core.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;

use block::{Buf, Count};
use io_uring::types::{Fd, Fixed, FsyncFlags};
use io_uring::{opcode, squeue};

use crate::aio::{self, Aio, FileIo};
use crate::calls;
use crate::core::{Core, CoreState, Kind, Slot};
use crate::device::Device;
use crate::passthrough::{Commands, Namespace, NvmeStatus};
use crate::polled::Polling;
use crate::ring::OpenRingError;

/// `BLOCK_URING_CMD_DISCARD` of `linux/blkdev.h`: `_IO(0x12, 0)`.
const BLOCK_URING_CMD_DISCARD: u32 = 0x12 << 8;

/// An open file whose operations run on a core. The file closes once it is dropped and its
/// operations are complete.
pub struct File {
    core: Core,
    index: u32,
}

/// The kind of a file operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOpKind {
    /// Fill the buffer.
    Read,
    /// Write the buffer.
    Write {
        /// Data are durable at the completion.
        durable: bool,
    },
    /// Flush (fdatasync).
    Sync,
    /// Free the range, which then reads as zeroes.
    Punch,
    /// Discard a range of a block device. The device defines the data that reads then return. Needs
    /// [`Features::discards`](crate::Features).
    Discard,
    /// Make the range read as zeroes; may deallocate the range if the file system has no other way.
    Zero,
}

/// An operation on a file.
#[derive(Debug)]
pub struct FileOp {
    /// Returned with the completion.
    pub tag: u64,
    /// Kind of the operation.
    pub kind: FileOpKind,
    /// Offset.
    pub offset: u64,
    /// Length.
    pub len: u32,
    /// The data of a read or write: at least `len` bytes.
    pub buf: Option<Buf>,
}

/// The completion of a [`FileOp`].
#[derive(Debug)]
pub struct FileDone {
    /// The tag of the operation.
    pub tag: u64,
    /// Kind of the operation.
    pub kind: FileOpKind,
    /// Success or the error. A short transfer is an error.
    pub result: io::Result<()>,
    /// The buffer of the operation.
    pub buf: Option<Buf>,
}

impl File {
    /// Takes over an open file.
    pub fn new(core: &Core, file: std::fs::File) -> File {
        let way = if calls::is_memory(&file) {
            let device = file.metadata().is_ok_and(|data| data.file_type().is_block_device());
            let batched = device && core.state.borrow_mut().open_aio();
            if batched { Way::Batch } else { Way::Call }
        } else if aio::is_better(&file) && core.state.borrow_mut().open_aio() {
            Way::Aio
        } else {
            Way::Ring
        };
        File::by(core, file, way)
    }

    /// Takes over an open file with polled reads and writes.
    ///
    /// # Errors
    ///
    /// [`OpenRingError`] if the kernel creates no such ring. On a device without polling, reads
    /// fail with [`io::ErrorKind::Unsupported`].
    pub fn polled(
        core: &Core,
        file: std::fs::File,
        polling: Polling,
    ) -> Result<File, OpenRingError> {
        let way = Way::Polled(core.state.borrow_mut().open_polled(polling)?);
        Ok(File::by(core, file, way))
    }

    /// Takes over an open NVMe namespace, whose operations are passthrough commands.
    ///
    /// # Errors
    ///
    /// [`OpenRingError`] if the kernel creates no ring for commands.
    pub fn passthrough(
        core: &Core,
        file: std::fs::File,
        namespace: Namespace,
        polling: Polling,
    ) -> Result<File, OpenRingError> {
        let commands = core.state.borrow_mut().open_commands(namespace, polling)?;
        let file = File::by(core, file, Way::Commands);
        core.state.borrow_mut().file(file.index).commands = Some(Box::new(commands));
        Ok(file)
    }

    fn by(core: &Core, file: std::fs::File, way: Way) -> File {
        let mut state = core.state.borrow_mut();
        let behind_thread = Device::under(&file).is_some_and(|device| device.has_thread());
        let fd = OwnedFd::from(file);
        let raw = fd.as_raw_fd();
        let index = state.insert(Slot::File(Box::new(FileState {
            fd,
            registered: false,
            way,
            behind_thread: behind_thread && way == Way::Ring,
            commands: None,
            ops: Vec::new(),
            free: Vec::new(),
            done: Vec::new(),
            dropped: false,
            ready: false,
        })));
        let registered = match way {
            Way::Polled(which) => state.polled[which].ring.register(index, raw),
            _ => state.ring().register(index, raw),
        };
        state.file(index).registered = registered;
        drop(state);
        File { core: core.clone(), index }
    }

    /// Queues an operation for the next turn. Panics if the buffer of a read or write is too short.
    pub fn submit(&self, op: FileOp) {
        self.core.state.borrow_mut().submit_file(self.index, op);
    }

    /// Moves completions to `done`.
    pub fn take_done(&self, done: &mut Vec<FileDone>) {
        done.append(&mut self.core.state.borrow_mut().file(self.index).done);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let mut state = self.core.state.borrow_mut();
        state.file(self.index).dropped = true;
        state.free_file(self.index);
    }
}

/// The I/O path of reads and writes of a file. All other operations use the core's ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// The core's ring.
    Ring,
    /// Linux AIO (`io_submit`).
    Aio,
    /// Plain system calls.
    Call,
    /// Plain system calls, or Linux AIO for batches.
    Batch,
    /// A polled ring.
    Polled(usize),
    /// NVMe commands through separate rings; nothing uses the core's ring.
    Commands,
}

/// The core's state of a file.
pub(crate) struct FileState {
    fd: OwnedFd,
    /// Registered with the ring of its reads and writes.
    registered: bool,
    way: Way,
    /// A kernel thread does its I/O (loop devices), on our CPUs.
    behind_thread: bool,
    /// State of commands, if the file uses them.
    commands: Option<Box<Commands>>,
    /// Operations in the kernel, with the bytes transferred so far.
    ops: Vec<Option<(FileOp, u32)>>,
    free: Vec<u32>,
    done: Vec<FileDone>,
    dropped: bool,
    pub(crate) ready: bool,
}

impl FileState {
    /// Ring of an operation, if it is polled.
    fn polled_ring(&self, part: u32) -> Option<usize> {
        let (op, _) = self.ops[part as usize].as_ref().expect("an operation in flight");
        let moves_data = matches!(op.kind, FileOpKind::Read | FileOpKind::Write { .. });
        match self.way {
            Way::Polled(which) if moves_data => Some(which),
            _ => None,
        }
    }

    /// The submission entry for the rest of an operation.
    fn entry(&mut self, index: u32, part: u32, arena: Option<u16>) -> squeue::Entry {
        let registered = self.registered
            && (self.polled_ring(part).is_some() || !matches!(self.way, Way::Polled(_)));
        let fd = Fd(self.fd.as_raw_fd());
        let (op, sofar) = self.ops[part as usize].as_mut().expect("an operation in flight");
        let (offset, len) = (op.offset + u64::from(*sofar), op.len - *sofar);
        let data = op
            .buf
            .as_mut()
            .map_or(std::ptr::null_mut(), |buf| buf[*sofar as usize..op.len as usize].as_mut_ptr());
        macro_rules! on_file {
            ($op:ident $(, $argument:expr)*) => {
                match registered {
                    true => opcode::$op::new(Fixed(index) $(, $argument)*),
                    false => opcode::$op::new(fd $(, $argument)*),
                }
            };
        }
        match op.kind {
            FileOpKind::Read => match arena {
                Some(arena) => on_file!(ReadFixed, data, len, arena).offset(offset).build(),
                None => on_file!(Read, data, len).offset(offset).build(),
            },
            FileOpKind::Write { durable } => {
                let (flags, data) = (if durable { libc::RWF_DSYNC } else { 0 }, data.cast_const());
                match arena {
                    Some(arena) => {
                        let write = on_file!(WriteFixed, data, len, arena);
                        write.offset(offset).rw_flags(flags).build()
                    }
                    None => on_file!(Write, data, len).offset(offset).rw_flags(flags).build(),
                }
            }
            FileOpKind::Sync => on_file!(Fsync).flags(FsyncFlags::DATASYNC).build(),
            FileOpKind::Punch => {
                let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                on_file!(Fallocate, u64::from(len)).offset(offset).mode(mode).build()
            }
            FileOpKind::Discard => {
                // The length is in the first bytes of the command.
                let mut command = [0; 16];
                command[..8].copy_from_slice(&u64::from(len).to_ne_bytes());
                on_file!(UringCmd16, BLOCK_URING_CMD_DISCARD)
                    .addr(Some(offset))
                    .cmd(command)
                    .build()
            }
            FileOpKind::Zero => {
                let mode = libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE;
                on_file!(Fallocate, u64::from(len)).offset(offset).mode(mode).build()
            }
        }
    }

    /// Rest of an operation, if it bypasses the ring.
    fn beside_ring(&mut self, index: u32, part: u32) -> Option<FileIo> {
        if !matches!(self.way, Way::Aio | Way::Call | Way::Batch) {
            return None;
        }
        let fd = self.fd.as_raw_fd();
        let (op, sofar) = self.ops[part as usize].as_mut().expect("an operation in flight");
        let (write, durable) = match op.kind {
            FileOpKind::Read => (false, false),
            FileOpKind::Write { durable } => (true, durable),
            FileOpKind::Sync | FileOpKind::Punch | FileOpKind::Discard | FileOpKind::Zero => {
                return None;
            }
        };
        let data = u64::from(part) << 32 | u64::from(index);
        let (offset, len) = (op.offset + u64::from(*sofar), op.len - *sofar);
        let buf = op.buf.as_mut()?[*sofar as usize..op.len as usize].as_mut_ptr();
        Some(FileIo { data, write, durable, fd, buf, len, offset })
    }

    fn finish(&mut self, part: u32, result: io::Result<()>) {
        let (op, _) = self.ops[part as usize].take().expect("an operation in flight");
        self.free.push(part);
        self.done.push(FileDone { tag: op.tag, kind: op.kind, result, buf: op.buf });
    }
}

impl CoreState {
    fn file(&mut self, index: u32) -> &mut FileState {
        match &mut self.slots[index as usize] {
            Slot::File(file) => file,
            _ => unreachable!("a file's slot holds a file until it is dropped"),
        }
    }

    fn submit_file(&mut self, index: u32, op: FileOp) {
        let file = self.file(index);
        let moves_data = matches!(op.kind, FileOpKind::Read | FileOpKind::Write { .. });
        let fits = op.buf.as_ref().is_some_and(|buf| buf.len() >= op.len as usize);
        assert!(!moves_data || fits, "a buffer of {} bytes", op.len);
        let part = file.free.pop().unwrap_or_else(|| {
            file.ops.push(None);
            file.ops.len() as u32 - 1
        });
        file.ops[part as usize] = Some((op, 0));
        self.push_file(index, part);
    }

    /// Whether I/O can bypass the ring.
    fn open_aio(&mut self) -> bool {
        if self.aio.is_none() {
            self.aio = Aio::open().ok();
        }
        self.aio.is_some()
    }

    fn push_file(&mut self, index: u32, part: u32) {
        let file = self.file(index);
        let way = file.way;
        if way == Way::Commands {
            return self.push_command_of(index, part);
        }
        if let Some(io) = file.beside_ring(index, part) {
            // SAFETY: the buffer belongs to the slot's operation until the answer, and the slot is
            // not removed before.
            return unsafe {
                match (way, &mut self.aio) {
                    (Way::Aio, Some(aio)) => aio.push(io),
                    (Way::Batch, _) => self.batches.push(io),
                    _ => self.calls.push(io),
                }
            };
        }
        let polled = self.file(index).polled_ring(part);
        let buf = self.file(index).ops[part as usize].as_mut().and_then(|(op, _)| op.buf.take());
        let ring = match polled {
            Some(which) => Some(&mut self.polled[which].ring),
            None => self.ring.as_mut(),
        };
        let arena = buf.as_ref().zip(ring).and_then(|(buf, ring)| ring.arena_of(buf));
        let file = self.file(index);
        file.ops[part as usize].as_mut().expect("an operation in flight").0.buf = buf;
        let entry = file.entry(index, part, arena);
        if let Some(which) = polled {
            return self.push_polled(which, entry, index, part);
        }
        // SAFETY: the buffer belongs to the slot's operation until the completion, and the slot is
        // not removed before.
        let pushed = unsafe { self.push(entry, Kind::File, index, part) };
        match pushed {
            Ok(()) => {
                self.behind_threads += usize::from(self.file(index).behind_thread);
                // I/Os that the kernel does not accept now stay queued.
                drop(self.submit_some());
            }
            Err(error) => {
                self.file(index).finish(part, Err(error));
                self.mark_ready(index);
            }
        }
    }

    fn push_polled(&mut self, which: usize, entry: squeue::Entry, index: u32, part: u32) {
        let data = u64::from(part) << 32 | u64::from(index);
        let polled = &mut self.polled[which];
        // SAFETY: as for `push` below: the buffer belongs to the slot's operation until the
        // completion, and the slot is not removed before.
        match unsafe { polled.ring.push(&entry.user_data(data)) } {
            Ok(()) => polled.in_flight += 1,
            Err(error) => {
                self.file(index).finish(part, Err(error));
                self.mark_ready(index);
            }
        }
    }

    fn push_command_of(&mut self, index: u32, part: u32) {
        let Slot::File(file) = &mut self.slots[index as usize] else {
            unreachable!("a file's slot holds a file until it is dropped")
        };
        let (fd, rings) = (file.fd.as_raw_fd(), &mut self.commands);
        let op = file.ops[part as usize].as_mut().expect("an operation in flight");
        let commands = file.commands.as_mut().expect("its way is that of commands");
        // SAFETY: as for `push` above: buffer and commands belong to the slot, which is not removed
        // before the completion.
        let pushed = unsafe { CoreState::push_command(rings, commands, (fd, index, part), op) };
        if let Err(error) = pushed {
            self.file(index).finish(part, Err(error));
            self.mark_ready(index);
        }
    }

    /// The result of a command: an errno, zero, or an NVMe status.
    fn command_done(&mut self, index: u32, part: u32, result: i32) {
        let file = self.file(index);
        let (op, sofar) = file.ops[part as usize].as_mut().expect("an operation in flight");
        match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => {
                return self.push_file(index, part);
            }
            ..0 => file.finish(part, Err(io::Error::from_raw_os_error(-result))),
            0 => {
                let commands = file.commands.as_ref().expect("its way is that of commands");
                *sofar += commands.step(op.kind, op.len - *sofar);
                if *sofar < op.len {
                    return self.push_file(index, part);
                }
                file.finish(part, Ok(()));
            }
            status => file.finish(part, Err(NvmeStatus(status as u16).error())),
        }
        self.mark_ready(index);
        self.free_file(index);
    }

    pub(crate) fn file_done(&mut self, index: u32, part: u32, result: i32) {
        if self.file(index).way == Way::Commands {
            return self.command_done(index, part, result);
        }
        let behind_thread = self.file(index).behind_thread;
        self.behind_threads.lower(usize::from(behind_thread));
        let file = self.file(index);
        let (op, sofar) = file.ops[part as usize].as_mut().expect("an operation in flight");
        let moves_data = matches!(op.kind, FileOpKind::Read | FileOpKind::Write { .. });
        match result {
            _ if result == -libc::EINTR || result == -libc::EAGAIN => {
                return self.push_file(index, part);
            }
            _ if result == -libc::EOPNOTSUPP && op.kind == FileOpKind::Zero => {
                // tmpfs supports holes, but no other zeroing.
                op.kind = FileOpKind::Punch;
                return self.push_file(index, part);
            }
            ..0 => file.finish(part, Err(io::Error::from_raw_os_error(-result))),
            0 if moves_data && op.len > 0 => {
                file.finish(part, Err(io::ErrorKind::UnexpectedEof.into()));
            }
            _ => {
                *sofar += result as u32;
                if moves_data && *sofar < op.len {
                    return self.push_file(index, part);
                }
                file.finish(part, Ok(()));
            }
        }
        self.mark_ready(index);
        self.free_file(index);
    }

    fn free_file(&mut self, index: u32) {
        let file = self.file(index);
        if file.dropped && file.free.len() == file.ops.len() {
            self.remove(index);
        }
    }
}
