//! `drumfire doctor`: conditions of this host and of the given volumes that distort measurements,
//! and the commands that fix them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use block::Text;
use os::sample::HostCpu;
use os::{Clock, Features, FuseRing};
use stats::verdict::{self, HostUse, Wire};
use stats::{Check, Verdict};
use volume::{Purpose, Uri, Volume};

use crate::exit::{self, Exit};
use crate::output;

/// `drumfire doctor`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Volumes to measure: they are inspected, nothing is written.
    #[arg(value_name = "URI")]
    volumes: Vec<String>,
    /// Print one JSON document, the list of checks.
    #[arg(long)]
    json: bool,
    /// Exit with 3 if a check fails.
    #[arg(long)]
    strict: bool,
}

/// Duration for which the host is observed.
const WATCHED: Duration = Duration::from_secs(1);

/// Prints its findings; fails if nothing can run here, or a volume cannot be opened. Invalid volume
/// URIs are reported before any probe.
pub fn main(args: &Args) -> Result<Exit> {
    let features = Features::probe()?;
    let mut opened: Vec<(String, Arc<dyn Volume>)> = Vec::new();
    let (mut wire, mut closed) = (Wire::None, 0);
    for text in &args.volumes {
        let uri: Uri = text.parse()?;
        // The command reads no data, so it may inspect a volume in use.
        let volume = match volume::open(&uri.unlocked(), Purpose::Read) {
            Ok(volume) => volume,
            Err(error) => {
                let error = anyhow::Error::new(error);
                if exit::of_error(&error) == Exit::Usage {
                    return Err(error);
                }
                output::note(format_args!("drumfire: {error}"));
                closed += 1;
                continue;
            }
        };
        if volume.transport() != "local" {
            wire = if crate::run::is_loopback(&uri) { Wire::Loopback } else { remote(wire) };
        }
        opened.push((uri.to_string(), volume));
    }
    let mut checks = load::inspect(&opened);
    checks.extend(watch());
    if wire != Wire::None {
        checks.push(verdict::wire(wire));
    }
    let mut checks = verdict::joined(checks);
    checks.sort_by(|a, b| a.code.cmp(&b.code));
    if args.json {
        output::document(&checks)?;
    } else {
        let mut text = Text::new();
        write_host(&features, &mut text)?;
        checks.iter().try_for_each(|check| write(check, &mut text))?;
        output::print(&text)?;
    }
    let failed = checks.iter().any(|check| check.verdict == Verdict::Fail);
    Ok(match () {
        () if closed > 0 => Exit::Failed,
        () if failed && args.strict => Exit::Dishonest,
        () => Exit::Good,
    })
}

/// Network, unless a worse wire is already known.
fn remote(known: Wire) -> Wire {
    match known {
        Wire::Loopback => Wire::Loopback,
        _ => Wire::Network { retransmitted_percent: None },
    }
}

/// Watches the host for a moment without any load of ours: whatever is busy now will disturb.
fn watch() -> [Check; 2] {
    let (before, stopped) = (HostCpu::now(), os::cgroup::throttled());
    std::thread::sleep(WATCHED);
    let used = HostCpu::now().since(&before);
    let share = |part: f64| (used.total() > 0.0).then(|| part / used.total() * 100.0);
    let stopped = os::cgroup::throttled().zip(stopped).map(|(now, then)| now.saturating_sub(then));
    let cores = os::cpu::allowed().len() as u32;
    [
        verdict::cpu_was_ours(share(used.steal), stopped),
        verdict::nobody_else(HostUse {
            host_percent: share(used.busy()),
            cores,
            ours: Some(0.0),
            taken: Some((0, 0.0)),
        }),
    ]
}

fn write_host(features: &Features, out: &mut Text) -> fmt::Result {
    writeln!(out, "kernel     Linux {}", os::sample::kernel_release())?;
    writeln!(out, "processor  {}, {} usable", os::cpu::model(), os::cpu::allowed().len())?;
    for (name, has, since) in [
        ("deferred task work", features.defer_taskrun, "6.1"),
        ("cooperative task work", features.coop_taskrun, "5.19"),
        ("multishot receive", features.multishot_receive, "6.0"),
        ("registered files", features.registered_files, "5.19"),
        ("sends by reference", features.send_by_reference, "6.5"),
        ("discards of block devices", features.discards, "6.12"),
    ] {
        let state = match has {
            true => "yes".to_owned(),
            false => format!("no: a slower path is used; needs Linux {since} or newer"),
        };
        writeln!(out, "io_uring   {name}: {state}")?;
    }
    let fuse = match FuseRing::is_offered() {
        Some(true) => "yes",
        Some(false) => {
            "off: attach needs one or two system calls for each I/O; as root, echo Y > \
            /sys/module/fuse/parameters/enable_uring"
        }
        None => "no: attach needs one or two system calls for each I/O; needs Linux 6.14 or newer",
    };
    writeln!(out, "io_uring   FUSE requests: {fuse}")?;
    let clock = match Clock::get().uses_counter() {
        true => "time-stamp counter",
        false => "system call, slower: the kernel's clock source is not tsc",
    };
    writeln!(out, "clock      {clock}")
}

fn write(check: &Check, out: &mut Text) -> fmt::Result {
    let Check { code, name, verdict, evidence, mend } = check;
    let verdict = match verdict {
        Verdict::Pass => "pass",
        Verdict::Warn => "WARN",
        Verdict::Fail => "FAIL",
        Verdict::Unknown => "unknown",
        // No line for a check that does not apply.
        Verdict::DoesNotApply => return Ok(()),
    };
    writeln!(out, "{code} {verdict:<7} {name}: {evidence}")?;
    mend.iter().try_for_each(|command| writeln!(out, "            fix: {command}"))
}
