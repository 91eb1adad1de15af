use serde_json::json;

use super::*;

fn row(live: &str) -> Row {
    toml::from_str(&format!(
        "id='r'\nfigure='f'\npublished=100.0\nunit='IOPS'\nscale=10.0\nwhy='so'\n{live}"
    ))
    .unwrap()
}

fn found(iops: f64, busy: f64) -> Found {
    let result = json!({ "origin": "emulated", "totals": { "iops": iops },
        "cpu": { "host_percent": busy, "initiator_cores": busy / 100.0 },
        "host": { "cores": 2 } });
    Found { results: [("s".to_owned(), result)].into(), ..Found::default() }
}

const LIVE: &str = "live={ step='s', at='/totals/iops' }";

#[test]
fn a_live_figure_is_shown_as_it_is_and_held_scaled() {
    let shown = shown(&row(LIVE), &found(9.8, 30.0), (false, true));
    assert_eq!((shown.live, shown.live_origin.as_deref()), (Some(9.8), Some("emulated")));
    assert!((shown.live_error_percent.unwrap() + 2.0).abs() < 1e-9);
    assert!(shown.words.is_empty(), "{:?}", shown.words);
}

#[test]
fn what_was_put_into_a_figure_stands_beside_it() {
    let row = Row { given: "the rating".to_owned(), ..row(LIVE) };
    let words = shown(&row, &found(10.0, 30.0), (false, true)).words;
    assert_eq!(words, ["live: given: the rating"]);
    assert!(shown(&row, &Found::default(), (false, true)).words[0].contains("none"));
}

#[test]
fn where_nothing_was_published_the_model_is_what_it_is_held_against() {
    let mut row = row(&format!("{LIVE}\nmodelled={{ step='s', at='/model' }}"));
    row.published = None;
    let mut found = found(9.0, 30.0);
    found.results.get_mut("s").unwrap()["model"] = json!(100.0);
    let both = shown(&row, &found, (true, true));
    assert_eq!((both.published, both.error_percent), (None, None));
    assert!((both.live_error_percent.unwrap() + 10.0).abs() < 1e-9);
    assert!(both.words.contains(&"live: compared with the model, as nothing was published".into()));
    row.published = Some(200.0);
    let both = shown(&row, &found, (true, true));
    assert!(both.words.contains(&"live: not explained: CPUs were 30 % busy".into()));
    found.results.get_mut("s").unwrap()["model"] = json!(92.0);
    let both = shown(&row, &found, (true, true));
    assert!(both.words.contains(&"live: agrees with the model, -2.2 %".into()));
    row.published = None;
    let alone = shown(&row, &found, (false, true));
    assert_eq!((alone.live, alone.live_error_percent), (Some(9.0), None));
}

#[test]
fn a_row_that_nobody_does_live_says_why() {
    let mut row = row("modelled={ verify=['arithmetic', 'f'] }");
    let words = |row: &Row| shown(row, &Found::default(), (false, true)).words;
    assert_eq!(words(&row), ["live: none: the document's own arithmetic: nothing to run"]);
    row.no_live = "no wire here".to_owned();
    assert_eq!(words(&row), ["live: none: no wire here"]);
}

#[test]
fn a_difference_is_put_down_to_processors_only_when_they_were_busy() {
    let words = |result: Found| shown(&row(LIVE), &result, (false, true)).words;
    assert!(words(found(5.0, 97.0))[0].contains("97 % busy"));
    assert_eq!(words(found(5.0, 60.0)), ["live: not explained: CPUs were 60 % busy"]);
    let mut others = found(5.0, 97.0);
    others.results.get_mut("s").unwrap()["cpu"]["initiator_cores"] = json!(0.1);
    let shown = shown(&row(LIVE), &others, (false, true));
    assert_eq!((shown.live, shown.live_error_percent), (None, None), "a figure of the others");
    assert!(shown.words[0].starts_with("live: none: the host was not quiet: CPUs were 97 %"));
    let mut silent = found(5.0, 60.0);
    silent.results.get_mut("s").unwrap()["cpu"] = Value::Null;
    assert!(words(silent)[0].contains("was not recorded"));
}

