//! Files and block devices of this host: ours, compared with fio's engines and its `t/io_uring`.
//!
//! Each run creates a file or device full of incompressible data, and removes it. zram and loop
//! devices need root; without it the row is not measured. `t/io_uring` is found by that name on the
//! PATH: add fio's build directory.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::super::programs::{Call, Programs};
use super::{Bench, Contender, INITIATOR_CORE, Row, Sample};

macro_rules! local {
    ($name:literal, $title:literal, $kind:expr) => {
        Row {
            name: $name,
            title: concat!("4 KiB random reads of ", $title, ", 64 outstanding, one core"),
            unit: "IOPS",
            contenders: &[
                Contender { name: "drumfire run", run: |bench| ours(bench, $kind) },
                Contender { name: "fio io_uring", run: |bench| fio(bench, $kind, "io_uring", "") },
                Contender {
                    name: "fio io_uring, tuned",
                    run: |bench| fio(bench, $kind, "io_uring", TUNED),
                },
                Contender {
                    name: "fio libaio, in batches",
                    run: |bench| fio(bench, $kind, "libaio", BATCHES),
                },
                Contender { name: "t/io_uring", run: |bench| t_io_uring(bench, $kind, "") },
                Contender {
                    name: "t/io_uring, batches of 8",
                    run: |bench| t_io_uring(bench, $kind, "-s8 -c8"),
                },
                Contender {
                    name: "t/io_uring, with latencies",
                    run: |bench| t_io_uring(bench, $kind, "-t1"),
                },
            ],
        }
    };
}

/// tmpfs.
pub const TMPFS: Row = local!("local-tmpfs", "a file on tmpfs", Kind::Tmpfs);
/// A block device that completes within the call.
pub const ZRAM: Row = local!("local-zram", "compressed memory", Kind::Zram);
/// The repository's file system.
pub const DISK: Row = local!("local-disk", "a file on disk", Kind::Disk);
/// A block device with a kernel thread.
pub const LOOP: Row = local!("local-loop", "a loop device over tmpfs", Kind::Loop);

const BATCHES: &str = "--iodepth_batch_submit=32 --iodepth_batch_complete_max=32";
const TUNED: &str =
    "--fixedbufs --registerfiles --iodepth_batch_submit=32 --iodepth_batch_complete_max=32";
const MIB: usize = 1 << 20;
/// Size of the file in MiB: more than caches hold.
const SIZE_MIB: usize = 256;

fn ours(bench: &Bench, kind: Kind) -> Result<Sample> {
    let (store, seconds) = (Store::make(bench, kind)?, bench.seconds);
    let args = format!(
        "run file:{} --size 4096 --outstanding 64 --seconds {seconds} --ramp 1 --json",
        store.path.display()
    );
    let call = Call { program: "drumfire", args, core: INITIATOR_CORE };
    Sample::of_drumfire(&bench.programs.run(&call, seconds)?)
}

fn fio(bench: &Bench, kind: Kind, engine: &str, more: &str) -> Result<Sample> {
    let (store, seconds) = (Store::make(bench, kind)?, bench.seconds);
    let args = format!(
        "--name=n --filename={} --readonly --ioengine={engine} --direct=1 --rw=randread --bs=4k \
         --iodepth=64 --size={SIZE_MIB}m --norandommap --runtime={seconds} --ramp_time=1 \
         --time_based --output-format=json {more}",
        store.path.display()
    );
    let call = Call { program: "fio", args, core: INITIATOR_CORE };
    Sample::of_fio(&bench.programs.run(&call, seconds)?)
}

/// Runs fio's `t/io_uring` with its default fixed buffers and registered files, but without its
/// default polled completions: none of these files supports them.
fn t_io_uring(bench: &Bench, kind: Kind, more: &str) -> Result<Sample> {
    let (store, seconds) = (Store::make(bench, kind)?, bench.seconds);
    // The first second is the ramp, and the last line comes before the end.
    let args = format!("-p0 -d64 -b4096 -n1 -r{} {more} {}", seconds + 2, store.path.display());
    let call = Call { program: "t/io_uring", args, core: INITIATOR_CORE };
    Sample::of_t_io_uring(&bench.programs.run(&call, seconds + 2)?)
}

/// Kind of file or device that is read.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Tmpfs,
    Zram,
    Disk,
    Loop,
}

/// A file or device, removed with this.
pub(super) struct Store {
    pub(super) path: PathBuf,
    /// The file, or that of a loop device.
    file: Option<PathBuf>,
    /// Number of a zram device.
    zram: Option<String>,
    is_loop: bool,
}

impl Store {
    pub(super) fn make(bench: &Bench, kind: Kind) -> Result<Store> {
        let mut store =
            Store { path: PathBuf::from("/dev/none"), file: None, zram: None, is_loop: false };
        if matches!(bench.programs, Programs::Dry) {
            return Ok(store);
        }
        let folder = match kind {
            Kind::Tmpfs | Kind::Loop => PathBuf::from("/dev/shm"),
            Kind::Disk | Kind::Zram => crate::target_folder(),
        };
        if kind == Kind::Zram {
            let number = fs::read_to_string("/sys/class/zram-control/hot_add");
            let number = number.context("no zram: be root, and load its module")?;
            let number = store.zram.insert(number.trim().to_owned());
            let size = format!("/sys/block/zram{number}/disksize");
            fs::write(size, format!("{SIZE_MIB}M")).context("the size of zram")?;
            store.path = format!("/dev/zram{number}").into();
        } else {
            store.path = folder.join(format!("drumfire-perf-{}.img", std::process::id()));
            store.file = Some(store.path.clone());
        }
        fill(&store.path).with_context(|| format!("filling {}", store.path.display()))?;
        if kind == Kind::Loop {
            let mut command = Command::new("losetup");
            let output = command.args(["--find", "--show"]).arg(&store.path).output();
            let output = output.context("losetup")?;
            if !output.status.success() {
                bail!("losetup: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            store.path = String::from_utf8_lossy(&output.stdout).trim().into();
            store.is_loop = true;
        }
        Ok(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.is_loop {
            let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
        }
        if let Some(file) = &self.file {
            let _ = fs::remove_file(file);
        }
        if let Some(number) = &self.zram {
            // The last user may still be closing the device, which holds its memory until it is
            // removed.
            let gone = || fs::write("/sys/class/zram-control/hot_remove", number).is_ok();
            if !(0..100).any(|_| gone() || pause()) {
                eprintln!("/dev/zram{number} is still in use: it stays, with its memory");
            }
        }
    }
}

/// False, after a pause.
fn pause() -> bool {
    std::thread::sleep(Duration::from_millis(20));
    false
}

/// Writes random data, and waits until it is stored.
fn fill(path: &Path) -> Result<()> {
    let mut data = vec![0; MIB];
    let mut random = File::open("/dev/urandom")?;
    let mut file = File::options().write(true).create(true).truncate(false).open(path)?;
    for _ in 0..SIZE_MIB {
        random.read_exact(&mut data)?;
        file.write_all(&data)?;
    }
    Ok(file.sync_all()?)
}
