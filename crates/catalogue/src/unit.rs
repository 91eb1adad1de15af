//! Units and amounts: `0.88 ms`, `about 900`, `over 2.2M`, `4 GB/s`.
//!
//! An [`Amount`] keeps more than the number of its text: the number of digits given, a word that
//! widens the interval, and the unit, if any. Prefixes are decimal with `B` and binary with `iB`;
//! bytes, bits and transfers have different dimensions.

use std::fmt;

/// Exponents of byte, bit, second, dollar, watt, transfer and rack unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dimension(pub [i8; 7]);

impl Dimension {
    /// Number or percentage.
    pub const NUMBER: Dimension = Dimension([0; 7]);
    /// Events per second: IOPS, Hz.
    pub const RATE: Dimension = Dimension([0, 0, -1, 0, 0, 0, 0]);
    /// Seconds.
    pub const TIME: Dimension = Dimension([0, 0, 1, 0, 0, 0, 0]);
    /// Bytes.
    pub const BYTES: Dimension = Dimension([1, 0, 0, 0, 0, 0, 0]);
    /// Bytes per second.
    pub const BYTE_RATE: Dimension = Dimension([1, 0, -1, 0, 0, 0, 0]);
    /// Bits per second.
    pub const BIT_RATE: Dimension = Dimension([0, 1, -1, 0, 0, 0, 0]);
    /// Transfers per second: symbols on a lane.
    pub const TRANSFERS: Dimension = Dimension([0, 0, -1, 0, 0, 1, 0]);
    /// Dollars.
    pub const MONEY: Dimension = Dimension([0, 0, 0, 1, 0, 0, 0]);
    /// Watts.
    pub const POWER: Dimension = Dimension([0, 0, 0, 0, 1, 0, 0]);
    /// Rack units.
    pub const HEIGHT: Dimension = Dimension([0, 0, 0, 0, 0, 0, 1]);

    /// Returns the dimension of a product (`sign` 1) or a quotient (`sign` −1); `None` if an
    /// exponent overflows.
    pub fn times(self, other: Dimension, sign: i8) -> Option<Dimension> {
        let mut all = self.0;
        for (mine, theirs) in all.iter_mut().zip(other.0) {
            *mine = mine.checked_add(theirs.checked_mul(sign)?)?;
        }
        Some(Dimension(all))
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = UNITS.iter().find(|unit| unit.dimension == *self && unit.factor == 1.0);
        f.write_str(known.map_or("a mixture", |unit| match unit.name {
            "" => "a number without unit",
            name => name,
        }))
    }
}

/// A unit: name, dimension, and size in base units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name of the unit.
    pub name: &'static str,
    /// Dimension of the unit.
    pub dimension: Dimension,
    /// Base units per unit.
    pub factor: f64,
}

const fn unit(name: &'static str, dimension: Dimension, factor: f64) -> Unit {
    Unit { name, dimension, factor }
}

