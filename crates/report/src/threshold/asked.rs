//! Whether a result is of the requested storage: figures of a null volume, a model or an emulated
//! drive do not apply to any other.

use serde_json::Value;
use stats::{Origin, RunResult};

/// Returns why a result does not count for a bound, unless the job requests imitated storage: by
/// `delay:` or `fault:` in the URI of a volume, or by `simulate`.
pub(super) fn unasked(result: &RunResult) -> Option<String> {
    let volumes = volumes(result);
    let asks = |volume: &str| names(volume, "delay:") || names(volume, "fault:");
    let is_simulated = result.origin == Origin::Simulated;
    let is_asked = match result.origin {
        Origin::Measured => true,
        Origin::Emulated => volumes.iter().any(|volume| asks(volume)),
        Origin::Simulated => result.spec.pointer("/setup/by") == Some(&Value::from("simulate")),
    };
    if !is_asked {
        let word = result.origin.word();
        return Some(format!("the figures are {word}, which the job does not ask for"));
    }
    let nothing = |volume: &&&str| names(volume, "null:") && !asks(volume);
    let nothing = volumes.iter().find(nothing).filter(|_| !is_simulated)?;
    Some(format!("{nothing} stores nothing: no storage was measured"))
}

/// Whether a URI is of this kind, or has one of it below.
fn names(volume: &str, kind: &str) -> bool {
    let mut found = volume.match_indices(kind);
    found.any(|(at, _)| at == 0 || volume[..at].ends_with(['(', ',']))
}

/// The volumes that were driven; those of the job where no worker is known.
fn volumes(result: &RunResult) -> Vec<&str> {
    if !result.workers.is_empty() {
        return result.workers.iter().map(|worker| worker.volume.as_str()).collect();
    }
    let steps = result.spec.get("steps").and_then(Value::as_array).into_iter().flatten();
    let groups = steps.filter_map(|step| step.get("groups")?.as_array()).flatten();
    let volumes = groups.filter_map(|group| group.get("volumes")?.as_array()).flatten();
    volumes.filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod test {
    use super::*;
    use serde_json::json;
    use stats::WorkerResult;

    fn of(origin: Origin, volume: &str) -> Option<String> {
        let worker = WorkerResult { volume: volume.to_owned(), ..WorkerResult::default() };
        unasked(&RunResult { origin, workers: vec![worker], ..RunResult::default() })
    }

    #[test]
    fn what_imitates_storage_is_to_be_asked_for() {
        for (origin, volume, is_asked) in [
            (Origin::Measured, "file:/dev/sdx", true),
            (Origin::Measured, "ram:1g", true),
            (Origin::Measured, "null:1t", false),
            (Origin::Measured, "mirror(ram:1g,null:1g)", false),
            (Origin::Measured, "stripe:64k(null:1g,ram:1g)", false),
            (Origin::Measured, "file:null:1g", true),
            (Origin::Measured, "fault:odd.toml(null:1g)", true),
            (Origin::Emulated, "delay:x25-m(ram:1g)", true),
            (Origin::Emulated, "mirror(delay:x25-m(null:1g),ram:1g)", true),
            (Origin::Emulated, "file:/mnt/disk", false),
            (Origin::Simulated, "null:1t", false),
        ] {
            assert_eq!(of(origin, volume).is_none(), is_asked, "{origin:?} {volume}");
        }
        let words = of(Origin::Measured, "null:1t").unwrap();
        assert_eq!(words, "null:1t stores nothing: no storage was measured");
    }

    #[test]
    fn a_simulation_asks_by_its_command() {
        let spec = json!({ "setup": { "by": "simulate" },
            "steps": [{ "groups": [{ "volumes": ["null:1t"] }] }] });
        let mut result = RunResult { spec, origin: Origin::Simulated, ..RunResult::default() };
        assert_eq!(unasked(&result), None);
        result.spec["setup"] = Value::Null;
        assert!(unasked(&result).unwrap().contains("simulated"));
        result.origin = Origin::Measured;
        assert!(unasked(&result).unwrap().starts_with("null:1t stores nothing"));
    }
}
