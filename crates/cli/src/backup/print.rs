//! Results of a backup, for people and for scripts.

use std::ops::Range;

use ::backup::format::index::Kind;
use ::backup::{
    Checked, Codec, Damage, Entry, Fate, Limit, Missing, Options, Outcome, Published, Stage, Times,
};
use block::Text;
use serde_json::{Value, json};

/// Maximum listed files: those with the most pages.
const FILES_MAX: usize = 60;
/// Maximum listed damages and incomplete sources; a document has all.
const LINES_MAX: usize = 100;
/// Ranges of a file that are listed.
const RANGES_MAX: usize = 8;
/// Bytes of a MiB.
const MIB: f64 = (1 << 20) as f64;

/// Everything reported about a backup.
pub struct Told<'a> {
    /// Entries in the backup.
    pub entries: &'a [Entry],
    /// Target of the backup.
    pub target: &'a str,
    /// Name of the finished backup.
    pub published: &'a Published,
    /// Options of the backup.
    pub options: &'a Options,
    /// Outcome of the backup.
    pub outcome: &'a Outcome,
    /// Result of the read-back check.
    pub checked: Option<&'a Checked>,
    /// Length of a page.
    pub page_bytes: u64,
    /// Source or target imitate a drive.
    pub emulated: bool,
}

