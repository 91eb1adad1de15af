//! Command line arguments of all commands.

use std::net::SocketAddr;
use std::path::PathBuf;

use block::parse_size;
use clap::{Args as Flags, Parser, Subcommand, ValueEnum};
use job::spec::{Access, Arrivals, Line, Pacing, Places, Rate, Workload};

use crate::exit::UsageError;

/// Serve, drive, measure and predict block storage at a million IOPS.
#[derive(Parser)]
#[command(name = "drumfire", version = env!("DRUMFIRE_VERSION"), arg_required_else_help = true)]
#[command(after_long_help = "Exit codes: 0 ok, 1 failed, 2 usage, 3 honesty check failed under \
    --strict, 4 missed or impossible, 5 data differ, 6 partial result, 130 interrupted.")]
pub struct Args {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto, display_order = 1000)]
    pub color: Color,
}

/// The sub-commands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve RAM volumes on loopback, drive them all, and show the rate.
    Race(Race),
    /// Run a target until SIGTERM or SIGINT.
    Serve(Serve),
    /// Mount a volume as a regular file, for any program, until SIGTERM, SIGINT or detach.
    Attach(crate::attached::Attach),
    /// Flush an attached file or device and remove it.
    Detach(crate::attached::Detach),
    /// Back up files and volumes, in parallel and compressed, and restore them.
    Backup(crate::backup::Args),
    /// Create, show and change arrays: mirrors whose legs carry superblocks.
    Volume(crate::volumes::Args),
    /// Drive storage.
    Run(Run),
    /// Drive storage like fio: fio's command line, job files and output.
    Fio(crate::fio::Args),
    /// Drive storage with varying settings, and find the knee.
    Sweep(Box<crate::sweep::Args>),
    /// Print the results of runs again, in another format.
    Report(crate::report::Args),
    /// Merge the parts of several hosts, or results of fio, into one.
    Merge(crate::merge::Args),
    /// Compare two runs or sweeps: what changed, and whether it exceeds the noise.
    Compare(crate::compare::Args),
    /// Explain a job file: what would run, and which options are refused or ignored.
    Explain(crate::explain::Args),
    /// List the targets of a portal.
    Discover(Discover),
    /// Show and change a running server: its volumes, connections and lists of hosts.
    Ctl(crate::ctl::Args),
    /// Find causes of wrong measurements on this host, and their fixes.
    Doctor(crate::doctor::Args),
    /// Predict the performance of a system of parts, or search for a system.
    Plan(Box<crate::plan::Args>),
    /// Run a system of parts, or a profile, event by event in virtual time.
    Simulate(Box<crate::simulate::Args>),
    /// Predict how many transactions a database commits on drives.
    Database(crate::database::Args),
    /// Reproduce the systems of the founding documents, as a model and on this machine.
    Scenario(crate::scenario::Args),
    /// Fit a profile of a drive to the results of sweeps.
    Calibrate(crate::calibrate::Args),
    /// Check a claim against physical limits, links and the ratings of parts.
    Audit(Box<crate::audit::Args>),
    /// Look up figures of parts, with their sources.
    Catalogue(crate::catalogue::Args),
    /// Print the completions of a shell.
    Completions(crate::completions::Args),
    /// Show the manual page of a command.
    Man(crate::man::Args),
}

/// When to use colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Protocol of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// iSCSI over TCP.
    Iscsi,
    /// NVMe over TCP.
    NvmeTcp,
    /// vhost-user, in shared memory.
    VhostUser,
}

