//! Values of settings as numbers: a document of a sweep has each value as it was typed, `4k`, and
//! as a number with its unit, 4096 bytes, so that no reader has to know the suffixes.

use block::parse_size;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::{Axis, Setting};

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    /// Finite.
    pub number: f64,
    /// `bytes`, `percent`, `us`, `s`, `ios_per_s`, `bytes_per_s`; empty for a plain count.
    pub unit: &'static str,
}

/// Reads the value of a setting as a number: `4k` of a size is 4096 bytes, `50k` of a rate is
/// 50,000 I/Os per second. `None` for words such as `zipf:1.2` and for URIs.
pub fn quantity(word: &str, value: &str) -> Option<Quantity> {
    let value = value.trim();
    let of = |number: Option<f64>, unit| Some(Quantity { number: number?, unit });
    if let Some(share) = value.strip_suffix('%') {
        return of(decimal(share), "percent");
    }
    match word {
        "size" | "align" | "length" => {
            of(parse_size(value).ok().map(|bytes| bytes as f64), "bytes")
        }
        "read" | "random" | "trim" | "zero" | "flush" | "fua" | "compress" | "dedupe" => {
            of(decimal(value), "percent")
        }
        "delay" => of(decimal(value), "us"),
        "ramp" => of(decimal(value), "s"),
        "rate" => {
            let plain = value.trim_end_matches("/s");
            match plain.strip_suffix(['B', 'b']) {
                Some(bytes) => of(decimal(bytes), "bytes_per_s"),
                None => of(decimal(plain), "ios_per_s"),
            }
        }
        _ => of(decimal(value), ""),
    }
}

/// Reads `50k` and `1.2M`, decimal.
fn decimal(text: &str) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let times = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "k" | "K" => 1e3,
        "m" | "M" => 1e6,
        "g" | "G" => 1e9,
        _ => return None,
    };
    let number = digits.trim().parse::<f64>().ok()? * times;
    number.is_finite().then_some(number)
}

impl Setting {
    /// Reads the value as a number, if it is one.
    pub fn quantity(&self) -> Option<Quantity> {
        quantity(&self.word, &self.value)
    }
}

impl Axis {
    /// Reads the values as numbers of one unit; `None` if a value is no number or has another unit.
    pub fn numbers(&self) -> Option<(Vec<f64>, &'static str)> {
        let all: Option<Vec<Quantity>> =
            self.values.iter().map(|value| quantity(&self.word, value)).collect();
        let all = all?;
        let unit = all.first()?.unit;
        let alike = all.iter().all(|one| one.unit == unit);
        alike.then(|| (all.iter().map(|one| one.number).collect(), unit))
    }
}

impl Serialize for Setting {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let quantity = self.quantity();
        let fields = if quantity.is_some() { 4 } else { 2 };
        let mut out = serializer.serialize_struct("Setting", fields)?;
        out.serialize_field("word", &self.word)?;
        out.serialize_field("value", &self.value)?;
        if let Some(Quantity { number, unit }) = quantity {
            out.serialize_field("number", &number)?;
            out.serialize_field("unit", unit)?;
        }
        out.end()
    }
}

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let numbers = self.numbers();
        let fields = if numbers.is_some() { 4 } else { 2 };
        let mut out = serializer.serialize_struct("Axis", fields)?;
        out.serialize_field("word", &self.word)?;
        out.serialize_field("values", &self.values)?;
        if let Some((numbers, unit)) = numbers {
            out.serialize_field("numbers", &numbers)?;
            out.serialize_field("unit", unit)?;
        }
        out.end()
    }
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_the_numbers_that_a_job_makes_of_them() {
        for (word, value, number, unit) in [
            ("size", "4k", 4096.0, "bytes"),
            ("size", "1M", 1_048_576.0, "bytes"),
            ("length", "25%", 25.0, "percent"),
            ("length", "1g", 1_073_741_824.0, "bytes"),
            ("read", "70", 70.0, "percent"),
            ("delay", "250", 250.0, "us"),
            ("rate", "50k", 50e3, "ios_per_s"),
            ("rate", "1.2M", 1.2e6, "ios_per_s"),
            ("rate", "200MB/s", 200e6, "bytes_per_s"),
            ("outstanding", "16", 16.0, ""),
            ("targets", "8", 8.0, ""),
            ("workload.think_us", "3", 3.0, ""),
        ] {
            assert_eq!(quantity(word, value), Some(Quantity { number, unit }), "{word}={value}");
        }
        let none = [
            ("places", "zipf:1.2"),
            ("volume", "ram:1g"),
            ("size", "x"),
            ("read", "NaN"),
            ("a", ""),
        ];
        for (word, value) in none {
            assert_eq!(quantity(word, value), None, "{word}={value}");
        }
    }

    #[test]
    fn documents_have_both_and_are_read_by_what_was_typed() {
        let axis = Axis { word: "size".into(), values: vec!["512".into(), "4k".into()] };
        let text = serde_json::to_value(&axis).unwrap();
        assert_eq!(text["numbers"], json!([512.0, 4096.0]));
        assert_eq!(text["unit"], "bytes");
        assert_eq!(serde_json::from_value::<Axis>(text).unwrap(), axis);
        let mixed = Axis { word: "length".into(), values: vec!["1g".into(), "25%".into()] };
        assert!(serde_json::to_value(&mixed).unwrap().get("numbers").is_none());
        let setting = Setting { word: "rate".into(), value: "50k".into() };
        let text = serde_json::to_value(&setting).unwrap();
        assert_eq!(text["number"], 50e3);
        // The text counts, whatever the number says.
        let other = json!({ "word": "rate", "value": "50k", "number": 7, "unit": "bytes" });
        assert_eq!(serde_json::from_value::<Setting>(other).unwrap(), setting);
        let word = Setting { word: "places".into(), value: "zipf:1.2".into() };
        assert_eq!(serde_json::to_value(&word).unwrap().as_object().unwrap().len(), 2);
    }
}
