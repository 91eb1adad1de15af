//! Sizes and rates as people write them: `4k` is 4096 bytes, `1.2M` IOPS are 1,200,000.

use std::fmt;

/// An invalid size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SizeError(String);

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is not a size: write a number with k, m, g or t, for example 4k or 64m",
            self.0
        )
    }
}

impl std::error::Error for SizeError {}

/// Parses a size in bytes. Suffixes are binary, in either case, with an optional `b`, `ib` or `B`:
/// `512`, `4k`, `64M`, `1GiB`. Fractions and anything above 2⁶⁴−1 are errors.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let error = || SizeError(text.to_owned());
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.len() - lower.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = lower[..digits].parse().map_err(|_| error())?;
    let shift = match lower[digits..].trim_start() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return Err(error()),
    };
    number.checked_mul(1 << shift).ok_or_else(error)
}

/// Prints a size in bytes so that [`parse_size`] reads the same: `4096` is `4k`, `1000` is `1000`.
pub fn print_size(bytes: u64) -> String {
    let suffixes = [(50, "p"), (40, "t"), (30, "g"), (20, "m"), (10, "k")];
    for (shift, suffix) in suffixes {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// A rate per second, printed with three or four digits and a decimal suffix: `2.71M`, `85.3k`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
        // From 999.95 on one decimal would round up to the next suffix.
        let found = scale.into_iter().find(|(unit, _)| self.0.abs() >= unit * 0.999_95);
        let (value, suffix) = found.map_or((self.0, ""), |(unit, s)| (self.0 / unit, s));
        let decimals = match value.abs() {
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            _ => 2,
        };
        f.pad(&format!("{value:.decimals$}{suffix}"))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_sizes() {
        for (text, bytes) in
            [("512", 512), ("4k", 4096), ("4K", 4096), ("64 MiB", 64 << 20), ("1t", 1 << 40)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "4x", "-1", "1.5k", "99999999999t", "4k4", "４k", "4é"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn prints_rates() {
        for (rate, text) in [
            (0.0, "0.00"),
            (7.125, "7.12"),
            (999.0, "999"),
            (1000.0, "1.00k"),
            (999_999.0, "1.00M"),
            (2_714_000.0, "2.71M"),
            (85_300.0, "85.3k"),
        ] {
            assert_eq!(Rate(rate).to_string(), text);
        }
    }

    proptest! {
        #[test]
        fn sizes_survive_printing(bytes: u64) {
            prop_assert_eq!(parse_size(&print_size(bytes)), Ok(bytes));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = parse_size(&text);
        }
    }
}
