//! The database in virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use block::{Nanos, Op, Rng};
use model::{Class, ClassId, Emulation, Extent, ModelError, Service, Station};
use volume::delay::Profile;

use super::{Database, Forecast, Recovery, Times, Watch};
use crate::simulate::SimulateError;

/// Share of the drive, from its end, that the log goes round in.
const LOG_SHARE: f64 = 0.1;

/// What is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// A slice of a core for a client.
    Slice(u32),
    /// A page for a client.
    Read(u32),
    /// The log of all who wait for their commit.
    Log,
    /// What makes it durable.
    Flush,
    /// A page that nobody waits for.
    Behind,
    /// A file at the end of a checkpoint.
    Sync,
}

/// A drive with a queue in front and the cores of its host, in virtual time.
struct Machine<'a> {
    drive: &'a Profile,
    emulation: Emulation,
    classes: HashMap<(Op, u32), ClassId>,
    slice: ClassId,
    tasks: BTreeMap<u64, Task>,
    next: u64,
    /// I/Os beyond the queue depth of the drive.
    waiting: VecDeque<(Task, Op, Extent)>,
    inside: usize,
    depth: usize,
    now: Nanos,
}

impl<'a> Machine<'a> {
    fn new(drive: &'a Profile, cores: u32, slice_s: f64, seed: u64) -> Result<Self, ModelError> {
        let mut network = drive.network(1);
        let station = network.add_station(Station::servers("cores of the host", cores));
        let slice = Class::closed("a slice", 1).visit(station, Service::exponential(slice_s));
        let slice = network.add_class(slice);
        let depth = drive.queue_depth.map_or(usize::MAX, |depth| depth as usize);
        Ok(Machine {
            drive,
            emulation: Emulation::new(&network, seed)?,
            classes: HashMap::new(),
            slice,
            tasks: BTreeMap::new(),
            next: 0,
            waiting: VecDeque::new(),
            inside: 0,
            depth,
            now: Nanos(0),
        })
    }

    fn work(&mut self, task: Task) -> Result<(), ModelError> {
        let key = self.key(task);
        self.emulation.submit(self.now, self.slice, key)
    }

    fn io(&mut self, task: Task, op: Op, extent: Extent) -> Result<(), ModelError> {
        self.waiting.push_back((task, op, extent));
        self.begin()
    }

    fn begin(&mut self) -> Result<(), ModelError> {
        while self.inside < self.depth {
            let Some((task, op, extent)) = self.waiting.pop_front() else { return Ok(()) };
            let class = match self.classes.get(&(op, extent.bytes)) {
                Some(class) => *class,
                None => {
                    let mut class = Class::closed(format!("{op:?} of {}", extent.bytes), 1);
                    class.route = self.drive.route(1, 0, op, extent.bytes);
                    let id = self.emulation.add_class(class)?;
                    self.classes.insert((op, extent.bytes), id);
                    id
                }
            };
            self.inside += 1;
            let key = self.key(task);
            self.emulation.submit_at(self.now, class, key, Some(extent))?;
        }
        Ok(())
    }

    fn key(&mut self, task: Task) -> u64 {
        self.next += 1;
        self.tasks.insert(self.next, task);
        self.next
    }

    /// Goes on to what happens next, at `until` at the latest. False where nothing is in flight.
    fn step(&mut self, until: Nanos, ended: &mut Vec<Task>) -> Result<bool, ModelError> {
        let Some(next) = self.emulation.wake() else { return Ok(false) };
        self.now = next.clamp(self.now, until);
        let mut keys = Vec::new();
        self.emulation.poll(self.now, &mut keys);
        for key in keys {
            let task = self.tasks.remove(&key).expect("each key is given back once");
            self.inside -= usize::from(!matches!(task, Task::Slice(_)));
            ended.push(task);
        }
        self.begin()?;
        Ok(true)
    }
}

/// A client and its transaction.
#[derive(Clone, Debug, Default)]
struct Client {
    began: Nanos,
    asked: Nanos,
    reads_left: u32,
    row: Option<u32>,
}

