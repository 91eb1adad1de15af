//! Output of `spdk_nvme_perf -LL`: a histogram for each namespace and core, in ranges of
//! microseconds that depend on the rate of the host's clock. A range is named by its upper end, as
//! in the percentiles of that program.

use std::collections::BTreeMap;

use super::{ENTRIES_MAX, Entry};

/// Before the name of a list of percentiles, and of a histogram.
const SUMMARY: &str = "Summary latency data for ";
const HISTOGRAM: &str = "Latency histogram for ";
/// Heading of the table of rates.
const TABLE: &str = "Device Information";
/// Ranges of a histogram of that program.
const RANGES_MAX: usize = 58 << 7;
/// Longest latency that is believed, in microseconds: a day.
const LONGEST_US: f64 = 86_400e6;

/// Whether a text is the output of that program.
pub fn is_spdk(text: &[u8]) -> bool {
    const HEAD: usize = 1 << 16;
    let head = &text[..text.len().min(HEAD)];
    [SUMMARY, TABLE].iter().any(|name| head.windows(name.len()).any(|at| at == name.as_bytes()))
}

/// Counts by the ends of ranges in nanoseconds.
type Bins = BTreeMap<u64, u64>;

/// A list below its heading.
#[derive(Default)]
struct Lists {
    names: Vec<String>,
    bins: Vec<Bins>,
    /// Beginning of the first range of each histogram, in nanoseconds.
    begins: Vec<u64>,
    percentiles: Vec<Vec<(f64, u64)>>,
    /// IOPS, mean, minimum and maximum (µs) of each row of the table.
    rows: Vec<[f64; 4]>,
}

/// Part of the output that a line is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Elsewhere,
    Table,
    Summary,
    Histogram,
}

/// Reads the histograms of a file.
///
/// # Errors
///
/// The file has no histograms, or none that `spdk_nvme_perf` could have written.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<Entry>, String> {
    let text = String::from_utf8_lossy(text);
    let mut lists = Lists::default();
    let mut place = Place::Elsewhere;
    for (number, line) in (1..).zip(text.lines()) {
        let wrong = |why: &str| format!("{file}:{number}: {why}");
        if let Some(name) = line.trim_start().strip_prefix(HISTOGRAM) {
            place = Place::Histogram;
            let words: Vec<&str> = name.trim_end_matches(':').split_whitespace().collect();
            lists.names.push(words.join(" "));
            lists.bins.push(BTreeMap::new());
            lists.begins.push(0);
        } else if line.trim_start().starts_with(SUMMARY) {
            place = Place::Summary;
            lists.percentiles.push(Vec::new());
        } else if line.trim_start().starts_with(TABLE) {
            place = Place::Table;
        } else {
            lists.take(place, line).map_err(|why| wrong(&why))?;
        }
        if lists.names.len() > ENTRIES_MAX || lists.percentiles.len() > ENTRIES_MAX {
            return Err(wrong("more histograms than are merged"));
        }
    }
    if lists.names.is_empty() {
        return Err(format!(
            "{file}: no histogram, and percentiles cannot be merged: run spdk_nvme_perf with -LL"
        ));
    }
    lists.entries(file)
}

impl Lists {
    /// Takes a line below a heading; other lines are of no interest.
    fn take(&mut self, place: Place, line: &str) -> Result<(), String> {
        match place {
            Place::Histogram => {
                let Some((from_us, to_us, count)) = range(line) else { return Ok(()) };
                let bins = self.bins.last_mut().expect("a heading was above");
                let begin = self.begins.last_mut().expect("a heading was above");
                if bins.is_empty() {
                    *begin = ns(from_us)?;
                }
                if bins.insert(ns(to_us)?, count).is_some() || bins.len() > RANGES_MAX {
                    return Err("a range twice, or more than there are".to_owned());
                }
            }
            Place::Summary => {
                let Some((percent, us)) = percentile(line) else { return Ok(()) };
                let list = self.percentiles.last_mut().expect("a heading was above");
                if list.len() > RANGES_MAX || !(0.0..=100.0).contains(&percent) {
                    return Err("no percentile".to_owned());
                }
                list.push((percent, ns(us)?));
            }
            Place::Table => {
                if let Some(row) = row(line).filter(|_| self.rows.len() < ENTRIES_MAX) {
                    self.rows.push(row);
                }
            }
            Place::Elsewhere => {}
        }
        Ok(())
    }

    fn entries(self, file: &str) -> Result<Vec<Entry>, String> {
        // Both lists are in the order of the table, which omits entries without I/Os.
        let of_table = self.rows.len() == self.names.len();
        let summaries = self.percentiles.len() == self.names.len();
        let each = self.names.into_iter().zip(self.bins).zip(self.begins).enumerate();
        let entries = each.filter(|(_, ((_, bins), _))| !bins.is_empty());
        let entry = |(at, ((name, bins), begin_ns)): (usize, ((String, Bins), u64))| {
            let row = self.rows.get(at).filter(|_| of_table);
            let samples: f64 = bins.values().map(|count| *count as f64).sum();
            let sum: f64 = bins.iter().map(|(ns, count)| *ns as f64 * *count as f64).sum();
            let last_ns = bins.keys().next_back().copied().unwrap_or_default();
            let figure = |index: usize, other: f64| match row {
                Some(row) => row[index] * 1e3,
                None => other,
            };
            Entry {
                name: format!("{file} {name}"),
                direction: "all",
                field: "latency",
                min_ns: figure(2, begin_ns as f64) as u64,
                max_ns: figure(3, last_ns as f64) as u64,
                mean_ns: figure(1, sum / samples.max(1.0)),
                percentiles: match self.percentiles.get(at) {
                    Some(list) if summaries => list.clone(),
                    _ => Vec::new(),
                },
                iops: row.map_or(0.0, |row| row[0]),
                bins,
                is_sum: false,
            }
        };
        let entries: Vec<Entry> = entries.map(entry).collect();
        match entries.is_empty() {
            true => Err(format!("{file}: no I/Os in it")),
            false => Ok(entries),
        }
    }
}

