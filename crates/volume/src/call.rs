//! A null volume whose I/Os are system calls that move no data, like fio's engines `falloc`,
//! `ftruncate`, `filecreate`, `filestat`, `filedelete` and `cpuio`.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use block::{Cause, Done, Geometry, Io, Lane, Nanos, Op};
use os::{Folder, ImageLock, LockError};

use crate::file::{cause_of, fault_of};
use crate::{FileGround, Ground, OpenError};

/// System call that replaces each I/O: `?call=KIND,EACH,PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Kind of call.
    pub kind: CallKind,
    /// Bytes of the volume for each file; microseconds of a spin.
    pub each: u64,
    /// Path of the file; `$filenum` becomes its number.
    pub path: String,
}

/// Kinds of system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// Busy-waits.
    Spin,
    /// fallocate(2) of the range: a read keeps the size of the file, a trim punches a hole.
    Allocate,
    /// ftruncate(2) to the offset of a write.
    Truncate,
    /// Creates the file at this offset, unless it exists.
    Create,
    /// stat(2).
    Stat,
    /// unlink(2).
    Delete,
}

/// Placeholder for the number of a file.
const NUMBER: &str = "$filenum";
/// The longest spin in microseconds, an hour.
const SPIN_MAX: u64 = 3_600_000_000;
/// fio's error for an operation that its engine does not support.
const EINVAL: i32 = 22;
const KINDS: [(&str, CallKind); 6] = [
    ("spin", CallKind::Spin),
    ("allocate", CallKind::Allocate),
    ("truncate", CallKind::Truncate),
    ("create", CallKind::Create),
    ("stat", CallKind::Stat),
    ("delete", CallKind::Delete),
];

impl Call {
    /// Parses `KIND,EACH,PATH`.
    pub(crate) fn parse(text: &str) -> Result<Call, String> {
        let mut words = text.splitn(3, ',');
        let mut word = || words.next().unwrap_or_default();
        let (kind, each, path) = (word(), word().parse().ok(), word().to_owned());
        let kind = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, kind)| *kind);
        let spins = kind == Some(CallKind::Spin);
        let most = if spins { SPIN_MAX } else { u64::MAX };
        match (kind, each.filter(|each| (1..=most).contains(each))) {
            (Some(kind), Some(each)) if path.is_empty() == spins => Ok(Call { kind, each, path }),
            _ => Err(format!(
                "call={text}: write KIND,EACH,PATH, or spin,MICROSECONDS with at most an hour"
            )),
        }
    }

    /// The disk below its first file, if that exists.
    pub(crate) fn ground(&self) -> Ground {
        let first = self.path.replace(NUMBER, "0").into();
        FileGround::open(first, false, false).map_or(Ground::Nothing, Ground::File)
    }

    /// Refuses to truncate, grow or remove an image in use.
    pub(crate) fn ask(&self, bytes: u64) -> Result<(), OpenError> {
        let count = match self.kind {
            CallKind::Allocate | CallKind::Truncate => 1,
            CallKind::Delete if !self.path.contains(NUMBER) => 1,
            CallKind::Delete => bytes.div_ceil(self.each),
            CallKind::Spin | CallKind::Create | CallKind::Stat => 0,
        };
        for number in 0..count {
            let path = PathBuf::from(self.path.replace(NUMBER, &number.to_string()));
            if let Err(LockError::InUse { by, writes }) = ImageLock::ask(&path) {
                return Err(OpenError::Locked { path, by, writes });
            }
        }
        Ok(())
    }

    pub(crate) fn lane(&self, geometry: Geometry) -> Result<Box<dyn Lane>, OpenError> {
        let fail = |error| OpenError::File { path: self.path.clone().into(), error };
        let path = Path::new(&self.path);
        let one = matches!(self.kind, CallKind::Allocate | CallKind::Truncate);
        let file = one.then(|| os::to_write(path, true)).transpose().map_err(fail)?;
        let many = matches!(self.kind, CallKind::Create | CallKind::Delete);
        let folder = many.then(|| self.folder()).transpose().map_err(fail)?.flatten();
        let (call, pending) = (self.clone(), VecDeque::new());
        Ok(Box::new(CallLane { geometry, call, file, folder, pending }))
    }

    /// The folder of all files and their name in it; `None` if they have several. No link of
    /// another user is followed in the path or in the folder.
    fn folder(&self) -> io::Result<Option<(Folder, String)>> {
        let (folder, name) = match self.path.rsplit_once('/') {
            Some((folder, _)) if folder.contains(NUMBER) => return Ok(None),
            Some((folder, name)) => (format!("{folder}/"), name),
            None => (".".to_owned(), self.path.as_str()),
        };
        match Folder::open_trusted(Path::new(&folder)) {
            // Each call reports the error.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            folder => Ok(Some((folder?, name.to_owned()))),
        }
    }
}

