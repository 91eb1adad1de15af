//! fio's traces, as `write_iolog` makes them: versions 2 and 3.
//!
//! A line is a file that is added, opened or closed, or an I/O. Version 3 has a time in
//! microseconds before each; version 2 has lines that wait. No claim of a line is trusted beyond
//! its own length: no line is longer than fio's own, and memory grows with the actual lines.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use block::{Nanos, Op};

use super::packed::MAX_BYTES;
use super::{Event, Facts, Packed, Trace};
use crate::formats::{FormatError, Location};
use crate::spec::{MAX_IO_BYTES, Replay, Skip};

/// Maximum length of a line in bytes, as in fio.
const LINE_MAX_BYTES: u64 = 4096;
/// Maximum length of a file name in bytes, as in fio.
const NAME_MAX_BYTES: usize = 256;
/// Maximum number of files of a trace: as many as a step may have workers.
const FILES_MAX: usize = 4096;
/// Maximum duration of a trace: a year, like a step.
const LONGEST: Nanos = Nanos::from_secs(366 * 86_400);
/// Magic numbers of blktrace's binary files of its only version, in either byte order.
const BLKTRACE: [&[u8]; 2] = [b"eat\x07", b"\x07tae"];

/// Reads the trace of `replay`, and applies the options of `replay`. `one` is true if all files of
/// the trace are one volume.
pub(crate) fn read(from: impl Read, replay: &Replay, one: bool) -> Result<Trace, FormatError> {
    let mut reader = Reader {
        replay,
        one,
        timed: false,
        files: HashMap::new(),
        clock: Clock::default(),
        packed: Packed::default(),
        facts: Facts::default(),
    };
    let name: Arc<str> = replay.file.as_str().into();
    let error = |line: u32, text: &str, why: String| {
        FormatError::new(&Location { file: Arc::clone(&name), line }, text, why)
    };
    let mut from = BufReader::with_capacity(1 << 16, from);
    let mut bytes = Vec::new();
    let mut number = 0_u32;
    loop {
        bytes.clear();
        let mut line = from.by_ref().take(LINE_MAX_BYTES + 1);
        line.read_until(b'\n', &mut bytes).map_err(|why| error(number, "", why.to_string()))?;
        if bytes.is_empty() && number > 0 {
            break;
        }
        let Some(next) = number.checked_add(1) else {
            return Err(error(number, "", "more than 4294967295 lines".to_owned()));
        };
        number = next;
        let taken = match number {
            1 => first_line(&bytes).map(|timed| reader.timed = timed),
            _ => text(&bytes).and_then(|text| reader.line(number, text)),
        };
        taken.map_err(|why| error(number, &String::from_utf8_lossy(&bytes), why))?;
    }
    reader.finish(Arc::clone(&name)).map_err(|why| error(number, "", why))
}

/// Returns whether the lines after the first one have times.
fn first_line(bytes: &[u8]) -> Result<bool, String> {
    if BLKTRACE.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(
            "binary blktrace files are not supported: convert the output of `blkparse -i` to a \
             `fio version 3 iolog`"
                .to_owned(),
        );
    }
    if bytes.starts_with(b"fio version 3 iolog") {
        return Ok(true);
    }
    match bytes.starts_with(b"fio version 2 iolog") {
        true => Ok(false),
        false => Err("not a fio trace, whose first line is `fio version 3 iolog` or `fio version \
                      2 iolog`: record one with write_iolog"
            .to_owned()),
    }
}

fn text(bytes: &[u8]) -> Result<&str, String> {
    if bytes.len() as u64 > LINE_MAX_BYTES {
        return Err("the line exceeds 4096 bytes".to_owned());
    }
    std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text".to_owned())
}

/// Clock of a replayed trace.
#[derive(Default)]
struct Clock {
    /// Time of the previous line, in microseconds.
    last_us: u64,
    now: Nanos,
}

impl Clock {
    /// Advances to the time of a line. As in fio, the first time above 0 is the beginning, and the
    /// clock does not go back.
    fn say(&mut self, us: u64, replay: &Replay) -> Result<(), String> {
        let before = std::mem::replace(&mut self.last_us, us);
        if before == 0 || us < before || !replay.stalls {
            return Ok(());
        }
        let ns = u128::from(us - before) * 100_000 / u128::from(replay.speed_percent.max(1));
        self.reach(u128::from(self.now.0) + ns)
    }

    fn reach(&mut self, ns: u128) -> Result<(), String> {
        match u64::try_from(ns).ok().filter(|ns| *ns <= LONGEST.0) {
            Some(ns) => {
                self.now = self.now.max(Nanos(ns));
                Ok(())
            }
            None => Err("the trace exceeds a year".to_owned()),
        }
    }
}

