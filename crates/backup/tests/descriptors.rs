//! A volume that cannot be reached because this host lacks a resource fails the whole backup: the
//! volume may be good. A separate program, because its descriptors are limited.

use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use backup::{BackupError, Codec, Options, Target, add_volume, run};
use block::{Cause, Done, Geometry, Io, Lane, Nanos};
use os::Core;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use volume::{OpenError, Volume};

const BYTES: u64 = 1 << 20;

/// A volume whose reads use all descriptors.
struct Greedy;

/// Number of lanes created.
static LANES: AtomicU32 = AtomicU32::new(0);

impl Volume for Greedy {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, 4096)
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        LANES.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(GreedyLane::default()))
    }

    fn kind(&self) -> &'static str {
        "greedy"
    }
}

#[derive(Default)]
struct GreedyLane {
    done: Vec<Done>,
}

impl Lane for GreedyLane {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, 4096)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            limit_descriptors();
            self.done.push(Done { tag: io.tag, result: Ok(()), cause: Cause::NONE, buf: io.buf });
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn wake(&self) -> Option<Nanos> {
        Some(Nanos(0))
    }
}

/// Prevents this process from opening further files.
fn limit_descriptors() {
    let Ok(next) = std::fs::File::open("/dev/null") else { return };
    let current = Some(next.as_raw_fd() as u64);
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
}

#[test]
fn a_volume_that_this_host_cannot_reach_fails_the_backup() {
    let mut entries = Vec::new();
    add_volume(&mut entries, "volume-1", Arc::new(Greedy));
    add_volume(&mut entries, "volume-2", Arc::new(Greedy));
    let options = Options {
        readers: 1,
        compressors: 1,
        writers: 1,
        buffers: 1,
        transfer_bytes: 1 << 20,
        codec: Codec::Stored,
        direct: false,
    };
    let before = getrlimit(Resource::Nofile);
    let failed = run(&entries, &Target::null(), options, &|_| (), &|| false);
    setrlimit(Resource::Nofile, before).unwrap();
    let error = failed.expect_err("the second volume was never asked");
    assert!(matches!(error, BackupError::System(_)), "{error}");
    assert_eq!(LANES.load(Ordering::Relaxed), 1);
}
