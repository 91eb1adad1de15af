//! Values with readable units.

use crate::Quantity;
use crate::unit::Dimension;

/// Formats a value with a unit of its magnitude: `35.0k IOPS`, `880 µs`, `4.00 GB/s`.
pub fn pretty(value: f64, quantity: &Quantity) -> String {
    let scaled = |steps: &[(f64, &str)]| {
        let step = steps.iter().find(|(size, _)| value >= *size * 0.9995).or(steps.last());
        let (size, name) = step.copied().unwrap_or((1.0, ""));
        format!("{} {name}", digits(value / size)).trim_end().to_owned()
    };
    match quantity.dimension {
        Dimension::TIME => scaled(&[(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")]),
        Dimension::BYTES => {
            scaled(&[(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")])
        }
        Dimension::BYTE_RATE => scaled(&[(1e9, "GB/s"), (1e6, "MB/s"), (1.0, "B/s")]),
        Dimension::BIT_RATE => scaled(&[(1e9, "Gb/s"), (1e6, "Mb/s")]),
        Dimension::TRANSFERS => scaled(&[(1e9, "GT/s")]),
        Dimension::RATE if quantity.name == "clock" => scaled(&[(1e9, "GHz"), (1e6, "MHz")]),
        Dimension::RATE => format!("{} IOPS", block::Rate(value)),
        Dimension::MONEY => format!("${value:.0}"),
        Dimension::POWER => format!("{} W", digits(value)),
        Dimension::HEIGHT => format!("{value} U"),
        _ => digits(value),
    }
}

/// Formats a value with three or four significant digits; whole numbers have no decimals.
pub fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v == v.round() && v < 1e6 => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 4,
    };
    format!("{value:.decimals$}")
}
