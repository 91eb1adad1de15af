//! A serving thread that panics ends the server with a reason, not silently.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use block::{Done, Geometry, Io, Lane, Nanos, Op, Pool, Tag};
use os::Core;
use serve::{DiskId, Export, HostLists, Limits, Log, ServeConfig, Server};
use volume::{Ground, OpenError, Purpose, Volume};

/// Longest wait of a test; normally everything comes at once.
const PATIENCE: Duration = Duration::from_secs(120);

/// A volume whose lane panics at its first I/O.
struct Trap;

impl Volume for Trap {
    fn geometry(&self) -> Geometry {
        Geometry::new(1 << 20, 512)
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(Trap))
    }

    fn kind(&self) -> &'static str {
        "trap"
    }

    fn ground(&self) -> Ground {
        Ground::Nothing
    }
}

impl Lane for Trap {
    fn geometry(&self) -> Geometry {
        Volume::geometry(self)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        assert!(ios.is_empty(), "a panic that is planted");
    }

    fn poll(&mut self, _: Nanos, _: &mut Vec<Done>) {}

    fn wake(&self) -> Option<Nanos> {
        None
    }
}

fn server() -> Server {
    let export = Export {
        target: "iqn.2026-11.io.drumfire:trap".to_owned(),
        subsystem: "nqn.2026-11.io.drumfire:trap".to_owned(),
        lun: 1,
        volume: Arc::new(Trap),
        disk: DiskId::new([1; 16]),
        reservations: Default::default(),
    };
    let config = ServeConfig {
        counts: false,
        spare: 0,
        iscsi: vec![SocketAddr::from(([127, 0, 0, 1], 0))],
        nvme_tcp: Vec::new(),
        nbd: Vec::new(),
        exports: vec![export],
        host_lists: HostLists::default(),
        shared: false,
        first_controller: 1,
        instance: 1,
        cores: vec![os::cpu::allowed()[0]],
        idle_cores: Vec::new(),
        limits: Limits::default(),
    };
    Server::start(config, Log::new(|line| eprintln!("{line}"))).unwrap()
}

fn told(server: &Server) -> Receiver<String> {
    let (tell, told) = mpsc::channel();
    server.on_failure(move |why| tell.send(why.to_owned()).unwrap());
    told
}

/// Reads a block of the unit and waits until it completes, or the server has ended.
fn read(uri: &str) {
    let volume = volume::open(&uri.parse().unwrap(), Purpose::Read).unwrap();
    let core = Core::open(Pool::new(4, 4)).unwrap();
    let mut lane = volume.lane(&core).unwrap();
    let io = Io { tag: Tag(1), op: Op::Read, fua: false, len: 512, offset: 0, buf: None };
    let io = Io { buf: core.pool().take(512), ..io };
    let (mut ios, mut done, mut ready) = (VecDeque::from([io]), Vec::new(), Vec::new());
    let end = core.now() + Nanos::from_secs(PATIENCE.as_secs());
    while done.is_empty() && lane.broken().is_none() && core.now() < end {
        lane.submit(core.now(), &mut ios);
        core.turn(Some(core.now() + Nanos::from_millis(10)), &mut ready).unwrap();
        lane.poll(core.now(), &mut done);
    }
    assert!(done.iter().all(|done| done.result.is_err()), "a trap does no I/O");
    assert!(core.now() < end, "the connection outlived its server's thread");
}

#[test]
fn a_volume_that_panics_ends_the_server_with_a_reason() {
    let server = server();
    let told = told(&server);
    let uri = format!("iscsi://{}/iqn.2026-11.io.drumfire:trap/1", server.iscsi()[0]);
    let reader = std::thread::spawn(move || read(&uri));
    let why = told.recv_timeout(PATIENCE).expect("somebody is told");
    assert!(why.ends_with("its thread panicked"), "{why}");
    // The peer is notified, too, and the server can be dropped.
    reader.join().unwrap();
    drop(server);
}

#[test]
fn who_asks_later_is_told_at_once() {
    let server = server();
    let first = told(&server);
    let thread = &server.shared_threads()[0];
    assert!(thread.run(Box::new(|_| panic!("a panic that is planted"))), "the thread is there");
    let why = first.recv_timeout(PATIENCE).expect("somebody is told");
    assert_eq!(told(&server).try_recv().as_ref(), Ok(&why));
}
