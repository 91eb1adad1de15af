//! A volume in a file, on a block device, or on an NVMe namespace by passthrough.

mod holes;
mod odd;

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use block::{
    Backing, Cause, Count, Done, Extents, Fault, Geometry, Io, Lane, Nanos, Op, Tag, Zone, Zones,
};
use os::{
    Core, Device, File, FileDone, FileOp, FileOpKind, FileState, NvmeStatus, OpenFile, Polling,
};
use proto::nvme::{status_from_kernel, status_words};

use crate::events::Events;
use crate::hold::Hold;
use crate::uri::FileUri;
use crate::{FileGround, Ground, Hints, OpenError, Purpose, Volume, guard, hold};

use self::holes::Holes;
pub(crate) use self::odd::left_out;
use self::odd::{Odd, Tail};

/// Maximum I/Os of a lane in the kernel.
const MAX_IN_FLIGHT: usize = 1024;

/// A file or block device, with direct I/O where that works.
pub(crate) struct FileVolume {
    uri: FileUri,
    geometry: Geometry,
    purpose: Purpose,
    direct: bool,
    /// The file's last part of a block.
    tail: Tail,
    /// The open file: all lanes use this handle, whatever the path leads to later.
    opened: Arc<OpenFile>,
    /// The file had a name when opened, on a file system that counts links.
    named: bool,
    /// The file is a device, and no caller was promised that trimmed blocks read as zeroes.
    discards: bool,
    /// Lock against other owners.
    hold: Hold,
    /// Claim against other processes on a device that is written.
    _claim: Option<std::fs::File>,
    sync: Arc<Writeback>,
    /// Backing store of the file, looked up at the first request.
    backing: OnceLock<Backing>,
}

/// Whether written data can still be made durable.
///
/// The kernel reports a failed writeback once and forgets it: the next sync succeeds although the
/// data is lost. So after a failed sync all syncs fail, on every lane, until the volume is
/// reopened. A process that opens the file later cannot know this, so an event reports the failure.
#[derive(Default)]
struct Writeback {
    failed: Mutex<Option<(Fault, Cause)>>,
    events: Events,
}

impl Writeback {
    fn told(&self) -> Option<(Fault, Cause)> {
        *self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The result to report for a flush.
    fn after_flush(&self, told: Result<(), (Fault, Cause)>) -> Result<(), (Fault, Cause)> {
        if let Err(why) = told {
            self.failed(why);
        }
        self.told().map_or(Ok(()), Err)
    }

    /// Records a failed sync; the first failure is kept.
    #[cold]
    fn failed(&self, why: (Fault, Cause)) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| {
            let cause = words_of(why.1).map(|words| format!(" ({words})")).unwrap_or_default();
            self.events.say(format!(
                "sync failed{cause}: writes since the last flush may be lost. Flushes and FUA \
                writes fail until the file is reopened, which clears this error: check the data"
            ));
            why
        });
    }
}

impl FileVolume {
    pub(crate) fn open(uri: &FileUri, purpose: Purpose) -> Result<FileVolume, OpenError> {
        let fail = |error| OpenError::File { path: uri.path.clone(), error };
        hold::create(uri, purpose)?;
        let hold = Hold::take(uri, purpose)?;
        // Before the device is opened for writing: that alone triggers udev.
        let claim = guard::claim(&uri.path, purpose)?;
        let opened = OpenFile::open(&uri.path, purpose.writes(), uri.direct);
        let mut found = opened.map_err(|error| hold::cannot_open(uri, error))?;
        if !hold.is_of(&found.file) {
            let why = "the path was replaced by another file while it was being opened: try again";
            return Err(fail(std::io::Error::other(why)));
        }
        if uri.iopoll {
            check_polls(uri, &found)?;
        }
        if purpose == Purpose::Write && found.holds_data().map_err(fail)? {
            return Err(OpenError::HoldsData(uri.path.clone()));
        }
        let block_bytes = uri.block_bytes.unwrap_or(found.block_bytes);
        let tail = Tail::of(uri, &found, block_bytes);
        if found.bytes < u64::from(block_bytes) && tail != Tail::Padded {
            return Err(OpenError::TooSmall(uri.path.display().to_string(), block_bytes));
        }
        if tail == Tail::Padded && found.direct {
            // Direct I/O transfers whole blocks.
            found = found.again_cached(purpose.writes()).map_err(fail)?;
        }
        let blocks = found.bytes.next_multiple_of(u64::from(block_bytes));
        let bytes = if tail == Tail::Padded { blocks } else { found.bytes };
        // A served volume promises that trimmed blocks read as zeroes.
        let discards = found.device && purpose != Purpose::Store;
        // Until a flush, written data may be in the page cache or the drive's volatile cache.
        let geometry = Geometry {
            read_only: !purpose.writes(),
            volatile: found.namespace.is_none_or(|namespace| namespace.volatile_cache),
            trim_zeroes: !discards,
            ..Geometry::new(bytes, block_bytes)
        };
        let direct = found.direct;
        let named = FileState::of(&found.file).map_err(fail)?.links > 0;
        let (uri, opened) = (uri.clone(), Arc::new(found));
        let sync = Arc::default();
        Ok(FileVolume {
            uri,
            geometry,
            purpose,
            direct,
            tail,
            opened,
            named,
            discards,
            hold,
            _claim: claim,
            sync,
            backing: OnceLock::new(),
        })
    }

