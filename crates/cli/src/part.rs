//! `run --start-at TIME --part FILE`: a run as one of several hosts'. Any launcher starts it;
//! `merge` makes one result of all parts.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result};
use clap::Args as Flags;
use jiff::Timestamp;
use job::spec::JobSpec;
use load::Shared;
use stats::RunResult;

use crate::args::seconds;
use crate::bench::Maker;
use crate::exit::{UsageError, of_file};
use crate::{folder, output, show, typed};

const SECOND_NS: u64 = 1_000_000_000;
/// Furthest start: a time in milliseconds instead of seconds is further ahead.
const AHEAD_MAX_S: f64 = 30.0 * 86_400.0;
/// Delay after the planned instant from which on it is reported, in nanoseconds.
const LATE_NS: i64 = 10_000_000;

/// Flags of a run that is one of several hosts'.
#[derive(Flags, Clone, Debug, Default)]
pub struct Part {
    /// Begin the measured window at this time of the wall clock: RFC 3339, Unix seconds, or +30s
    /// from now. The ramp comes before it. Give all hosts one time, far enough ahead for all to
    /// open their volumes.
    #[arg(long, value_name = "TIME")]
    pub start_at: Option<StartAt>,
    /// Write this host's part of a result to this file, for drumfire merge. Unless --seed is given,
    /// the seed is then derived from the host's name, so that hosts access different offsets.
    #[arg(long, value_name = "FILE")]
    pub part: Option<PathBuf>,
    /// Name of this host in the merged result [default: its host name].
    #[arg(long, value_name = "NAME", requires = "part")]
    pub host: Option<String>,
}

/// An instant ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartAt {
    unix_ns: u64,
}

impl FromStr for StartAt {
    type Err = String;

    fn from_str(text: &str) -> Result<StartAt, String> {
        let now_ns = os::wall::now_ns();
        let unix_ns = parsed(text, now_ns)?;
        let ahead_s = (i128::from(unix_ns) - i128::from(now_ns)) as f64 / 1e9;
        if ahead_s < 0.0 {
            let (now, such) = (at(now_ns / SECOND_NS * SECOND_NS), now_ns / SECOND_NS + 30);
            return Err(format!(
                "'{text}' is past, now is {now}: give a time ahead, such as +30s, or {such} on all \
                 hosts"
            ));
        }
        if ahead_s > AHEAD_MAX_S {
            let days = ahead_s / 86_400.0;
            return Err(format!(
                "'{text}' is {days:.0} days ahead, 30 at most: a number is in Unix seconds"
            ));
        }
        Ok(StartAt { unix_ns })
    }
}

/// The instant that a text says, in Unix nanoseconds.
fn parsed(text: &str, now_ns: u64) -> Result<u64, String> {
    let why = || {
        format!("'{text}' is no time: write 2026-11-30T12:00:00Z, Unix seconds, or +30s from now")
    };
    if let Some(ahead) = text.strip_prefix('+') {
        let ahead_s = seconds(ahead).map_err(|_| why())?;
        let ahead_ns = Some(ahead_s * 1e9).filter(|ns| *ns >= 0.0).ok_or_else(why)?;
        return Ok(now_ns.saturating_add(ahead_ns as u64));
    }
    if let Some(unix_ns) = unix(text) {
        return Ok(unix_ns);
    }
    let time: Timestamp = text.parse().map_err(|_| why())?;
    u64::try_from(time.as_nanosecond()).map_err(|_| why())
}

/// Unix seconds with up to nine digits behind the point, exactly.
fn unix(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 9 {
        return None;
    }
    let ns: u64 = format!("{part:0<9}").parse().ok()?;
    let whole: u64 = whole.parse().ok()?;
    Some(whole.saturating_mul(SECOND_NS).saturating_add(ns))
}

/// An instant as RFC 3339.
fn at(unix_ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(unix_ns)) {
        Ok(time) => time.to_string(),
        Err(_) => format!("{unix_ns} ns"),
    }
}

