//! Doubts whether the runs of a cell are repeats: runs of one job, host and version, one after the
//! other, of which none is a copy of another and none was picked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::{Journal, Made, digest};
use super::{Cell, CellRun};
use crate::run::{Origin, RunResult};
use crate::verdict::Verdict;

/// Source of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Source {
    /// Seed of the patterns.
    pub seed: u64,
    /// Digest of the result; empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub digest: String,
    /// The host, by its visible facts.
    pub host: String,
    /// Version of the program.
    pub version: String,
    /// Digest of the job, without seed, command and logs.
    pub job: String,
}

/// Doubts about the runs of a cell as repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// Verdict of H20 because of the doubt: a warning or a failure.
    pub verdict: Verdict,
    /// Reason, as text.
    pub why: String,
}

impl Source {
    /// Returns the source of a result with the digest of its file.
    pub fn of(result: &RunResult) -> Source {
        let host = &result.host;
        let facts = [&host.name, &host.cpu, &host.kernel].map(String::as_str);
        let tool = &result.tool;
        let git = tool.git.as_ref().map_or_else(String::new, |git| format!(" ({git})"));
        Source {
            seed: result.seed,
            digest: String::new(),
            host: format!("{}, {} cores", facts.join(", "), host.cores),
            version: format!("{}{git}", tool.version),
            job: digest(plain(result.spec.clone()).to_string().as_bytes()),
        }
    }
}

/// Returns a job without the parts that differ between repeats.
fn plain(mut job: Value) -> Value {
    if let Some(all) = job.as_object_mut() {
        all.retain(|name, _| name != "seed" && name != "command");
    }
    let steps = job.get_mut("steps").and_then(Value::as_array_mut).into_iter().flatten();
    let groups = steps.filter_map(|step| step.get_mut("groups")?.as_array_mut()).flatten();
    groups.filter_map(Value::as_object_mut).for_each(|group| drop(group.remove("logs")));
    job
}

/// Returns all doubts about the completed runs of a cell. Without a `journal` nothing is known
/// about runs whose results were deleted.
pub fn doubts(cell: &Cell, journal: Option<&Journal>) -> Vec<Doubt> {
    let runs: Vec<&CellRun> = cell.whole_runs().collect();
    let mut found: Vec<Doubt> = Vec::new();
    found.extend(copies(&runs).map(fails));
    found.extend(apart(&runs, "hosts", |source| &source.host).map(warns));
    found.extend(apart(&runs, "versions", |source| &source.version).map(warns));
    let jobs = apart(&runs, "settings", |source| &source.job);
    found.extend(jobs.map(|_| warns("repeats have different settings".to_owned())));
    found.extend(order(&runs, journal).map(warns));
    found.extend(journal.into_iter().flat_map(|journal| by_journal(&runs, journal)));
    found
}

fn warns(why: String) -> Doubt {
    Doubt { verdict: Verdict::Warn, why }
}

fn fails(why: String) -> Doubt {
    Doubt { verdict: Verdict::Fail, why }
}

/// Property of a run that no other run may share; empty if unknown.
type Key<'a> = &'a dyn Fn(&CellRun) -> String;

