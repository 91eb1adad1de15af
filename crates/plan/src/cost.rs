//! Cost of a bill: money, power, rack units. A sum with unknown parts is a lower bound, and names
//! these parts.

use serde::{Serialize, Serializer};

use crate::bill::Bill;
use catalogue::{Kind, PriceTag};

/// Sum over the parts of a bill.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sum {
    /// Sum of the known parts.
    pub known: f64,
    /// Lower bound by the sources.
    pub low: f64,
    /// Upper bound by the sources.
    pub high: f64,
    /// Least certain kind of the figures in the sum; `None` if there are none, which is `derived`
    /// in a document: the sum of nothing.
    #[serde(serialize_with = "or_derived")]
    pub kind: Option<Kind>,
    /// Parts without a published figure.
    pub unknown: Vec<String>,
}

fn or_derived<S: Serializer>(kind: &Option<Kind>, to: S) -> Result<S::Ok, S::Error> {
    kind.unwrap_or(Kind::Derived).serialize(to)
}

impl Cost {
    /// Returns the prices of the parts that have one.
    pub fn tags(&self) -> Vec<PriceTag> {
        self.lines.iter().filter_map(|line| line.price.clone()).collect()
    }
}

impl Sum {
    /// Returns the sum, if nothing is missing.
    pub fn total(&self) -> Option<f64> {
        self.unknown.is_empty().then_some(self.known)
    }
}

/// A part of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Id of the part.
    pub part: String,
    /// Number of such parts.
    pub count: u32,
    /// Price of one, with its kind, its date and its origin.
    pub price: Option<PriceTag>,
    /// Power of one at work, with its kind.
    pub power: Option<(f64, Kind)>,
}

/// Parts, with their sums.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Costs by part.
    pub lines: Vec<Line>,
    /// Price in dollars.
    pub price: Sum,
    /// Power at work in watts.
    pub power: Sum,
    /// Height of the servers in rack units.
    pub height: Sum,
}

/// Sums up the cost of a bill.
pub fn cost(bill: &Bill) -> Cost {
    let mut counts: Vec<(String, u32)> = Vec::new();
    let mut count = |id: &Option<String>, number: u32| {
        let Some(id) = id else { return };
        match counts.iter_mut().find(|(known, _)| known == id) {
            Some((_, sum)) => *sum += number,
            None => counts.push((id.clone(), number)),
        }
    };
    count(&bill.server, 1);
    for group in &bill.groups {
        count(&group.adapter, group.count);
        count(&group.drive, if group.drive.is_some() { group.devices() } else { 0 });
    }
    let parts = counts.iter().map(|(id, number)| (&bill.catalogue.parts[id], *number));
    let sum = |quantity: &'static str, wanted: &dyn Fn(&str) -> bool| {
        let mut sum = Sum::default();
        for (part, number) in parts.clone().filter(|(part, _)| wanted(&part.id)) {
            let number = f64::from(number);
            match part.known(quantity) {
                Some(known) => {
                    sum.known += known.value * number;
                    sum.low += known.low * number;
                    sum.high += known.high * number;
                    sum.kind = sum.kind.max(Some(known.kind));
                }
                None => sum.unknown.push(part.id.clone()),
            }
        }
        sum
    };
    let mut price = sum("price", &|_| true);
    for (_, dollars) in &bill.extras {
        (price.known, price.low) = (price.known + dollars, price.low + dollars);
        price.high += dollars;
    }
    let known = |id: &str, quantity| {
        bill.catalogue.parts[id].known(quantity).map(|known| (known.value, known.kind))
    };
    let line = |(id, count): &(String, u32)| Line {
        part: id.clone(),
        count: *count,
        price: bill.catalogue.price_tag(&bill.catalogue.parts[id]),
        power: known(id, "power_active"),
    };
    let server = bill.server.clone().unwrap_or_default();
    Cost {
        lines: counts.iter().map(line).collect(),
        price,
        power: sum("power_active", &|_| true),
        height: sum("height", &|id| id == server),
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use catalogue::Catalogue;

    #[test]
    fn adds_up_what_is_known_and_names_the_rest() {
        let text = "name = 'x'\nserver = 'sr2625urlx'\nsize = '4k'\noutstanding = 32\n\
            [[group]]\nadapter = 'lsi-9210-8i'\ncount = 2\ndrive = 'x25-m'\ndrives = 8\n\
            [[extra]]\nwhat = 'enclosure'\nprice = 100\n";
        let bill = Bill::read("x.toml", text, &Catalogue::shipped()).unwrap();
        let cost = cost(&bill);
        assert_eq!(cost.price.known, 16.0 * 440.0 + 2.0 * 220.0 + 100.0);
        assert_eq!(cost.price.unknown, ["sr2625urlx"]);
        assert_eq!(cost.price.kind, Some(Kind::Spec));
        assert_eq!(cost.price.total(), None);
        assert_eq!(cost.height.total(), Some(2.0));
        let tags = cost.tags();
        assert_eq!(tags.len(), 2, "the server has no price");
        assert!(tags.iter().any(|tag| tag.name == "x25-m" && tag.date == "2009"), "{tags:?}");
        assert!((cost.power.known - (16.0 * 3.0 + 2.0 * 7.3)).abs() < 1e-9);
        assert!(cost.power.high > 16.0 * 3.0 + 2.0 * 14.0);
    }
}