fn figure_s(seconds: f64) -> String {
    report::span(seconds * 1e9)
}

/// State of a shared run.
#[derive(Clone, Debug)]
pub struct Signed {
    host: String,
    base_seed: u64,
    file: Option<PathBuf>,
    start: Option<StartAt>,
}

impl Part {
    /// Prepares a job to be one host's part; `None` if it is a run by itself.
    pub fn prepare(&self, job: &mut JobSpec) -> Result<Option<Signed>> {
        if !self.is_asked() {
            return Ok(None);
        }
        self.check(job)?;
        let host = self.host.clone().unwrap_or_else(host_name);
        let base_seed = job.seed;
        let is_given = typed::typed().iter().any(|name| name == "seed");
        if self.part.is_some() && !is_given {
            job.seed = seed(base_seed, &host);
        }
        Ok(Some(Signed { host, base_seed, file: self.part.clone(), start: self.start_at }))
    }

    /// Whether the run is one of several hosts', which do not know of each other.
    pub fn is_asked(&self) -> bool {
        self.start_at.is_some() || self.part.is_some()
    }

    /// Refuses the flags for `what`, which has no separate measured window.
    pub fn refuse(&self, what: &str) -> Result<(), UsageError> {
        if !self.is_asked() {
            return Ok(());
        }
        Err(UsageError(format!("--start-at and --part are options of run, not of {what}")))
    }

    fn check(&self, job: &JobSpec) -> Result<()> {
        if let Some(file) = &self.part {
            if job.steps.len() != 1 {
                let why = "--part takes a job of one step: run its steps one by one";
                return Err(UsageError(why.to_owned()).into());
            }
            let (above, _) =
                os::Folder::trusted_parent(file).map_err(|error| of_file(file.display(), error))?;
            above.draft().map_err(|error| of_file(file.display(), error))?;
        }
        if Maker::of(job)? == Maker::Simulate {
            let why = "--start-at and --part need I/O: a simulation has a time of its own";
            return Err(UsageError(why.to_owned()).into());
        }
        if let Some(host) = &self.host
            && (host.is_empty() || host.len() > 255 || host.chars().any(block::steers))
        {
            return Err(UsageError("--host: no name of a host".to_owned()).into());
        }
        let Some(start) = self.start_at else { return Ok(()) };
        let ramp_s = job.steps.first().map_or(0.0, |step| step.ramp_seconds);
        let ahead_s = (start.unix_ns as f64 - os::wall::now_ns() as f64) / 1e9;
        if ahead_s < ramp_s {
            let (ahead, ramp) = (figure_s(ahead_s.max(0.0)), figure_s(ramp_s));
            let why = format!(
                "--start-at is {ahead} ahead, and the ramp before it takes {ramp}: give a later \
                 time, or --ramp 0"
            );
            return Err(UsageError(why).into());
        }
        Ok(())
    }
}

impl Signed {
    /// Returns the settings for the engine.
    pub fn shared(&self) -> Shared {
        Shared { start_ns: self.start.map(|start| start.unix_ns) }
    }

    /// Prints the instant that the run waits for.
    pub fn announce(&self) {
        if let Some(start) = self.start {
            let left_s = start.unix_ns.saturating_sub(os::wall::now_ns()) as f64 / 1e9;
            let time = at(start.unix_ns);
            output::note(format_args!("drumfire: measures from {time} on, in {left_s:.1} s"));
        }
    }

    /// Completes the part of a result.
    pub fn sign(&self, result: &mut RunResult) {
        let Some(part) = &mut result.part else { return };
        part.host.clone_from(&self.host);
        part.base_seed = self.base_seed;
        part.build = env!("DRUMFIRE_VERSION").to_owned();
    }

