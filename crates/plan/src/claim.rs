//! Claims on the performance of a system, from flags or from a file.
//!
//! Parsing is lenient, because published texts are: an amount without its unit is a finding of the
//! audit, not an error. Errors are for values without any possible meaning.

use std::ops::RangeInclusive;

use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::expression::{Equation, ExpressionError};
use catalogue::line::shown;
use catalogue::unit::{Amount, Dimension};
use catalogue::{Catalogue, Part};

/// The text of a claim. Every field is optional.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimText {
    /// Number of the claim in its document.
    pub number: Option<u32>,
    /// Page or section.
    #[serde(deserialize_with = "catalogue::line::read")]
    pub at: String,
    /// Statement of the claim, in our own words.
    #[serde(deserialize_with = "catalogue::line::read")]
    pub says: String,
    /// Role of the claim in the document: input, output, arithmetic or context.
    pub is: String,
    /// I/Os per second: `1M`, `over 2.2M`.
    #[serde(deserialize_with = "text")]
    pub iops: Option<String>,
    /// I/O size, binary: `4k`.
    #[serde(deserialize_with = "text")]
    pub size: Option<String>,
    /// Percentage of reads.
    #[serde(deserialize_with = "text")]
    pub read: Option<String>,
    /// Mean response time: `0.88 ms`.
    #[serde(deserialize_with = "text")]
    pub latency: Option<String>,
    /// I/Os in flight.
    #[serde(deserialize_with = "text")]
    pub outstanding: Option<String>,
    /// Payload per second: `4 GB/s`.
    #[serde(deserialize_with = "text")]
    pub bandwidth: Option<String>,
    /// A link of the catalogue, with its lanes, if any: `10gbe`, `pcie-2 x8`.
    #[serde(deserialize_with = "text")]
    pub link: Option<String>,
    /// Claimed bandwidth of the link.
    #[serde(deserialize_with = "text")]
    pub link_rate: Option<String>,
    /// Protocol, as in bills; by default the least overhead of any block protocol.
    #[serde(deserialize_with = "text")]
    pub protocol: Option<String>,
    /// MTU.
    #[serde(deserialize_with = "text")]
    pub mtu: Option<String>,
    /// Number of parallel links.
    #[serde(deserialize_with = "text")]
    pub ports: Option<String>,
    /// Number of drives.
    #[serde(deserialize_with = "text")]
    pub drives: Option<String>,
    /// A drive of the catalogue.
    #[serde(deserialize_with = "text")]
    pub drive: Option<String>,
    /// Number of adapters.
    #[serde(deserialize_with = "text")]
    pub adapters: Option<String>,
    /// An adapter of the catalogue.
    #[serde(deserialize_with = "text")]
    pub adapter: Option<String>,
    /// Claimed rating of one device, in IOPS.
    #[serde(deserialize_with = "text")]
    pub rating: Option<String>,
    /// CPU usage, of all cores.
    #[serde(deserialize_with = "text")]
    pub cpu_percent: Option<String>,
    /// Cores of the host.
    #[serde(deserialize_with = "text")]
    pub cores: Option<String>,
    /// Capacity.
    #[serde(deserialize_with = "text")]
    pub capacity: Option<String>,
    /// Price of all drives.
    #[serde(deserialize_with = "text")]
    pub price: Option<String>,
    /// The claim's own arithmetic: `6 * 423.72 MB/s over 3 GB/s`.
    pub equations: Vec<String>,
    /// Figures repeated in other claims, which must agree.
    pub same: Vec<Same>,
    /// Bandwidth of this claim, IOPS × size, as a share of the best of a series.
    pub share: Option<ShareText>,
    /// Date of the claim, `2009-01-05`.
    pub as_of: Option<String>,
    /// Date of the test.
    pub tested: Option<String>,
}

/// A named figure that other claims may repeat.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Same {
    /// Name of the figure.
    #[serde(deserialize_with = "catalogue::line::read")]
    pub key: String,
    /// Value in this claim.
    pub value: String,
}

/// A share of the best of a series.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShareText {
    /// Name of the series.
    #[serde(deserialize_with = "catalogue::line::read")]
    pub of: String,
    /// Share, such as `90 %`.
    pub share: String,
}

