//! Current prices: a file of them with its date, and single prices.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use crate::read::{CatalogueError, line_of, syntax};
use crate::{Catalogue, Figure, Kind, Source};

/// Maximum plausible price, in dollars.
const DOLLARS_MAX: f64 = 1e7;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrices {
    #[serde(deserialize_with = "crate::line::read")]
    source: String,
    #[serde(deserialize_with = "crate::line::read")]
    date: String,
    price: BTreeMap<String, Spanned<f64>>,
}

pub(crate) fn add(to: &mut Catalogue, file: &str, text: &str) -> Result<(), CatalogueError> {
    let refuse = |line, reason| CatalogueError { file: file.to_owned(), line, reason };
    let raw: RawPrices = toml::from_str(text).map_err(|error| {
        let (line, reason) = syntax(text, &error);
        refuse(line, reason)
    })?;
    if !dated(&raw.date) {
        let reason = format!("date '{}': a year, or one with month and day: 2026-11-25", raw.date);
        return Err(refuse(1, reason));
    }
    let mut with = to.clone();
    for (part, dollars) in &raw.price {
        let at = format!("{file}:{}", line_of(text, dollars.span().start));
        put(&mut with, part, *dollars.get_ref(), (&raw.source, &raw.date, &at))
            .map_err(|reason| refuse(line_of(text, dollars.span().start), reason))?;
    }
    *to = with;
    Ok(())
}

pub(crate) fn set(to: &mut Catalogue, part: &str, dollars: f64) -> Result<(), String> {
    put(to, part, dollars, ("the command line", "as given", "--price"))
}

/// Returns whether `date` has the form `2026`, `2026-11` or `2026-11-25`.
fn dated(date: &str) -> bool {
    let lengths = [4, 2, 2];
    let parts: Vec<&str> = date.split('-').collect();
    let digits = |part: &&str, length: &usize| {
        part.len() == *length && part.chars().all(|c| c.is_ascii_digit())
    };
    parts.len() <= 3 && parts.iter().zip(&lengths).all(|(part, length)| digits(part, length))
}

fn put(
    to: &mut Catalogue,
    name: &str,
    dollars: f64,
    (source, date, at): (&str, &str, &str),
) -> Result<(), String> {
    if !(0.0..=DOLLARS_MAX).contains(&dollars) {
        return Err(format!("{name}: {dollars} dollars: 0 to {DOLLARS_MAX:e} are possible"));
    }
    let id = to.part(name).map_err(|error| error.to_string())?.id.clone();
    let figure = Figure {
        value: dollars,
        low: dollars,
        high: dollars,
        given: dollars,
        unit: "USD".to_owned(),
        condition: String::new(),
        kind: Kind::Spec,
        date: date.to_owned(),
        source: source.to_owned(),
        at: at.to_owned(),
    };
    let title = format!("prices: {source}");
    let known = Source { title, date: date.to_owned(), weak: false };
    to.sources.entry(source.to_owned()).or_insert(known);
    if let Some(part) = to.parts.get_mut(&id) {
        // The new price replaces all older ones.
        Arc::make_mut(part).figures.insert("price".to_owned(), vec![figure]);
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn prices_take_the_place_of_old_ones_with_their_date() {
        let mut catalogue = Catalogue::shipped();
        let file = "source = 'a quote'\ndate = '2026-11-20'\n[price]\nx25-m = 99\n'pm1743' = 900\n";
        catalogue.add_prices("p.toml", file).unwrap();
        assert_eq!(catalogue.parts["x25-m"].value("price"), Some(99.0));
        assert_eq!(catalogue.parts["pm1743"].figures["price"][0].date, "2026-11-20");
        catalogue.set_price("X25-M", 5.0).unwrap();
        assert_eq!(catalogue.parts["x25-m"].value("price"), Some(5.0));
    }

    #[test]
    fn wrong_prices_are_refused_whole_with_their_line() {
        let head = "source = 'q'\ndate = '2026'\n[price]\nx25-m = 99\n";
        for (text, line, reason) in [
            (format!("{head}nosuch = 1\n"), 5, "no part is called"),
            (format!("{head}pm1743 = -1\n"), 5, "dollars"),
            (format!("{head}pm1743 = nan\n"), 5, "dollars"),
            (head.replace("'2026'", "'soon'"), 1, "date 'soon'"),
            (head.replace("date = '2026'\n", ""), 1, "date"),
            (format!("{head}pm1743 = 'much'\n"), 5, "invalid type"),
        ] {
            let mut catalogue = Catalogue::shipped();
            let error = catalogue.add_prices("p.toml", &text).unwrap_err();
            assert_eq!(error.line, line, "{error}");
            assert!(error.reason.contains(reason), "{error}");
            assert_eq!(catalogue, Catalogue::shipped());
        }
        assert!(Catalogue::shipped().set_price("nosuch", 1.0).is_err());
    }
}
