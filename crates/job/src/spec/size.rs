//! Sizes in a document: a number of bytes, or a text such as `4k`; extents also as `25%`.

use block::{Geometry, parse_size};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// Part of a volume: all of it by default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// Offset of the part.
    #[serde(default, skip_serializing_if = "Extent::is_zero")]
    pub start: Extent,
    /// Length; to the end of the volume by default, and never past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub length: Option<Extent>,
}

impl Range {
    /// The whole volume.
    pub const WHOLE: Range = Range { start: Extent::Bytes(0), length: None };

    /// Returns the first byte and the length on a volume, both rounded down to whole blocks.
    pub fn on(&self, geometry: Geometry) -> (u64, u64) {
        let whole = geometry.bytes();
        let blocks = |bytes: u64| bytes - bytes % u64::from(geometry.block_bytes);
        let start = blocks(self.start.of(whole)).min(whole);
        let length = self.length.map_or(whole, |length| length.of(whole)).min(whole - start);
        (start, blocks(length))
    }

    /// Returns whether the part is all of a volume.
    pub fn is_whole(&self) -> bool {
        *self == Range::WHOLE
    }
}

impl Default for Range {
    fn default() -> Range {
        Range::WHOLE
    }
}

/// An offset on a volume, or a length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    /// Bytes.
    Bytes(u64),
    /// Percent of the volume, 0 to 100. Written as `"25%"`.
    Percent(f64),
}

impl Extent {
    /// Returns the extent in bytes, on a volume of `whole` bytes.
    pub fn of(self, whole: u64) -> u64 {
        match self {
            Extent::Bytes(bytes) => bytes,
            Extent::Percent(percent) => (whole as f64 * (percent / 100.0)) as u64,
        }
    }

    fn is_zero(&self) -> bool {
        *self == Extent::Bytes(0)
    }
}

impl Default for Extent {
    fn default() -> Extent {
        Extent::Bytes(0)
    }
}

impl Serialize for Extent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Extent::Bytes(bytes) => serializer.serialize_u64(*bytes),
            Extent::Percent(percent) => serializer.serialize_str(&format!("{percent}%")),
        }
    }
}

impl<'de> Deserialize<'de> for Extent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Extent, D::Error> {
        deserializer.deserialize_any(ExtentVisitor { percent: true })
    }
}

/// Reads a number of bytes or a size as text.
pub(super) fn bytes<'de, D: Deserializer<'de>, N: TryFrom<u64>>(
    deserializer: D,
) -> Result<N, D::Error> {
    match deserializer.deserialize_any(ExtentVisitor { percent: false })? {
        Extent::Bytes(bytes) => {
            N::try_from(bytes).map_err(|_| Error::custom(format!("{bytes} bytes is too large")))
        }
        Extent::Percent(_) => Err(Error::custom("the size must be in bytes, not in percent")),
    }
}

/// Reads an optional number of bytes or a size as text.
pub(super) fn some_bytes<'de, D: Deserializer<'de>, N: TryFrom<u64>>(
    deserializer: D,
) -> Result<Option<N>, D::Error> {
    bytes(deserializer).map(Some)
}

struct ExtentVisitor {
    percent: bool,
}

impl Visitor<'_> for ExtentVisitor {
    type Value = Extent;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a number of bytes or a size such as \"4k\"")?;
        if self.percent { f.write_str(" or \"25%\"") } else { Ok(()) }
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<Extent, E> {
        Ok(Extent::Bytes(bytes))
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<Extent, E> {
        let bytes = u64::try_from(bytes);
        bytes.map(Extent::Bytes).map_err(|_| E::custom("a size must not be negative"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Extent, E> {
        match text.trim().strip_suffix('%') {
            Some(percent) if self.percent => {
                let percent: f64 = percent.trim().parse().map_err(E::custom)?;
                Ok(Extent::Percent(percent))
            }
            _ => parse_size(text).map(Extent::Bytes).map_err(E::custom),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_range_lies_inside_on_whole_blocks() {
        let on = |text: &str| {
            let range: Range = toml::from_str(text).unwrap();
            range.on(Geometry::new(10 << 20, 4096))
        };
        assert_eq!(on(""), (0, 10 << 20));
        assert_eq!(on("start = '1m'"), (1 << 20, 9 << 20));
        assert_eq!(on("start = '50%'\nlength = 8191"), (5 << 20, 4096));
        assert_eq!(on("start = 5000\nlength = '90%'"), (4096, 9 << 20));
        assert_eq!(on("start = '11m'\nlength = '1m'"), (10 << 20, 0));
        for wrong in ["start = '1x'", "start = -1", "start = '%'", "begin = 0"] {
            assert!(toml::from_str::<Range>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn is_written_as_it_is_read() {
        for text in ["start = 4096\nlength = \"12.5%\"\n", "length = 512\n", ""] {
            let range: Range = toml::from_str(text).unwrap();
            assert_eq!(toml::to_string(&range).unwrap(), text);
        }
    }
}
