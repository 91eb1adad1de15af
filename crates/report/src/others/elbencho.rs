//! Output of elbencho with `--lat --lathisto --latpercent`: a histogram for each phase, with four
//! buckets for each power of two microseconds, named by their upper ends. Its CSV and JSON files
//! have no histograms.

use std::collections::BTreeMap;

use super::Entry;

/// Buckets of its histogram.
const BUCKETS_MAX: usize = 112;
/// Phases of a file that are read.
const PHASES_MAX: usize = 1 << 12;
/// End of its last bucket, in microseconds.
const LONGEST_US: f64 = (1_u64 << 28) as f64;

/// Whether a text is the output of that program.
pub fn is_elbencho(text: &[u8]) -> bool {
    const HEAD: usize = 1 << 16;
    let head = &text[..text.len().min(HEAD)];
    let heading = b"OPERATION";
    head.windows(heading.len()).any(|at| at == heading)
        && head.windows(11).any(|at| at == b"RESULT TYPE")
}

/// Figures of the current phase so far, by kind of operation.
#[derive(Default)]
struct Phase {
    name: String,
    percentiles: BTreeMap<&'static str, Vec<(f64, u64)>>,
    iops: f64,
}

/// Reads the histograms of a file.
///
/// # Errors
///
/// The file has no histograms, or none that elbencho could have written.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<Entry>, String> {
    let text = String::from_utf8_lossy(text);
    let mut entries = Vec::new();
    let mut phase = Phase::default();
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: &str| format!("{file}:{number}: {why}");
        let Some((left, right)) = line.split_once(" : ").or(line.split_once(": [")) else {
            continue;
        };
        // A phase begins with its name in the first column.
        if !left.starts_with(' ')
            && let Some(name) = left.split_whitespace().next()
        {
            phase = Phase { name: name.to_owned(), ..Phase::default() };
        }
        let label = left.trim();
        let list = right.trim().trim_start_matches('[').trim_end_matches(']').trim();
        if let Some(what) = label.strip_suffix(" lat % us") {
            let Some(direction) = direction(what, &phase.name) else { continue };
            let found = percentiles(list).ok_or_else(|| wrong("no percentiles"))?;
            phase.percentiles.insert(direction, found);
        } else if let Some(what) = label.strip_suffix(" lat hist") {
            let Some(direction) = direction(what, &phase.name) else { continue };
            let bins = bins(list).ok_or_else(|| wrong("no histogram, or one that was exceeded"))?;
            entries.push(entry(file, &mut phase, direction, bins));
        } else if label == "IOPS" {
            phase.iops = list.split_whitespace().next_back().and_then(rate).unwrap_or(0.0);
        }
        if entries.len() > PHASES_MAX {
            return Err(wrong("more phases than are read"));
        }
    }
    match entries.is_empty() {
        true => Err(format!(
            "{file}: no histogram of I/Os, and percentiles cannot be merged: run elbencho with \
             --lat --latpercent --lathisto"
        )),
        false => Ok(entries),
    }
}

fn entry(
    file: &str,
    phase: &mut Phase,
    direction: &'static str,
    bins: BTreeMap<u64, u64>,
) -> Entry {
    let samples: f64 = bins.values().map(|count| *count as f64).sum();
    let sum: f64 = bins.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
    Entry {
        name: format!("{file} {}", phase.name),
        direction,
        field: "IO latency",
        // elbencho's minimum and maximum are rounded for people.
        min_ns: bins.keys().next().copied().unwrap_or_default(),
        max_ns: bins.keys().next_back().copied().unwrap_or_default(),
        mean_ns: sum / samples.max(1.0),
        percentiles: phase.percentiles.remove(direction).unwrap_or_default(),
        iops: phase.iops,
        bins,
        is_sum: false,
    }
}

/// Direction of a kind of latency in a phase; `None` for those of files and folders.
fn direction(what: &str, phase: &str) -> Option<&'static str> {
    match what.trim() {
        "IO rd" => Some("read"),
        "IO wr" => Some("write"),
        "IO" if phase.contains("READ") => Some("read"),
        "IO" if phase.contains("WRITE") => Some("write"),
        "IO" => Some("all"),
        _ => None,
    }
}

