//! An io_uring with the best features of the kernel: setup, submission and completion.

use std::io;
use std::os::fd::{AsRawFd, RawFd};

use block::{ArenaHold, Buf, Nanos};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode, squeue};

use crate::core::Core;
use crate::errno::address_limit_words;
use crate::polled::Polling;
use crate::waker::Waker;
use crate::{cpu, pipe};

/// Submissions that fit before the kernel must be entered.
const SUBMISSIONS: u32 = 512;
/// Completion entries: a thousand sockets may have a receive and a send each.
const COMPLETIONS: u32 = 4096;
/// Maximum registered descriptors; further ones are used unregistered.
const REGISTERED_FILES: u32 = 4096;
/// Idle time in milliseconds after which the kernel's SQPOLL thread sleeps.
const POLL_IDLE_MS: u32 = 100;

/// Maximum number of registered arenas; further buffers are used unregistered.
const REGISTERED_ARENAS: usize = 64;
/// Longest arena to register, as its pages are pinned.
const LONGEST_ARENA: usize = 256 << 20;

/// Features of the kernel, as shown by `doctor`. Without one, a slower path is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Completions run only when the owner asks: full batches, no interrupts. Linux 6.1.
    pub defer_taskrun: bool,
    /// Completions do not interrupt the owner. Linux 5.19. Implied by the above.
    pub coop_taskrun: bool,
    /// One armed receive serves many messages from provided buffers. Linux 6.0.
    pub multishot_receive: bool,
    /// Registered descriptors, without a lookup per operation. Linux 5.19.
    pub registered_files: bool,
    /// Long messages are sent zero-copy. Linux 6.5.
    pub send_by_reference: bool,
    /// Discards of block devices. Linux 6.12.
    pub discards: bool,
}

impl Features {
    /// Probes the kernel with a temporary ring.
    pub fn probe() -> Result<Features, OpenRingError> {
        Ring::open().map(|ring| ring.features)
    }

    /// Features named in `DRUMFIRE_WITHOUT`, a comma-separated list for tests of the slower paths:
    /// `defer_taskrun`, `coop_taskrun`, `multishot_receive`, `registered_files`,
    /// `send_by_reference`, `discards`.
    fn allowed() -> Features {
        let without = std::env::var("DRUMFIRE_WITHOUT").unwrap_or_default();
        let has = |name: &str| !without.split(',').any(|word| word.trim() == name);
        Features {
            defer_taskrun: has("defer_taskrun"),
            coop_taskrun: has("coop_taskrun"),
            multishot_receive: has("multishot_receive"),
            registered_files: has("registered_files"),
            send_by_reference: has("send_by_reference"),
            discards: has("discards"),
        }
    }
}

/// Why a ring cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenRingError {
    /// The kernel forbids io_uring.
    #[error(
        "io_uring is not permitted: set 'sysctl kernel.io_uring_disabled=0', or allow \
         io_uring_setup in the container's seccomp profile"
    )]
    Forbidden,
    /// A seccomp filter forbids it. Those of podman and buildah answer as a kernel without io_uring
    /// would.
    #[error(
        "io_uring is not permitted by the container's seccomp profile: start it with \
         '--security-opt seccomp=unconfined', or allow io_uring_setup, io_uring_enter and \
         io_uring_register in the profile"
    )]
    Filtered,
    /// The kernel has no io_uring, or an old one.
    #[error("the io_uring of this kernel is missing or too old: Linux 5.11 or newer is needed")]
    Missing,
    /// The ring does not support passthrough commands.
    #[error("this kernel has no NVMe passthrough through io_uring: Linux 5.19 or newer is needed")]
    Commands,
    /// Too few descriptors.
    #[error("io_uring needs more file descriptors: raise 'ulimit -n'")]
    Files,
    /// Too little memory.
    #[error("not enough memory for io_uring{}", memory_remedy())]
    Memory,
    /// Anything else.
    #[error("io_uring cannot be set up: {0}")]
    Other(#[source] io::Error),
}

/// The limit that a ring without memory has met.
fn memory_remedy() -> String {
    address_limit_words().unwrap_or_else(|| ": raise 'ulimit -l', the locked memory".to_owned())
}

/// Whether the host forbids io_uring to some or all processes.
fn is_disabled() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    setting.is_ok_and(|text| text.trim() != "0")
}

/// Whether a seccomp filter decides on the system calls of this process (proc_pid_status(5)).
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

