//! Published figures, compared with those of the model and of this machine.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::file::{FigureSource, Row, Scenario, Way};
use super::print::number;

/// Maximum deviation that needs no explanation, in percent.
const CLOSE_PERCENT: f64 = 5.0;
/// Largest rounding error in percent; its sign depends on the compiler.
const ROUNDED_PERCENT: f64 = 1e-10;
/// Utilisation from which CPUs are the bottleneck, in percent of all of them.
const BUSY_PERCENT: f64 = 90.0;

/// Use of the CPUs by other programs from which a live figure is not shown, in percent of all of
/// them: it is a figure of the others.
const OTHERS_PERCENT: f64 = 50.0;

/// Difference from which on the correction makes a figure worse, in points of a percent.
const WORSE_PERCENT: f64 = 0.05;
/// Start of the JSON pointers to a corrected answer of `plan`.
const ANSWER: &str = "/answer/p50/";

/// The step that asks `plan verify`.
pub const VERIFY: &str = "verify";

/// A scenario that was run.
#[derive(Debug, Serialize)]
pub struct Outcome {
    /// Name of the scenario.
    pub name: String,
    /// One-line description.
    #[serde(rename = "about")]
    pub title: String,
    /// Publisher.
    pub source: String,
    /// Scaling of the live run.
    pub scaled: String,
    /// State of the live side as a whole: figures, none, not built yet, not requested.
    pub live: &'static str,
    /// Figures.
    pub rows: Vec<Shown>,
    /// Curves of the figures.
    pub series: Vec<Curve>,
    /// Command of each step that was run, ready to be typed.
    pub commands: BTreeMap<String, String>,
    /// Time and run of each finished step.
    pub steps: BTreeMap<String, Done>,
    /// Live steps that earlier runs did, in words.
    pub earlier: Vec<String>,
}

/// Times of a completed step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Done {
    /// Start time of the `scenario run` that ran the step.
    pub run: String,
    /// End time of the step.
    pub ended: String,
}

/// A figure, three times.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// Stable ID for scripts.
    pub id: String,
    /// Description of the figure.
    #[serde(rename = "what")]
    pub figure: String,
    /// Published figure, if there is one.
    pub published: Option<f64>,
    /// The figure that follows from the document's others, where the document has none itself.
    pub derived: Option<f64>,
    /// Figure of the model.
    pub modelled: Option<f64>,
    /// Origin of the model's figure: predicted, fitted, arithmetic, another reading.
    pub modelled_origin: Option<String>,
    /// Figure measured on this machine, not scaled.
    pub live: Option<f64>,
    /// Measured or emulated.
    pub live_origin: Option<String>,
    /// Factor on the live figure before its comparison with the published one.
    pub live_scale: f64,
    /// Unit of all figures.
    pub unit: String,
    /// Deviation of the model from the published figure.
    pub error_percent: Option<f64>,
    /// Deviation of the scaled live figure from the published one, or from the model if nothing was
    /// published.
    pub live_error_percent: Option<f64>,
    /// CPU utilisation of this machine.
    pub live_cpu_percent: Option<f64>,
    /// Reasons for each deviation above 5 %, and for absent figures.
    pub words: Vec<String>,
    /// The reasons in one line, with the meaning of an agreement.
    pub reason: String,
}

/// Rows as a curve.
#[derive(Debug, Serialize)]
pub struct Curve {
    /// Title of the curve.
    pub name: String,
    /// Variable of the x axis.
    pub x: String,
    /// Unit of the figures.
    pub unit: String,
    /// In the order of the file.
    pub points: Vec<Point>,
}

/// Point of a curve: x, published, modelled, and live times its scale.
type Point = (f64, Option<f64>, Option<f64>, Option<f64>);

/// Results of the steps.
#[derive(Default)]
pub struct Found {
    /// The document of `plan verify`.
    pub verified: Value,
    /// The result of each step.
    pub results: BTreeMap<String, Value>,
    /// Times at which each step was done.
    pub done: BTreeMap<String, Done>,
    /// Reason for which a step failed.
    pub failed: BTreeMap<String, String>,
}

