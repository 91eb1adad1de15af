//! The checks of a finished run.

use stats::verdict::{self, ALL, HostUse, Shown, Steadiness, Wire};
use stats::{Check, Collector, Cpu, Totals, Verdict};

use crate::equals::{changes_s, plan, plans};
use crate::recheck::Recheck;
use crate::witness::Testimony;
use job::spec::{RunSpec, WorkerSpec};

/// Facts about the host, in addition to the run's numbers.
pub(crate) struct Facts<'a> {
    pub(crate) cpu: &'a Cpu,
    /// Number of CPUs of the run, and how many of them were busy.
    pub(crate) taken: Option<(u32, f64)>,
    pub(crate) testimony: &'a Testimony,
    /// A read returned wrong data.
    pub(crate) mismatch: bool,
    /// Failures below the volumes that no I/O shows.
    pub(crate) hidden: &'a [String],
}

/// Checks of a run in virtual time: those of its numbers. There is no host for the others.
pub(crate) fn of_simulation(spec: &RunSpec, collected: &Collector, mismatch: bool) -> Vec<Check> {
    let mut checks = of_numbers(spec, collected, &[]);
    if spec.workers.iter().any(|worker| worker.workload.verify.is_some()) {
        checks.push(data(spec, &collected.totals(), &reads_done(collected), (mismatch, None)));
    }
    let made = |code: &str, checks: &[Check]| checks.iter().any(|check| check.code == code);
    let others: Vec<Check> = ALL
        .iter()
        .filter(|listed| !made(listed.code, &checks))
        .map(|listed| Check::does_not_apply(listed.code, "simulated: no host and no data"))
        .collect();
    checks.extend(others);
    verdict::complete(checks)
}

/// All checks of a run's numbers and host.
pub(crate) fn checks(spec: &RunSpec, collected: &Collector, facts: &Facts<'_>) -> Vec<Check> {
    let (job, testimony) = (&spec.job, facts.testimony);
    let is_remote = testimony.is_remote || job.transport != "local";
    let wire = match is_remote {
        false => Wire::None,
        _ if job.loopback => Wire::Loopback,
        _ => Wire::Network { retransmitted_percent: testimony.retransmitted_percent },
    };
    let totals = collected.totals();
    let mut checks = of_numbers(spec, collected, facts.hidden);
    checks.extend([
        data(spec, &totals, &reads_done(collected), (facts.mismatch, testimony.kept)),
        verdict::generator_ceiling(totals.iops, None),
        verdict::cpu_was_ours(facts.cpu.steal_percent, testimony.throttled),
        others(spec, facts),
        verdict::wire(wire),
    ]);
    checks.push(match is_remote {
        true => verdict::connections(&totals, &collected.workers()),
        false => Check::does_not_apply("H23", "local storage, no connection"),
    });
    let driven_s = job.ramp_seconds + totals.seconds;
    checks.push(verdict::burst_credits(&collected.seconds(), driven_s, &testimony.lenders));
    checks.extend(testimony.checks.iter().cloned());
    verdict::complete(checks)
}

/// Returns the checks that need only the run's numbers and its hidden failures.
fn of_numbers(spec: &RunSpec, collected: &Collector, hidden: &[String]) -> Vec<Check> {
    let totals = collected.totals();
    let (seconds, parts) = (collected.seconds(), collected.courses());
    let (plan, others) = (plan(spec), collected.parts_without_course());
    let (latencies, few) = (collected.latencies(), collected.few());
    let shown = Shown { latencies: &latencies, few: &few, closed: totals.paced.is_none() };
    vec![
        verdict::steady_state(&Steadiness {
            seconds: &seconds,
            parts: &parts,
            others,
            plan,
            changes_s: &changes_s(spec),
        }),
        verdict::littles_law(&collected.flows()),
        verdict::percentiles_supported(&shown),
        verdict::ios_succeeded(&totals, hidden),
        verdict::even(&collected.peers()),
        verdict::schedule_kept(&totals, plans(spec)),
    ]
}

fn others(spec: &RunSpec, facts: &Facts<'_>) -> Check {
    let cpu = facts.cpu;
    // An uncounted target on this host would look like another program.
    if cpu.target_cores.is_none() && spec.job.loopback {
        let words = "the target is another process of this host: its CPU use cannot be separated \
            from that of others";
        return Check::new("H17", "nobody-else", Verdict::Unknown, words);
    }
    verdict::nobody_else(HostUse {
        host_percent: cpu.host_percent,
        cores: os::cpu::allowed().len() as u32,
        ours: cpu.initiator_cores.map(|cores| cores + cpu.target_cores.unwrap_or(0.0)),
        taken: facts.taken,
    })
}

/// Returns H05 of a job that writes nothing, on unknown data: the content of blocks does not
/// change.
fn unwritten([places, changed]: [u32; 2]) -> Check {
    let check = |verdict, words| Check::new("H05", "data", verdict, words);
    match changed {
        0 => {
            let words = "randomly chosen blocks hold the same data before and after the run; the \
                job's reads were not compared";
            check(Verdict::Pass, format!("{places} {words}"))
        }
        _ => {
            let words = "randomly chosen blocks held different data when they were read again: \
                another program writes to them, or reads are wrong";
            check(Verdict::Warn, format!("{changed} of {places} {words}"))
                .mend("drumfire run JOB --verify --destroy (on a volume without other users)")
        }
    }
}