impl Told<'_> {
    /// Formats the result for a terminal.
    pub fn text(&self) -> Text {
        let mut out = Text::new();
        let files = || self.entries.iter().filter(|entry| is_file(entry));
        let mut by_pages: Vec<u64> = files().map(|entry| self.pages(entry)).collect();
        by_pages.sort_unstable_by(|one, other| other.cmp(one));
        let least = by_pages.get(FILES_MAX - 1).copied().unwrap_or(0);
        let shown: Vec<&Entry> =
            files().filter(|entry| self.pages(entry) >= least.max(1)).take(FILES_MAX).collect();
        for entry in &shown {
            let _ = writeln!(out, "{:>10} pages of {}", self.pages(entry), entry.path.display());
        }
        let shown_pages: u64 = shown.iter().map(|entry| self.pages(entry)).sum();
        let others = by_pages.len() - shown.len();
        if others > 0 {
            let pages = self.all_pages() - shown_pages;
            let _ = writeln!(out, "{pages:>10} pages of {others} more files");
        }
        for entry in self.entries {
            let fate = entry.fate();
            if fate != Fate::Whole {
                let unread = ranges(&entry.unread());
                let _ = writeln!(out, "{}: {fate}{unread}", entry.path.display());
            }
        }
        self.summary(&mut out);
        if let Some(found) = self.checked {
            out.append(&checked(found, self.target));
        }
        out
    }

    fn summary(&self, out: &mut Text) {
        let outcome = self.outcome;
        let seconds = outcome.time.as_secs_f64();
        let origin = if self.emulated { "emulated" } else { "measured" };
        let _ = writeln!(out);
        let _ = writeln!(
            out,
            "{} pages in {seconds:.3} seconds to {}, {origin}",
            self.all_pages(),
            self.target
        );
        let _ = writeln!(out);
        for (what, bytes) in [("source", outcome.source_bytes), ("stored", outcome.stored_bytes)] {
            let (mib, rate) = (bytes as f64 / MIB, bytes as f64 / MIB / seconds);
            let _ = writeln!(out, "{what:<12} {mib:>12.1} MiB {rate:>10.1} MiB/s");
        }
        let _ = writeln!(out, "{:<12} {:>12.2} to 1", "compressed", self.ratio());
        if outcome.hole_bytes > 0 {
            let mib = outcome.hole_bytes as f64 / MIB;
            let _ = writeln!(out, "{:<12} {mib:>12.1} MiB, not stored", "holes");
        }
        let _ = writeln!(out);
        let _ = writeln!(
            out,
            "{:<12} {:>7} {:>9} {:>10} {:>10} {:>7} {:>7}",
            "", "threads", "working", "starved", "blocked", "cores", "wanted"
        );
        for (stage, times) in &outcome.stages {
            let _ = writeln!(
                out,
                "{:<12} {:>7} {:>7.1} % {:>8.1} % {:>8.1} % {:>7.2} {:>7.2}",
                stage.to_string(),
                times.threads,
                times.working_percent(),
                times.starved_percent(),
                times.blocked_percent(),
                times.cpu.as_secs_f64() / seconds,
                (times.cpu.0 + times.queued.0) as f64 / 1e9 / seconds
            );
        }
        let _ = writeln!(out, "{}", self.limit());
    }

    /// Bottleneck of the backup, with the evidence.
    fn limit(&self) -> String {
        let host = &self.outcome.host;
        let busy = host.busy_percent.map_or_else(
            || "not known".to_owned(),
            |busy| {
                format!("{busy:.0} % busy, {:.2} of {} by this process", host.own_cores, host.cores)
            },
        );
        match self.outcome.limit {
            Limit::Stage(stage) => {
                let is_it = |(one, _): &&(Stage, Times)| *one == stage;
                let times = self.outcome.stages.iter().find(is_it).map(|(_, times)| times);
                let wanted = times.map_or(0.0, Times::processor_percent);
                format!(
                    "limited by {stage}: its threads rarely wait for other stages; they ran or \
                    were runnable {wanted:.0} % of the time (CPUs {busy})"
                )
            }
            Limit::Processors => format!("limited by CPUs: {busy}"),
            Limit::HandOver => format!(
                "no stage is always busy: more --buffers, or more threads of the busiest stage, \
                may help (CPUs {busy})"
            ),
        }
    }

    /// JSON for scripts, with the keys of a run's result where they have the same meaning.
    pub fn json(&self) -> Value {
        let outcome = self.outcome;
        let seconds = outcome.time.as_secs_f64();
        let rate = |bytes: u64| bytes as f64 / seconds;
        let lacks = |entry: &&Entry| entry.fate().is_partial();
        let files = self.entries.iter().filter(|entry| is_file(entry));
        json!({
            "kind": "backup",
            "origin": if self.emulated { "emulated" } else { "measured" },
            "target": self.target,
            "beside": match self.published {
                Published::There => None,
                Published::Beside(path) => Some(path.to_string_lossy()),
            },
            "options": {
                "readers": self.options.readers,
                "compressors": self.options.compressors,
                "writers": self.options.writers,
                "buffers": self.options.buffers,
                "transfer_bytes": self.options.transfer_bytes,
                "compress": if self.options.codec == Codec::Lz4 { "lz4" } else { "none" },
                "direct": self.options.direct,
            },
            "totals": {
                "seconds": seconds,
                "errors": self.entries.iter().filter(lacks).count(),
                "pages": self.all_pages(),
                "page_bytes": self.page_bytes,
                "source_bytes": outcome.source_bytes,
                "stored_bytes": outcome.stored_bytes,
                "hole_bytes": outcome.hole_bytes,
                "bytes_per_second": rate(outcome.source_bytes),
                "source_mib_per_second": rate(outcome.source_bytes) / MIB,
                "stored_mib_per_second": rate(outcome.stored_bytes) / MIB,
                "ratio": self.ratio(),
            },
            "stages": outcome.stages.iter().map(|(stage, times)| {
                (stage.to_string(), stage_json(times, seconds))
            }).collect::<serde_json::Map<String, Value>>(),
            "limit": match outcome.limit {
                Limit::Stage(stage) => stage.to_string(),
                Limit::Processors => "processors".to_owned(),
                Limit::HandOver => "hand-over".to_owned(),
            },
            "cpu": {
                "host_percent": outcome.host.busy_percent,
                "initiator_cores": outcome.host.own_cores,
            },
            "host": { "cores": outcome.host.cores },
            "files": files.map(|entry| self.file_json(entry)).collect::<Vec<Value>>(),
            "verified": self.checked.map(checked_json),
        })
    }

    fn file_json(&self, entry: &Entry) -> Value {
        let fate = entry.fate();
        json!({
            "path": entry.path.to_string_lossy(),
            "pages": self.pages(entry),
            "bytes": entry.read_bytes(),
            "listed_bytes": entry.listed_bytes,
            "hole_bytes": entry.hole_bytes(),
            "what": (fate != Fate::Whole).then(|| fate.to_string()),
            "unread": ranges_json(&entry.unread()),
        })
    }

    fn pages(&self, entry: &Entry) -> u64 {
        entry.read_bytes().div_ceil(self.page_bytes)
    }

    fn all_pages(&self) -> u64 {
        self.entries.iter().map(|entry| self.pages(entry)).sum()
    }

    fn ratio(&self) -> f64 {
        self.outcome.source_bytes as f64 / (self.outcome.stored_bytes as f64).max(1.0)
    }
}