impl From<io::Error> for OpenRingError {
    fn from(error: io::Error) -> OpenRingError {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if is_disabled() => OpenRingError::Forbidden,
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) if is_filtered() => {
                OpenRingError::Filtered
            }
            Some(libc::EPERM | libc::EACCES) => OpenRingError::Forbidden,
            Some(libc::ENOSYS) => OpenRingError::Missing,
            Some(libc::EMFILE | libc::ENFILE) => OpenRingError::Files,
            Some(libc::ENOMEM) => OpenRingError::Memory,
            _ => OpenRingError::Other(error),
        }
    }
}

/// An io_uring and its features. The ring belongs to the thread that created it.
pub(crate) struct Ring {
    uring: IoUring,
    pub(crate) features: Features,
    registered_files: u32,
    /// Registered arenas, held until the ring is dropped: the kernel uses their pages.
    arenas: Vec<ArenaHold>,
    room_for_arenas: usize,
}

impl Ring {
    pub(crate) fn open() -> Result<Ring, OpenRingError> {
        let mut features = Features::allowed();
        let (uring, defer, coop) = build(features)?;
        (features.defer_taskrun, features.coop_taskrun) = (defer, coop);
        let params = uring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(OpenRingError::Missing);
        }
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        // SEND_ZC came with Linux 6.0, as did multishot receive, which cannot be probed.
        features.multishot_receive &= probe.is_supported(opcode::SendZc::CODE);
        features.send_by_reference &= pipe::can_refer();
        // Discards cannot be probed, but came in the same release as minimum timeouts.
        features.discards &= params.is_feature_min_timeout();
        Ok(Ring::with_tables(uring, features))
    }

    /// A polled ring for reads and writes of files only.
    pub(crate) fn open_polled(polling: Polling) -> Result<Ring, OpenRingError> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS).setup_clamp();
        if polling.completions {
            builder.setup_iopoll();
        }
        if polling.submissions {
            setup_sqpoll(&mut builder);
        }
        Ok(Ring::with_tables(builder.build(SUBMISSIONS)?, Features::allowed()))
    }

    /// Creates tables for registered files and buffers, if supported.
    fn with_tables(uring: IoUring, mut features: Features) -> Ring {
        let mut registered_files = 0;
        if features.registered_files {
            let limit = REGISTERED_FILES.min(descriptor_limit());
            features.registered_files = uring.submitter().register_files_sparse(limit).is_ok();
            registered_files = if features.registered_files { limit } else { 0 };
        }
        let sparse = uring.submitter().register_buffers_sparse(REGISTERED_ARENAS as u32);
        let room_for_arenas = if sparse.is_ok() { REGISTERED_ARENAS } else { 0 };
        let arenas = Vec::with_capacity(room_for_arenas);
        Ring { uring, features, registered_files, arenas, room_for_arenas }
    }

    /// Index of a buffer's registered arena, which saves pinning its pages for each I/O. Registers
    /// the arena if necessary; `None` if that fails, such as at the limit of locked memory.
    pub(crate) fn arena_of(&mut self, buf: &Buf) -> Option<u16> {
        let at = buf.as_ptr() as usize;
        let known = self.arenas.iter().position(|arena| arena.range().contains(&at));
        known.map(|index| index as u16).or_else(|| self.register_arena(buf))
    }

    #[cold]
    fn register_arena(&mut self, buf: &Buf) -> Option<u16> {
        let index = self.arenas.len();
        if index >= self.room_for_arenas {
            return None;
        }
        let arena = buf.arena();
        let (base, len) = (arena.range().start as *mut libc::c_void, arena.range().len());
        let part = libc::iovec { iov_base: base, iov_len: len };
        // SAFETY: the arena is held as long as the ring, so no other memory gets its addresses; the
        // ring is dropped before the arenas.
        let registered = len <= LONGEST_ARENA
            && unsafe {
                self.uring.submitter().register_buffers_update(index as u32, &[part], None)
            }
            .is_ok();
        if !registered {
            self.room_for_arenas = index;
            return None;
        }
        self.arenas.push(arena);
        Some(index as u16)
    }

    /// Unregisters all arenas, so that their memory can be freed. The next I/O registers them
    /// again. No I/O on an arena may be in flight.
    pub(crate) fn forget_arenas(&mut self) {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        while let Some(index) = self.arenas.len().checked_sub(1) {
            // SAFETY: an empty entry has no memory. The previous arena is held until the next line.
            let forgotten = unsafe {
                self.uring.submitter().register_buffers_update(index as u32, &[none], None)
            };
            if forgotten.is_err() {
                // The others are still registered.
                return;
            }
            self.arenas.pop();
        }
    }

    pub(crate) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.uring.submitter()
    }

    /// Registers a descriptor at `index`; false if it must be used unregistered.
    pub(crate) fn register(&self, index: u32, fd: RawFd) -> bool {
        index < self.registered_files
            && self.uring.submitter().register_files_update(index, &[fd]).is_ok()
    }

    /// Queues an operation.
    ///
    /// # Safety
    /// The memory that the entry points to stays valid and untouched until its completion was
    /// taken.
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the caller's promise.
            if unsafe { self.uring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            // The SQPOLL thread may have to be woken.
            if self.uring.params().is_setup_sqpoll() { self.submit() } else { self.enter() }?;
        }
    }

    /// Whether the kernel has to be entered: to submit, or to run completions.
    pub(crate) fn needs_entry(&mut self) -> bool {
        let submissions = self.uring.submission();
        !submissions.is_empty() || submissions.taskrun() || submissions.cq_overflow()
    }

    /// Whether something is queued.
    pub(crate) fn has_submission(&mut self) -> bool {
        !self.uring.submission().is_empty()
    }

    /// Registers an eventfd of another ring for completions and task work, or none.
    pub(crate) fn register_eventfd(&self, bell: Option<&Waker>) -> io::Result<()> {
        match bell {
            Some(bell) => self.uring.submitter().register_eventfd(bell.as_raw_fd()),
            None => self.uring.submitter().unregister_eventfd(),
        }
    }

    /// Whether there are completions.
    pub(crate) fn has_completion(&mut self) -> bool {
        !self.uring.completion().is_empty()
    }

    /// Submits queued operations and runs completions, without waiting.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        const GET_EVENTS: u32 = 1;
        let queued = self.uring.submission().len() as u32;
        // SAFETY: entries were pushed under the promise of `push`; no argument is passed.
        let entered =
            unsafe { self.uring.submitter().enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) };
        tolerate(entered.map(drop))
    }

    /// Submits queued operations, and nothing else.
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        tolerate(self.uring.submitter().submit().map(drop))
    }

    /// Submits queued operations and sleeps until a completion or the timeout.
    pub(crate) fn wait(&mut self, timeout: Option<Nanos>) -> io::Result<()> {
        let span = timeout.map(|timeout| {
            Timespec::new().sec(timeout.0 / 1_000_000_000).nsec((timeout.0 % 1_000_000_000) as u32)
        });
        let mut args = SubmitArgs::new();
        if let Some(span) = &span {
            args = args.timespec(span);
        }
        tolerate(self.uring.submitter().submit_with_args(1, &args).map(drop))
    }

    /// Moves all completions to `batch` as (user data, result, flags).
    pub(crate) fn take_completions(&mut self, batch: &mut Vec<(u64, i32, u32)>) {
        let completions = self.uring.completion();
        batch.extend(completions.map(|c| (c.user_data(), c.result(), c.flags())));
    }
}