/// Flags of all commands that drive storage.
#[derive(Flags, Clone, Debug)]
pub struct Drive {
    /// I/O size.
    #[arg(long, alias = "bs", value_parser = size32, default_value = "4k")]
    pub size: u32,
    /// Percentage of reads; the rest are writes [default: 100].
    #[arg(long, alias = "rwmixread", value_name = "PERCENT", value_parser = number)]
    pub read: Option<f64>,
    /// Percentage of random I/Os; the rest are sequential [default: 100].
    #[arg(long, value_name = "PERCENT", value_parser = number)]
    pub random: Option<f64>,
    /// The mix in fio's words.
    #[arg(long, value_enum, value_name = "WORD", conflicts_with = "random")]
    pub rw: Option<FioMix>,
    /// Alignment of offsets [default: the I/O size].
    #[arg(long, value_parser = size32, value_name = "SIZE")]
    pub align: Option<u32>,
    /// Distribution of random offsets: uniform, once (each block once before any again), zipf:1.2,
    /// pareto:0.2, normal:10 (standard deviation in percent of the volume).
    #[arg(long, alias = "random_distribution", value_name = "LAW", default_value = "uniform")]
    pub places: Places,
    /// Queue depth of each worker; with --rate, the maximum in flight.
    #[arg(long, alias = "iodepth", default_value_t = 32, value_name = "N")]
    pub outstanding: u32,
    /// Open loop: start this many I/Os per second, over all workers: 50k, 1.2M; or bytes: 200MB.
    /// Response times count from the scheduled start.
    #[arg(long, alias = "rate_iops", value_name = "RATE")]
    pub rate: Option<Rate>,
    /// Arrival process of --rate.
    #[arg(long, alias = "rate_process", value_enum, default_value_t = Spread::Constant)]
    pub arrivals: Spread,
    /// Length of the measured window, also as 500ms, 10s, 2m, 1h [default: 10, or as in the job
    /// file].
    #[arg(long, alias = "runtime", value_parser = seconds)]
    pub seconds: Option<f64>,
    /// Ramp before the measured window, not measured.
    #[arg(long, alias = "ramp_time", default_value = "2", value_name = "SECONDS")]
    #[arg(value_parser = seconds)]
    pub ramp: f64,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document, the result, instead of the table.
    #[arg(long)]
    pub json: bool,
    /// Append one JSON object per second to this file during the run; - is stdout, in place of the
    /// table.
    #[arg(long, value_name = "FILE")]
    pub json_lines: Option<PathBuf>,
    /// Folder for the result [default: drumfire-runs/TIME-NAME].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace the result in the folder of --out once the new one is complete; a sweep restarts.
    #[arg(long, requires = "out")]
    pub replace: bool,
    /// Exit with 3 if an honesty check fails.
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub asked: crate::thresholds::Thresholds,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub watch: crate::watch::Watching,
    /// Record what each core does, from the start of the measured window, for
    /// https://ui.perfetto.dev: 2s, or 2s:FILE [default file: trace.json in the run's folder].
    #[arg(long, value_name = "TIME[:FILE]", value_parser = crate::traced::parse)]
    pub trace: Option<crate::traced::Traced>,
    /// After the run, measure the generator's maximum rate for 2.5 s, and compare the result with
    /// it (honesty check H10). By default this takes 1 s, and only if the CPUs of the run were
    /// always busy. Jobs without --verify, on several busy CPUs, then run again for 2.5 s on half
    /// of the CPUs and on all.
    #[arg(long)]
    pub ceiling: bool,
    /// Do not measure the limit of the load generator.
    #[arg(long, conflicts_with = "ceiling")]
    pub no_ceiling: bool,
    /// Do not read random offsets of the volumes before and after the run. These reads show whether
    /// a cache served the run (honesty check H25), and take up to 2 s.
    #[arg(long)]
    pub no_cold_reads: bool,
}

/// Distribution of planned starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// At equal intervals.
    #[value(alias = "linear")]
    Constant,
    /// A Poisson process.
    Poisson,
}

/// Mixes with fio's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub enum FioMix {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    RandRead,
    /// Random writes.
    RandWrite,
    /// Sequential reads and writes, half of each by default.
    #[value(name = "rw", alias = "readwrite")]
    Both,
    /// Random reads and writes, half of each by default.
    #[value(name = "randrw")]
    RandBoth,
}

