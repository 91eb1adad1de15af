//! The published figures beside those of the model and of this machine.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::file::{Place, Row, Scenario};

/// Differences up to this need no words, in percent.
const CLOSE_PERCENT: f64 = 5.0;
/// From here on processors are the limit, in percent of all of them.
const BUSY_PERCENT: f64 = 90.0;

/// A scenario that was run.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// As it is called.
    pub name: String,
    /// In a line.
    pub title: String,
    /// Who published it.
    pub source: String,
    /// What the live run scales down.
    pub scaled: String,
    /// Figures.
    pub rows: Vec<Shown>,
    /// Curves of them.
    pub series: Vec<Curve>,
    /// The command of each step that was run, as it may be typed.
    pub commands: BTreeMap<String, String>,
}

/// A figure, three times.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// For scripts.
    pub id: String,
    /// In words.
    pub figure: String,
    /// As published.
    pub published: f64,
    /// Of the model.
    pub modelled: Option<f64>,
    /// What kind of figure the model's is: simulated, PRED, FIT, ARITH.
    pub modelled_origin: Option<String>,
    /// On this machine, as it was measured.
    pub live: Option<f64>,
    /// Measured or emulated.
    pub live_origin: Option<String>,
    /// The live figure times this is held against the published one.
    pub live_scale: f64,
    /// Of all of them.
    pub unit: String,
    /// How far the model is from what was published.
    pub error_percent: Option<f64>,
    /// How far the live figure, scaled, is from it.
    pub live_error_percent: Option<f64>,
    /// How busy this machine's processors were.
    pub live_cpu_percent: Option<f64>,
    /// What each difference beyond 5 % comes from, and why a figure is absent.
    pub words: Vec<String>,
}

/// Rows as a curve.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// What it shows.
    pub name: String,
    /// What varies.
    pub x: String,
    /// Unit of the figures.
    pub unit: String,
    /// What varied, published, modelled, live times its scale.
    pub points: Vec<(f64, f64, Option<f64>, Option<f64>)>,
}

/// What steps came to.
#[derive(Default)]
pub struct Found {
    /// The document of `plan verify`.
    pub verified: Value,
    /// The result of each step.
    pub results: BTreeMap<String, Value>,
}

/// Holds all rows of a scenario against what was found.
pub fn outcome(scenario: &Scenario, found: &Found, ways: (bool, bool)) -> Outcome {
    let rows: Vec<Shown> = scenario.rows.iter().map(|row| shown(row, found, ways)).collect();
    let curves = scenario.series.iter().map(|series| {
        let at = |(x, id): &(f64, String)| {
            let row = rows.iter().find(|row| row.id == *id).expect("the file was checked");
            (*x, row.published, row.modelled, row.live.map(|live| live * row.live_scale))
        };
        let first = series.points.first().map(|(_, id)| id.as_str());
        let unit = rows.iter().find(|row| Some(row.id.as_str()) == first);
        Curve {
            name: series.name.clone(),
            x: series.x.clone(),
            unit: unit.map_or_else(String::new, |row| row.unit.clone()),
            points: series.points.iter().map(at).collect(),
        }
    });
    let series = curves.collect();
    let ran = scenario.steps.iter().filter(|step| found.results.contains_key(&step.id));
    let commands = ran.map(|step| (step.id.clone(), format!("drumfire {}", step.run.join(" "))));
    Outcome {
        name: scenario.name.clone(),
        title: scenario.title.clone(),
        source: scenario.source.clone(),
        scaled: scenario.scaled.clone(),
        commands: commands.collect(),
        rows,
        series,
    }
}

fn shown(row: &Row, found: &Found, (modelled, live): (bool, bool)) -> Shown {
    let model = row.modelled.as_ref().filter(|_| modelled);
    let model = model.and_then(|place| figure(place, found));
    let real = row.live.as_ref().filter(|_| live);
    let cpu = real.and_then(|place| found.results.get(place.step.as_ref()?));
    let cpu = cpu.and_then(|result| result.pointer("/cpu/host_percent")?.as_f64());
    let real = real.and_then(|place| figure(place, found));
    let error = |value: f64| 100.0 * (value / row.published - 1.0);
    let error_percent = model.as_ref().map(|(value, _)| error(*value));
    let live_error_percent = real.as_ref().map(|(value, _)| error(value * row.scale));
    let mut words = Vec::new();
    let is_far = |error: Option<f64>| error.is_some_and(|error| error.abs() > CLOSE_PERCENT);
    if is_far(error_percent) || (modelled && model.is_none()) {
        words.push(format!("model: {}", said(&row.why)));
    }
    if is_far(live_error_percent) || (live && real.is_none()) {
        match cpu.filter(|busy| *busy >= BUSY_PERCENT) {
            Some(busy) => words
                .push(format!("live: this machine's processors were the limit, {busy:.0} % busy")),
            None => words.push(format!("live: {}", said(&row.why_live))),
        }
    }
    let (modelled, modelled_origin) = model.unzip();
    let (live, live_origin) = real.unzip();
    Shown {
        id: row.id.clone(),
        figure: row.figure.clone(),
        published: row.published,
        modelled,
        modelled_origin,
        live,
        live_origin,
        live_scale: row.scale,
        unit: row.unit.clone(),
        error_percent,
        live_error_percent,
        live_cpu_percent: cpu,
        words,
    }
}

fn said(why: &str) -> &str {
    if why.is_empty() { "not explained: its processors were not busy" } else { why }
}

/// A figure, and what kind it is.
fn figure(place: &Place, found: &Found) -> Option<(f64, String)> {
    if let Some([case, name]) = &place.verify {
        let rows = found.verified.pointer("/report/rows")?.as_array()?;
        let is_it = |row: &&Value| row["case"] == **case && row["figure"] == **name;
        // Other readings of the same figure stand beside it.
        let row = rows.iter().filter(is_it).min_by_key(|row| row["tag"] == "ALT")?;
        return Some((row["model"].as_f64()? * place.times, row["tag"].as_str()?.to_owned()));
    }
    let of = |step: &str| found.results.get(step)?.pointer(&place.at)?.as_f64();
    let step = place.step.as_deref()?;
    let below = match &place.over {
        Some(over) => of(over)?,
        None => 1.0,
    };
    let origin = found.results[step]["origin"].as_str().unwrap_or("simulated");
    Some((of(step)? * place.times / below, origin.to_owned()))
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    fn row(live: &str) -> Row {
        toml::from_str(&format!(
            "id='r'\nfigure='f'\npublished=100.0\nunit='IOPS'\nscale=10.0\nwhy_live='so'\n{live}"
        ))
        .unwrap()
    }

    fn found(iops: f64, busy: f64) -> Found {
        let result = json!({ "origin": "emulated", "totals": { "iops": iops },
            "cpu": { "host_percent": busy } });
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
    fn a_difference_is_put_down_to_processors_only_when_they_were_busy() {
        let words = |busy| shown(&row(LIVE), &found(5.0, busy), (false, true)).words;
        assert!(words(97.0)[0].contains("97 % busy"));
        assert_eq!(words(60.0), ["live: so"]);
    }

    #[test]
    fn an_absent_figure_is_told() {
        assert_eq!(shown(&row(""), &found(1.0, 1.0), (false, true)).words, ["live: so"]);
        assert!(shown(&row(LIVE), &Found::default(), (false, false)).words.is_empty());
    }
}