/// All units, the base unit of each dimension before its multiples.
const UNITS: &[Unit] = &[
    unit("", Dimension::NUMBER, 1.0),
    unit("%", Dimension::NUMBER, 0.01),
    unit("IOPS", Dimension::RATE, 1.0),
    unit("Hz", Dimension::RATE, 1.0),
    unit("MHz", Dimension::RATE, 1e6),
    unit("GHz", Dimension::RATE, 1e9),
    unit("s", Dimension::TIME, 1.0),
    unit("ms", Dimension::TIME, 1e-3),
    unit("us", Dimension::TIME, 1e-6),
    unit("µs", Dimension::TIME, 1e-6),
    unit("ns", Dimension::TIME, 1e-9),
    unit("B", Dimension::BYTES, 1.0),
    unit("kB", Dimension::BYTES, 1e3),
    unit("KB", Dimension::BYTES, 1e3),
    unit("MB", Dimension::BYTES, 1e6),
    unit("GB", Dimension::BYTES, 1e9),
    unit("TB", Dimension::BYTES, 1e12),
    unit("PB", Dimension::BYTES, 1e15),
    unit("KiB", Dimension::BYTES, 1024.0),
    unit("MiB", Dimension::BYTES, 1048576.0),
    unit("GiB", Dimension::BYTES, 1073741824.0),
    unit("TiB", Dimension::BYTES, 1099511627776.0),
    unit("B/s", Dimension::BYTE_RATE, 1.0),
    unit("kB/s", Dimension::BYTE_RATE, 1e3),
    unit("KB/s", Dimension::BYTE_RATE, 1e3),
    unit("MB/s", Dimension::BYTE_RATE, 1e6),
    unit("GB/s", Dimension::BYTE_RATE, 1e9),
    unit("TB/s", Dimension::BYTE_RATE, 1e12),
    unit("KiB/s", Dimension::BYTE_RATE, 1024.0),
    unit("MiB/s", Dimension::BYTE_RATE, 1048576.0),
    unit("GiB/s", Dimension::BYTE_RATE, 1073741824.0),
    unit("b/s", Dimension::BIT_RATE, 1.0),
    unit("Mb/s", Dimension::BIT_RATE, 1e6),
    unit("Gb/s", Dimension::BIT_RATE, 1e9),
    unit("Tb/s", Dimension::BIT_RATE, 1e12),
    unit("Mbit/s", Dimension::BIT_RATE, 1e6),
    unit("Gbit/s", Dimension::BIT_RATE, 1e9),
    unit("T/s", Dimension::TRANSFERS, 1.0),
    unit("GT/s", Dimension::TRANSFERS, 1e9),
    unit("USD", Dimension::MONEY, 1.0),
    unit("W", Dimension::POWER, 1.0),
    unit("kW", Dimension::POWER, 1e3),
    unit("U", Dimension::HEIGHT, 1.0),
];

/// Other spellings of units, with the name of the unit.
const SPELLED: &[(&str, &str)] = &[
    ("number", ""),
    ("iops", "IOPS"),
    ("io/s", "IOPS"),
    ("MBps", "MB/s"),
    ("GBps", "GB/s"),
    ("Mbps", "Mb/s"),
    ("Gbps", "Gb/s"),
    ("kB/sec", "kB/s"),
    ("MB/sec", "MB/s"),
    ("GB/sec", "GB/s"),
    ("Gbit/sec", "Gbit/s"),
    ("sec", "s"),
    ("msec", "ms"),
    ("usec", "us"),
];

/// Returns the names of the units of a dimension; the name is empty for a bare number.
pub fn units_of(dimension: Dimension) -> Vec<&'static str> {
    UNITS.iter().filter(|unit| unit.dimension == dimension).map(|unit| unit.name).collect()
}

/// Returns the unit of this name or spelling.
pub fn unit_named(name: &str) -> Option<Unit> {
    let spelled = SPELLED.iter().find(|(other, _)| *other == name);
    let name = spelled.map_or(name, |(_, name)| name);
    UNITS.iter().find(|unit| unit.name == name).copied()
}

/// Qualifier of a number in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedge {
    /// No qualifier: exact to the digits given.
    Plain,
    /// "about": within ten percent.
    About,
    /// "over": at least the number.
    Over,
    /// "nearly": below the number, by ten percent at most.
    Nearly,
}

/// A number in a text, with its unit and precision.
#[derive(Clone, Debug, PartialEq)]
pub struct Amount {
    /// Value in base units: bytes, seconds, per second.
    pub value: f64,
    /// Half a unit of the last digit given, in base units; 0 for whole numbers without a unit.
    pub half: f64,
    /// Qualifier of the number.
    pub hedge: Hedge,
    /// Dimension of the unit.
    pub dimension: Dimension,
    /// Unit as written; empty if there is none.
    pub unit: &'static str,
}

/// Error of a text that is not an amount.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no amount: write a number and a unit, such as 4 GB/s, 0.88 ms, 35K, over 2.2M; of a \
         range its upper end, 1.5M in place of 1,5M"
)]
pub struct AmountError(pub String);

