//! The data path allocates nothing after start: targets and workers run over real sockets, and an
//! allocator counts allocations of their threads in the measured window.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use job::spec::{Access, RunSpec, WorkerSpec, Workload};
use load::{Engine, Prepared, TargetThreads};
use serve::{DiskId, Export, HostLists, Limits, Log, ServeConfig, Server};
use stats::live::{About, Action, Live, Phase, Snapshot};
use volume::Purpose;

/// Allocator that counts allocations of the data path's threads. The test's own thread, which
/// collects, is not counted, nor is the first thread, which prints a warning after a minute.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The thread of the test: its allocations do not count.
    static COLLECTS: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    let first = i64::from(os::sample::thread_id()) == i64::from(std::process::id());
    if !first && !COLLECTS.try_with(Cell::get).unwrap_or(true) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

// SAFETY: everything is handed to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Notes the count at the end of each measured second.
#[derive(Default)]
struct Watch {
    counts: Vec<u64>,
    ios: f64,
}

impl Live for Watch {
    fn start(&mut self, _: &About) {}

    fn update(&mut self, snapshot: &Snapshot) -> Action {
        if snapshot.phase == Phase::Run {
            self.counts.push(ALLOCATIONS.load(Ordering::Relaxed));
            self.ios += snapshot.iops;
        }
        Action::Continue
    }

    fn end(&mut self) {}
}

fn export(index: u8) -> Export {
    Export {
        target: format!("iqn.2026-11.io.drumfire:t{}", index % 2),
        subsystem: format!("nqn.2026-11.io.drumfire:t{}", index % 2),
        lun: index / 2,
        volume: volume::open(&"ram:8m?fill=1".parse().unwrap(), Purpose::Store).unwrap(),
        disk: DiskId::new([index; 16]),
        reservations: Default::default(),
    }
}

#[test]
fn the_data_path_allocates_nothing_after_start() {
    COLLECTS.set(true);
    let targets = 4;
    let exports: Vec<Export> = (0..targets).map(export).collect();
    let cores = os::cpu::allowed();
    let server = Server::start(
        ServeConfig {
            counts: false,
            spare: 0,
            iscsi: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
            nvme_tcp: Vec::new(),
            nbd: Vec::new(),
            exports: exports.clone(),
            host_lists: HostLists::default(),
            shared: false,
            first_controller: 1,
            instance: 1,
            cores: cores.clone(),
            idle_cores: cores.clone(),
            limits: Limits::default(),
        },
        Log::new(|line| eprintln!("{line}")),
    )
    .unwrap();
    // Half of the workers read small, the others read and write.
    let workload = |(size_bytes, read_percent)| {
        Arc::new(Workload::new(Access::new(size_bytes, read_percent, 100.0), 32))
    };
    let workloads = [(512, 100.0), (4096, 70.0)].map(workload);
    let uri = |export: &Export| format!("iscsi://{}/{}", server.iscsi()[0], export.name());
    let open = |export| volume::open(&uri(export).parse().unwrap(), Purpose::Write).unwrap();
    let worker = |(number, export): (usize, &Export)| WorkerSpec {
        name: uri(export),
        volume: number,
        uri: uri(export),
        target: export.target.clone(),
        number: number as u64,
        ..WorkerSpec::new(workloads[number / 2].clone())
    };
    let spec = RunSpec {
        workers: exports.iter().enumerate().map(worker).collect(),
        seconds: 4.0,
        ramp_seconds: 0.5,
        seed: 1,
        cores: cores.clone(),
        ..RunSpec::default()
    };
    let volumes = exports.iter().map(open).collect();
    let targets =
        TargetThreads { cores, threads: server.thread_ids(), shared: server.shared_threads() };
    let run = Prepared { spec, volumes, targets: Some(targets) };
    let mut watch = Watch::default();
    let result = Engine::default().run(run, &mut watch).unwrap();
    assert_eq!(result.partial, None);
    assert!(watch.ios > 1000.0, "hardly any I/O was done");
    // In the last second the threads end.
    let [first, between @ .., _] = &watch.counts[..] else { panic!("{:?}", watch.counts) };
    assert!(*first > 0, "starting allocates, so the count works");
    assert_eq!(between, [*first; 2]);
    let of_all = &result.totals;
    assert!(of_all.write.iops > 0.0 && of_all.read.iops > of_all.write.iops, "{of_all:?}");
    drop(server);
}