/// Parses lines.
struct Reader<'a> {
    replay: &'a Replay,
    one: bool,
    /// True if lines have times.
    timed: bool,
    files: HashMap<String, u32>,
    clock: Clock,
    packed: Packed,
    facts: Facts,
}

impl Reader<'_> {
    fn line(&mut self, number: u32, text: &str) -> Result<(), String> {
        let mut words = [""; 5];
        let mut count = 0;
        for word in text.split_ascii_whitespace() {
            *words.get_mut(count).ok_or("too many fields")? = word;
            count += 1;
        }
        let words = &words[..count];
        let words = match words {
            [] => return Ok(()),
            [time, rest @ ..] if self.timed => {
                let us =
                    time.parse().map_err(|_| "the line must start with a time in microseconds")?;
                self.clock.say(us, self.replay)?;
                rest
            }
            words => words,
        };
        match words {
            [file, action] => self.file(file, action),
            [file, action, offset, length] => {
                let offset = offset.parse().map_err(|_| "the offset is not a number of bytes")?;
                let length = length.parse().map_err(|_| "the length is not a number of bytes")?;
                let file = *self.files.get(*file).ok_or("the file has no earlier add line")?;
                self.io(number, file, action, offset, length)
            }
            _ if self.timed => {
                Err("write TIME FILE ACTION, or TIME FILE ACTION OFFSET LENGTH".to_owned())
            }
            _ => Err("write FILE ACTION, or FILE ACTION OFFSET LENGTH".to_owned()),
        }
    }

    fn file(&mut self, file: &str, action: &str) -> Result<(), String> {
        let known = self.files.contains_key(file);
        match action {
            "add" if known => Ok(()),
            "add" if file.len() > NAME_MAX_BYTES => {
                Err("the file name exceeds 256 bytes".to_owned())
            }
            "add" if self.files.len() >= FILES_MAX => {
                Err(format!("the trace has more than {FILES_MAX} files"))
            }
            "add" => {
                let number = if self.one { 0 } else { self.files.len() as u32 };
                self.files.insert(file.to_owned(), number);
                if !self.one || self.facts.files.is_empty() {
                    self.facts.files.push(file.to_owned());
                }
                Ok(())
            }
            "open" | "close" if known => Ok(()),
            "open" | "close" => Err("the file has no earlier add line".to_owned()),
            _ => Err(format!("unknown action '{action}': one of add, open, close")),
        }
    }

    /// Adds an I/O, or a pause.
    fn io(
        &mut self,
        line: u32,
        file: u32,
        action: &str,
        offset: u64,
        length: u64,
    ) -> Result<(), String> {
        let (op, skipped) = match action {
            "read" => (Op::Read, Some(Skip::Read)),
            "write" => (Op::Write, Some(Skip::Write)),
            "trim" => (Op::Trim, Some(Skip::Trim)),
            "sync" => (Op::Flush, Some(Skip::Sync)),
            // Fio skips the other kind alone.
            "datasync" => (Op::Flush, None),
            "wait" if self.timed => {
                return Err("wait is valid in version 2 only: version 3 has times".to_owned());
            }
            // The effect differs from fio's manual: the I/O is not before this many milliseconds.
            "wait" if self.replay.stalls => {
                return self.clock.reach(u128::from(offset) * 1_000_000);
            }
            "wait" => return Ok(()),
            _ => {
                return Err(format!(
                    "unknown action '{action}': one of read, write, trim, sync, datasync, wait"
                ));
            }
        };
        if skipped.is_some_and(|kind| self.replay.skip.contains(&kind)) {
            return Ok(());
        }
        let at = self.clock.now;
        let mut event = Event { at, op, file, offset: 0, len: 0, line };
        if op != Op::Flush {
            event.len = len_of(op, length)?;
            event.offset = self.replay.place_of(offset);
            let end = event.offset.checked_add(length);
            if end.is_none_or(|end| end > i64::MAX as u64) {
                return Err("the I/O ends past the maximum size of a volume".to_owned());
            }
        }
        let Some(follows) = self.packed.push(event) else {
            return Err(format!("the packed trace exceeds {MAX_BYTES} bytes: split the trace"));
        };
        self.facts.add(&event, follows);
        Ok(())
    }

    fn finish(mut self, name: Arc<str>) -> Result<Trace, String> {
        if self.facts.ios == [0; 4] {
            return Err("the trace has no I/Os to replay".to_owned());
        }
        self.packed.finish();
        self.facts.timed = self.timed && self.replay.stalls;
        let Reader { packed, facts, .. } = self;
        Ok(Trace { name, packed, facts })
    }
}

fn len_of(op: Op, length: u64) -> Result<u32, String> {
    let most = if op == Op::Trim { u32::MAX } else { MAX_IO_BYTES };
    match u32::try_from(length).ok().filter(|len| (1..=most).contains(len)) {
        Some(len) => Ok(len),
        None => Err(format!("the length must be 1 to {most} bytes")),
    }
}
