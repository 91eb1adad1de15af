//! Facts that two sides should share, in words.

use std::collections::BTreeSet;

use serde_json::Value;
use stats::{Origin, RunResult};

use super::Difference;
use crate::ended;
use crate::figure;
use crate::reason;

/// The facts of a side, those of its first run where all runs have them alike.
pub(super) fn of_side(runs: &[RunResult]) -> Vec<(&'static str, String)> {
    let share = |percent: f64| format!("{percent} %");
    let some = |number: Option<f64>| number.map_or_else(|| "none".to_owned(), figure::rate);
    let run = &runs[0];
    let (job, host) = (&run.job, &run.host);
    let size =
        job.size_bytes.map_or_else(|| "mixed".to_owned(), |bytes| figure::size(bytes.into()));
    vec![
        ("origin", run.origin.with(run.kind)),
        ("size", size),
        ("reads", share(job.read_percent)),
        ("random", share(job.random_percent)),
        ("outstanding", some(job.outstanding.map(|n| n as f64))),
        ("planned rate", some(job.rate_per_s)),
        ("workers", job.workers.to_string()),
        ("volumes", job.volumes.to_string()),
        ("volume", volumes(run)),
        ("transport", job.transport.clone()),
        ("loopback", job.loopback.to_string()),
        ("storage", job.storage.clone()),
        ("seconds", figure::seconds(job.seconds)),
        ("host", host.name.clone()),
        ("processor", format!("{}, {} cores", host.cpu, host.cores)),
        ("memory", figure::size(host.memory_bytes)),
        ("kernel", host.kernel.clone()),
        ("hypervisor", host.hypervisor.clone().unwrap_or_else(|| "none".to_owned())),
        ("cores of workers", cores(run)),
        ("version", format!("{} {}", run.tool.version, run.tool.git.as_deref().unwrap_or(""))),
        ("how I/Os ended", ended(runs)),
        ("whole run", run.partial.clone().unwrap_or_else(|| "yes".to_owned())),
    ]
}

/// CPUs of the workers; their number alone, if the program chose them among the idle ones: the same
/// command may then use others.
fn cores(run: &RunResult) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let groups = list(&run.spec["steps"]).into_iter().flat_map(|step| list(&step["groups"]));
    let are_chosen = groups.into_iter().any(|group| !list(&group["cores"]).is_empty());
    let cores = &run.placement.initiator;
    match are_chosen || run.job.loopback {
        true => format!("{cores:?}"),
        false => cores.len().to_string(),
    }
}

/// Returns the classes of two sides if they differ, each with the strongest reason against its
/// runs. A class rates the figures; it is not a measurement.
pub(super) fn classes(a: &[RunResult], b: &[RunResult]) -> Option<[String; 2]> {
    let [one, other] = [a, b].map(least_believed);
    (one.class != other.class).then(|| [one, other].map(reason::verdict))
}

/// The run of a side that is believed least.
pub(super) fn least_believed(runs: &[RunResult]) -> &RunResult {
    runs.iter().max_by_key(|run| reason::rank(run.class)).expect("a side has runs")
}

/// Runs of a simulation that both sides have: with equal seeds they are the same to the last bit.
pub(super) fn same_runs(a: &[RunResult], b: &[RunResult]) -> Option<Difference> {
    let simulated = |runs: &[RunResult]| runs.iter().all(|run| run.origin == Origin::Simulated);
    if !simulated(a) || !simulated(b) {
        return None;
    }
    let same = |b: &&RunResult| {
        let is_same = |a: &RunResult| a.seed == b.seed && a.totals == b.totals;
        a.iter().any(is_same)
    };
    let seeds: Vec<String> = b.iter().filter(same).map(|run| run.seed.to_string()).collect();
    let several = if seeds.len() == 1 { "seed" } else { "seeds" };
    (!seeds.is_empty()).then(|| Difference {
        what: several.to_owned(),
        a: seeds.join(", "),
        b: "the same seeds: the same runs".to_owned(),
    })
}

/// The volumes, each once. Targets of loopback have other ports each time.
pub(crate) fn volumes(run: &RunResult) -> String {
    let names: BTreeSet<String> = run.workers.iter().map(|w| without_port(&w.volume)).collect();
    let shown: Vec<&str> = names.iter().take(3).map(String::as_str).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn without_port(uri: &str) -> String {
    for address in ["://127.0.0.1:", "://[::1]:", "://localhost:"] {
        if let Some((scheme, rest)) = uri.split_once(address) {
            let path = rest.find('/').map_or("", |at| &rest[at..]);
            return format!("{scheme}{}{path}", address.trim_end_matches(':'));
        }
    }
    uri.to_owned()
}

fn ended(runs: &[RunResult]) -> String {
    let bad = runs.iter().filter_map(|run| {
        let troubles = ended::troubles(run);
        (!troubles.is_empty()).then(|| troubles.join(", "))
    });
    let bad: Vec<String> = bad.collect();
    match &bad[..] {
        [] => "well".to_owned(),
        [first] => first.clone(),
        [first, rest @ ..] => format!("{first}, and {} more runs not well", rest.len()),
    }
}

/// Returns all other facts in which the hosts differ.
pub(super) fn of_hosts(a: &RunResult, b: &RunResult) -> Vec<Difference> {
    let (a, b) = (&a.host.more, &b.host.more);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let said = |value: Option<&Value>| match value {
        None => "not known".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let differ = names.into_iter().filter(|name| a.get(*name) != b.get(*name));
    let difference = |name: &String| Difference {
        what: name.replace('_', " "),
        a: said(a.get(name)),
        b: said(b.get(name)),
    };
    differ.map(difference).collect()
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;
    use crate::sample;

    #[test]
    fn cores_are_counted_unless_somebody_chose_them() {
        let mut run = sample::race();
        run.job.loopback = false;
        run.placement.initiator = vec![1];
        run.spec = json!({ "steps": [{ "groups": [{ "volumes": ["ram:1m"] }] }] });
        assert_eq!(cores(&run), "1");
        run.spec["steps"][0]["groups"][0]["cores"] = json!([1]);
        assert_eq!(cores(&run), "[1]");
        run.spec = json!({});
        run.job.loopback = true;
        assert_eq!(cores(&run), "[1]");
    }
}
