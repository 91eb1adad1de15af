//! The basis of a figure: whether somebody else can look it up.
//!
//! The kind of a figure says how its value came about; its basis, whether a document is at hand
//! that says so. `--sourced` of the command line leaves out what no document says.

use serde::Serialize;

use crate::{Catalogue, Kind, Part, Source};
use std::sync::Arc;

/// Basis of a figure, the most certain first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// A document with its address, its date and the words that have the figure.
    Published,
    /// A document that is named, without its address, its date or its words.
    Cited,
    /// Other figures, by arithmetic.
    Derived,
    /// Memory, or an assumption: no document at hand has the figure.
    Recalled,
}

impl Basis {
    /// All of them, the most certain first.
    pub const ALL: [Basis; 4] = [Basis::Published, Basis::Cited, Basis::Derived, Basis::Recalled];

    /// Returns the word for the basis.
    pub fn word(self) -> &'static str {
        match self {
            Basis::Published => "published",
            Basis::Cited => "cited",
            Basis::Derived => "derived",
            Basis::Recalled => "recalled",
        }
    }

    /// Returns the basis of a figure of this kind with the words `quote` of a document of `date`.
    pub fn of(kind: Kind, source: &Source, date: &str, quote: &str) -> Basis {
        let dated = date.as_bytes().first().is_some_and(u8::is_ascii_digit);
        match kind {
            Kind::Guess => Basis::Recalled,
            _ if source.recalled => Basis::Recalled,
            Kind::Derived | Kind::Fit => Basis::Derived,
            Kind::Spec | Kind::Measured if source.url.is_empty() || quote.is_empty() || !dated => {
                Basis::Cited
            }
            Kind::Spec | Kind::Measured => Basis::Published,
        }
    }
}

impl Catalogue {
    /// Removes the figures that no document has, and notes which: [`Catalogue::left_out`]. Parts
    /// stay, so that an answer can say what it lacks.
    pub fn keep_sourced(&mut self) {
        self.sourced = true;
        let recalled = |part: &Part| {
            part.figures.values().flatten().any(|figure| figure.basis == Basis::Recalled)
        };
        let all_left_out = Arc::make_mut(&mut self.left_out);
        for part in Arc::make_mut(&mut self.parts).values_mut().filter(|part| recalled(part)) {
            let part = Arc::make_mut(part);
            let left_out = all_left_out.entry(part.id.clone()).or_default();
            part.figures.retain(|quantity, figures| {
                figures.retain(|figure| figure.basis != Basis::Recalled);
                if figures.is_empty() {
                    left_out.insert(quantity.clone());
                }
                !figures.is_empty()
            });
        }
    }

    /// Returns whether figures that no document has were removed.
    pub fn is_sourced(&self) -> bool {
        self.sourced
    }

    /// Returns the quantities of a part that [`Catalogue::keep_sourced`] removed.
    pub fn left_out(&self, part: &str) -> impl Iterator<Item = &str> {
        self.left_out.get(part).into_iter().flatten().map(String::as_str)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const URL: &str = "https://example.org/sheet";

    fn source(url: &str, recalled: bool) -> Source {
        let (title, date) = ("a sheet".to_owned(), "2024".to_owned());
        Source { title, date, url: url.to_owned(), weak: false, recalled }
    }

    #[test]
    fn published_needs_address_date_and_words() {
        let (full, none) = (source(URL, false), source("", false));
        for kind in [Kind::Spec, Kind::Measured] {
            assert_eq!(Basis::of(kind, &full, "2024-01", "35K IOPS"), Basis::Published);
            assert_eq!(Basis::of(kind, &none, "2024-01", "35K IOPS"), Basis::Cited);
            assert_eq!(Basis::of(kind, &full, "unknown", "35K IOPS"), Basis::Cited);
            assert_eq!(Basis::of(kind, &full, "2024-01", ""), Basis::Cited);
            assert_eq!(Basis::of(kind, &source(URL, true), "2024", "35K"), Basis::Recalled);
        }
        assert_eq!(Basis::of(Kind::Derived, &full, "2024", "35K"), Basis::Derived);
        assert_eq!(Basis::of(Kind::Guess, &full, "2024", "35K"), Basis::Recalled);
    }

    /// Numbers of a text, in the units that it may give them in.
    fn numbers(text: &str) -> Vec<f64> {
        let text = text.replace(',', "");
        let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        let plain: Vec<f64> =
            parts.filter_map(|part| part.trim_matches('.').parse().ok()).collect();
        let scale = |number: &f64| [1.0, 1e3, 1e6, 1e-3, 1e-6].map(|factor| number * factor);
        plain.iter().flat_map(scale).collect()
    }

    #[test]
    fn a_published_figure_is_in_the_words_of_its_document() {
        let catalogue = Catalogue::shipped();
        let mut count = 0;
        for part in catalogue.parts.values() {
            for (quantity, figure) in
                part.figures.iter().flat_map(|(name, all)| all.iter().map(move |one| (name, one)))
            {
                let source = &catalogue.sources[&figure.source];
                let basis = Basis::of(figure.kind, source, &figure.date, &figure.quote);
                assert_eq!(figure.basis, basis, "{} {quantity}", part.id);
                let about = format!("{} {quantity} of {}", part.id, figure.source);
                if !figure.quote.is_empty() {
                    let near = |number: &f64| (number / figure.given - 1.0).abs() < 0.005;
                    let said = numbers(&figure.quote).iter().any(near);
                    assert!(said, "{about}: {} is not in '{}'", figure.given, figure.quote);
                }
                if basis == Basis::Published {
                    assert!(source.url.starts_with("http"), "{about}: {}", source.url);
                    assert!(!source.title.starts_with("nobody"), "{about}");
                    count += 1;
                }
            }
        }
        assert!(count >= 60, "{count} figures are published");
        // A source that is nobody is recalled, whatever the kind of its figures.
        for source in catalogue.sources.values() {
            let nobody = source.title.starts_with("nobody") || source.title.starts_with("Drumfire");
            assert_eq!(source.recalled, nobody, "{}", source.title);
        }
    }

    #[test]
    fn what_is_sourced_has_no_recalled_figure_and_says_what_is_gone() {
        let (whole, mut sourced) = (Catalogue::shipped(), Catalogue::shipped());
        sourced.keep_sourced();
        let all = |catalogue: &Catalogue| -> Vec<Basis> {
            let parts = catalogue.parts.values();
            parts.flat_map(|part| part.figures.values().flatten()).map(|one| one.basis).collect()
        };
        let recalled = |all: &[Basis]| all.iter().filter(|one| **one == Basis::Recalled).count();
        let (before, after) = (all(&whole), all(&sourced));
        assert_eq!(recalled(&after), 0);
        assert_eq!(before.len() - recalled(&before), after.len(), "nothing else is gone");
        assert_eq!(whole.parts.len(), sourced.parts.len());
        let drive = sourced.part("970-pro-512").unwrap();
        assert_eq!(drive.value("read_latency"), None);
        assert!(sourced.left_out("970-pro-512").any(|quantity| quantity == "read_latency"));
        assert_eq!(sourced.left_out("x25-m").count(), 0);
    }
}