impl Drive {
    /// Seconds of the measured window of a job given by flags.
    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(10.0)
    }

    /// Access specification of each worker, from `--rw`, `--read`, `--random` and the size.
    pub fn access(&self) -> Result<Access, UsageError> {
        let half = 50.0;
        let (read, random) = match self.rw {
            None => (None, self.random.unwrap_or(100.0)),
            Some(FioMix::Read) => (Some(100.0), 0.0),
            Some(FioMix::Write) => (Some(0.0), 0.0),
            Some(FioMix::RandRead) => (Some(100.0), 100.0),
            Some(FioMix::RandWrite) => (Some(0.0), 100.0),
            Some(FioMix::Both) => (None, 0.0),
            Some(FioMix::RandBoth) => (None, 100.0),
        };
        let default = if self.rw.is_some() { half } else { 100.0 };
        let read_percent = match (read, self.read) {
            (Some(_), Some(_)) => {
                return Err(UsageError("--read goes with --rw rw and --rw randrw only".to_owned()));
            }
            (fixed, asked) => fixed.or(asked).unwrap_or(default),
        };
        let line = Line { align_bytes: self.align, ..Line::new(self.size, read_percent, random) };
        Ok(Access { random: self.places.clone(), ..Access::of(vec![line]) })
    }

    /// Workload of one of several workers.
    pub fn workload(&self, workers: u32) -> Result<Workload, UsageError> {
        let arrivals = match self.arrivals {
            Spread::Constant => Arrivals::Constant,
            Spread::Poisson => Arrivals::Poisson,
        };
        if self.rate.is_none() && self.arrivals != Spread::Constant {
            return Err(UsageError("--arrivals goes with --rate".to_owned()));
        }
        let each = |rate: f64| rate / f64::from(workers.max(1));
        let pacing = match self.rate {
            None => Pacing::Closed,
            Some(Rate::Ios(rate)) => Pacing::Ios { per_second: each(rate), arrivals },
            Some(Rate::Bytes(rate)) => Pacing::Bytes { per_second: each(rate), arrivals },
        };
        Ok(Workload { pacing, ..Workload::new(self.access()?, self.outstanding) })
    }
}

/// `drumfire race`. Records of IOPS are held with the smallest I/O, so that is what it races with.
#[derive(Flags, Clone, Debug)]
#[command(mut_arg("size", |size| size.default_value("512")))]
pub struct Race {
    /// Protocol to the volumes.
    #[arg(long, value_enum, default_value_t = Protocol::Iscsi)]
    pub protocol: Protocol,
    /// Number of targets.
    #[arg(long, default_value_t = 10, value_name = "N")]
    pub targets: u32,
    /// Volumes of each target; each has its own workers.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub volumes: u32,
    /// Workers for each volume, each with its own connection.
    #[arg(long, alias = "numjobs", default_value_t = 1, value_name = "N")]
    pub workers: u32,
    /// CPUs for both ends, as 0 or 0-3 [default: all].
    #[arg(long, default_value = "", hide_default_value = true, value_name = "CPU-CPU")]
    pub cores: String,
    /// Capacity of each volume.
    #[arg(long, value_parser = size64, default_value = "64m", value_name = "SIZE")]
    pub volume_size: u64,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub drive: Drive,
}

/// `drumfire serve`.
#[derive(Flags, Clone, Debug)]
#[command(after_long_help = "--volume disk=ram:1g makes target iqn.2026-11.io.drumfire:disk with \
    one logical unit, LUN 1.")]
pub struct Serve {
    /// TOML file with the same settings and the allowed hosts.
    pub config: Option<PathBuf>,
    /// Address of the iSCSI portal, or several with commas; port 0 picks a free one [default:
    /// 127.0.0.1:3260].
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT", value_parser = address)]
    pub iscsi: Vec<SocketAddr>,
    /// Address of the NVMe/TCP listener; 4420 is usual.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT", value_parser = address)]
    pub nvme_tcp: Vec<SocketAddr>,
    /// Address of the NBD listener; 10809 is usual.
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS:PORT", value_parser = address)]
    pub nbd: Vec<SocketAddr>,
    /// Folder for a vhost-user socket of each volume, NAME.sock, for virtual machines and programs
    /// on this host. Without the other protocols.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["iscsi", "nvme_tcp", "nbd", "config",
        "chap", "control", "id", "memory", "listen", "removable", "keep_reservations",
        "log_connections"])]
    pub vhost_user: Option<PathBuf>,
    /// A volume: NAME=URI makes a target with it at LUN 1, NAME/LUN=URI adds a LUN.
    #[arg(long, value_name = "NAME=URI")]
    pub volume: Vec<String>,
    /// Identity for multipath: hosts treat volumes of the same name and LUN, on servers with the
    /// same text, as paths to one disk [default: a saved identity of this server].
    #[arg(long, value_name = "TEXT")]
    pub id: Option<String>,
    /// File with secrets of CHAP that every iSCSI initiator has to prove, of mode 0600.
    #[arg(long, value_name = "FILE")]
    pub chap: Option<PathBuf>,
    /// CPUs to serve on [default: all].
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    pub cores: Vec<usize>,
    /// Memory for connections and their buffers, without RAM volumes [default: a quarter of the
    /// available memory, at most 4g].
    #[arg(long, value_parser = size64, value_name = "SIZE")]
    pub memory: Option<u64>,
    /// Volumes that no host may change: NAME, or NAME/LUN.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub read_only: Vec<String>,
    /// Log each login of a host and the end of its connection.
    #[arg(long)]
    pub log_connections: bool,
    /// Volumes whose medium iSCSI initiators can eject and load: NAME, or NAME/LUN.
    #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
    pub removable: Vec<String>,
    /// Keep reservations over restarts, if hosts request it: APTPL over iSCSI, CPTPL over NVMe/TCP.
    /// They are in the folder of the server's state. RAM volumes need --id.
    #[arg(long)]
    pub keep_reservations: bool,
    /// Socket for drumfire ctl, which adds and removes volumes meanwhile; SIGHUP then reads the
    /// TOML file again.
    #[arg(long, value_name = "SOCKET")]
    pub control: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub watch: crate::watch::Watching,
}