/// Returns H05 of a run whose volumes were read after its end, if that shows more than `before`: an
/// error, or that all unread writes are right.
pub(crate) fn read_back(spec: &RunSpec, before: &Check, found: &[Recheck]) -> Option<Check> {
    let check = |verdict, words: String| Check::new("H05", "data", verdict, words);
    let compared: u64 = found.iter().map(|one| one.compared).sum();
    let wrong: u64 = found.iter().map(Recheck::wrong).sum();
    if wrong > 0 {
        let words = format!(
            "{wrong} blocks miscompare when read after the run that wrote them ({compared} were \
            compared)"
        );
        let mend = "drumfire run JOB --verify-only (lists the blocks that miscompare)";
        return Some(check(Verdict::Fail, words).mend(mend));
    }
    // A worker that reads or writes without comparing leaves a part open.
    let compares = |worker: &WorkerSpec| {
        worker.workload.verify.is_some_and(|verify| verify.sample_percent > 0.0)
    };
    let is_open = before.verdict == Verdict::Unknown && spec.workers.iter().all(compares);
    (is_open && compared > 0).then(|| {
        let words = "blocks that the run wrote were read after it, and all hold the written data";
        check(Verdict::Pass, format!("{compared} {words}"))
    })
}

/// Reads of each worker.
fn reads_done(collected: &Collector) -> Vec<u64> {
    collected.workers().iter().map(|worker| worker.read.ios).collect()
}

/// Minimum of compared reads, in number and as a share of all, to speak for the others.
const COMPARED_LEAST: f64 = 100.0;
const COMPARED_SHARE: f64 = 0.01;

/// Returns H05: the data is right, as far as it was verified. `done`: reads of each worker. `kept`:
/// number of blocks that were read before and after the run, and of those that changed.
fn data(
    spec: &RunSpec,
    totals: &Totals,
    done: &[u64],
    (mismatch, kept): (bool, Option<[u32; 2]>),
) -> Check {
    let check = |verdict, words: &str| Check::new("H05", "data", verdict, words);
    if mismatch {
        return check(Verdict::Fail, "miscompare: a read returned other data than was written")
            .mend("drumfire run JOB --verify-only (lists the blocks that miscompare)");
    }
    let reads = |worker: &&WorkerSpec| {
        worker.workload.access.read_percent() > 0.0 || worker.workload.reads_back()
    };
    let share =
        |worker: &WorkerSpec| worker.workload.verify.map_or(0.0, |verify| verify.sample_percent);
    let shares: Vec<f64> = spec.workers.iter().filter(reads).map(share).collect();
    let compared = shares.iter().filter(|share| **share > 0.0).count();
    let written = spec.workers.iter().any(|worker| worker.workload.is_unread());
    if compared == 0 && written {
        return check(
            Verdict::Unknown,
            "no reads during the run: the data is checked afterwards, and the exit code is the \
            result",
        );
    }
    let writes = spec.workers.iter().any(|worker| worker.workload.writes());
    if let (0, false, Some(kept)) = (compared, writes, kept) {
        return unwritten(kept);
    }
    if compared == 0 {
        return check(Verdict::Unknown, "data not checked: add --verify")
            .mend("--verify (compares each)");
    }
    if totals.read.ios == 0 {
        return check(Verdict::Unknown, "no read completed, so no data was checked")
            .mend("--seconds 10 or more reads");
    }
    let each = spec.workers.iter().zip(done);
    let [read, seen] = each.fold([0.0; 2], |[read, seen], (worker, ios)| {
        let ios = *ios as f64;
        [read + ios, seen + ios * share(worker) / 100.0]
    });
    // Rounding may reduce sums of shares slightly.
    if seen < (read * COMPARED_SHARE).max(COMPARED_LEAST.min(read)) * (1.0 - 1e-9) {
        let words = format!(
            "about {seen:.0} of {read:.0} reads were compared: too few to speak for the others (at \
             least 1 %, and 100)"
        );
        return check(Verdict::Unknown, &words)
            .mend("--verify (compares each), or a larger sample_percent");
    }
    let least = shares.iter().copied().filter(|share| *share > 0.0).fold(100.0, f64::min);
    let whose = match shares.len() - compared {
        0 => String::new(),
        others => format!(", those of {others} other workers were not compared"),
    };
    let words = match least >= 100.0 && whose.is_empty() {
        true => "every read was compared with the data written".to_owned(),
        false if least >= 100.0 => {
            format!("the reads of {compared} workers were compared and correct{whose}")
        }
        false => format!(
            "about {least} % of the reads were compared and correct{whose}; the others were not \
            compared (sample_percent = 100 compares all)"
        ),
    };
    check(Verdict::Pass, &words)
}

#[cfg(test)]
mod quiet_test;
#[cfg(test)]
mod test;
