//! A lane in addition to those of a job, for I/Os outside the measured window.

use std::collections::VecDeque;
use std::io;

use block::{Done, Io, Lane, Nanos, Op, Pool, Tag};
use os::{Core, Token};

use crate::Volume;

/// Time limit of the lane's end.
const LEAVING: Nanos = Nanos::from_millis(500);

/// An open lane on its own core.
pub(crate) struct Aside {
    core: Core,
    lane: Box<dyn Lane>,
    ios: VecDeque<Io>,
    done: Vec<Done>,
    ready: Vec<Token>,
    /// Reads handed over so far: the tag of the next.
    asked: u64,
}

impl Aside {
    /// Opens a lane for up to `depth` reads in flight.
    ///
    /// # Errors
    ///
    /// The lane cannot be opened, or not within the time limit.
    pub(crate) fn open(volume: &dyn Volume, depth: usize, limit: Nanos) -> io::Result<Aside> {
        let core = Core::open(Pool::new(2 * depth, depth)).map_err(io::Error::other)?;
        let lane = volume.begin_lane(&core).map_err(io::Error::other)?;
        let (ios, done, ready) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut aside = Aside { core, lane, ios, done, ready, asked: 0 };
        let until = aside.now() + limit;
        aside.poll()?;
        // A poll may open the lane, and no event follows then.
        while !aside.lane.is_open() {
            aside.wait(until)?;
            aside.poll()?;
        }
        Ok(aside)
    }

    pub(crate) fn now(&self) -> Nanos {
        self.core.now()
    }

    /// Queues a read. The lane is full at the depth with which it was opened.
    pub(crate) fn ask(&mut self, offset: u64, len: u32) {
        let buf = self.core.pool().take_beyond(len as usize);
        let tag = Tag(self.asked);
        self.ios.push_back(Io { tag, op: Op::Read, fua: false, len, offset, buf });
        self.asked += 1;
    }

    /// Queues a write.
    ///
    /// # Errors
    ///
    /// There is no memory for the data.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let Some(mut buf) = self.core.pool().take_beyond(data.len()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        buf[..data.len()].copy_from_slice(data);
        let (len, tag) = (data.len() as u32, Tag(self.asked));
        self.ios.push_back(Io { tag, op: Op::Write, fua: false, len, offset, buf: Some(buf) });
        self.asked += 1;
        Ok(())
    }

    /// Queues a flush.
    pub(crate) fn flush(&mut self) {
        let (tag, op) = (Tag(self.asked), Op::Flush);
        self.ios.push_back(Io { tag, op, fua: false, len: 0, offset: 0, buf: None });
        self.asked += 1;
    }

    /// Whether the lane writes only in the order of its zones.
    pub(crate) fn is_zoned(&self) -> bool {
        self.lane.zones().is_some()
    }

    /// Waits for outstanding reads, passes the data of each to the caller, and returns the number
    /// of reads that completed.
    ///
    /// # Errors
    ///
    /// A read failed, the lane broke, or no read completed in time.
    pub(crate) fn answers(
        &mut self,
        len: u32,
        until: Nanos,
        show: &mut dyn FnMut(&[u8]),
    ) -> io::Result<usize> {
        loop {
            self.lane.submit(self.core.now(), &mut self.ios);
            self.lane.poll(self.core.now(), &mut self.done);
            let count = self.done.len();
            let mut failed = None;
            for one in self.done.drain(..) {
                match (one.result, one.buf) {
                    (Ok(()), Some(buf)) => {
                        show(&buf[..len as usize]);
                        self.core.pool().give(buf);
                    }
                    (Ok(()), None) => {}
                    (Err(fault), _) => failed = Some(fault),
                }
            }
            match failed {
                Some(fault) => return Err(io::Error::other(fault.to_string())),
                None if count > 0 => return Ok(count),
                None => {}
            }
            self.poll()?;
            if self.done.is_empty() {
                self.wait(until)?;
            }
        }
    }

    /// Polls the lane, and hands it queued I/Os.
    fn poll(&mut self) -> io::Result<()> {
        let now = self.core.now();
        self.lane.poll(now, &mut self.done);
        self.lane.submit(now, &mut self.ios);
        match self.lane.broken() {
            Some(why) => Err(io::Error::other(why.to_owned())),
            None => Ok(()),
        }
    }

    /// Waits once for events.
    fn wait(&mut self, until: Nanos) -> io::Result<()> {
        if self.core.now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let wake = self.lane.wake().unwrap_or(until).min(until);
        self.ready.clear();
        self.core.turn(Some(wake), &mut self.ready)
    }

    /// Closes the lane.
    ///
    /// # Errors
    ///
    /// Errors of the reactor.
    pub(crate) fn leave(mut self) -> io::Result<()> {
        let gone = self.now() + LEAVING;
        while self.now() < gone && !self.lane.close(self.now()) {
            self.lane.poll(self.now(), &mut self.done);
            self.lane.submit(self.now(), &mut self.ios);
            self.ready.clear();
            let soon = self.now() + Nanos::from_millis(10);
            self.core.turn(Some(soon), &mut self.ready)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use block::Geometry;

    use super::*;
    use crate::OpenError;

    /// A lane that the first poll opens, and that has no event and no timer afterwards.
    struct Opens(bool);

    impl Lane for Opens {
        fn geometry(&self) -> Geometry {
            Geometry::new(8192, 512)
        }
        fn submit(&mut self, _: Nanos, _: &mut VecDeque<Io>) {}
        fn poll(&mut self, _: Nanos, _: &mut Vec<Done>) {
            self.0 = true;
        }
        fn wake(&self) -> Option<Nanos> {
            None
        }
        fn is_open(&self) -> bool {
            self.0
        }
    }

    impl Volume for Opens {
        fn geometry(&self) -> Geometry {
            Geometry::new(8192, 512)
        }
        fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
            Ok(Box::new(Opens(false)))
        }
        fn flushes_all(&self) -> bool {
            true
        }
        fn kind(&self) -> &'static str {
            "test"
        }
        fn transport(&self) -> &'static str {
            "local"
        }
    }

    #[test]
    fn a_lane_that_is_open_is_not_waited_for() {
        let limit = Nanos::from_secs(60);
        let began = os::Clock::get().now();
        Aside::open(&Opens(false), 1, limit).unwrap();
        let took = os::Clock::get().now().since(began);
        assert!(took < Nanos::from_secs(30), "{took:?}");
    }
}
