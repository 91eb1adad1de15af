//! Events between processes: eventfd, and a set of descriptors to wait for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::core::{Core, Token};

/// An eventfd.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
}

impl Event {
    /// A new eventfd.
    ///
    /// # Errors
    ///
    /// The process is out of descriptors.
    pub fn new() -> io::Result<Event> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Event { fd: rustix::event::eventfd(0, flags)? })
    }

    /// An eventfd of a peer.
    ///
    /// # Errors
    ///
    /// The descriptor is of another kind: a write could block.
    pub fn of_peer(fd: OwnedFd) -> io::Result<Event> {
        let name = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if name.as_os_str() != "anon_inode:[eventfd]" {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Event { fd })
    }

    /// Wakes the other end. A counter at its limit means that a wake is pending.
    pub fn signal(&self) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        // A peer may have made its descriptor blocking again: a full counter is not waited for.
        let writable = rustix::event::poll(&mut polled, Some(&zero));
        if writable.is_ok_and(|count| count > 0) {
            let _ = rustix::io::write(&self.fd, &1_u64.to_ne_bytes());
        }
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Maximum number of events that one call takes; further ones wait.
const EVENTS_MOST: usize = 64;

/// Descriptors whose events wake a core. Events are edges: nothing needs to be read from an
/// eventfd, so a peer cannot make a read block.
pub struct EventSet {
    epoll: OwnedFd,
    token: Token,
    buffer: Vec<epoll::Event>,
}

impl EventSet {
    /// A set whose events appear as one token of a core, which
    /// [`await_events`](Self::await_events) arms.
    ///
    /// # Errors
    ///
    /// The process is out of descriptors.
    pub fn new(core: &Core) -> io::Result<EventSet> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let token = core.watch(&epoll)?;
        Ok(EventSet { epoll, token, buffer: Vec::with_capacity(EVENTS_MOST) })
    }

    /// Adds a descriptor under a key.
    ///
    /// # Errors
    ///
    /// The kernel has no memory, or the descriptor is in the set.
    pub fn add(&self, fd: &impl AsFd, key: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(key), flags)?)
    }

    /// Removes a descriptor. A peer may hold the same file, so a close alone removes nothing.
    pub fn remove(&self, fd: &impl AsFd) {
        // A descriptor that was never added causes ENOENT.
        let _ = epoll::delete(&self.epoll, fd);
    }

    /// Makes the core's turn end with the next event.
    ///
    /// # Errors
    ///
    /// The ring has failed.
    pub fn await_events(&self, core: &Core) -> io::Result<()> {
        core.await_readable(self.token)
    }

    /// Appends the keys with events.
    ///
    /// # Errors
    ///
    /// The system call failed.
    pub fn take(&mut self, keys: &mut Vec<u64>) -> io::Result<()> {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.buffer.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.buffer);
        match epoll::wait(&self.epoll, spare, Some(&zero)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        keys.extend(self.buffer.iter().map(|event| event.data.u64()));
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn only_eventfds_of_peers_are_written() {
        let event = Event::new().unwrap();
        let same = event.fd.try_clone().unwrap();
        let theirs = Event::of_peer(same).unwrap();
        theirs.signal();
        let mut count = [0; 8];
        assert_eq!(rustix::io::read(&event.fd, &mut count), Ok(8));
        assert_eq!(u64::from_ne_bytes(count), 1);
        let (pipe, _other) = std::io::pipe().unwrap();
        assert!(Event::of_peer(pipe.into()).is_err());
    }

    #[test]
    fn a_full_counter_is_not_waited_for() {
        let event = Event::new().unwrap();
        rustix::io::write(&event.fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
        rustix::io::ioctl_fionbio(&event.fd, false).unwrap();
        event.signal();
    }
}
