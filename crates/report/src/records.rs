//! Published records of the million-IOPS documents.
//!
//! The authors published these figures for their hardware; we did not repeat them. They are shown
//! with a result to give it a scale. `docs` list the claims and their errors.

use std::sync::LazyLock;

use serde::Deserialize;
use stats::{Class, Job, Origin, RunResult, Verdict};

/// Status of a published figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// The author measured it, by the author's account.
    Measured,
    /// A data sheet rates it.
    Rated,
    /// The figure was announced for a future system.
    Announced,
}

/// One published figure.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Author.
    pub who: &'static str,
    /// Year of publication, 0 if unknown.
    pub year: u16,
    /// System.
    pub system: &'static str,
    /// The figure in I/Os per second.
    pub iops: f64,
    /// The author's words for it.
    pub words: &'static str,
    /// Smallest and largest I/O of the record, in bytes; `None` if the author does not say.
    pub sizes: Option<(u32, u32)>,
    /// Share of reads, 0 to 100; `None` if the author does not say.
    pub read_percent: Option<f64>,
    /// Transport of the I/Os.
    pub transport: &'static str,
    /// Storage medium.
    pub storage: &'static str,
    /// Status of the figure.
    pub standing: Standing,
    /// Source of the figure.
    pub source: &'static str,
}

impl Record {
    /// Returns author and year: `Third I/O 2010`.
    pub fn name(&self) -> String {
        format!("{} {}", self.who, self.year)
    }

    /// The figure with the digits that they published: `2.7M`, `1.03M`, `250`.
    pub fn figure(&self) -> String {
        let text = crate::figure::rate(self.iops);
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let suffix = &text[digits.len()..];
        let digits = match digits.contains('.') {
            true => digits.trim_end_matches('0').trim_end_matches('.'),
            false => digits,
        };
        format!("{digits}{suffix}")
    }

    /// The job in a few words: `512 B to 2 KiB reads`.
    pub fn job(&self) -> String {
        use crate::figure::size;
        let sizes = match self.sizes {
            None => "size not stated".to_owned(),
            Some((a, b)) if a == b => size(a.into()),
            Some((a, b)) => format!("{} to {}", size(a.into()), size(b.into())),
        };
        match self.read_percent {
            None => format!("{sizes}, mix not stated"),
            Some(100.0) => format!("{sizes} reads"),
            Some(0.0) => format!("{sizes} writes"),
            Some(read) => format!("{sizes}, {read:.0} % reads"),
        }
    }

    /// Returns whether the job's I/O size matches; `None` if the author does not say.
    fn fits_size(&self, job: &Job) -> Option<bool> {
        let (least, most) = self.sizes?;
        Some(job.size_bytes.is_some_and(|size| (least..=most).contains(&size)))
    }

    /// Returns whether the job's mix of reads and writes matches; `None` if the author does not
    /// say.
    fn fits_mix(&self, job: &Job) -> Option<bool> {
        self.read_percent.map(|read| (read - job.read_percent).abs() <= 5.0)
    }

    /// Returns whether the record is of a job of the same shape: size, direction, and whether there
    /// is a network. Without a stated mix, only the size is compared; without a size, the record
    /// never matches.
    fn is_like(&self, job: &Job) -> bool {
        let remote = |transport: &str| {
            !["local", "SATA", "SAS", "PCIe"]
                .iter()
                .any(|near| near.eq_ignore_ascii_case(transport))
        };
        self.fits_size(job) == Some(true)
            && self.fits_mix(job) != Some(false)
            && remote(self.transport) == remote(&job.transport)
    }

    /// Returns how near the record's kind of job is to `job`: the size counts most, then the mix,
    /// then transport and storage. Unstated facts count half.
    fn nearness(&self, job: &Job) -> u32 {
        let weigh = |fits: Option<bool>, whole: u32| match fits {
            Some(true) => whole,
            Some(false) => 0,
            None => whole / 2,
        };
        let same = |a: &str, b: &str| u32::from(a.eq_ignore_ascii_case(b));
        weigh(self.fits_size(job), 8)
            + weigh(self.fits_mix(job), 4)
            + 2 * same(self.transport, &job.transport)
            + same(self.storage, &job.storage)
    }
}

/// Maximum factor between the rate of a run and a comparable record.
const APART: f64 = 100.0;

/// Published figures to show with a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Beside {
    /// No record is comparable.
    Nothing,
    /// Records exist but are withheld, for this reason.
    Withheld(String),
    /// Records, the nearest first.
    These(Vec<&'static Record>),
}

