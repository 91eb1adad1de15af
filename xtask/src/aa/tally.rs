//! Rows of pairs, and what they are in total.

use std::fmt::Write;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// At most this share of pairs without a change may be called changed.
const FALSE_MAX: f64 = 0.05;
/// At least this share of planted changes must be found.
const FOUND_LEAST: f64 = 0.8;

/// Kind of a pair.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Kind {
    pub volume: &'static str,
    /// Whether the second side does a fifth less.
    pub planted: bool,
}

impl Kind {
    pub const ALL: [Kind; 4] = [
        Kind { volume: "ram", planted: false },
        Kind { volume: "ram", planted: true },
        Kind { volume: "file", planted: false },
        Kind { volume: "file", planted: true },
    ];
}

/// The row of a pair, from the document that `compare` prints.
pub fn row(number: usize, kind: Kind, document: &str, took: Duration) -> Result<Value> {
    let document: Value = serde_json::from_str(document).context("no document of a comparison")?;
    let one = document["comparisons"].get(0).context("no comparison")?;
    let figures = one["figures"].as_array().context("no figures")?;
    let rate = figures.iter().find(|figure| figure["name"] == "IOPS").context("no rate")?;
    let changed = figures.iter().filter(|figure| is_changed(&figure["verdict"]));
    let changed: Vec<&Value> = changed.map(|figure| &figure["name"]).collect();
    Ok(json!({
        "pair": number,
        "volume": kind.volume,
        "planted": kind.planted,
        "rate": rate["verdict"],
        "ratio": rate["ratio"],
        "ratio_range": rate["ratio_range"],
        "changed": changed,
        "invalid": one["invalid"],
        "took_s": took.as_secs_f64(),
    }))
}

fn is_changed(verdict: &Value) -> bool {
    verdict == "higher" || verdict == "lower"
}

/// Whether a row is that of a pair.
pub fn is_of(row: &Value, number: usize, kind: Kind) -> bool {
    row["pair"] == number && is_a(row, kind)
}

fn is_a(row: &Value, kind: Kind) -> bool {
    row["volume"] == kind.volume && row["planted"] == kind.planted
}

/// A row in words.
pub fn words(row: &Value) -> String {
    let text = |of: &Value| of.as_str().unwrap_or("unknown").to_owned();
    let what = if row["planted"] == true { "a fifth less" } else { "the same" };
    let changed = row["changed"].as_array().map(Vec::as_slice).unwrap_or_default();
    let changed: Vec<String> = changed.iter().map(text).collect();
    let changed = if changed.is_empty() { "nothing".to_owned() } else { changed.join(", ") };
    format!(
        "pair {} of {}, {what}: rate {} ({:.3}), changed: {changed}",
        row["pair"],
        text(&row["volume"]),
        text(&row["rate"]),
        row["ratio"].as_f64().unwrap_or(f64::NAN),
    )
}

/// All rows in a table, and whether the bars hold. The rate decides; other figures are counted.
pub fn sum(rows: &[Value]) -> (String, bool) {
    let (mut text, mut holds) = (String::new(), true);
    for kind in Kind::ALL {
        let of: Vec<&Value> = rows.iter().filter(|row| is_a(row, kind)).collect();
        let count = |is: &dyn Fn(&Value) -> bool| of.iter().filter(|row| is(row)).count();
        let right = count(&|row| row["rate"] == "lower");
        let wrong = count(&|row| is_changed(&row["rate"]));
        let any = count(&|row| row["changed"].as_array().is_some_and(|list| !list.is_empty()));
        let invalid = count(&|row| row["invalid"].as_array().is_some_and(|list| !list.is_empty()));
        let (name, hits) = if kind.planted { ("found", right) } else { ("called changed", wrong) };
        let share = hits as f64 / of.len() as f64;
        let [low, high] = interval(hits, of.len());
        let is_kept = if kind.planted { share >= FOUND_LEAST } else { share <= FALSE_MAX };
        holds &= is_kept;
        let what = if kind.planted { "a fifth less" } else { "the same" };
        // Memory takes whatever is written.
        let _ = writeln!(
            text,
            "{:4} {what:12}  {} pairs: rate {name} in {hits}, {:.1} % (95 %: {:.1} – {:.1} %), any \
             figure changed in {any}, invalid {invalid}: {}",
            kind.volume,
            of.len(),
            share * 100.0,
            low * 100.0,
            high * 100.0,
            if is_kept { "kept" } else { "MISSED" },
        );
    }
    (text, holds)
}

