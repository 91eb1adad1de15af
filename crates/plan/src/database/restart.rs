//! Crash recovery of a database, in virtual time.

use block::{Nanos, Op, Rng};
use model::device::Profile;
use model::{Extent, ModelError};

use super::host::{Host, Task};
use super::{Database, Recovery};

struct Restart<'a> {
    spec: &'a Database,
    after: &'a Recovery,
    host: Host<'a>,
    rng: Rng,
    /// Reads to submit, and reads to replay.
    left: u64,
    open: u32,
    /// Pages to write, with fractions, and writes in flight.
    dirty: f64,
    behind: u32,
    flushing: bool,
}

/// Returns the seconds of recovery from `log_bytes` of log.
pub(super) fn run(
    spec: &Database,
    after: &Recovery,
    drive: &Profile,
    log_bytes: f64,
    seed: u64,
) -> Result<f64, ModelError> {
    let reads = (after.reads_per_byte * log_bytes).ceil().max(1.0);
    let slice_s = (after.cpu_s_per_byte * log_bytes / reads).max(1e-9);
    let mut restart = Restart {
        spec,
        after,
        // Recovery is a single process.
        host: Host::new(drive, 1, slice_s, seed)?,
        rng: Rng::new(seed, 2),
        left: reads as u64,
        open: 0,
        dirty: 0.0,
        behind: 0,
        flushing: false,
    };
    for _ in 0..after.flushes {
        restart.flush()?;
    }
    let each = after.writes_per_byte * log_bytes / reads;
    loop {
        restart.begin(each)?;
        if restart.left == 0 && restart.open == 0 && restart.behind == 0 {
            break;
        }
        restart.step()?;
    }
    restart.flush()?;
    Ok(after.fixed_s + restart.host.now.0 as f64 / 1e9)
}

impl Restart<'_> {
    /// Submits I/Os up to the queue depth. After the last read the rest is written as in a
    /// checkpoint.
    fn begin(&mut self, dirties: f64) -> Result<(), ModelError> {
        while self.left > 0 && self.open < self.after.read_depth {
            self.left -= 1;
            self.open += 1;
            self.dirty += dirties;
            let extent = self.place(self.after.read_bytes, false);
            self.host.io(Task::Read(0), Op::Read, extent)?;
        }
        let rules = &self.spec.writeback;
        let depth = if self.left == 0 { rules.sync_depth } else { rules.depth };
        while self.dirty >= 1.0 && self.behind < depth {
            self.dirty -= 1.0;
            self.behind += 1;
            let extent = self.place(self.after.write_bytes, true);
            self.host.io(Task::Writeback, Op::Write, extent)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), ModelError> {
        let mut ended = Vec::new();
        self.host.step(Nanos(u64::MAX), &mut ended)?;
        for task in ended {
            match task {
                Task::Read(client) => self.host.work(Task::Slice(client))?,
                Task::Slice(_) => self.open -= 1,
                Task::Writeback => self.behind -= 1,
                _ => self.flushing = false,
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), ModelError> {
        let extent = Extent { bytes: 0, ..self.place(self.spec.page_bytes, true) };
        self.flushing = true;
        self.host.io(Task::Flush, Op::Flush, extent)?;
        while self.flushing {
            self.step()?;
        }
        Ok(())
    }

    fn place(&mut self, bytes: u32, write: bool) -> Extent {
        let rooms = (self.spec.data_bytes / f64::from(bytes)).floor().max(1.0) as u64;
        let offset = self.rng.below(rooms) * u64::from(bytes);
        Extent { offset, bytes, within: self.spec.drive_bytes as u64, write }
    }
}