impl Amount {
    /// Parses `[about|over|nearly] number[K|M|G|T][unit]`, with `~`, `>` and `<` for the words and
    /// `$` before money.
    ///
    /// # Errors
    ///
    /// [`AmountError`] for any other text, and for numbers that are negative or not finite.
    pub fn parse(text: &str) -> Result<Amount, AmountError> {
        let error = || AmountError(text.chars().take(80).collect());
        let (hedge, rest) = hedge(text.trim());
        let money = rest.strip_prefix('$');
        let rest = money.unwrap_or(rest);
        let (digits, rest) = number(rest);
        if !thousands(digits) {
            return Err(error());
        }
        let plain: String = digits.chars().filter(|c| *c != ',' && *c != '_').collect();
        let value: f64 = plain.parse().map_err(|_| error())?;
        let (power, rest) = exponent(rest);
        let value = value * power;
        let (prefix, unit) = suffix(rest.trim()).ok_or_else(error)?;
        let unit = match (money, unit.name) {
            (Some(_), "") => unit_named("USD").unwrap_or(unit),
            (Some(_), _) => return Err(error()),
            (None, _) => unit,
        };
        let factor = prefix * unit.factor;
        let value = value * factor;
        if !value.is_finite() {
            return Err(error());
        }
        let exact = unit.name.is_empty() && prefix == 1.0 && !plain.contains('.');
        let half = if exact { 0.0 } else { half_digit(&plain) * power * factor };
        Ok(Amount { value, half, hedge, dimension: unit.dimension, unit: unit.name })
    }

    /// Returns the interval of the amount: its precision, widened by its qualifier.
    pub fn interval(&self) -> (f64, f64) {
        let (v, half) = (self.value, self.half);
        match self.hedge {
            Hedge::Plain => (v - half, v + half),
            Hedge::About => (v - half.max(0.1 * v), v + half.max(0.1 * v)),
            Hedge::Over => (v, f64::INFINITY),
            Hedge::Nearly => (0.9 * v, v),
        }
    }

    /// Returns the interval as [`Amount::interval`], except that "over" and "nearly" extend by half
    /// a unit of the last digit only, or 2.5 % if that is more: authors who measured 2.29M write
    /// "nearly 2.3M", not "over 2.2M".
    pub fn next_digit(&self) -> (f64, f64) {
        match self.hedge {
            Hedge::Over => (self.value, self.value + self.half.max(0.025 * self.value)),
            Hedge::Nearly => (self.value - self.half.max(0.025 * self.value), self.value),
            Hedge::Plain | Hedge::About => self.interval(),
        }
    }
}

fn hedge(text: &str) -> (Hedge, &str) {
    let words = [
        ("about", Hedge::About),
        ("~", Hedge::About),
        ("over", Hedge::Over),
        (">", Hedge::Over),
        ("nearly", Hedge::Nearly),
        ("<", Hedge::Nearly),
        ("=", Hedge::Plain),
    ];
    let found = words.iter().find_map(|(word, hedge)| Some((*hedge, text.strip_prefix(word)?)));
    let (hedge, rest) = found.unwrap_or((Hedge::Plain, text));
    (hedge, rest.trim_start())
}

/// Splits a text after its digits, point and thousands separators included.
pub fn number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_digit() || "._,".contains(c)));
    text.split_at(end.unwrap_or(text.len()))
}

/// Returns whether each comma has three digits after it: 1,500 is a number, but 1,5 may be two.
fn thousands(digits: &str) -> bool {
    let whole = digits.split('.').next().unwrap_or_default();
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or_default();
    let grouped = !whole.contains(',') || (1..=3).contains(&first.len());
    grouped && groups.all(|group| group.len() == 3) && !digits[whole.len()..].contains(',')
}

/// Parses an exponent, as in 1e6; returns the power of ten and the remaining text.
fn exponent(text: &str) -> (f64, &str) {
    let Some(behind) = text.strip_prefix(['e', 'E']) else { return (1.0, text) };
    let end = behind.find(|c: char| !(c.is_ascii_digit() || c == '-' || c == '+'));
    let (power, rest) = behind.split_at(end.unwrap_or(behind.len()));
    match power.parse::<i32>() {
        Ok(power) if power.abs() <= 30 => (10f64.powi(power), rest),
        _ => (1.0, text),
    }
}

/// Parses a decimal prefix and a unit; a unit whose name has a prefix has precedence.
pub fn suffix(text: &str) -> Option<(f64, Unit)> {
    if let Some(unit) = unit_named(text) {
        return Some((1.0, unit));
    }
    let words = [("thousand", 1e3), ("million", 1e6), ("billion", 1e9)];
    if let Some((prefix, rest)) = words.iter().find_map(|(w, p)| Some((*p, text.strip_prefix(w)?)))
    {
        let unit = unit_named(rest.trim_start())?;
        return ["", "IOPS", "USD"].contains(&unit.name).then_some((prefix, unit));
    }
    let (prefix, rest) = match text.chars().next()? {
        'k' | 'K' => (1e3, &text[1..]),
        'M' => (1e6, &text[1..]),
        'G' => (1e9, &text[1..]),
        'T' => (1e12, &text[1..]),
        _ => return None,
    };
    let unit = unit_named(rest.trim_start())?;
    ["", "IOPS", "USD"].contains(&unit.name).then_some((prefix, unit))
}

