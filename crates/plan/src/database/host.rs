//! The host of a database: its drive and its cores, in virtual time.

use std::collections::{BTreeMap, HashMap, VecDeque};

use block::{Nanos, Op};
use model::device::Profile;
use model::{Class, ClassId, Emulation, Extent, ModelError, Service, Station};

/// Work in flight, on a core or the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// A time slice of a core for a client.
    Slice(u32),
    /// The read of a page for a client.
    Read(u32),
    /// The write of the log, for all clients waiting for their commit.
    Log,
    /// The flush that makes the log durable.
    Flush,
    /// The write of a page that no client waits for.
    Writeback,
    /// The flush of a file at the end of a checkpoint.
    Sync,
}

/// A drive with its queue, and the host's cores.
pub(super) struct Host<'a> {
    drive: &'a Profile,
    emulation: Emulation,
    classes: HashMap<(Op, u32), ClassId>,
    slice: ClassId,
    tasks: BTreeMap<u64, Task>,
    next: u64,
    /// I/Os beyond the queue depth of the drive.
    waiting: VecDeque<(Task, Op, Extent)>,
    /// I/Os in flight in the drive.
    inside: usize,
    depth: usize,
    pub(super) now: Nanos,
}

impl<'a> Host<'a> {
    pub(super) fn new(
        drive: &'a Profile,
        cores: u32,
        slice_s: f64,
        seed: u64,
    ) -> Result<Self, ModelError> {
        let mut network = drive.network(1);
        let station = network.add_station(Station::servers("cores of the host", cores));
        let slice = Class::closed("a slice", 1).visit(station, Service::exponential(slice_s));
        let slice = network.add_class(slice);
        let depth = drive.queue_depth.map_or(usize::MAX, |depth| depth as usize);
        Ok(Host {
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

    /// Assigns a core to a task for a slice.
    pub(super) fn work(&mut self, task: Task) -> Result<(), ModelError> {
        let key = self.key(task);
        self.emulation.submit(self.now, self.slice, key)
    }

    /// Queues an I/O.
    pub(super) fn io(&mut self, task: Task, op: Op, extent: Extent) -> Result<(), ModelError> {
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

    /// Advances to the next event, at most to `until`. False if nothing is in flight.
    pub(super) fn step(&mut self, until: Nanos, ended: &mut Vec<Task>) -> Result<bool, ModelError> {
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
