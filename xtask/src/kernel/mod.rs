//! Linux as the judge: `cargo xtask kernel`, and a step of `cargo xtask test`.
//!
//! A Debian kernel is started in a virtual machine, finds our target on the host's loopback, and
//! uses it with its own NVMe/TCP host and iSCSI initiator: discovers, connects, makes file systems,
//! reads them over the other protocol, with digests and without. Before that our program drives
//! devices of the guest that have poll queues; at the end our program attaches volumes as block
//! devices; see `ublk.rs`. The guest is started once: its start takes as long as a dozen checks.
//! The guest's image is built from Debian's packages and saved below the target folder. `guest.sh`
//! has the checks.

mod cpio;
mod initramfs;
mod packages;
mod polled;
mod ublk;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, Outcome, Show};
use crate::say::say;
use crate::target_folder;
use crate::test::Build;
use crate::test::packages::{program, update};
use crate::test::tally::Tally;

/// Script of the guest.
const SCRIPT: &str = include_str!("guest.sh");
/// Time limit until a target is ready, which takes milliseconds; a busy machine may take longer.
const READY_LIMIT: Duration = Duration::from_secs(300);
/// So much of the console is shown when something failed.
const TAIL_LINES: usize = 80;
/// Prefix of the lines of the console that are messages of the guest's script.
const PREFIX: &str = "drumfire: ";

/// Part of the names of checks that need fio.
const BY_FIO: &str = "by-fio";

/// Checks that the guest runs once.
const ONCE: [&str; 37] = [
    "sets-up",
    "disk-has-poll-queues",
    "disk-is-polled-and-verified",
    "disk-is-verified-without-polling",
    "commands-write-and-blocks-read",
    "blocks-write-and-commands-read",
    "commands-are-polled",
    "commands-are-guarded",
    "commands-are-counted-as-by-fio",
    "zones-are-written-as-by-fio",
    "zones-at-random-as-by-fio",
    "zones-with-more-words-as-by-fio",
    "zones-are-wanted",
    "null-disk-is-polled",
    "disk-without-poll-queues-is-refused",
    "disk-goes",
    "kernel-is-content",
    "nvme-connects-to-break",
    "nvme-survives-resets",
    "nvme-survives-a-cut",
    "nvme-reconnects-whole",
    "nvme-lost-nothing",
    "nvme-disconnects-whole",
    "iscsi-logs-in-to-break",
    "iscsi-survives-unit-resets",
    "iscsi-survives-target-resets",
    "iscsi-survives-a-cut",
    "iscsi-logs-in-whole",
    "iscsi-lost-nothing",
    "iscsi-logs-out-whole",
    "network-is-local",
    "strangers-are-two-disks",
    "strangers-with-several-ways-stay-apart",
    "one-id-is-one-disk",
    "one-id-survives-either-server",
    "a-restart-keeps-files-and-drops-memory",
    "namespaces-come-and-go",
];
/// Checks that the guest runs without digests and with them.
const TWICE: [&str; 17] = [
    "nvme-discovers",
    "nvme-connects",
    "nvme-writes",
    "nvme-reconnects",
    "nvme-reads-its-own",
    "nvme-disconnects",
    "iscsi-discovers",
    "iscsi-logs-in",
    "iscsi-reads-what-nvme-wrote",
    "iscsi-writes",
    "iscsi-logs-in-again",
    "iscsi-reads-its-own",
    "iscsi-digests",
    "iscsi-logs-out",
    "nvme-connects-again",
    "nvme-reads-what-iscsi-wrote",
    "nvme-disconnects-again",
];

/// `cargo xtask kernel`. True if nothing failed.
pub fn main(args: &[String]) -> Result<bool> {
    let (mut install, mut drumfire) = (true, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--no-install" => install = false,
            "--drumfire" => drumfire = args.next().map(PathBuf::from),
            arg => bail!("kernel knows --drumfire and --no-install, not `{arg}`"),
        }
    }
    let (built, drumfire) = match drumfire {
        Some(drumfire) => (Tally::default(), drumfire),
        None => (crate::test::build()?, Build::Release.drumfire()),
    };
    // The guest runs the program by this name.
    ensure!(drumfire.ends_with("drumfire"), "--drumfire {}: name it drumfire", drumfire.display());
    let ready = built.failed.is_empty();
    let tally = if ready { test(provide(install), &drumfire)? } else { built };
    for (name, reason) in &tally.skipped {
        say!("skipped: {name}: {reason}");
    }
    tally.failed.iter().for_each(|name| say!("FAILED: {name}"));
    let [passed, failed, skipped] = tally.counts();
    say!("{passed} passed, {failed} failed, {skipped} skipped");
    Ok(failed == 0)
}

