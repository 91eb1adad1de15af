//! Figures as people read them: three digits, and always a unit.

use block::Rate;
use stats::{Latency, MOMENTS_ABOVE, supports};

/// Stands where a figure is not known or rests on too few samples.
pub const UNKNOWN: &str = "n/a";

/// A rate without its unit: `3.41M`.
pub fn rate(per_s: f64) -> String {
    if per_s.is_finite() { Rate(per_s).to_string() } else { UNKNOWN.to_owned() }
}

/// I/Os per second: `3.41M IOPS`.
pub fn iops(per_s: f64) -> String {
    format!("{} IOPS", rate(per_s))
}

/// Bytes per second in decimal units: `1.75 GB/s`, `512 B/s`.
pub fn bytes_per_second(per_s: f64) -> String {
    let text = rate(per_s);
    if text == UNKNOWN {
        return text;
    }
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    format!("{number} {}B/s", &text[number.len()..])
}

/// A span in nanoseconds: `980 ns`, `41.2 µs`, `1.14 ms`, `73.0 s`.
pub fn span(ns: f64) -> String {
    if !ns.is_finite() {
        return UNKNOWN.to_owned();
    }
    // 999.5 is where a figure without decimals would round up to the next unit.
    let scale = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let found = scale.into_iter().find(|(unit, _)| ns >= unit * 0.9995);
    let (value, unit) = found.map_or((ns, "ns"), |(size, unit)| (ns / size, unit));
    let decimals = match value {
        _ if unit == "ns" => 0,
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// A latency in nanoseconds, when it is known.
pub fn latency(ns: Option<u64>) -> String {
    ns.map_or_else(|| UNKNOWN.to_owned(), |ns| span(ns as f64))
}

/// A percentile or the longest of `of`: `≥4.00 s` where I/Os without an answer make it a lower
/// bound.
pub fn bound(of: &Latency, ns: Option<u64>) -> String {
    marked(ns.is_some_and(|ns| of.at_least(ns)), latency(ns))
}

/// The mean of `of`, likewise.
pub fn mean(of: &Latency) -> String {
    let text = of.mean.map_or_else(|| UNKNOWN.to_owned(), span);
    marked(of.mean.is_some() && of.mean_at_least(), text)
}

fn marked(at_least: bool, text: String) -> String {
    if at_least { format!("≥{text}") } else { text }
}

/// Number of moments behind each tail, and the tails that have too few; `None` where no moments are
/// known, or there are too few samples for any tail.
pub fn tails(of: &Latency) -> Option<String> {
    let moments = of.moments?;
    let tails = [(0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];
    let of_enough = tails.into_iter().filter(|(p, _)| supports(of.samples, *p));
    let each: Vec<String> = of_enough
        .map(|(p, name)| {
            let moments_of = count(moments.of(p).unwrap_or_default());
            match moments.supports(p) {
                true => format!("{name} of {moments_of}"),
                false => format!("{name} of {moments_of}, withheld below {MOMENTS_ABOVE}"),
            }
        })
        .collect();
    (!each.is_empty()).then(|| format!("milliseconds with such an I/O: {}", each.join(", ")))
}

/// Says how much of the mean latency waited for a CPU, if that is more than this share.
pub fn waited(of: &Latency) -> Option<String> {
    const SOME: f64 = 0.001;
    let waited = of.waited_for_cpu.filter(|waited| waited.share >= SOME)?;
    let percent = waited.share * 100.0;
    let rest = 100.0 - percent;
    Some(format!(
        "of the mean latency about {percent:.1} % waited for a processor, {rest:.1} % is the \
         volume's"
    ))
}

/// A count with its thousands apart: `34,123,456`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A length in binary units: `512 B`, `4 KiB`, `64 MiB`.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let step = (bytes.trailing_zeros() / 10).min(6) as usize;
    match bytes {
        0 => "0 B".to_owned(),
        _ => format!("{} {}", bytes >> (10 * step), units[step]),
    }
}

/// A number of seconds: `10 s`, `0.5 s`.
pub fn seconds(s: f64) -> String {
    if (s - s.round()).abs() < 0.005 { format!("{s:.0} s") } else { format!("{s:.2} s") }
}

/// One of something, or many: `1 worker`, `50 workers`.
pub fn plural(n: u64, one: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {one}{s}", count(n))
}

/// Returns a count with the singular, or with a plural that does not end in "s".
pub fn plural_of(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn spans_have_three_digits() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (980.4, "980 ns"),
            (999.6, "1.00 µs"),
            (41_234.0, "41.2 µs"),
            (412_345.0, "412 µs"),
            (999_700.0, "1.00 ms"),
            (1_140_000.0, "1.14 ms"),
            (73e9, "73.0 s"),
            (f64::NAN, "n/a"),
        ] {
            assert_eq!(span(ns), text);
        }
        assert_eq!(latency(None), "n/a");
        assert_eq!(latency(Some(u64::MAX)), "18446744074 s");
    }

    #[test]
    fn lower_bounds_say_so() {
        let mut of = Latency { mean: Some(5e3), p50: Some(1000), ..Latency::default() };
        of.max = Some(4_000_000_000);
        assert_eq!(
            [mean(&of), bound(&of, of.p50), bound(&of, of.p99)],
            ["5.00 µs", "1.00 µs", "n/a"]
        );
        of.waiting_from = Some(2_000_000);
        let shown = [mean(&of), bound(&of, of.p50), bound(&of, of.max), bound(&of, None)];
        assert_eq!(shown, ["≥5.00 µs", "1.00 µs", "≥4.00 s", "n/a"]);
        assert_eq!(mean(&Latency { waiting_from: Some(1), ..Latency::default() }), "n/a");
    }

    #[test]
    fn tails_say_from_how_many_moments_they_are() {
        let mut of = Latency { samples: 150_000, ..Latency::default() };
        assert_eq!(tails(&of), None);
        of.moments = Some(stats::TailMoments { p99: 1234, p99_9: 3, p99_99: 1 });
        let words = "milliseconds with such an I/O: p99 of 1,234, p99.9 of 3, withheld below 50";
        assert_eq!(tails(&of).as_deref(), Some(words));
        of.samples = 9_999;
        assert_eq!(tails(&of), None);
    }

    #[test]
    fn a_latency_says_whose_time_it_is() {
        let of = |waited| {
            let mut of = Latency { mean: Some(8000.0), ..Latency::default() };
            of.set_waited_for_cpu(waited);
            super::waited(&of)
        };
        assert_eq!([of(None), of(Some(7.0))], [None, None]);
        let words =
            "of the mean latency about 37.5 % waited for a processor, 62.5 % is the volume's";
        assert_eq!(of(Some(3000.0)).as_deref(), Some(words));
        // Waits for planned starts that never came are in no latency.
        assert!(of(Some(9000.0)).unwrap().contains("about 100.0 %"));
    }

    #[test]
    fn rates_and_sizes_have_units() {
        assert_eq!(iops(3_411_000.0), "3.41M IOPS");
        assert_eq!(bytes_per_second(1.746e9), "1.75 GB/s");
        assert_eq!(bytes_per_second(512.0), "512 B/s");
        assert_eq!(bytes_per_second(f64::INFINITY), "n/a");
        assert_eq!(
            [0, 512, 4096, 1536, 64 << 20].map(size).join(" "),
            "0 B 512 B 4 KiB 1536 B 64 MiB"
        );
        assert_eq!([0, 999, 1000, 34_123_456].map(count).join(" "), "0 999 1,000 34,123,456");
        assert_eq!([10.0, 0.5, 10.001].map(seconds).join(" "), "10 s 0.50 s 10 s");
    }
}
