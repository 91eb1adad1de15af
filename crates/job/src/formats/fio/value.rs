//! Values of settings: sizes, times, ranges, triples of directions.

use block::hint;

use super::expression;

/// One value for reads, writes and trims.
pub type Triple<T> = [T; 3];

/// A size, or a percentage of the volume.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// Bytes.
    Bytes(u64),
    /// Percent of the volume, 0 to 100.
    Percent(u32),
}

impl Default for Amount {
    fn default() -> Amount {
        Amount::Bytes(0)
    }
}

/// Meaning of `k`: 1024 by fio's default, 1000 with `kb_base=1000`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KbBase(pub u64);

impl Default for KbBase {
    fn default() -> KbBase {
        KbBase(1024)
    }
}

impl KbBase {
    /// Reads a size in bytes: `4096`, `4k`, `0x1000`, `1mib`, `(4k*16)`.
    ///
    /// With 1024, `k` is 1024 and `kib` is 1000; with 1000 they are swapped. `ki` is read as `k`.
    /// This is fio's behaviour, and old files rely on it.
    pub fn size(self, text: &str) -> Result<u64, String> {
        let text = text.trim();
        if text.starts_with('(') {
            return expression::evaluate(text, &|number| self.plain(number).ok());
        }
        self.plain(text)
    }

    fn plain(self, text: &str) -> Result<u64, String> {
        let wrong = || format!("'{text}' is not a size: write 4096, 4k or 64m");
        let lower = text.to_ascii_lowercase();
        let (number, suffix) = digits(&lower).ok_or_else(wrong)?;
        if suffix.starts_with([' ', '\t']) {
            let why = "write the suffix without a space: fio would ignore it";
            return Err(format!("'{text}': {why}"));
        }
        let (power, other) = match suffix {
            "" | "b" => (0, false),
            "k" | "kb" | "ki" => (1, false),
            "m" | "mb" | "mi" => (2, false),
            "g" | "gb" | "gi" => (3, false),
            "t" | "tb" | "ti" => (4, false),
            "p" | "pb" | "pi" => (5, false),
            "kib" => (1, true),
            "mib" => (2, true),
            "gib" => (3, true),
            "tib" => (4, true),
            "pib" => (5, true),
            "z" => return Err(format!("{text}: sizes in zones are not supported")),
            _ => return Err(wrong()),
        };
        let base = if other { 2024 - self.0 } else { self.0 };
        number.checked_mul(base.pow(power)).ok_or_else(|| format!("'{text}' exceeds 64 bits"))
    }

    /// Reads a size or a percentage: `50%`.
    pub fn amount(self, text: &str) -> Result<Amount, String> {
        // A shell's or a format's percent sign is doubled: fio reads one and no more.
        let percent = text.trim().trim_end_matches('%');
        if percent.len() == text.trim().len() {
            return self.size(text).map(Amount::Bytes);
        }
        let percent = percent.trim().parse().ok().filter(|percent| *percent <= 100);
        percent
            .map(Amount::Percent)
            .ok_or_else(|| format!("'{text}' is out of range: 0 to 100 percent"))
    }

    /// Reads `MIN-MAX` or `MIN:MAX`, in either order.
    pub fn range(self, text: &str) -> Result<(u64, u64), String> {
        let ends = text.split_once('-').or_else(|| text.split_once(':'));
        let (a, b) = ends.ok_or_else(|| format!("'{text}' is not a range: write 1k-4k"))?;
        let (a, b) = (self.size(a)?, self.size(b)?);
        Ok((a.min(b), a.max(b)))
    }
}

/// Splits leading digits, also hexadecimal ones, from what follows.
fn digits(text: &str) -> Option<(u64, &str)> {
    if let Some(hex) = text.strip_prefix("0x") {
        let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
        return Some((u64::from_str_radix(&hex[..end], 16).ok()?, &hex[end..]));
    }
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

/// Reads a whole number; suffixes are allowed as in sizes, since fio allows them.
pub fn number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let value = KbBase::default().size(text).map_err(|_| format!("'{text}' is not a number"))?;
    T::try_from(value).map_err(|_| format!("{value} is too large"))
}