/// Runs the guest against this build. A missing requirement skips the checks that need it.
pub fn test(guest: Result<Guest, Missing>, drumfire: &Path) -> Result<Tally> {
    let mut tally = Tally::default();
    let mut skip = |names: &mut dyn Iterator<Item = String>, why: &str| {
        say!("skipped: {why}");
        names.for_each(|name| tally.skip(format!("kernel {name}"), why));
    };
    let guest = match guest {
        Ok(guest) => guest,
        Err(Missing(why)) => {
            skip(&mut names().chain(ublk::names()), &why);
            return Ok(tally);
        }
    };
    let by_fio = |name: &String| name.contains(BY_FIO);
    if guest.fio.is_none() {
        skip(&mut names().filter(by_fio), "fio is missing");
    }
    if let Some(why) = &guest.without_ublk {
        skip(&mut ublk::names(), why);
    }
    let of_ublk = ublk::names().filter(|_| guest.without_ublk.is_none());
    let wanted = names().filter(|name| guest.fio.is_some() || !by_fio(name)).chain(of_ublk);
    let outcome = run(&guest, drumfire)?;
    let found = judge(&outcome, wanted);
    if !found.failed.is_empty() {
        say!("the end of the guest's console:");
        tail(&outcome.stdout).for_each(|line| say!("    {line}"));
    }
    tally.add(found);
    Ok(tally)
}

/// Files from which the guest is started.
pub struct Guest {
    /// fio of this machine, which the guest runs like our own program.
    fio: Option<PathBuf>,
    qemu: PathBuf,
    kernel: PathBuf,
    initramfs: PathBuf,
    /// Reason why the guest's kernel has no ublk, if so.
    without_ublk: Option<String>,
}

/// A requirement that this machine does not meet, and the remedy.
#[derive(Debug)]
pub struct Missing(String);

/// Provides the guest's files, from an earlier run if possible.
pub fn provide(install: bool) -> Result<Guest, Missing> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Missing("the guest is made of packages for x86-64 only".to_owned()));
    }
    let qemu = program("qemu-system-x86", "qemu-system-x86_64", install).map_err(Missing)?;
    let folder = target_folder().join("kernel");
    let fio = program("fio", "fio", install).ok();
    let (kernel, initramfs) = (folder.join("vmlinuz"), folder.join("initramfs.cpio"));
    let mut guest = Guest { fio, qemu, kernel, initramfs, without_ublk: None };
    // Written last: an image of an interrupted run is not mistaken for a complete one.
    let (stamp, recipe) = (folder.join("recipe"), initramfs::recipe());
    if fs::read_to_string(&stamp).is_ok_and(|kept| kept == recipe) {
        return Ok(guest);
    }
    for program in ["apt-get", "apt-cache", "dpkg"] {
        let why = "is missing: the guest is made of Debian's packages";
        process::find(program).ok_or_else(|| Missing(format!("{program} {why}")))?;
    }
    let lacking = |error| Missing(format!("the guest's packages cannot be had: {error:#}"));
    guest.without_ublk = make(install, &folder, &guest).map_err(lacking)?;
    // A kernel with ublk is sought again by the next run.
    if guest.without_ublk.is_none() {
        fs::write(&stamp, recipe).map_err(|error| lacking(error.into()))?;
    }
    Ok(guest)
}

/// Builds kernel and file system from packages. Returns the reason why there is no ublk, if so.
fn make(install: bool, folder: &Path, guest: &Guest) -> Result<Option<String>> {
    // The archive may be newer than this machine's package lists.
    let twice = |unpack: fn(&Path) -> Result<PathBuf>, folder: &Path| match unpack(folder) {
        Err(_) if update(install)? => unpack(folder),
        outcome => outcome,
    };
    let unpacked = folder.join("packages");
    let root = twice(packages::unpack_programs, &unpacked.join("programs"))?;
    let newer = packages::unpack_backported_kernel(&unpacked.join("newer"));
    let (image, without_ublk) = match newer {
        Ok(image) => (image, None),
        Err(error) => {
            let image = twice(packages::unpack_kernel, &unpacked.join("kernel"))?;
            (image, Some(format!("no kernel with ublk can be had: {error:#}")))
        }
    };
    let more = if without_ublk.is_none() { &[initramfs::UBLK][..] } else { &[] };
    fs::copy(initramfs::kernel(&image)?, &guest.kernel)?;
    fs::write(&guest.initramfs, initramfs::pack(&root, &image, more)?)?;
    // Half a gigabyte that is not needed again.
    fs::remove_dir_all(&unpacked)?;
    Ok(without_ublk)
}