/// Returns the published figures to show with a result: measured ones of the same job shape, at
/// most a factor of 100 away. For memory or loopback, only those of memory.
pub fn beside(result: &RunResult) -> Beside {
    let same = like(&result.job, result.origin);
    if same.is_empty() {
        return Beside::Nothing;
    }
    if result.class == Class::Invalid {
        let failed = result.checks.iter().filter(|check| check.verdict == Verdict::Fail);
        let codes: Vec<&str> = failed.map(|check| check.code.as_str()).collect();
        let codes =
            if codes.is_empty() { String::new() } else { format!(" ({})", codes.join(", ")) };
        return Beside::Withheld(format!("the result is invalid{codes}"));
    }
    let memory = memory(result);
    let iops = result.totals.iops;
    let near = |record: &&Record| (1.0 / APART..=APART).contains(&(iops / record.iops));
    let fits = |record: &&Record| memory.is_none() || record.storage == "RAM";
    let found: Vec<&Record> = same.into_iter().filter(fits).filter(near).collect();
    match (found.is_empty(), memory) {
        (false, _) => Beside::These(found),
        (true, Some(code)) => Beside::Withheld(format!("memory or loopback was measured ({code})")),
        (true, None) => Beside::Nothing,
    }
}

/// The check that says that memory or no wire was measured.
fn memory(result: &RunResult) -> Option<&'static str> {
    let against = |code: &str| {
        let bad = |verdict| matches!(verdict, Verdict::Warn | Verdict::Fail);
        result.checks.iter().any(|check| check.code == code && bad(check.verdict))
    };
    let wire = || result.job.loopback.then_some("H19");
    ["H01", "H08"].into_iter().find(|code| against(code)).or_else(wire)
}

/// Returns measured records of jobs of the same shape, the nearest first; if equally near, the
/// highest first.
fn like(job: &Job, origin: Origin) -> Vec<&'static Record> {
    if !competes(job, origin) {
        return Vec::new();
    }
    let same = |record: &&Record| record.standing == Standing::Measured && record.is_like(job);
    let mut found: Vec<&Record> = RECORDS.iter().filter(same).collect();
    found.sort_by(|a, b| b.nearness(job).cmp(&a.nearness(job)).then(b.iops.total_cmp(&a.iops)));
    found
}

/// The marks on the way up for this kind of job, from low to high: every record of its shape, and
/// without a wire only those of memory.
pub fn ladder(job: &Job, origin: Origin) -> Vec<&'static Record> {
    if !competes(job, origin) {
        return Vec::new();
    }
    let fits = |record: &&Record| record.is_like(job) && (!job.loopback || record.storage == "RAM");
    let mut found: Vec<&Record> = RECORDS.iter().filter(fits).collect();
    found.sort_by(|a, b| a.iops.total_cmp(&b.iops));
    found
}

/// A record is measured, and something was stored.
fn competes(job: &Job, origin: Origin) -> bool {
    origin == Origin::Measured && job.storage != "null"
}

/// The published figures.
static RECORDS: LazyLock<Vec<Record>> = LazyLock::new(|| {
    let text = include_str!("records.json");
    serde_json::from_str(text).expect("the records are well formed")
});

#[cfg(test)]
mod test {
    use super::*;

    fn job(size_bytes: u32, read_percent: f64, transport: &str, storage: &str) -> Job {
        Job {
            size_bytes: Some(size_bytes),
            read_percent,
            transport: transport.into(),
            storage: storage.into(),
            ..Job::default()
        }
    }

    fn names(records: &[&Record]) -> Vec<String> {
        records.iter().map(|r| format!("{} {}", r.name(), r.figure())).collect()
    }

    fn run(job: Job, iops: f64) -> RunResult {
        let totals = stats::Totals { iops, ..stats::Totals::default() };
        RunResult { job, totals, ..RunResult::default() }
    }

    fn shown(result: &RunResult) -> Vec<String> {
        match beside(result) {
            Beside::These(records) => names(&records),
            Beside::Nothing => vec!["nothing".to_owned()],
            Beside::Withheld(why) => vec![why],
        }
    }