struct World<'a> {
    spec: &'a Database,
    machine: Machine<'a>,
    rng: Rng,
    clients: Vec<Client>,
    /// Who waits for the row, the first one has it.
    rows: Vec<VecDeque<u32>>,
    /// Who waits for the next flush, and who for that in flight.
    joining: Vec<u32>,
    committing: Vec<u32>,
    log_bytes: f64,
    log_at: f64,
    /// Pages to be written, parts of pages too; and those in flight.
    dirty: f64,
    behind: u32,
    /// Pages that a checkpoint waits for; then files.
    owed: f64,
    files_left: u32,
    checkpoint_at: Nanos,
    /// Who waits until fewer pages wait.
    held: Vec<u32>,
    counts_from: Nanos,
    books: Books,
}

#[derive(Default)]
struct Books {
    transactions: Vec<f64>,
    commits: Vec<f64>,
    flushes: u64,
    slices: u64,
    backlog: f64,
}

/// Watches a database on a drive.
pub(super) fn run(
    spec: &Database,
    drive: &Profile,
    watch: Watch,
) -> Result<Forecast, SimulateError> {
    let slices = spec.transaction.reads + 2.0;
    let slice_s = spec.transaction.cpu_s / slices;
    let rows = spec.transaction.hot_rows as usize;
    let mut world = World {
        spec,
        machine: Machine::new(drive, spec.cores, slice_s, watch.seed)?,
        rng: Rng::new(watch.seed, 1),
        clients: vec![Client::default(); spec.clients as usize],
        rows: vec![VecDeque::new(); rows],
        joining: Vec::new(),
        committing: Vec::new(),
        log_bytes: 0.0,
        log_at: 0.0,
        dirty: 0.0,
        behind: 0,
        owed: 0.0,
        files_left: 0,
        checkpoint_at: Nanos(nanos(spec.writeback.checkpoint_s)),
        held: Vec::new(),
        counts_from: Nanos(nanos(watch.warmup_s)),
        books: Books::default(),
    };
    (0..spec.clients).try_for_each(|client| world.start(client))?;
    let end = Nanos(nanos(watch.warmup_s + watch.seconds));
    let mut ended = Vec::new();
    while world.machine.now < end {
        if !world.machine.step(end, &mut ended)? {
            break;
        }
        for task in ended.drain(..) {
            world.ended(task)?;
        }
        world.write_behind()?;
    }
    world.books.forecast(slice_s / f64::from(spec.cores), watch.seconds)
}

