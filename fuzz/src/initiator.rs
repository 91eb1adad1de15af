//! Our initiator, joined with our target until it is ready, then left to whatever answers.

use block::{Buf, Chain, Io, Nanos, Op, Pool, Tag};
use proto::iscsi::{InitiatorConfig, IscsiInitiator};
use proto::{Endpoint, Initiator, Outbox, Phase};

use crate::stream::next_status;
use crate::{Serving, TARGET_NAME, take};

/// A connection of our initiator.
pub struct Asking {
    out: Outbox,
    sent: Chain,
    end: IscsiInitiator,
    now: Nanos,
    submitted: u64,
    finished: u64,
    status: u32,
}

impl Default for Asking {
    fn default() -> Asking {
        let config = InitiatorConfig::new("iqn.2026-11.io.drumfire:asks", TARGET_NAME, 2);
        Asking {
            out: Outbox::new(Pool::new(64, 64)),
            sent: Chain::default(),
            end: IscsiInitiator::new(config, Nanos(0)),
            now: Nanos(0),
            submitted: 0,
            finished: 0,
            status: 0,
        }
    }
}

impl Asking {
    /// Logs in to our own target. Panics when that takes more than a few exchanges.
    pub fn ready(mut self) -> Asking {
        let mut target = Serving::default();
        for _ in 0..64 {
            if matches!(self.end.phase(), Phase::Ready(_)) {
                target.lose();
                return self;
            }
            let asked = self.says();
            target.receive(&asked).expect("our initiator keeps the rules");
            target.work(usize::MAX, false);
            let answers = target.answers();
            self.status = next_status(&answers, self.status);
            self.receive(&answers).expect("our target keeps the rules");
        }
        panic!("no login after 64 exchanges");
    }

    /// The status number that it expects next.
    pub fn status(&self) -> u32 {
        self.status
    }

    /// What it has to say by now.
    pub fn says(&mut self) -> Vec<u8> {
        let _ = self.end.tick(self.now, &mut self.out);
        take(&mut self.out, &mut self.sent)
    }

    /// Puts a read or a write of `len` bytes under way, if there is room.
    pub fn submit(&mut self, op: Op, offset: u64, len: u32) {
        if !matches!(self.end.phase(), Phase::Ready(_)) || self.end.room() == 0 {
            return;
        }
        let buf =
            matches!(op, Op::Read | Op::Write).then(|| Buf::new(len as usize).expect("memory"));
        let io = Io { tag: Tag(self.submitted), op, fua: false, len, offset, buf };
        self.end.submit(self.now, io, &mut self.out);
        self.submitted += 1;
    }

    /// Feeds a part of the stream. `None` when the connection has to end.
    pub fn receive(&mut self, bytes: &[u8]) -> Option<()> {
        self.now = self.now + Nanos(1000);
        let result = self.end.receive(self.now, bytes, &mut self.out);
        self.drain();
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

    /// The connection is lost. Every I/O has got its answer.
    pub fn lose(mut self) {
        self.end.abandon();
        self.drain();
        assert_eq!(self.finished, self.submitted, "an I/O without an answer");
    }
}
