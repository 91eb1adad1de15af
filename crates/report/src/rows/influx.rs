//! Rows as InfluxDB line protocol: one point for each row, `drumfire_worker` for a worker in a
//! second, `drumfire_run` for a run in a second. Texts are tags, numbers fields; the time is the
//! end of the row in nanoseconds since 1970.

use std::fmt::Write as _;
use std::io::{self, Write};

use stats::RunResult;

use super::{Column, Kind, Rows, Source, Value, columns, rows};

/// Columns that the time of a point replaces.
const OF_THE_TIME: [&str; 2] = ["t_s", "started"];

/// Writes the points of a result: those of each worker, and those of all workers.
///
/// # Errors
///
/// An invalid start date of the result, and errors of the writer.
pub fn write(source: &Source, result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let started = result.started.parse::<jiff::Timestamp>().map_err(io::Error::other)?;
    let started_ns = started.as_nanosecond();
    let tables = [("drumfire_worker", Rows::WorkerSeconds), ("drumfire_run", Rows::Seconds)];
    for (measurement, which) in tables {
        let columns = columns(which, &source.settings);
        for row in rows(which, &columns, source, result) {
            if let Some(line) = point(measurement, &columns, &row, started_ns) {
                writeln!(out, "{line}")?;
            }
        }
    }
    Ok(())
}

/// Makes a line; `None` for a row without a field, which the protocol does not allow.
fn point(name: &str, columns: &[Column], row: &[Value], started_ns: i128) -> Option<String> {
    let (mut tags, mut fields, mut t_s) = (String::new(), String::new(), 0.0);
    for (column, value) in columns.iter().zip(row) {
        if let (Value::Real(end_s), "t_s") = (value, &column.name[..]) {
            t_s = *end_s;
        }
        if OF_THE_TIME.contains(&&column.name[..]) {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = match (value, column.kind) {
            (Value::None, _) => Ok(()),
            (Value::Text(text), _) => write!(tags, ",{}={}", column.name, escaped(text)),
            // A field is of one kind for all time, and 64-bit whole numbers have a sign there.
            (Value::Whole(number), Kind::Whole) => {
                write!(fields, ",{}={}i", column.name, (*number).min(i64::MAX as u64))
            }
            (Value::Whole(number), _) => write!(fields, ",{}={number}", column.name),
            (Value::Real(number), _) => write!(fields, ",{}={number}", column.name),
        };
    }
    let at_ns = started_ns + (t_s * 1e9).round() as i128;
    let fields = fields.strip_prefix(',')?;
    Some(format!("{name}{tags} {fields} {at_ns}"))
}

/// Escapes commas, spaces, equal signs and backslashes of a tag's value. Control characters become
/// spaces.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            ',' | ' ' | '=' | '\\' => escaped.extend(['\\', c]),
            c if c.is_control() => escaped.push_str("\\ "),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::generated;

    /// Names with values.
    type Pairs = Vec<(String, String)>;

    /// A line by the grammar of the protocol: its measurement, tags, fields and time.
    fn parsed(line: &str) -> (String, Pairs, Pairs, i128) {
        let split = |text: &str, at: char| -> Vec<String> {
            let (mut parts, mut chars) = (vec![String::new()], text.chars());
            while let Some(c) = chars.next() {
                match c {
                    '\\' => {
                        let last = parts.last_mut().unwrap();
                        last.extend([c, chars.next().unwrap()]);
                    }
                    c if c == at => parts.push(String::new()),
                    c => parts.last_mut().unwrap().push(c),
                }
            }
            parts
        };
        let pair = |text: &String| -> (String, String) {
            let [name, value] = &split(text, '=')[..] else { panic!("{line}: {text}") };
            (name.clone(), value.clone())
        };
        let [head, fields, time] = &split(line, ' ')[..] else { panic!("{line}") };
        let head = split(head, ',');
        let tags = head[1..].iter().map(pair).collect();
        let fields = split(fields, ',').iter().map(pair).collect();
        (head[0].clone(), tags, fields, time.parse().unwrap())
    }

    #[test]
    fn every_line_is_a_point_and_their_sums_are_those_of_the_result() {
        let run = "a folder, with=odd\\\nname".to_owned();
        let source = Source { run, step: 1, repeat: 1, ..Source::default() };
        for result in generated::hundred() {
            let mut out = Vec::new();
            write(&source, result, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            let mut ios = [0, 0];
            for line in text.lines() {
                let (measurement, tags, fields, at_ns) = parsed(line);
                let number = |name: &str| -> Option<i64> {
                    let (_, value) = fields.iter().find(|(it, _)| it == name)?;
                    value.strip_suffix('i')?.parse().ok()
                };
                let which = usize::from(measurement == "drumfire_run");
                ios[which] += number("ios").unwrap();
                assert!(tags.contains(&("origin".to_owned(), "measured".to_owned())), "{line}");
                assert!(tags.iter().any(|(name, _)| name == "class"), "{line}");
                let of_run = tags.iter().find(|(name, _)| name == "run").unwrap();
                assert_eq!(of_run.1, "a\\ folder\\,\\ with\\=odd\\\\\\ name");
                // 2026-11-20T08:00:00Z and some seconds.
                let since_ns = at_ns - 1_795_161_600_000_000_000;
                assert!((0..20_000_000_000).contains(&since_ns), "{line}");
            }
            let all = i64::try_from(result.totals.ios).unwrap();
            assert_eq!(ios, [all, all]);
        }
    }

    #[test]
    fn a_result_of_no_day_is_refused() {
        let result = RunResult { started: "some day".to_owned(), ..generated::small(1) };
        assert!(write(&Source::default(), &result, &mut Vec::new()).is_err());
    }
}
