//! Arithmetic with units, as claims use it: `6 * 423.72 MB/s over 3 GB/s`.
//!
//! The left side of the comparison is any arithmetic, the right side one amount. The left side is
//! exact, the right side has the precision of its digits and its hedge.

use catalogue::unit::{Amount, AmountError, Dimension, Hedge, number, suffix, unit_named};

/// Maximum length of a text.
const LENGTH_MAX: usize = 1000;
/// Maximum nesting of parentheses.
const DEPTH_MAX: u32 = 16;

/// A number with its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Value in base units.
    pub value: f64,
    /// Dimension of the value.
    pub dimension: Dimension,
}

/// A parsed comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Equation {
    /// Result of the arithmetic.
    pub left: Value,
    /// Result according to the claim.
    pub right: Amount,
}

/// Reason why a text is no arithmetic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// Invalid number or unit.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// Unexpected text.
    #[error("'{text}': {reason}")]
    Syntax {
        /// Text that was read.
        text: String,
        /// Error.
        reason: &'static str,
    },
}

/// Words and signs of the comparison in an equation, with its hedge.
const COMPARISONS: [&str; 7] = [" about ", " over ", " nearly ", "=", "~", ">", "<"];

impl Equation {
    /// Reads `arithmetic comparison amount`.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] with the unexpected text.
    pub fn parse(text: &str) -> Result<Equation, ExpressionError> {
        let error = |reason| ExpressionError::Syntax { text: shorten(text), reason };
        let places = COMPARISONS.iter().filter_map(|word| Some((text.find(word)?, *word)));
        let (at, _) = places.min().ok_or_else(|| {
            error("no comparison in it: write =, about, over or nearly before the result")
        })?;
        let left = evaluate(&text[..at])?;
        let right = Amount::parse(&text[at..])?;
        Ok(Equation { left, right })
    }
}

/// Returns the result of an arithmetic expression.
///
/// # Errors
///
/// [`ExpressionError`]: unknown signs, units that cannot be added, results that are not finite.
pub fn evaluate(text: &str) -> Result<Value, ExpressionError> {
    let error = |reason| ExpressionError::Syntax { text: shorten(text), reason };
    if text.len() > LENGTH_MAX {
        return Err(error("too long"));
    }
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let value = reader.sum().map_err(error)?;
    match reader.rest.is_empty() {
        true if value.value.is_finite() => Ok(value),
        true => Err(error("not a finite number")),
        false => Err(error("something follows that is neither number, unit nor sign")),
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(80).collect()
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl Reader<'_> {
    /// Skips `sign` if it is next, and returns whether it was.
    fn takes(&mut self, sign: &str) -> bool {
        let after = self.rest.strip_prefix(sign);
        self.rest = after.unwrap_or(self.rest).trim_start();
        after.is_some()
    }

    fn sum(&mut self) -> Result<Value, &'static str> {
        let mut left = self.product()?;
        loop {
            let sign = match () {
                () if self.takes("+") => 1.0,
                () if self.takes("-") => -1.0,
                () => return Ok(left),
            };
            let right = self.product()?;
            if left.dimension != right.dimension {
                return Err("amounts of different kinds are added");
            }
            left.value += sign * right.value;
        }
    }

    fn product(&mut self) -> Result<Value, &'static str> {
        let mut left = self.factor()?;
        loop {
            let sign = match () {
                () if self.takes("*") => 1,
                () if self.takes("/") => -1,
                () => return Ok(left),
            };
            let right = self.factor()?;
            let dimension = left.dimension.times(right.dimension, sign);
            left.dimension = dimension.ok_or("units beyond any sense")?;
            left.value *= right.value.powi(i32::from(sign));
        }
    }

    fn factor(&mut self) -> Result<Value, &'static str> {
        let round: fn(f64) -> f64 = match () {
            () if self.takes("ceil(") => f64::ceil,
            () if self.takes("floor(") => f64::floor,
            () if self.takes("(") => |value| value,
            () => return self.amount(),
        };
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("nested too deeply");
        }
        let inner = self.sum()?;
        self.depth -= 1;
        match self.takes(")") {
            true => Ok(Value { value: round(inner.value), ..inner }),
            false => Err("a parenthesis is not closed"),
        }
    }

    fn amount(&mut self) -> Result<Value, &'static str> {
        let money = self.takes("$");
        let (digits, rest) = number(self.rest);
        let plain: String = digits.chars().filter(|c| *c != ',' && *c != '_').collect();
        let value: f64 = plain.parse().map_err(|_| "a number is missing")?;
        // The longest prefix of the rest that is a unit: MB/s before MB.
        let text = rest.trim_start();
        let ends = (0..=text.len().min(8)).rev().filter(|end| text.is_char_boundary(*end));
        let units = ends.filter_map(|end| {
            let (unit, after) = text.split_at(end);
            let ends_here = end == 0 || !after.starts_with(|c: char| c.is_alphanumeric());
            ends_here.then_some((suffix(unit)?, after))
        });
        let ((prefix, unit), after) = units.into_iter().next().ok_or("no unit is called that")?;
        let unit = if money { unit_named("USD").unwrap_or(unit) } else { unit };
        self.rest = after.trim_start();
        Ok(Value { value: value * prefix * unit.factor, dimension: unit.dimension })
    }
}