/// Finds runs that share a property which must be unique to each run.
fn copies(runs: &[&CellRun]) -> Option<String> {
    let measured = |run: &CellRun| run.origin != Origin::Simulated;
    let of: [(&str, Key<'_>); 3] = [
        ("digest", &|run| run.source.digest.clone()),
        ("start", &|run| if measured(run) { run.started.clone() } else { String::new() }),
        ("seed", &|run| if known(run) { run.source.seed.to_string() } else { String::new() }),
    ];
    let mut worst: Vec<u32> = Vec::new();
    let mut words: Vec<&str> = Vec::new();
    for (word, key) in of {
        let mut same: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for run in runs.iter().filter(|run| !key(run).is_empty()) {
            same.entry(key(run)).or_default().push(run.repeat);
        }
        let Some(most) = same.into_values().max_by_key(Vec::len).filter(|most| most.len() > 1)
        else {
            continue;
        };
        words.push(word);
        if most.len() > worst.len() {
            worst = most;
        }
    }
    let repeats: Vec<String> = worst.iter().map(u32::to_string).collect();
    (!worst.is_empty()).then(|| {
        format!("repeats {} are copies of one run: same {}", repeats.join(", "), words.join(", "))
    })
}

/// Returns whether the run has a source; runs of earlier versions have none.
fn known(run: &CellRun) -> bool {
    !run.source.job.is_empty()
}

/// Finds runs that differ in a property which all must share.
fn apart(runs: &[&CellRun], what: &str, of: impl Fn(&Source) -> &String) -> Option<String> {
    let known = runs.iter().filter(|run| known(run));
    let mut all: Vec<&String> = known.map(|run| of(&run.source)).collect();
    all.sort_unstable();
    all.dedup();
    let words: Vec<&str> = all.iter().map(|value| value.as_str()).collect();
    (all.len() > 1).then(|| format!("repeats of {} {what}: {}", all.len(), words.join("; ")))
}

/// Finds a repeat that began before an earlier one, unless the earlier one was interrupted and made
/// again.
fn order(runs: &[&CellRun], journal: Option<&Journal>) -> Option<String> {
    let is_first = |run: &&&CellRun| {
        let made = journal.and_then(|journal| journal.made(&run.folder));
        made.is_none_or(|made| made.begun == 1) && run.origin != Origin::Simulated
    };
    let mut firsts: Vec<&CellRun> = runs.iter().filter(is_first).copied().collect();
    firsts.sort_by_key(|run| run.repeat);
    let pair =
        firsts.windows(2).find(|pair| instant(&pair[1].started) < instant(&pair[0].started))?;
    Some(format!("repeat {} began before repeat {}", pair[1].repeat, pair[0].repeat))
}

/// Returns a time of RFC 3339 in UTC as a comparable value: fractions are of any length.
fn instant(text: &str) -> (&str, String) {
    let (whole, fraction) = text.trim_end_matches('Z').split_once('.').unwrap_or((text, ""));
    (whole.trim_end_matches('Z'), format!("{fraction:0<9}"))
}

/// Returns the doubts that follow from the journal.
fn by_journal(runs: &[&CellRun], journal: &Journal) -> Vec<Doubt> {
    let mut found = Vec::new();
    let at = journal.counts.broken_at;
    if at > 0 {
        found.push(fails(format!(
            "the journal was edited: line {at} does not match the line before it"
        )));
    }
    let of = |is: &dyn Fn(&CellRun, Option<&Made>) -> bool| {
        let is = |run: &&&CellRun| is(run, journal.made(&run.folder));
        let repeats: Vec<String> =
            runs.iter().filter(is).map(|run| run.repeat.to_string()).collect();
        (!repeats.is_empty()).then(|| repeats.join(", "))
    };
    let exchanged = of(&|run, made| {
        let (named, is) = (made.and_then(|made| made.digest.as_ref()), &run.source.digest);
        named.is_some_and(|named| !is.is_empty() && named != is)
    });
    let missing = of(&|_, made| made.is_none());
    let picked = of(&|_, made| made.is_some_and(|made| made.thrown_away > 0));
    found
        .extend(exchanged.map(|which| {
            fails(format!("repeats {which} are not the runs that the journal lists"))
        }));
    found.extend(missing.map(|which| warns(format!("the journal has no repeats {which}"))));
    found.extend(picked.map(|which| {
        warns(format!("repeats {which} were measured before, and those results were discarded"))
    }));
    found
}

#[cfg(test)]
mod test {
    use super::super::journal::{Entry, Event};
    use super::*;

    fn run(repeat: u32) -> CellRun {
        let source = Source {
            seed: 100 + u64::from(repeat),
            digest: format!("d{repeat}"),
            host: "box, cpu, Linux, 2 cores".to_owned(),
            version: "0.1.0".to_owned(),
            job: "j".to_owned(),
        };
        let folder = format!("c/repeat-{repeat}");
        // Some times have fractions of a second, and one has none.
        let started = ["2026-11-20T08:00:00Z", "2026-11-20T08:00:00.5Z", "2026-11-20T08:00:01.25Z"];
        let started = started[repeat as usize - 1].to_owned();
        CellRun { repeat, folder, started, source, ..CellRun::default() }
    }

    fn told(change: impl Fn(&mut Vec<CellRun>), journal: Option<&Journal>) -> Vec<String> {
        let mut runs: Vec<CellRun> = (1..=3).map(run).collect();
        change(&mut runs);
        let found = doubts(&Cell { runs, ..Cell::default() }, journal);
        let word = |doubt: Doubt| format!("{}: {}", doubt.verdict.word(), doubt.why);
        found.into_iter().map(word).collect()
    }

    fn journal(events: &[(Event, u32, &str)]) -> Journal {
        let mut journal = Journal::default();
        for (event, repeat, digest) in events {
            let (run, digest) = (format!("c/repeat-{repeat}"), (*digest).to_owned());
            journal.line(Entry { event: *event, run, digest, ..Entry::default() });
        }
        journal
    }

    fn honest() -> Vec<(Event, u32, &'static str)> {
        let each = [(1, "d1"), (2, "d2"), (3, "d3")].into_iter();
        each.flat_map(|(r, d)| [(Event::Begun, r, ""), (Event::Ended, r, d)]).collect()
    }

    #[test]
    fn honest_repeats_raise_no_doubt() {
        assert_eq!(told(|_| (), None), [""; 0]);
        assert_eq!(told(|_| (), Some(&journal(&honest()))), [""; 0]);
        // An interrupted run is made again at the end.
        let mut all = vec![(Event::Begun, 1, ""), (Event::Failed, 1, "")];
        all.extend(honest());
        let last = |runs: &mut Vec<CellRun>| runs[0].started = "2026-11-20T09:00:00Z".to_owned();
        assert_eq!(told(last, Some(&journal(&all))), [""; 0]);
        // Runs of a model have no time, and earlier ones have no source.
        let simulated = |runs: &mut Vec<CellRun>| {
            for run in runs {
                (run.origin, run.started) = (Origin::Simulated, "1970-01-01T00:00:00Z".to_owned());
            }
        };
        assert_eq!(told(simulated, None), [""; 0]);
        let earlier = |runs: &mut Vec<CellRun>| {
            runs.iter_mut().for_each(|run| run.source = Source::default());
        };
        assert_eq!(told(earlier, None), [""; 0]);
    }

    #[test]
    fn copies_and_strangers_are_told() {
        let copy = |runs: &mut Vec<CellRun>| {
            let first = runs[0].clone();
            for run in &mut runs[1..] {
                let folder = run.folder.clone();
                *run = CellRun { repeat: run.repeat, folder, ..first.clone() };
            }
        };
        let words = "fail: repeats 1, 2, 3 are copies of one run: same digest, start, seed";
        assert_eq!(told(copy, None), [words]);
        let seed = |runs: &mut Vec<CellRun>| runs[2].source.seed = runs[0].source.seed;
        assert_eq!(told(seed, None), ["fail: repeats 1, 3 are copies of one run: same seed"]);
        let host = |runs: &mut Vec<CellRun>| runs[1].source.host = "other".to_owned();
        let words = "warn: repeats of 2 hosts: box, cpu, Linux, 2 cores; other";
        assert_eq!(told(host, None), [words]);
        let version = |runs: &mut Vec<CellRun>| runs[1].source.version = "9.9".to_owned();
        assert_eq!(told(version, None), ["warn: repeats of 2 versions: 0.1.0; 9.9"]);
        let job = |runs: &mut Vec<CellRun>| runs[1].source.job = "k".to_owned();
        assert_eq!(told(job, None), ["warn: repeats have different settings"]);
        let late = |runs: &mut Vec<CellRun>| runs[0].started = "2026-11-20T09:00:00Z".to_owned();
        assert_eq!(told(late, None), ["warn: repeat 2 began before repeat 1"]);
    }

    #[test]
    fn the_journal_knows_what_was_thrown_away_or_exchanged() {
        let mut all = honest();
        all.splice(0..0, [(Event::Begun, 2, ""), (Event::Ended, 2, "slow")]);
        let words = "warn: repeats 2 were measured before, and those results were discarded";
        assert_eq!(told(|_| (), Some(&journal(&all))), [words]);
        let other = |runs: &mut Vec<CellRun>| runs[2].source.digest = "lucky".to_owned();
        let words = "fail: repeats 3 are not the runs that the journal lists";
        assert_eq!(told(other, Some(&journal(&honest()))), [words]);
        let few = journal(&honest()[..4]);
        assert_eq!(told(|_| (), Some(&few)), ["warn: the journal has no repeats 3"]);
        // The end of the run was not written: the sweep was interrupted at that moment.
        let cut = journal(&honest()[..5]);
        assert_eq!(told(|_| (), Some(&cut)), [""; 0]);
    }
}