/// Returns half a unit of the last significant digit; at least two digits are significant, so that
/// 1M means 0.95M to 1.05M.
fn half_digit(plain: &str) -> f64 {
    let (whole, decimals) = plain.split_once('.').unwrap_or((plain, ""));
    let digits = whole.len() as i32;
    let places = (0..).map(|at: i32| digits - 1 - at);
    let all = || places.clone().zip(whole.chars().chain(decimals.chars()));
    let mut counting = all().filter(|(_, digit)| *digit != '0').map(|(place, _)| place);
    let Some(first) = counting.next() else { return 0.5 * 10f64.powi(-(decimals.len() as i32)) };
    // Zeros after the point are significant; zeros before it may be rounding.
    let last = match decimals.len() {
        0 => counting.last().unwrap_or(first),
        given => -(given as i32),
    };
    0.5 * 10f64.powi(last.min(first - 1))
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> (f64, f64, Hedge, &'static str) {
        let amount = Amount::parse(text).unwrap();
        (amount.value, amount.half, amount.hedge, amount.unit)
    }

    #[test]
    fn reads_what_texts_say() {
        assert_eq!(read("28"), (28.0, 0.0, Hedge::Plain, ""));
        assert_eq!(read("1M"), (1e6, 0.05e6, Hedge::Plain, ""));
        assert_eq!(read("over 2.2M IOPS"), (2.2e6, 0.05e6, Hedge::Over, "IOPS"));
        assert_eq!(read("about 900"), (900.0, 0.0, Hedge::About, ""));
        assert_eq!(read("$20K"), (20e3, 500.0, Hedge::Plain, "USD"));
        assert_eq!(read("4 GB/s"), (4e9, 0.05e9, Hedge::Plain, "GB/s"));
        assert_eq!(read("10Gb/s"), (10e9, 0.5e9, Hedge::Plain, "Gb/s"));
        assert_eq!(read("2,920 MB/s"), (2920e6, 5e6, Hedge::Plain, "MB/s"));
        assert_eq!(read("0.5 IOPS"), (0.5, 0.005, Hedge::Plain, "IOPS"));
        let (value, half, ..) = read("360.331 MB/s");
        assert!((value - 360.331e6).abs() < 1e-3 && (half - 500.0).abs() < 1e-6);
        let (value, half, ..) = read("0.88 ms");
        assert!((value - 0.88e-3).abs() < 1e-12 && (half - 5e-6).abs() < 1e-12);
        assert_eq!(read("2.5 million"), (2.5e6, 0.05e6, Hedge::Plain, ""));
        assert_eq!(read("1e6").0, 1e6);
        assert_eq!(read("9.8Gbps").0, 9.8e9);
        assert_eq!(read("1.6 GB/sec").3, "GB/s");
        assert_eq!(read("1,500,000 iops").0, 1.5e6);
        for wrong in ["1,5M", "1.500.000", "1234,567", "1.5,000", "100k-120k", "1e", "2 millions"] {
            assert!(Amount::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "GB/s", "4 QB/s", "1e400", "-3", "nan", "5 MGB", "$5 ms", "1.2.3"] {
            assert!(Amount::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hedges_widen() {
        let within = |text: &str, value: f64| {
            let (low, high) = Amount::parse(text).unwrap().interval();
            low <= value && value <= high
        };
        assert!(within("about 900", 926.0) && !within("about 15", 13.0));
        assert!(within("over 16", 16.35) && !within("over 3", 2.54));
        assert!(within("nearly 8", 7.63) && !within("nearly 8", 8.19));
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = Amount::parse(&text);
        }

        #[test]
        fn no_number_panics(text in "[~<>$]?[0-9.,_]{0,12}[KMGT]?( ?(GB/s|ms|IOPS))?") {
            let _ = Amount::parse(&text);
        }
    }
}