    fn path(&self) -> &Path {
        &self.uri.path
    }

    fn line(&self, event: &str) -> String {
        format!("file:{}: {event}", self.path().display())
    }
}

impl Volume for FileVolume {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn byte_geometry(&self) -> Geometry {
        match self.tail {
            Tail::Padded => Geometry { block_bytes: 1, blocks: self.opened.bytes, ..self.geometry },
            Tail::None | Tail::LeftOut => self.geometry,
        }
    }

    fn lane(&self, core: &Core) -> Result<Box<dyn Lane>, OpenError> {
        self.hinted_lane(core, Hints::default())
    }

    fn hinted_lane(&self, core: &Core, hints: Hints) -> Result<Box<dyn Lane>, OpenError> {
        let fail = |error| OpenError::File { path: self.path().to_owned(), error };
        let writes = self.purpose.writes();
        let opened = match self.opened.again(writes) {
            // Without /proc, reopen the file by its path.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                OpenFile::open(self.path(), writes, Some(self.direct))
            }
            opened => opened,
        };
        let opened = opened.map_err(fail)?;
        if hints.drop_cached && !self.direct {
            opened.drop_cached().map_err(fail)?;
        }
        if let (Some(random), false) = (hints.random, self.direct) {
            opened.expect(random).map_err(fail)?;
        }
        let polling = Polling { completions: self.uri.iopoll, submissions: self.uri.sqpoll };
        let no_ring = |error: os::OpenRingError| OpenError::Polling {
            path: self.path().to_owned(),
            why: error.to_string(),
        };
        let file = match opened.namespace {
            Some(namespace) => File::passthrough(core, opened.file, namespace, polling),
            None if polling.any() => File::polled(core, opened.file, polling),
            None => Ok(File::new(core, opened.file)),
        };
        let file = file.map_err(no_ring)?;
        Ok(Box::new(FileLane {
            geometry: self.geometry,
            file,
            watch: Watch::new(self),
            opened: Arc::clone(&self.opened),
            odd: (self.tail == Tail::Padded).then(|| Odd::new(self.byte_geometry())),
            _hold: self.hold.clone(),
            trim: match self.discards && core.features().discards {
                true => FileOpKind::Discard,
                false => FileOpKind::Punch,
            },
            cached: !self.direct,
            sync: Arc::clone(&self.sync),
            in_flight: 0,
            refused: Vec::new(),
            done: Vec::with_capacity(MAX_IN_FLIGHT),
        }))
    }

    fn read_in(&self, part: Range<u64>, goes_on: &dyn Fn() -> bool) -> Result<u64, OpenError> {
        if self.direct {
            return Ok(0);
        }
        let fail = |error| OpenError::File { path: self.path().to_owned(), error };
        let opened = OpenFile::open(self.path(), false, Some(false)).map_err(fail)?;
        let part = part.start..part.end.min(self.geometry.bytes());
        opened.read_in(part, goes_on).map_err(fail)
    }

    fn backing(&self) -> Backing {
        let of = || match self.ground() {
            Ground::File(ground) => ground.backing(),
            _ => Backing::Unknown,
        };
        self.backing.get_or_init(of).clone()
    }

    fn kind(&self) -> &'static str {
        if self.opened.namespace.is_some() { "NVMe passthrough" } else { "file" }
    }

    fn remarks(&self) -> Vec<String> {
        let hold = self.hold.remark().map(str::to_owned);
        hold.into_iter().chain(self.tail_remark()).collect()
    }

    fn own_incidents(&self) -> Vec<String> {
        self.sync.events.all().iter().map(|event| self.line(event)).collect()
    }

    fn news(&self) -> Vec<String> {
        self.sync.events.news().iter().map(|event| self.line(event)).collect()
    }

    /// A device has no map of its extents.
    fn extents(&self) -> Option<Arc<dyn Extents>> {
        if self.opened.device || self.opened.namespace.is_some() {
            return None;
        }
        let file = self.opened.file.try_clone().ok()?;
        Some(Arc::new(Holes { file, block_bytes: self.geometry.block_bytes.into() }))
    }

    fn ground(&self) -> Ground {
        let asked = self.uri.direct != Some(false);
        match FileGround::open(self.uri.path.clone(), asked, self.direct) {
            Ok(ground) => Ground::File(ground),
            Err(_) => Ground::Elsewhere,
        }
    }
}

