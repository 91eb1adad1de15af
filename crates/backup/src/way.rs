//! A thread's synchronous access to a target or a source volume.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use block::{Buf, Cause, Done, Fault, Io, Lane, Nanos, Op, Pool, Tag};
use os::Core;
use volume::Volume;

/// Timeout without any completion.
const PATIENCE: Nanos = Nanos::from_secs(60);
/// Longest sleep between polls of a lane.
const SOON: Nanos = Nanos::from_millis(100);
/// Timeout of a graceful close.
const CLOSING: Nanos = Nanos::from_secs(1);
/// Buffers the lanes may borrow, of both sizes.
const POOL: usize = 256;

/// Whether the user requested a stop.
pub(crate) type Stop<'a> = &'a dyn Fn() -> bool;

/// Access of one thread to the bytes.
pub(crate) enum Way<'a> {
    /// Discards all.
    Null,
    /// A file.
    File(Arc<File>),
    /// A volume.
    Lane(Box<Waited<'a>>),
}

/// A read that failed.
pub(crate) struct ReadError {
    pub(crate) why: String,
    /// The buffer, unless an I/O may still use it.
    pub(crate) buf: Option<Buf>,
    /// No more can be read this way: open another one.
    pub(crate) lost: bool,
}

/// Reason why there is no way to a volume.
pub(crate) enum NoWay {
    /// This host lacks a resource that every volume needs, such as memory: nothing is known about
    /// the volume.
    Host(io::Error),
    /// The volume cannot be reached.
    Volume(String),
}

impl<'a> Way<'a> {
    /// Access to a volume.
    pub(crate) fn to(volume: &dyn Volume, stop: Stop<'a>) -> Result<Way<'a>, NoWay> {
        let core = Core::open(Pool::new(POOL, POOL));
        let core = core.map_err(|error| NoWay::Host(io::Error::other(error)))?;
        let lane = volume.lane(&core).map_err(|error| NoWay::Volume(error.to_string()))?;
        let last = core.now();
        let (ios, in_flight) = (VecDeque::new(), 0);
        Ok(Way::Lane(Box::new(Waited { core, lane, ios, in_flight, last, stop })))
    }

    /// Writes the first `len` bytes of `buf`, and returns it.
    pub(crate) fn write(&mut self, at: u64, buf: Buf, len: usize) -> Result<Buf, String> {
        match self {
            Way::Null => Ok(buf),
            Way::File(file) => {
                file.write_all_at(&buf[..len], at).map_err(|error| error.to_string())?;
                Ok(buf)
            }
            Way::Lane(lane) => {
                let done = lane.go(Op::Write, at, len, Some(buf));
                done.map(|buf| buf.expect("ours")).map_err(|error| error.why)
            }
        }
    }

    /// Reads into the first `len` bytes of `buf`.
    pub(crate) fn read(&mut self, at: u64, buf: Buf, len: usize) -> Result<Buf, ReadError> {
        let with = |why: String, buf| ReadError { why, buf: Some(buf), lost: false };
        match self {
            Way::Null => Err(with("null has no data to read".to_owned(), buf)),
            Way::File(file) => {
                let mut buf = buf;
                match file.read_exact_at(&mut buf[..len], at) {
                    Ok(()) => Ok(buf),
                    Err(error) => Err(with(error.to_string(), buf)),
                }
            }
            Way::Lane(lane) => lane.go(Op::Read, at, len, Some(buf)).map(|buf| buf.expect("ours")),
        }
    }

    /// Flushes all completed writes.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        match self {
            Way::Null => Ok(()),
            Way::File(file) => file.sync_all().map_err(|error| error.to_string()),
            Way::Lane(lane) => lane.flush(),
        }
    }
}

/// A lane whose thread waits for its I/Os, one or several at once.
pub(crate) struct Waited<'a> {
    core: Core,
    lane: Box<dyn Lane>,
    ios: VecDeque<Io>,
    in_flight: usize,
    /// Time of the last submission or completion.
    last: Nanos,
    stop: Stop<'a>,
}

impl Waited<'_> {
    /// Submits an I/O at the next [`turn`](Self::turn).
    pub(crate) fn begin(&mut self, io: Io) {
        self.last = self.core.now();
        self.in_flight += 1;
        self.ios.push_back(io);
    }

    /// I/Os in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Appends completions, and waits up to `patience` if there are none.
    pub(crate) fn turn(&mut self, patience: Nanos, done: &mut Vec<Done>) -> Result<(), String> {
        let now = self.core.now();
        let before = done.len();
        self.lane.poll(now, done);
        self.lane.submit(now, &mut self.ios);
        if done.len() > before {
            self.in_flight -= done.len() - before;
            self.last = now;
            return Ok(());
        }
        if self.in_flight > 0 && (self.stop)() {
            return Err("stopped".to_owned());
        }
        if now.since(self.last) > PATIENCE && self.in_flight > 0 {
            return Err(self.lane.broken().unwrap_or("timed out after 60 s").to_owned());
        }
        let soon = now + patience;
        let wake = self.lane.wake().map_or(soon, |wake| wake.min(soon));
        let mut ready = Vec::new();
        self.core.turn(Some(wake), &mut ready).map_err(|error| format!("io_uring: {error}"))
    }

    /// Describes the failure of an I/O.
    pub(crate) fn words(&self, fault: Fault, cause: Cause) -> String {
        let broken = self.lane.broken().filter(|_| fault.is_lost()).map(str::to_owned);
        let words = broken.or_else(|| self.lane.words_of(cause));
        words.unwrap_or_else(|| fault.to_string())
    }

    /// Flushes all writes that were completed on this lane.
    pub(crate) fn flush(&mut self) -> Result<(), String> {
        self.go(Op::Flush, 0, 0, None).map(|_| ()).map_err(|error| error.why)
    }

    fn go(
        &mut self,
        op: Op,
        at: u64,
        len: usize,
        buf: Option<Buf>,
    ) -> Result<Option<Buf>, ReadError> {
        let lost = |why: String| ReadError { why, buf: None, lost: true };
        let len = u32::try_from(len).map_err(|_| lost("an I/O of more than 4 GiB".to_owned()))?;
        self.begin(Io { tag: Tag(0), op, fua: false, len, offset: at, buf });
        let mut done = Vec::new();
        while done.is_empty() {
            self.turn(SOON, &mut done).map_err(lost)?;
        }
        let Done { result, cause, buf, .. } = done.remove(0);
        match result {
            Ok(()) => Ok(buf),
            Err(fault) => {
                let why = self.words(fault, cause);
                let why = format!("{} of {len} bytes at {at}: {why}", op.word());
                Err(ReadError { why, buf, lost: self.lane.broken().is_some() })
            }
        }
    }
}

impl Drop for Waited<'_> {
    fn drop(&mut self) {
        let (mut ios, mut done, mut ready) = (VecDeque::new(), Vec::new(), Vec::new());
        let give_up = self.core.now() + CLOSING;
        loop {
            let now = self.core.now();
            if self.lane.close(now) || now > give_up {
                return;
            }
            self.lane.poll(now, &mut done);
            self.lane.submit(now, &mut ios);
            let soon = now + Nanos::from_millis(20);
            if self.core.turn(Some(soon), &mut ready).is_err() {
                return;
            }
            ready.clear();
        }
    }
}