/// Compares all rows of a scenario with the results of the run that started at `begun` and of
/// earlier runs.
pub fn outcome(scenario: &Scenario, found: &Found, ways: (bool, bool), begun: &str) -> Outcome {
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
        live: match () {
            () if scenario.rows.iter().all(|row| row.live.is_none()) => "not built yet",
            () if !ways.1 => "not asked for",
            () if rows.iter().all(|row| row.live.is_none()) => "no figure",
            () => "figures",
        },
        commands: commands.collect(),
        steps: found.done.clone(),
        earlier: earlier(scenario, found, begun),
        rows,
        series,
    }
}

/// Live steps of earlier runs, grouped by run. Modelled steps are left out: a model gives the same
/// result in every run.
fn earlier(scenario: &Scenario, found: &Found, begun: &str) -> Vec<String> {
    let live = scenario.steps.iter().filter(|step| step.way == Way::Live);
    let live: Vec<&str> = live.map(|step| step.id.as_str()).collect();
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for id in &live {
        if let Some(done) = found.done.get(*id).filter(|done| done.run != begun) {
            runs.entry(&done.run).or_default().push(id);
        }
    }
    let say = |(run, ids): (&str, Vec<&str>)| {
        let (count, all, ids) = (ids.len(), live.len(), ids.join(", "));
        format!("{count} of {all} live steps are from the run of {}: {ids}", minute(run))
    };
    runs.into_iter().map(say).collect()
}

/// A time in readable form: `2026-01-01 12:30 UTC`.
fn minute(time: &str) -> String {
    match time.parse::<jiff::Timestamp>() {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => time.to_owned(),
    }
}

fn shown(row: &Row, found: &Found, (modelled, live): (bool, bool)) -> Shown {
    let model = row.modelled.as_ref().filter(|_| modelled);
    let model = model.and_then(|place| figure(place, found));
    let place = row.live.as_ref().filter(|_| live);
    let result = place.and_then(|place| found.results.get(place.step.as_ref()?));
    let others = result.and_then(others);
    let real = place.filter(|_| others.is_none()).and_then(|place| figure(place, found));
    let (modelled_value, live_value) = (model.as_ref().map(|m| m.0), real.as_ref().map(|r| r.0));
    let live_held = live_value.map(|value| value * row.scale);
    let document = row.published.or(row.derived);
    let error_percent = error(modelled_value, document);
    let live_error_percent = error(live_held, document.or(modelled_value));
    let mut words = Vec::new();
    words.extend(of_model(row, found, error_percent).filter(|_| modelled));
    let apart = error(live_held, modelled_value);
    words.extend(match place {
        Some(place) if real.is_none() => {
            let why = others.unwrap_or_else(|| no_live(place, found));
            Some(format!("live: none: {why}"))
        }
        Some(_) if is_far(live_error_percent) => Some(match apart.filter(|_| !is_far(apart)) {
            Some(percent) => format!("live: agrees with the model, {percent:+.1} %"),
            None => format!("live: {}", explained(result.unwrap_or(&Value::Null))),
        }),
        None if live && row.live.is_none() => absent(row).map(|why| format!("live: none: {why}")),
        _ => None,
    });
    if real.is_some() && document.is_none() && live_error_percent.is_some() {
        words.push("live: compared with the model, as nothing was published".to_owned());
    }
    words.extend(beside_live(row, place, result, real.is_some()));
    let kind = model.as_ref().map(|(_, kind)| if row.fitted { "fitted" } else { kind.as_str() });
    let kind = kind.and_then(caution).map(str::to_owned);
    let is_scaled = |_: &&(f64, String)| row.scale != 1.0;
    let scaled = real.as_ref().filter(is_scaled).map(|(_, origin)| {
        let error = live_error_percent.map_or_else(String::new, |error| format!(": {error:+.1} %"));
        format!("live: {origin}, compared after scaling by {}{error}", row.scale)
    });
    let reason: Vec<String> = kind.into_iter().chain(scaled).chain(words.clone()).collect();
    let (modelled, mut modelled_origin) = model.unzip();
    if row.fitted && modelled.is_some() {
        modelled_origin = Some("fitted".to_owned());
    }
    let (live, live_origin) = real.unzip();
    Shown {
        id: row.id.clone(),
        figure: row.figure.clone(),
        published: row.published,
        derived: row.derived,
        modelled,
        modelled_origin,
        live,
        live_origin,
        live_scale: row.scale,
        unit: row.unit.clone(),
        error_percent,
        live_error_percent,
        live_cpu_percent: result.and_then(busy),
        words,
        reason: reason.join("; "),
    }
}