impl World<'_> {
    fn start(&mut self, client: u32) -> Result<(), ModelError> {
        if self.dirty >= f64::from(self.spec.writeback.pages_max) {
            self.held.push(client);
            return Ok(());
        }
        let reads_left = self.some(self.spec.transaction.reads);
        let now = self.machine.now;
        self.clients[client as usize] =
            Client { began: now, reads_left, ..Client::default() };
        self.machine.work(Task::Slice(client))
    }

    fn ended(&mut self, task: Task) -> Result<(), ModelError> {
        match task {
            Task::Slice(client) => self.worked(client),
            Task::Read(client) => self.machine.work(Task::Slice(client)),
            Task::Log => self.flush(Task::Flush),
            Task::Flush => self.committed(),
            Task::Behind => {
                self.behind -= 1;
                self.owed = (self.owed - 1.0).max(0.0);
                self.sync_files()
            }
            Task::Sync => {
                self.files_left -= 1;
                self.sync_files()
            }
        }
    }

    /// A client had its slice of a core: it reads, takes its row, or commits.
    fn worked(&mut self, client: u32) -> Result<(), ModelError> {
        if self.machine.now >= self.counts_from {
            self.books.slices += 1;
        }
        let own = &mut self.clients[client as usize];
        if own.reads_left > 0 {
            own.reads_left -= 1;
            let extent = self.page(false);
            return self.machine.io(Task::Read(client), Op::Read, extent);
        }
        if own.row.is_none() && !self.rows.is_empty() {
            let row = self.rng.below(self.rows.len() as u64) as u32;
            self.clients[client as usize].row = Some(row);
            let queue = &mut self.rows[row as usize];
            queue.push_back(client);
            return if queue.len() == 1 { self.machine.work(Task::Slice(client)) } else { Ok(()) };
        }
        if self.rows.is_empty() && own.row.is_none() {
            own.row = Some(u32::MAX);
            return self.machine.work(Task::Slice(client));
        }
        own.asked = self.machine.now;
        self.log_bytes += self.spec.transaction.log_bytes;
        self.joining.push(client);
        self.write_log()
    }

    /// One write and one flush for all who wait.
    fn write_log(&mut self) -> Result<(), ModelError> {
        if !self.committing.is_empty() || self.joining.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut self.joining, &mut self.committing);
        // The page where the log ends is written again with what comes next.
        let page = f64::from(self.spec.page_bytes);
        let pages = (std::mem::take(&mut self.log_bytes) / page).ceil().max(1.0);
        let within = self.spec.drive_bytes;
        let (first, room) = (within * (1.0 - LOG_SHARE), within * LOG_SHARE - pages * page);
        self.log_at = if self.log_at > room { 0.0 } else { self.log_at };
        let extent = self.extent(first + self.log_at, (pages * page).min(1e9) as u32, true);
        self.log_at += (pages - 1.0).max(0.5) * page;
        self.machine.io(Task::Log, Op::Write, extent)
    }

    fn flush(&mut self, task: Task) -> Result<(), ModelError> {
        let extent = self.extent(0.0, 0, true);
        self.machine.io(task, Op::Flush, extent)
    }

    fn committed(&mut self) -> Result<(), ModelError> {
        let now = self.machine.now;
        let counts = now >= self.counts_from;
        self.books.flushes += u64::from(counts);
        for client in std::mem::take(&mut self.committing) {
            let own = self.clients[client as usize].clone();
            if counts {
                self.books.transactions.push(seconds(own.began, now));
                self.books.commits.push(seconds(own.asked, now));
            }
            self.dirty += self.spec.transaction.writes;
            if let Some(queue) = own.row.and_then(|row| self.rows.get_mut(row as usize)) {
                queue.pop_front();
                let next = queue.front().copied();
                next.map_or(Ok(()), |next| self.machine.work(Task::Slice(next)))?;
            }
            self.start(client)?;
        }
        self.write_log()
    }

    /// Pages go as far as their depth allows; checkpoints begin when it is their time.
    fn write_behind(&mut self) -> Result<(), ModelError> {
        let rules = &self.spec.writeback;
        if self.machine.now >= self.checkpoint_at {
            let later = self.checkpoint_at.0 + nanos(rules.checkpoint_s);
            self.checkpoint_at = Nanos(later);
            if self.files_left == 0 {
                self.owed = self.dirty.floor() + f64::from(self.behind);
                self.files_left = rules.files;
                self.sync_files()?;
            }
        }
        let depth = if self.owed > 0.0 { rules.sync_depth } else { rules.depth };
        while self.dirty >= 1.0 && self.behind < depth {
            self.dirty -= 1.0;
            self.behind += 1;
            let extent = self.page(true);
            self.machine.io(Task::Behind, Op::Write, extent)?;
        }
        self.books.backlog = self.books.backlog.max(self.dirty);
        if self.dirty < f64::from(rules.pages_max) {
            for client in std::mem::take(&mut self.held) {
                self.start(client)?;
            }
        }
        Ok(())
    }

    /// The next file of a checkpoint whose pages are all written.
    fn sync_files(&mut self) -> Result<(), ModelError> {
        let one = self.machine.tasks.values().any(|task| *task == Task::Sync);
        let waits = self.machine.waiting.iter().any(|(task, ..)| *task == Task::Sync);
        if self.files_left == 0 || self.owed > 0.0 || one || waits {
            return Ok(());
        }
        self.flush(Task::Sync)
    }

    /// A page of the data, at random.
    fn page(&mut self, write: bool) -> Extent {
        let page = f64::from(self.spec.page_bytes);
        let pages = (self.spec.data_bytes / page).floor().max(1.0) as u64;
        let at = self.rng.below(pages) as f64 * page;
        self.extent(at, self.spec.page_bytes, write)
    }

    fn extent(&self, offset: f64, bytes: u32, write: bool) -> Extent {
        Extent { offset: offset as u64, bytes, within: self.spec.drive_bytes as u64, write }
    }

    /// A whole number whose mean is `mean`.
    fn some(&mut self, mean: f64) -> u32 {
        mean as u32 + u32::from(self.rng.uniform() < mean.fract())
    }
}

