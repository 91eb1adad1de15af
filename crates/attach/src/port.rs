//! Requests and replies of a thread, by its channel or by FUSE over io_uring.

use std::collections::VecDeque;
use std::io;

use block::{Buf, Pool};
use os::{Core, FuseChannel, FuseRing, Token};
use rustix::io::Errno;

use crate::AttachError;
use crate::station::take;
use crate::wire::{ANSWER_BYTES, Ask, HEAD_BYTES, Request, answer_head};

/// Maximum bytes of write data that are copied into a buffer of their own size.
const COPIED_BYTES: usize = Pool::MEDIUM_BYTES;

/// A request that needs a reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestId {
    unique: u64,
    /// Entry of the ring, if the request came by the ring.
    entry: Option<u32>,
}

/// The kernel's end of a thread.
pub(crate) struct Port {
    channel: FuseChannel,
    watched: Token,
    /// Buffer for the next request of the channel.
    data: Buf,
    /// A read of the channel would block.
    is_idle: bool,
    ring: Option<Ring>,
    /// The file was unmounted.
    pub(crate) unmounted: bool,
}

/// Requests over io_uring. Interrupts and the unmount, and all requests if the kernel refuses the
/// ring, come by the channel.
struct Ring {
    ring: FuseRing,
    watched: Token,
    /// Entries whose requests were not taken yet.
    arrived: VecDeque<u32>,
    /// The last turn found no request.
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
            unmounted: false,
        })
    }

    /// Whether the next request comes with an event of the core.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle && self.ring.as_ref().is_none_or(|ring| ring.is_idle)
    }

    /// Arms the core's polls where no request is ready.
    pub(crate) fn await_requests(&self, core: &Core) -> io::Result<()> {
        if self.unmounted {
            return Ok(());
        }
        if let Some(ring) = self.ring.as_ref().filter(|ring| ring.is_idle) {
            core.await_readable(ring.watched)?;
        }
        if self.is_idle { core.await_readable(self.watched) } else { Ok(()) }
    }

    /// Notes events of the core.
    pub(crate) fn on_ready(&mut self, ready: &[Token]) {
        self.is_idle &= !ready.contains(&self.watched);
        if let Some(ring) = &mut self.ring {
            ring.is_idle &= !ready.contains(&ring.watched);
        }
    }

    /// Submits replies, and reaps requests of the ring.
    ///
    /// # Errors
    ///
    /// The ring failed.
    pub(crate) fn turn(&mut self) -> io::Result<()> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        if let Some(error) = ring.failed.take() {
            return Err(error);
        }
        ring.ring.turn(&mut ring.arrived)?;
        ring.is_idle = ring.arrived.is_empty();
        Ok(())
    }

    /// Next request, if there is one.
    ///
    /// # Errors
    ///
    /// The channel failed.
    pub(crate) fn next(&mut self) -> io::Result<Option<(RequestId, Ask)>> {
        if let Some(ring) = &mut self.ring
            && let Some(at) = ring.arrived.pop_front()
        {
            let message = ring.ring.message(at);
            let Request { unique, ask } =
                Request::parse(message.header, message.arguments, message.data);
            return Ok(Some((RequestId { unique, entry: Some(at) }, ask)));
        }
        while !self.is_idle && !self.unmounted {
            let mut head = [0; HEAD_BYTES];
            match self.channel.next(&mut head, &mut self.data) {
                Ok(len) => {
                    let request = Request::parse_message(&head, &self.data, len);
                    let Some(Request { unique, ask }) = request else { continue };
                    return Ok(Some((RequestId { unique, entry: None }, ask)));
                }
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::AGAIN) => self.is_idle = true,
                    Some(Errno::INTR | Errno::NOENT) => {}
                    Some(Errno::NODEV | Errno::CONNABORTED | Errno::NOTCONN) => {
                        self.unmounted = true
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(None)
    }

    /// Data of the last write taken, in a buffer of the pool.
    pub(crate) fn take_data(&mut self, id: RequestId, size: usize, pool: &Pool) -> Option<Buf> {
        let data = match (&self.ring, id.entry) {
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

    /// Replies with data.
    pub(crate) fn answer(&mut self, id: RequestId, data: &[u8]) {
        self.send(id, answer_head(id.unique, 0, data.len()), data);
    }

    /// Replies with an error.
    pub(crate) fn refuse(&mut self, id: RequestId, errno: Errno) {
        self.send(id, answer_head(id.unique, errno.raw_os_error(), 0), &[]);
    }

    /// Drops a request that needs no reply.
    pub(crate) fn discard(&mut self, id: RequestId) {
        // An entry of the ring is free for the next request only by a reply.
        if id.entry.is_some() {
            self.answer(id, &[]);
        }
    }

    fn send(&mut self, id: RequestId, head: [u8; ANSWER_BYTES], data: &[u8]) {
        match (&mut self.ring, id.entry) {
            (Some(ring), Some(at)) => {
                if let Err(error) = ring.ring.reply(at, &head, data) {
                    ring.failed.get_or_insert(error);
                }
            }
            // ENOENT after an interrupt: the program has exited.
            _ => drop(self.channel.answer(&head, data)),
        }
    }
}
