//! When jobs begin and end, and which of them are one step.

use std::collections::HashSet;

use block::Rng;

use super::convert::Converter;
use super::job::FioJob;
use crate::formats::note::Treatment;
use crate::spec::{Group, Steady, Step, When};

/// A step without a time limit, in seconds: it ends when all is done, long before a month.
pub(super) const NO_LIMIT_SECONDS: f64 = 30.0 * 86400.0;

/// Puts jobs into steps: a new one begins where a job waits for all before it.
#[derive(Default)]
pub(super) struct Steps {
    done: Vec<Step>,
    /// The one that still grows.
    open: Option<Open>,
    /// Jobs that only make files: whoever waits for one of them does not wait.
    left_out: HashSet<String>,
}

struct Open {
    step: Step,
    /// Beginning and end of each of its groups, in seconds after it.
    spans: Vec<(f64, f64)>,
}

impl Steps {
    /// Adds a job with its groups.
    pub(super) fn add(&mut self, converter: &mut Converter<'_>, job: &FioJob, groups: Vec<Group>) {
        let settings = &job.settings;
        let runtime = settings.runtime_us.map(|us| us as f64 / 1e6);
        let seconds = converter.options.seconds.or(runtime);
        let ramp_seconds = settings.ramp_us as f64 / 1e6;
        if settings.stonewall {
            self.close();
        }
        let first = self.done.is_empty();
        let left_out =
            job.settings.wait_for.as_ref().is_some_and(|name| self.left_out.contains(name));
        let open = self.open.get_or_insert_with(|| {
            let (name, groups) = (job.name.clone(), Vec::new());
            let step = Step {
                name,
                seconds: 0.0,
                ramp_seconds,
                ends_with_first: false,
                steady: None,
                groups,
            };
            Open { step, spans: Vec::new() }
        });
        let steady = steady(job);
        match (open.spans.is_empty(), open.step.steady == steady) {
            (true, _) => open.step.steady = steady,
            (false, true) => {}
            (false, false) => {
                let why =
                    "jobs that run together have the same steadystate; part them with stonewall";
                converter.refuse(job, "steadystate", why);
            }
        }
        let several = !open.spans.is_empty() || settings.clones > 1;
        if steady.is_some() && several && !settings.grouped {
            let why = "all jobs up to the next stonewall are looked at together";
            converter.note(job, "steadystate", Treatment::Differs, why);
        }
        if steady.is_some() && settings.end_flush && settings.mix.writes {
            converter.refuse(job, "steadystate", "a flush at the end beside it is not supported");
        }
        if open.step.ramp_seconds != ramp_seconds {
            let why = "jobs that run together have the same ramp_time; part them with stonewall";
            converter.refuse(job, "ramp_time", why);
        }
        if settings.delay_us != (0, 0) && !first {
            let why = "the delay counts from the end of the jobs before it; fio's counts from its \
                       own start";
            converter.note(job, "startdelay", Treatment::Differs, why);
        }
        let (after, from) = open.after(converter, job, first && !left_out);
        let mut apart = !after.is_empty();
        for mut group in groups {
            let delay_seconds = delay_seconds(job, converter.drawn());
            let begin = from + delay_seconds;
            let end = begin + seconds.unwrap_or(NO_LIMIT_SECONDS);
            apart |= begin > 0.0 && open.spans.iter().any(|span| *span != (begin, end));
            apart |= open.spans.iter().any(|(other, _)| *other != begin);
            group.when = When { after: after.clone(), delay_seconds, seconds };
            open.step.groups.push(group);
            open.spans.push((begin, end));
        }
        if apart && ramp_seconds > 0.0 {
            let why = "a ramp is that of all jobs: beside it they begin together";
            converter.refuse(job, "ramp_time", why);
        }
    }

    /// Leaves out a job that does nothing; what comes behind it waits where it would.
    pub(super) fn leave_out(&mut self, job: &FioJob) {
        if job.settings.stonewall {
            self.close();
        }
        self.left_out.insert(job.name.clone());
    }

    /// All steps, each as long as the last of its jobs may take.
    pub(super) fn finish(mut self, exit_all: bool) -> Vec<Step> {
        self.close();
        self.done.iter_mut().for_each(|step| step.ends_with_first = exit_all);
        self.done
    }

    fn close(&mut self) {
        let Some(Open { mut step, spans }) = self.open.take() else { return };
        // A step without groups was refused, and has a length all the same.
        let last = spans.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        step.seconds = if last > 0.0 { last } else { NO_LIMIT_SECONDS };
        for (group, (_, end)) in step.groups.iter_mut().zip(&spans) {
            // What ends with the step says nothing; who waits may begin, and end, sooner than that.
            if *end >= step.seconds && group.when.after.is_empty() {
                group.when.seconds = None;
            }
        }
        if let (Some((begin, _)), true) = (spans.first(), step.ramp_seconds > 0.0) {
            // All begin then, and the ramp after it.
            step.ramp_seconds += begin;
            step.seconds -= begin;
        }
        self.done.push(step);
    }
}

impl Open {
    /// The name of the groups that a job waits for, and when they end at the latest. One of a
    /// step before has ended long ago.
    fn after(&self, converter: &mut Converter<'_>, job: &FioJob, first: bool) -> (String, f64) {
        let Some(name) = &job.settings.wait_for else { return (String::new(), 0.0) };
        let of_name = self.step.groups.iter().zip(&self.spans);
        let ends = of_name.filter(|(group, _)| group.name == *name).map(|(_, (_, end))| *end);
        match ends.reduce(f64::max) {
            Some(end) => (name.clone(), end),
            None => {
                if first {
                    let why = format!("no job before it is called {name}");
                    converter.refuse(job, "wait_for", &why);
                }
                (String::new(), 0.0)
            }
        }
    }
}

/// What ends the step of a job before its time. Without a duration fio does not look.
fn steady(job: &FioJob) -> Option<Steady> {
    let rest = job.settings.steady;
    let (of, slope, below, percent) = rest.criterion.filter(|_| rest.duration_us > 0)?;
    let interval_us = rest.interval_us.unwrap_or(1_000_000);
    let seconds = |us: u64| us as f64 / 1e6;
    let interval_seconds = u32::try_from(interval_us.div_ceil(1_000_000)).unwrap_or(u32::MAX);
    let (after_seconds, seconds) = (seconds(rest.ramp_us), seconds(rest.duration_us));
    Some(Steady { of, slope, below, percent, seconds, after_seconds, interval_seconds })
}

/// The delay of the n-th clone that draws one.
fn delay_seconds(job: &FioJob, number: u64) -> f64 {
    let (least, most) = job.settings.delay_us;
    let drawn = match most - least {
        0 => least,
        span => least + Rng::new(job.settings.seed.unwrap_or(1), number).below(span + 1),
    };
    drawn as f64 / 1e6
}