/// Microseconds in nanoseconds, exact to the three digits that are printed.
fn ns(us: f64) -> Result<u64, String> {
    match (0.0..=LONGEST_US).contains(&us) {
        true => Ok((us * 1e3).round() as u64),
        false => Err(format!("{us} µs is no latency")),
    }
}

/// `    2.987 -     3.000:    0.0017%  (        3)`: beginning, end and count.
fn range(line: &str) -> Option<(f64, f64, u64)> {
    let (ends, rest) = line.split_once(':')?;
    let (from, to) = ends.split_once(" - ")?;
    let count = rest.split_once('(')?.1.split_once(')')?.0;
    Some((from.trim().parse().ok()?, to.trim().parse().ok()?, count.trim().parse().ok()?))
}

/// ` 99.90000% :    33.019us`: percent and microseconds.
fn percentile(line: &str) -> Option<(f64, f64)> {
    let (percent, us) = line.split_once("% :")?;
    Some((percent.trim().parse().ok()?, us.trim().strip_suffix("us")?.trim().parse().ok()?))
}

/// Returns the figures of a table row: IOPS, MiB/s, average, minimum, maximum. Sums are no rows.
fn row(line: &str) -> Option<[f64; 4]> {
    let (name, figures) = line.rsplit_once(':')?;
    if name.trim() == "Total" {
        return None;
    }
    let figures: Option<Vec<f64>> = figures.split_whitespace().map(|it| it.parse().ok()).collect();
    let figures = figures.filter(|all| all.iter().all(|it| (0.0..=1e15).contains(it)))?;
    match figures[..] {
        [iops, _, mean, min, max] => Some([iops, mean, min, max]),
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use super::super::together;
    use super::*;

    /// One file: a namespace on two cores, with their counts in three ranges.
    fn output(counts: [[u64; 3]; 2]) -> String {
        let ends = [(9.5, 10.0), (99.0, 100.0), (990.0, 1000.0)];
        let mut text = String::from(
            "Initializing NVMe Controllers\n\
             ========================================================\n\
             Device Information : IOPS MiB/s Average min max\n",
        );
        for core in 0..2 {
            text +=
                &format!("TCP (a) NSID 1 from core  {core}:  1000.00  3.91  20.00  9.60  999.00\n");
        }
        text += "========================================================\n\
                 Total                  :  2000.00  7.81  20.00  9.60  999.00\n\n";
        for (core, counts) in counts.iter().enumerate() {
            text += &format!("Summary latency data for TCP (a) NSID 1   from core {core}:\n====\n");
            let total: u64 = counts.iter().sum();
            for percent in [50.0, 99.0] {
                let mut seen = 0;
                let end = ends.iter().zip(counts).find(|(_, count)| {
                    seen += **count;
                    seen as f64 >= percent / 100.0 * total as f64
                });
                text += &format!("{percent:9.5}% : {:9.3}us\n", end.unwrap().0.1);
            }
            text += "\n";
        }
        for (core, counts) in counts.iter().enumerate() {
            text += &format!("Latency histogram for TCP (a) NSID 1   from core {core}:\n====\n");
            text += "       Range in us     Cumulative    IO count\n";
            for ((from, to), count) in ends.iter().zip(counts).filter(|(_, count)| **count > 0) {
                text += &format!("{from:9.3} - {to:9.3}: {:9.4}%  ({count:9})\n", 1.0);
            }
            text += "\n";
        }
        text
    }

    #[test]
    fn cores_and_files_merge() {
        let text = output([[900, 90, 10], [100, 0, 900]]);
        assert!(is_spdk(text.as_bytes()) && !is_spdk(b"{\"fio version\": 1}"));
        let entries = read("x.txt", text.as_bytes()).unwrap();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[0].name, "x.txt TCP (a) NSID 1 from core 0");
        let [all] = &together(&entries).unwrap()[..] else { panic!("one direction") };
        assert_eq!((all.samples, all.iops, all.min_ns, all.max_ns), (2000, 2000.0, 9600, 999_000));
        let rows: Vec<(f64, u64, Option<f64>)> = all
            .percentiles
            .iter()
            .map(|row| (row.percent, row.merged_ns, row.average_ns))
            .collect();
        // Half of all took at most 10 µs; the average of both medians is far from that.
        assert_eq!(rows, [(50.0, 10_000, Some(505_000.0)), (99.0, 1_000_000, Some(550_000.0))]);
    }

    #[test]
    fn what_has_no_histogram_is_refused() {
        let text = output([[1, 1, 1], [1, 1, 1]]);
        let (head, _) = text.split_once("Latency histogram").unwrap();
        assert!(read("x", head.as_bytes()).unwrap_err().contains("-LL"));
        let twice = text.replace("   99.000 -   100.000", "    9.500 -    10.000");
        assert!(read("x", twice.as_bytes()).unwrap_err().contains("a range twice"));
        let huge = text.replace("1000.000:", "1e300:");
        assert!(read("x", huge.as_bytes()).unwrap_err().contains("is no latency"));
        let negative = text.replace("(        1)", "(       -1)");
        assert!(read("x", negative.as_bytes()).unwrap_err().contains("no I/Os"));
    }
}