    #[test]
    fn the_nearest_kind_of_job_comes_first() {
        let race = shown(&run(job(512, 100.0, "iSCSI", "RAM"), 1e6));
        assert_eq!(race, ["Third I/O 2010 2.7M", "Intel 2010 1M"]);
        let reads = shown(&run(job(4096, 100.0, "local", "SSD"), 1e6));
        assert_eq!(reads, ["Marvell 2011 1.4M", "Intel 2009 1M", "Marvell 2011 93k"]);
        let mix = shown(&run(job(8192, 70.0, "iSCSI", "RAM"), 1e6));
        assert_eq!(mix, ["Third I/O 2010 1.3M"]);
    }

    #[test]
    fn only_the_same_shape_stands_beside_a_run() {
        // Neither other directions, nor other sizes, nor a wire where there is none.
        let all =
            |size, read, transport: &str| shown(&run(job(size, read, transport, "file"), 1e6));
        assert_eq!(all(4096, 0.0, "local"), ["Marvell 2011 1.04M", "Marvell 2011 70k"]);
        assert_eq!(all(4096, 70.0, "local"), ["nothing"]);
        assert_eq!(all(4096, 70.0, "NVMe/TCP"), ["Third I/O 2010 2.2M"]);
        assert_eq!(all(65536, 100.0, "local"), ["nothing"]);
        for (size, read) in [(512, 100.0), (4096, 100.0), (8192, 70.0), (2048, 100.0)] {
            let local = all(size, read, "local");
            assert!(local.iter().all(|name| !name.contains("Third I/O")), "{local:?}");
        }
    }

    #[test]
    fn nothing_a_hundred_times_off_stands_beside_a_run() {
        let of = |iops| shown(&run(job(4096, 100.0, "local", "SSD"), iops));
        assert_eq!(of(900.0), ["nothing"]);
        assert_eq!(of(9_301.0), ["Marvell 2011 93k"]);
        assert_eq!(of(50e6), ["Marvell 2011 1.4M", "Intel 2009 1M"]);
        assert_eq!(of(f64::NAN), ["nothing"]);
    }

    #[test]
    fn memory_and_loopback_are_compared_with_memory_only() {
        let mut file = run(job(4096, 100.0, "local", "file"), 1e6);
        let warn = |code| stats::Check::new(code, "x", Verdict::Warn, "");
        file.set_check(warn("H01"));
        assert_eq!(shown(&file), ["memory or loopback was measured (H01)"]);
        file.checks.clear();
        file.set_check(warn("H08"));
        assert_eq!(shown(&file), ["memory or loopback was measured (H08)"]);
        let loopback = Job { loopback: true, ..job(512, 100.0, "iSCSI", "RAM") };
        assert_eq!(shown(&run(loopback, 1e6)), ["Third I/O 2010 2.7M", "Intel 2010 1M"]);
        file.set_check(stats::Check::new("H02", "x", Verdict::Fail, ""));
        assert_eq!(shown(&file), ["the result is invalid (H02)"]);
        // A wire that is there and bad is a wire.
        let mut remote = run(job(512, 100.0, "iSCSI", "file"), 1e6);
        remote.set_check(warn("H19"));
        assert_eq!(shown(&remote), ["Third I/O 2010 2.7M", "Intel 2010 1M"]);
    }

    #[test]
    fn only_what_was_measured_on_storage_is_compared() {
        let job = job(4096, 100.0, "local", "SSD");
        for origin in [Origin::Emulated, Origin::Simulated] {
            assert!(like(&job, origin).is_empty() && ladder(&job, origin).is_empty());
        }
        let null = Job { storage: "null".into(), ..job };
        assert!(like(&null, Origin::Measured).is_empty());
    }

    #[test]
    fn a_ladder_rises_and_fits() {
        let reads = ladder(&job(4096, 100.0, "local", "SSD"), Origin::Measured);
        assert!(reads.is_sorted_by(|a, b| a.iops <= b.iops));
        let steps = ["Intel 2009 35k", "Marvell 2011 93k", "Intel 2009 1M", "Marvell 2011 1.4M"];
        assert_eq!(names(&reads), steps);
        let iris = RECORDS.iter().find(|record| record.iops == 2.7e6).unwrap();
        assert_eq!(iris.job(), "512 B to 2 KiB reads");
        let nab = RECORDS.iter().find(|record| record.transport == "iSCSI").unwrap();
        assert_eq!((nab.job(), nab.figure()), ("512 B, mix not stated".into(), "1M".into()));
        // A job of mixed sizes has no shape that anybody published.
        assert!(ladder(&Job::default(), Origin::Measured).is_empty());
    }
}
