//! Prices of the user: a file of them, single ones, and the template of such a file.
//!
//! A file is TOML or CSV. Each line of it has a part, a price, its currency, its date and its
//! source; what all lines have in common may stand once, at the top of a TOML file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use crate::line::shown;
use crate::read::{CatalogueError, line_of, syntax};
use crate::{Basis, Catalogue, Class, Figure, Kind, Part, Source, TODAY};

/// Maximum plausible price, in dollars.
const DOLLARS_MAX: f64 = 1e7;
/// Columns of a CSV file, and keys of a line of a TOML file. The last may be absent.
const COLUMNS: [&str; 6] = ["name", "price", "currency", "date", "source", "usd"];
/// Currency of the catalogue.
const DOLLAR: &str = "USD";

/// Keys of a price, or of all prices of a file.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrice {
    name: Option<String>,
    price: Option<f64>,
    currency: Option<String>,
    date: Option<String>,
    source: Option<String>,
    /// Dollars of one unit of the currency.
    usd: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPrices {
    currency: Option<String>,
    date: Option<String>,
    source: Option<String>,
    usd: Option<f64>,
    price: RawTable,
}

/// Prices by name, or as lines with all keys.
struct RawTable(Vec<(usize, RawPrice)>);

impl<'de> Deserialize<'de> for RawTable {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<RawTable, D::Error> {
        struct Either;
        impl<'de> serde::de::Visitor<'de> for Either {
            type Value = RawTable;
            fn expecting(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                to.write_str("[price] with a part and dollars in each line, or [[price]]")
            }
            fn visit_map<M: serde::de::MapAccess<'de>>(self, map: M) -> Result<RawTable, M::Error> {
                let from = serde::de::value::MapAccessDeserializer::new(map);
                let named = BTreeMap::<String, Spanned<f64>>::deserialize(from)?;
                let price = |(name, price): (String, Spanned<f64>)| {
                    let (at, price) = (price.span().start, Some(price.into_inner()));
                    (at, RawPrice { name: Some(name), price, ..RawPrice::default() })
                };
                Ok(RawTable(named.into_iter().map(price).collect()))
            }
            fn visit_seq<S: serde::de::SeqAccess<'de>>(
                self,
                mut seq: S,
            ) -> Result<RawTable, S::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element::<Spanned<RawPrice>>()? {
                    all.push((one.span().start, one.into_inner()));
                }
                Ok(RawTable(all))
            }
        }
        from.deserialize_any(Either)
    }
}

pub(crate) fn add(to: &mut Catalogue, file: &str, text: &str) -> Result<(), CatalogueError> {
    let refuse = |line, reason| CatalogueError { file: file.to_owned(), line, reason };
    let lines = match is_csv(text) {
        true => csv(text).map_err(|(line, reason)| refuse(line, reason))?,
        false => toml_lines(text).map_err(|(line, reason)| refuse(line, reason))?,
    };
    let mut with = to.clone();
    for (line, raw) in lines {
        let at = format!("{file}:{line}");
        let price = Price::of(raw).map_err(|reason| refuse(line, reason))?;
        price.put(&mut with, &at).map_err(|reason| refuse(line, reason))?;
    }
    *to = with;
    Ok(())
}

pub(crate) fn set(to: &mut Catalogue, part: &str, dollars: f64) -> Result<(), String> {
    let (date, source) = ("as given".to_owned(), "the command line".to_owned());
    let price = Price { name: part.to_owned(), dollars, given: String::new(), date, source };
    price.put(to, "--price")
}

/// Lines of a text, with their numbers, or the line and the reason of a refusal.
type Lines = Result<Vec<(usize, RawPrice)>, (usize, String)>;

fn toml_lines(text: &str) -> Lines {
    let raw: RawPrices = toml::from_str(text).map_err(|error| syntax(text, &error))?;
    let RawPrices { currency, date, source, usd, price: RawTable(prices) } = raw;
    let whole = |(at, one): (usize, RawPrice)| {
        let line = RawPrice {
            currency: one.currency.or_else(|| currency.clone()),
            date: one.date.or_else(|| date.clone()),
            source: one.source.or_else(|| source.clone()),
            usd: one.usd.or(usd),
            ..one
        };
        (line_of(text, at), line)
    };
    Ok(prices.into_iter().map(whole).collect())
}

/// Returns whether a text is CSV: its first line has the columns.
fn is_csv(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#'));
    first.is_some_and(|line| line.trim_start_matches('\u{feff}').starts_with("name,"))
}

