//! Parsers of rates and distributions of offsets, on a command line or an axis of a sweep.

use std::str::FromStr;

use block::hint;

use super::places::Places;

/// A rate over all workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// I/Os per second.
    Ios(f64),
    /// Bytes per second.
    Bytes(f64),
}

impl FromStr for Rate {
    type Err = String;

    /// Reads `50k` and `1.2M` as I/Os per second, `200MB` and `1GB/s` as bytes per second; all
    /// decimal.
    fn from_str(text: &str) -> Result<Rate, String> {
        let error =
            || format!("'{text}' is not a rate: write 50k or 1.2M for I/Os, 200MB for bytes");
        let plain = text.trim().trim_end_matches("/s");
        let (plain, bytes) = match plain.strip_suffix(['B', 'b']) {
            Some(plain) => (plain, true),
            None => (plain, false),
        };
        let digits = plain.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let unit = match &plain[digits.len()..] {
            "" => 1.0,
            "k" | "K" => 1e3,
            "m" | "M" => 1e6,
            "g" | "G" => 1e9,
            _ => return Err(error()),
        };
        let value = digits.trim().parse::<f64>().map_err(|_| error())? * unit;
        match value > 0.0 && value.is_finite() {
            true if bytes => Ok(Rate::Bytes(value)),
            true => Ok(Rate::Ios(value)),
            false => Err(error()),
        }
    }
}

impl FromStr for Places {
    type Err = String;

    /// Reads `uniform`, `once`, `zipf:1.2`, `pareto:0.2`, `normal:10`.
    fn from_str(text: &str) -> Result<Places, String> {
        let (law, number) = text.split_once(':').map_or((text, None), |(law, n)| (law, Some(n)));
        let number = |default: f64| match number {
            None => Ok(default),
            Some(text) => text.parse::<f64>().map_err(|_| format!("'{text}' is not a number")),
        };
        match law {
            "uniform" | "random" => Ok(Places::Uniform),
            "once" => Ok(Places::Once),
            "zipf" => Ok(Places::Zipf { exponent: number(1.1)? }),
            "pareto" => Ok(Places::Pareto { hot: number(0.2)? }),
            "normal" => Ok(Places::Normal { deviation_percent: number(15.0)? }),
            _ => Err(format!(
                "unknown distribution '{law}': use uniform, once, zipf:N, pareto:N or normal:N{}",
                hint(law, ["uniform", "once", "zipf", "pareto", "normal"])
            )),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn rates_are_decimal() {
        for (text, rate) in [
            ("50k", Rate::Ios(50e3)),
            ("1.2M", Rate::Ios(1.2e6)),
            ("200MB", Rate::Bytes(200e6)),
            ("1GB/s", Rate::Bytes(1e9)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
        }
        for wrong in ["", "0", "-5", "k", "5x", "inf", "nan"] {
            assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
        }
    }
}
