//! A third-party target: tgtd with a file in memory, one process per test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::{Folder, Running, free_port, require, run, skip};

const LIMIT: Duration = Duration::from_secs(300);

/// Fixed folder of tgtd's control sockets.
const SOCKETS: &str = "/var/run/tgtd";

/// tgtd numbers its control sockets below this.
const CONTROL_MAX: u16 = 1 << 15;

/// A tgtd that serves one volume. The process is ended on drop.
#[derive(Debug)]
pub struct Tgt {
    /// The volume.
    pub uri: String,
    control: u16,
    _running: Running,
    folder: Option<Folder>,
}

impl Tgt {
    /// The name of its target.
    pub const NAME: &str = "iqn.2026-11.org.example:tgt";

    /// Whether this machine can run tgtd; if not, the calling test is recorded as skipped.
    pub fn is_installed() -> bool {
        if require("tgtd").is_none() || require("tgtadm").is_none() {
            return false;
        }
        let can = rustix::process::geteuid().is_root();
        if !can {
            skip("tgtd needs root for its control socket");
        }
        can
    }

    /// Starts tgtd with a volume of `len_bytes`. `None`, recorded as skipped, if this machine
    /// cannot.
    pub fn serve(len_bytes: u64) -> Option<Tgt> {
        let folder = Folder::new();
        let disk = folder.path().join("disk");
        let file = File::create(&disk).expect("a folder of ours");
        file.set_len(len_bytes).expect("a sparse file takes no space");
        let mut tgt = Tgt::over(&disk, free_port())?;
        tgt.folder = Some(folder);
        Some(tgt)
    }

    /// Starts tgtd with a file as its volume, at this port. `None`, recorded as skipped, if this
    /// machine cannot.
    pub fn over(disk: &Path, port: u16) -> Option<Tgt> {
        if !Tgt::is_installed() {
            return None;
        }
        let (tgtd, tgtadm) = (require("tgtd")?, require("tgtadm")?);
        let control = free_port() % CONTROL_MAX;
        let portal = format!("portal=127.0.0.1:{port}");
        let mut command = Command::new(tgtd);
        command.args(["-f", "-C", &control.to_string(), "--iscsi", &portal]);
        let mut running = Running::start(&mut command);
        let ask = |words: &str| admin(&tgtadm, control, words);
        // The socket of tgtd exists before tgtd listens.
        running.await_that(LIMIT, |_| {
            let asked =
                socket(control).exists() && told(&tgtadm, control, "--mode target --op show");
            asked.then_some(())
        });
        let iqn = Tgt::NAME;
        ask(&format!("--mode target --op new --tid 1 -T {iqn}"));
        let disk = disk.display();
        ask(&format!("--mode logicalunit --op new --tid 1 --lun 1 -b {disk}"));
        ask("--mode target --op bind --tid 1 -I ALL");
        let uri = format!("iscsi://127.0.0.1:{port}/{iqn}/1");
        Some(Tgt { uri, control, _running: running, folder: None })
    }

    /// Gives tgtd an order by tgtadm.
    pub fn order(&self, words: &str) {
        let tgtadm = require("tgtadm").expect("the target was made with it");
        admin(&tgtadm, self.control, words);
    }
}

impl Drop for Tgt {
    fn drop(&mut self) {
        // tgtd does not clean up its sockets.
        for ending in ["", ".lock"] {
            let _ = std::fs::remove_file(format!("{}{ending}", socket(self.control).display()));
        }
    }
}

fn socket(control: u16) -> PathBuf {
    Path::new(SOCKETS).join(format!("socket.{control}"))
}

/// Runs tgtadm; false if it fails.
fn told(tgtadm: &Path, control: u16, words: &str) -> bool {
    run(&mut order(tgtadm, control, words), LIMIT).code == Some(0)
}

fn admin(tgtadm: &Path, control: u16, words: &str) {
    run(&mut order(tgtadm, control, words), LIMIT).ok();
}

fn order(tgtadm: &Path, control: u16, words: &str) -> Command {
    let mut command = Command::new(tgtadm);
    command.args(["-C", &control.to_string(), "--lld", "iscsi"]).args(words.split(' '));
    command
}
