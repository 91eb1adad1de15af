//! Percentiles that a fio job requests, in the table for a terminal.

use std::io::{self, Write};

use serde_json::Value;
use stats::RunResult;

use crate::group::{self, Group, Part};
use crate::style::Paint;
use crate::{figure, fio};

/// Width of a label at the beginning of a line.
const LABEL: usize = 9;
/// Percentiles in a row.
const COLUMNS: usize = 8;

/// Writes the percentiles that each group of the job requests, if any.
pub(crate) fn write(result: &RunResult, paint: Paint, out: &mut impl Write) -> io::Result<()> {
    for group in group::groups(result) {
        let listed = group.figures.get("percentiles").and_then(Value::as_array);
        let percents: Vec<f64> = listed.into_iter().flatten().filter_map(Value::as_f64).collect();
        for part in percents.chunks(COLUMNS) {
            table(&group, part, paint, out)?;
        }
    }
    Ok(())
}

fn table(
    group: &Group<'_>,
    percents: &[f64],
    paint: Paint,
    out: &mut impl Write,
) -> io::Result<()> {
    let heads = percents.iter().map(|percent| format!("{:>9}", format!("p{percent}")));
    let heads: String = heads.collect();
    writeln!(out, "{}", paint.dim(&format!("{:LABEL$}{heads}  of {}", "", group.name)))?;
    let parts = [("reads", &group.read), ("writes", &group.write), ("trims", &group.trim)];
    let parts = parts.into_iter().chain([("flushes", &group.flush)]);
    for (name, part) in parts.filter(|(_, part)| part.samples > 0) {
        writeln!(out, "{name:LABEL$}{}", cells(part, percents))?;
    }
    Ok(())
}

/// The percentiles by fio's rule; none that too few I/Os lie above.
fn cells(part: &Part, percents: &[f64]) -> String {
    let found = fio::percentiles(&part.buckets, percents);
    let cell = |percent: &f64| {
        let p = percent / 100.0;
        let enough =
            stats::supports(part.samples, p) && part.moments.is_none_or(|it| it.supports(p));
        let known = enough || *percent == 100.0;
        let value = found.iter().find(|(found, _)| found == percent).filter(|_| known);
        format!("{:>9}", figure::latency(value.map(|(_, ns)| *ns)))
    };
    percents.iter().map(cell).collect()
}

#[cfg(test)]
mod test {
    use serde_json::json;

    use super::*;
    use crate::sample;

    #[test]
    fn only_what_is_asked_for_is_added() {
        let written = |result: &RunResult| {
            let mut out = Vec::new();
            write(result, Paint::PLAIN, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut result = sample::counted();
        assert_eq!(written(&result), "");
        let figures = json!({ "percentiles": [25.0, 99.9, 100.0] });
        result.spec["steps"][0]["groups"][0]["figures"] = figures;
        let expected = "               p25    p99.9     p100  of race\n\
            reads      99.8 µs      n/a  99.8 µs\n\
            writes     8.03 ms      n/a  8.03 ms\n";
        assert_eq!(written(&result), expected);
    }
}