impl std::fmt::Display for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "call={kind},{},{}", self.each, self.path)
    }
}

struct CallLane {
    geometry: Geometry,
    call: Call,
    file: Option<File>,
    /// The folder of files that are created or removed, and their name.
    folder: Option<(Folder, String)>,
    /// Calls that were made, and when each completes.
    pending: VecDeque<(Nanos, Done)>,
}

impl CallLane {
    fn make(&self, io: &Io) -> io::Result<()> {
        let number = || (io.offset / self.call.each).to_string();
        let path = || PathBuf::from(self.call.path.replace(NUMBER, &number()));
        let inner = |name: &String| PathBuf::from(name.replace(NUMBER, &number()));
        match (self.call.kind, &self.file, io.op) {
            (CallKind::Spin, ..) | (_, _, Op::Flush) => Ok(()),
            (CallKind::Allocate, Some(file), op) => {
                os::allocate(file, io.offset, io.len.into(), op == Op::Write, op == Op::Trim)
            }
            (CallKind::Truncate, Some(file), Op::Write) => file.set_len(io.offset),
            (CallKind::Allocate | CallKind::Truncate, ..) => {
                Err(io::Error::from_raw_os_error(EINVAL))
            }
            // Only the first I/O of each file calls.
            _ if !io.offset.is_multiple_of(self.call.each) => Ok(()),
            (CallKind::Stat, ..) => fs::metadata(path()).map(drop),
            (CallKind::Create, ..) => match &self.folder {
                Some((folder, name)) => folder.open_or_create(&inner(name)).map(drop),
                None => os::to_write(&path(), true).map(drop),
            },
            (CallKind::Delete, ..) => match &self.folder {
                Some((folder, name)) => folder.remove(&inner(name)),
                None => {
                    let path = path();
                    let (folder, name) = Folder::trusted_parent(&path)?;
                    folder.remove(Path::new(name))
                }
            },
        }
    }
}

impl Lane for CallLane {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn submit(&mut self, now: Nanos, ios: &mut VecDeque<Io>) {
        let spins = self.call.kind == CallKind::Spin;
        let due = if spins { now + Nanos(self.call.each * 1000) } else { now };
        for io in ios.drain(..) {
            let (result, cause) = match self.make(&io) {
                Ok(()) => (Ok(()), Cause::NONE),
                Err(error) => (Err(fault_of(&error)), cause_of(&error)),
            };
            self.pending.push_back((due, Done { tag: io.tag, result, cause, buf: io.buf }));
        }
    }

    fn poll(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while self.pending.front().is_some_and(|(due, _)| *due <= now) {
            done.extend(self.pending.pop_front().map(|(_, done)| done));
        }
    }

    fn wake(&self) -> Option<Nanos> {
        // The core polls until the last one completes.
        (!self.pending.is_empty()).then_some(Nanos(0))
    }

    fn words_of(&self, cause: Cause) -> Option<String> {
        (cause != Cause::NONE).then(|| os::errno_words(cause.0 as i32))
    }
}

