//! Plausibility of the results of a step, and the combined result of several processes.

use serde_json::{Value, json};

/// Rates of processes add up when they were measured at once for this share of the time.
const TOGETHER_PERCENT: f64 = 75.0;

/// Refuses an implausible result: the failed check, and its first evidence.
pub fn believe(document: &Value) -> Result<(), String> {
    if let Some(cells) = document["cells"].as_array() {
        return cells.iter().try_for_each(believe_cell);
    }
    let errors = document.pointer("/totals/errors").and_then(Value::as_f64);
    match errors {
        None => return Err("its result has no count of errors".to_owned()),
        Some(errors) if errors > 0.0 => return Err(format!("{errors:.0} I/Os failed")),
        Some(_) => {}
    }
    if let Some(why) = document["partial"].as_str() {
        return Err(format!("its result is partial: {why}"));
    }
    let checks = document["checks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let failed = checks.iter().find(|check| check["verdict"] == "fail");
    if document["class"] == "invalid" || failed.is_some() {
        let of = |key: &str| failed.and_then(|check| check[key].as_str()).unwrap_or("?");
        return Err(format!("its result is invalid: {} ({})", of("evidence"), of("code")));
    }
    Ok(())
}

/// Like the check of a run, for a cell of a sweep, which records less about its runs.
fn believe_cell(cell: &Value) -> Result<(), String> {
    let of = |key: &str| cell[key].as_str().unwrap_or("?").to_owned();
    let runs = cell["runs"].as_array().filter(|runs| !runs.is_empty());
    let runs = runs.ok_or_else(|| format!("its cell {} has no run", of("folder")))?;
    for run in runs {
        if let Some(why) = run["failed"].as_str() {
            return Err(format!("a run of its cell {}: {why}", of("folder")));
        }
        if run["errors"].as_u64() != Some(0) {
            return Err(format!("I/Os failed in its cell {}", of("folder")));
        }
    }
    match cell["class"] == "invalid" {
        true => Err(format!("its cell {} is invalid", of("folder"))),
        false => Ok(()),
    }
}

/// Refuses rates of non-overlapping windows, which do not add up.
pub fn overlap(documents: &[Value]) -> Result<(), String> {
    let window = |one: &Value| {
        let begin: jiff::Timestamp = one["started"].as_str()?.parse().ok()?;
        let begin = begin.as_nanosecond() as f64 / 1e9;
        Some((begin, begin + one.pointer("/totals/seconds")?.as_f64()?))
    };
    let windows: Option<Vec<(f64, f64)>> = documents.iter().map(window).collect();
    let windows = windows.ok_or("its results have no times of measurement")?;
    let first = windows.iter().fold(f64::MAX, |first, (begin, _)| first.min(*begin));
    let late = windows.iter().fold(f64::MIN, |late, (begin, _)| late.max(*begin));
    let early = windows.iter().fold(f64::MAX, |early, (_, end)| early.min(*end));
    let last = windows.iter().fold(f64::MIN, |last, (_, end)| last.max(*end));
    let share = 100.0 * (early - late) / (last - first);
    if share < TOGETHER_PERCENT {
        return Err(format!(
            "its {} processes overlapped for {:.0} % of the time, less than \
            {TOGETHER_PERCENT:.0} %, so their rates do not add up: increase --seconds",
            documents.len(),
            share.max(0.0)
        ));
    }
    Ok(())
}

/// Merges the results of all clients: rates add up, the mean latency is that of all I/Os.
pub fn merged(mut documents: Vec<Value>) -> Value {
    if documents.len() == 1 {
        return documents.remove(0);
    }
    let of = |at: &str| -> Vec<f64> {
        documents.iter().map(|one| one.pointer(at).and_then(Value::as_f64).unwrap_or(0.0)).collect()
    };
    let sum = |at: &str| of(at).iter().sum::<f64>();
    let (ios, means) = (of("/totals/ios"), of("/totals/latency_ns/mean"));
    let all: f64 = ios.iter().sum();
    let mean = ios.iter().zip(&means).map(|(ios, mean)| ios * mean).sum::<f64>() / all.max(1.0);
    // Unknown if a process has not recorded its value.
    let busy: Option<Vec<f64>> =
        documents.iter().map(|one| one.pointer("/cpu/host_percent")?.as_f64()).collect();
    let busy = busy.map(|busy| busy.into_iter().fold(f64::MAX, f64::min));
    // All processes share the target, so the first one's figures are used.
    let target = |key: &str| documents[0]["cpu"][key].clone();
    let driving: Option<f64> =
        documents.iter().map(|one| one.pointer("/cpu/initiator_cores")?.as_f64()).sum();
    json!({
        "origin": documents[0]["origin"],
        "clients": documents.len(),
        "totals": {
            "ios": all,
            "errors": sum("/totals/errors"),
            "iops": sum("/totals/iops"),
            "bytes_per_second": sum("/totals/bytes_per_second"),
            "latency_ns": { "mean": mean },
        },
        "cpu": { "host_percent": busy, "initiator_cores": driving,
            "target_cores": target("target_cores"), "target_percent": target("target_percent") },
        "host": documents[0]["host"],
    })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_of_clients_add_up_and_means_are_weighed() {
        let one = |ios: f64, mean: f64| {
            json!({ "origin": "measured",
                "cpu": { "host_percent": ios, "initiator_cores": 0.25 },
                "totals": { "ios": ios, "iops": ios, "errors": 0,
                    "latency_ns": { "mean": mean } } })
        };
        let all = merged(vec![one(30.0, 100.0), one(10.0, 500.0)]);
        assert_eq!(all["totals"]["iops"], 40.0);
        assert_eq!(all["totals"]["latency_ns"]["mean"], 200.0);
        // A process that was not limited all the time is no evidence of a limit.
        assert_eq!(all["cpu"]["host_percent"], 10.0);
        assert_eq!(all["cpu"]["initiator_cores"], 0.5);
        let silent = json!({ "totals": { "ios": 1.0 } });
        assert!(merged(vec![one(1.0, 1.0), silent])["cpu"]["host_percent"].is_null());
    }

    #[test]
    fn what_is_not_to_be_believed_is_refused() {
        let good = json!({ "class": "indicative", "checks": [], "totals": { "errors": 0 } });
        assert_eq!(believe(&good), Ok(()));
        let with = |key: &str, value: Value| {
            let mut bad = good.clone();
            bad[key] = value;
            believe(&bad).unwrap_err()
        };
        assert!(with("totals", json!({ "errors": 3 })).contains("3 I/Os failed"));
        assert!(with("totals", json!({})).contains("no count of errors"));
        assert!(with("class", json!("invalid")).contains("invalid"));
        assert!(with("partial", json!("interrupted")).contains("partial"));
        let sweep = |runs: Value| believe(&json!({ "cells": [{ "folder": "1", "runs": runs }] }));
        assert_eq!(sweep(json!([{ "errors": 0 }])), Ok(()));
        assert!(sweep(json!([])).unwrap_err().contains("no run"));
        assert!(sweep(json!([{ "errors": 0, "failed": "cut" }])).unwrap_err().contains("cut"));
        assert!(sweep(json!([{ "errors": 2 }])).unwrap_err().contains("failed in its cell 1"));
        let failed = json!([{ "code": "H02", "verdict": "fail", "evidence": "a hole" }]);
        assert!(with("checks", failed).contains("a hole (H02)"));
    }

    #[test]
    fn rates_of_windows_that_lie_apart_do_not_add_up() {
        let at = |second: u32| {
            let started = format!("2026-01-01T00:00:0{second}Z");
            json!({ "started": started, "totals": { "seconds": 3.0 } })
        };
        assert_eq!(overlap(&[at(1), at(1)]), Ok(()));
        assert!(overlap(&[at(1), at(3)]).unwrap_err().contains("20 %"));
        assert!(overlap(&[at(1), at(5)]).unwrap_err().contains("0 %"));
        assert!(overlap(&[at(1), json!({})]).is_err());
    }
}
