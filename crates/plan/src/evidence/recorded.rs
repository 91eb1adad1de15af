//! The lessons of the built-in rows for each kind of system, recorded in `data/learned.toml`: a
//! prediction would have to predict hundreds of rows first. A test compares the record with the
//! rows, and prints the new one when a row, a figure or the model has changed.

use std::sync::OnceLock;

use serde::Deserialize;

use super::{Alike, Class, Learned};

/// The record.
const RECORDED: &str = include_str!("../../data/learned.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    kinds: Vec<Kind>,
}

/// One kind of system; kinds without a row are not in the record.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    class: Class,
    guessed: bool,
    rows: usize,
    publishers: usize,
    pooled: bool,
    center: f64,
    half: f64,
}

/// Returns what the built-in rows teach about a kind of system; `None` without a row.
pub(super) fn learned(alike: Alike) -> Option<&'static Learned> {
    static READ: OnceLock<Vec<(Alike, Learned)>> = OnceLock::new();
    let all = READ.get_or_init(|| {
        // A test reads the record.
        let record: Record =
            toml::from_str(RECORDED).unwrap_or_else(|error| panic!("learned.toml: {error}"));
        let one = |kind: Kind| {
            let Kind { class, guessed, rows, publishers, pooled, center, half } = kind;
            (Alike { class, guessed }, Learned { rows, publishers, pooled, center, half })
        };
        record.kinds.into_iter().map(one).collect()
    });
    all.iter().find(|(of, _)| *of == alike).map(|(_, learned)| learned)
}

#[cfg(test)]
mod test {
    use std::fmt::Write as _;

    use super::super::learn;
    use super::super::test::shipped;
    use super::*;

    #[test]
    fn the_record_is_what_the_rows_teach() {
        let mut text = String::from(
            "# What the rows of evidence.toml teach about each kind of system. A test prints this \
             file when a\n# row, a figure or the model has changed.\n\nkinds = [\n",
        );
        let mut same = true;
        for class in Class::ALL {
            for guessed in [false, true] {
                let alike = Alike { class, guessed };
                let taught = learn(shipped(), alike, |_| true);
                // Logarithms differ in their last digit between mathematical libraries.
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-9;
                same &= match (&taught, learned(alike)) {
                    (None, None) => true,
                    (Some(a), Some(b)) => {
                        let counts = |one: &Learned| (one.rows, one.publishers, one.pooled);
                        counts(a) == counts(b) && near(a.center, b.center) && near(a.half, b.half)
                    }
                    _ => false,
                };
                let Some(Learned { rows, publishers, pooled, center, half }) = taught else {
                    continue;
                };
                let class = serde_json::to_string(&class).unwrap();
                writeln!(
                    text,
                    "  {{ class = {class}, guessed = {guessed}, rows = {rows}, \
                     publishers = {publishers}, pooled = {pooled}, center = {center:?}, \
                     half = {half:?} }},"
                )
                .unwrap();
            }
        }
        assert!(same, "fix: put this into crates/plan/data/learned.toml:\n{text}]");
    }
}
