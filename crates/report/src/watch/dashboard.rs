//! Checks `docs/grafana.json` against Grafana's dashboard schema (fields, their kinds, a grid of 24
//! columns) and against names and labels of `/metrics`.

use std::collections::BTreeSet;

use serde_json::Value;
use stats::live::Counts;

use super::{Moment, Served, ServedVolume, metrics};
use crate::sample;

/// Returns the errors of a dashboard, given the metrics of a run and of a server.
fn faults(dashboard: &Value, metrics: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (key, is_right) in [
        ("title", dashboard["title"].is_string()),
        ("uid", dashboard["uid"].as_str().is_some_and(|uid| (1..=40).contains(&uid.len()))),
        ("schemaVersion", dashboard["schemaVersion"].as_u64().is_some_and(|n| n >= 36)),
        ("time", ["from", "to"].iter().all(|end| dashboard["time"][end].is_string())),
        ("refresh", dashboard["refresh"].is_string() || dashboard["refresh"] == false),
    ] {
        if !is_right {
            faults.push(format!("{key} is {}", dashboard[key]));
        }
    }
    let mut variables = BTreeSet::new();
    for variable in list(&dashboard["templating"]["list"]) {
        let kind = variable["type"].as_str().unwrap_or_default();
        let is_known = ["query", "datasource", "interval", "custom", "constant"].contains(&kind);
        match variable["name"].as_str() {
            Some(name) if is_known && !variable["query"].is_null() => {
                variables.insert(name.to_owned());
            }
            _ => faults.push(format!("a variable: {variable}")),
        }
    }
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard["panels"]) {
        let title = panel["title"].as_str().unwrap_or("?");
        let mut fault = |why: String| faults.push(format!("panel {title}: {why}"));
        if !panel["id"].as_u64().is_some_and(|id| ids.insert(id)) {
            fault(format!("its id is {}", panel["id"]));
        }
        placed(&panel["gridPos"], &mut taken).err().into_iter().for_each(&mut fault);
        if !matches!(panel["type"].as_str(), Some("timeseries" | "stat" | "table" | "heatmap")) {
            fault(format!("its type is {}", panel["type"]));
        }
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or_default();
        if !["iops", "s", "Bps", "bytes", "short", "percentunit"].contains(&unit)
            || !panel["fieldConfig"]["overrides"].is_array()
        {
            fault(format!("its fields: {}", panel["fieldConfig"]));
        }
        let mut refs = BTreeSet::new();
        let targets = list(&panel["targets"]);
        if targets.is_empty() {
            fault("it asks for nothing".to_owned());
        }
        for target in targets {
            if !target["refId"].as_str().is_some_and(|id| refs.insert(id)) {
                fault(format!("refId {}", target["refId"]));
            }
            asked(target, metrics).into_iter().for_each(&mut fault);
        }
    }
    let text = dashboard.to_string();
    for part in text.split('$').skip(1) {
        let part = part.trim_start_matches('{');
        let name: String = part.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if !variables.contains(&name) {
            faults.push(format!("there is no variable ${name}"));
        }
    }
    faults
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Claims the cells of the grid that a panel covers.
fn placed(at: &Value, taken: &mut BTreeSet<(u64, u64)>) -> Result<(), String> {
    let of = |key: &str| at[key].as_u64().ok_or_else(|| format!("gridPos.{key} is {}", at[key]));
    let (x, y, w, h) = (of("x")?, of("y")?, of("w")?, of("h")?);
    if w == 0 || h == 0 || x + w > 24 {
        return Err(format!("it does not fit on 24 columns: {at}"));
    }
    let cells = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
    match cells.filter(|cell| !taken.insert(*cell)).count() {
        0 => Ok(()),
        _ => Err(format!("the panel at {at} covers another panel")),
    }
}