/// Verdict on an equation.
#[derive(Clone, Debug, PartialEq)]
pub enum Standing {
    /// The sides are equal.
    Holds,
    /// The sides are equal if decimal units on the right are read as binary ones, which its digits
    /// prove.
    HoldsInBinary,
    /// The sides are not equal, but would be if a million were a thousand times 1024.
    MixedThousands,
    /// The sides are not equal.
    Breaks,
    /// The sides have different dimensions.
    Units,
}

impl Equation {
    /// Returns the left side in the units of the right: bits if bits are compared, binary units if
    /// the digits prove them; `None` if the sides have different dimensions.
    pub fn compared(&self) -> Option<f64> {
        let left = alike(self.left, self.right.dimension)?;
        Some(match self.standing() {
            Standing::HoldsInBinary => left / 1.024f64.powi(thousands(self.right.unit)),
            _ => left,
        })
    }

    /// Compares the sides.
    pub fn standing(&self) -> Standing {
        let right = &self.right;
        let Some(left) = alike(self.left, right.dimension) else { return Standing::Units };
        let within = |factor: f64| {
            let (low, high) = right.interval();
            // A measured quantity on the left, such as a time, has six digits at best.
            let slack = 5e-6 * left.abs();
            low * factor - slack <= left && left <= high * factor + slack
        };
        if within(1.0) {
            return Standing::Holds;
        }
        // "Nearly 8 GB/s" proves nothing about its unit; 360.331 MB/s does.
        let many_digits = right.hedge == Hedge::Plain && right.half <= 0.005 * right.value;
        let step = thousands(right.unit);
        let bytes = right.unit.contains('B') && !right.unit.contains("iB");
        match () {
            () if !(bytes && many_digits) => Standing::Breaks,
            () if within(1.024f64.powi(step)) => Standing::HoldsInBinary,
            () if (1..step).any(|some| within(1.024f64.powi(some))) => Standing::MixedThousands,
            () => Standing::Breaks,
        }
    }
}

/// Returns the power of one thousand of a unit's prefix.
fn thousands(unit: &str) -> i32 {
    match unit.chars().next() {
        Some('k' | 'K') => 1,
        Some('M') => 2,
        Some('G') => 3,
        Some('T') => 4,
        _ => 0,
    }
}

/// Returns the value, in bits if bytes are compared with bits; `None` if the dimensions differ.
fn alike(value: Value, dimension: Dimension) -> Option<f64> {
    match (value.dimension, dimension) {
        (left, right) if left == right => Some(value.value),
        (Dimension::BYTE_RATE, Dimension::BIT_RATE) => Some(value.value * 8.0),
        (Dimension::BIT_RATE, Dimension::BYTE_RATE) => Some(value.value / 8.0),
        // IOPS may omit their unit.
        (Dimension::RATE, Dimension::NUMBER) | (Dimension::NUMBER, Dimension::RATE) => {
            Some(value.value)
        }
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use proptest::prelude::*;

    fn standing(text: &str) -> Standing {
        Equation::parse(text).unwrap_or_else(|error| panic!("{error}")).standing()
    }

    #[test]
    fn does_arithmetic_with_units() {
        let value = |text: &str| evaluate(text).unwrap().value;
        assert_eq!(value("5 * 2 + 6"), 16.0);
        assert_eq!(value("(1.5 GB/s + 1.1 GB/s) / 2 / 100 MB/s"), 13.0);
        assert_eq!(value("ceil(231.5K / 250)"), 926.0);
        assert_eq!(value("900 * $300 + ceil(900 / 16) * $1000"), 327_000.0);
        assert_eq!(value("2 - 3 - 4"), -5.0);
        assert_eq!(evaluate("730K IOPS * 4 KiB").unwrap().dimension, Dimension::BYTE_RATE);
        for wrong in ["", "1 +", "1 GB + 1 s", "(1", "1 / 0", "1 furlong", "2 3", "ceil 3"] {
            assert!(evaluate(wrong).is_err(), "{wrong}");
        }
        assert!(evaluate(&"(".repeat(100)).is_err());
        assert!(evaluate(&"1+".repeat(1000)).is_err());
    }

    #[test]
    fn compares_as_far_as_digits_and_hedges_reach() {
        assert_eq!(standing("6 * 423.72 MB/s over 3 GB/s"), Standing::Breaks);
        assert_eq!(standing("7.1 * 423.72 MB/s over 3 GB/s"), Standing::Holds);
        assert_eq!(standing("618 MB/s / 360.331 MB/s = 2"), Standing::Breaks);
        assert_eq!(standing("10 GB/s = 80 Gb/s"), Standing::Holds);
        assert_eq!(standing("7804609 * 8 KiB / 169.215 s = 360.331 MB/s"), Standing::HoldsInBinary);
        assert_eq!(standing("730K IOPS * 4 KiB = 2920 MB/s"), Standing::MixedThousands);
        assert_eq!(standing("730K IOPS * 4 KiB = 2990 MB/s"), Standing::Holds);
        assert_eq!(standing("1M IOPS * 8 KiB nearly 8 GB/s"), Standing::Breaks);
        assert_eq!(standing("1M IOPS * 8 KiB nearly 8 GiB/s"), Standing::Holds);
        assert_eq!(standing("6.4 GT/s = 12.8 GB/s"), Standing::Units);
        assert!(Equation::parse("1 + 1").is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = Equation::parse(&text);
        }

        #[test]
        fn no_arithmetic_panics(text in "[0-9()*/+ .$KMGBis=~<>-]{0,60}") {
            if let Ok(equation) = Equation::parse(&text) {
                let _ = equation.standing();
            }
        }
    }
}
