//! A server of one volume, ours or a third party's, that is killed and restarts at its port.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::{Chance, Drumfire, IQN, NQN, Patience, Running, Tgt, free_port, qemu_nbd, require};

const LIMIT: Duration = Duration::from_secs(120);
/// Schedule of a write cache that is lost with its process.
const CACHE: &str = "name = 'a cache'\nseed = 7\n[cache]\nsize = '1m'\n";

/// Server programs and protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// This project's server, over iSCSI.
    Iscsi,
    /// This project's server, over NVMe/TCP.
    Nvme,
    /// This project's server, over NBD.
    Nbd,
    /// qemu-nbd, over NBD.
    QemuNbd,
    /// nbdkit, over NBD.
    Nbdkit,
    /// tgtd, over iSCSI.
    Tgt,
}

impl Server {
    /// This project's servers.
    pub const OURS: [Server; 3] = [Server::Iscsi, Server::Nvme, Server::Nbd];
    /// Third-party servers.
    pub const OTHERS: [Server; 3] = [Server::QemuNbd, Server::Nbdkit, Server::Tgt];

    /// Any of the installed servers.
    pub fn any(chance: &mut Chance) -> Server {
        let all: Vec<Server> = Server::OURS.into_iter().chain(Server::OTHERS).collect();
        let drawn = all[chance.below(all.len() as u64) as usize];
        if drawn.is_installed() { drawn } else { Server::OURS[chance.below(3) as usize] }
    }

    fn is_installed(self) -> bool {
        match self {
            Server::QemuNbd => qemu_nbd().is_some(),
            Server::Nbdkit => require("nbdkit").is_some(),
            Server::Tgt => Tgt::is_installed(),
            _ => true,
        }
    }

    /// Whether the program is ours.
    pub fn is_ours(self) -> bool {
        Server::OURS.contains(&self)
    }

    /// Whether the server's protocol is NBD, which cannot end I/Os of a lost connection.
    pub fn is_nbd(self) -> bool {
        matches!(self, Server::Nbd | Server::QemuNbd | Server::Nbdkit)
    }
}

/// Storage that a server serves.
#[derive(Clone, Debug)]
pub enum Below {
    /// A file, whose unflushed data are lost with its server.
    File(PathBuf),
    /// The NBD server at this port.
    Nbd(u16),
}

/// The server, up or down.
#[derive(Debug)]
pub struct Far {
    /// The program and protocol.
    pub server: Server,
    drumfire: Drumfire,
    folder: PathBuf,
    below: Below,
    port: u16,
    /// Content of the file at the last flush, for servers whose cache is the kernel's.
    flushed: Option<Vec<u8>>,
    up: Option<Up>,
    /// Attached file between tgtd and a volume that is not a file.
    attached: Option<Running>,
}

#[derive(Debug)]
enum Up {
    Process(Running),
    Tgt(Tgt),
}

impl Far {
    /// Starts the server.
    pub fn start(server: Server, drumfire: &Drumfire, folder: &Path, below: Below) -> Far {
        let (drumfire, folder) = (drumfire.clone(), folder.to_owned());
        fs::write(folder.join("cache.toml"), CACHE).expect("a folder of the test");
        let port = free_port();
        let (flushed, up, attached) = (None, None, None);
        let mut far = Far { server, drumfire, folder, below, port, flushed, up, attached };
        far.come_back();
        far
    }

    /// The URI of its volume.
    pub fn uri(&self) -> String {
        let at = format!("127.0.0.1:{}", self.port);
        match self.server {
            Server::Iscsi => format!("iscsi://{at}/{IQN}:leg/1"),
            Server::Tgt => format!("iscsi://{at}/{}/1", Tgt::NAME),
            Server::Nvme => format!("nvme+tcp://{at}/{NQN}:leg/1"),
            _ => format!("nbd://{at}/leg"),
        }
    }

    /// Sets the state to which the next power cut reverts: call it after a flush.
    pub fn was_flushed(&mut self) {
        let Below::File(file) = &self.below else { return };
        if !self.server.is_ours() {
            self.flushed = Some(fs::read(file).expect("a file of the test"));
        }
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        match self.up.take() {
            Some(Up::Process(running)) => {
                running.signal(Signal::KILL);
                running.finish(LIMIT);
            }
            Some(Up::Tgt(tgt)) => drop(tgt),
            None => {}
        }
    }

    /// Kills the server, and loses unflushed data: our servers have a separate cache, and files of
    /// others revert to the last flush.
    pub fn cut_power(&mut self) {
        self.kill();
        if let (Below::File(file), Some(flushed)) = (&self.below, &self.flushed) {
            fs::write(file, flushed).expect("a file of the test");
        }
    }

    /// Restarts the server at its port.
    pub fn come_back(&mut self) {
        let port = self.port;
        let up = match self.server {
            Server::Iscsi => Up::Process(self.ours("--iscsi")),
            Server::Nvme => Up::Process(self.ours("--nvme-tcp")),
            Server::Nbd => Up::Process(self.ours("--nbd")),
            Server::QemuNbd => {
                let mut command = Command::new(qemu_nbd().expect("it is installed"));
                command.args(["-f", "raw", "-t", "-b", "127.0.0.1", "-x", "leg", "-e", "16"]);
                command.args(["-p", &port.to_string()]).arg(self.plain());
                Up::Process(Running::start(&mut command))
            }
            Server::Nbdkit => {
                let mut command = Command::new(require("nbdkit").expect("it is installed"));
                command.args(["-f", "-i", "127.0.0.1", "-p", &port.to_string()]);
                match &self.below {
                    Below::File(file) => command.arg("file").arg(file),
                    Below::Nbd(_) => command.arg("nbd").arg(format!("uri={}", self.plain())),
                };
                Up::Process(Running::start(&mut command))
            }
            Server::Tgt => {
                let file = self.file_for_tgt();
                Up::Tgt(Tgt::over(&file, port).expect("it is installed"))
            }
        };
        let mut patience = Patience::new(LIMIT);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(patience.wait(), "{:?} does not listen: {up:?}", self.server);
        }
        self.up = Some(up);
    }

    fn ours(&self, flag: &str) -> Running {
        let volume = match &self.below {
            Below::File(file) => format!("fault:cache.toml(file:{})", file.display()),
            Below::Nbd(_) => self.plain(),
        };
        let args = format!("serve {flag} 127.0.0.1:{} --volume leg={volume}", self.port);
        let mut running = Running::start(&mut self.drumfire.command(&self.folder, &args));
        running.await_stdout(LIMIT, |stdout| stdout.starts_with("ready ").then_some(()));
        running
    }

    /// The name of the storage, for others' programs.
    fn plain(&self) -> String {
        match &self.below {
            Below::File(file) => file.display().to_string(),
            Below::Nbd(port) => format!("nbd://127.0.0.1:{port}/disk"),
        }
    }

    /// File for tgtd, which serves files only: other volumes are attached as one.
    fn file_for_tgt(&mut self) -> PathBuf {
        let Below::Nbd(port) = self.below else { return self.plain().into() };
        let file = self.folder.join(format!("attached-{port}"));
        if self.attached.is_none() {
            let args = format!("attach {} {}", self.plain(), file.display());
            let mut running = Running::start(&mut self.drumfire.command(&self.folder, &args));
            running.await_stdout(LIMIT, |stdout| stdout.starts_with("ready ").then_some(()));
            self.attached = Some(running);
        }
        file
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        self.kill();
        if let Some(attached) = self.attached.take() {
            attached.signal(Signal::TERM);
            attached.finish(LIMIT);
        }
    }
}
