//! Hosts on one wire, each a network namespace of this machine with a host name of its own.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Mpi, require, run, skip};

const LIMIT: Duration = Duration::from_secs(60);
/// Addresses for benchmarks, RFC 2544 section C.2.2.
const NETWORK: &str = "198.18.7";
/// Runs a command of the launcher on a host, in place of ssh.
const AGENT: &str = "#!/bin/sh\nwhile [ \"${1#-}\" != \"$1\" ]; do shift; done\nhost=$1\nshift\n\
                     exec unshare --uts ip netns exec \"$host\" sh -c \"hostname $host; $*\"\n";
/// Runs a command with the name of its first argument as host name.
const NAMED: &str = "hostname $0; exec \"$@\"";

/// Hosts on a wire. All end when this is dropped, with their processes.
#[derive(Debug)]
pub struct Wired {
    names: Vec<String>,
    /// Namespace of the bridge that joins them.
    bridge: String,
    agent: PathBuf,
}

impl Wired {
    /// Makes `count` hosts; needs root. Without it the calling test is recorded as skipped.
    pub fn new(folder: &Path, count: u32) -> Option<Wired> {
        require("ip")?;
        if !rustix::process::geteuid().is_root() {
            skip("network namespaces need root");
            return None;
        }
        // Tests of one program run at the same time.
        static MADE: AtomicU32 = AtomicU32::new(0);
        let id = format!("{}x{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let names: Vec<String> = (1..=count).map(|number| format!("df{id}h{number}")).collect();
        let wired = Wired { names, bridge: format!("df{id}b"), agent: folder.join("agent") };
        let bridge = &wired.bridge;
        wired.names.iter().chain([bridge]).for_each(|name| wired.ip(&format!("netns add {name}")));
        wired.ip(&format!("-n {bridge} link add br0 type bridge"));
        wired.ip(&format!("-n {bridge} link set br0 up"));
        for (number, name) in (1..).zip(&wired.names) {
            let far = format!("h{number}");
            wired.ip(&format!(
                "link add wire netns {name} type veth peer name {far} netns {bridge}"
            ));
            wired.ip(&format!("-n {bridge} link set {far} master br0 up"));
            wired.ip(&format!("-n {name} addr add {NETWORK}.{number}/24 dev wire"));
            wired.ip(&format!("-n {name} link set wire up"));
            wired.ip(&format!("-n {name} link set lo up"));
        }
        std::fs::write(&wired.agent, AGENT).expect("the folder is writable");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&wired.agent, mode).expect("the file is ours");
        Some(wired)
    }

    /// Names of the hosts.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Address of a host, from 0.
    pub fn address(&self, at: usize) -> String {
        format!("{NETWORK}.{}", at + 1)
    }

    /// A launch from the first host, with this number of ranks on each host in their order.
    pub fn launch(&self, mpi: &Mpi, folder: &Path, ranks: &[u32], args: &[&str]) -> Command {
        let hosts = self.names.iter().map(String::as_str).zip(ranks.iter().copied());
        let hosts: Vec<(&str, u32)> = hosts.collect();
        let only = [
            ["--mca", "btl_tcp_if_include", "wire"],
            ["--mca", "oob_tcp_if_include", "wire"],
            // Each host is reached from the first one.
            ["--mca", "plm_rsh_no_tree_spawn", "1"],
        ];
        let inner = mpi.on_hosts(folder, (&hosts, &self.agent), only.as_flattened(), args);
        let first = &self.names[0];
        let mut command = Command::new("unshare");
        command.args(["--uts", "ip", "netns", "exec", first, "sh", "-c", NAMED, first]);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(folder);
        command
    }

    /// A launch of the program, with arguments that spaces separate.
    pub fn program(&self, mpi: &Mpi, folder: &Path, ranks: &[u32], args: &str) -> Command {
        let program = mpi.path().display().to_string();
        let args: Vec<&str> = std::iter::once(&*program).chain(args.split_whitespace()).collect();
        self.launch(mpi, folder, ranks, &args)
    }

    /// Loses all packets of a host, without a word.
    pub fn cut(&self, at: usize) {
        self.ip(&format!("-n {} link set wire down", self.names[at]));
    }

    /// Kills all processes of a host.
    pub fn kill(&self, at: usize) {
        let found = Command::new("ip").args(["netns", "pids", &self.names[at]]).output();
        let ids = found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned());
        for id in ids.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()) {
            let _ = Pid::from_raw(id).map(|pid| kill_process(pid, Signal::KILL));
        }
    }

    fn ip(&self, args: &str) {
        run(Command::new("ip").args(args.split_whitespace()), LIMIT).ok();
    }
}

impl Drop for Wired {
    fn drop(&mut self) {
        (1..self.names.len()).for_each(|at| self.kill(at));
        for name in self.names.iter().chain([&self.bridge]) {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}
