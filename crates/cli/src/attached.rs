//! `drumfire attach` and `detach`: a volume as an ordinary file, or as a block device.

use std::path::PathBuf;
use std::sync::Arc;

use ::attach::{Options, attach as attach_volume, attach_device, detach as detach_place};
use anyhow::Result;
use volume::{Purpose, Uri};

use crate::exit::Exit;
use crate::news::News;
use crate::output::{note, print_line};
use crate::{opened, placement, signal};

/// `drumfire attach`.
#[derive(clap::Args, Clone, Debug)]
#[command(after_long_help = "A file system on an attached file, or on a block device:\n\
    mkfs.ext4 /tmp/disk && mount -o loop /tmp/disk /mnt\n\
    mkfs.ext4 /dev/ublkb0 && mount /dev/ublkb0 /mnt")]
pub struct Attach {
    /// The volume: ram:4g, file:PATH, iscsi://HOST/IQN/LUN?reconnect=60s, delay:PROFILE(URI), …
    #[arg(value_name = "URI")]
    volume: Uri,
    /// Path of the file: empty or not there yet. With --ublk the device, such as /dev/ublkb0
    /// [default: the first that is free].
    #[arg(value_name = "FILE", required_unless_present = "ublk")]
    file: Option<PathBuf>,
    /// A block device, /dev/ublkbN, instead of a file. Needs root and Linux 6.4 or newer with its
    /// module ublk_drv.
    #[arg(long)]
    ublk: bool,
    /// Read only.
    #[arg(long)]
    read_only: bool,
    /// Other users may access the file, as its mode allows [default: only the user who attaches
    /// it].
    #[arg(long, conflicts_with = "ublk")]
    allow_other: bool,
    /// CPUs to serve on [default: all, 4 at most].
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    cores: Vec<usize>,
}

/// `drumfire detach`.
#[derive(clap::Args, Clone, Debug)]
pub struct Detach {
    /// The file, or the device: /dev/ublkbN.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// More threads than this wait for each other in the kernel.
const CORES_MOST: usize = 4;

/// Serves the file or device until it is detached or a stop is requested.
pub fn attach(of: &Attach) -> Result<Exit> {
    let purpose = if of.read_only { Purpose::Read } else { Purpose::Store };
    let volume = opened::open(&of.volume.to_the_byte(), purpose)?;
    let cores = placement::chosen(&of.cores, CORES_MOST)?;
    let cores = placement::of_lanes(cores, [(&*of.volume.to_string(), &*volume)]);
    let options = Options { allow_other: of.allow_other, read_only: of.read_only, cores };
    let log = Arc::new(|line: &str| note(format_args!("drumfire: {line}")));
    let signals = signal::on_signal()?;
    let served = Arc::clone(&volume);
    let attached = match &of.file {
        Some(file) if !of.ublk => attach_volume(served, file, &options, log)?,
        node => attach_device(served, node.as_deref(), &options, log)?,
    };
    print_line(format_args!("ready {}", attached.file().display()))?;
    let stopper = attached.stopper();
    std::thread::Builder::new().name("stopper".to_owned()).spawn(move || {
        // The channel closes only if the thread that sends to it ends.
        if signals.recv().is_ok() {
            stopper.stop();
        }
    })?;
    let news = News::of({
        let watched = vec![(of.volume.to_string(), Arc::clone(&volume))];
        move || watched.clone()
    })?;
    let ended = attached.wait();
    drop(news);
    ended?;
    if let Some(incidents) = volume.incidents() {
        note(format_args!("drumfire: {}: {incidents}", of.volume));
    }
    Ok(Exit::Good)
}

/// Takes the file or device away.
pub fn detach(of: &Detach) -> Result<Exit> {
    detach_place(&of.file)?;
    Ok(Exit::Good)
}