/// Emulation of the guest's CPUs in one thread: with one thread per CPU, qemu 7.2 stalls now and
/// then on a busy host. `/dev/kvm` is no faster in a virtual machine, where tests mostly run, and
/// often does not work there.
const PROCESSOR: [&str; 4] = ["-accel", "tcg,thread=single", "-cpu", "max"];
/// Time limit of the guest, which takes a minute on an idle host, and five on a busy one.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Starts the target, then the guest, and waits for the guest's end.
fn run(guest: &Guest, drumfire: &Path) -> Result<Outcome> {
    let target = Target::start(drumfire)?;
    let disk = polled::disk(&guest.initramfs.with_file_name("nvme.img"))?;
    let mut archive = fs::read(&guest.initramfs)?;
    // Unpacked after the other archive, so these files replace earlier ones.
    let mut over = cpio::Archive::default();
    over.file("init", SCRIPT.as_bytes());
    over.file("ublk.sh", ublk::CHECKS.as_bytes());
    let programs = std::iter::once(drumfire).chain(guest.fio.as_deref());
    polled::add_programs(&mut over, programs)?;
    archive.extend(over.finish());
    let initramfs = guest.initramfs.with_file_name("initramfs-run.cpio");
    fs::write(&initramfs, archive)?;
    let volume = "2026-11.io.drumfire:disk";
    let (iscsi_port, nvme_port) = (target.iscsi_port, target.nvme_port);
    // The kernel passes unknown parameters to init, as variables. On a busy host ticks are late,
    // from which the kernel would conclude at boot that there is no timer.
    let settings = format!(
        "console=ttyS0 quiet loglevel=1 panic=-1 no_timer_check watchdog_thresh=60 \
         rcupdate.rcu_cpu_stall_suppress=1 iscsi_port={iscsi_port} \
         nvme_port={nvme_port} iqn=iqn.{volume} nqn=nqn.{volume}"
    );
    let mut command = Command::new(&guest.qemu);
    command.args(PROCESSOR).args(["-smp", "2", "-m", "768"]);
    command.args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
    command.args(["-serial", "stdio", "-netdev", "user,id=net"]);
    // Without a boot ROM, which is in a separate package.
    command.args(["-device", "virtio-net-pci,netdev=net,romfile="]);
    command.args(disk);
    command.arg("-kernel").arg(&guest.kernel).arg("-initrd").arg(&initramfs);
    command.args(["-append", &settings]);
    let outcome = process::run(&mut command, LIMIT, Show::Nothing)?;
    lines(&outcome.stdout).for_each(|line| say!("{line}"));
    let [took, spent] = [outcome.took, outcome.spent].map(|it| it.as_secs_f64());
    say!("the guest ran for {took:.1} s, {spent:.1} s CPU");
    Ok(outcome)
}

/// Our target, ended when this is dropped.
struct Target {
    child: Child,
    iscsi_port: u16,
    nvme_port: u16,
}

impl Target {
    fn start(drumfire: &Path) -> Result<Target> {
        let mut command = Command::new(drumfire);
        command.args(["serve", "--iscsi", "127.0.0.1:0", "--nvme-tcp", "127.0.0.1:0"]);
        command.args(["--volume", "disk=ram:64m"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().context("starting drumfire")?;
        let stdout = child.stdout.take().expect("it was piped");
        // Owned from here on, so that an error ends the target.
        let mut target = Target { child, iscsi_port: 0, nvme_port: 0 };
        let line = first_line(stdout).context("drumfire did not get ready")?;
        let ports = port(&line, "iscsi=").zip(port(&line, "nvme-tcp="));
        (target.iscsi_port, target.nvme_port) =
            ports.with_context(|| format!("drumfire said `{}`", line.trim_end()))?;
        Ok(target)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        process::end_tree(self.child.id());
        let _ = self.child.wait();
    }
}

/// First line of a program's output, unless it takes too long.
fn first_line(output: impl Read + Send + 'static) -> Result<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(output).read_line(&mut line);
        // The receiver is gone after the limit.
        let _ = sender.send(read.map(|_| line));
    });
    Ok(receiver.recv_timeout(READY_LIMIT)??)
}

