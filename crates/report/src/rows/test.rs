//! Tables against the results that they are made of.

use proptest::prelude::*;
use stats::Origin;
use stats::sweep::Setting;

use super::*;
use crate::generated;

/// A table as a statistics program reads it: the names, and the fields of each row.
struct Read {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn source() -> Source {
    Source { run: "a,\"b\"\nc".to_owned(), step: 1, repeat: 1, ..Source::default() }
}

fn read(which: Rows, source: &Source, result: &RunResult) -> Read {
    let columns = columns(which, &source.settings);
    let mut out = Vec::new();
    csv::head(&columns, &mut out).unwrap();
    csv::write(&rows(which, &columns, source, result), &mut out).unwrap();
    let mut all = parsed(&String::from_utf8(out).unwrap()).into_iter();
    let names = all.next().unwrap();
    let rows: Vec<Vec<String>> = all.collect();
    assert!(rows.iter().all(|row| row.len() == names.len()));
    Read { names, rows }
}

/// Records of RFC 4180, by its grammar.
fn parsed(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, text.chars().peekable());
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', false) => record.push(std::mem::take(&mut field)),
            ('\n', false) => {
                record.push(std::mem::take(&mut field));
                all.push(std::mem::take(&mut record));
            }
            _ => field.push(c),
        }
    }
    assert!(field.is_empty() && record.is_empty() && !quoted);
    all
}

impl Read {
    fn column(&self, name: &str) -> impl Iterator<Item = &str> {
        let at = self.names.iter().position(|it| it == name).unwrap_or_else(|| panic!("{name}"));
        self.rows.iter().map(move |row| &row[at][..])
    }

    fn numbers(&self, name: &str) -> Vec<f64> {
        let number = |text: &str| if text.is_empty() { 0.0 } else { text.parse().unwrap() };
        self.column(name).map(number).collect()
    }

    fn sum(&self, name: &str) -> f64 {
        self.numbers(name).iter().sum()
    }

    /// Sum of rates times the length of each row.
    fn total(&self, rate: &str) -> f64 {
        let seconds = self.numbers("seconds");
        self.numbers(rate).iter().zip(seconds).map(|(rate, seconds)| rate * seconds).sum()
    }
}

fn near(says: f64, is: f64, what: &str) {
    assert!((says - is).abs() <= 1e-9 * is.abs() + 1e-6, "{what}: {says} for {is}");
}

