//! When jobs begin and end, and which of them are one step.

use std::collections::{HashMap, HashSet};

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
    /// Beginning and end of each of its groups, in seconds after it, without its ramp.
    spans: Vec<(f64, f64)>,
    /// The ramp of each of them in seconds.
    ramps: Vec<f64>,
    /// They do not all begin and end together, or differ in their ramps.
    apart: bool,
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
                ramp_seconds: 0.0,
                ends_with_first: false,
                steady: None,
                groups,
            };
            Open { step, spans: Vec::new(), ramps: Vec::new(), apart: false }
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
        if settings.delay_us != (0, 0) && !first {
            let why = "the delay counts from the end of the jobs before it; fio's counts from its \
                       own start";
            converter.note(job, "startdelay", Treatment::Differs, why);
        }
        let (after, from) = open.after(converter, job, first && !left_out);
        // Who is like the first is like all, as long as nobody is apart.
        open.apart |= !after.is_empty() || open.ramps.first().is_some_and(|it| *it != ramp_seconds);
        for mut group in groups {
            let delay_seconds = delay_seconds(job, converter.drawn());
            let begin = from + delay_seconds;
            let end = begin + seconds.unwrap_or(NO_LIMIT_SECONDS);
            let first = open.spans.first().copied().unwrap_or((begin, end));
            open.apart |= first.0 != begin || begin > 0.0 && first.1 != end;
            group.when = When { after: after.clone(), delay_seconds, seconds, ramp_seconds: 0.0 };
            open.step.groups.push(group);
            open.spans.push((begin, end));
            open.ramps.push(ramp_seconds);
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
        let Some(Open { mut step, mut spans, ramps, apart }) = self.open.take() else { return };
        if apart {
            for ((group, (_, end)), ramp) in step.groups.iter_mut().zip(&mut spans).zip(ramps) {
                group.when.ramp_seconds = ramp;
                *end += ramp;
            }
        } else if let Some(ramp) = ramps.first() {
            // That of all, before the window that is measured.
            step.ramp_seconds = *ramp;
        }
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

/// With fio each job visits all of its part, whatever others do there.
pub(super) fn visit_all(steps: &mut [Step]) {
    for groups in steps.iter_mut().map(|step| &mut step.groups) {
        let mut users: HashMap<String, u32> = HashMap::new();
        for uri in groups.iter().flat_map(|group| &group.volumes) {
            *users.entry(uri.clone()).or_default() += 1;
        }
        for group in groups {
            group.own_places = group.volumes.iter().any(|uri| users[uri] > 1);
        }
    }
}

impl Open {
    /// The name of the groups that a job waits for, and when they end at the latest. One of a
    /// step before has ended long ago.
    fn after(&self, converter: &mut Converter<'_>, job: &FioJob, first: bool) -> (String, f64) {
        let Some(name) = &job.settings.wait_for else { return (String::new(), 0.0) };
        let of_name = self.step.groups.iter().zip(self.spans.iter().zip(&self.ramps));
        let of_name = of_name.filter(|(group, _)| group.name == *name);
        let ends = of_name.map(|(_, ((_, end), ramp))| end + ramp);
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
    // One value alone is always steady.
    let seconds = seconds.max(2.0 * f64::from(interval_seconds));
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

#[cfg(test)]
mod test {
    use super::super::test::{job, storage};
    use super::super::write;

    const NULL: &str = "[global]\nioengine=null\nsize=1g\ntime_based\nruntime=5\n";

    /// Beginning, length and ramp.
    type Turn = (f64, Option<f64>, f64);

    /// Length and ramp of the step, and of each group its beginning, length and ramp.
    fn times(words: &str) -> (f64, f64, Vec<Turn>) {
        let job = job(&format!("{NULL}{words}"));
        let step = &job.steps[0];
        let groups = step.groups.iter().map(|group| &group.when);
        let each = groups.map(|when| (when.delay_seconds, when.seconds, when.ramp_seconds));
        (step.seconds, step.ramp_seconds, each.collect())
    }

    #[test]
    fn a_ramp_is_that_of_all_jobs_or_of_each() {
        let together = (5.0, 1.0, vec![(0.0, None, 0.0); 2]);
        assert_eq!(times("ramp_time=1\n[a]\n[b]\n"), together);
        let late = (5.0, 3.0, vec![(2.0, None, 0.0); 2]);
        assert_eq!(times("ramp_time=1\nstartdelay=2\n[a]\n[b]\n"), late);
        let apart = (8.5, 0.0, vec![(0.0, Some(5.0), 1.5), (2.0, None, 1.5)]);
        assert_eq!(times("ramp_time=1500ms\n[a]\n[b]\nstartdelay=2\n"), apart);
        let differ = (6.0, 0.0, vec![(0.0, None, 1.0), (0.0, Some(5.0), 0.0)]);
        assert_eq!(times("[a]\nramp_time=1\n[b]\n"), differ);
        // The second one waits for the ramp and the run of the first.
        let waits = (12.0, 0.0, vec![(0.0, Some(5.0), 1.0), (0.0, Some(5.0), 1.0)]);
        assert_eq!(times("ramp_time=1\n[a]\n[b]\nwait_for=a\n"), waits);
    }

    #[test]
    fn jobs_of_one_volume_visit_all_of_it_each() {
        let own = |words: &str| {
            let job = job(&format!("[global]\nsize=1m\n{words}"));
            let groups = job.steps[0].groups.iter().map(|group| group.own_places);
            groups.collect::<Vec<_>>()
        };
        assert_eq!(own("filename=/dev/x\n[a]\nnumjobs=3\n"), [false]);
        assert_eq!(own("[a]\nfilename=/dev/x\n[b]\nfilename=/dev/y\n"), [false, false]);
        assert_eq!(
            own("[a]\nfilename=/dev/x\n[b]\nfilename=/dev/x\n[c]\nfilename=/dev/y\n"),
            [true, true, false]
        );
        assert_eq!(own("filename=/dev/x\n[a]\nnumjobs=2\noffset_increment=1m\n"), [true, true]);
        assert_eq!(own("filename=/dev/x\n[a]\n[b]\nstonewall\n"), [false]);
    }

    #[test]
    fn ramps_of_their_own_are_written_and_read_as_the_same_job() {
        for words in [
            "ramp_time=1500ms\n[a]\n[b]\nstartdelay=2300ms\n",
            "[a]\nramp_time=100ms\nruntime=700ms\n[b]\nruntime=3\n",
            "ramp_time=1\n[a]\n[b]\nwait_for=a\n",
        ] {
            let first = job(&format!("{NULL}{words}"));
            let written = write(&first, &storage).unwrap_or_else(|why| panic!("{words}: {why}"));
            assert_eq!(job(&written), first, "{written}");
        }
    }
}
