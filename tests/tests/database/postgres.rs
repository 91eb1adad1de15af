//! PostgreSQL on ext4 on a loop device over a file, and its own tools that look for harm.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Folder, Loop, run, skip};

pub const LIMIT: Duration = Duration::from_secs(300);
/// Directory of PostgreSQL's programs in Debian.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// Whether this machine has the requirements of these tests; if not, the calling test is recorded
/// as skipped.
pub fn is_possible() -> bool {
    if !Path::new(POSTGRES).join("postgres").exists() {
        skip("no PostgreSQL 15: apt-get install postgresql-15");
        return false;
    }
    let fuse = std::fs::File::options().read(true).write(true).open("/dev/fuse").is_ok();
    if !fuse || !rustix::process::geteuid().is_root() {
        skip("a file system on an attached volume wants root and /dev/fuse");
        return false;
    }
    let spare = Folder::new();
    Loop::direct(&spare.file("drive", &[0; 1 << 20])).is_some()
}

/// A database server on a file of a folder.
pub struct Postgres {
    /// Mount point of the file system.
    place: PathBuf,
    drive: PathBuf,
    device: Option<Loop>,
}

impl Postgres {
    /// A database on the file `drive` of this folder, which may not exist yet.
    pub fn new(folder: &Path) -> Postgres {
        let (place, drive) = (folder.join("mounted"), folder.join("drive"));
        Postgres { place, drive, device: None }
    }

    /// Runs a shell command as the user of the database. Returns its output, also if the command
    /// failed.
    pub fn shell(&self, line: &str) -> Result<String, String> {
        let place = self.place.display().to_string();
        let start = "pg_ctl -w -t 120 -D DATA -l DATA/log -o '-k SOCKETS' start";
        let line = line.replace("START", start);
        let line = line.replace("DATA", &format!("{place}/pg")).replace("SOCKETS", &place);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
        command.args(["sh", "-c", &format!("cd /; PATH={POSTGRES}:$PATH; {line}")]);
        command.env("PGHOST", &place).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        let finished = run(&mut command, LIMIT);
        let said = format!("{line}: {}{}", finished.stdout, finished.stderr);
        if finished.code == Some(0) { Ok(said) } else { Err(said) }
    }

    /// The end of the server's log.
    pub fn last_words(&self) -> String {
        std::fs::read_to_string(self.place.join("pg/log")).map_or_else(
            |error| error.to_string(),
            |log| log.lines().rev().take(20).collect::<Vec<_>>().join(" < "),
        )
    }

    fn mount(&mut self) -> Result<(), String> {
        let device = Loop::direct(&self.drive).ok_or("no loop device")?;
        std::fs::create_dir_all(&self.place).unwrap();
        let mounted = run(Command::new("mount").arg(device.path()).arg(&self.place), LIMIT);
        self.device = Some(device);
        if mounted.code == Some(0) { Ok(()) } else { Err(mounted.stderr) }
    }

    pub fn unmount(&mut self) {
        if run(Command::new("umount").arg(&self.place), LIMIT).code != Some(0) {
            run(Command::new("umount").arg("-l").arg(&self.place), LIMIT);
        }
        self.device = None;
    }

    /// Creates a file system, a database with checksums, and pgbench's tables; the server runs
    /// then.
    pub fn make(&mut self) -> Result<(), String> {
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&self.drive), LIMIT).ok();
        self.mount()?;
        run(Command::new("chown").arg("postgres").arg(&self.place), LIMIT).ok();
        self.shell(
            "initdb -k -A trust -D DATA && cat >> DATA/postgresql.conf <<END\n\
             listen_addresses = ''\n\
             shared_buffers = 16MB\ncheckpoint_timeout = 30s\nmax_wal_size = 64MB\nEND",
        )?;
        self.shell("START")?;
        self.shell(
            "(psql -c 'create extension amcheck' && pgbench -q -i -s 4 && psql -c checkpoint) || \
             (tail -20 DATA/log; false)",
        )?;
        // The settings are outside of the test.
        self.shell("sync -f DATA/postgresql.conf").map(drop)
    }

    /// Creates the database by copying the drive of another one that has stopped.
    pub fn make_of(&mut self, image: &Path) -> Result<(), String> {
        let mut copy = Command::new("dd");
        copy.args(["bs=1M", "conv=sparse,notrunc,fsync"]);
        copy.arg(format!("if={}", image.display())).arg(format!("of={}", self.drive.display()));
        let copied = run(&mut copy, LIMIT);
        if copied.code != Some(0) {
            return Err(copied.stderr);
        }
        self.mount()?;
        self.shell("START").map(drop)
    }

    /// Ends the database in order and copies its drive.
    pub fn copy(mut self, image: &Path) -> Result<(), String> {
        self.shell("pg_ctl -w -m fast -D DATA stop")?;
        self.unmount();
        let mut copy = Command::new("cp");
        let copied = run(copy.arg("--sparse=always").arg(&self.drive).arg(image), LIMIT);
        if copied.code == Some(0) { Ok(()) } else { Err(copied.stderr) }
    }

    /// Mounts the drive again, starts the database, and checks it. With `mend`, a file system that
    /// cannot be mounted is repaired first, as its administrator would.
    pub fn restart(&mut self, mend: bool) -> Result<(), String> {
        if let Err(why) = self.mount() {
            if !mend {
                return Err(why);
            }
            self.unmount();
            run(Command::new("fsck.ext4").args(["-f", "-y"]).arg(&self.drive), LIMIT);
            self.mount().map_err(|again| format!("{why}; after fsck: {again}"))?;
        }
        self.start()?;
        self.check()
    }

    /// Mounts the drive again and starts the database, which recovers.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.mount()?;
        self.start()
    }

    fn start(&self) -> Result<(), String> {
        let left = "rm -f DATA/postmaster.pid SOCKETS/.s.PGSQL.*.lock";
        self.shell(&format!("{left}; START || (tail -20 DATA/log; false)")).map(drop)
    }

    /// Damage of the database, in the words of the program that found it; the database has stopped
    /// then.
    pub fn check(&self) -> Result<(), String> {
        self.shell("pg_amcheck -a --heapallindexed")?;
        // Each transaction of pgbench adds to an account the delta that it records.
        self.shell(
            "psql -At -c 'select sum(abalance) = (select coalesce(sum(delta), 0) \
             from pgbench_history) from pgbench_accounts' | grep -qx t",
        )?;
        self.shell("pg_ctl -w -m fast -D DATA stop && pg_checksums --check -D DATA").map(drop)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.device.is_some() {
            let _ = self.shell("pg_ctl -m immediate -D DATA stop");
            self.unmount();
        }
    }
}