    /// Tells how far from the planned instant it began.
    pub fn tell_start(&self, result: &RunResult) {
        let Some((part, start)) = result.part.as_ref().zip(self.start) else { return };
        let late_ns = part.started_ns.wrapping_sub(start.unix_ns) as i64;
        let word = if late_ns < 0 { "before" } else { "after" };
        let (skew, time) = (report::span(late_ns.unsigned_abs() as f64), at(start.unix_ns));
        let more = match late_ns > LATE_NS {
            true => ": the host was busy, or its volumes took until then to open",
            false => "",
        };
        output::note(format_args!("drumfire: start skew: began {skew} {word} {time}{more}"));
    }

    /// Writes the part, if one is wanted.
    pub fn keep(&self, result: &RunResult) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        folder::write_file(file, |out| {
            report::json::write(result, out)?;
            Ok(())
        })
    }

    /// Writes the part of a run that goes on, so that a host that is lost leaves its seconds. A
    /// full disk is reported at the end.
    pub fn keep_draft(&self, result: &mut RunResult) {
        self.sign(result);
        if let Some(file) = &self.file {
            let _ = folder::write_draft_file(file, result);
        }
    }
}

/// Name of this host.
pub fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| !block::steers(*c)).collect();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// The seed of a host: FNV-1a of its name, mixed into the base. At most 2⁶³ − 1, as in job files.
pub fn seed(base: u64, host: &str) -> u64 {
    let hash = host.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    let mut state = base ^ hash;
    block::splitmix(&mut state) >> 1
}

/// Reads a part, or the one in the folder of a run.
pub fn read(path: &Path) -> Result<RunResult> {
    let file = if path.is_dir() { path.join("result.json") } else { path.to_owned() };
    let size = file.metadata().map_err(|error| of_file(file.display(), error))?.len();
    if size > PART_MAX_BYTES {
        let why = format!("{}: {size} bytes: larger than any part", file.display());
        return Err(UsageError(why).into());
    }
    crate::report::read_document(&file).context("no part of a run")
}

/// Longest part that is read: one of a thousand workers has some megabytes.
const PART_MAX_BYTES: u64 = 64 << 20;

/// The program that merges.
pub fn tool() -> stats::Tool {
    show::tool()
}

#[cfg(test)]
mod test {
    use super::*;

    const NOW_NS: u64 = 1_764_500_000_000_000_000;

    #[test]
    fn times_are_read_in_three_forms() {
        let of = |text: &str| parsed(text, NOW_NS);
        assert_eq!(of("+30s"), Ok(NOW_NS + 30_000_000_000));
        assert_eq!(of("+500ms"), Ok(NOW_NS + 500_000_000));
        assert_eq!(of("+2"), Ok(NOW_NS + 2_000_000_000));
        assert_eq!(of("1764500001"), Ok(NOW_NS + 1_000_000_000));
        assert_eq!(of("1764500000.000000001"), Ok(NOW_NS + 1));
        assert_eq!(of("2025-11-30T10:53:21Z"), Ok(NOW_NS + 1_000_000_000));
        assert_eq!(of("2025-11-30T11:53:20.5+01:00"), Ok(NOW_NS + 500_000_000));
        for wrong in ["", "+", "+-3s", "soon", "12:00", "1.2.3", "-5", "2025-11-30", "+3 parsecs"] {
            assert!(of(wrong).unwrap_err().contains("is no time"), "{wrong}");
        }
    }

    #[test]
    fn the_past_is_refused_with_what_to_do() {
        let past = "1764500000".parse::<StartAt>().unwrap_err();
        assert!(past.contains("is past") && past.contains("such as +30s"), "{past}");
        let far = "1764500000000".parse::<StartAt>().unwrap_err();
        assert!(far.contains("days ahead") && far.contains("Unix seconds"), "{far}");
        assert!("+1m".parse::<StartAt>().is_ok());
    }

    #[test]
    fn each_host_has_a_seed_of_its_own() {
        let seeds: std::collections::HashSet<u64> =
            (0..1000).map(|number| seed(1, &format!("node{number}"))).collect();
        assert_eq!(seeds.len(), 1000);
        assert!(seeds.iter().all(|seed| *seed < 1 << 63));
        assert_ne!(seed(1, "a"), seed(2, "a"));
    }
}
