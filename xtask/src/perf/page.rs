//! The page of a measurement: host, table, and contenders that were not measured.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::Entry;
use super::probe::Placement;
use super::sample::{Sample, figure};
use crate::process::{self, Show};

/// Number of rows from which a page is named after the first: file names have at most 255 bytes,
/// and a row's about thirty.
const MANY: usize = 5;

/// Facts about the machine.
pub struct Host {
    model: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    congestion: String,
    huge_pages: u64,
    /// The day, as 2026-11-20.
    pub date: String,
    commit: String,
}

impl Host {
    /// All properties but the date, in one line.
    pub fn line(&self) -> String {
        let Host { model, cores, memory_gib, kernel, congestion, huge_pages, commit, .. } = self;
        format!(
            "{model}, {cores} cores, {memory_gib} GiB, Linux {kernel}, TCP {congestion}, \
             {huge_pages} huge pages, commit {commit}"
        )
    }

    /// Reads the host's properties from the kernel.
    pub fn read() -> Host {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let value = |text: &str, key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_string())
        };
        let memory_kib = value(&read("/proc/meminfo"), "MemTotal");
        let memory_kib: u64 = memory_kib.trim_end_matches(" kB").parse().unwrap_or(0);
        Host {
            model: value(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.div_ceil(1 << 20),
            kernel: version(&read("/proc/sys/kernel/osrelease")),
            congestion: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().into(),
            huge_pages: read("/proc/sys/vm/nr_hugepages").trim().parse().unwrap_or(0),
            date: said("date", &["-u", "+%F"]),
            commit: said("git", &["rev-parse", "--short", "HEAD"]),
        }
    }
}

/// The kernel version without the vendor's suffix.
fn version(release: &str) -> String {
    release.trim().split('-').next().unwrap_or_default().into()
}

/// Path of today's raw tables of this host and `kind`; a separate page for `rows` chosen by name,
/// or after the first of many.
pub fn path(kind: &[String], rows: &[String]) -> PathBuf {
    let host = Host::read();
    let named = match rows {
        [first, more @ ..] if more.len() >= MANY => {
            vec![first.clone(), format!("and-{}-more", more.len())]
        }
        few => few.to_vec(),
    };
    let parts = [&[host.date, slug(&host.model)], kind, &named].concat();
    let name = format!("{}.md", parts.join("-"));
    crate::root().join("target/perf").join(name)
}

