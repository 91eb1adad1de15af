//! Figures that a fio job requests, according to the job's document.

use serde_json::Value;

/// Percentiles that fio shows by default.
const PERCENTILES: [f64; 17] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95,
    99.99,
];

/// Figures shown of a group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    /// Percentiles, in ascending order.
    pub percentiles: Vec<f64>,
    /// `clat_ns` has them, and the histogram.
    pub of_completion: bool,
    /// `lat_ns` has them.
    pub of_whole: bool,
    /// Reads, writes and trims are shown separately.
    pub apart: bool,
    /// All directions are shown as one.
    pub mixed: bool,
}

impl Figures {
    /// Returns the figures that the job requests; fio's defaults for missing words.
    pub fn of(words: &Value) -> Figures {
        let listed = words.get("percentiles").and_then(Value::as_array);
        let listed: Vec<f64> = listed.into_iter().flatten().filter_map(Value::as_f64).collect();
        let is = |key, default| words.get(key).and_then(Value::as_bool).unwrap_or(default);
        let directions = words.get("directions").and_then(Value::as_str).unwrap_or_default();
        Figures {
            percentiles: if listed.is_empty() { PERCENTILES.to_vec() } else { listed },
            of_completion: is("of_completion", true),
            of_whole: is("of_whole", false),
            apart: directions != "mixed",
            mixed: matches!(directions, "mixed" | "both"),
        }
    }
}
