//! Axes: `WORD=VALUE,VALUE…`.

use std::collections::HashSet;

use stats::sweep::{Axis, Setting};

use super::{SweepError, settings};
use crate::spec::JobSpec;

/// Reads `size=512,1k,4k`. Commas within parentheses belong to a value. Settings are those of any
/// job and those of `job`'s setup.
///
/// # Errors
///
/// [`SweepError`] for an unknown setting, a missing value, or a duplicate one. The values are
/// checked when a job is made of them.
pub fn parse(text: &str, job: &JobSpec) -> Result<Axis, SweepError> {
    let (word, values) = text.split_once('=').ok_or_else(|| SweepError::Axis(text.to_owned()))?;
    let word = settings::name(word.trim(), &job.setup)?;
    let values = split(values);
    if values.iter().any(String::is_empty) {
        return Err(SweepError::Axis(text.to_owned()));
    }
    let mut seen = HashSet::new();
    if let Some(value) = values.iter().find(|value| !seen.insert(*value)) {
        return Err(SweepError::Twice(format!("{word}={value}")));
    }
    Ok(Axis { word, values })
}

fn split(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut depth = 0_i32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth <= 0 {
            values.push(String::new());
        } else {
            values.last_mut().expect("there is one").push(c);
        }
    }
    values.iter().map(|value| value.trim().to_owned()).collect()
}

/// Returns every combination, the last axis fastest; one without settings if there is no axis.
pub(super) fn combinations(axes: &[Axis]) -> Vec<Vec<Setting>> {
    axes.iter().fold(vec![Vec::new()], |all, axis| {
        let with = |settings: &Vec<Setting>, value: &String| {
            let mut settings = settings.clone();
            settings.push(Setting { word: axis.word.clone(), value: value.clone() });
            settings
        };
        all.iter().flat_map(|s| axis.values.iter().map(|value| with(s, value))).collect()
    })
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::spec::{Access, Group, Workload};

    fn parse(text: &str) -> Result<Axis, SweepError> {
        let workload = Workload::new(Access::new(512, 100.0, 100.0), 1);
        let group = Group::new(Vec::new(), 1, workload);
        super::parse(text, &JobSpec::of(1, 1.0, 0.0, group))
    }

    #[test]
    fn reads_words_and_values() {
        let axis = parse("bs=512, 4k").unwrap();
        assert_eq!(
            (axis.word.as_str(), &axis.values[..]),
            ("size", &["512".into(), "4k".into()][..])
        );
        let axis = parse("volume=null:1g,stripe:64k(ram:1g,ram:1g)").unwrap();
        assert_eq!(axis.values, ["null:1g", "stripe:64k(ram:1g,ram:1g)"]);
        for wrong in ["size", "size=", "size=1k,,2k", "=1k", "size=1k,1k", "huge=1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn combines_all_with_all() {
        let axes = [parse("size=1k,2k").unwrap(), parse("outstanding=1,2,4").unwrap()];
        let all: Vec<String> =
            combinations(&axes).iter().map(|settings| super::super::words_of(settings)).collect();
        assert_eq!(all.len(), 6);
        assert_eq!(all[1], "size=1k outstanding=2");
        assert_eq!(combinations(&[]), [vec![]]);
    }
}
