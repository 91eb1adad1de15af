//! Results of fio: `--output-format=json+`, of one process or of a client with its servers, with
//! any number of sections.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{ENTRIES_MAX, Entry};

/// Fields with a histogram, the usual one first: total latencies with `lat_percentiles=1`.
const FIELDS: [&str; 3] = ["clat_ns", "lat_ns", "slat_ns"];
/// Buckets of fio's histogram: `FIO_IO_U_PLAT_NR`.
const BINS_MAX: usize = 29 << 6;
/// Job name of the sum that a client prints over its servers.
const ALL: &str = "All clients";

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    jobs: Vec<Job>,
    #[serde(default)]
    client_stats: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    #[serde(default)]
    jobname: String,
    #[serde(default)]
    hostname: Option<String>,
    #[serde(default)]
    port: Option<u16>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
}

#[derive(Deserialize)]
struct Direction {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    clat_ns: Option<Spread>,
    lat_ns: Option<Spread>,
    slat_ns: Option<Spread>,
}

#[derive(Deserialize)]
struct Spread {
    #[serde(default)]
    min: u64,
    #[serde(default)]
    max: u64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Whether a text is a result of fio. Lines before the document are those of fio, too.
pub fn is_fio(text: &[u8]) -> bool {
    const HEAD: usize = 1 << 16;
    let head = &text[..text.len().min(HEAD)];
    let name = b"\"fio version\"";
    head.windows(name.len()).any(|window| window == name)
}

/// Reads all documents of a file.
///
/// # Errors
///
/// The file is not a result of fio, or has no histograms.
pub fn read(file: &str, text: &[u8]) -> Result<Vec<Entry>, String> {
    let start = text.iter().position(|byte| *byte == b'{');
    let text = start.map_or(&[][..], |start| &text[start..]);
    let mut entries = Vec::new();
    // With several sections or intervals, fio prints several documents.
    for document in serde_json::Deserializer::from_slice(text).into_iter::<Document>() {
        let document = document.map_err(|error| format!("{file}: no result of fio: {error}"))?;
        if !document.version.starts_with("fio") {
            return Err(format!("{file}: no result of fio"));
        }
        for job in document.jobs.iter().chain(&document.client_stats) {
            add(file, job, &mut entries)?;
            if entries.len() > ENTRIES_MAX {
                return Err(format!("{file}: more than {ENTRIES_MAX} histograms"));
            }
        }
    }
    match entries.is_empty() {
        true => Err(format!("{file}: no I/Os in it")),
        false => Ok(entries),
    }
}

fn add(file: &str, job: &Job, entries: &mut Vec<Entry>) -> Result<(), String> {
    let host = match (&job.hostname, job.port) {
        (Some(host), Some(port)) => format!(" {host}:{port}"),
        (Some(host), None) => format!(" {host}"),
        (None, _) => String::new(),
    };
    let name = format!("{file}{host} {}", job.jobname);
    let ways = [("read", &job.read), ("write", &job.write), ("trim", &job.trim)];
    for (direction, of) in ways {
        let Some(of) = of.as_ref().filter(|of| of.total_ios > 0) else { continue };
        let spreads = FIELDS.into_iter().zip([&of.clat_ns, &of.lat_ns, &of.slat_ns]);
        let found = spreads
            .filter_map(|(field, spread)| Some((field, spread.as_ref()?)))
            .find(|(_, spread)| !spread.bins.is_empty());
        let Some((field, spread)) = found else {
            return Err(format!(
                "{name}: {direction} has no histogram, and percentiles cannot be merged: run fio \
                 with --output-format=json+"
            ));
        };
        let percentiles = numbers(&spread.percentile, |text| text.parse::<f64>().ok());
        let bins = numbers(&spread.bins, |text| text.parse::<u64>().ok());
        let (Some(mut percentiles), Some(bins)) = (percentiles, bins) else {
            return Err(format!("{name}: {direction} {field} has a name that is no number"));
        };
        let good = percentiles.iter().all(|(p, _)| (0.0..=100.0).contains(p));
        let good = good && spread.mean >= 0.0 && of.iops >= 0.0 && spread.min <= spread.max;
        if !good || bins.len() > BINS_MAX {
            return Err(format!("{name}: {direction} {field} is no histogram of fio"));
        }
        percentiles.sort_by(|a, b| a.0.total_cmp(&b.0));
        entries.push(Entry {
            name: name.clone(),
            direction,
            field,
            bins: bins.into_iter().collect(),
            min_ns: spread.min,
            max_ns: spread.max,
            mean_ns: spread.mean,
            percentiles,
            iops: of.iops,
            is_sum: job.jobname == ALL,
        });
    }
    Ok(())
}

/// Names that are numbers, with their values; `None` if one is none.
fn numbers<T>(
    of: &BTreeMap<String, u64>,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<Vec<(T, u64)>> {
    of.iter().map(|(text, value)| Some((parse(text)?, *value))).collect()
}
