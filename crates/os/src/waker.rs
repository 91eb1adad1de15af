//! Wakes a core from another thread.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use io_uring::opcode;
use io_uring::types::Fd;

use crate::core::{Core, CoreState, Kind, Slot, Token};

/// Handle that ends the wait of a core's turn, from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<File>,
}

impl Waker {
    /// Ends the current or the next wait.
    pub fn wake(&self) {
        // A full counter means that a wake is pending: nothing to do.
        let _ = (&*self.event).write(&1_u64.to_ne_bytes());
    }
}

impl AsRawFd for Waker {
    fn as_raw_fd(&self) -> RawFd {
        self.event.as_raw_fd()
    }
}

impl Core {
    /// A waker for this core, and its token in the list of [`Core::turn`].
    pub fn waker(&self) -> io::Result<(Waker, Token)> {
        // SAFETY: a system call without pointers; the result is checked.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel just made this descriptor for us.
        let event = Arc::new(File::from(unsafe { OwnedFd::from_raw_fd(fd) }));
        let waker = Waker { event };
        let mut state = self.state.borrow_mut();
        let slot = WakerState { waker: waker.clone(), count: Box::new(0), dropped: false };
        let index = state.insert(Slot::Waker(Box::new(slot)));
        state.arm_waker(index)?;
        state.wakers += 1;
        Ok((waker, Token(index)))
    }
}

/// The core's state of a waker.
pub(crate) struct WakerState {
    waker: Waker,
    /// The eventfd counter, written by the kernel.
    count: Box<u64>,
    dropped: bool,
}

impl WakerState {
    /// Cancels the read, because the core is being dropped.
    pub(crate) fn raise(&mut self) {
        self.dropped = true;
        self.waker.wake();
    }
}

impl CoreState {
    fn arm_waker(&mut self, index: u32) -> io::Result<()> {
        let Slot::Waker(waker) = &mut self.slots[index as usize] else {
            unreachable!("a waker's slot holds a waker")
        };
        let fd = Fd(waker.waker.event.as_raw_fd());
        let count: *mut u64 = &mut *waker.count;
        let entry = opcode::Read::new(fd, count.cast(), size_of::<u64>() as u32).build();
        // SAFETY: `count` is boxed in the slot, which lives as long as the ring.
        unsafe { self.push(entry, Kind::Wake, index, 0) }
    }

    pub(crate) fn woken(&mut self, index: u32) {
        let Slot::Waker(waker) = &self.slots[index as usize] else { return };
        // If the read cannot be armed again, the owner still gets this event.
        if !waker.dropped && self.arm_waker(index).is_ok() {
            self.mark_ready(index);
        }
    }
}