fn csv(text: &str) -> Lines {
    let text = text.trim_start_matches('\u{feff}');
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| {
        let line = line.trim();
        !line.is_empty() && !line.starts_with('#')
    });
    let (first, head) = lines.next().unwrap_or((1, ""));
    let columns = fields(head);
    if let Some(other) = columns.iter().find(|name| !COLUMNS.contains(&name.as_str())) {
        let known = COLUMNS.join(",");
        return Err((first, format!("column '{}': the columns are {known}", shown(other))));
    }
    let mut all = Vec::new();
    for (line, row) in lines {
        let row = fields(row);
        if row.len() != columns.len() {
            let (has, wants) = (row.len(), columns.len());
            return Err((line, format!("{has} fields where the first line has {wants}")));
        }
        let field = |name: &str| {
            let at = columns.iter().position(|column| column == name)?;
            Some(row[at].clone()).filter(|text| !text.is_empty())
        };
        let number = |name: &str| match field(name).map(|text| (text.parse(), text)) {
            None => Ok(None),
            Some((Ok(number), _)) => Ok(Some(number)),
            Some((Err(_), text)) => Err((line, format!("{name}: '{}' is no number", shown(&text)))),
        };
        let (price, usd) = (number("price")?, number("usd")?);
        let [name, currency, date, source] = ["name", "currency", "date", "source"].map(field);
        all.push((line, RawPrice { name, price, currency, date, source, usd }));
    }
    Ok(all)
}

/// Fields of a line of CSV, without the quotes around them.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut quoted) = (vec![String::new()], false);
    let mut chars = line.chars().peekable();
    while let Some(letter) = chars.next() {
        let last = all.len() - 1;
        match letter {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                all[last].push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => all.push(String::new()),
            other => all[last].push(other),
        }
    }
    all.iter().map(|field| field.trim().to_owned()).collect()
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

/// A price that replaces those of the catalogue.
struct Price {
    name: String,
    dollars: f64,
    /// Price in its own currency; empty if that is the dollar.
    given: String,
    date: String,
    source: String,
}

impl Price {
    /// The price of a line, or what it lacks.
    fn of(raw: RawPrice) -> Result<Price, String> {
        let missing =
            |key: &str| format!("{key}: missing: each price has {}", COLUMNS[..5].join(", "));
        let name = raw.name.ok_or_else(|| missing("name"))?;
        let price = raw.price.ok_or_else(|| format!("{}: no price", shown(&name)))?;
        let date = shown(&raw.date.ok_or_else(|| missing("date"))?);
        if !dated(&date) {
            return Err(format!("date '{date}': a year, or one with month and day: 2026-11-25"));
        }
        let source = shown(
            &raw.source.filter(|text| !text.trim().is_empty()).ok_or_else(|| missing("source"))?,
        );
        let currency = shown(raw.currency.as_deref().unwrap_or(DOLLAR));
        let (dollars, given) = match (currency.as_str(), raw.usd) {
            (DOLLAR, None) => (price, String::new()),
            (DOLLAR, Some(_)) => return Err("usd: a dollar is one dollar".to_owned()),
            (_, Some(usd)) if usd > 0.0 => {
                (price * usd, format!("{price} {currency}, {usd} dollars each"))
            }
            (_, Some(usd)) => return Err(format!("usd: {usd} dollars for one {currency}")),
            (_, None) => {
                return Err(format!(
                    "currency {currency}: say how many dollars one is, as usd = 1.1: sums are in \
                     dollars"
                ));
            }
        };
        Ok(Price { name, dollars, given, date, source })
    }

    fn put(self, to: &mut Catalogue, at: &str) -> Result<(), String> {
        let Price { name, dollars, given, date, source } = self;
        if !(0.0..=DOLLARS_MAX).contains(&dollars) {
            let name = shown(&name);
            return Err(format!("{name}: {dollars} dollars: 0 to {DOLLARS_MAX:e} are possible"));
        }
        let id = to.part(&name).map_err(|error| error.to_string())?.id.clone();
        let figure = Figure {
            value: dollars,
            low: dollars,
            high: dollars,
            given: dollars,
            unit: DOLLAR.to_owned(),
            condition: given,
            kind: Kind::Spec,
            quote: String::new(),
            basis: Basis::Cited,
            date: date.clone(),
            source: source.clone(),
            at: at.to_owned(),
        };
        let (title, url) = (source.clone(), String::new());
        let known = Source { title, date, url, weak: false, recalled: false };
        Arc::make_mut(&mut to.sources).entry(source).or_insert(known);
        if let Some(part) = Arc::make_mut(&mut to.parts).get_mut(&id) {
            // The new price replaces all older ones.
            Arc::make_mut(part).figures.insert("price".to_owned(), vec![figure]);
        }
        Ok(())
    }
}