/// Whether the device supports polled completions.
fn check_polls(uri: &FileUri, found: &OpenFile) -> Result<(), OpenError> {
    let no = |why: String| Err(OpenError::Polling { path: uri.path.clone(), why });
    if !found.direct {
        return no("iopoll needs direct I/O, which the file system does not support".to_owned());
    }
    let twin = os::block_twin(&uri.path).and_then(|path| std::fs::File::open(path).ok());
    let Some(device) = Device::under(twin.as_ref().unwrap_or(&found.file)) else {
        return no("iopoll needs a file on a block device".to_owned());
    };
    match device.settings().polls {
        Some(true) => Ok(()),
        _ => no(format!(
            "the device {} has no poll queues; NVMe has them with the module parameter \
             nvme.poll_queues=N, virtio with virtio_blk.poll_queues=N",
            device.disk
        )),
    }
}

struct FileLane {
    geometry: Geometry,
    file: File,
    watch: Watch,
    /// For operations that are no I/Os.
    opened: Arc<OpenFile>,
    /// The file's length is no multiple of the block.
    odd: Option<Odd>,
    _hold: Hold,
    /// Operation that deallocates ranges.
    trim: FileOpKind,
    /// I/Os go through the page cache.
    cached: bool,
    sync: Arc<Writeback>,
    in_flight: usize,
    /// Completions of I/Os that never reached the file.
    refused: Vec<Done>,
    done: Vec<FileDone>,
}

impl Lane for FileLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        if now >= self.watch.look && !ios.is_empty() {
            self.watch.look(now);
        }
        while self.in_flight < MAX_IN_FLIGHT {
            let Some(io) = ios.pop_front() else { return };
            let checked = match &self.odd {
                None => self.geometry.check(&io),
                Some(odd) => odd.check(&self.geometry, &io),
            };
            if let Err(fault) = checked {
                self.refused.push(io.failed(fault));
                continue;
            }
            if io.op != Op::Read && io.offset + u64::from(io.len) > self.watch.end {
                let Io { tag, buf, .. } = io;
                let cause = self.watch.cause;
                self.refused.push(Done { tag, result: Err(Fault::Medium), cause, buf });
                continue;
            }
            if (io.op == Op::Flush || io.fua)
                && let Some((fault, cause)) = self.sync.told()
            {
                let Io { tag, buf, .. } = io;
                self.refused.push(Done { tag, result: Err(fault), cause, buf });
                continue;
            }
            let kind = match io.op {
                Op::Read => FileOpKind::Read,
                Op::Write => FileOpKind::Write { durable: io.fua },
                Op::Flush => FileOpKind::Sync,
                Op::Trim => self.trim,
                Op::WriteZeroes => FileOpKind::Zero,
            };
            let Io { tag, offset, mut len, buf, .. } = io;
            if let Some(odd) = &mut self.odd {
                len = odd.cut(tag, offset, len);
            }
            self.file.submit(FileOp { tag: tag.0, kind, offset, len, buf });
            self.in_flight += 1;
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.refused);
        if self.in_flight == 0 {
            return;
        }
        self.file.take_done(&mut self.done);
        self.in_flight.lower(self.done.len());
        let (sync, cached, odd) = (&self.sync, self.cached, &mut self.odd);
        done.extend(self.done.drain(..).map(|FileDone { tag, kind, result, mut buf }| {
            if let Some(odd) = odd {
                odd.pad(Tag(tag), buf.as_deref_mut());
            }
            let mut told = result.map_err(|error| match NvmeStatus::of(&error) {
                Some(NvmeStatus(status)) => status_from_kernel(status),
                None => (fault_of(&error), cause_of(&error)),
            });
            if kind == FileOpKind::Sync {
                told = sync.after_flush(told);
            } else if let (FileOpKind::Write { durable: true }, true, Err(why)) =
                (kind, cached, told)
                && why.0 == Fault::Medium
            {
                // The failed sync has written back other callers' data, and consumed their error.
                sync.failed(why);
            }
            let cause = told.map_or_else(|(_, cause)| cause, |()| Cause::NONE);
            let result = told.map_err(|(fault, _)| fault);
            Done { tag: Tag(tag), result, cause, buf }
        }));
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        words_of(cause)
    }

    fn zones(&self) -> Option<Zones> {
        os::zones_of(&self.opened.file)
    }

    fn reset_zone(&mut self, zone: &Zone) -> Result<(), (Fault, Cause)> {
        os::reset_zone(&self.opened.file, zone.start, zone.bytes)
            .map_err(|error| (fault_of(&error), cause_of(&error)))
    }

    fn wake(&self) -> Option<Nanos> {
        if self.refused.is_empty() { None } else { Some(Nanos(0)) }
    }
}