/// Returns the missing parts of a query: a metric, or a label of its legend.
fn asked(target: &Value, metrics: &str) -> Vec<String> {
    let expression = target["expr"].as_str().unwrap_or_default();
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let words = expression.split(|c| !is_word(c)).filter(|word| word.starts_with("drumfire_"));
    let names: Vec<&str> = words.collect();
    let mut faults = Vec::new();
    if names.is_empty() || target["datasource"]["type"] != "prometheus" {
        faults.push(format!("a query of nothing of ours: {target}"));
    }
    for (open, close) in [('(', ')'), ('{', '}'), ('[', ']')] {
        if expression.matches(open).count() != expression.matches(close).count() {
            faults.push(format!("{expression}: {open} without {close}"));
        }
    }
    for name in names {
        let kind = if metrics.contains(&format!("# TYPE {name} counter")) {
            "counter"
        } else if metrics.contains(&format!("# TYPE {name} gauge")) {
            "gauge"
        } else {
            faults.push(format!("no metric is called {name}"));
            continue;
        };
        let is_of_counters = expression.contains("increase(") || expression.contains("rate(");
        if is_of_counters != (kind == "counter") {
            faults.push(format!("{expression}: {name} is a {kind}"));
        }
        let lines: Vec<&str> = metrics.lines().filter(|line| line.starts_with(name)).collect();
        let legend = target["legendFormat"].as_str().unwrap_or_default();
        for part in legend.split("{{").skip(1) {
            let label = part.split("}}").next().unwrap_or_default().trim();
            // Prometheus itself adds these two.
            let is_there = ["instance", "job"].contains(&label)
                || lines.iter().any(|line| line.contains(&format!("{label}=\"")));
            if !is_there {
                faults.push(format!("{name} has no label {label}"));
            }
        }
    }
    faults
}

/// Returns all metrics of a run and a server.
fn all_metrics() -> String {
    let mut moment = Moment::default();
    moment.begin(&sample::about());
    moment.second(&sample::snapshot());
    moment.judge(&sample::race());
    moment.served = Some(Served {
        cores: Some(0.5),
        volumes: vec![ServedVolume {
            name: "disk".to_owned(),
            bytes: 1 << 20,
            counts: Some(Counts::default()),
            ..ServedVolume::default()
        }],
        ..Served::default()
    });
    metrics(&moment)
}

fn dashboard() -> Value {
    serde_json::from_str(include_str!("../../../../docs/grafana.json")).unwrap()
}

#[test]
fn the_dashboard_is_one_and_asks_for_nothing_that_is_not_there() {
    assert_eq!(faults(&dashboard(), &all_metrics()), [""; 0]);
    let dashboard = dashboard();
    let asked = list(&dashboard["panels"]).iter().map(|panel| list(&panel["targets"]).len());
    assert!(asked.sum::<usize>() >= 10);
}

#[test]
fn a_dashboard_that_is_none_is_told() {
    let with = |at: &str, value: Value| {
        let mut broken = dashboard();
        *broken.pointer_mut(at).unwrap() = value;
        faults(&broken, &all_metrics()).join("; ")
    };
    let target = "/panels/0/targets/0";
    for (at, value, why) in [
        (format!("{target}/expr"), "drumfire_speed".into(), "no metric is called drumfire_speed"),
        (format!("{target}/expr"), "rate(drumfire_iops[1m])".into(), "drumfire_iops is a gauge"),
        (format!("{target}/expr"), "sum(drumfire_iops{".into(), "( without )"),
        (format!("{target}/expr"), "drumfire_iops{job=\"$host\"}".into(), "no variable $host"),
        (
            format!("{target}/legendFormat"),
            "{{target}}".into(),
            "drumfire_iops has no label target",
        ),
        ("/panels/1/id".to_owned(), 1.into(), "its id is 1"),
        ("/panels/1/gridPos/x".to_owned(), 0.into(), "covers another panel"),
        ("/panels/1/gridPos/w".to_owned(), 13.into(), "does not fit on 24 columns"),
        ("/panels/1/type".to_owned(), "graph3d".into(), "its type is \"graph3d\""),
        ("/schemaVersion".to_owned(), "39".into(), "schemaVersion is"),
        ("/templating/list/0/type".to_owned(), "words".into(), "a variable: "),
    ] {
        let found = with(&at, value);
        assert!(found.contains(why), "{at}: {found}");
    }
}