/// Rows times their seconds are the totals of the result.
fn adds_up(result: &RunResult) {
    let (totals, workers) = (&result.totals, read(Rows::WorkerSeconds, &source(), result));
    let bytes = totals.read.bytes + totals.write.bytes + totals.trim.bytes;
    for (says, is, what) in [
        (workers.sum("ios"), totals.ios, "ios"),
        (workers.total("iops"), totals.ios, "iops x seconds"),
        (workers.total("read_iops"), totals.read.ios, "read_iops x seconds"),
        (workers.total("write_iops"), totals.write.ios, "write_iops x seconds"),
        (workers.total("bytes_per_s"), bytes, "bytes_per_s x seconds"),
        (workers.sum("reads"), totals.read.ios, "reads"),
        (workers.sum("writes"), totals.write.ios, "writes"),
        (workers.sum("trims"), totals.trim.ios, "trims"),
        (workers.sum("flushes"), totals.flush.ios, "flushes"),
        (workers.sum("read_bytes"), totals.read.bytes, "read_bytes"),
        (workers.sum("written_bytes"), totals.write.bytes, "written_bytes"),
        (workers.sum("trimmed_bytes"), totals.trim.bytes, "trimmed_bytes"),
        (workers.sum("errors"), totals.errors, "errors"),
    ] {
        near(says, is as f64, what);
    }
    let seconds = read(Rows::Seconds, &source(), result);
    near(seconds.total("iops"), totals.ios as f64, "all: iops x seconds");
    near(seconds.total("bytes_per_s"), totals.bytes_per_second * totals.seconds, "all: bytes");
    near(seconds.sum("seconds"), totals.seconds, "all: seconds");
    let directions = read(Rows::Totals, &source(), result);
    near(directions.numbers("ios")[0], totals.ios as f64, "totals: ios");
    near(directions.total("iops"), (2 * totals.ios + totals.flush.ios) as f64, "totals: rates");
    for table in [&workers, &seconds, &directions] {
        assert!(table.column("run").all(|run| run == "a,\"b\"·c"));
        assert!(table.column("origin").all(|origin| origin == result.origin.word()));
        assert!(table.column("class").all(|class| class == result.class.word()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn rows_times_seconds_are_the_totals(which in 0_usize..600, origin in 0_usize..3) {
        let all = generated::hundred().iter().chain(generated::drawn());
        let mut result = all.clone().nth(which % all.count()).unwrap().clone();
        result.origin = [Origin::Measured, Origin::Emulated, Origin::Simulated][origin];
        adds_up(&result);
        // The result, read back from its document.
        let text = serde_json::to_string(&result).unwrap();
        adds_up(&serde_json::from_str(&text).unwrap());
    }
}

#[test]
fn results_of_earlier_versions_have_one_worker_that_is_all() {
    let mut result = generated::hundred()[3].clone();
    result.workers.iter_mut().for_each(|worker| worker.intervals = Default::default());
    let table = read(Rows::WorkerSeconds, &source(), &result);
    assert!(table.column("worker").all(|worker| worker == "all"));
    near(table.total("iops"), result.totals.ios as f64, "iops");
    // Still earlier ones do not say how long a row is.
    result.intervals.iter_mut().for_each(|second| (second.seconds, second.ios) = (0.0, 0));
    let table = read(Rows::WorkerSeconds, &source(), &result);
    near(table.total("iops"), result.totals.ios as f64, "iops");
}

#[test]
fn percentiles_are_those_of_the_result_and_nothing_where_they_are_withheld() {
    for result in generated::hundred() {
        let table = read(Rows::Totals, &source(), result);
        let p99: Vec<&str> = table.column("latency_p99_ns").collect();
        let is = result.totals.latency_ns.p99.map_or_else(String::new, |ns| ns.to_string());
        assert_eq!(p99[0], is);
        let directions: Vec<&str> = table.column("direction").collect();
        assert_eq!(directions[0], "all");
        let reads = directions.iter().filter(|name| **name == "read").count();
        let of = &result.totals.read;
        let used = of.ios > 0 || of.errors > 0 || of.latency_ns.samples > 0;
        assert_eq!(reads, usize::from(used));
    }
}

#[test]
fn settings_are_columns_with_their_unit() {
    let setting = |word: &str, value: &str| Setting { word: word.into(), value: value.into() };
    let settings = vec![
        setting("size", "4k"),
        setting("places", "zipf:1.2"),
        setting("size", "64k"),
        setting("workload.think.us", "3"),
        setting("length", "1g"),
        setting("length", "25%"),
    ];
    let named: Vec<(String, Kind)> = columns(Rows::Totals, &settings)
        .into_iter()
        .filter(|column| column.name.starts_with("axis_"))
        .map(|column| (column.name, column.kind))
        .collect();
    let wanted = [
        ("axis_size_bytes", Kind::Real),
        ("axis_places", Kind::Text),
        ("axis_workload_think_us", Kind::Real),
        ("axis_length", Kind::Text),
    ];
    assert_eq!(named, wanted.map(|(name, kind)| (name.to_owned(), kind)));
    let source = Source { settings: settings[..2].to_vec(), ..source() };
    let table = read(Rows::Totals, &source, &generated::hundred()[0]);
    assert!(table.column("axis_size_bytes").all(|size| size == "4096"));
    assert!(table.column("axis_places").all(|law| law == "zipf:1.2"));
}

#[test]
fn no_table_has_a_name_twice_and_no_name_needs_quotes() {
    for which in [Rows::WorkerSeconds, Rows::Seconds, Rows::Totals] {
        let mut names = super::columns::names(which);
        let plain = |name: &String| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        assert!(names.iter().all(plain), "{names:?}");
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

/// The reference page names every column.
#[test]
fn the_reference_names_every_column() {
    let page = include_str!("../../../../docs/reference/tables.md");
    for which in [Rows::WorkerSeconds, Rows::Seconds, Rows::Totals] {
        for name in super::columns::names(which) {
            assert!(page.contains(&format!("`{name}`")), "{name} is not in tables.md");
        }
    }
}
