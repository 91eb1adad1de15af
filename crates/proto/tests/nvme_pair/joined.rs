//! An association of our initiator with our target: an admin queue and I/O queues.

use block::{Buf, Done, Fault, Io, Nanos, Op, Tag};
use proto::nvme::{NvmeAdmin, NvmeDiscovery, NvmeInitiatorConfig, NvmeQueue};
use proto::{Ending, Endpoint, Initiator, Outbox, Phase};

use crate::server::{HOST_NQN, NQN, Peer, Server, sent};

pub const HOST_ID: [u8; 16] = *b"0123456789abcdef";

/// Both ends of one connection.
pub struct Wire<E> {
    pub host: E,
    pub out: Outbox,
    pub peer: Peer,
    /// Chunk size of the stream, in bytes.
    pub chunk: usize,
    pub ended: Option<Ending>,
    /// Number of bytes in each direction.
    pub carried: [usize; 2],
}

impl<E: Endpoint> Wire<E> {
    pub fn new(server: &mut Server, host: E, chunk: usize) -> Wire<E> {
        let (out, peer) = (Outbox::new(server.pool.clone()), server.accept());
        Wire { host, out, peer, chunk, ended: None, carried: [0; 2] }
    }

    /// Carries bytes until neither end has more to say.
    pub fn settle(&mut self, server: &mut Server) {
        self.settle_with(server, |bytes| bytes);
    }

    /// Exchanges PDUs until both ends are idle, with the target's PDUs changed in transit.
    pub fn settle_with(&mut self, server: &mut Server, mut change: impl FnMut(Vec<u8>) -> Vec<u8>) {
        loop {
            if self.host.deadline().is_some_and(|deadline| deadline <= server.now) {
                self.note_tick(server.now);
            }
            self.peer.tick(server);
            let there = sent(&mut self.out);
            self.peer.receive(server, &there, self.chunk);
            let back = change(self.peer.sent());
            for chunk in back.chunks(self.chunk) {
                if self.ended.is_none() {
                    let result = self.host.receive(server.now, chunk, &mut self.out);
                    self.ended = result.err();
                }
            }
            self.carried[0] += there.len();
            self.carried[1] += back.len();
            if there.is_empty() && back.is_empty() {
                return;
            }
        }
    }

    fn note_tick(&mut self, now: Nanos) {
        if let Err(ending) = self.host.tick(now, &mut self.out) {
            self.ended = Some(ending);
        }
    }
}

pub fn config(nsid: u32, header_digest: bool, data_digest: bool) -> NvmeInitiatorConfig {
    let config = NvmeInitiatorConfig::new(HOST_NQN, HOST_ID, NQN, nsid);
    NvmeInitiatorConfig { header_digest, data_digest, ..config }
}

pub fn admin(server: &mut Server, config: &NvmeInitiatorConfig, chunk: usize) -> Wire<NvmeAdmin> {
    let host = NvmeAdmin::new(config, server.now);
    let mut wire = Wire::new(server, host, chunk);
    wire.settle(server);
    wire
}

pub fn queue(
    server: &mut Server,
    config: &NvmeInitiatorConfig,
    admin: &Wire<NvmeAdmin>,
    id: u16,
) -> Wire<NvmeQueue> {
    let association = admin.host.ready().expect("the admin queue is ready");
    let host = NvmeQueue::new(config, association, id, server.now);
    let mut wire = Wire::new(server, host, admin.chunk);
    wire.settle(server);
    wire
}

pub fn discovery(server: &mut Server, chunk: usize) -> Wire<NvmeDiscovery> {
    let host = NvmeDiscovery::new(HOST_NQN, HOST_ID, server.now);
    let mut wire = Wire::new(server, host, chunk);
    wire.settle(server);
    wire
}

/// An admin queue and an I/O queue.
pub struct Joined {
    pub server: Server,
    pub config: NvmeInitiatorConfig,
    pub admin: Wire<NvmeAdmin>,
    pub queue: Wire<NvmeQueue>,
    next: u64,
}

impl Joined {
    pub fn new(mut server: Server, config: NvmeInitiatorConfig, chunk: usize) -> Joined {
        let admin = admin(&mut server, &config, chunk);
        assert!(matches!(admin.host.phase(), Phase::Ready(_)), "{:?}", admin.ended);
        let queue = queue(&mut server, &config, &admin, 1);
        assert!(matches!(queue.host.phase(), Phase::Ready(_)), "{:?}", queue.ended);
        Joined { server, config, admin, queue, next: 1 }
    }

    /// The usual server and settings.
    pub fn usual(nsid: u32) -> Joined {
        Joined::new(Server::usual(), config(nsid, false, false), usize::MAX)
    }

    pub fn submit(&mut self, op: Op, offset: u64, len: u32, buf: Option<Buf>) -> Tag {
        let tag = Tag(self.next);
        self.next += 1;
        let io = Io { tag, op, fua: false, len, offset, buf };
        self.queue.host.submit(self.server.now, io, &mut self.queue.out);
        tag
    }

    pub fn settle(&mut self) -> Vec<Done> {
        self.queue.settle(&mut self.server);
        assert_eq!((&self.queue.ended, &self.queue.peer.ended), (&None, &None));
        self.queue.host.done().drain(..).collect()
    }

    /// One I/O from beginning to end.
    pub fn run(&mut self, op: Op, offset: u64, len: u32, buf: Option<Buf>) -> Done {
        let tag = self.submit(op, offset, len, buf);
        let mut done = self.settle();
        assert_eq!(done.len(), 1);
        let done = done.remove(0);
        assert_eq!(done.tag, tag);
        done
    }

    pub fn read(&mut self, offset: u64, len: u32) -> Result<Vec<u8>, Fault> {
        let mut buf = Buf::new(len as usize).unwrap();
        buf.fill(0xee);
        let done = self.run(Op::Read, offset, len, Some(buf));
        let buf = done.buf.expect("the buffer comes back");
        done.result.map(|()| buf[..len as usize].to_vec())
    }

    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        let mut buf = Buf::new(bytes.len()).unwrap();
        buf.copy_from_slice(bytes);
        let done = self.run(Op::Write, offset, bytes.len() as u32, Some(buf));
        assert!(done.buf.is_some(), "the buffer comes back");
        done.result
    }

    /// Checks that all buffers were returned.
    pub fn check_pool(&self) {
        assert_eq!(self.server.pool.lent(), [0, 0]);
    }
}
