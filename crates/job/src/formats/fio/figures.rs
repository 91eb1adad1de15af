//! Latency figures that fio shows, and whether they are totals of all directions: options that
//! change no load.

use super::option::Part::Shown;
use super::option::{Row, flag, sets, some_word, switch, takes, word_if};
use super::value;
use crate::spec::{Directions, PERCENTILES_MAX};

/// The options of figures.
pub(super) const ROWS: &[Row] = &[
    sets!("percentile_list", figures.percentiles, |v| percentiles(v.text.unwrap_or_default())?)
        .writes(|w| {
            let all = &w.group.figures.percentiles;
            word_if(!all.is_empty(), list(all, ":"))
        })
        .tells(Shown, |group| {
            let all = &group.figures.percentiles;
            (!all.is_empty()).then(|| format!("percentiles {}", list(all, ", ")))
        }),
    switch!("clat_percentiles", figures.of_completion)
        .writes(|w| word_if(!w.group.figures.of_completion, 0))
        .tells(Shown, |group| {
            (!group.figures.of_completion).then(|| "no clat percentiles".to_owned())
        }),
    switch!("lat_percentiles", figures.of_whole)
        .writes(|w| word_if(w.group.figures.of_whole, 1))
        .tells(Shown, |group| group.figures.of_whole.then(|| "lat percentiles too".to_owned())),
    // Every latency is measured all the same; as in fio, percentiles are not shown.
    Row::new(&["gtod_reduce"], false, |settings, given| {
        if given.switch()? {
            (settings.figures.of_completion, settings.figures.of_whole) = (false, false);
        }
        Ok(None)
    }),
    takes!("disable_clat", |settings, given| settings.figures.of_completion &= !given.switch()?),
    switch!("disk_util", figures.disks)
        .writes(|w| word_if(!w.group.figures.disks, 0))
        .tells(Shown, |group| (!group.figures.disks).then(|| "no disk utilization".to_owned())),
    sets!("unified_rw_reporting", figures.directions, |v| v.one_of(&DIRECTIONS)?)
        .writes(|w| {
            let said = DIRECTIONS.iter().find(|(_, said)| *said == w.group.figures.directions);
            some_word(said.map(|(word, _)| word).filter(|word| **word != "none"))
        })
        .tells(Shown, |group| match group.figures.directions {
            Directions::Apart => None,
            Directions::Mixed => Some("all directions combined".to_owned()),
            Directions::Both => Some("all directions combined too".to_owned()),
        }),
    flag!("new_group", figures.begins)
        .writes(|w| word_if(w.group.figures.begins, ""))
        .tells(Shown, |group| group.figures.begins.then(|| "a new group".to_owned())),
    // A text that a line cannot contain is only for people.
    sets!("description", figures.description, |v| v.text()?.to_owned())
        .writes(|w| {
            let said = &w.group.figures.description;
            word_if(!said.is_empty() && !said.contains([';', '#', '$', '\n', '\r']), said)
        })
        .tells(Shown, |group| {
            let said = &group.figures.description;
            (!said.is_empty()).then(|| format!("\"{said}\""))
        }),
];

const DIRECTIONS: [(&str, Directions); 6] = [
    ("none", Directions::Apart),
    ("mixed", Directions::Mixed),
    ("both", Directions::Both),
    ("0", Directions::Apart),
    ("1", Directions::Mixed),
    ("2", Directions::Both),
];

fn list(percentiles: &[f64], between: &str) -> String {
    percentiles.iter().map(f64::to_string).collect::<Vec<_>>().join(between)
}

/// Reads `percentile_list=`: `50:99:99.9`, in any order.
fn percentiles(text: &str) -> Result<Vec<f64>, String> {
    let mut list = Vec::new();
    for part in text.split(':').map(str::trim) {
        match value::fraction(part)? {
            percent if percent > 0.0 && percent <= 100.0 => list.push(percent),
            _ => return Err(format!("{part} is not a percentile: above 0, at most 100")),
        }
    }
    list.sort_by(f64::total_cmp);
    list.dedup();
    match list.len() <= PERCENTILES_MAX {
        true => Ok(list),
        false => Err(format!("more than {PERCENTILES_MAX} percentiles")),
    }
}

#[cfg(test)]
mod test {
    use super::super::settings::Settings;
    use super::super::test::take;
    use crate::spec::Figures;

    fn figures(words: &[(&str, &str)]) -> Result<Figures, String> {
        let mut settings = Settings::usual();
        for (name, text) in words {
            take(name, Some(text), &mut settings).map_err(|why| why.to_string())?;
        }
        Ok(settings.figures)
    }

    #[test]
    fn clocks_that_are_off_show_no_percentiles() {
        let shown = |words: &[(&str, &str)]| {
            figures(words).map(|all| (all.of_completion, all.of_whole, all.disks)).unwrap()
        };
        assert_eq!(shown(&[("gtod_reduce", "0"), ("disable_clat", "0")]), (true, false, true));
        let off = [("lat_percentiles", "1"), ("gtod_reduce", "1"), ("disk_util", "0")];
        assert_eq!(shown(&off), (false, false, false));
        assert_eq!(shown(&[("lat_percentiles", "1"), ("disable_clat", "1")]), (false, true, true));
    }

    #[test]
    fn percentiles_are_sorted_and_have_bounds() {
        let list = |text: &str| figures(&[("percentile_list", text)]).map(|f| f.percentiles);
        assert_eq!(list("99.9:50:99:50"), Ok(vec![50.0, 99.0, 99.9]));
        assert_eq!(list("100"), Ok(vec![100.0]));
        for (wrong, says) in [
            ("", "'' is not a number"),
            ("0", "0 is not a percentile: above 0"),
            ("50:150", "150 is not a percentile"),
            ("50:x", "'x' is not a number"),
            ("nan", "'nan' is not a number"),
        ] {
            let said = list(wrong).unwrap_err();
            assert!(said.contains(says), "{wrong}: {said}");
        }
        let many = (1..=21).map(|n| n.to_string()).collect::<Vec<_>>().join(":");
        assert!(list(&many).unwrap_err().contains("more than 20 percentiles"));
        let all = figures(&[("unified_rw_reporting", "all")]).unwrap_err();
        assert!(all.contains("unknown value 'all': one of none"), "{all}");
    }
}