fn slug(model: &str) -> String {
    let lower = model.to_lowercase();
    let words = lower.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

/// First line that a program prints; empty without output.
fn said(program: &str, args: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(args).current_dir(crate::root());
    let outcome = process::run(&mut command, Duration::from_secs(5), Show::Nothing);
    let line = outcome.ok().and_then(|outcome| outcome.stdout.lines().next().map(String::from));
    line.unwrap_or_default()
}

/// The whole page.
pub fn write(host: &Host, entries: &[Entry], runs: usize, seconds: u64) -> String {
    let (date, machine) = (&host.date, host.line());
    let mut page = format!(
        "# Measured on {date}\n\n\
         {machine}.\n\
         Medians of {runs} runs of {seconds} s each, contenders in turn, their order changing,\n\
         over loopback TCP.\n\
         Near and far say whether the two cores shared a cache before and after a run, memory how\n\
         long a load took that no cache answered, width how much of a core was ours (about 1, or\n\
         half of it with a stranger on the core's other thread): compare like with like.\n"
    );
    let mut last = "";
    for entry in entries {
        if entry.row.name != last {
            last = entry.row.name;
            let (title, unit) = (entry.row.title, entry.row.unit);
            // Writing to a string cannot fail.
            let _ = write!(
                page,
                "\n## {title}\n\n`cargo xtask perf {last}`\n\n\
                 | contender | {unit} | range | near | far | mean µs | p99 µs | core µs per I/O \
                 | memory ns | width | runs |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|\n"
            );
        }
        page += &line(entry);
    }
    page
}

/// A contender's line of the table.
fn line(entry: &Entry) -> String {
    let runs = match &entry.runs {
        Ok(runs) => runs,
        Err(why) => {
            let why = why.replace('|', "/");
            return format!("| {} | not measured: {why} | | | | | | | | | |\n", entry.contender);
        }
    };
    let of = |figure: fn(&Sample) -> Option<f64>| -> Vec<f64> {
        runs.iter().filter_map(|(sample, _)| figure(sample)).collect()
    };
    let widths: Vec<f64> = runs.iter().filter_map(|(_, state)| state.width).collect();
    let loads: Vec<f64> = runs.iter().filter_map(|(_, state)| state.load_ns).collect();
    let placed = |wanted: Placement| -> Vec<f64> {
        let runs = runs.iter().filter(|(_, state)| state.placement() == wanted);
        runs.map(|(sample, _)| sample.value).collect()
    };
    let values = of(|sample| Some(sample.value));
    let least = values.iter().copied().reduce(f64::min).map_or(String::new(), figure);
    let most = values.iter().copied().reduce(f64::max).map_or(String::new(), figure);
    let [near, far, mixed] = [Placement::Near, Placement::Far, Placement::Mixed].map(placed);
    let counts = format!("{} near, {} far, {} mixed", near.len(), far.len(), mixed.len());
    let columns = [
        entry.contender.to_string(),
        format!("**{}**", median(&values)),
        format!("{least}–{most}"),
        median(&near),
        median(&far),
        median(&of(|sample| sample.mean_us)),
        median(&of(|sample| sample.p99_us)),
        median(&of(|sample| sample.core_us)),
        median(&loads),
        median(&widths),
        counts,
    ];
    format!("| {} |\n", columns.join(" | "))
}

/// Median, the lower one of two; empty for no values.
fn median(values: &[f64]) -> String {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).map_or_else(String::new, |value| figure(*value))
}

#[cfg(test)]
mod test {
    use super::super::probe::State;
    use super::super::rows::ROWS;
    use super::*;

    #[test]
    fn a_line_has_medians_by_placement() {
        let run = |value, one_way| {
            let state = State {
                one_way_ns: Some((one_way, one_way)),
                load_ns: Some(100.0),
                ..State::default()
            };
            (Sample { mean_us: Some(2.0), ..Sample::of(value) }, state)
        };
        let runs = vec![run(5e6, 25.0), run(3e6, 160.0), run(4e6, 30.0), run(1e6, 90.0)];
        let entry = Entry { row: &ROWS[0], contender: "ours", runs: Ok(runs) };
        assert_eq!(
            line(&entry),
            "| ours | **3,000,000** | 1,000,000–5,000,000 | 4,000,000 | 3,000,000 | 2.00 |  |  \
             | 100.0 |  | 2 near, 1 far, 1 mixed |\n"
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        let runs = Err("tgtd is not installed".into());
        let entry = Entry { row: &ROWS[0], contender: "tgt", runs };
        assert!(line(&entry).contains("not measured: tgtd is not installed"));
    }

    #[test]
    fn a_page_of_many_rows_has_a_short_name() {
        let rows = vec!["nvme-crossed-session-512".to_owned(); 30];
        let name = |count: usize| path(&[], &rows[..count]).to_string_lossy().into_owned();
        assert!(name(1).ends_with("-nvme-crossed-session-512.md"), "{}", name(1));
        assert_eq!(name(5).matches("nvme").count(), 5);
        assert!(name(30).ends_with("-nvme-crossed-session-512-and-29-more.md"), "{}", name(30));
    }

    #[test]
    fn a_host_has_a_name_for_files() {
        assert_eq!(slug("AMD EPYC (Zen 5) @ 3.1GHz"), "amd-epyc-zen-5-3-1ghz");
        assert_eq!(version("6.1.0-32-amd64\n"), "6.1.0");
    }
}
