//! `drumfire volume check`: compares the legs of arrays, and repairs them.

use anyhow::Result;
use block::{Nanos, Text, parse_size, print_size};
use os::Clock;
use volume::array::{self, CheckOrder, CheckReport, Difference};
use volume::{ArrayUri, Uri};

use crate::exit::{Exit, UsageError};
use crate::output::{Progress, note, print};
use crate::signal::on_signal;

/// Time between updates of the progress on a terminal, and in a log.
const ON_TERMINAL: Nanos = Nanos::from_millis(500);
const IN_LOG: Nanos = Nanos::from_secs(30);

/// Checks the arrays that `uri` names, one after the other.
pub(super) fn main(uri: Uri, repair: bool, rate: Option<&str>) -> Result<Exit> {
    let arrays = match uri {
        Uri::Stripe { parts, .. } => parts,
        one => vec![one],
    };
    let arrays = arrays.into_iter().map(super::array_of).collect::<Result<Vec<_>>>()?;
    let rate_bytes = rate.map(parse_size).transpose();
    let rate_bytes = rate_bytes.map_err(|error| UsageError(format!("--rate: {error}")))?;
    if rate_bytes == Some(0) {
        return Err(UsageError("--rate: at least 1 byte per second".to_owned()).into());
    }
    let order = CheckOrder { repairs: repair, rate_bytes, is_gentle: false };
    let mut worst = Exit::Good;
    for array in arrays {
        match one(&array, order)? {
            Exit::Good => {}
            exit => worst = exit,
        }
        if worst == Exit::Interrupted {
            break;
        }
    }
    Ok(worst)
}

fn one(array: &ArrayUri, order: CheckOrder) -> Result<Exit> {
    let signal = on_signal()?;
    let mut shown = Shown::new();
    let mut interrupted = false;
    let mut goes_on = |report: &CheckReport, news: &[String]| {
        news.iter().for_each(note);
        shown.show(&array.name, report);
        interrupted = signal.try_recv().is_ok();
        !interrupted
    };
    let report = array::check(array, order, &mut goes_on)?;
    drop(shown);
    print(&text(&array.name, &report, order.repairs))?;
    let left = report.different_bytes - report.repaired_bytes;
    Ok(match () {
        () if interrupted => Exit::Interrupted,
        () if left > 0 => Exit::Mismatch,
        () if report.is_alone => Exit::Failed,
        () => Exit::Good,
    })
}

/// Findings of a check, in lines.
fn text(name: &str, report: &CheckReport, repairs: bool) -> Text {
    let CheckReport { at, bytes, compared_bytes, marked_bytes, .. } = *report;
    let mut lines = vec![format!("array {name}: {}", array::words_of_check(report))];
    if report.is_alone {
        lines[0] = format!("array {name}: only one leg is in sync, so nothing can be compared");
    }
    if !report.has_ended {
        let (at, bytes) = (print_size(at), print_size(bytes));
        lines.push(format!("  ended early, at {at} of {bytes}"));
    }
    let rest = bytes - (compared_bytes + marked_bytes).min(bytes);
    lines.push(format!(
        "  {compared_bytes} bytes compared, {marked_bytes} being resynced, {rest} never written"
    ));
    lines.extend(report.differences.iter().map(|one| difference(one, repairs)));
    let listed: u64 = report.differences.iter().map(|one| one.len).sum();
    if listed < report.different_bytes {
        lines.push(format!("  and {} more bytes", report.different_bytes - listed));
    }
    lines.into_iter().collect()
}

fn difference(one: &Difference, repairs: bool) -> String {
    let Difference { offset, len, legs, is_unreadable } = *one;
    let legs: Vec<String> =
        (0..32).filter(|leg| legs & 1 << leg != 0).map(|leg| (leg + 1).to_string()).collect();
    let what = if is_unreadable { "cannot be read" } else { "differs" };
    let then = if repairs { ", repaired from the others" } else { "" };
    format!("  {len} bytes at {offset}: leg {} {what}{then}", legs.join(", "))
}

/// Progress that was shown so far.
struct Shown {
    line: Progress,
    every: Nanos,
    began: Nanos,
    told: Nanos,
}

impl Shown {
    fn new() -> Shown {
        let (now, line) = (Clock::get().now(), Progress::new());
        let every = if line.is_seen() { ON_TERMINAL } else { IN_LOG };
        Shown { line, every, began: now, told: now }
    }

    fn show(&mut self, name: &str, report: &CheckReport) {
        let now = Clock::get().now();
        if now.since(self.told) < self.every || report.bytes == 0 {
            return;
        }
        self.told = now;
        let seconds = now.since(self.began).as_secs_f64();
        let part = report.at as f64 / report.bytes as f64;
        let left = if part > 0.0 { seconds / part - seconds } else { 0.0 };
        self.line.show(&format!(
            "array {name}: {:.0} % checked, {:.0} MB/s, {left:.0} s left, {} bytes differ",
            part * 100.0,
            report.compared_bytes as f64 / seconds / 1e6,
            report.different_bytes
        ));
    }
}
