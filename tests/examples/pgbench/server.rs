//! A database server on an attached volume, with its own and the kernel's counters.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use drumfire_tests::{ControlGroup, Drumfire, Loop, Running, run};
use rustix::process::{Pid, Signal, kill_process};

pub const LIMIT: Duration = Duration::from_secs(900);
/// Scale factor of pgbench, its number of branches: 15 MB each.
pub const SCALE: u32 = 50;
pub const BUFFERS: &str = "32MB";
pub const DRIVE_BYTES: u64 = 4 << 30;
pub const CHECKPOINT_S: u32 = 40;
/// Bytes of log after which a checkpoint begins, with max_wal_size = 512 MB: max_wal_size / (1 +
/// checkpoint_completion_target).
pub const CHECKPOINT_LOG_BYTES: f64 = 512.0 * 1048576.0 / 1.9;
/// Memory limit of all processes of the server, with their page cache.
const MEMORY: &str = "160m";
/// Directory of PostgreSQL's programs in Debian.
const POSTGRES: &str = "/usr/lib/postgresql/15/bin";

/// Counters of the measurement; per transaction unless stated otherwise.
pub struct Measured {
    pub tps: f64,
    pub reads: f64,
    pub written_bytes: f64,
    pub log_bytes: f64,
    /// Bytes of the whole database.
    pub data_bytes: f64,
    pub commit_ms: f64,
    pub commit_p99_ms: f64,
    /// The longest transaction.
    pub longest_s: f64,
    /// Seconds from a crash until clients are let in again; the log's share of them, and its bytes.
    pub restart_s: f64,
    pub redo_s: f64,
    pub redo_bytes: f64,
    /// I/Os of the restart in all.
    pub restart: Counters,
}

/// The kernel's counters of a block device.
#[derive(Clone, Copy)]
pub struct Counters {
    pub reads: f64,
    pub read_bytes: f64,
    pub writes: f64,
    pub written_bytes: f64,
    pub flushes: f64,
}

pub struct Server<'a> {
    drumfire: &'a Drumfire,
    folder: &'a Path,
    /// The limit of its memory, once the database is made.
    group: Option<ControlGroup>,
}

pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl<'a> Server<'a> {
    /// Makes the database once, in a file that each measurement copies.
    pub fn new(drumfire: &'a Drumfire, folder: &'a Path) -> Server<'a> {
        let mut server = Server { drumfire, folder, group: None };
        fs::File::create(folder.join("disk.img")).and_then(|f| f.set_len(DRIVE_BYTES)).unwrap();
        fs::create_dir_all(folder.join("mounted")).unwrap();
        shell(&format!("chown postgres {}", folder.display()));
        server.with("file:disk.img", |device| {
            shell(&format!("mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 {device}"));
            server.mount(device);
            shell(&format!("chown postgres {}", server.place()));
            server.user("initdb -A trust -k -D PLACE/pg");
            let settings = format!(
                "listen_addresses = ''\nunix_socket_directories = 'FOLDER'\n\
                 shared_buffers = {BUFFERS}\n\
                 max_wal_size = 512MB\ncheckpoint_timeout = {CHECKPOINT_S}s\nautovacuum = off\n\
                 log_checkpoints = on\nlog_min_duration_sample = 0\n\
                 log_statement_sample_rate = 0.1\n"
            );
            server.user(&format!("cat >> PLACE/pg/postgresql.conf <<END\n{settings}END"));
            server.start();
            server.user(&format!("pgbench -q -i -s {SCALE}"));
            server.user("psql -qc checkpoint");
            server.user("pg_ctl -w -D PLACE/pg stop");
        });
        shell(&format!("cd {} && cp --sparse=always disk.img made.img", folder.display()));
        let (v1, v2) = ("memory.limit_in_bytes", "memory.max");
        let group = ControlGroup::with(["memory", v1, MEMORY], ["memory", v2, MEMORY]);
        server.group = Some(group.expect("a control group of memory"));
        server
    }

    /// Runs pgbench with the drive under it, kills the server, and restarts it.
    pub fn measure(&self, uri: &str, ramp_s: u64, seconds: u64) -> Measured {
        shell(&format!("cd {} && cp --sparse=always made.img disk.img", self.folder.display()));
        let mut found = None;
        self.with(uri, |device| {
            self.mount(device);
            drop_caches();
            self.start();
            self.user("psql -qc checkpoint");
            self.user(&format!("pgbench -n -c {} -T {ramp_s}", super::CLIENTS));
            self.user(": > FOLDER/log; rm -f FOLDER/tx.*");
            let (before, log) = (counters(device), self.log_bytes());
            let line = format!("pgbench -n -r -l --log-prefix=FOLDER/tx -c {}", super::CLIENTS);
            let said = self.user(&format!("{line} -T {seconds}"));
            let (after, log) = (counters(device), self.log_bytes() - log);
            let data = self.user("psql -qAtc 'select pg_database_size(current_database())'");
            let done = number_after(&said, "actually processed: ");
            let ends = self.ends();
            let (restart_s, restart) = self.restart(device);
            let of_log = fs::read_to_string(self.folder.join("log")).unwrap();
            found = Some(Measured {
                tps: number_after(&said, "tps = "),
                reads: (after.reads - before.reads) / done,
                written_bytes: (after.written_bytes - before.written_bytes) / done,
                log_bytes: log / done,
                data_bytes: data.trim().parse().expect("bytes"),
                commit_ms: ends.iter().sum::<f64>() / ends.len() as f64,
                commit_p99_ms: ends[ends.len() * 99 / 100],
                longest_s: self.longest_s(),
                restart_s,
                redo_s: number_after(last_line(&of_log, "redo done at"), "elapsed: "),
                redo_bytes: 1024.0 * number_after(last_line(&of_log, "distance="), "distance="),
                restart,
            });
            self.user("pg_ctl -w -D PLACE/pg -m immediate stop");
        });
        found.expect("it was measured")
    }

    /// Kills all processes, and lets the server recover: returns the seconds, and the I/Os.
    fn restart(&self, device: &str) -> (f64, Counters) {
        // All processes in the cgroup belong to this server; others of the host keep running.
        let group = self.group.as_ref().expect("the database is made").path();
        let procs = group.join("cgroup.procs");
        let mut killed: Vec<String> = Vec::new();
        // The next server checks whether the last one's process exists, which it does until init
        // has waited for it.
        let there = |id: &String| Path::new("/proc").join(id).exists();
        while {
            killed
                .extend(fs::read_to_string(&procs).unwrap_or_default().lines().map(str::to_owned));
            killed.retain(there);
            !killed.is_empty()
        } {
            for id in killed.iter().filter_map(|id| Pid::from_raw(id.parse().ok()?)) {
                // A process that has ended meanwhile cannot be killed.
                let _ = kill_process(id, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        drop_caches();
        let (before, begun) = (counters(device), Instant::now());
        self.start();
        let (seconds, after) = (begun.elapsed().as_secs_f64(), counters(device));
        let restart = Counters {
            reads: after.reads - before.reads,
            read_bytes: after.read_bytes - before.read_bytes,
            writes: after.writes - before.writes,
            written_bytes: after.written_bytes - before.written_bytes,
            flushes: after.flushes - before.flushes,
        };
        (seconds, restart)
    }

    /// Attaches a volume, and a device over it, during `work`.
    fn with(&self, uri: &str, work: impl FnOnce(&str)) {
        let mut command = self.drumfire.command(self.folder, &format!("attach {uri} drive"));
        let mut attached = Running::start(&mut command);
        attached.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
        let device = Loop::direct(&self.folder.join("drive")).expect("a loop device");
        work(device.path());
        shell(&format!("umount {}", self.place()));
        drop(device);
        self.drumfire.run(self.folder, "detach drive", LIMIT).ok();
        attached.finish(LIMIT).ok();
    }

    fn mount(&self, device: &str) {
        shell(&format!("mount {device} {}", self.place()));
    }

    fn start(&self) {
        self.user("pg_ctl -w -t 600 -D PLACE/pg -l FOLDER/log start >/dev/null");
    }

    fn place(&self) -> String {
        self.folder.join("mounted").display().to_string()
    }

    /// Runs a line of a shell as the user of the database, below the limit of memory.
    fn user(&self, line: &str) -> String {
        let folder = self.folder.display().to_string();
        let line = line.replace("PLACE", &self.place()).replace("FOLDER", &folder);
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "sh", "-c"]);
        command.arg(format!("cd /; {line}"));
        if let Some(group) = &self.group {
            command = group.put(&command);
        }
        command.env("PGHOST", &folder).env("PGDATABASE", "postgres").env("LC_ALL", "C");
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{POSTGRES}:{path}"));
        run(&mut command, LIMIT).ok().stdout
    }

    fn log_bytes(&self) -> f64 {
        self.user("psql -qAtc 'select wal_bytes from pg_stat_wal'").trim().parse().expect("bytes")
    }

    /// Durations of the logged tenth of the commits, sorted, in milliseconds.
    fn ends(&self) -> Vec<f64> {
        let log = fs::read_to_string(self.folder.join("log")).unwrap();
        let lines = log.lines().filter(|line| line.contains("statement: END;"));
        let mut ends: Vec<f64> = lines.map(|line| number_after(line, "duration: ")).collect();
        ends.sort_by(f64::total_cmp);
        ends
    }

    fn longest_s(&self) -> f64 {
        let files = fs::read_dir(self.folder).unwrap().flatten();
        let files = files.filter(|file| file.file_name().to_string_lossy().starts_with("tx."));
        let texts = files.map(|file| fs::read_to_string(file.path()).unwrap());
        let longest = |text: String| -> f64 {
            let times = text.lines().filter_map(|line| line.split(' ').nth(2)?.parse().ok());
            times.fold(0.0, f64::max)
        };
        texts.map(longest).fold(0.0, f64::max) / 1e6
    }
}

fn shell(line: &str) {
    run(Command::new("sh").args(["-c", line]), LIMIT).ok();
}

fn drop_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").expect("it runs as root");
}

/// Linux, Documentation/block/stat.rst.
fn counters(device: &str) -> Counters {
    let name = device.rsplit('/').next().expect("a path");
    let text = fs::read_to_string(format!("/sys/block/{name}/stat")).expect("a block device");
    let of: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    Counters {
        reads: of[0],
        read_bytes: of[2] * 512.0,
        writes: of[4],
        written_bytes: of[6] * 512.0,
        flushes: of[15],
    }
}

fn last_line<'a>(text: &'a str, word: &str) -> &'a str {
    text.lines().rev().find(|line| line.contains(word)).unwrap_or_default()
}

fn number_after(text: &str, word: &str) -> f64 {
    let rest = text.split_once(word).map_or("", |(_, rest)| rest);
    let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    rest[..end.unwrap_or(rest.len())].parse().unwrap_or(f64::NAN)
}