/// A price in use, with its date and its origin.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct PriceTag {
    /// Id of the part.
    pub name: String,
    /// Dollars of one.
    pub price: f64,
    /// Kind of knowledge.
    pub kind: Kind,
    /// Basis of the price.
    pub basis: Basis,
    /// Date of the price; "unknown" if its source has none.
    pub date: String,
    /// Title of its source.
    pub source: String,
    /// Condition of the price: "new, at least".
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
}

/// Returns the prices of parts in words, each part once: "x25-m $440 of 2009 (anandtech.com 2829)".
pub fn price_words<'a>(tags: impl IntoIterator<Item = &'a PriceTag>) -> String {
    let mut all: Vec<String> = Vec::new();
    for PriceTag { name, price, date, source, .. } in tags {
        let of = if date == "unknown" { "no date".to_owned() } else { format!("of {date}") };
        let words = format!("{name} ${price:.0} {of} ({source})");
        if !all.contains(&words) {
            all.push(words);
        }
    }
    all.join(", ")
}

impl Catalogue {
    /// Returns the price of a part, with its date and its origin; `None` if it is not known.
    pub fn price_tag(&self, part: &Part) -> Option<PriceTag> {
        let figure = part.figures.get("price")?.first()?;
        let source = self.sources.get(&figure.source);
        Some(PriceTag {
            name: part.id.clone(),
            price: figure.value,
            kind: figure.kind,
            basis: figure.basis,
            date: figure.date.clone(),
            source: source.map_or(&figure.source, |source| &source.title).clone(),
            condition: figure.condition.clone(),
        })
    }