/// The file ended before the data did.
const END: Cause = Cause(u32::MAX);
/// The file has no name any more. All other causes are errnos, or NVMe statuses.
const REMOVED: Cause = Cause(u32::MAX - 1);

fn words_of(cause: Cause) -> Option<String> {
    match cause {
        Cause::NONE => None,
        END => Some("read past the end of the file".to_owned()),
        REMOVED => Some("the file was deleted: writes would be lost".to_owned()),
        cause => status_words(cause).or_else(|| Some(os::errno_words(cause.0 as i32))),
    }
}

/// Time for which a lane trusts the file's last known size.
const BELIEVED: Nanos = Nanos::from_millis(1);

/// Watch on the size up to which a file may be written.
///
/// A write past the end would extend a truncated file and hide the loss: the lost part would read
/// as zeroes. So a lane checks the file's size before a write, at most once a millisecond; a check
/// takes 1 to 2 µs.
struct Watch {
    /// `None` for a device, which cannot grow.
    file: Option<Arc<OpenFile>>,
    named: bool,
    look: Nanos,
    /// No write may go beyond this, and why.
    end: u64,
    cause: Cause,
}

impl Watch {
    fn new(volume: &FileVolume) -> Watch {
        let grows = volume.purpose.writes() && !volume.opened.device;
        let (file, look) = match grows {
            true => (Some(Arc::clone(&volume.opened)), Nanos(0)),
            false => (None, Nanos(u64::MAX)),
        };
        Watch { file, named: volume.named, look, end: u64::MAX, cause: Cause::NONE }
    }

    #[cold]
    fn look(&mut self, now: Nanos) {
        self.look = now + BELIEVED;
        let Some(opened) = &self.file else { return };
        (self.end, self.cause) = match FileState::of(&opened.file) {
            Ok(FileState { links: 0, .. }) if self.named => (0, REMOVED),
            Ok(FileState { bytes, .. }) => (bytes, END),
            Err(error) => (0, cause_of(&error)),
        };
    }
}

#[cold]
pub(crate) fn cause_of(error: &std::io::Error) -> Cause {
    match error.raw_os_error() {
        Some(errno) => Cause(errno as u32),
        None if error.kind() == ErrorKind::UnexpectedEof => END,
        None => Cause::NONE,
    }
}

#[cold]
pub(crate) fn fault_of(error: &std::io::Error) -> Fault {
    match error.kind() {
        ErrorKind::Unsupported => Fault::Unsupported,
        // A device set read-only after the open reports EPERM.
        _ if error.raw_os_error().is_some_and(os::is_protected) => Fault::ReadOnly,
        _ if error.raw_os_error().is_some_and(os::is_full) => Fault::NoSpace,
        _ => Fault::Medium,
    }
}

#[cfg(test)]
mod test;
