//! Figures as they are printed, read again.

use stats::RunResult;

/// Makes the same check of all results, and says of which it fails.
pub fn each(results: &[RunResult], check: impl Fn(&RunResult)) {
    for (seed, result) in results.iter().enumerate() {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(result)));
        assert!(checked.is_ok(), "seed {seed}");
    }
}

/// The text that a form writes.
pub fn written(write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    write(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// A printed figure against the truth: within half of its last digit.
pub fn agrees(printed: &str, truth: f64) {
    let (value, half) = number(printed);
    let slack = half * 1.000_001 + truth.abs() * 1e-12;
    assert!((value - truth).abs() <= slack, "'{printed}' for {truth}");
}

/// A latency in nanoseconds, with its sign where it is a lower bound; none is `n/a`.
pub fn agrees_latency(printed: &str, truth: Option<(f64, bool)>) {
    let printed = printed.trim();
    match truth {
        None => assert_eq!(printed, "n/a"),
        Some((truth, at_least)) => {
            let bare = printed.trim_start_matches('≥');
            assert_eq!(bare.len() < printed.len(), at_least, "'{printed}' for {truth}");
            agrees(bare, truth);
        }
    }
}

/// The value in nanoseconds, bytes or ones, and half of its last digit.
fn number(printed: &str) -> (f64, f64) {
    let printed = printed.trim();
    let end = printed.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',');
    let (digits, unit) = printed.split_at(end.unwrap_or(printed.len()));
    let digits = digits.replace(',', "");
    let scale = match unit.trim() {
        "" | "ns" | "B/s" => 1.0,
        "k" | "kB/s" | "µs" => 1e3,
        "M" | "MB/s" | "ms" => 1e6,
        "G" | "GB/s" | "s" => 1e9,
        "T" | "TB/s" => 1e12,
        other => panic!("'{printed}' has the unit '{other}'"),
    };
    let places = digits.split_once('.').map_or(0, |(_, places)| places.len());
    let value: f64 = digits.parse().unwrap_or_else(|_| panic!("'{printed}' is no number"));
    (value * scale, 0.5 * 10_f64.powi(-(places as i32)) * scale)
}

/// Rows of Iometer's file below its header.
pub fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().skip_while(|line| !line.starts_with("'Target Type")).skip(1);
    rows.take_while(|line| !line.starts_with('\'')).map(|line| line.split(',').collect()).collect()
}

/// Cells of all rows of all tables of a page.
pub fn cells(html: &str) -> Vec<Vec<String>> {
    let rows = html.split("<tr>").skip(1).map(|row| row.split("</tr>").next().unwrap());
    let cell = |cell: &str| cell.split("</td>").next().unwrap().to_owned();
    rows.map(|row| row.split("<td>").skip(1).map(cell).collect::<Vec<String>>())
        .filter(|row| !row.is_empty())
        .collect()
}

/// Cells of all rows of all tables of a page in Markdown.
pub fn piped(text: &str) -> Vec<Vec<String>> {
    let rows = text.lines().filter(|line| line.starts_with("| ") && line.ends_with(" |"));
    let cells = |row: &str| row[2..row.len() - 2].split(" | ").map(str::to_owned).collect();
    rows.map(cells).collect()
}

/// The alphabet of the log's histograms, read without a library.
pub fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let all = four.iter().fold(0_u32, |all, c| all << 6 | u32::from(digit(*c)));
        let all = all << (6 * (4 - four.len()));
        bytes.extend(&all.to_be_bytes()[1..four.len()]);
    }
    bytes
}
