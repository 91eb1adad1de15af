//! A HdrHistogram log: one line for each second of a run, as the tools of that project read it.

use std::io::{self, Write};
use std::time::Duration;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use stats::{Buckets, RunResult, Span};

use crate::ended;
use crate::reason;

/// Three digits: finer than the buckets of a result, so nothing is lost.
const DIGITS: u8 = 3;

/// Writes the log, in nanoseconds. A result without histograms has a log without lines.
pub fn write(result: &RunResult, out: &mut impl Write) -> io::Result<()> {
    let started: jiff::Timestamp = result.started.parse().unwrap_or_default();
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.with_start_time(started.into()).with_base_time(started.into());
    // In nanoseconds: the unit that is divided by to show the longest.
    builder.with_max_value_divisor(1.0);
    let comment = format!("[Histogram log format version 1.3, {}, in ns]", result.job.name);
    builder.add_comment(&comment.replace(['\n', '\r'], " "));
    let trust = [
        Some(format!("[Origin: {}]", result.origin.with(result.kind))),
        Some(format!("[Class: {}]", reason::verdict(result))),
        result.partial.as_ref().map(|why| format!("[Partial result: {why}]")),
        ended::waiting(&result.totals.waiting)
            .map(|waiting| format!("[{waiting}: counted with their age]")),
    ];
    for line in trust.into_iter().flatten() {
        builder.add_comment(&line.replace(['\n', '\r'], " "));
    }
    let mut log = builder.begin_log_with(out, &mut serializer)?;
    let whole = [Span {
        from_s: 0.0,
        to_s: result.totals.seconds,
        max_ns: result.totals.latency_ns.max.unwrap_or(0),
        buckets: result.histograms.all(),
    }];
    let spans = if result.spans.is_empty() { &whole[..] } else { &result.spans };
    for span in spans.iter().filter(|span| !span.buckets.is_empty()) {
        let histogram = histogram(&span.buckets);
        let length = seconds(span.to_s - span.from_s);
        log.write_histogram(&histogram, seconds(span.from_s), length, None)
            .map_err(|error| io::Error::other(format!("{error:?}")))?;
    }
    Ok(())
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default()
}

/// Each bucket is counted at its middle.
fn histogram(buckets: &Buckets) -> Histogram<u64> {
    let mut histogram = Histogram::new(DIGITS).expect("three digits are allowed");
    for bucket in buckets.iter() {
        let middle = bucket.from_ns / 2 + bucket.to_ns / 2 + (bucket.from_ns & bucket.to_ns & 1);
        // The histogram resizes itself: every 64-bit number fits.
        let counted = histogram.record_n(middle, bucket.count);
        counted.expect("a histogram that grows");
    }
    histogram
}

#[cfg(test)]
mod test {
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::forms::read::base64;
    use crate::sample;

    #[test]
    fn the_tools_of_that_project_read_it() {
        let result = sample::counted();
        let mut out = Vec::new();
        write(&result, &mut out).unwrap();
        assert!(String::from_utf8_lossy(&out).contains("#[Class: indicative"));
        let mut deserializer = Deserializer::new();
        let mut counts = Vec::new();
        for entry in IntervalLogIterator::new(&out) {
            let Ok(LogEntry::Interval(line)) = entry else { continue };
            let bytes = base64(line.encoded_histogram());
            let histogram: Histogram<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
            assert!(histogram.max() >= 7_900_000, "{}", histogram.max());
            counts.push((line.duration().as_secs_f64(), histogram.len()));
        }
        assert_eq!(counts, [(1.0, 2000), (1.0, 1000)]);
    }
}