/// Network, swing and given figures of a live run, as far as it has them.
fn beside_live(
    row: &Row,
    place: Option<&FigureSource>,
    result: Option<&Value>,
    has_figure: bool,
) -> Vec<String> {
    let text = |at: &Value| at.as_str().map(|words| format!("live: {words}"));
    let network = result.filter(|_| has_figure).and_then(|result| text(&result["network"]));
    let swings = place.is_some_and(|place| place.at.starts_with("/swing/"));
    let swing = result.filter(|_| swings).and_then(|result| text(&result["swing"]["seen"]));
    let is_given = has_figure && !row.given.is_empty();
    let given = is_given.then(|| format!("live: given: {}", row.given));
    [network, swing, given].into_iter().flatten().collect()
}

/// Why the model has no figure, or another one than the document.
fn of_model(row: &Row, found: &Found, error_percent: Option<f64>) -> Option<String> {
    let place = row.modelled.as_ref();
    let document = row.published.or(row.derived);
    if place.and_then(|place| figure(place, found)).is_none() {
        return Some(format!("model: none: {}", no_model(row, found)));
    }
    if let Some(why) = worse_by_correction(place?, found, document, error_percent) {
        return Some(format!("model: {why}"));
    }
    let why = if row.why.is_empty() { "not explained" } else { &row.why };
    is_far(error_percent).then(|| format!("model: {why}"))
}

/// Relative difference in percent; 0 if it is only rounding.
fn error(value: Option<f64>, right: Option<f64>) -> Option<f64> {
    let error = 100.0 * (value? / right? - 1.0);
    Some(if error.abs() < ROUNDED_PERCENT { 0.0 } else { error })
}

fn is_far(error_percent: Option<f64>) -> bool {
    error_percent.is_some_and(|error| error.abs() > CLOSE_PERCENT)
}

/// Warning about agreement that proves nothing for this kind of figure.
fn caution(kind: &str) -> Option<&'static str> {
    match kind {
        "fitted" => Some("model: fitted to this figure, agreement proves nothing"),
        "arithmetic" => Some("model: arithmetic of the document's own numbers"),
        "uncorrected" => Some("model: no published results of such a figure correct it"),
        "bound" => Some("model: an upper bound, not a prediction"),
        _ => None,
    }
}

fn no_model<'a>(row: &'a Row, found: &'a Found) -> &'a str {
    let step = row.modelled.as_ref().map(|place| place.step.as_deref().unwrap_or(VERIFY));
    match step.and_then(|step| found.failed.get(step)) {
        Some(why) => why,
        None if row.modelled.is_none() && !row.why.is_empty() => &row.why,
        None if row.modelled.is_none() => "the scenario file names no model",
        None => "its step did not finish, or has no such figure",
    }
}

fn no_live(place: &FigureSource, found: &Found) -> String {
    let mut steps = place.step.iter().chain(&place.over);
    if let Some(why) = steps.clone().find_map(|step| found.failed.get(step)) {
        return why.clone();
    }
    let at = &place.at;
    match steps.find(|step| !found.results.contains_key(*step)) {
        Some(step) => format!("step {step} did not finish"),
        None => format!("the result of its step has no number at {at}"),
    }
}

/// Reason why a row has no live figure.
fn absent(row: &Row) -> Option<&str> {
    let verify = row.modelled.as_ref().and_then(|place| place.verify.as_ref());
    match verify {
        _ if !row.no_live.is_empty() => Some(&row.no_live),
        Some([case, _]) if case == "arithmetic" => {
            Some("the document's own arithmetic: nothing to run")
        }
        _ => None,
    }
}

fn busy(result: &Value) -> Option<f64> {
    result.pointer("/cpu/host_percent")?.as_f64()
}

/// Explains a deviation only by recorded observations.
fn explained(result: &Value) -> String {
    let Some(busy) = busy(result) else {
        return "not explained: CPU utilization was not recorded".to_owned();
    };
    if busy < BUSY_PERCENT {
        return format!("not explained: CPUs were {busy:.0} % busy");
    }
    match ours(result) {
        Some((ours, whose)) => format!("CPUs were {busy:.0} % busy, {ours:.0} % by its {whose}"),
        None => format!("not explained: CPUs were {busy:.0} % busy for an unknown reason"),
    }
}

