//! NVMe/TCP, compared with SPDK, shape by shape.
//!
//! SPDK's programs are found on the PATH: build it, and add its `build/bin`. Each poll loop gets a
//! core, as ours do by default for one connection. SPDK uses the system's congestion control, ours
//! does not within a host: set cubic, because bbr slows SPDK down. SPDK uses huge pages, and is
//! faster with them, if 1.5 GiB are reserved and a hugetlbfs is mounted: `sysctl
//! vm.nr_hugepages=1000`, `mount -t hugetlbfs none /dev/hugepages`. The page names both.

use anyhow::Result;

use super::super::programs::Call;
use super::bare::{self, Shape};
use super::race::race;
use super::{Bench, Contender, Row, Sample, servers};

const OURS: &str = "drumfire race";
/// Programs of a run with SPDK at both ends.
pub const SPDK: &str = "nvmf_tgt, spdk_nvme_perf";

macro_rules! beside_spdk {
    ($name:literal, $title:literal, $race:literal, $perf:literal, $bare:expr) => {
        Row {
            name: $name,
            title: concat!("NVMe/TCP: ", $title),
            unit: "IOPS",
            contenders: &[
                Contender {
                    name: OURS,
                    run: |bench| race(bench, concat!("--protocol nvme-tcp ", $race)),
                },
                Contender { name: SPDK, run: |bench| spdk(bench, $perf) },
                Contender { name: bare::NAME, run: |bench| bare::run(bench, $bare) },
            ],
        }
    };
}

const fn shape(connections: usize, outstanding: usize, size: usize) -> Shape {
    Shape { connections, outstanding, size, write: false }
}

// The queue depth of spdk_nvme_perf is the total of its connections.

/// One connection, pages.
pub const SESSION_PAGES: Row = beside_spdk!(
    "nvme-session-4k",
    "4 KiB random reads, 1 connection, 64 outstanding",
    "--targets 1 --volumes 1 --size 4096 --outstanding 64",
    "-o 4096 -w randread -P 1 -q 64",
    shape(1, 64, 4096)
);

/// One connection, blocks.
pub const SESSION: Row = beside_spdk!(
    "nvme-session-512",
    "512 B random reads, 1 connection, 64 outstanding",
    "--targets 1 --volumes 1 --outstanding 64",
    "-o 512 -w randread -P 1 -q 64",
    shape(1, 64, 512)
);

/// The race with pages.
pub const MANY_PAGES: Row = beside_spdk!(
    "nvme-race-4k",
    "4 KiB random reads, 50 connections, 32 outstanding each",
    "--size 4096",
    "-o 4096 -w randread -P 50 -q 1600",
    shape(50, 32, 4096)
);

/// The race.
pub const MANY: Row = beside_spdk!(
    "nvme-race-512",
    "512 B random reads, 50 connections, 32 outstanding each",
    "",
    "-o 512 -w randread -P 50 -q 1600",
    shape(50, 32, 512)
);

/// Writes only.
pub const WRITES: Row = beside_spdk!(
    "nvme-write-4k",
    "4 KiB random writes, 4 connections, 64 outstanding each",
    "--targets 1 --volumes 4 --size 4096 --outstanding 64 --read 0",
    "-o 4096 -w randwrite -P 4 -q 256",
    Shape { write: true, ..shape(4, 64, 4096) }
);

/// A database's mix.
pub const MIXED: Row = Row {
    name: "nvme-mixed-4k",
    title: "NVMe/TCP: 4 KiB, 70 % reads, 16 connections, 32 outstanding each",
    unit: "IOPS",
    contenders: &[
        Contender { name: OURS, run: |bench| race(bench, MIXED_RACE) },
        Contender { name: SPDK, run: |bench| spdk(bench, "-o 4096 -w randrw -M 70 -P 16 -q 512") },
    ],
};

const MIXED_RACE: &str = "--protocol nvme-tcp --targets 4 --volumes 4 --size 4096 --outstanding 32 \
                          --read 70";

/// Latency at depth 1, where no concurrency hides it.
pub const DEPTH_ONE: Row = beside_spdk!(
    "nvme-depth-1",
    "4 KiB random reads, 1 connection, 1 outstanding",
    "--targets 1 --volumes 1 --size 4096 --outstanding 1",
    "-o 4096 -w randread -P 1 -q 1",
    shape(1, 1, 4096)
);

/// Runs SPDK at both ends.
pub fn spdk(bench: &Bench, shape: &str) -> Result<Sample> {
    let target = servers::nvmf(&bench.programs)?;
    perf(bench, &target.address, shape)
}

/// A run of SPDK's initiator, on the second core.
pub fn perf(bench: &Bench, address: &servers::NvmeAddress, shape: &str) -> Result<Sample> {
    let (seconds, servers::NvmeAddress { port, nqn }) = (bench.seconds, address);
    // One argument of several words.
    let transport =
        format!("trtype:TCP\tadrfam:IPv4\ttraddr:127.0.0.1\ttrsvcid:{port}\tsubnqn:{nqn}");
    let memory = servers::spdk_memory(512);
    let args = format!("{memory} -c 0x2 {shape} -t {seconds} -a 1 -r {transport}");
    let call = Call { program: "spdk_nvme_perf", args, core: None };
    Sample::of_spdk_perf(&bench.programs.run(&call, seconds + 1)?)
}