/// The interval of 95 % of a share, by Wilson.
fn interval(hits: usize, all: usize) -> [f64; 2] {
    const Z: f64 = 1.96;
    if all == 0 {
        return [0.0, 1.0];
    }
    let (hits, all) = (hits as f64, all as f64);
    let (share, square) = (hits / all, Z * Z);
    let middle = (share + square / (2.0 * all)) / (1.0 + square / all);
    let spread = share * (1.0 - share) / all + square / (4.0 * all * all);
    let half = Z * spread.sqrt() / (1.0 + square / all);
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod test {
    use super::*;

    fn compared(verdict: &str, p50: &str, invalid: &[&str]) -> String {
        let figures = [
            json!({ "name": "IOPS", "verdict": verdict, "ratio": 0.8 }),
            json!({ "name": "p50", "verdict": p50 }),
        ];
        json!({ "comparisons": [{ "figures": figures, "invalid": invalid }] }).to_string()
    }

    #[test]
    fn pairs_are_counted_by_kind_and_held_against_the_bars() {
        let mut rows = Vec::new();
        let mut add = |kind: Kind, verdict: &str, p50: &str| {
            let number = rows.len();
            let text = compared(verdict, p50, &[]);
            rows.push(row(number, kind, &text, Duration::from_secs(9)).unwrap());
        };
        for kind in Kind::ALL {
            for n in 0..20 {
                let found = if kind.planted && n < 16 { "lower" } else { "cannot-tell" };
                let p50 = if n == 0 { "higher" } else { "unchanged" };
                add(kind, if !kind.planted && n == 7 { "higher" } else { found }, p50);
            }
        }
        let (text, holds) = sum(&rows);
        assert!(holds, "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("20 pairs: rate called changed in 1, 5.0 %"), "{text}");
        assert!(lines[1].contains("20 pairs: rate found in 16, 80.0 %"), "{text}");
        assert!(lines.iter().all(|line| line.contains("any figure changed in")), "{text}");
        assert!(is_of(&rows[3], 3, Kind::ALL[0]) && !is_of(&rows[3], 3, Kind::ALL[1]));
        let words = words(&rows[20]);
        assert_eq!(words, "pair 20 of ram, a fifth less: rate lower (0.800), changed: IOPS, p50");
        // A change in the wrong direction is not found.
        let last = rows.len();
        let wrong = compared("higher", "unchanged", &["a side is invalid"]);
        rows.push(row(last, Kind::ALL[1], &wrong, Duration::ZERO).unwrap());
        let (text, holds) = sum(&rows);
        assert!(!holds && text.contains("found in 16, 76.2 %"), "{text}");
        assert!(text.contains("invalid 1: MISSED"), "{text}");
    }

    #[test]
    fn without_pairs_nothing_is_kept() {
        assert!(!sum(&[]).1);
        assert!(row(0, Kind::ALL[0], "", Duration::ZERO).is_err());
        assert!(row(0, Kind::ALL[0], "{\"comparisons\": []}", Duration::ZERO).is_err());
    }

    #[test]
    fn the_interval_is_wilsons() {
        let [low, high] = interval(10, 200);
        assert!((low - 0.0274).abs() < 5e-4 && (high - 0.0896).abs() < 5e-4, "{low} {high}");
        assert_eq!(interval(0, 0), [0.0, 1.0]);
        assert!(interval(0, 3)[1] > 0.5);
    }
}