/// Reads a percentage, in whole percent as in fio.
pub fn percent(text: &str) -> Result<f64, String> {
    match number::<u32>(text)? {
        value @ 0..=100 => Ok(f64::from(value)),
        value => Err(format!("{value} is out of range: 0 to 100 percent")),
    }
}

/// Reads a non-negative number with a fraction.
pub fn fraction(text: &str) -> Result<f64, String> {
    let value: Option<f64> = text.trim().parse().ok();
    value.filter(|value| value.is_finite() && *value >= 0.0).ok_or_else(|| wrong_number(text))
}

fn wrong_number(text: &str) -> String {
    format!("'{text}' is not a number of 0 or more")
}

/// Unit of a time without a suffix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Seconds: run times.
    Seconds,
    /// Microseconds: think times and latencies.
    Micros,
}

/// Reads a time in microseconds: `30`, `30s`, `5m`, `100ms`, `10us`.
pub fn micros(text: &str, unit: Unit) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a time: write 30, 30s, 5m, 1h or 100ms");
    let lower = text.trim().to_ascii_lowercase();
    let (number, suffix) = digits(&lower).ok_or_else(wrong)?;
    let factor: u64 = match (suffix, unit) {
        ("us" | "usec", _) | ("", Unit::Micros) => 1,
        ("ms" | "msec", _) => 1000,
        ("s", _) | ("", Unit::Seconds) => 1_000_000,
        ("m", _) => 60_000_000,
        ("h", _) => 3_600_000_000,
        ("d", _) => 86_400_000_000,
        // fio reads these as microseconds, or ignores them after a blank.
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Returns the meaning of one of some words.
pub fn one_of<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meant)| *meant).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!(
            "unknown value '{text}': one of {}{}",
            words.join(", "),
            hint(text, words.iter().copied())
        )
    })
}

/// Reads a boolean: `1` and `0`.
pub fn switch(value: Option<&str>) -> Result<bool, String> {
    match value {
        Some("1") => Ok(true),
        Some("0") => Ok(false),
        None | Some("") => Err("a value is missing: write 1 or 0".to_owned()),
        Some(text) => Err(format!("unknown value '{text}': write 1 or 0")),
    }
}

/// Reads a boolean whose value is optional: fio reads the bare name of some options as 1, and
/// accepts any non-zero number, too.
pub fn flag(value: Option<&str>) -> Result<bool, String> {
    match value {
        None => Ok(true),
        Some(text) => number::<u64>(text).map(|number| number != 0).or_else(|_| switch(value)),
    }
}

/// Returns the number that fio reads of an unparenthesised expression: it stops at the first
/// operator. `None` if fio reads all of it.
pub fn cut(text: &str) -> Option<&str> {
    let (number, rest) = text.split_once('*')?;
    let is_number = |text: &str| KbBase::default().size(text).is_ok();
    (is_number(number) && rest.split('*').all(is_number)).then_some(number)
}

/// Returns the number that fio reads of several where one is expected, with the reason: the last
/// one of a range or a list of file sizes, the first of I/O sizes separated by slashes. `None` if
/// there is one number.
pub fn one_of_several<'a>(name: &str, text: &'a str) -> Option<(&'a str, &'static str)> {
    let (signs, last): (&[char], bool) = match name {
        "size" | "io_size" | "offset" | "offset_increment" => (&['-', ':', ','], true),
        "bs" => (&['/'], false),
        _ => return None,
    };
    let parts = text.split(signs).map(str::trim).filter(|part| !part.is_empty());
    let parts: Vec<&str> = parts.collect();
    let is_amount = |part: &&str| KbBase::default().amount(part).is_ok();
    if !text.contains(signs) || !parts.iter().all(is_amount) {
        return None;
    }
    match last {
        true => parts.last().map(|part| (*part, "as in fio, the last value counts")),
        false => parts.first().map(|part| (*part, "as in fio, the first value counts")),
    }
}

/// Returns the digits before the point of a number with a fraction and no unit.
pub fn before_point(text: &str) -> Option<&str> {
    let (whole, fraction) = text.split_once('.')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (digits(whole) && digits(fraction)).then_some(whole)
}

