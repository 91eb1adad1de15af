//! `--fail-if` of scenarios: maximum deviations from published figures, and bounds on single
//! figures.

use std::str::FromStr;

use stats::{Bound as Held, Kept};

use super::rows::{Outcome, Shown};

/// Condition that must not hold: `live>20%`, `iops-512.live<200k`,
/// `marvell-modules/read-16.modelled>5%`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    text: String,
    scenario: Option<String>,
    row: Option<String>,
    is_live: bool,
    is_above: bool,
    /// A difference from the published figure in percent, or the figure itself.
    limit: f64,
    is_difference: bool,
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Bound, String> {
        let wrong = |why: &str| {
            format!("{why}: write 'live>20%', 'modelled>5%', or with a row 'iops-512.live<200k'")
        };
        let at = text.find(['<', '>']).ok_or_else(|| wrong("< or > is missing"))?;
        let (name, limit) = (text[..at].trim(), text[at + 1..].trim());
        let is_above = text[at..].starts_with('>');
        let (row, side) = match name.rsplit_once('.') {
            Some((row, side)) => (Some(row), side),
            None => (None, name),
        };
        let is_live = match side {
            "live" => true,
            "modelled" => false,
            _ => return Err(wrong(&format!("'{side}' is neither live nor modelled"))),
        };
        let percent = limit.strip_suffix('%');
        if row.is_none() && (percent.is_none() || !is_above) {
            return Err(wrong("a bound on all rows must be a maximum difference in percent"));
        }
        let limit = number(percent.unwrap_or(limit)).filter(|limit| limit.is_finite());
        let limit = limit.ok_or_else(|| wrong(&format!("'{}' is not a bound", &text[at + 1..])))?;
        let (scenario, row) = match row.map(|row| row.split_once('/').ok_or(row)) {
            Some(Ok((scenario, row))) => (Some(scenario.to_owned()), Some(row.to_owned())),
            Some(Err(row)) => (None, Some(row.to_owned())),
            None => (None, None),
        };
        let is_difference = percent.is_some();
        let text = text.trim().to_owned();
        Ok(Bound { text, scenario, row, is_live, is_above, limit, is_difference })
    }
}

/// A number, perhaps with a unit of a thousand.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let (digits, times) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1e3),
        (at, 'm' | 'M') => (&text[..at], 1e6),
        (at, 'g' | 'G') => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    digits.trim().parse::<f64>().ok().map(|number| number * times)
}

impl Bound {
    /// Verdicts of this bound: for a named row, with or without a figure; for all rows, of the one
    /// with the largest figure.
    pub fn held(&self, outcomes: &[Outcome]) -> Vec<Held> {
        let is_asked = |one: &&Outcome| self.scenario.as_ref().is_none_or(|name| *name == one.name);
        let rows = outcomes.iter().filter(is_asked);
        let rows = rows.flat_map(|one| one.rows.iter().map(move |row| (one, row)));
        let told = |of: String, value: Option<f64>, verdict: Kept, evidence: String| Held {
            bound: self.text.clone(),
            of,
            value,
            verdict,
            evidence,
        };
        let lacks = |of: String, verdict: Kept, why: &str| told(of, None, verdict, why.to_owned());
        let held = |of: String, value| told(of, Some(value), self.judge(value), self.say(value));
        let name = |one: &Outcome, row: &Shown| format!("{}/{}", one.name, row.id);
        if let Some(wanted) = &self.row {
            let rows: Vec<_> = rows.filter(|(_, row)| row.id == *wanted).collect();
            if rows.is_empty() {
                return vec![lacks(wanted.clone(), Kept::Missed, "no such row")];
            }
            let of = |(one, row): (&Outcome, &Shown)| match self.value(row) {
                None => lacks(name(one, row), Kept::Missed, "the row has no figure"),
                Some(value) => held(name(one, row), value),
            };
            return rows.into_iter().map(of).collect();
        }
        let values = rows.filter_map(|(one, row)| Some((name(one, row), self.value(row)?)));
        match values.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            None => vec![lacks(String::new(), Kept::Unknown, "no row has a figure")],
            Some((of, value)) => vec![held(of, value)],
        }
    }

    fn value(&self, row: &Shown) -> Option<f64> {
        match (self.is_live, self.is_difference) {
            (true, true) => row.live_error_percent.map(f64::abs),
            (false, true) => row.error_percent.map(f64::abs),
            (true, false) => row.live,
            (false, false) => row.modelled,
        }
    }

    fn judge(&self, value: f64) -> Kept {
        let crossed = if self.is_above { value > self.limit } else { value < self.limit };
        if crossed { Kept::Missed } else { Kept::Kept }
    }

    fn say(&self, value: f64) -> String {
        match self.is_difference {
            true => format!("{value:.1} % from the published figure"),
            false => format!("{value:.4}"),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::scenario::file::read;
    use crate::scenario::rows::{Found, outcome};

    fn outcomes() -> Vec<Outcome> {
        let mut one = outcome(&read("third-io-iris").unwrap(), &Found::default(), (true, true), "");
        one.rows[0].live = Some(250_000.0);
        one.rows[0].live_error_percent = Some(-90.7);
        one.rows[1].live_error_percent = Some(12.0);
        vec![one]
    }

    fn judged(bound: &str) -> Vec<(String, Kept)> {
        let held = bound.parse::<Bound>().unwrap().held(&outcomes());
        held.into_iter().map(|held| (held.of, held.verdict)).collect()
    }

    #[test]
    fn the_furthest_of_all_rows_or_the_one_that_is_named_decides() {
        let row = || "third-io-iris/iops-512".to_owned();
        assert_eq!(judged("live>20%"), [(row(), Kept::Missed)]);
        assert_eq!(judged("live>91%"), [(row(), Kept::Kept)]);
        assert_eq!(judged("iops-512.live<200k"), [(row(), Kept::Kept)]);
        assert_eq!(judged("third-io-iris/iops-512.live<0.3M"), [(row(), Kept::Missed)]);
        assert_eq!(judged("iops-1k.live>13%")[0].1, Kept::Kept);
    }

    #[test]
    fn what_has_no_figure_is_missed_where_it_is_named() {
        assert_eq!(judged("iops-2k.live<1")[0].1, Kept::Missed);
        assert_eq!(judged("no-such.live>1%")[0].1, Kept::Missed);
        assert_eq!(judged("marvell-modules/iops-512.live>1%")[0].1, Kept::Missed);
        assert_eq!(judged("modelled>5%")[0].1, Kept::Unknown);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for text in ["live", "live<5%", "live>5", "p99>5%", "x.live>", "x.live>y", "x.y.z>1%", ""] {
            assert!(text.parse::<Bound>().is_err(), "{text}");
        }
    }
}