/// Share of all CPUs that the run itself used, in percent, and by what.
fn ours(result: &Value) -> Option<(f64, &'static str)> {
    let of = |at: &str| result.pointer(at).and_then(Value::as_f64);
    let targets = of("/cpu/target_cores");
    let whose = if targets.is_some() { "drivers and targets" } else { "drivers" };
    let cores = of("/cpu/initiator_cores")? + targets.unwrap_or(0.0);
    Some((100.0 * cores / of("/host/cores")?, whose))
}

/// Why a live figure says more about other programs of this machine than about the system: they had
/// at least half of all CPUs, and nothing was left.
fn others(result: &Value) -> Option<String> {
    let busy = busy(result).filter(|busy| *busy >= BUSY_PERCENT)?;
    let (ours, whose) = ours(result)?;
    (busy - ours >= OTHERS_PERCENT).then(|| {
        format!(
            "the host was not quiet: CPUs were {busy:.0} % busy, {ours:.0} % by its {whose}; run \
             it again when other programs rest"
        )
    })
}

/// Word for a tag of `plan verify`.
fn kind(tag: &str) -> String {
    match tag {
        "PRED" => "uncorrected",
        "FIT" => "fitted",
        "ARITH" => "arithmetic",
        "ALT" => "another reading",
        other => other,
    }
    .to_owned()
}

/// Origin of the numbers of a result; for a sweep, that of its first run.
fn origin(result: &Value) -> &str {
    let of_run = || result.pointer("/cells/0/runs/0/origin");
    let origin = result.get("origin").or_else(of_run).and_then(Value::as_str);
    origin.unwrap_or("simulated")
}

/// Why the correction by published results makes a figure worse, if the network alone is nearer.
fn worse_by_correction(
    place: &FigureSource,
    found: &Found,
    document: Option<f64>,
    error_percent: Option<f64>,
) -> Option<String> {
    let figure = place.at.strip_prefix(ANSWER)?;
    let alone = FigureSource { at: format!("/uncorrected/{figure}"), ..place.clone() };
    let (alone, _) = self::figure(&alone, found)?;
    let (without, with) = (error(Some(alone), document)?, error_percent?);
    if with.abs() < without.abs() + WORSE_PERCENT {
        return None;
    }
    let answer = &found.results.get(place.step.as_deref()?)?["answer"];
    let class = answer["class"].as_str()?.replace('-', " ");
    let of = |key: &str| answer["evidence"][key].as_u64();
    let (rows, publishers) = (of("rows")?, of("publishers")?);
    Some(format!(
        "the correction makes it worse: uncorrected {}, {without:+.1} %; the correction is the \
         median of {rows} results by {publishers} publishers (class: {class}), and a founding \
         document shows the best run of its publisher",
        number(alone)
    ))
}

/// A figure, and what kind it is.
fn figure(place: &FigureSource, found: &Found) -> Option<(f64, String)> {
    if let Some([case, name]) = &place.verify {
        let rows = found.verified.pointer("/report/rows")?.as_array()?;
        let is_it = |row: &&Value| row["case"] == **case && row["figure"] == **name;
        // Alternative readings of the same figure come second.
        let row = rows.iter().filter(is_it).min_by_key(|row| row["tag"] == "ALT")?;
        return Some((row["model"].as_f64()? * place.times, kind(row["tag"].as_str()?)));
    }
    let of = |step: &str| found.results.get(step)?.pointer(&place.at)?.as_f64();
    let step = place.step.as_deref()?;
    let below = match &place.over {
        Some(over) => of(over)?,
        None => 1.0,
    };
    let result = found.results.get(step)?;
    // Answers of `plan` have the origin "simulated", like other unmeasured results.
    let origin = match result["answer"].is_object() {
        true if place.at.starts_with("/uncorrected/") => "uncorrected",
        true if place.at == "/bound_iops" => "bound",
        true => "predicted",
        false => origin(result),
    };
    Some((of(step)? * place.times / below, origin.to_owned()))
}

#[cfg(test)]
mod test;
