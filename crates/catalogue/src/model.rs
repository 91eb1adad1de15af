//! Drives by the names that they report: model numbers, and names with manufacturer and capacity.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::{Catalogue, Class, Part, letters};

const NUMBERS: &str = include_str!("../data/models.toml");

/// Words of a model name that name no family of drives.
const DROPPED: &[&str] = &[
    "corsair",
    "crucial",
    "dc",
    "drive",
    "hgst",
    "hynix",
    "intel",
    "kingston",
    "kioxia",
    "micron",
    "nvme",
    "samsung",
    "sandisk",
    "sata",
    "seagate",
    "series",
    "sk",
    "solidigm",
    "ssd",
    "toshiba",
    "ultrastar",
    "wd",
    "wdc",
    "western",
    "digital",
];

/// Share by which a named capacity may differ from a drive's: 1 TB is 1,000 or 1,024 GB.
const CAPACITY_SHARE: f64 = 0.05;

/// A model number: its pieces between any letters and digits, and its part's id.
struct Number {
    pieces: Vec<String>,
    id: String,
}

impl Number {
    /// Whether a word begins with the pieces, in their order.
    fn begins(&self, word: &str) -> bool {
        let (first, others) = self.pieces.split_first().expect("a number has a piece");
        let Some(mut rest) = word.strip_prefix(&**first) else { return false };
        others.iter().all(|piece| match rest.find(&**piece) {
            Some(at) => {
                rest = &rest[at + piece.len()..];
                true
            }
            None => false,
        })
    }

    fn len(&self) -> usize {
        self.pieces.iter().map(String::len).sum()
    }
}

fn numbers() -> &'static [Number] {
    static READ: OnceLock<Vec<Number>> = OnceLock::new();
    READ.get_or_init(|| {
        let makers: BTreeMap<String, BTreeMap<String, String>> =
            toml::from_str(NUMBERS).expect("a test reads data/models.toml");
        let number = |(number, id): (String, String)| {
            let pieces = number.split('*').map(letters).collect();
            Number { pieces, id }
        };
        makers.into_values().flatten().map(number).collect()
    })
}

/// Returns the drives that a reported name means: one, or one for each capacity of a drive whose
/// named capacity the catalogue lacks. `INTEL SSDPE2KX010T8`, `Samsung SSD 980 PRO 1TB`.
pub(crate) fn drives<'a>(catalogue: &'a Catalogue, name: &str) -> Vec<&'a Part> {
    if let Some(part) = numbered(name).and_then(|id| catalogue.parts.get(id)) {
        return vec![part];
    }
    let (family, bytes) = family_and_capacity(name);
    if family.is_empty() {
        return Vec::new();
    }
    let drives = catalogue.parts.values().map(|part| &**part);
    let of_family: Vec<&Part> =
        drives.filter(|part| part.class == Class::Drive && is_of(part, &family)).collect();
    let Some(bytes) = bytes else { return of_family };
    let fits = |part: &&&Part| {
        let own = part.value("capacity");
        own.is_some_and(|own| (own / bytes - 1.0).abs() <= CAPACITY_SHARE)
    };
    match of_family.iter().find(fits) {
        Some(part) => vec![part],
        None => of_family,
    }
}

/// Returns the id of the part whose number begins a word of the name: that of the longest number.
fn numbered(name: &str) -> Option<&'static str> {
    let words = name.split(|c: char| c.is_whitespace() || c == '_').map(letters);
    let words: Vec<String> = words.chain([letters(name)]).collect();
    let fits = |number: &&Number| words.iter().any(|word| number.begins(word));
    numbers().iter().filter(fits).max_by_key(|number| number.len()).map(|number| &*number.id)
}

/// Returns the letters and digits of a name without manufacturer and capacity, and the capacity
/// in bytes.
fn family_and_capacity(name: &str) -> (String, Option<f64>) {
    let lower = name.to_lowercase().replace(" tb", "tb").replace(" gb", "gb");
    let separates = |c: char| c.is_whitespace() || "_-,/()".contains(c);
    let (mut family, mut bytes) = (String::new(), None);
    for word in lower.split(separates).filter(|word| !word.is_empty()) {
        let unit = [("tb", 1e12), ("gb", 1e9)]
            .into_iter()
            .find_map(|(unit, size)| Some(word.strip_suffix(unit)?.parse::<f64>().ok()? * size));
        match unit {
            Some(size) => bytes = Some(size),
            None if DROPPED.contains(&word) => {}
            None => family.push_str(&letters(word)),
        }
    }
    (family, bytes)
}

/// Whether a drive has this family in its id, name or aliases.
fn is_of(part: &Part, family: &str) -> bool {
    let id = part.id.rsplit_once('-').filter(|(_, end)| end.parse::<u64>().is_ok());
    let names = [&*part.id, id.map_or("", |(id, _)| id), &*part.name];
    let all = names.into_iter().chain(part.aliases.iter().map(String::as_str));
    all.into_iter().any(|name| family_and_capacity(name).0 == family)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_number_has_its_part_and_no_two_are_the_same() {
        let catalogue = Catalogue::shipped();
        for number in numbers() {
            let word = number.pieces.join("x9");
            assert!(catalogue.parts.contains_key(&number.id), "{} is no part", number.id);
            assert_eq!(numbered(&word), Some(&*number.id), "{word}");
        }
    }

    #[test]
    fn reported_names_are_drives() {
        let catalogue = Catalogue::shipped();
        for (name, id) in [
            ("Samsung SSD 980 PRO 1TB", "980-pro-1000"),
            ("SAMSUNG MZQL21T9HCJR-00A07", "pm9a3-1920"),
            ("MZ7L3960HCJR-00A07", "pm893-960"),
            ("MZ7L3960HBLT-00A07", "pm897-960"),
            ("MZ-V8P2T0BW", "980-pro-2000"),
            ("INTEL SSDPE2KX010T8", "p4510-1000"),
            ("INTEL SSDSC2BA400G3", "s3700"),
            ("Micron_9300_MTFDHAL3T8TDP", "micron-9300"),
            ("CT1000MX500SSD1", "mx500-1000"),
            ("WDC WDS100T2X0E-00BCA0", "sn850x-1000"),
            ("Intel Optane P5800X 800GB", "p5800x-800"),
            ("WD_BLACK SN850X 2 TB", "sn850x-2000"),
            ("Intel DC P4510 4.0TB", "p4510-4000"),
        ] {
            assert_eq!(catalogue.part(name).map(|part| &*part.id), Ok(id), "{name}");
        }
    }

    #[test]
    fn a_capacity_that_the_catalogue_lacks_is_a_choice() {
        let error = Catalogue::shipped().part("Samsung SSD 980 PRO 250GB").unwrap_err();
        assert_eq!(error.capacities, ["980-pro-1000", "980-pro-2000"]);
    }

    #[test]
    fn other_names_are_no_drives() {
        for name in ["SSD", "1TB", "Samsung 1TB", "nosuch 1TB", "", "mtfd"] {
            assert!(Catalogue::shipped().part(name).is_err(), "{name}");
        }
    }
}