/// `64: 123, 76: 4`: ends in microseconds with their counts.
fn bins(list: &str) -> Option<BTreeMap<u64, u64>> {
    let mut bins = BTreeMap::new();
    for pair in list.split(',') {
        let (end, count) = pair.split_once(':')?;
        if bins.insert(ns(end)?, count.trim().parse().ok()?).is_some() {
            return None;
        }
    }
    (bins.len() <= BUCKETS_MAX).then_some(bins)
}

/// `1%<=54 50%<=64 99.9%<=181`: percents with ends in microseconds.
fn percentiles(list: &str) -> Option<Vec<(f64, u64)>> {
    let one = |word: &str| {
        let (percent, end) = word.split_once("%<=")?;
        let percent: f64 = percent.parse().ok()?;
        (0.0..=100.0).contains(&percent).then_some((percent, ns(end)?))
    };
    list.split_whitespace().map(one).collect()
}

/// Microseconds in nanoseconds; none beyond the last bucket.
fn ns(us: &str) -> Option<u64> {
    let us: f64 = us.trim().parse().ok()?;
    (0.0..=LONGEST_US).contains(&us).then(|| (us * 1e3).round() as u64)
}

fn rate(text: &str) -> Option<f64> {
    text.parse().ok().filter(|rate| (0.0..=1e15).contains(rate))
}

#[cfg(test)]
mod test {
    use super::super::together;
    use super::*;

    const OUTPUT: &str = "\
OPERATION RESULT TYPE         FIRST DONE  LAST DONE
========= ================    ==========  =========
WRITE     Elapsed time     :         5ms        5ms
          IOPS             :        1000       2000
          IO latency       : [ min=50us avg=70us max=1.2ms ]
          IO lat % us      : [ 1%<=54 50%<=64 75%<=64 99%<=1024 99.9%<=1218 ]
          IO lat hist      : [ 54: 10, 64: 970, 1024: 15, 1218: 5 ]
---
READ      Elapsed time     :         5ms        5ms
          IOPS             :        3000       3000
          File lat hist    : [ 1024: 1 ]
          IO lat % us      : [ 1%<=9.5 50%<=9.5 75%<=9.5 99%<=9.5 99.9%<=9.5 ]
          IO lat hist      : [ 9.5: 1000 ]
---
";

    #[test]
    fn phases_of_files_merge() {
        assert!(is_elbencho(OUTPUT.as_bytes()) && !is_elbencho(b"OPERATION"));
        let mut entries = read("a.txt", OUTPUT.as_bytes()).unwrap();
        assert_eq!(entries.len(), 2);
        let slow = OUTPUT.replace("54: 10, 64: 970, 1024: 15, 1218: 5", "1024: 500, 1218: 500");
        entries.extend(read("b.txt", slow.as_bytes()).unwrap());
        let all = together(&entries).unwrap();
        let [read, write] = &all[..] else { panic!("two directions") };
        assert_eq!((read.samples, read.iops, read.max_ns), (2000, 6000.0, 9500));
        assert_eq!((write.samples, write.min_ns, write.entries), (2000, 54_000, 2));
        let at =
            |percent: f64| write.percentiles.iter().find(|row| row.percent == percent).unwrap();
        assert_eq!((at(50.0).merged_ns, at(75.0).merged_ns), (1_024_000, 1_218_000));
    }

    #[test]
    fn what_has_no_histogram_is_refused() {
        let without = OUTPUT.replace("lat hist", "lat");
        assert!(read("x", without.as_bytes()).unwrap_err().contains("--lathisto"));
        let exceeded = OUTPUT.replace("[ 9.5: 1000 ]", "[ Histogram size exceeded ]");
        assert!(read("x", exceeded.as_bytes()).unwrap_err().contains("exceeded"));
        let twice = OUTPUT.replace("64: 970", "54: 970");
        assert!(read("x", twice.as_bytes()).is_err());
    }
}
