//! Ranks that Slurm starts: controller and node on this machine, without users of their own.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Folder, Mpi, Running, free_port, require, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(240);

/// A cluster of one node, which ends when this is dropped.
struct Slurm {
    configuration: std::path::PathBuf,
    daemons: Vec<Running>,
}

impl Slurm {
    fn start(folder: &Path) -> Option<Slurm> {
        for program in ["srun", "slurmctld", "slurmd"] {
            require(program)?;
        }
        if !rustix::process::geteuid().is_root() {
            skip("slurmd needs root");
            return None;
        }
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let (name, at) = (name.trim(), folder.display());
        let text = format!(
            "ClusterName=one\nSlurmctldHost={name}(127.0.0.1)\nSlurmctldPort={}\nSlurmdPort={}\n\
             AuthType=auth/none\nCredType=cred/none\nMpiDefault=none\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nReturnToService=2\n\
             SlurmctldPidFile={at}/controller.pid\nSlurmdPidFile={at}/node.pid\n\
             SlurmdSpoolDir={at}/spool\nStateSaveLocation={at}/state\nSlurmUser=root\n\
             SelectType=select/cons_tres\n\
             NodeName={name} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN\n\
             PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP \
             OverSubscribe=FORCE:8\n",
            free_port(),
            free_port()
        );
        let configuration = folder.join("slurm.conf");
        std::fs::write(&configuration, text).unwrap();
        for name in ["spool", "state"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        let daemon = |program: &str| {
            let mut command = Command::new(require(program).unwrap());
            command.arg("-D").arg("-f").arg(&configuration).current_dir(folder);
            Running::start(&mut command)
        };
        let daemons = vec![daemon("slurmctld"), daemon("slurmd")];
        let slurm = Slurm { configuration, daemons };
        for _ in 0..600 {
            let mut asks = slurm.command("sinfo", "-h -o %t");
            if run(&mut asks, LIMIT).stdout.trim() == "idle" {
                return Some(slurm);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("no idle node after a minute");
    }

    fn command(&self, program: &str, args: &str) -> Command {
        let mut command = Command::new(program);
        command.args(args.split_whitespace()).env("SLURM_CONF", &self.configuration);
        command
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        self.daemons.iter().for_each(|daemon| daemon.signal(Signal::TERM));
        self.daemons.drain(..).for_each(|daemon| drop(daemon.finish(LIMIT)));
    }
}

#[test]
fn ranks_of_a_step_are_one_measurement() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(slurm) = Slurm::start(folder.path()) else { return };
    let program = mpi.path().display();
    let args = format!(
        "--mpi=pmix -n 4 --overcommit {program} run ram:16m --size 4k --outstanding 4 --rate 1k \
         --seconds 2 --ramp 0.2 --no-cold-reads --no-ceiling --json --out of"
    );
    let mut launch = slurm.command("srun", &args);
    let result = run(launch.current_dir(folder.path()), LIMIT).ok().json();
    assert_eq!(result["hosts"].as_array().unwrap().len(), 4);
    let iops = result["totals"]["iops"].as_f64().unwrap();
    // A busy host has no time for all of them.
    assert!((400.0..4080.0).contains(&iops), "{iops}");
    // Tasks of a step without MPI are parts, each of its own: the recipe for many hosts.
    let args = format!(
        "-n 2 --overcommit sh -c '{program} run ram:8m --rate 100 --seconds 1 --ramp 0 \
         --no-cold-reads --no-ceiling --start-at +8s --part $SLURM_PROCID.json --host \
         task$SLURM_PROCID --out part$SLURM_PROCID'"
    );
    let mut launch = Command::new("sh");
    launch.args(["-c", &format!("srun {args}")]).env("SLURM_CONF", &slurm.configuration);
    run(launch.current_dir(folder.path()), LIMIT).ok();
    let mut merge = Command::new(mpi.path());
    merge.args(["merge", "0.json", "1.json", "--json", "--expect", "2"]);
    let merged = run(merge.current_dir(folder.path()), LIMIT).ok().json();
    assert_eq!(merged["hosts"].as_array().unwrap().len(), 2);
}