/// Reads a string, or a number without quotes.
fn text<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Text(String),
        Whole(i64),
        Number(f64),
    }
    Ok(Some(match Given::deserialize(from)? {
        Given::Text(text) => shown(&text),
        Given::Whole(number) => number.to_string(),
        Given::Number(number) => number.to_string(),
    }))
}

/// A parsed claim.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Text of the claim.
    pub text: ClaimText,
    /// Amounts by field, with the dimension of that field.
    pub amounts: Vec<(&'static str, Dimension, Amount)>,
    /// I/O size in bytes.
    pub size_bytes: Option<f64>,
    /// Drive of the claim.
    pub drive: Option<&'a Part>,
    /// Adapter of the claim.
    pub adapter: Option<&'a Part>,
    /// Link, with its number of lanes.
    pub link: Option<(&'a Part, u32)>,
    /// Arithmetic of the claim.
    pub equations: Vec<(String, Equation)>,
    /// Figures repeated in other claims.
    pub same: Vec<(String, Amount)>,
    /// Name of the series, and the share.
    pub share: Option<(String, Amount)>,
}

/// Reason why a claim cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// Invalid field.
    #[error("{field}: {reason}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Error and remedy.
        reason: String,
    },
    /// Invalid file.
    #[error("{file}:{line}: {reason}")]
    File {
        /// File name as the caller gave it.
        file: String,
        /// Number of the line, from 1.
        line: usize,
        /// Error.
        reason: String,
    },
}