/// A port in `ready iscsi=127.0.0.1:3260 nvme-tcp=127.0.0.1:4420`.
fn port(line: &str, protocol: &str) -> Option<u16> {
    let address = line.split_whitespace().find_map(|part| part.strip_prefix(protocol))?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// The names of all checks.
fn names() -> impl Iterator<Item = String> {
    let twice = ["plain", "digests"]
        .into_iter()
        .flat_map(|pass| TWICE.iter().map(move |name| format!("{pass}-{name}")));
    ONCE.into_iter().map(str::to_owned).chain(twice)
}

/// Messages of the guest's script.
fn lines(console: &str) -> impl Iterator<Item = &str> {
    // A line of the kernel or firmware without a line feed may precede the prefix.
    console.lines().filter_map(|line| Some(line.split_once(PREFIX)?.1.trim_end()))
}

/// Reads the results. Checks that the guest did not reach have failed.
fn judge(outcome: &Outcome, names: impl Iterator<Item = String>) -> Tally {
    let mut tally = Tally::default();
    let mut open: BTreeSet<String> = names.collect();
    let mut ended = false;
    // A name may be followed by an explanation.
    let name = |said: &str| said.split(':').next().unwrap_or(said).to_owned();
    for line in lines(&outcome.stdout) {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("passed", said) if open.remove(&name(said)) => tally.passed += 1,
            ("failed", said) => {
                open.remove(&name(said));
                tally.failed.push(format!("kernel {said}"));
            }
            ("ended", "") => ended = true,
            _ => tally.failed.push(format!("kernel: a line makes no sense: {line}")),
        }
    }
    tally.failed.extend(open.iter().map(|name| format!("kernel {name}: it did not come to it")));
    if !ended || !outcome.success() {
        tally.failed.push(format!("kernel: the guest: {}", last_words(outcome)));
    }
    tally
}

/// Exit of qemu, and its last message.
fn last_words(outcome: &Outcome) -> String {
    let said = outcome.stderr.trim().lines().last().unwrap_or_default();
    format!("{}: {said}", outcome.ending())
}

fn tail(console: &str) -> impl Iterator<Item = &str> {
    let lines: Vec<&str> = console.lines().collect();
    let skip = lines.len().saturating_sub(TAIL_LINES);
    lines.into_iter().skip(skip)
}

#[cfg(test)]
mod test {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    fn outcome(console: &str, code: i32) -> Outcome {
        let status = Some(ExitStatus::from_raw(code << 8));
        let (stderr, took) = ("it broke\n".to_owned(), Duration::ZERO);
        let stdout = console.to_owned();
        Outcome { status, stdout, stderr, took, spent: took }
    }

    fn all_passed() -> String {
        let lines = names().map(|name| format!("{PREFIX}passed {name}\r\n"));
        format!("SeaBIOS\r\n{}{PREFIX}ended\r\n", lines.collect::<String>())
    }

    #[test]
    fn the_script_makes_every_check_once() {
        let made = SCRIPT.lines().filter_map(|line| line.trim().strip_prefix("check "));
        let made: Vec<&str> = made.filter_map(|rest| rest.split(' ').next()).collect();
        let twice = TWICE.iter().map(|name| format!("$1-{name}"));
        let known: BTreeSet<String> = ONCE.into_iter().map(str::to_owned).chain(twice).collect();
        assert_eq!(made.len(), known.len(), "{made:?}");
        assert!(made.iter().all(|name| known.contains(*name)), "{made:?}");
    }

    fn judged(console: &str, code: i32) -> Tally {
        judge(&outcome(console, code), names())
    }

    #[test]
    fn a_console_is_read() {
        let tally = judged(&all_passed(), 0);
        assert_eq!(tally.counts(), [names().count(), 0, 0], "{tally:?}");
        // Something is noted of a check.
        let noted = all_passed().replace("passed nvme-lost-nothing", "passed nvme-lost-nothing: 3");
        assert_eq!(judged(&noted, 0).counts(), tally.counts());
        // The kernel speaks in the middle of a line; a check fails.
        let console =
            all_passed().replace("drumfire: passed sets-up", "[1.0] drumfire: failed sets-up: why");
        let tally = judged(&console, 0);
        assert_eq!(tally.failed, ["kernel sets-up: why"]);
    }

    #[test]
    fn what_the_guest_did_not_come_to_has_failed() {
        let tally = judged("drumfire: passed sets-up\n", 1);
        assert_eq!(tally.counts(), [1, names().count(), 0], "the rest, and the end");
        assert!(tally.failed.last().unwrap().contains("it broke"), "{tally:?}");
        // A check does not count twice, nor does an unknown one count.
        let twice =
            all_passed().replace("drumfire: ended", "drumfire: passed sets-up\ndrumfire: ended");
        assert_eq!(judged(&twice, 0).counts()[1], 1);
        let cut = all_passed().replace("drumfire: ended", "");
        assert_eq!(judged(&cut, 0).counts()[1], 1);
    }

    #[test]
    fn the_ready_line_tells_the_ports() {
        let line = "ready iscsi=127.0.0.1:3260 nvme-tcp=127.0.0.1:4420\n";
        assert_eq!((port(line, "iscsi="), port(line, "nvme-tcp=")), (Some(3260), Some(4420)));
        assert_eq!(port("ready iscsi=127.0.0.1:3260\n", "nvme-tcp="), None);
        let line = first_line(&b"ready\nmore\n"[..]).unwrap();
        assert_eq!(line, "ready\n");
    }
}
