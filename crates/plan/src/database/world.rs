//! Clients, log and checkpoints of a database, in virtual time.

use std::collections::VecDeque;

use block::{Nanos, Op, Rng};
use model::device::Profile;
use model::{Extent, ModelError};

use super::host::{Host, Task};
use super::{Database, Forecast, Times, Watch, Writeback};
use crate::simulate::SimulateError;

/// Share of the drive, at its end, that the log cycles through.
const LOG_SHARE: f64 = 0.1;
/// Share of the interval over which a checkpoint spreads its writes, as PostgreSQL does.
const SPREAD: f64 = 0.9;

/// A client and its transaction.
#[derive(Clone, Debug, Default)]
struct Client {
    began: Nanos,
    /// Start of the client's commit.
    asked: Nanos,
    reads_left: u32,
    /// True if the client has requested the lock of `row`, if rows are locked at all.
    locks: bool,
    row: Option<u32>,
    durable: bool,
}

struct World<'a> {
    spec: &'a Database,
    host: Host<'a>,
    rng: Rng,
    clients: Vec<Client>,
    /// Lock queue of each row; the first client has the lock.
    rows: Vec<VecDeque<u32>>,
    /// Clients of the next flush, and of that in flight.
    joining: Vec<u32>,
    committing: Vec<u32>,
    log_bytes: f64,
    log_at: f64,
    /// Number of dirty pages, with fractions; those of complete bursts; writes in flight.
    dirty: f64,
    ready: f64,
    behind: u32,
    /// Pages left in the checkpoint, then files.
    owed: f64,
    files_left: u32,
    syncing: bool,
    checkpoints: Checkpoints,
    /// Clients throttled until fewer pages are dirty.
    held: Vec<u32>,
    counts_from: Nanos,
    books: Books,
}

/// Starts of checkpoints, in time and in bytes of log.
#[derive(Default)]
struct Checkpoints {
    /// Bytes of log so far.
    written: f64,
    last: (Nanos, f64),
    before: f64,
}

impl Checkpoints {
    /// Returns the elapsed share of the interval from the last checkpoint to the next, by time or
    /// by log.
    fn share(&self, rules: &Writeback, now: Nanos) -> f64 {
        let time = seconds(self.last.0, now) / rules.checkpoint_s;
        let log =
            rules.checkpoint_log_bytes.map_or(0.0, |bytes| (self.written - self.last.1) / bytes);
        time.max(log)
    }

    fn begin(&mut self, now: Nanos) {
        self.before = self.last.1;
        self.last = (now, self.written);
    }

    /// Returns the bytes of log since the last complete checkpoint.
    fn redo(&self, rules: &Writeback, now: Nanos, ended: bool) -> f64 {
        let complete = ended && self.share(rules, now) >= SPREAD;
        self.written - if complete { self.last.1 } else { self.before }
    }
}

#[derive(Default)]
struct Books {
    transactions: Vec<f64>,
    commits: Vec<f64>,
    flushes: u64,
    slices: u64,
    backlog: f64,
}

/// Simulates a database on a drive.
pub(super) fn run(
    spec: &Database,
    drive: &Profile,
    watch: Watch,
) -> Result<Forecast, SimulateError> {
    // One slice before each read and the row, one before the commit, one after it.
    let slices = spec.transaction.reads + 3.0;
    let slice_s = spec.transaction.cpu_s / slices;
    let rows = spec.transaction.hot_rows as usize;
    let mut world = World {
        spec,
        host: Host::new(drive, spec.cores, slice_s, watch.seed)?,
        rng: Rng::new(watch.seed, 1),
        clients: vec![Client::default(); spec.clients as usize],
        rows: vec![VecDeque::new(); rows],
        joining: Vec::new(),
        committing: Vec::new(),
        log_bytes: 0.0,
        log_at: 0.0,
        dirty: 0.0,
        ready: 0.0,
        behind: 0,
        owed: 0.0,
        files_left: 0,
        syncing: false,
        checkpoints: Checkpoints::default(),
        held: Vec::new(),
        counts_from: Nanos(nanos(watch.warmup_s)),
        books: Books::default(),
    };
    (0..spec.clients).try_for_each(|client| world.start(client))?;
    let end = Nanos(nanos(watch.warmup_s + watch.seconds));
    let mut ended = Vec::new();
    while world.host.now < end {
        if !world.host.step(end, &mut ended)? {
            break;
        }
        for task in ended.drain(..) {
            world.ended(task)?;
        }
        world.write_behind()?;
    }
    let ended = world.owed == 0.0 && world.files_left == 0;
    let redo_bytes = world.checkpoints.redo(&spec.writeback, world.host.now, ended);
    let forecast = world.books.forecast(slice_s / f64::from(spec.cores), watch.seconds)?;
    Ok(Forecast { redo_bytes, ..forecast })
}