impl<'a> Claim<'a> {
    /// Parses a claim, with parts from `catalogue`.
    ///
    /// # Errors
    ///
    /// [`ClaimError`] for invalid amounts and sizes, and unknown parts.
    pub fn read(text: ClaimText, catalogue: &'a Catalogue) -> Result<Claim<'a>, ClaimError> {
        let part = |field, name: &Option<String>| match name {
            None => Ok(None),
            Some(name) => catalogue.part(name).map(Some).map_err(|e| wrong(field, e)),
        };
        let link = match &text.link {
            None => None,
            Some(name) => Some(link(name, catalogue)?),
        };
        let size = text.size.as_deref().map(block::parse_size).transpose();
        let size = size.map_err(|error| wrong("size", error))?;
        let equations = text
            .equations
            .iter()
            .map(|line| Ok((shown(line), Equation::parse(line).map_err(not_arithmetic)?)));
        let same = text.same.iter().map(|same| {
            let amount = Amount::parse(&same.value).map_err(|error| wrong("same", error))?;
            Ok((same.key.clone(), amount))
        });
        let share = match &text.share {
            None => None,
            Some(ShareText { of, share }) => {
                let amount = Amount::parse(share).map_err(|error| wrong("share", error))?;
                Some((of.clone(), amount))
            }
        };
        if size == Some(0) {
            return Err(wrong("size", "an I/O has at least 1 byte"));
        }
        for (field, date) in [("as_of", &text.as_of), ("tested", &text.tested)] {
            if date.as_deref().is_some_and(|date| day(date).is_none()) {
                return Err(wrong(field, "not a date: write it as 2009-01-05"));
            }
        }
        Ok(Claim {
            amounts: amounts(&text)?,
            size_bytes: size.map(|bytes| bytes as f64),
            drive: part("drive", &text.drive)?,
            adapter: part("adapter", &text.adapter)?,
            link,
            equations: equations.collect::<Result<_, ClaimError>>()?,
            same: same.collect::<Result<_, ClaimError>>()?,
            share,
            text,
        })
    }

    /// Returns the amount in a field, if its unit fits the field.
    pub fn amount(&self, field: &str) -> Option<&Amount> {
        let found = self.amounts.iter().find(|(name, ..)| *name == field);
        found.filter(|(_, wanted, amount)| suits(*wanted, amount)).map(|(.., amount)| amount)
    }

    /// Returns the value of a field in base units; bits as bytes.
    pub fn value(&self, field: &str) -> Option<f64> {
        self.amount(field).map(bytes_of)
    }

    /// Returns the number in a field, if given.
    pub fn count(&self, field: &str) -> Option<f64> {
        self.value(field)
    }

    /// Returns the share of reads, 0 to 1; 1 by default.
    pub fn read_share(&self) -> f64 {
        self.value("read").map_or(1.0, |read| if read > 1.0 { read / 100.0 } else { read })
    }
}

/// Returns the value of an amount, in bytes if it is in bits.
pub(crate) fn bytes_of(amount: &Amount) -> f64 {
    let bits = amount.dimension == Dimension::BIT_RATE;
    if bits { amount.value / 8.0 } else { amount.value }
}

/// Returns whether the unit of an amount fits its field. IOPS and percentages need none, and
/// bandwidths may be in bits.
pub(crate) fn suits(wanted: Dimension, amount: &Amount) -> bool {
    let bare = [Dimension::RATE, Dimension::NUMBER].contains(&wanted);
    amount.dimension == wanted
        || (bare && amount.dimension == Dimension::NUMBER)
        || (wanted == Dimension::BYTE_RATE && amount.dimension == Dimension::BIT_RATE)
}

fn not_arithmetic(error: ExpressionError) -> ClaimError {
    wrong("equations", error)
}

fn wrong(field: &'static str, reason: impl std::fmt::Display) -> ClaimError {
    ClaimError::Field { field, reason: reason.to_string() }
}

/// Range of the MTU of IPv4: the datagram that every host accepts, and the longest.
const MTU_BYTES: RangeInclusive<f64> = 576.0..=65535.0;

fn amounts(text: &ClaimText) -> Result<Vec<(&'static str, Dimension, Amount)>, ClaimError> {
    let fields = [
        ("iops", Dimension::RATE, &text.iops),
        ("read", Dimension::NUMBER, &text.read),
        ("latency", Dimension::TIME, &text.latency),
        ("outstanding", Dimension::NUMBER, &text.outstanding),
        ("bandwidth", Dimension::BYTE_RATE, &text.bandwidth),
        ("link_rate", Dimension::BYTE_RATE, &text.link_rate),
        ("mtu", Dimension::NUMBER, &text.mtu),
        ("ports", Dimension::NUMBER, &text.ports),
        ("drives", Dimension::NUMBER, &text.drives),
        ("adapters", Dimension::NUMBER, &text.adapters),
        ("rating", Dimension::RATE, &text.rating),
        ("cpu_percent", Dimension::NUMBER, &text.cpu_percent),
        ("cores", Dimension::NUMBER, &text.cores),
        ("capacity", Dimension::BYTES, &text.capacity),
        ("price", Dimension::MONEY, &text.price),
    ];
    let mut amounts = Vec::new();
    for (field, dimension, given) in fields {
        let Some(given) = given else { continue };
        let amount = Amount::parse(given).map_err(|error| wrong(field, error))?;
        if amount.value == 0.0 && field != "read" && field != "cpu_percent" {
            return Err(wrong(field, "0 claims nothing: leave the field out"));
        }
        if field == "mtu" && !MTU_BYTES.contains(&amount.value) {
            return Err(wrong(field, "576 to 65535 bytes"));
        }
        amounts.push((field, dimension, amount));
    }
    Ok(amounts)
}

fn link<'a>(name: &str, catalogue: &'a Catalogue) -> Result<(&'a Part, u32), ClaimError> {
    // Forms such as 'pcie-2 x8', 'pcie-5x16' or 'PCIe 3.0 x4'.
    let split = name.rsplit_once('x').filter(|(id, lanes)| {
        let digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
        id.ends_with([' ', '0', '1', '2', '3', '4', '5', '6']) && digits(lanes.trim())
    });
    let (id, lanes) = match split {
        Some((id, lanes)) => {
            (id.trim_end(), lanes.trim().parse().ok().filter(|n| (1..=64).contains(n)))
        }
        None => (name, Some(1)),
    };
    let lanes =
        lanes.ok_or_else(|| wrong("link", "1 to 64 lanes: write them as in 'pcie-2 x8'"))?;
    let part = catalogue.part(id).map_err(|error| wrong("link", error))?;
    Ok((part, lanes))
}