fn is_file(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::File | Kind::Volume)
}

fn stage_json(times: &Times, seconds: f64) -> Value {
    json!({
        "threads": times.threads,
        "working_percent": times.working_percent(),
        "starved_percent": times.starved_percent(),
        "blocked_percent": times.blocked_percent(),
        "cores": times.cpu.as_secs_f64() / seconds,
        "waiting_for_processor": times.queued.as_secs_f64() / seconds,
    })
}

/// Ranges of a file as text.
fn ranges(ranges: &[Range<u64>]) -> String {
    if ranges.is_empty() {
        return String::new();
    }
    let one = |range: &Range<u64>| format!("{} at {}", range.end - range.start, range.start);
    let shown: Vec<String> = ranges.iter().take(RANGES_MAX).map(one).collect();
    let more = match ranges.len().saturating_sub(RANGES_MAX) {
        0 => String::new(),
        more => format!(" and {more} more ranges"),
    };
    format!("; missing bytes: {}{more}", shown.join(", "))
}

fn ranges_json(ranges: &[Range<u64>]) -> Vec<Value> {
    let one = |range: &Range<u64>| json!({ "at": range.start, "bytes": range.end - range.start });
    ranges.iter().map(one).collect()
}

/// Findings of reading a backup, as text.
pub fn checked(found: &Checked, name: &str) -> Text {
    let mut out = Text::new();
    let rate = found.source_bytes as f64 / MIB / found.time.as_secs_f64().max(1e-9);
    let _ = writeln!(
        out,
        "{name}: {} files, {} frames, {:.1} MiB read back, {rate:.1} MiB/s",
        found.files,
        found.frames,
        found.source_bytes as f64 / MIB
    );
    for damage in found.damages.iter().take(LINES_MAX) {
        let _ = writeln!(out, "  {}: {}{}", damage.at, damage.what, ranges(&damage.ranges));
    }
    // Sources with missing data come first.
    let (lacking, others): (Vec<&Missing>, _) =
        found.missing.iter().partition(|missing| missing.fate.is_partial());
    for missing in lacking.iter().chain(&others).take(LINES_MAX) {
        let (path, fate) = (missing.path.display(), &missing.fate);
        let _ = writeln!(out, "  {path}: {fate}{}", ranges(&missing.ranges));
    }
    let lines = found.damages.len().min(LINES_MAX) + found.missing.len().min(LINES_MAX);
    let all = found.damaged as usize + found.missing.len();
    if all > lines {
        let _ = writeln!(out, "  and {} more: --json has them", all - lines);
    }
    verdict(found, &mut out);
    out
}

/// Verdict in one or two lines: whether the backup is intact.
fn verdict(found: &Checked, out: &mut Text) {
    let partial = found.partial;
    let verdict = match (found.damaged, partial, found.missing.len()) {
        (0, 0, 0) => "all data intact".to_owned(),
        (0, 0, _) => "all saved data is intact".to_owned(),
        (0, ..) => format!(
            "incomplete: data of {partial} sources could not be read by the backup and is \
            missing; the saved data is intact"
        ),
        (damaged, ..) => format!("damaged: {damaged} parts differ from the written data"),
    };
    let _ = writeln!(out, "  {verdict}");
    if found.left_out > 0 {
        let _ = writeln!(
            out,
            "  set-user-ID and set-group-ID bits of {} files were not restored: --owners restores \
             them and the owners, as root",
            found.left_out
        );
    }
    if let Some(folder) = &found.in_folder {
        let is_whole = found.damaged == 0 && partial == 0;
        let words = if is_whole { "restored in" } else { "the restorable data is in" };
        let _ = writeln!(out, "  {words} {}", folder.display());
    }
}