/// Sets the values of a comma-separated list: for reads, writes and trims. The last value also
/// applies to the directions after it, an empty one leaves the previous value.
pub fn set_each<T: Clone>(
    text: &str,
    values: &mut Triple<T>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<(), String> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > values.len() {
        return Err("more than three values: one each for reads, writes and trims".to_owned());
    }
    if parts.iter().all(|part| part.is_empty()) {
        return Err("a value is missing".to_owned());
    }
    for (index, value) in values.iter_mut().enumerate() {
        let part = parts.get(index).or(parts.last()).copied().unwrap_or_default();
        if !part.is_empty() {
            *value = read(part)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sizes_have_two_worlds() {
        let (ours, theirs) = (KbBase(1024), KbBase(1000));
        for (text, in_1024, in_1000) in [
            ("4k", 4096, 4000),
            ("4KiB", 4000, 4096),
            ("1m", 1 << 20, 1_000_000),
            ("2GiB", 2_000_000_000, 2 << 30),
            ("4ki", 4096, 4000),
            ("0x10", 16, 16),
            ("512b", 512, 512),
            ("(2k*3)", 6144, 6000),
        ] {
            assert_eq!((ours.size(text), theirs.size(text)), (Ok(in_1024), Ok(in_1000)), "{text}");
        }
        for text in ["", "k", "4q", "4 k", "1.5k", "-1", "0x", "99999999999999999999", "9999999p"] {
            assert!(ours.size(text).is_err(), "{text}");
        }
        assert_eq!(ours.amount("25%"), Ok(Amount::Percent(25)));
        assert_eq!(ours.amount("100%%"), Ok(Amount::Percent(100)));
        assert!(ours.amount("101%").is_err());
        assert_eq!(ours.range("64k-4k"), Ok((4096, 65536)));
    }

    #[test]
    fn times_have_two_units() {
        let seconds = |text| micros(text, Unit::Seconds);
        assert_eq!(seconds("30"), Ok(30_000_000));
        assert_eq!(seconds("5m"), Ok(300_000_000));
        assert_eq!(seconds("100ms"), Ok(100_000));
        assert_eq!(micros("50", Unit::Micros), Ok(50));
        for wrong in ["5 fortnights", "5sec", "5min", "5 m", ""] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_bare_name_is_a_truth_only_for_some() {
        assert_eq!((flag(None), flag(Some("0"))), (Ok(true), Ok(false)));
        assert_eq!((switch(Some("1")), switch(Some("0"))), (Ok(true), Ok(false)));
        for missing in [switch(None), switch(Some("")), flag(Some(""))] {
            assert!(missing.unwrap_err().contains("a value is missing"));
        }
        assert!(switch(Some("yes")).is_err() && flag(Some("yes")).is_err());
        assert_eq!((flag(Some("30")), switch(Some("2")).is_err()), (Ok(true), true));
    }

    #[test]
    fn one_number_counts_where_one_is_wanted() {
        let of = |name, text| one_of_several(name, text).map(|(part, _)| part);
        assert_eq!(of("size", "4k-2M"), Some("2M"));
        assert_eq!(of("size", "5k-3M-2k"), Some("2k"));
        assert_eq!(of("size", "3k-"), Some("3k"));
        assert_eq!(of("io_size", "1m:50%"), Some("50%"));
        assert_eq!(of("bs", "512k/1M/4M"), Some("512k"));
        for (name, text) in [
            ("size", "2M"),
            ("size", "-"),
            ("size", "4k-x"),
            ("bs", "4k-2M"),
            ("bs", "4k,2M"),
            ("bssplit", "4k/50"),
        ] {
            assert_eq!(of(name, text), None, "{name}={text}");
        }
    }

    #[test]
    fn lists_reach_to_the_right() {
        let set = |text| {
            let mut values = [4096_u64; 3];
            set_each(text, &mut values, |part| KbBase(1024).size(part)).map(|()| values)
        };
        assert_eq!(set("8k"), Ok([8192; 3]));
        assert_eq!(set("8k,32k"), Ok([8192, 32768, 32768]));
        assert_eq!(set(",8k"), Ok([4096, 8192, 8192]));
        assert_eq!(set("8k,"), Ok([8192, 4096, 4096]));
        assert_eq!(set("1k,2k,3k"), Ok([1024, 2048, 3072]));
        assert!(set("1,2,3,4").is_err() && set(",").is_err() && set("x").is_err());
    }
}