/// Returns the days since an arbitrary epoch; `None` if the text is no date.
pub(crate) fn day(date: &str) -> Option<i64> {
    let mut fields = date.split('-').map(|field| field.parse::<i64>().ok());
    let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
    let real =
        (1900..=2200).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    // Years from March on, so that the leap day is last; months of 30.6 days on average.
    let (y, m) = if month <= 2 { (year - 1, month + 12) } else { (year, month) };
    let days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m - 457) / 5 + day;
    (real && fields.next().is_none()).then_some(days)
}

/// Claims of one document.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// Title of the document.
    pub title: String,
    /// Claims in the order of the file.
    pub claims: Vec<Claim<'a>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDocument {
    #[serde(default, deserialize_with = "catalogue::line::read")]
    title: String,
    claim: Vec<Spanned<ClaimText>>,
}

/// Maximum number of claims of a file.
const CLAIMS_MAX: usize = 10_000;

impl<'a> Document<'a> {
    /// Parses a file of claims, called `file` in messages.
    ///
    /// # Errors
    ///
    /// [`ClaimError::File`] with line and reason.
    pub fn read(
        file: &str,
        text: &str,
        catalogue: &'a Catalogue,
    ) -> Result<Document<'a>, ClaimError> {
        let refuse = |line, reason| ClaimError::File { file: file.to_owned(), line, reason };
        let raw: RawDocument = toml::from_str(text).map_err(|error| {
            let (line, reason) = catalogue::read::syntax(text, &error);
            refuse(line, reason)
        })?;
        if raw.claim.len() > CLAIMS_MAX {
            return Err(refuse(1, format!("more than {CLAIMS_MAX} claims: split the file")));
        }
        let claims = raw.claim.into_iter().map(|claim| {
            let line = catalogue::read::line_of(text, claim.span().start);
            let read = Claim::read(claim.into_inner(), catalogue);
            read.map_err(|error| refuse(line, error.to_string()))
        });
        let title = if raw.title.is_empty() { file.to_owned() } else { raw.title };
        Ok(Document { title, claims: claims.collect::<Result<_, _>>()? })
    }
}

/// Founding documents, by short name.
pub const FOUNDING: &[(&str, &str)] = &[
    ("intel-ssd", include_str!("../claims/intel-ssd.toml")),
    ("marvell-pcie", include_str!("../claims/marvell-pcie.toml")),
    ("intel-iscsi", include_str!("../claims/intel-iscsi.toml")),
    ("thirdio-fc", include_str!("../claims/thirdio-fc.toml")),
    ("fusion-sql", include_str!("../claims/fusion-sql.toml")),
];

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_claims_and_names_what_nobody_meant() {
        let catalogue = Catalogue::shipped();
        let read = |text: &str| Document::read("c.toml", text, &catalogue);
        let text = "title = 't'\n[[claim]]\niops = '1M'\ndrives = 28\ndrive = 'x25-m'\n";
        let document = read(text).unwrap();
        assert_eq!(document.claims[0].count("drives"), Some(28.0));
        assert_eq!(document.claims[0].value("iops"), Some(1e6));
        for (wrong, reason) in [
            ("drive = 'nosuch'", "c.toml:2: drive: no part"),
            ("iops = 'many'", "c.toml:2: iops: 'many' is no amount"),
            ("size = 0", "c.toml:2: size"),
            ("colour = 1", "c.toml:3: unknown field"),
            ("tested = '2010-13-01'", "tested: not a date"),
            ("equations = ['1 + 1']", "no comparison"),
            ("link = 'pcie-2 x99'", "lanes"),
        ] {
            let text = format!("title = 't'\n[[claim]]\n{wrong}\n");
            let error = read(&text).unwrap_err().to_string();
            assert!(error.contains(reason), "'{error}' lacks '{reason}'");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let catalogue = Catalogue::shipped();
            let _ = Document::read("c.toml", &text, &catalogue);
            let _ = Document::read("c.toml", &format!("[[claim]]\n{text}"), &catalogue);
        }
    }

    #[test]
    fn counts_days() {
        assert_eq!(day("2010-01-06").unwrap() - day("2009-01-05").unwrap(), 366);
        assert_eq!(day("2012-03-01").unwrap() - day("2012-02-28").unwrap(), 2);
        assert_eq!(day("today"), None);
        assert_eq!(day("2010-1-6-1"), None);
    }
}
