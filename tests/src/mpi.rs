//! Launchers of MPI, and the build of the program that knows them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use crate::{require, skip};

/// Flags of Open MPI's `mpirun`: runs as root, allows more ranks than cores, and notices lost hosts
/// within seconds. Each `mpirun` also has a session folder of its own, because launchers that start
/// and end at once remove each other's.
const FLAGS: &[&str] = &[
    "--allow-run-as-root",
    "--oversubscribe",
    "--mca",
    "oob_tcp_keepalive_time",
    "3",
    "--mca",
    "oob_tcp_keepalive_intvl",
    "1",
    "--mca",
    "oob_tcp_keepalive_probes",
    "3",
    "--mca",
    "btl_base_warn_component_unused",
    "0",
];

/// `mpirun`, and the program with MPI beside the one under test.
#[derive(Debug)]
pub struct Mpi {
    launcher: PathBuf,
    program: PathBuf,
}

impl Mpi {
    /// Finds both. Without them, the calling test is recorded as skipped.
    pub fn find() -> Option<Mpi> {
        let launcher = require("mpirun")?;
        let program = Mpi::program("drumfire-mpi")?;
        Some(Mpi { launcher, program })
    }

    /// Finds the launcher of MPICH, and the program that was built with it.
    pub fn find_mpich() -> Option<Mpi> {
        let launcher = require("mpirun.mpich")?;
        let program = Mpi::program("drumfire-mpich")?;
        Some(Mpi { launcher, program })
    }

    /// A program with MPI beside this test: `cargo xtask test` builds it.
    pub fn program(name: &str) -> Option<PathBuf> {
        // target/debug/deps/this-test
        let test = std::env::current_exe().expect("a running program has a path");
        let beside = test.ancestors().nth(2).expect("cargo builds two folders deep").join(name);
        if !beside.is_file() {
            let package = if name.ends_with("mpich") { "libmpich-dev" } else { "libopenmpi-dev" };
            skip(&format!("no {name}: apt-get install {package}, then cargo xtask test"));
            return None;
        }
        Some(beside)
    }

    /// Path of the program with MPI.
    pub fn path(&self) -> &Path {
        &self.program
    }

    /// A launch of `program` on this machine.
    pub fn launch(&self, folder: &Path, ranks: u32, program: &Path, args: &str) -> Command {
        let mut command = Command::new(&self.launcher);
        command.args(FLAGS).args(["--mca", "orte_tmpdir_base"]).arg(folder);
        command.arg("-n").arg(ranks.to_string()).arg(program);
        command.args(args.split_whitespace()).current_dir(folder);
        command
    }

    /// A launch of the program on this machine by MPICH, which has no flags in common with Open
    /// MPI.
    pub fn plain_command(&self, folder: &Path, ranks: u32, args: &str) -> Command {
        let mut command = Command::new(&self.launcher);
        command.arg("-n").arg(ranks.to_string()).arg(&self.program);
        command.args(args.split_whitespace()).current_dir(folder);
        command
    }

    /// A launch of the program on this machine by Open MPI.
    pub fn command(&self, folder: &Path, ranks: u32, args: &str) -> Command {
        self.launch(folder, ranks, &self.program, args)
    }

    /// A launch on hosts, each with its number of ranks, by an agent in place of `ssh`. `more` are
    /// flags of the launcher.
    pub fn on_hosts(
        &self,
        folder: &Path,
        (hosts, agent): (&[(&str, u32)], &Path),
        more: &[&str],
        args: &[&str],
    ) -> Command {
        let list: Vec<String> =
            hosts.iter().map(|(host, ranks)| format!("{host}:{ranks}")).collect();
        let ranks: u32 = hosts.iter().map(|(_, ranks)| ranks).sum();
        let mut command = Command::new(&self.launcher);
        command.args(FLAGS).args(["--host", &list.join(","), "-n", &ranks.to_string()]);
        command.args(["--mca", "orte_tmpdir_base"]).arg(folder);
        command.args(["--mca", "plm_rsh_agent"]).arg(agent);
        command.args(["--mca", "btl", "tcp,self"]).args(more);
        command.args(args).current_dir(folder);
        command
    }
}

/// Seconds of a run at which something happens to a rank, from 1 to 8: one, or as many as
/// `DRUMFIRE_MISHAPS` asks for.
pub fn seconds_of_mishaps(seed: u64) -> Vec<u64> {
    let count = std::env::var("DRUMFIRE_MISHAPS").ok().and_then(|text| text.parse().ok());
    let mut state = seed;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        1 + (state >> 33) % 8
    };
    (0..count.unwrap_or(1)).map(|_| draw()).collect()
}

/// Process of a rank in a working folder, by the environment that the launcher gave it.
pub fn rank_of(rank: u32, folder: &Path) -> Pid {
    let begin = std::fs::canonicalize(folder).expect("the folder is there");
    let wanted = format!("OMPI_COMM_WORLD_RANK={rank}");
    let until = Instant::now() + Duration::from_secs(60);
    while Instant::now() < until {
        for process in std::fs::read_dir("/proc").expect("Linux has it").flatten() {
            let path = process.path();
            let is_here = std::fs::read_link(path.join("cwd")).is_ok_and(|cwd| cwd == begin);
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            let mut words = environment.split(|byte| *byte == 0);
            if is_here && words.any(|word| word == wanted.as_bytes()) {
                let number = process.file_name().to_string_lossy().parse().unwrap_or(0);
                if let Some(pid) = Pid::from_raw(number) {
                    return pid;
                }
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("no process of rank {rank}");
}