impl World<'_> {
    fn start(&mut self, client: u32) -> Result<(), ModelError> {
        if self.dirty >= f64::from(self.spec.writeback.pages_max) {
            self.held.push(client);
            return Ok(());
        }
        let reads_left = self.some(self.spec.transaction.reads);
        let now = self.host.now;
        self.clients[client as usize] = Client { began: now, reads_left, ..Client::default() };
        self.host.work(Task::Slice(client))
    }

    fn ended(&mut self, task: Task) -> Result<(), ModelError> {
        match task {
            Task::Slice(client) => self.worked(client),
            Task::Read(client) => self.host.work(Task::Slice(client)),
            Task::Log => self.flush(Task::Flush),
            Task::Flush => self.committed(),
            Task::Writeback => {
                self.behind -= 1;
                self.owed = (self.owed - 1.0).max(0.0);
                self.sync_files()
            }
            Task::Sync => {
                self.files_left -= 1;
                self.syncing = false;
                self.sync_files()
            }
        }
    }

    /// Continues a client after its slice: it reads, locks its row, commits, or is done.
    fn worked(&mut self, client: u32) -> Result<(), ModelError> {
        if self.host.now >= self.counts_from {
            self.books.slices += 1;
        }
        let own = &mut self.clients[client as usize];
        if own.durable {
            return self.done(client);
        }
        if own.reads_left > 0 {
            own.reads_left -= 1;
            let extent = self.page(false);
            return self.host.io(Task::Read(client), Op::Read, extent);
        }
        if !std::mem::replace(&mut own.locks, true) {
            return self.lock(client);
        }
        own.asked = self.host.now;
        self.log_bytes += self.spec.transaction.log_bytes;
        self.checkpoints.written += self.spec.transaction.log_bytes;
        self.joining.push(client);
        self.write_log()
    }

    /// Locks a row for a client, which continues when it has the lock.
    fn lock(&mut self, client: u32) -> Result<(), ModelError> {
        if !self.rows.is_empty() {
            let row = self.rng.below(self.rows.len() as u64) as u32;
            self.clients[client as usize].row = Some(row);
            let queue = &mut self.rows[row as usize];
            queue.push_back(client);
            if queue.len() > 1 {
                return Ok(());
            }
        }
        self.host.work(Task::Slice(client))
    }

    /// Commits all waiting clients with one write and one flush (group commit).
    fn write_log(&mut self) -> Result<(), ModelError> {
        if !self.committing.is_empty() || self.joining.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut self.joining, &mut self.committing);
        // The last page of the log is rewritten by the next write.
        let page = f64::from(self.spec.page_bytes);
        let pages = (std::mem::take(&mut self.log_bytes) / page).ceil().max(1.0);
        let within = self.spec.drive_bytes;
        let (first, room) = (within * (1.0 - LOG_SHARE), within * LOG_SHARE - pages * page);
        self.log_at = if self.log_at > room { 0.0 } else { self.log_at };
        let extent = self.extent(first + self.log_at, (pages * page).min(1e9) as u32, true);
        self.log_at += (pages - 1.0).max(0.5) * page;
        self.host.io(Task::Log, Op::Write, extent)
    }

    fn flush(&mut self, task: Task) -> Result<(), ModelError> {
        let extent = self.extent(0.0, 0, true);
        self.host.io(task, Op::Flush, extent)
    }

    fn committed(&mut self) -> Result<(), ModelError> {
        self.books.flushes += u64::from(self.host.now >= self.counts_from);
        for client in std::mem::take(&mut self.committing) {
            self.clients[client as usize].durable = true;
            self.host.work(Task::Slice(client))?;
        }
        self.write_log()
    }

    /// Completes a client's commit: its row is unlocked, and its next transaction begins.
    fn done(&mut self, client: u32) -> Result<(), ModelError> {
        let now = self.host.now;
        let own = self.clients[client as usize].clone();
        if now >= self.counts_from {
            self.books.transactions.push(seconds(own.began, now));
            self.books.commits.push(seconds(own.asked, now));
        }
        self.dirty += self.spec.transaction.writes;
        if let Some(row) = own.row {
            let queue = &mut self.rows[row as usize];
            queue.pop_front();
            let next = queue.front().copied();
            next.map_or(Ok(()), |next| self.host.work(Task::Slice(next)))?;
        }
        self.start(client)
    }

    /// Writes dirty pages as the depth allows, and begins a checkpoint when it is due.
    fn write_behind(&mut self) -> Result<(), ModelError> {
        let rules = &self.spec.writeback;
        if self.files_left == 0 && self.checkpoints.share(rules, self.host.now) >= 1.0 {
            self.checkpoints.begin(self.host.now);
            self.owed = self.dirty.floor() + f64::from(self.behind);
            self.files_left = rules.files;
            self.sync_files()?;
        }
        let depth = if self.owed > 0.0 { rules.sync_depth } else { rules.depth };
        // Throttled clients would wait for a full burst for ever.
        let burst = f64::from(rules.burst.min(rules.pages_max));
        if self.owed > 0.0 || self.dirty - self.ready >= burst {
            self.ready = self.dirty;
        }
        while self.ready >= 1.0 && self.behind < depth {
            self.dirty -= 1.0;
            self.ready -= 1.0;
            self.behind += 1;
            let extent = self.page(true);
            self.host.io(Task::Writeback, Op::Write, extent)?;
        }
        self.books.backlog = self.books.backlog.max(self.dirty);
        if self.dirty < f64::from(rules.pages_max) {
            for client in std::mem::take(&mut self.held) {
                self.start(client)?;
            }
        }
        Ok(())
    }

    /// Flushes the next file of a checkpoint whose pages are all written.
    fn sync_files(&mut self) -> Result<(), ModelError> {
        if self.files_left == 0 || self.owed > 0.0 || self.syncing {
            return Ok(());
        }
        self.syncing = true;
        self.flush(Task::Sync)
    }

    /// Returns a random page of the data.
    fn page(&mut self, write: bool) -> Extent {
        let page = f64::from(self.spec.page_bytes);
        let pages = (self.spec.data_bytes / page).floor().max(1.0) as u64;
        let at = self.rng.below(pages) as f64 * page;
        self.extent(at, self.spec.page_bytes, write)
    }

    fn extent(&self, offset: f64, bytes: u32, write: bool) -> Extent {
        Extent { offset: offset as u64, bytes, within: self.spec.drive_bytes as u64, write }
    }

    /// Returns a random whole number with this mean.
    fn some(&mut self, mean: f64) -> u32 {
        mean as u32 + u32::from(self.rng.uniform() < mean.fract())
    }
}

impl Books {
    fn forecast(mut self, slice_share_s: f64, seconds: f64) -> Result<Forecast, SimulateError> {
        if self.transactions.is_empty() {
            let why = format!("no transaction was committed in {seconds} s: simulate more seconds");
            return Err(SimulateError::Access(why));
        }
        let count = self.transactions.len() as f64;
        Ok(Forecast {
            tps: count / seconds,
            transaction: times(&mut self.transactions),
            commit: times(&mut self.commits),
            group: count / self.flushes.max(1) as f64,
            cpu_share: (self.slices as f64 * slice_share_s / seconds).min(1.0),
            backlog_pages: self.backlog as u32,
            redo_bytes: 0.0,
            recovery_s: None,
        })
    }
}

fn times(all: &mut [f64]) -> Times {
    all.sort_by(f64::total_cmp);
    let at = |share: f64| all[((all.len() as f64 * share) as usize).min(all.len() - 1)];
    let mean_s = all.iter().sum::<f64>() / all.len() as f64;
    Times { mean_s, p50_s: at(0.5), p99_s: at(0.99), max_s: at(1.0) }
}

fn seconds(from: Nanos, to: Nanos) -> f64 {
    (to.0 - from.0) as f64 / 1e9
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}
