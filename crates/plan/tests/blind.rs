//! Predictions for the bills of blind sets: published results of third parties that are not in the
//! table of evidence. The model's knowledge of these systems is in their bills, and in the keys
//! that were added because bills lacked them.

use catalogue::Catalogue;
use plan::bill::Bill;
use plan::chance::chance;
use plan::evidence::sure;
use plan::predict::predict;
use plan::system::Tweak;

/// A set with the criteria of its predictions.
struct Set {
    text: &'static str,
    /// Number of rows that count.
    rows: usize,
    /// Maximum median error, slightly above that of the first prediction.
    median: f64,
    /// Minimum share that p10 to p90 must cover.
    held: f64,
}

const SETS: &[Set] = &[
    Set {
        text: include_str!("../data/blind-2026-11-seventh.toml"),
        rows: 49,
        median: 0.30,
        held: 0.80,
    },
    Set {
        text: include_str!("../data/blind-2026-11-eighth.toml"),
        rows: 54,
        median: 0.56,
        held: 0.70,
    },
    Set {
        text: include_str!("../data/blind-2026-11-ninth.toml"),
        rows: 51,
        median: 0.37,
        held: 0.70,
    },
    Set {
        text: include_str!("../data/blind-2026-11-tenth.toml"),
        rows: 54,
        median: 0.32,
        held: 0.75,
    },
    Set {
        text: include_str!("../data/blind-2026-11-eleventh.toml"),
        rows: 24,
        median: 0.48,
        held: 0.80,
    },
    Set {
        text: include_str!("../data/blind-2026-11-twelfth.toml"),
        rows: 50,
        median: 0.32,
        held: 0.80,
    },
    Set {
        text: include_str!("../data/blind-2026-11-thirteenth.toml"),
        rows: 42,
        median: 0.20,
        held: 0.80,
    },
];

fn number(value: &toml::Value) -> f64 {
    value.as_float().or(value.as_integer().map(|n| n as f64)).unwrap()
}

/// Returns the relative error of the predicted median for a row's bill, and whether its interval
/// covers the published result.
fn asked(row: &toml::Value, catalogue: &Catalogue) -> (f64, bool) {
    let (id, bill) = (row["id"].as_str().unwrap(), row["bill"].as_str().unwrap());
    let bill = Bill::read(id, bill, catalogue).unwrap_or_else(|error| panic!("{id}: {error}"));
    let found = predict(&bill, &Tweak::default()).unwrap_or_else(|error| panic!("{id}: {error}"));
    let drawn = chance(&bill, 200, 1, None).unwrap();
    let sure = sure(&bill, &found, drawn.spread()).unwrap();
    let says = match row["unit"].as_str().unwrap() {
        "IOPS" => found.iops,
        "us" => found.latency_s * 1e6,
        _ => found.bytes_per_s / 1e6,
    };
    let says = says * row.get("factor").map_or(1.0, number);
    let value = number(&row["value"]);
    let (low, high) = sure.ends.unwrap();
    (says * sure.middle / value - 1.0, (says * low..=says * high).contains(&value))
}

#[test]
fn strangers_rows_that_are_kept_apart_are_held() {
    let catalogue = Catalogue::shipped();
    for set in SETS {
        let rows: toml::Value = toml::from_str(set.text).unwrap();
        let counts = |row: &&toml::Value| row.get("seen").is_none();
        let rows = rows["row"].as_array().unwrap().iter().filter(counts);
        let answers: Vec<_> = rows.map(|row| asked(row, &catalogue)).collect();
        assert_eq!(answers.len(), set.rows);
        let mut errors: Vec<f64> = answers.iter().map(|(error, _)| error.abs()).collect();
        errors.sort_by(f64::total_cmp);
        let median = errors[errors.len() / 2];
        let held = answers.iter().filter(|(_, held)| *held).count() as f64 / answers.len() as f64;
        println!("{} rows: off by {median:.3} in the median, p10 to p90 hold {held:.2}", set.rows);
        assert!(median <= set.median, "{} rows: off by {median:.3}", set.rows);
        assert!(held >= set.held, "{} rows: p10 to p90 hold {held:.2}", set.rows);
    }
}