/// Findings of reading a backup in JSON, for scripts.
pub fn checked_json(found: &Checked) -> Value {
    let damage = |one: &Damage| {
        let missing = ranges_json(&one.ranges);
        json!({ "at": one.at, "what": one.what, "missing": missing })
    };
    let missing = |one: &Missing| {
        json!({
            "path": one.path.to_string_lossy(),
            "what": one.fate.to_string(),
            "is_partial": one.fate.is_partial(),
            "missing": ranges_json(&one.ranges),
        })
    };
    json!({
        "seconds": found.time.as_secs_f64(),
        "files": found.files,
        "frames": found.frames,
        "source_bytes": found.source_bytes,
        "damaged": found.damaged,
        "damages": found.damages.iter().map(damage).collect::<Vec<Value>>(),
        "partial": found.partial,
        "not_whole": found.missing.iter().map(missing).collect::<Vec<Value>>(),
        "set_id_left_out": found.left_out,
        "folder": found.in_folder.as_ref().map(|folder| folder.to_string_lossy()),
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn lines(found: &Checked) -> String {
        checked(found, "kept").as_str().to_owned()
    }

    fn missing(fate: Fate) -> Checked {
        let partial = u64::from(fate.is_partial());
        let missing = Missing { path: "d/f".into(), fate, ranges: vec![10..30, 50..51] };
        Checked { files: 2, partial, missing: vec![missing], ..Checked::default() }
    }

    #[test]
    fn only_what_is_whole_is_called_so() {
        assert!(lines(&Checked::default()).ends_with("  all data intact\n"));
        let cut = lines(&missing(Fate::Shrank));
        assert!(cut.contains("  d/f: was truncated during the backup"), "{cut}");
        assert!(cut.ends_with("  all saved data is intact\n"), "{cut}");
        let unread = lines(&missing(Fate::Unreadable("input/output error".to_owned())));
        let line = "  d/f: cannot be read: input/output error; missing bytes: 20 at 10, 1 at 50\n";
        assert!(unread.contains(line), "{unread}");
        assert!(unread.contains("incomplete: data of 1 sources"), "{unread}");
        let range = 0..9;
        let damage =
            Damage { at: "d/g".to_owned(), what: "is gone".to_owned(), ranges: vec![range] };
        let damaged = Checked { damaged: 1, damages: vec![damage], ..Checked::default() };
        let text = lines(&damaged);
        assert!(text.contains("  d/g: is gone; missing bytes: 9 at 0\n"), "{text}");
        assert!(text.ends_with("  damaged: 1 parts differ from the written data\n"), "{text}");
        for found in [missing(Fate::Vanished), damaged] {
            assert!(!lines(&found).contains("all data intact"));
        }
    }

    #[test]
    fn where_a_restore_is_says_whether_it_is_whole() {
        let folder = |found: Checked| lines(&Checked { in_folder: Some("x".into()), ..found });
        assert!(folder(Checked::default()).ends_with("  restored in x\n"));
        let partial = folder(missing(Fate::Changed("a link".to_owned())));
        assert!(partial.ends_with("  the restorable data is in x\n"), "{partial}");
        let bits = folder(Checked { left_out: 3, ..Checked::default() });
        assert!(bits.contains("bits of 3 files were not restored: --owners"), "{bits}");
    }

    #[test]
    fn many_lines_and_ranges_are_counted() {
        let many: Vec<Range<u64>> = (0..10).map(|at| 2 * at..2 * at + 1).collect();
        assert!(ranges(&many).ends_with("1 at 14 and 2 more ranges"), "{}", ranges(&many));
        assert_eq!(ranges(&[]), "");
        let mut found = missing(Fate::Vanished);
        found.missing = vec![found.missing[0].clone(); LINES_MAX + 5];
        assert!(lines(&found).contains("  and 5 more: --json has them\n"));
        let json: Value = checked_json(&found);
        assert_eq!(json["not_whole"].as_array().unwrap().len(), LINES_MAX + 5);
    }
}