#[cfg(test)]
mod test {
    use block::Tag;

    use super::*;
    use crate::uri::Uri;

    fn lane(call: &str) -> Box<dyn Lane> {
        let uri = format!("null:64k?call={call}");
        let Uri::Null { bytes, block_bytes, call } = uri.parse().unwrap() else { panic!("{uri}") };
        assert_eq!(Uri::Null { bytes, block_bytes, call: call.clone() }.to_string(), uri);
        call.unwrap().lane(Geometry::new(bytes, block_bytes)).unwrap()
    }

    /// The errno of an I/O of 4 KiB, 0 for none.
    fn go(lane: &mut dyn Lane, op: Op, offset: u64) -> u32 {
        let io = Io { tag: Tag(1), op, offset, len: 4096, fua: false, buf: None };
        let mut done = Vec::new();
        lane.submit(Nanos(5), &mut VecDeque::from([io]));
        assert_eq!(lane.wake(), Some(Nanos(0)));
        lane.poll(Nanos(5), &mut done);
        assert_eq!((done.len(), lane.wake()), (1, None));
        assert_eq!(done[0].result.is_ok(), done[0].cause == Cause::NONE);
        if done[0].result.is_ok() { 0 } else { done[0].cause.0 }
    }

    #[test]
    fn files_are_made_looked_at_cut_and_removed() {
        let name = format!("drumfire-call-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("x.$filenum");
        let (path, third) = (path.display(), folder.join("x.2"));
        let of = |kind: &str| lane(&format!("{kind},4096,{path}"));
        assert_eq!(go(&mut *of("stat"), Op::Read, 8192), 2);
        assert_eq!(go(&mut *of("create"), Op::Write, 8192), 0);
        assert_eq!(go(&mut *of("create"), Op::Read, 12_288), 0);
        assert_eq!(go(&mut *lane(&format!("delete,8192,{path}")), Op::Read, 4096), 0);
        assert_eq!(go(&mut *of("stat"), Op::Read, 8192), 0);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        let (bytes, third_name) = (|| fs::metadata(&third).unwrap().len(), third.display());
        let mut allocate = lane(&format!("allocate,1,{third_name}"));
        assert_eq!(go(&mut *allocate, Op::Read, 0), 0);
        assert_eq!(bytes(), 0);
        assert_eq!((go(&mut *allocate, Op::Write, 0), bytes()), (0, 4096));
        assert_eq!((go(&mut *allocate, Op::Trim, 0), bytes()), (0, 4096));
        let mut truncate = lane(&format!("truncate,1,{third_name}"));
        assert_eq!((go(&mut *truncate, Op::Write, 512), bytes()), (0, 512));
        assert_eq!(go(&mut *truncate, Op::Read, 0), EINVAL as u32);
        assert_eq!(truncate.words_of(Cause(22)), Some(os::errno_words(22)));
        assert_eq!(go(&mut *of("delete"), Op::Read, 8192), 0);
        assert!(!third.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_spin_takes_its_time_and_never_sleeps() {
        let mut lane = lane("spin,3,");
        let io = Io { tag: Tag(1), op: Op::Read, offset: 0, len: 512, fua: false, buf: None };
        let mut done = Vec::new();
        lane.submit(Nanos(1000), &mut VecDeque::from([io]));
        lane.poll(Nanos(3999), &mut done);
        assert_eq!((done.len(), lane.wake()), (0, Some(Nanos(0))));
        lane.poll(Nanos(4000), &mut done);
        assert_eq!((done.len(), lane.wake()), (1, None));
    }

    #[test]
    fn what_is_no_call_is_refused() {
        for call in [
            "",
            "spin",
            "spin,0,",
            "spin,18446744073709551615,",
            "spin,5,x",
            "stat,4096,",
            "write,1,x",
            "stat,x,x",
        ] {
            assert!(format!("null:1m?call={call}").parse::<Uri>().is_err(), "{call}");
        }
    }
}
