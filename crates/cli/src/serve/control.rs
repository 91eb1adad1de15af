//! The control socket of a server: a Unix socket that only its user may open.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::Mode;

use super::operator::Operator;
use super::order::{Answer, ORDER_MAX_BYTES, Order};
use crate::exit::UsageError;

/// Time for an order to come, and for its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// Orders that are carried out at once.
const AT_ONCE: usize = 16;
/// Only the user may open it.
const NOBODY_ELSE: u32 = 0o177;

/// The socket, until this is dropped.
pub struct Control {
    path: PathBuf,
    /// Device and inode, by which the file is known to be ours.
    file: (u64, u64),
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Control {
    /// Opens the socket at `path` for orders to `operator`.
    pub fn open(path: &Path, operator: &Arc<Operator>) -> Result<Control> {
        let listener = bind(path)?;
        let meta = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
        let ends = Arc::new(AtomicBool::new(false));
        let (over, operator) = (Arc::clone(&ends), Arc::downgrade(operator));
        let body = move || listen(&listener, &over, &operator);
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn(body)?;
        let file = (meta.dev(), meta.ino());
        Ok(Control { path: path.to_owned(), file, ends, thread: Some(thread) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        // Wakes the thread.
        let woken = UnixStream::connect(&self.path).is_ok();
        let is_ours = |meta: fs::Metadata| (meta.dev(), meta.ino()) == self.file;
        if fs::symlink_metadata(&self.path).is_ok_and(is_ours) {
            let _ = fs::remove_file(&self.path);
        }
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

/// Binds the socket. A socket that a killed server left is replaced, nothing else.
fn bind(path: &Path) -> Result<UnixListener> {
    let name = path.display();
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.file_type().is_socket() => {
            return Err(UsageError(format!("--control {name}: a file is there")).into());
        }
        // A server whose backlog is full, or of another user, is there, too.
        Ok(_) if !is_left_behind(path) => {
            return Err(UsageError(format!("--control {name}: another server has it")).into());
        }
        Ok(_) => fs::remove_file(path).with_context(|| format!("--control {name}"))?,
        Err(_) => {}
    }
    let before = rustix::process::umask(Mode::from_raw_mode(NOBODY_ELSE));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound.map_err(|error| UsageError(format!("--control {name}: {error}")).into())
}

/// Whether nobody listens at a socket.
fn is_left_behind(path: &Path) -> bool {
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    UnixStream::connect(path).is_err_and(refused)
}

fn listen(listener: &UnixListener, ends: &AtomicBool, operator: &Weak<Operator>) {
    let busy = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if ends.load(Ordering::Acquire) {
            return;
        }
        // Out of file descriptors, for a while.
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(100));
            continue;
        };
        if busy.fetch_add(1, Ordering::AcqRel) >= AT_ONCE {
            busy.fetch_sub(1, Ordering::AcqRel);
            let why = "too many orders at once: try again".to_owned();
            let _ = answer(&stream, &Answer::Refused { why, usage: false });
            continue;
        }
        let (operator, done) = (Weak::clone(operator), Arc::clone(&busy));
        let body = move || {
            let _ = serve(&stream, &operator);
            done.fetch_sub(1, Ordering::AcqRel);
        };
        let begun = std::thread::Builder::new().name("order".to_owned()).spawn(body);
        if begun.is_err() {
            busy.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Carries out the order of a connection.
fn serve(stream: &UnixStream, operator: &Weak<Operator>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(ORDER_MAX_BYTES)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(());
    }
    let said = match (serde_json::from_str::<Order>(&line), operator.upgrade()) {
        (Ok(order), Some(operator)) => operator.carry_out(order),
        (Ok(_), None) => Answer::Refused { why: "the server ends".to_owned(), usage: false },
        (Err(error), _) => {
            Answer::Refused { why: format!("this is no order: {error}"), usage: true }
        }
    };
    answer(stream, &said)
}

fn answer(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut text = serde_json::to_string(answer)?;
    text.push('\n');
    stream.write_all(text.as_bytes())
}
