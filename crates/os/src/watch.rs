//! Polls a descriptor that is neither socket nor file, such as `/dev/fuse`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io_uring::opcode;
use io_uring::types::Fd;

use crate::core::{Core, CoreState, Kind, Slot, Token};

/// Marks the completion of a cancellation, which is no event.
const CANCEL: u32 = 1;

impl Core {
    /// Registers a descriptor and returns its token in the list of [`Core::turn`]. Each
    /// [`await_readable`](Core::await_readable) yields one event.
    ///
    /// # Errors
    ///
    /// The process is out of descriptors.
    pub fn watch(&self, fd: impl AsFd) -> io::Result<Token> {
        let fd = fd.as_fd().try_clone_to_owned()?;
        let slot = WatchState { fd, armed: false, ready: false, dropped: false };
        Ok(Token(self.state.borrow_mut().insert(Slot::Watched(Box::new(slot)))))
    }

    /// Reports an event once a read would return data or an error. No effect if that is pending
    /// already.
    ///
    /// # Errors
    ///
    /// The ring has failed.
    pub fn await_readable(&self, watched: Token) -> io::Result<()> {
        self.state.borrow_mut().arm_watch(watched.0)
    }
}

/// The core's state of a watched descriptor.
pub(crate) struct WatchState {
    fd: OwnedFd,
    armed: bool,
    pub(crate) ready: bool,
    dropped: bool,
}

impl CoreState {
    fn arm_watch(&mut self, index: u32) -> io::Result<()> {
        let Slot::Watched(watch) = &mut self.slots[index as usize] else {
            unreachable!("a watched descriptor stays in its slot")
        };
        if watch.armed || watch.dropped {
            return Ok(());
        }
        watch.armed = true;
        let entry = opcode::PollAdd::new(Fd(watch.fd.as_raw_fd()), libc::POLLIN as u32).build();
        // SAFETY: the entry points to nothing; the descriptor lives until the slot is removed.
        unsafe { self.push(entry, Kind::Readable, index, 0) }
    }

    pub(crate) fn readable(&mut self, index: u32, part: u32) {
        if part == CANCEL {
            return;
        }
        let Slot::Watched(watch) = &mut self.slots[index as usize] else { return };
        watch.armed = false;
        if !watch.dropped {
            self.mark_ready(index);
        }
    }

    /// Cancels the poll, because the core is being dropped.
    pub(crate) fn close_watch(&mut self, index: u32) {
        let Slot::Watched(watch) = &mut self.slots[index as usize] else { return };
        watch.dropped = true;
        if !watch.armed {
            return;
        }
        let data = u64::from(Kind::Readable as u8) << 56 | u64::from(index);
        let entry = opcode::AsyncCancel::new(data).build();
        // SAFETY: the entry points to nothing. If it cannot be queued, the drain waits.
        let _ = unsafe { self.push(entry, Kind::Readable, index, CANCEL) };
    }
}