/// `drumfire run`.
#[derive(Flags, Clone, Debug)]
#[command(after_long_help = "Volumes: null:1t, ram:4g, file:PATH, iscsi://HOST[:PORT]/IQN/LUN,\n\
    nvme+tcp://HOST[:PORT]/NQN/NSID, nbd://HOST[:PORT]/EXPORT, vhost-user:SOCKET,\n\
    delay:DRIVE(URI): as slow as a drive of the catalogue, delay:cd6(ram:1g), or a profile.\n\
    Behind a remote one, each if wanted:\n\
    ?reconnect=30s&grace=30s&io_timeout=30s and\n\
    &header-digest=1&data-digest=1&initiator=NAME&chap=FILE")]
pub struct Run {
    /// Volumes to drive, or a job file and its volumes. A job file is the job.toml of an earlier
    /// run, a fio job file (.fio) or an Iometer configuration (.icf), followed by volumes for the
    /// targets that it names.
    #[arg(required = true, value_name = "URI")]
    pub volumes: Vec<String>,
    /// A built-in job: oltp-4k, oltp-8k, file-server, web-server, backup, steady-state.
    #[arg(long, value_name = "NAME")]
    pub preset: Option<String>,
    /// Workers for each volume.
    #[arg(long, alias = "numjobs", default_value_t = 1, value_name = "N")]
    pub workers: u32,
    /// Under mpirun: ranks or hosts that serve, and the arguments of their drumfire serve, as
    /// '1-10: --volume disk=ram:1g'. The other ranks drive them as the volume served. Can be
    /// repeated.
    #[arg(long, value_name = "HOSTS: ARGS")]
    pub serve: Vec<String>,
    /// CPUs to drive from [default: one per worker, from CPU 0 on].
    #[arg(long, value_delimiter = ',', value_name = "CPU,…")]
    pub cores: Vec<usize>,
    /// Overwrite volumes that hold data. A device needs its path or serial number, as
    /// --destroy=/dev/sdx; can be repeated.
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "")]
    pub destroy: Vec<String>,
    /// Say which rank will serve and drive what, and end: nothing is opened.
    #[arg(long)]
    pub dry_run: bool,
    /// Fill volumes with self-identifying data, then check every read.
    #[arg(long)]
    pub verify: bool,
    /// Read only: check volumes against the ledger of an earlier --verify run, also after a crash.
    /// Needs the job.toml in the folder of that run.
    #[arg(long, conflicts_with = "verify")]
    pub verify_only: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub part: crate::part::Part,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub drive: Drive,
}

/// `drumfire discover`.
#[derive(Flags, Debug)]
pub struct Discover {
    /// The portal: HOST[:PORT] or iscsi://HOST[:PORT], port 3260 unless named, or
    /// nvme+tcp://HOST[:PORT], where 8009 is that of discovery services, or nbd://HOST[:PORT].
    pub portal: String,
    /// File with secrets of CHAP, if an iSCSI portal demands them.
    #[arg(long, value_name = "FILE")]
    pub chap: Option<PathBuf>,
}

