//! What fio shows of latencies, and whether of all directions together: words that change no load.

use std::fmt::Write;

use super::option::{Row, sets, switch};
use super::value;
use crate::spec::{Directions, Figures, PERCENTILES_MAX};

/// The options that say so.
pub(super) const ROWS: &[Row] = &[
    sets!("percentile_list", figures.percentiles, |v| percentiles(v.text.unwrap_or_default())?),
    switch!("clat_percentiles", figures.of_completion),
    switch!("lat_percentiles", figures.of_whole),
    sets!("unified_rw_reporting", figures.directions, |v| directions(v.text.unwrap_or_default())?),
];

/// Reads `percentile_list=`: `50:99:99.9`, in any order.
fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for part in text.split(':').map(str::trim) {
        match value::fraction(part)? {
            percent if percent > 0.0 && percent <= 100.0 => list.push(percent),
            _ => return Err(format!("{part} is no percentile: they are above 0 and at most 100")),
        }
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    match list.len() <= PERCENTILES_MAX {
        true => Ok(list),
        false => Err(format!("more than {PERCENTILES_MAX} percentiles")),
    }
}

/// Reads `unified_rw_reporting=`.
fn directions(text: &str) -> Result<Directions, String> {
    match text {
        "none" | "0" => Ok(Directions::Apart),
        "mixed" | "1" => Ok(Directions::Mixed),
        "both" | "2" => Ok(Directions::Both),
        _ => Err(format!("'{text}' is none of none, mixed, both")),
    }
}

/// The words of a job of ours.
pub(super) fn write(text: &mut String, figures: &Figures) {
    if !figures.percentiles.is_empty() {
        let list: Vec<String> = figures.percentiles.iter().map(f64::to_string).collect();
        let _ = writeln!(text, "percentile_list={}", list.join(":"));
    }
    let usual = Figures::default();
    for (word, on, usually) in [
        ("clat_percentiles", figures.of_completion, usual.of_completion),
        ("lat_percentiles", figures.of_whole, usual.of_whole),
    ] {
        if on != usually {
            let _ = writeln!(text, "{word}={}", u8::from(on));
        }
    }
    match figures.directions {
        Directions::Apart => {}
        Directions::Mixed => text.push_str("unified_rw_reporting=mixed\n"),
        Directions::Both => text.push_str("unified_rw_reporting=both\n"),
    }
    if figures.begins {
        text.push_str("new_group\n");
    }
    let description = &figures.description;
    // What a line cannot hold is for people only.
    if !description.is_empty() && !description.contains([';', '#', '$', '\n', '\r']) {
        let _ = writeln!(text, "description={description}");
    }
}

#[cfg(test)]
mod test {
    use super::super::settings::Settings;
    use super::super::test::take;
    use super::*;

    fn figures(words: &[(&str, &str)]) -> Result<Figures, String> {
        let mut settings = Settings::default();
        for (name, text) in words {
            take(name, Some(text), &mut settings).map_err(|why| why.to_string())?;
        }
        Ok(settings.figures)
    }

    #[test]
    fn percentiles_are_sorted_and_have_bounds() {
        let list = |text: &str| figures(&[("percentile_list", text)]).map(|f| f.percentiles);
        assert_eq!(list("99.9:50:99:50"), Ok(vec![50.0, 99.0, 99.9]));
        assert_eq!(list("100"), Ok(vec![100.0]));
        for (wrong, says) in [
            ("", "'' is not a number"),
            ("0", "0 is no percentile: they are above 0"),
            ("50:150", "150 is no percentile"),
            ("50:x", "'x' is not a number"),
            ("nan", "'nan' is not a number"),
        ] {
            let said = list(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
        let many = (1..=21).map(|n| n.to_string()).collect::<Vec<_>>().join(":");
        assert!(list(&many).unwrap_err().contains("more than 20 percentiles"));
    }

    #[test]
    fn what_is_written_is_read_again() {
        for words in [
            &[][..],
            &[("percentile_list", "0.1:99.99")],
            &[("clat_percentiles", "0"), ("lat_percentiles", "1")],
            &[("unified_rw_reporting", "1")],
            &[("unified_rw_reporting", "both"), ("clat_percentiles", "1")],
        ] {
            let first = figures(words).unwrap();
            let mut text = String::new();
            write(&mut text, &first);
            let lines: Vec<_> = text.lines().filter_map(|line| line.split_once('=')).collect();
            assert_eq!(figures(&lines), Ok(first), "{text}");
        }
        assert!(figures(&[("unified_rw_reporting", "all")]).unwrap_err().contains("none of none"));
    }
}
