//! Numbers as fio prints them: at most some digits, then a prefix of the unit.

const DECIMAL: [&str; 6] = ["", "k", "M", "G", "T", "P"];
const BINARY: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];

/// `number` in at most `digits` digits, with prefixes of 1024 (`binary`) or of 1000.
pub(super) fn short(number: u64, digits: usize, binary: bool, unit: &str) -> String {
    let (thousand, prefixes) = if binary { (1024, BINARY) } else { (1000, DECIMAL) };
    let (mut whole, mut rest, mut at) = (number, None, 0);
    while whole.to_string().len() > digits && at + 1 < prefixes.len() {
        rest = Some(whole % thousand);
        whole /= thousand;
        at += 1;
    }
    let prefix = prefixes[at];
    let Some(rest) = rest else { return format!("{whole}{unit}") };
    let decimals = digits.saturating_sub(whole.to_string().len());
    if decimals <= 1 {
        whole += u64::from(rest >= thousand / 2);
        return format!("{whole}{prefix}{unit}");
    }
    let decimals = decimals - 1;
    let part = format!("{:.decimals$}", rest as f64 / thousand as f64);
    match part.strip_prefix("0.") {
        Some(digits) => format!("{whole}.{digits}{prefix}{unit}"),
        // The fraction was rounded up to one.
        None => format!("{}.{}{prefix}{unit}", whole + 1, "0".repeat(decimals)),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn numbers_look_like_fios() {
        // From lines that fio 3.33 printed.
        for (number, binary, unit, printed) in [
            (256_000, false, "", "256k"),
            (20_613, false, "", "20.6k"),
            (1_048_576_000, true, "B/s", "1000MiB/s"),
            (1_048_576_000, false, "B/s", "1049MB/s"),
            (1_048_576, true, "B", "1024KiB"),
            (84_400_000, true, "B/s", "80.5MiB/s"),
            (84_400_000, false, "B/s", "84.4MB/s"),
            (999, false, "", "999"),
            (0, true, "B/s", "0B/s"),
            (10_239, true, "B", "10.00KiB"),
            (u64::MAX, true, "B", "16384PiB"),
        ] {
            assert_eq!(short(number, 4, binary, unit), printed, "{number}");
        }
        assert_eq!(short(1_234_567, 6, false, ""), "1234.6k");
    }
}
