//! Charts of a run: over time, over percentiles, over CPUs.

use stats::{Processor, RunResult, Second, Span};

use super::section;
use crate::chart::{Axis, Field, Heat, Parts, Plot, Point, Row, Scale, Series, Unit};
use crate::figure;
use crate::page::{Content, Section};

/// Columns and rows of a heat map: more are too small to see.
const COLUMNS: usize = 60;
const ROWS_PER_DECADE: f64 = 8.0;
/// A processor that is busier has nothing left.
const BUSY_PERCENT: f64 = 95.0;

/// Rate, latency and their density, second by second.
pub(super) fn over_time(result: &RunResult) -> Option<Section> {
    let seconds = &result.intervals;
    if seconds.is_empty() {
        return None;
    }
    let line = |name: &str, of: &dyn Fn(&Second) -> Option<f64>| {
        let points = seconds.iter().map(|second| Point::new(second.t, of(second)));
        Series { origin: result.origin, ..Series::new(name, points.collect()) }
    };
    let x = || Axis::new("time", Unit::Seconds, Scale::Linear);
    let totals = &result.totals;
    let mut rates = vec![line("all", &|second| Some(second.iops))];
    if totals.read.ios > 0 && totals.write.ios > 0 {
        rates.push(line("reads", &|second| Some(second.read_iops)));
        rates.push(line("writes", &|second| Some(second.write_iops)));
    }
    let rate = Plot {
        title: "Rate over time".to_owned(),
        about: "Steady state and disturbances.".to_owned(),
        x: x(),
        y: Axis::new("", Unit::Iops, Scale::Linear),
        series: rates,
        marks: Vec::new(),
    };
    let ns = |ns: Option<u64>| ns.map(|ns| ns as f64);
    let latency = Plot {
        title: "Latency over time".to_owned(),
        about: "Seconds with too few I/Os for a percentile are gaps.".to_owned(),
        x: x(),
        y: Axis::new("latency", Unit::Nanos, Scale::Log),
        series: vec![
            line("max", &|second| ns(second.max_ns)),
            line("p99", &|second| ns(second.p99_ns)),
            line("p50", &|second| ns(second.p50_ns)),
        ],
        marks: Vec::new(),
    };
    let mut content = vec![Content::Plot(rate), Content::Plot(latency)];
    content.extend(heat(&result.spans).map(Content::Heat));
    Some(section("over time", content))
}

/// Latency over time as density.
fn heat(spans: &[Span]) -> Option<Heat> {
    if spans.len() < 3 {
        return None;
    }
    let row = |ns: u64| (ns.max(1) as f64).log10() * ROWS_PER_DECADE;
    let edge = |row: i32| 10_f64.powf(f64::from(row) / ROWS_PER_DECADE);
    let mut fields = Vec::new();
    for stretch in spans.chunks(spans.len().div_ceil(COLUMNS)) {
        let x = (stretch[0].from_s, stretch[stretch.len() - 1].to_s);
        let mut rows = std::collections::BTreeMap::<i32, u64>::new();
        for bucket in stretch.iter().flat_map(|span| span.buckets.iter()) {
            *rows.entry(row(bucket.to_ns).floor() as i32).or_default() += bucket.count;
        }
        fields.extend(rows.into_iter().map(|(row, count)| {
            let y = (edge(row), edge(row + 1));
            Field { x, y, count }
        }));
    }
    Some(Heat {
        title: "Latency over time, as density".to_owned(),
        about: "Darker cells hold more I/Os; a second band is a second kind of I/O.".to_owned(),
        x: Axis::new("time", Unit::Seconds, Scale::Linear),
        y: Axis::new("latency", Unit::Nanos, Scale::Log),
        fields,
    })
}

/// The points of a distribution: at most two hundred, up to the percentile that its samples
/// support.
pub(super) fn percentiles(result: &RunResult, name: &str) -> Option<Series> {
    let all = result.histograms.all();
    let samples = all.samples();
    let moments = result.totals.latency_ns.moments;
    let of_moments = |share| moments.is_none_or(|tail| tail.supports(share));
    let mut points = Vec::new();
    let mut shown = f64::NEG_INFINITY;
    let mut seen = 0;
    for bucket in all.iter() {
        seen += bucket.count;
        let share = seen as f64 / samples as f64;
        if share >= 1.0 || !stats::supports(samples, share) || !of_moments(share) {
            break;
        }
        let place = -(1.0 - share).log10();
        if place - shown >= 0.02 || points.is_empty() {
            shown = place;
            let end = result.totals.latency_ns.max.unwrap_or(u64::MAX);
            points.push(Point::new(share, bucket.to_ns.min(end) as f64));
        }
    }
    (points.len() >= 2).then(|| Series { origin: result.origin, ..Series::new(name, points) })
}

/// The distribution of latencies on an axis of percentiles.
pub(super) fn plot_of_percentiles(series: Vec<Series>) -> Plot {
    Plot {
        title: "Latency by percentile".to_owned(),
        about: "How many I/Os were faster: each step to the right is a tenth of those left."
            .to_owned(),
        x: Axis::new("percentile", Unit::Percentile, Scale::Percentile),
        y: Axis::new("latency", Unit::Nanos, Scale::Log),
        series,
        marks: Vec::new(),
    }
}

pub(super) fn distribution(result: &RunResult) -> Option<Section> {
    let series = percentiles(result, "")?;
    let plot = plot_of_percentiles(vec![series]);
    Some(section("distribution of latencies", vec![Content::Plot(plot)]))
}