#[test]
fn an_absent_figure_is_told() {
    let result = found(1.0, 1.0);
    let failed = [("s".to_owned(), "3 I/Os failed".to_owned())].into();
    let found = Found { failed, ..Found::default() };
    let shown = |live| shown(&row(LIVE), &found, (true, live));
    assert_eq!(shown(true).live, None);
    assert_eq!(shown(true).words, ["model: none: so", "live: none: 3 I/Os failed"]);
    assert_eq!(shown(false).words, ["model: none: so"]);
    let mut place = row(LIVE).live.unwrap();
    assert_eq!(no_live(&place, &Found::default()), "step s did not finish");
    place.at = "/totals/iopps".to_owned();
    assert!(no_live(&place, &result).contains("has no number at /totals/iopps"));
}

#[test]
fn a_sweep_says_by_its_runs_where_figures_come_from() {
    let sweep = json!({ "cells": [{ "runs": [{ "origin": "measured" }] }] });
    assert_eq!(origin(&sweep), "measured");
    assert_eq!(origin(&json!({ "origin": "emulated" })), "emulated");
    assert_eq!(origin(&json!({})), "simulated");
}

#[test]
fn live_steps_of_earlier_runs_are_told() {
    let scenario = crate::scenario::file::read("intel-28-ssd").unwrap();
    let mut found = Found::default();
    let done = |run: &str| Done { run: run.to_owned(), ended: run.to_owned() };
    let (now, before) = ("2026-01-01T12:00:00.5Z", "2026-01-01T11:30:00.5Z");
    for (id, run) in [("first", before), ("drives", before), ("raid0", now), ("plan-24", before)] {
        found.done.insert(id.to_owned(), done(run));
    }
    let earlier = |begun| outcome(&scenario, &found, (true, true), begun).earlier;
    let live = scenario.steps.iter().filter(|step| step.way == Way::Live).count();
    assert_eq!(
        earlier(now),
        [format!("2 of {live} live steps are from the run of 2026-01-01 11:30 UTC: first, drives")]
    );
    assert_eq!(earlier("2026-01-02T00:00:00Z").len(), 2);
}

#[test]
fn a_row_that_the_correction_makes_worse_says_so_and_why() {
    let answer = |corrected: f64, alone: f64| {
        let result = json!({ "origin": "simulated", "uncorrected": { "iops": alone },
            "answer": { "class": "host-bound", "p50": { "iops": corrected },
                "evidence": { "rows": 46, "publishers": 40 } } });
        Found { results: [("s".to_owned(), result)].into(), ..Found::default() }
    };
    let row = row("modelled={ step='s', at='/answer/p50/iops' }");
    let worse = shown(&row, &answer(83.0, 98.0), (true, false));
    assert_eq!(worse.modelled_origin.as_deref(), Some("predicted"));
    let [why] = &worse.words[..] else { panic!("{:?}", worse.words) };
    assert!(why.contains("uncorrected 98, -2.0 %") && why.contains("46 results"), "{why}");
    assert!(why.contains("class: host bound"), "{why}");
    // A correction that helps needs no words, and one that is far off has the row's.
    assert!(shown(&row, &answer(99.0, 120.0), (true, false)).words.is_empty());
    assert_eq!(shown(&row, &answer(80.0, 70.0), (true, false)).words, ["model: so"]);
    let fitted = Row { fitted: true, ..row };
    let fitted = shown(&fitted, &answer(99.0, 120.0), (true, false));
    assert_eq!(fitted.modelled_origin.as_deref(), Some("fitted"));
    assert!(fitted.reason.contains("proves nothing"), "{}", fitted.reason);
}

#[test]
fn a_derived_figure_is_not_published_and_still_compared() {
    let mut row = row(LIVE);
    (row.published, row.derived) = (None, Some(100.0));
    let shown = shown(&row, &found(9.8, 30.0), (false, true));
    assert_eq!((shown.published, shown.derived), (None, Some(100.0)));
    assert!((shown.live_error_percent.unwrap() + 2.0).abs() < 1e-9);
    assert!(!shown.words.iter().any(|words| words.contains("nothing was published")));
}

#[test]
fn a_fitted_figure_says_so() {
    let report = json!({ "report": { "rows": [
        { "case": "c", "figure": "f", "tag": "ALT", "model": 9.0 },
        { "case": "c", "figure": "f", "tag": "FIT", "model": 100.0 } ] } });
    let found = Found { verified: report, ..Found::default() };
    let found = shown(&row("modelled={ verify=['c', 'f'] }"), &found, (true, false));
    assert_eq!((found.modelled, found.modelled_origin.as_deref()), (Some(100.0), Some("fitted")));
    assert!(found.reason.contains("proves nothing"), "{}", found.reason);
}
