//! Where a thread gets requests from and answers them: its channel, or a ring beside it.

use std::collections::VecDeque;
use std::io;

use block::{Buf, Pool};
use os::{Core, FuseChannel, FuseRing, Token};
use rustix::io::Errno;

use crate::AttachError;
use crate::station::take;
use crate::wire::{ANSWER_BYTES, Ask, HEAD_BYTES, Request, answer_head};

/// Write data up to this length is copied into a buffer of its own size.
const COPIED_BYTES: usize = Pool::MEDIUM_BYTES;

/// A request that is to be answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    unique: u64,
    /// Its place in the ring, if it came by it.
    at: Option<u32>,
}

/// The requests of a thread.
pub(crate) struct Port {
    channel: FuseChannel,
    watched: Token,
    /// Buffer for the next request of the channel.
    data: Buf,
    /// The kernel's queue of the channel is empty.
    is_idle: bool,
    ring: Option<Ring>,
    /// The file was unmounted.
    pub(crate) gone: bool,
}

/// Requests over io_uring. What the kernel tells besides, and those that came before the ring was
/// ready, come by the channel.
struct Ring {
    ring: FuseRing,
    watched: Token,
    /// Requests that nobody has taken yet.
    arrived: VecDeque<u32>,
    /// Nothing had come when it was last looked at.
    is_idle: bool,
    failed: Option<io::Error>,
}

impl Port {
    pub(crate) fn open(
        channel: FuseChannel,
        ring: Option<FuseRing>,
        core: &Core,
    ) -> Result<Port, AttachError> {
        let ring = ring.map(|ring| {
            let watched = core.watch(&ring)?;
            Ok::<_, io::Error>(Ring {
                ring,
                watched,
                arrived: VecDeque::new(),
                is_idle: false,
                failed: None,
            })
        });
        Ok(Port {
            watched: core.watch(&channel)?,
            channel,
            data: take(core.pool(), Pool::LARGE_BYTES)?,
            is_idle: false,
            ring: ring.transpose()?,
            gone: false,
        })
    }

    /// Whether nothing comes before the core says so.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle && self.ring.as_ref().is_none_or(|ring| ring.is_idle)
    }

    /// Has the core say when something comes.
    pub(crate) fn await_requests(&self, core: &Core) -> io::Result<()> {
        if self.gone {
            return Ok(());
        }
        if let Some(ring) = self.ring.as_ref().filter(|ring| ring.is_idle) {
            core.await_readable(ring.watched)?;
        }
        if self.is_idle { core.await_readable(self.watched) } else { Ok(()) }
    }

    /// Takes what the core says.
    pub(crate) fn hear(&mut self, ready: &[Token]) {
        self.is_idle &= !ready.contains(&self.watched);
        if let Some(ring) = &mut self.ring {
            ring.is_idle &= !ready.contains(&ring.watched);
        }
    }

    /// Submits the answers, and looks for requests.
    ///
    /// # Errors
    ///
    /// The ring is of no more use.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if let Some(error) = ring.failed.take() {
            return Err(error);
        }
        ring.ring.turn(&mut ring.arrived)?;
        ring.is_idle = ring.arrived.is_empty();
        Ok(())
    }

    /// The next request, if there is one.
    ///
    /// # Errors
    ///
    /// The channel is of no more use.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Ticket, Ask)>> {
        if let Some(ring) = &mut self.ring
            && let Some(at) = ring.arrived.pop_front()
        {
            let message = ring.ring.message(at);
            let Request { unique, ask } =
                Request::parse(message.header, message.arguments, message.data);
            return Ok(Some((Ticket { unique, at: Some(at) }, ask)));
        }
        while !self.is_idle && !self.gone {
            let mut head = [0; HEAD_BYTES];
            match self.channel.next(&mut head, &mut self.data) {
                Ok(len) => {
                    let request = Request::parse_message(&head, &self.data, len);
                    let Some(Request { unique, ask }) = request else { continue };
                    return Ok(Some((Ticket { unique, at: None }, ask)));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => self.is_idle = true,
                    Some(Errno::INTR | Errno::NOENT) => {}
                    Some(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => self.gone = true,
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }

    /// The data of the write that was taken last, in a buffer of their own.
    pub(crate) fn take_data(&mut self, ticket: Ticket, size: usize, pool: &Pool) -> Option<Buf> {
        let data = match (&self.ring, ticket.at) {
            (Some(ring), Some(at)) => ring.ring.message(at).data,
            _ if size > COPIED_BYTES => {
                let next = pool.take_beyond(Pool::LARGE_BYTES)?;
                return Some(std::mem::replace(&mut self.data, next));
            }
            _ => &self.data,
        };
        let mut buf = pool.take_beyond(size)?;
        buf[..size].copy_from_slice(&data[..size]);
        Some(buf)
    }

    /// Answers a request with data.
    pub(crate) fn answer(&mut self, ticket: Ticket, data: &[u8]) {
        self.send(ticket, answer_head(ticket.unique, 0, data.len()), data);
    }

    /// Answers a request with an error.
    pub(crate) fn refuse(&mut self, ticket: Ticket, errno: Errno) {
        self.send(ticket, answer_head(ticket.unique, errno.raw_os_error(), 0), &[]);
    }

    /// Lets go of a request that gets no answer.
    pub(crate) fn pass_over(&mut self, ticket: Ticket) {
        // Its place in the ring is for the next one all the same.
        if ticket.at.is_some() {
            self.answer(ticket, &[]);
        }
    }

    fn send(&mut self, ticket: Ticket, head: [u8; ANSWER_BYTES], data: &[u8]) {
        match (&mut self.ring, ticket.at) {
            (Some(ring), Some(at)) => {
                if let Err(error) = ring.ring.answer(at, &head, data) {
                    ring.failed.get_or_insert(error);
                }
            }
            // The program may have exited: then no one waits for the answer.
            _ => drop(self.channel.answer(&head, data)),
        }
    }
}
