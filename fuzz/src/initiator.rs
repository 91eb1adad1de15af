//! Our initiators, connected to our targets, then fed with arbitrary responses.

use block::{Buf, Chain, Io, Nanos, Op, Pool, Tag};
use proto::iscsi::{InitiatorConfig, IscsiInitiator};
use proto::nvme::{NvmeAdmin, NvmeInitiatorConfig, NvmeQueue};
use proto::{Initiator, Outbox, Phase, Target};

use crate::target::NvmeServer;
use crate::{SUBSYSTEM_NAME, Serving, TARGET_NAME, VOLUME_BYTES, take};

/// Most exchanges until a connection is ready.
const OPENING_MAX: usize = 64;

/// A connection of our initiator.
pub struct Asking<E> {
    out: Outbox,
    sent: Chain,
    end: E,
    now: Nanos,
    submitted: u64,
    finished: u64,
    /// Everything received while the connection was set up.
    heard: Vec<u8>,
}

impl Asking<IscsiInitiator> {
    /// An iSCSI connection to LUN 2.
    pub fn iscsi() -> Asking<IscsiInitiator> {
        let config = InitiatorConfig::new("iqn.2026-11.io.drumfire:asks", TARGET_NAME, 2);
        Asking::new(IscsiInitiator::new(config, Nanos(0)))
    }
}

fn nvme_config() -> NvmeInitiatorConfig {
    let host = "nqn.2026-11.io.drumfire:asks";
    NvmeInitiatorConfig::new(host, *b"0123456789abcdef", SUBSYSTEM_NAME, 2)
}

impl Asking<NvmeAdmin> {
    /// An NVMe/TCP admin queue.
    pub fn nvme() -> Asking<NvmeAdmin> {
        Asking::new(NvmeAdmin::new(&nvme_config(), Nanos(0)))
    }
}

impl Asking<NvmeQueue> {
    /// An I/O queue of an association with its admin queue on `server`.
    pub fn nvme_queue(server: &mut NvmeServer) -> Asking<NvmeQueue> {
        let mut admin = Asking::nvme();
        let mut target = server.accept();
        admin.open(&mut target);
        server.keep(target);
        let association = admin.end.ready().expect("an open admin queue has learned all");
        Asking::new(NvmeQueue::new(&nvme_config(), association, 1, Nanos(0)))
    }
}

impl<E: Initiator> Asking<E> {
    fn new(end: E) -> Asking<E> {
        Asking {
            out: Outbox::new(Pool::new(64, 64)),
            sent: Chain::default(),
            end,
            now: Nanos(0),
            submitted: 0,
            finished: 0,
            heard: Vec::new(),
        }
    }

    /// Connects it to our own target. Panics if that takes too long.
    pub fn open<T: Target>(&mut self, target: &mut Serving<T>) {
        for _ in 0..OPENING_MAX {
            if matches!(self.end.phase(), Phase::Ready(_)) {
                return;
            }
            let asked = self.says();
            target.receive(&asked).expect("our initiator keeps the rules");
            target.work(usize::MAX, false);
            let answers = target.answers();
            let result = self.end.receive(self.now, &answers, &mut self.out);
            result.expect("our target keeps the rules");
            self.heard.extend(answers);
        }
        panic!("not open after {OPENING_MAX} exchanges");
    }

    /// Everything received while the connection was set up.
    pub fn heard(&self) -> &[u8] {
        &self.heard
    }

    /// Bytes to send.
    pub fn says(&mut self) -> Vec<u8> {
        let _ = self.end.tick(self.now, &mut self.out);
        take(&mut self.out, &mut self.sent)
    }

    /// Submits `count` I/Os of all kinds and lengths, as far as the queue has room.
    pub fn submit(&mut self, count: u8) {
        for i in 0..u64::from(count) {
            if !matches!(self.end.phase(), Phase::Ready(_)) || self.end.room() == 0 {
                return;
            }
            let op = [Op::Read, Op::Write, Op::Read, Op::Flush][i as usize % 4];
            let len = if op == Op::Flush { 0 } else { 512 << (i % 8) };
            let buf = (len > 0).then(|| Buf::new(len as usize).expect("memory"));
            let (tag, offset) = (Tag(self.submitted), if len > 0 { i * 4096 } else { 0 });
            let io = Io { tag, op, fua: false, len, offset, buf };
            self.end.submit(self.now, io, &mut self.out);
            self.submitted += 1;
        }
    }

    /// Asks which parts of the volume are holes; returns the bytes to send.
    pub fn ask(&mut self) -> Vec<u8> {
        self.says();
        assert!(self.end.ask_allocation(0, VOLUME_BYTES, &mut self.out), "no I/O is in flight");
        self.says()
    }

    /// Receives a piece of the stream. `None` if the connection ends.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<()> {
        self.now = self.now + Nanos(1000);
        let result = self.end.receive(self.now, bytes, &mut self.out);
        self.drain();
        if let Some(Some(told)) = self.end.take_allocation() {
            assert!(0 < told.bytes && told.bytes <= VOLUME_BYTES, "{told:?}");
            assert!(told.holes + told.zeroes <= told.bytes, "{told:?}");
        }
        let open = matches!(self.end.phase(), Phase::Opening | Phase::Ready(_));
        (result.is_ok() && open).then_some(())
    }

    fn drain(&mut self) {
        for done in self.end.done().drain(..) {
            assert!(done.tag.0 < self.submitted, "an answer to nothing: {done:?}");
            self.finished += 1;
        }
        assert!(self.finished <= self.submitted, "two answers to one I/O");
    }

    /// Loses the connection: every I/O must complete.
    pub fn lose(mut self) {
        self.end.abandon();
        self.drain();
        assert_eq!(self.finished, self.submitted, "an I/O without an answer");
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn every_connection_opens() {
        Asking::iscsi().open(&mut Serving::iscsi());
        let mut server = NvmeServer::default();
        let mut queue = Asking::nvme_queue(&mut server);
        queue.open(&mut server.accept());
        queue.submit(8);
        queue.lose();
    }
}
