//! A hostile driver against a running server: random words in its shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use block::{Nanos, Op, Rng, Window};
use os::{Event, UnixLink};
use proto::vhost_user::{Attachment, FrontEnd, FrontEndPhase, QueueStart};
use proto::virtio::{DriverQueue, Features};
use volume::{Purpose, Uri};

use super::*;

const SLOT_BYTES: u64 = 4096;
const SIZE: u16 = 16;
const BASE: u64 = 1 << 20;
const PATIENCE: Nanos = Nanos::from_secs(20);

/// A folder of this test, removed on drop.
struct Place(PathBuf);

impl Place {
    fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vhost-{}-{count}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Place(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn serve(place: &Place) -> VhostServer {
    let file = place.0.join("disk.img");
    std::fs::write(&file, vec![0; 1 << 20]).unwrap();
    let volume = |name: &str, uri: String| {
        let uri: Uri = uri.parse().unwrap();
        let volume = volume::open(&uri, Purpose::Store).unwrap();
        let disk = crate::DiskId::new([7; 16]);
        let export = Export {
            target: name.to_owned(),
            subsystem: name.to_owned(),
            lun: 1,
            volume,
            disk,
            reservations: Default::default(),
        };
        VhostVolume { name: name.to_owned(), export, read_only: false }
    };
    let volumes = vec![
        volume("ram", "ram:1m".to_owned()),
        volume("file", format!("file:{}", file.display())),
    ];
    let cores = vec![os::cpu::allowed()[0]];
    let config = VhostConfig { volumes, folder: place.0.clone(), cores };
    VhostServer::start(config, Log::new(|_| ()), |why| panic!("{why}")).unwrap()
}

/// A driver with one queue.
struct Driver {
    link: UnixLink,
    queue: DriverQueue,
    window: Window,
    kick: Event,
    _call: Event,
    _memory: OwnedFd,
}

impl Driver {
    fn connect(socket: &Path) -> Driver {
        let link = UnixLink::connect(socket).unwrap();
        let mut end = FrontEnd::new();
        let known = loop {
            match end.phase() {
                FrontEndPhase::Known(known) => break known,
                _ => exchange(&link, &mut end, &[]),
            }
        };
        let features = Features(known.features.0);
        let bytes = DriverQueue::bytes(SIZE, SLOT_BYTES, features);
        let (memory, window) = os::share_memory(c"test", bytes).unwrap();
        let queue = DriverQueue::new(window.clone(), BASE, SIZE, SLOT_BYTES, features).unwrap();
        let (kick, call) = (Event::new().unwrap(), Event::new().unwrap());
        end.start(BASE, bytes, &[QueueStart { size: SIZE, addresses: queue.addresses() }]);
        while end.phase() != FrontEndPhase::Ready {
            exchange(&link, &mut end, &[memory.as_fd(), kick.as_fd(), call.as_fd()]);
        }
        Driver { link, queue, window, kick, _call: call, _memory: memory }
    }

    /// Whether the server has closed the connection.
    fn is_closed(&self) -> bool {
        !matches!(self.link.receive(&mut [0; 8], &mut Vec::new()), Ok(None))
    }

    /// One honest read of a server that lives.
    fn reads(&mut self) -> bool {
        let Some(slot) = self.queue.start(Op::Read, 0, 512, None) else { return false };
        self.queue.publish();
        self.kick.signal();
        let clock = os::Clock::get();
        let end = clock.now() + PATIENCE;
        while clock.now() < end {
            if let Ok(Some(done)) = self.queue.poll() {
                return done.slot == slot && done.result == Ok(());
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        false
    }
}

/// Sends all messages, and receives what is there.
fn exchange(link: &UnixLink, end: &mut FrontEnd, fds: &[BorrowedFd<'_>]) {
    while let Some((bytes, attachment)) = end.output() {
        let at = attachment.map(|attachment| match attachment {
            Attachment::Memory => 0,
            Attachment::Kick(_) => 1,
            Attachment::Call(_) => 2,
        });
        let attached: Vec<BorrowedFd<'_>> = at.into_iter().map(|at| fds[at]).collect();
        link.send(&bytes, &attached).unwrap();
    }
    assert!(link.await_readable(PATIENCE).unwrap(), "no answer");
    let mut bytes = [0; 512];
    let wants = end.wants();
    let count = link.receive(&mut bytes[..wants], &mut Vec::new()).unwrap().unwrap();
    assert!(count > 0, "closed");
    end.receive(&bytes[..count]).unwrap();
}

/// Mappings of memory of drivers in this process, by all tests.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:test")).count()
}

#[test]
fn a_hostile_driver_is_disconnected_and_leaves_nothing() {
    let place = Place::new();
    let server = serve(&place);
    let mut closed = 0;
    for seed in 0..60 {
        let mut rng = Rng::new(seed, 50);
        let socket = &server.sockets()[seed as usize % 2];
        let mut driver = Driver::connect(socket);
        for _ in 0..40 {
            while driver.queue.start(Op::Read, rng.below(2100) * 512, 1024, None).is_some() {}
            driver.queue.publish();
            for _ in 0..4 {
                let at = rng.below(4096);
                match rng.below(3) {
                    0 => driver.window.store16(at & !1, rng.below(64) as u16),
                    1 => driver.window.store32(at & !3, rng.below(1 << 20) as u32),
                    _ => driver.window.store64(at & !7, BASE + rng.below(1 << 18)),
                };
            }
            driver.kick.signal();
            std::thread::sleep(Duration::from_micros(200));
            while let Ok(Some(done)) = driver.queue.poll() {
                driver.queue.release(done.slot);
            }
            if driver.is_closed() {
                closed += 1;
                break;
            }
        }
        drop(driver);
        assert!(Driver::connect(socket).reads(), "seed {seed}: the server serves others");
    }
    assert!(closed > 5, "{closed} drivers were disconnected");
    let clock = os::Clock::get();
    let end = clock.now() + PATIENCE;
    while mappings() > 0 {
        assert!(clock.now() < end, "{} mappings of drivers are left", mappings());
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(server);
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 1, "the file alone");
}