    /// Returns a file of prices to fill: a line for each price in use, and a commented one for each
    /// recalled price and for each part of `parts` that is sold today and has none.
    pub fn price_template<'a>(&self, parts: impl Iterator<Item = &'a Part> + Clone) -> String {
        let mut text = format!(
            "# Prices, for --prices. A line per part; a currency other than {DOLLAR} has\n\
             # usd = 1.1, the dollars of one. Lines without a price are commented out.\n\n\
             price = [\n"
        );
        let quoted = |text: &str| toml::Value::String(text.to_owned()).to_string();
        for tag in parts.clone().filter_map(|part| self.price_tag(part)) {
            // A source without a date has the year of the catalogue's last review.
            let date = if dated(&tag.date) { tag.date } else { TODAY.to_string() };
            let (source, price) = (quoted(&tag.source), tag.price);
            let name = &tag.name;
            // A price that nobody published would come back as one that the user vouches for.
            let mark = if tag.basis == Basis::Recalled { "# recalled: " } else { "" };
            let _ = writeln!(
                text,
                "  {mark}{{ name = \"{name}\", price = {price}, currency = \"{DOLLAR}\", \
                 date = \"{date}\", source = {source} }},"
            );
        }
        let sold = |part: &&Part| {
            let sold = part.sold.is_some_and(|sold| sold.in_year(TODAY));
            let bought = [Class::Adapter, Class::Nic, Class::Server].contains(&part.class);
            (sold || (bought && part.sold.is_none())) && part.value("price").is_none()
        };
        for part in parts.filter(sold) {
            let _ = writeln!(
                text,
                "  # {{ name = \"{}\", price = , currency = \"{DOLLAR}\", date = \"\", \
                 source = \"\" }},",
                part.id
            );
        }
        text + "]\n"
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn with(text: &str) -> Catalogue {
        let mut catalogue = Catalogue::shipped();
        catalogue.add_prices("p.toml", text).unwrap_or_else(|error| panic!("{error}: {text}"));
        catalogue
    }

    #[test]
    fn prices_take_the_place_of_old_ones_with_their_date() {
        let file = "source = 'a quote'\ndate = '2026-11-20'\n[price]\nx25-m = 99\n'pm1743' = 900\n";
        let mut catalogue = with(file);
        assert_eq!(catalogue.parts["x25-m"].value("price"), Some(99.0));
        let tag = catalogue.price_tag(&catalogue.parts["pm1743"]).unwrap();
        assert_eq!((tag.date.as_str(), tag.source.as_str()), ("2026-11-20", "a quote"));
        catalogue.set_price("X25-M", 5.0).unwrap();
        assert_eq!(catalogue.parts["x25-m"].value("price"), Some(5.0));
        assert_eq!(catalogue.price_tag(&catalogue.parts["x25-m"]).unwrap().date, "as given");
    }

    #[test]
    fn lines_and_csv_say_the_same() {
        let toml = "source = 'shop'\n[[price]]\nname = 'x25-m'\nprice = 90\ndate = '2026'\n\
            currency = 'EUR'\nusd = 1.1\n[[price]]\nname = 'PM1743'\nprice = 900\n\
            date = '2026-11'\nsource = 'quote 7, \"net\"'\n";
        let csv = "\u{feff}name,price,currency,date,source,usd\n# a remark\n\
            x25-m,90,EUR,2026,shop,1.1\n\nPM1743,900,,2026-11,\"quote 7, \"\"net\"\"\",\n";
        let tags = |text: &str| {
            let catalogue = with(text);
            ["x25-m", "pm1743"].map(|id| catalogue.price_tag(&catalogue.parts[id]).unwrap())
        };
        let found = tags(toml);
        assert_eq!(found, tags(csv));
        assert!((found[0].price - 99.0).abs() < 1e-9);
        assert_eq!(found[0].condition, "90 EUR, 1.1 dollars each");
        assert_eq!(found[1].source, "quote 7, \"net\"");
    }

    #[test]
    fn the_template_is_a_file_of_the_same_prices() {
        let shipped = Catalogue::shipped();
        let parts = || shipped.parts.values().map(|part| &**part);
        let template = shipped.price_template(parts());
        let again = with(&template);
        let (mut known, mut empty) = (0, 0);
        for part in parts() {
            let (old, new) = (shipped.price_tag(part), again.price_tag(&again.parts[&part.id]));
            assert_eq!(old.is_some(), new.is_some(), "{}", part.id);
            if let (Some(old), Some(new)) = (old, new) {
                assert_eq!((old.price, &old.source), (new.price, &new.source));
                assert_eq!(old.basis == Basis::Recalled, new.basis == Basis::Recalled, "{new:?}");
                known += 1;
            }
            empty += usize::from(template.contains(&format!("# {{ name = \"{}\"", part.id)));
        }
        assert!(known >= 10 && empty >= 100, "{known} prices, {empty} to fill");
        // A line becomes a price when it is filled.
        let line = template.lines().find(|line| line.contains("price = ,")).unwrap();
        let filled = line.replace("  # ", "  ").replace("price = ,", "price = 7,");
        let filled =
            filled.replace("date = \"\", source = \"\"", "date = \"2026\", source = \"me\"");
        assert!(again != with(&template.replace(line, &filled)));
    }

    #[test]
    fn wrong_prices_are_refused_whole_with_their_line() {
        let head = "source = 'q'\ndate = '2026'\n[price]\nx25-m = 99\n";
        let csv = "name,price,currency,date,source\nx25-m,99,USD,2026,q\n";
        let each = "[[price]]\nname = 'x25-m'\nprice = 1\ndate = '2026'\nsource = 'q'\n";
        for (text, line, reason) in [
            (format!("{head}nosuch = 1\n"), 5, "no part is called"),
            (format!("{head}x25-n = 1\n"), 5, "x25-m"),
            (format!("{head}pm1743 = -1\n"), 5, "dollars"),
            (format!("{head}pm1743 = nan\n"), 5, "dollars"),
            (head.replace("'2026'", "'soon'"), 4, "date 'soon'"),
            (head.replace("date = '2026'\n", ""), 3, "date: missing"),
            (head.replace("source = 'q'\n", ""), 3, "source: missing"),
            (format!("{head}pm1743 = 'much'\n"), 5, "invalid type"),
            (format!("currency = 'EUR'\n{head}"), 5, "currency EUR: say how many dollars"),
            (format!("usd = 2.0\n{head}"), 5, "usd: a dollar"),
            (format!("{csv}cd7,9,USD,2026\n"), 3, "4 fields where the first line has 5"),
            (format!("{csv}cd7,cheap,USD,2026,q\n"), 3, "price: 'cheap' is no number"),
            (format!("{csv}cd7,,USD,2026,q\n"), 3, "cd7: no price"),
            (csv.replace("source", "shop"), 1, "column 'shop'"),
            (format!("{each}[[price]]\nprice = 1\ndate = '2026'\nsource = 'q'\n"), 6, "name"),
            (each.replace("date", "day"), 3, "unknown field"),
        ] {
            let mut catalogue = Catalogue::shipped();
            let error = catalogue.add_prices("p.toml", &text).unwrap_err();
            assert!(error.reason.contains(reason), "{error}: {text}");
            assert!(error.line.abs_diff(line) <= 1, "{error}: {line}");
            assert_eq!(catalogue, Catalogue::shipped());
        }
        assert!(Catalogue::shipped().set_price("nosuch", 1.0).is_err());
    }
}
