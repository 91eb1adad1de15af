//! PostgreSQL on emulated drives, each predicted before it is measured:
//! `TMPDIR=/dev/shm cargo run --release -p drumfire-tests --example pgbench [SECONDS [DRIVE…]]`, as
//! root. `DRUMFIRE_BIN` names the program.
//!
//! pgbench on memory measures the cost of a transaction; `drumfire database` predicts the rate on
//! each drive from this cost; pgbench on each drive, emulated on the same memory, measures the
//! rate.

mod server;

use std::path::Path;

use drumfire_tests::{Drumfire, Folder};
use serde_json::Value;

use server::{Measured, Server};

const CLIENTS: u32 = 8;
/// Before anything counts: the cache fills.
const RAMP_S: u64 = 20;
const DRIVES: [&str; 4] = ["disk-15k", "x25-m", "iodrive-duo-640", "p5800x-800"];

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().map_or(60, |text| text.parse().expect("seconds"));
    let named: Vec<String> = args.collect();
    let drives = if named.is_empty() { DRIVES.map(str::to_owned).to_vec() } else { named };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let server = Server::new(&drumfire, folder.path());
    let on_memory = server.measure("file:disk.img", RAMP_S, seconds);
    let description = describe(&on_memory);
    std::fs::write(folder.path().join("pgbench.toml"), &description).expect("it is our folder");
    println!("{description}");
    println!(
        "drive            commits/s (predicted)   commit ms   p99 ms   longest s   restart s\n\
         memory           {:>9.0}",
        on_memory.tps
    );
    for drive in drives {
        let predicted = predict(&drumfire, folder.path(), &drive, seconds);
        let found = server.measure(&format!("delay:{drive}(file:disk.img)"), RAMP_S, seconds);
        row(&drive, &found, &predicted);
    }
}

/// Description of the database for `drumfire database`.
fn describe(found: &Measured) -> String {
    let pages = (found.written_bytes - found.log_bytes).max(0.0) / 8192.0;
    let redo = found.redo_bytes.max(1.0);
    format!(
        "name = \"pgbench, {scale} branches, {buffers}\"\nclients = {CLIENTS}\ncores = {cores}\n\
         data_bytes = {data}\ndrive_bytes = {drive}\n[transaction]\ncpu_s = {cpu:.3e}\n\
         reads = {reads:.3}\nlog_bytes = {log:.0}\nwrites = {pages:.3}\nhot_rows = {scale}\n\
         [writeback]\ndepth = 16\nburst = 64\nsync_depth = 64\npages_max = 12000\n\
         checkpoint_s = {every}\n\
         checkpoint_log_bytes = {log_max:.3e}\nfiles = 20\n[recovery]\n\
         cpu_s_per_byte = {slow:.2e}\n\
         reads_per_byte = {read_each:.3e}\nread_bytes = {read_bytes:.0}\nread_depth = 10\n\
         writes_per_byte = {write_each:.3e}\nwrite_bytes = {write_bytes:.0}\n\
         flushes = {flushes:.0}\n\
         fixed_s = {fixed:.2}\n",
        scale = server::SCALE,
        buffers = server::BUFFERS,
        cores = server::cores(),
        data = found.data_bytes,
        drive = server::DRIVE_BYTES,
        // On memory the cores are the bottleneck; the share of them that 8 clients cannot keep busy
        // is attributed to the transactions.
        cpu = server::cores() as f64 / found.tps,
        reads = found.reads,
        log = found.log_bytes,
        every = server::CHECKPOINT_S,
        log_max = server::CHECKPOINT_LOG_BYTES,
        slow = found.redo_s / redo,
        read_each = found.restart.reads / redo,
        read_bytes = found.restart.read_bytes / found.restart.reads.max(1.0),
        write_each = found.restart.writes / redo,
        write_bytes = found.restart.written_bytes / found.restart.writes.max(1.0),
        flushes = found.restart.flushes,
        fixed = (found.restart_s - found.redo_s).max(0.0),
    )
}

fn predict(drumfire: &Drumfire, folder: &Path, drive: &str, seconds: u64) -> Value {
    let args = format!("database pgbench.toml {drive} --seconds {seconds} --ramp {RAMP_S} --json");
    drumfire.run(folder, &args, server::LIMIT).ok().json()["drives"][0]["forecast"].clone()
}

fn row(drive: &str, found: &Measured, predicted: &Value) {
    let of = |place: &str| predicted.pointer(place).and_then(Value::as_f64).unwrap_or(f64::NAN);
    let tps = of("/tps");
    println!(
        "{drive:16} {:>9.0} ({tps:>5.0}, {:+.0} %)  {:>5.1} ({:.1})  {:>5.1} ({:.1})  \
         {:>5.2} ({:.2})  {:>5.1} ({:.1})",
        found.tps,
        (tps / found.tps - 1.0) * 100.0,
        found.commit_ms,
        of("/commit/mean_s") * 1e3,
        found.commit_p99_ms,
        of("/commit/p99_s") * 1e3,
        found.longest_s,
        of("/transaction/max_s"),
        found.restart_s,
        of("/recovery_s"),
    );
}
