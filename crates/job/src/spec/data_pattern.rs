//! A data pattern: repeated bytes, with offsets of blocks among them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum length of a pattern in bytes.
pub const PATTERN_MAX_BYTES: usize = 512;
/// Length of the offset of a block, in bytes.
const PLACE_BYTES: usize = 8;

/// Bytes that are written repeatedly, from the beginning of each I/O on.
///
/// The text is that of fio: numbers (`0xdeadbeef` as is, `-12` and other decimals of 32 bits in
/// little-endian order without leading zeroes), words (`"abcd"`), and `%o` for the offset of the
/// I/O on the volume, 8 bytes in little-endian order; concatenated. The pattern has 1 to 512 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPattern {
    bytes: Arc<[u8]>,
    /// Positions of the offsets of blocks in the bytes.
    places: Arc<[usize]>,
}

impl DataPattern {
    /// Parses a text; `file` returns the beginning of a file named in single quotes, as `'name'`.
    ///
    /// # Errors
    ///
    /// The part that cannot be parsed, with the remedy.
    pub fn parse(
        text: &str,
        file: &dyn Fn(&str) -> Result<Vec<u8>, String>,
    ) -> Result<DataPattern, String> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        let mut rest = text.trim();
        while let Some(first) = rest.chars().next() {
            let (part, behind) = match first {
                '"' => quoted(rest, '"').map(|(word, rest)| (word.as_bytes().to_vec(), rest))?,
                '\'' => {
                    let (name, rest) = quoted(rest, '\'')?;
                    (file(name)?, rest)
                }
                '%' => {
                    let rest = rest.strip_prefix("%o");
                    places.push(bytes.len());
                    (vec![0; PLACE_BYTES], rest.ok_or("only %o may follow a %")?)
                }
                _ => number(rest)?,
            };
            bytes.extend(part);
            rest = behind;
            if bytes.len() > PATTERN_MAX_BYTES {
                return Err(format!("the pattern exceeds {PATTERN_MAX_BYTES} bytes"));
            }
        }
        if bytes.is_empty() {
            return Err("the pattern is empty".to_owned());
        }
        Ok(DataPattern { bytes: bytes.into(), places: places.into() })
    }

    /// Returns the length: 1 to 512 bytes.
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Returns whether offsets of blocks are part of the pattern.
    pub fn has_places(&self) -> bool {
        !self.places.is_empty()
    }

    /// Returns whether all blocks of this size have the same bytes, at any offset in an I/O.
    pub fn repeats_in(&self, block_bytes: u64) -> bool {
        !self.has_places() && block_bytes.is_multiple_of(self.len_bytes())
    }

    /// Fills the data of an I/O that begins at byte `place` of the volume.
    pub fn fill(&self, data: &mut [u8], place: u64) {
        let first = self.bytes.len().min(data.len());
        self.first(&mut data[..first], place);
        let mut done = first;
        while done < data.len() {
            let more = done.min(data.len() - done);
            data.copy_within(..more, done);
            done += more;
        }
    }

    /// Returns the first byte that differs from the pattern, in data that begin `from` bytes after
    /// the beginning of the I/O to `place`: its index in the data, and the expected value.
    pub fn difference(&self, data: &[u8], place: u64, from: u64) -> Option<(usize, u8)> {
        let mut once = [0; PATTERN_MAX_BYTES];
        let once = &mut once[..self.bytes.len()];
        self.first(once, place);
        once.rotate_left((from % once.len() as u64) as usize);
        let head = once.len().min(data.len());
        // The rest follows from the beginning if each byte equals the one a pattern length before
        // it.
        if data[..head] == once[..head] && data[head..] == data[..data.len() - head] {
            return None;
        }
        let wrong = |(at, found): (usize, &u8)| {
            let right = once[at % once.len()];
            (*found != right).then_some((at, right))
        };
        data.iter().enumerate().find_map(wrong)
    }

    /// Fills in the pattern once, or as much of it as fits.
    fn first(&self, data: &mut [u8], place: u64) {
        data.copy_from_slice(&self.bytes[..data.len()]);
        for at in self.places.iter() {
            let end = (at + PLACE_BYTES).min(data.len());
            if *at < end {
                data[*at..end].copy_from_slice(&place.to_le_bytes()[..end - at]);
            }
        }
    }
}

/// Returns the text between two quotation marks, and the rest.
fn quoted(text: &str, mark: char) -> Result<(&str, &str), String> {
    let inside = text.strip_prefix(mark).and_then(|rest| rest.split_once(mark));
    inside.ok_or_else(|| format!("the closing {mark} is missing"))
}

/// Reads a number and returns the rest. As in fio, `0x` ends a decimal number, and also a
/// hexadecimal one, whose last digit is then the 0 of that prefix.
fn number(text: &str) -> Result<(Vec<u8>, &str), String> {
    let prefixed = |text: &str| text.starts_with("0x") || text.starts_with("0X");
    if prefixed(text) {
        let digits = &text[2..];
        let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
        // In 0xff0x14 the second 0 belongs to the next number.
        let end = if end > 0 && prefixed(&digits[end - 1..]) { end - 1 } else { end };
        let (digits, rest) = digits.split_at(end);
        if digits.is_empty() {
            return Err("0x needs digits".to_owned());
        }
        // An odd digit is separate, at the beginning.
        let (odd, pairs) = digits.split_at(digits.len() % 2);
        let odd = (!odd.is_empty()).then_some(odd);
        let pairs = pairs.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap_or_default());
        let bytes = odd.into_iter().chain(pairs);
        return Ok((bytes.filter_map(|pair| u8::from_str_radix(pair, 16).ok()).collect(), rest));
    }
    let sign = usize::from(text.starts_with(['-', '+']));
    let digits = &text[sign..];
    let mut end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    if end > 0 && prefixed(&digits[end - 1..]) {
        end -= 1;
    }
    let (digits, rest) = text.split_at(sign + end);
    let value: i32 = digits.parse().map_err(|_| wrong(text))?;
    let bytes = value.to_le_bytes();
    let length = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    Ok((bytes[..length].to_vec(), rest))
}