fn size64(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number"))
}

/// A time in seconds, or with a unit as fio has them.
pub fn seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|last: char| last.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "us" => 1e-6,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(format!("'{text}' is not a time: write 10, 500ms, 10s, 2m or 1h")),
    };
    let seconds =
        number(digits).map_err(|_| format!("'{text}' is not a number of seconds"))? * unit;
    if seconds > YEAR_SECONDS {
        Err(format!("'{text}' is longer than a year"))
    } else {
        Ok(seconds)
    }
}

/// Maximum duration that can be requested, in seconds.
const YEAR_SECONDS: f64 = 366.0 * 86_400.0;

fn address(text: &str) -> Result<SocketAddr, String> {
    let why = || format!("'{text}' is not an address with a port: write 127.0.0.1:3260");
    text.parse().map_err(|_| why())
}

fn size32(text: &str) -> Result<u32, String> {
    let bytes = size64(text)?;
    u32::try_from(bytes).map_err(|_| format!("{text} is too long for one I/O"))
}

#[cfg(test)]
mod test {
    use super::*;

    fn access(words: &str) -> Result<Access, String> {
        let words = ["drumfire", "run", "null:1t"].into_iter().chain(words.split_whitespace());
        let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
        let Command::Run(run) = args.command else { panic!("another command") };
        run.drive.access().map_err(|error| error.to_string())
    }

    #[test]
    fn times_may_have_units() {
        for (text, right) in [
            ("10", 10.0),
            ("10s", 10.0),
            ("1.5m", 90.0),
            ("500ms", 0.5),
            ("1h", 3600.0),
            ("1d", 86_400.0),
        ] {
            assert_eq!(seconds(text), Ok(right), "{text}");
        }
        for text in ["", "s", "most", "10x", "1 s s", "ms"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn understands_the_words_of_fio() {
        let mix = |words: &str| access(words).map(|a| (a.read_percent(), a.random_percent()));
        assert_eq!(mix(""), Ok((100.0, 100.0)));
        assert_eq!(mix("--read 70 --random 0"), Ok((70.0, 0.0)));
        assert_eq!(mix("--rw read"), Ok((100.0, 0.0)));
        assert_eq!(mix("--rw randwrite"), Ok((0.0, 100.0)));
        assert_eq!(mix("--rw readwrite"), Ok((50.0, 0.0)));
        assert_eq!(mix("--rw randrw --rwmixread 70"), Ok((70.0, 100.0)));
        assert_eq!(access("--bs 8k").unwrap().size_bytes(), Some(8192));
        assert!(mix("--rw read --read 70").unwrap_err().contains("--rw randrw"));
        assert!(mix("--rw read --random 70").is_err());
    }

    #[test]
    fn sizes_are_4_kib_unless_named_but_in_races() {
        assert_eq!(access("").unwrap().size_bytes(), Some(4096));
        let race = Args::parse_from(["drumfire", "race"]);
        let Command::Race(race) = race.command else { panic!("another command") };
        assert_eq!(race.drive.size, 512);
        let sized = Args::parse_from(["drumfire", "race", "--size", "8k"]);
        let Command::Race(race) = sized.command else { panic!("another command") };
        assert_eq!(race.drive.size, 8192);
    }

    #[test]
    fn reads_rates_and_laws() {
        assert_eq!("50k".parse(), Ok(Rate::Ios(50e3)));
        assert_eq!("1.2M".parse(), Ok(Rate::Ios(1.2e6)));
        assert_eq!("200MB/s".parse(), Ok(Rate::Bytes(2e8)));
        for wrong in ["", "0", "-1", "4x", "k", "inf", "NaN", "é"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
        assert_eq!(access("--places zipf:1.3").unwrap().random, Places::Zipf { exponent: 1.3 });
        assert_eq!(access("--random_distribution once").unwrap().random, Places::Once);
        assert!(access("--places often").unwrap_err().contains("use uniform, once"));
        let words = ["drumfire", "run", "null:1t", "--arrivals", "poisson"];
        let Command::Run(run) = Args::parse_from(words).command else { panic!("another command") };
        assert!(run.drive.workload(1).unwrap_err().0.contains("--rate"));
    }

    #[test]
    fn the_definition_holds_together() {
        <Args as clap::CommandFactory>::command().debug_assert();
    }
}
