//! The binary under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Finished, IQN, NQN, Running, run, skip};

/// Time limit until a target is ready, which takes milliseconds; a busy machine may take longer.
const READY_LIMIT: Duration = Duration::from_secs(300);

/// The program `drumfire`.
#[derive(Clone, Debug)]
pub struct Drumfire(PathBuf);

impl Drumfire {
    /// The program `DRUMFIRE_BIN`, or the newer of the release and debug builds next to this test:
    /// an old one would test outdated code. If there is none, the calling test is recorded as
    /// skipped.
    pub fn find() -> Option<Drumfire> {
        if let Some(named) = std::env::var_os("DRUMFIRE_BIN") {
            let path = PathBuf::from(named);
            assert!(path.is_file(), "DRUMFIRE_BIN names {}, which is missing", path.display());
            return Some(Drumfire(path));
        }
        // target/debug/deps/this-test
        let test = std::env::current_exe().expect("a running program has a path");
        let target = test.ancestors().nth(3).expect("cargo builds three folders deep");
        let builds = ["release/drumfire", "debug/drumfire"].map(|build| target.join(build));
        let found = newest(builds);
        if found.is_none() {
            skip("no binary: cargo build --release -p drumfire");
        }
        found.map(Drumfire)
    }

    /// Path of the program.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A call of the program, arguments separated by blanks, started in `folder`.
    pub fn command(&self, folder: &Path, args: &str) -> Command {
        let mut command = Command::new(&self.0);
        settle(&mut command, folder, args);
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, folder: &Path, args: &str, limit: Duration) -> Finished {
        run(&mut self.command(folder, args), limit)
    }

    /// Runs the program on these CPUs only, in taskset's syntax.
    pub fn run_on(&self, cores: &str, folder: &Path, args: &str, limit: Duration) -> Finished {
        let mut by = Command::new("taskset");
        by.args(["-c", cores]).arg(&self.0);
        run(settle(&mut by, folder, args), limit)
    }

    /// Serves volumes, each `NAME=URI`, on free ports.
    pub fn serve(&self, volumes: &[&str]) -> Served {
        let volumes: Vec<String> =
            volumes.iter().map(|volume| format!("--volume {volume}")).collect();
        self.serve_with(&volumes.join(" "))
    }

    /// Serves with these arguments on free ports.
    pub fn serve_with(&self, args: &str) -> Served {
        self.serve_at([0, 0], args)
    }

    /// Serves volumes on these ports, for iSCSI and for NVMe/TCP; 0 is any free one.
    pub fn serve_at(&self, [iscsi, nvme]: [u16; 2], args: &str) -> Served {
        self.serve_by(Command::new(&self.0), [iscsi, nvme], args)
    }

    /// Serves volumes by a command that execs the program.
    pub fn serve_by(&self, mut by: Command, [iscsi, nvme]: [u16; 2], args: &str) -> Served {
        let args = format!("serve --iscsi 127.0.0.1:{iscsi} --nvme-tcp 127.0.0.1:{nvme} {args}");
        let mut running = Running::start(settle(&mut by, &std::env::temp_dir(), &args));
        let (port, nvme_port) = running.await_stdout(READY_LIMIT, |stdout| {
            Some((port(stdout, "iscsi=")?, port(stdout, "nvme-tcp=")?))
        });
        Served { running, port, nvme_port }
    }
}

/// Sets arguments and working directory.
fn settle<'a>(command: &'a mut Command, folder: &Path, args: &str) -> &'a mut Command {
    command.args(args.split_whitespace()).current_dir(folder);
    // Keep out of the user's state.
    command.env("XDG_STATE_HOME", std::env::temp_dir().join("drumfire-test-state"))
}

/// The newest of these files that exist.
fn newest(paths: impl IntoIterator<Item = PathBuf>) -> Option<PathBuf> {
    let written = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).ok();
    paths.into_iter().filter(|path| path.is_file()).max_by_key(written)
}

/// Port in the line `ready iscsi=127.0.0.1:PORT nvme-tcp=…`, once it is printed.
fn port(stdout: &str, protocol: &str) -> Option<u16> {
    let (line, _) = stdout.split_once('\n')?;
    let address =
        line.strip_prefix("ready ")?.split(' ').find_map(|part| part.strip_prefix(protocol));
    address?.rsplit_once(':')?.1.parse().ok()
}

/// A running target, stopped on drop.
#[derive(Debug)]
pub struct Served {
    /// The process.
    pub running: Running,
    /// iSCSI port on loopback.
    pub port: u16,
    /// NVMe/TCP port on loopback.
    pub nvme_port: u16,
}

impl Served {
    /// `iscsi://` and the address of the portal.
    pub fn portal(&self) -> String {
        format!("iscsi://127.0.0.1:{}", self.port)
    }

    /// URI of the volume over iSCSI.
    pub fn uri(&self, name: &str) -> String {
        format!("{}/{IQN}:{name}/1", self.portal())
    }

    /// URI of the volume over NVMe/TCP.
    pub fn nvme_uri(&self, name: &str) -> String {
        format!("nvme+tcp://127.0.0.1:{}/{NQN}:{name}/1", self.nvme_port)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn the_newer_build_is_tested() {
        let folder = crate::Folder::new();
        let [old, new] = ["release", "debug"].map(|name| folder.path().join(name));
        assert_eq!(newest([old.clone(), new.clone()]), None);
        for (path, second) in [(&new, 2000), (&old, 1000)] {
            let file = std::fs::File::create(path).unwrap();
            file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(second)).unwrap();
        }
        assert_eq!(newest([old.clone(), new.clone()]), Some(new.clone()));
        assert_eq!(newest([new.clone(), old]), Some(new));
    }

    #[test]
    fn reads_the_ready_line_once_it_is_whole() {
        assert_eq!(port("ready iscsi=127.0.0.1:32", "iscsi="), None);
        assert_eq!(port("ready iscsi=127.0.0.1:3260\n", "iscsi="), Some(3260));
        let both = "ready nvme-tcp=127.0.0.1:1 iscsi=[::1]:3261\n";
        assert_eq!((port(both, "iscsi="), port(both, "nvme-tcp=")), (Some(3261), Some(1)));
        assert_eq!(port("reading\n", "iscsi="), None);
    }
}