fn wrong(text: &str) -> String {
    let shown: String = text.chars().take(20).collect();
    format!("'{shown}' is not part of a pattern: write 0xdeadbeef, 12, \"abcd\" or %o")
}

/// Formats the pattern as hexadecimal numbers and `%o`.
impl fmt::Display for DataPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut at = 0;
        for place in self.places.iter().copied().chain([self.bytes.len()]) {
            if at < place {
                f.write_str("0x")?;
                self.bytes[at..place].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
            }
            if place < self.bytes.len() {
                f.write_str("%o")?;
            }
            at = place + PLACE_BYTES;
        }
        Ok(())
    }
}

impl Serialize for DataPattern {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for DataPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DataPattern, D::Error> {
        let text = String::deserialize(deserializer)?;
        let no_file = |_: &str| Err("a pattern cannot name a file here: write 0x…".to_owned());
        let why = |why| serde::de::Error::custom(format!("the pattern {text}: {why}"));
        DataPattern::parse(&text, &no_file).map_err(why)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn parse(text: &str) -> Result<DataPattern, String> {
        DataPattern::parse(text, &|name| match name {
            "a file" => Ok(b"from a file".to_vec()),
            "long" => Ok(vec![7; PATTERN_MAX_BYTES + 1]),
            _ => Err(format!("cannot read {name}")),
        })
    }

    fn bytes(text: &str) -> Vec<u8> {
        let mut bytes = vec![0; parse(text).unwrap().bytes.len()];
        parse(text).unwrap().fill(&mut bytes, 0x1122_3344_5566_7788);
        bytes
    }

    /// Bytes that fio 3.33 writes for the same text.
    #[test]
    fn reads_what_fio_reads() {
        for (text, expected) in [
            ("\"abcd\"", &b"abcd"[..]),
            ("0xdeadbee", &[0x0d, 0xea, 0xdb, 0xee]),
            ("0xFFeeCC", &[0xff, 0xee, 0xcc]),
            ("-12", &[0xf4, 0xff, 0xff, 0xff]),
            ("66", &[0x42]),
            ("0", &[0]),
            ("256", &[0, 1]),
            ("65536", &[0, 0, 1]),
            ("\"ab\"12\"c\"", &[b'a', b'b', 12, b'c']),
            ("0xabc0x1", &[0x0a, 0xbc, 1]),
            ("0xff0x14", &[0xff, 0x14]),
            ("-100xab\"1\"", &[0xf6, 0xff, 0xff, 0xff, 0xab, b'1']),
            ("\"%o\"", b"%o"),
            ("%o", &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]),
            ("1%o2", &[1, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 2]),
            ("'a file'0x00", b"from a file\0"),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
        for (wrong, part) in [
            ("", "is empty"),
            ("\"\"", "is empty"),
            ("abcd", "'abcd' is not part"),
            ("0x", "digits"),
            ("0xé", "digits"),
            ("\"ab", "closing \""),
            ("%p", "only %o"),
            ("3000000000", "not part"),
            ("-", "not part"),
            ("12é", "'é' is not part"),
            ("'none'", "cannot read none"),
            ("'long'", "exceeds 512 bytes"),
        ] {
            let said = parse(wrong).unwrap_err();
            assert!(said.contains(part), "{wrong}: {said}");
        }
    }

    #[test]
    fn a_different_byte_is_found_wherever_it_is() {
        for text in ["0x01", "\"abc\"", "%o", "0xff%o\"abcd\"-12"] {
            let pattern = parse(text).unwrap();
            for length in [1, 2, 7, 512, 4096] {
                let mut data = vec![0xee; length];
                pattern.fill(&mut data, 8192);
                assert_eq!(pattern.difference(&data, 8192, 0), None, "{text}");
                for at in (0..length).step_by(3).chain([length - 1]) {
                    let mut other = data.clone();
                    other[at] ^= 4;
                    let found = pattern.difference(&other, 8192, 0);
                    assert_eq!(found, Some((at, data[at])), "{text}");
                    let behind = pattern.difference(&other[at..], 8192, at as u64);
                    assert_eq!(behind, Some((0, data[at])), "{text}");
                }
            }
        }
        let mut moved = vec![0; 4096];
        parse("%o").unwrap().fill(&mut moved, 4096);
        assert_eq!(parse("%o").unwrap().difference(&moved, 8192, 0), Some((1, 0x20)));
    }

    proptest! {
        #[test]
        fn is_kept_as_it_is(text in "[-0-9xXaf%o\"']{0,24}", length in 1_usize..700, at: u64) {
            if let Ok(pattern) = parse(&text) {
                let again = parse(&pattern.to_string());
                prop_assert_eq!(again.as_ref(), Ok(&pattern));
                let mut data = vec![0; length];
                pattern.fill(&mut data, at);
                prop_assert_eq!(pattern.difference(&data, at, 0), None);
            }
        }

        #[test]
        fn any_bytes_have_a_text(bytes in proptest::collection::vec(any::<u8>(), 1..512)) {
            let pattern = DataPattern::parse("'x'", &|_| Ok(bytes.clone())).unwrap();
            prop_assert_eq!(&*parse(&pattern.to_string()).unwrap().bytes, &bytes[..]);
        }
    }
}
