//! Whether a job with a steady-state end reached it, in the words of fio's document.

use serde_json::Value;
use stats::{RunResult, Second};

/// Values of the last `duration` seconds, and their verdict.
#[derive(serde::Serialize)]
pub(super) struct SteadyState {
    /// Requested criterion and limit.
    pub ss: String,
    /// Seconds that are judged together.
    pub duration: u64,
    pub attained: u8,
    /// Deviation or slope, in percent of the mean or absolute.
    pub criterion: String,
    pub max_deviation: f64,
    pub slope: f64,
    pub data: Data,
}

#[derive(serde::Serialize)]
pub(super) struct Data {
    pub bw_mean: u64,
    pub iops_mean: u64,
    pub iops: Vec<u64>,
    pub bw: Vec<u64>,
}

/// Returns the step's steady state; `None` if the step has none. Jobs that run together are judged
/// together, so the seconds are the sums over all of them.
pub(super) fn steady_state(result: &RunResult) -> Option<SteadyState> {
    let asked = result.spec.pointer("/steps/0/steady").filter(|steady| steady.is_object())?;
    let number = |key: &str| asked.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let is = |key: &str| asked.get(key).and_then(Value::as_bool).unwrap_or(false);
    let (slopes, percent, below) = (is("slope"), is("percent"), number("below"));
    let of_bandwidth = asked.get("of").and_then(Value::as_str) == Some("bandwidth");
    let duration = number("seconds") as u64;
    let after = number("after_seconds");
    let counted: Vec<&Second> = result.intervals.iter().filter(|s| s.t > after + 0.5).collect();
    let last = &counted[counted.len().saturating_sub(duration as usize)..];
    let iops: Vec<f64> = last.iter().map(|second| second.iops).collect();
    let bandwidth: Vec<f64> = last.iter().map(|second| second.bytes_per_second).collect();
    let values = if of_bandwidth { &bandwidth } else { &iops };
    let (slope, max_deviation) = match slopes {
        true => (slope(values), 0.0),
        false => (0.0, deviation(values)),
    };
    let change = if slopes { slope } else { max_deviation };
    let change =
        if percent { 100.0 * change / mean(values).max(f64::MIN_POSITIVE) } else { change };
    let unit = if percent { "%" } else { "" };
    let word = if of_bandwidth { "bw" } else { "iops" };
    let kind = if slopes { "_slope" } else { "" };
    let whole = |values: &[f64]| values.iter().map(|value| value.round() as u64).collect();
    Some(SteadyState {
        ss: format!("{word}{kind}:{below:.6}{unit}"),
        duration,
        attained: (values.len() as u64 == duration && change.abs() < below).into(),
        criterion: format!("{change:.6}{unit}"),
        max_deviation,
        slope,
        data: Data {
            bw_mean: mean(&bandwidth).round() as u64,
            iops_mean: mean(&iops).round() as u64,
            iops: whole(&iops),
            bw: whole(&bandwidth),
        },
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn deviation(values: &[f64]) -> f64 {
    values.iter().map(|value| (value - mean(values)).abs()).fold(0.0, f64::max)
}

/// Returns the slope of the least-squares line, per second.
fn slope(values: &[f64]) -> f64 {
    let middle = (values.len().max(1) - 1) as f64 / 2.0;
    let from_middle = (0..values.len()).map(|index| index as f64 - middle);
    let squares: f64 = from_middle.clone().map(|x| x * x).sum();
    let falls: f64 = from_middle.zip(values).map(|(x, y)| x * (y - mean(values))).sum();
    falls / squares.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::sample;

    fn of(asked: Value, iops: &[f64]) -> Value {
        let mut result = sample::counted();
        result.spec["steps"][0]["steady"] = asked;
        let second = |(t, iops): (usize, &f64)| Second {
            t: (t + 1) as f64,
            iops: *iops,
            bytes_per_second: iops * 512.0,
            ..Second::default()
        };
        result.intervals = iops.iter().enumerate().map(second).collect();
        serde_json::to_value(steady_state(&result)).unwrap()
    }

    #[test]
    fn the_last_seconds_are_held_against_what_was_asked_for() {
        assert_eq!(of(Value::Null, &[1.0]), Value::Null);
        let asked = serde_json::json!({
            "of": "iops", "slope": true, "below": 5.0, "percent": true, "seconds": 4.0,
            "after_seconds": 1.0,
        });
        let falls = of(asked.clone(), &[9.0, 9.0, 130.0, 120.0, 110.0, 100.0]);
        assert_eq!(falls["ss"], "iops_slope:5.000000%");
        assert_eq!((&falls["attained"], &falls["slope"]), (&0.into(), &(-10.0).into()));
        assert_eq!(falls["criterion"], "-8.695652%");
        assert_eq!(falls["data"]["iops"], serde_json::json!([130, 120, 110, 100]));
        assert_eq!(falls["data"]["bw_mean"], 115 * 512);
        assert_eq!(of(asked.clone(), &[1.0, 100.0, 100.0, 100.0, 100.0])["attained"], 1);
        // The first second is not looked at.
        assert_eq!(of(asked, &[100.0, 100.0, 100.0, 100.0])["attained"], 0);
        let asked = serde_json::json!({ "of": "bandwidth", "below": 3000.0, "seconds": 2.0 });
        let flat = of(asked, &[7.0, 100.0, 110.0]);
        assert_eq!((&flat["ss"], &flat["attained"]), (&"bw:3000.000000".into(), &1.into()));
        assert_eq!(flat["max_deviation"], 5.0 * 512.0);
    }
}
