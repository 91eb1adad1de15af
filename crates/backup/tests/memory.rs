//! A reader that gets no more memory fails the whole backup. A separate program, because its
//! address space is limited.

use std::collections::VecDeque;
use std::fs;
use std::sync::Arc;

use backup::{BackupError, Codec, Options, Skip, Target, add_volume, list, run};
use block::{Cause, Done, Fault, Geometry, Io, Lane, Nanos};
use os::Core;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use volume::{OpenError, Volume};

const BYTES: u64 = 64 << 20;

/// A volume whose first read uses all memory, keeps its buffer and fails.
struct Greedy;

impl Volume for Greedy {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, 4096)
    }

    fn lane(&self, _: &Core) -> Result<Box<dyn Lane>, OpenError> {
        Ok(Box::new(GreedyLane::default()))
    }

    fn kind(&self) -> &'static str {
        "greedy"
    }
}

#[derive(Default)]
struct GreedyLane {
    held: Vec<Io>,
    done: Vec<Done>,
}

impl Lane for GreedyLane {
    fn geometry(&self) -> Geometry {
        Geometry::new(BYTES, 4096)
    }

    fn submit(&mut self, _: Nanos, ios: &mut VecDeque<Io>) {
        for io in ios.drain(..) {
            limit_memory();
            let (result, cause) = (Err(Fault::Medium), Cause::NONE);
            self.done.push(Done { tag: io.tag, result, cause, buf: None });
            self.held.push(io);
        }
    }

    fn poll(&mut self, _: Nanos, done: &mut Vec<Done>) {
        done.append(&mut self.done);
    }

    fn wake(&self) -> Option<Nanos> {
        Some(Nanos(0))
    }
}

/// Limits the address space of this process to less than one more transfer.
fn limit_memory() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let has_kib: u64 = line.trim().trim_end_matches(" kB").parse().unwrap();
    let current = Some((has_kib << 10) + (4 << 20));
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
}

#[test]
fn a_reader_without_memory_fails_the_backup() {
    let path = std::env::temp_dir().join(format!("drumfire-memory-{:x}", os::random()));
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), [1; 100_000]).unwrap();
    // The volume is first: the file that follows is never read.
    let mut entries = Vec::new();
    add_volume(&mut entries, "volume-1", Arc::new(Greedy));
    entries.extend(list(std::slice::from_ref(&path), &Skip::default(), &|| false).unwrap());
    let options = Options {
        readers: 1,
        compressors: 1,
        writers: 1,
        buffers: 1,
        transfer_bytes: 16 << 20,
        codec: Codec::Stored,
        direct: false,
    };
    let failed = run(&entries, &Target::null(), options, &|_| (), &|| false);
    let maximum = getrlimit(Resource::As).maximum;
    setrlimit(Resource::As, Rlimit { current: maximum, maximum }).unwrap();
    fs::remove_dir_all(path).unwrap();
    let error = failed.expect_err("it lacks all that is behind the volume");
    assert!(matches!(error, BackupError::System(_)), "{error}");
}