impl Books {
    fn forecast(mut self, slice_share_s: f64, seconds: f64) -> Result<Forecast, SimulateError> {
        if self.transactions.is_empty() {
            let why = "no transaction was committed: watch the database longer";
            return Err(SimulateError::Access(why.to_owned()));
        }
        let count = self.transactions.len() as f64;
        Ok(Forecast {
            tps: count / seconds,
            transaction: times(&mut self.transactions),
            commit: times(&mut self.commits),
            group: count / self.flushes.max(1) as f64,
            cpu_share: (self.slices as f64 * slice_share_s / seconds).min(1.0),
            backlog_pages: self.backlog as u32,
            recovery_s: None,
        })
    }
}

/// Seconds of a restart with so many bytes of log.
pub(super) fn restart(
    spec: &Database,
    after: &Recovery,
    drive: &Profile,
    log_bytes: f64,
    seed: u64,
) -> Result<f64, SimulateError> {
    let reads = (after.reads_per_byte * log_bytes).ceil();
    let cpu_s = after.cpu_s_per_byte * log_bytes;
    let mut machine = Machine::new(drive, 1, (cpu_s / reads.max(1.0)).max(1e-9), seed)?;
    let mut rng = Rng::new(seed, 2);
    let within = spec.drive_bytes as u64;
    let mut place = |bytes: u32, write: bool| {
        let rooms = (spec.data_bytes / f64::from(bytes)).floor().max(1.0) as u64;
        Extent { offset: rng.below(rooms) * u64::from(bytes), bytes, within, write }
    };
    let each = |per_byte: f64| per_byte * log_bytes / reads.max(1.0);
    let (mut dirty, mut flushes, mut behind) = (0.0, 0.0, 0);
    let mut ended = Vec::new();
    let until = Nanos(u64::MAX);
    for _ in 0..reads as u64 {
        let extent = place(after.read_bytes, false);
        machine.io(Task::Read(0), Op::Read, extent)?;
        let mut waits = 1;
        while waits > 0 {
            machine.step(until, &mut ended)?;
            for task in ended.drain(..) {
                match task {
                    Task::Read(_) => machine.work(Task::Slice(0))?,
                    Task::Behind => behind -= 1,
                    _ => waits -= 1,
                }
            }
        }
        dirty += each(after.writes_per_byte);
        flushes += each(after.flushes_per_byte);
        while dirty >= 1.0 && behind < spec.writeback.depth {
            dirty -= 1.0;
            behind += 1;
            machine.io(Task::Behind, Op::Write, place(after.write_bytes, true))?;
        }
        while flushes >= 1.0 {
            flushes -= 1.0;
            machine.io(Task::Flush, Op::Flush, place(0x200, true))?;
            let mut flushed = false;
            while !flushed {
                machine.step(until, &mut ended)?;
                for task in ended.drain(..) {
                    behind -= u32::from(task == Task::Behind);
                    flushed |= task == Task::Flush;
                }
            }
        }
    }
    loop {
        while dirty >= 1.0 && behind < spec.writeback.sync_depth {
            dirty -= 1.0;
            behind += 1;
            machine.io(Task::Behind, Op::Write, place(after.write_bytes, true))?;
        }
        if !machine.step(until, &mut ended)? {
            break;
        }
        behind -= ended.drain(..).filter(|task| *task == Task::Behind).count() as u32;
    }
    Ok(after.fixed_s + machine.now.0 as f64 / 1e9)
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
