//! Sentences of `explain` about a job: a line for each step and each of its groups, then the lines
//! of the rows.

use super::option::{self, Part, Tells};
use crate::spec::{Group, JobSpec, Step, Workload};

/// Describes what a job of this name would do.
pub fn told(name: &str, job: &JobSpec) -> Vec<String> {
    let steps = job.steps.len();
    let (s, seed) = (if steps == 1 { "" } else { "s" }, job.seed);
    let mut text = vec![match steps {
        0 => format!("{name} only creates files"),
        _ => format!("{name} runs {steps} step{s} with seed {seed}"),
    }];
    for (number, step) in (1..).zip(&job.steps) {
        let name = if step.name.is_empty() { "" } else { " " };
        text.push(format!("step {number}{name}{}: {}", step.name, length(step)));
        step.groups.iter().for_each(|group| tell(&mut text, group));
    }
    text
}

fn length(step: &Step) -> String {
    let limited = |group: &Group| {
        let Workload { limit_bytes, limit_ios, access, .. } = &group.workload;
        limit_bytes.is_some() || limit_ios.is_some() || access.trace.is_some()
    };
    let ends = match step.groups.iter().all(limited) {
        true => " at most, until all I/O is done",
        false => "",
    };
    let others = option::all().filter_map(|row| match row.tells {
        Tells::OfStep(tells) => tells(step),
        _ => None,
    });
    let first: String = others.collect();
    match step.ramp_seconds {
        s if s > 0.0 => format!("{}{ends} after {} of ramp{first}", span(step.seconds), span(s)),
        _ => format!("{}{ends}{first}", span(step.seconds)),
    }
}

/// Formats seconds, followed by the usual unit for that length.
pub(super) fn span(seconds: f64) -> String {
    let units = [(86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes")];
    match units.into_iter().find(|(unit, _)| seconds >= 2.0 * unit) {
        Some((unit, name)) => {
            let count = (seconds / unit * 10.0).round() / 10.0;
            format!("{seconds} s ({count} {name})")
        }
        None => format!("{seconds} s"),
    }
}

fn tell(text: &mut Vec<String>, group: &Group) {
    let name = if group.name.is_empty() { "all" } else { &group.name };
    let each = match (group.volumes.len(), group.is_one()) {
        (0 | 1, _) => " on",
        (_, false) => " on each of",
        (_, true) if group.joins() => " on",
        (_, true) => " in turn on",
    };
    let workers = match group.workers {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    };
    text.push(format!("  {name}: {workers}{each} {}", names(&group.volumes)));
    for part in [Part::Load, Part::Steered, Part::Turn, Part::Lines, Part::Logs, Part::Shown] {
        let facts = option::all().filter_map(|row| match row.tells {
            Tells::Of(of, tells) if of == part => tells(group),
            _ => None,
        });
        let shown = if part == Part::Shown { "shows " } else { "" };
        text.extend(option::joined(facts).map(|facts| format!("    {shown}{facts}")));
    }
}

/// Formats names of volumes; of many the first and the last.
fn names(volumes: &[String]) -> String {
    match volumes {
        [first, second, .., last] if volumes.len() > 8 => {
            format!("{first}, {second}, … {last} ({} volumes)", volumes.len())
        }
        _ => volumes.join(", "),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn long_times_are_said_in_longer_units_too() {
        let said = [0.5, 119.0, 120.0, 5430.0, 7200.0, 172_800.0, 2_592_000.0].map(span);
        let expect = [
            "0.5 s",
            "119 s",
            "120 s (2 minutes)",
            "5430 s (90.5 minutes)",
            "7200 s (2 hours)",
            "172800 s (2 days)",
            "2592000 s (30 days)",
        ];
        assert_eq!(said, expect);
    }
}
