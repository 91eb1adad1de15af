//! Start and end of jobs, and their grouping into steps.

use std::collections::{HashMap, HashSet};

use block::Rng;

use super::convert::Converter;
use super::job::FioJob;
use crate::formats::note::Treatment;
use crate::spec::{Group, Steady, Step, When};

/// Length of a step without a time limit, in seconds: the step ends when all is done, long before a
/// month.
pub(super) const NO_LIMIT_SECONDS: f64 = 30.0 * 86400.0;

/// Groups jobs into steps: a new step begins where a job waits for all previous ones.
#[derive(Default)]
pub(super) struct Steps {
    done: Vec<Step>,
    /// The step that is still growing.
    open: Option<Open>,
    /// Jobs that only lay out files: a job that waits for one of them does not wait.
    left_out: HashSet<String>,
}

struct Open {
    step: Step,
    /// Beginning and end of each of the step's groups, in seconds after its beginning, without the
    /// ramp.
    spans: Vec<(f64, f64)>,
    /// Ramps of the groups in seconds.
    ramps: Vec<f64>,
    /// True if the groups do not all begin and end together, or differ in their ramps.
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
                let why = "concurrent jobs need the same steadystate: separate them with stonewall";
                converter.refuse(job, "steadystate", why);
            }
        }
        let several = !open.spans.is_empty() || settings.clones > 1;
        if steady.is_some() && several && !settings.grouped {
            let why = "all jobs up to the next stonewall are evaluated together";
            converter.note(job, "steadystate", Treatment::Differs, why);
        }
        if steady.is_some() && settings.end_flush && settings.mix.writes {
            converter.refuse(
                job,
                "steadystate",
                "cannot be combined with a flush at the end, end_fsync or fsync_on_close",
            );
        }
        if settings.delay_us != (0, 0) && !first {
            let why = "the delay counts from the end of the previous jobs; in fio from the start \
                       of fio";
            converter.note(job, "startdelay", Treatment::Differs, why);
        }
        let (after, from) = open.after(converter, job, first && !left_out);
        // A group like the first is like all, as long as none differs.
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

    /// Leaves out a job that does nothing; the jobs after it wait as if it were there.
    pub(super) fn leave_out(&mut self, job: &FioJob) {
        if job.settings.stonewall {
            self.close();
        }
        self.left_out.insert(job.name.clone());
    }

    /// Returns all steps, each as long as the last of its jobs may take.
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
            // The ramp is that of all groups, before the measured window.
            step.ramp_seconds = *ramp;
        }
        // A step without groups was refused, and has a length all the same.
        let last = spans.iter().map(|(_, end)| *end).fold(0.0, f64::max);
        step.seconds = if last > 0.0 { last } else { NO_LIMIT_SECONDS };
        for (group, (_, end)) in step.groups.iter_mut().zip(&spans) {
            // A group that ends with the step has no length of its own; a group that waits may
            // begin, and end, sooner than that.
            if *end >= step.seconds && group.when.after.is_empty() {
                group.when.seconds = None;
            }
        }
        if let (Some((begin, _)), true) = (spans.first(), step.ramp_seconds > 0.0) {
            // All groups begin at that time, and the ramp after it.
            step.ramp_seconds += begin;
            step.seconds -= begin;
        }
        self.done.push(step);
    }
}

/// Sets that each job visits all of its part, whatever other jobs do there, as in fio.
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
    /// Returns the name of the groups that a job waits for, and their latest end. A group of a
    /// previous step has ended already.
    fn after(&self, converter: &mut Converter<'_>, job: &FioJob, first: bool) -> (String, f64) {
        let Some(name) = &job.settings.wait_for else { return (String::new(), 0.0) };
        let of_name = self.step.groups.iter().zip(self.spans.iter().zip(&self.ramps));
        let of_name = of_name.filter(|(group, _)| group.name == *name);
        let ends = of_name.map(|(_, ((_, end), ramp))| end + ramp);
        match ends.reduce(f64::max) {
            Some(end) => (name.clone(), end),
            None => {
                if first {
                    let why = format!("no earlier job is named {name}");
                    converter.refuse(job, "wait_for", &why);
                }
                (String::new(), 0.0)
            }
        }
    }
}

/// Returns the steady-state criterion of a job. Without a duration fio does not check it.
fn steady(job: &FioJob) -> Option<Steady> {
    let rest = job.settings.steady;
    let (of, slope, below, percent) = rest.criterion.filter(|_| rest.duration_us > 0)?;
    let interval_us = rest.interval_us.unwrap_or(1_000_000);
    let seconds = |us: u64| us as f64 / 1e6;
    let interval_seconds = u32::try_from(interval_us.div_ceil(1_000_000)).unwrap_or(u32::MAX);
    let (after_seconds, seconds) = (seconds(rest.ramp_us), seconds(rest.duration_us));
    // A single value is always steady.
    let seconds = seconds.max(2.0 * f64::from(interval_seconds));
    Some(Steady { of, slope, below, percent, seconds, after_seconds, interval_seconds })
}

/// Returns the delay of the n-th clone that draws one.
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

    /// Beginning, length and ramp of a group.
    type Turn = (f64, Option<f64>, f64);

    /// Returns length and ramp of the step, and of each group its beginning, length and ramp.
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
        // The second job waits for the ramp and the run of the first.
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