/// Returns the chart of each logical CPU's time.
pub(super) fn processors(result: &RunResult) -> Option<Section> {
    if result.processors.is_empty() {
        return None;
    }
    let row = |(number, of): (usize, &Processor)| {
        let parts = [
            of.user_percent,
            of.system_percent,
            of.softirq_percent,
            of.irq_percent,
            of.steal_percent,
        ];
        let who = [(&result.placement.initiator, "workers"), (&result.placement.target, "targets")];
        let who = who.into_iter().filter(|(cores, _)| cores.contains(&(number as u32)));
        let who: Vec<&str> = who.map(|(_, name)| name).collect();
        let who = if who.is_empty() { String::new() } else { format!(", {}", who.join(" and ")) };
        let busy: f64 = parts.iter().sum();
        Row::stacked(format!("core {number}{who}"), format!("{busy:.0} % busy"), &parts)
    };
    let chart = Parts {
        title: "Processors".to_owned(),
        about: "Time of each logical CPU in the window, in percent.".to_owned(),
        full: Some(100.0),
        names: ["programs", "kernel", "network stack", "interrupts", "stolen"]
            .map(str::to_owned)
            .to_vec(),
        rows: result.processors.iter().enumerate().map(row).collect(),
    };
    let cpu = &result.cpu;
    let mut words = Vec::new();
    let cores = [("workers", cpu.initiator_cores), ("targets", cpu.target_cores)];
    words.extend(
        cores.iter().filter_map(|(who, cores)| Some(format!("{who} {:.2} cores", (*cores)?))),
    );
    words.extend(cpu.core_us_per_io.map(|us| format!("{us:.3} µs of a core per I/O")));
    words.extend(cpu.iops_per_core.map(|iops| format!("{} per core", figure::iops(iops))));
    let mut content = vec![Content::Parts(chart)];
    if !words.is_empty() {
        content.push(Content::Text(format!("{}.", words.join(", "))));
    }
    Some(section("processors", content))
}

/// Returns the known bottlenecks, with evidence from the result.
pub(super) fn limits(result: &RunResult) -> Option<Section> {
    let mut found = Vec::new();
    let busy = |of: &Processor| {
        of.user_percent + of.system_percent + of.irq_percent + of.softirq_percent + of.steal_percent
    };
    let full = result.processors.iter().filter(|of| busy(of) >= BUSY_PERCENT).count();
    let all = result.processors.len();
    if full > 0 && full == all {
        found.push(format!(
            "All {all} CPUs were busy for at least {BUSY_PERCENT:.0} % of the time: probably this \
             host was the limit, not the storage. --ceiling measures the generator's limit."
        ));
    } else if full > 0 {
        found.push(format!(
            "{full} of {all} CPUs were busy for at least {BUSY_PERCENT:.0} % of the time: the \
             threads there were at their limit, or spin while they wait."
        ));
    }
    if let Some(ceiling) = &result.ceiling {
        let share = result.totals.iops / ceiling.iops * 100.0;
        let least = if ceiling.at_least { "at least " } else { "" };
        found.push(format!(
            "The generator alone reaches {least}{} against {}: this run is {share:.0} % of that.",
            figure::iops(ceiling.iops),
            ceiling.against
        ));
    }
    if result.job.rate_per_s.is_some() && result.totals.paced.is_some_and(|of| of.missed == 0) {
        found.push("Open loop: the planned rate was reached, so no limit was found.".to_owned());
    }
    if found.is_empty() && all > 0 {
        found.push(
            "Unknown: no CPU was always busy. Raise --outstanding or --workers to see whether the \
             storage can do more."
                .to_owned(),
        );
    }
    let content: Vec<Content> = found.into_iter().map(Content::Text).collect();
    (!content.is_empty()).then(|| section("what limited it", content))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::generated;

    #[test]
    fn a_long_run_keeps_its_peaks_and_its_map_has_every_io() {
        let second = |t: u32| Second {
            t: t.into(),
            iops: if t == 1777 { 9e6 } else { 1e6 },
            ..Second::default()
        };
        let intervals = (1..=3600).map(second).collect();
        let result = RunResult { intervals, ..RunResult::default() };
        let section = over_time(&result).unwrap();
        let Content::Plot(plot) = &section.content[0] else { panic!("{section:?}") };
        assert_eq!(plot.series[0].points.len(), 3600);
        assert!(plot.description().contains("at most 9.00M IOPS at 1777 s"), "{plot:?}");
        for result in generated::hundred().iter().filter(|result| result.spans.len() >= 3) {
            let heat = heat(&result.spans).unwrap();
            let count: u64 = heat.fields.iter().map(|field| field.count).sum();
            let all: u64 = result.spans.iter().map(|span| span.buckets.samples()).sum();
            assert_eq!(count, all);
        }
    }

    #[test]
    fn percentiles_of_the_chart_are_those_of_the_table() {
        let mut held = 0;
        for result in generated::hundred() {
            let Some(series) = percentiles(result, "") else { continue };
            let latency = &result.totals.latency_ns;
            for (share, is) in [(0.5, latency.p50), (0.9, latency.p90), (0.99, latency.p99)] {
                let Some(is) = is else { continue };
                let over = series.points.iter().find(|point| point.x >= share);
                let under = series.points.iter().rev().find(|point| point.x <= share);
                held += 1;
                assert!(over.is_none_or(|point| point.y.unwrap() >= is as f64 * 0.97), "{share}");
                assert!(under.is_none_or(|point| point.y.unwrap() <= is as f64 * 1.03), "{share}");
            }
            assert!(series.points.iter().all(|point| stats::supports(latency.samples, point.x)));
        }
        assert!(held > 100, "{held}");
    }
}