/// Enables SQPOLL.
pub(crate) fn setup_sqpoll<S, C>(builder: &mut io_uring::Builder<S, C>)
where
    S: squeue::EntryMarker,
    C: io_uring::cqueue::EntryMarker,
{
    builder.setup_sqpoll(POLL_IDLE_MS);
    // Unpinned, the SQPOLL thread would spin on the CPU of its submitter.
    if let Some(cpu) = cpu::neighbour() {
        builder.setup_sqpoll_cpu(cpu as u32);
    }
}

/// Ignores a signal, a time-out and a full completion queue, after which the loop calls again.
pub(crate) fn tolerate(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Builds the ring with the best supported flags; returns whether it has defer and coop.
fn build(allowed: Features) -> Result<(IoUring, bool, bool), OpenRingError> {
    let mut last = None;
    for (defer, coop, plain) in
        [(true, false, false), (false, true, false), (false, false, false), (false, false, true)]
    {
        if (defer && !allowed.defer_taskrun) || (coop && !allowed.coop_taskrun) {
            continue;
        }
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS).setup_clamp();
        if !plain {
            builder.setup_submit_all();
        }
        if defer {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
        }
        if coop {
            builder.setup_coop_taskrun().setup_taskrun_flag();
        }
        match builder.build(SUBMISSIONS) {
            Ok(uring) => return Ok((uring, defer, defer || coop)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => last = Some(error),
            Err(error) => return Err(error.into()),
        }
    }
    Err(OpenRingError::Other(last.unwrap_or_else(|| io::ErrorKind::Unsupported.into())))
}

fn descriptor_limit() -> u32 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the struct that we own.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if result == 0 { limit.rlim_cur.min(u64::from(u32::MAX)) as u32 } else { 1024 }
}
impl Core {
    /// Unregisters all buffers, so that a pool can [return them](block::Pool::review). Only while
    /// no I/O of a file is in flight.
    pub fn forget_arenas(&self) {
        self.state.borrow_mut().ring().forget_arenas();
    }
}
