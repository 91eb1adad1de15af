//! H18: the kernel's block layer leaves I/Os unchanged.

use super::together::{Finding, together};
use super::{Check, Verdict};

/// Settings of the block layer for a disk. `None` if the system does not report the setting.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// Name of the disk.
    pub name: String,
    /// The I/O scheduler.
    pub scheduler: Option<String>,
    /// `nomerges`: 0 merges neighbouring I/Os.
    pub nomerges: Option<u64>,
    /// `rq_affinity`: the CPUs on which completions run.
    pub rq_affinity: Option<u64>,
    /// Target latency of writeback throttling, in microseconds.
    pub wbt_us: Option<u64>,
    /// Read-ahead in bytes.
    pub read_ahead_bytes: Option<u64>,
    /// Maximum I/O size before an I/O is split, in bytes.
    pub most_bytes: Option<u64>,
    /// True if the disk reports that it is rotational.
    pub rotational: Option<bool>,
    /// True if a hypervisor presents the disk and hides its kind: virtio disks all report that they
    /// are rotational.
    pub is_virtual: bool,
    /// True if the disk has a volatile write cache.
    pub volatile_cache: Option<bool>,
}

/// Use of a disk by a job, as far as the settings of the block layer matter for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// True if the job reads the disk.
    pub reads: bool,
    /// True if the job writes the disk.
    pub writes: bool,
    /// True if the job uses the page cache.
    pub buffered: bool,
    /// Maximum I/O size in bytes; 0 if unknown.
    pub most_bytes: u64,
    /// True if the job flushes its writes, at times or at its end.
    pub flushes: bool,
}

impl Queue {
    /// Returns the effect of each setting on a measurement, with the command that fixes it.
    fn findings(&self, asked: Asked) -> Vec<(String, String)> {
        let set = |file: &str, value: &str| {
            format!("echo {value} > /sys/block/{}/queue/{file}", self.name)
        };
        let mut found = Vec::new();
        let scheduler = self.scheduler.as_deref().filter(|name| *name != "none");
        let what = match (self.is_virtual, self.rotational) {
            (true, _) => Some("the hypervisor schedules them again"),
            (false, Some(false)) => Some("an SSD needs no scheduler"),
            (false, _) => None,
        };
        if let Some((name, what)) = scheduler.zip(what) {
            let why = format!("scheduler {name} reorders I/Os: {what}");
            found.push((why, set("scheduler", "none")));
        }
        let unflushed = asked.writes && !asked.buffered && !asked.flushes;
        if unflushed && self.volatile_cache == Some(true) {
            let why = "writes stay in its volatile cache without a flush: a power cut loses them, \
                and durable writes are slower";
            let job =
                "drumfire run JOB.toml # with workload.access.flush_every, or end_flush, in it";
            found.push((why.to_owned(), job.to_owned()));
        }
        if let (Some(us @ 1..), true) = (self.wbt_us, asked.writes && asked.buffered) {
            let why = format!("writeback is throttled to keep reads below {us} µs");
            found.push((why, set("wbt_lat_usec", "0")));
        }
        if let (Some(bytes @ 1..), true) = (self.read_ahead_bytes, asked.buffered) {
            let why = format!("the kernel reads {} KiB ahead", bytes / 1024);
            found.push((why, set("read_ahead_kb", "0")));
        }
        if let Some(most) = self.most_bytes.filter(|most| *most > 0 && asked.most_bytes > *most) {
            let why = format!("I/Os of {} bytes are split at {most}", asked.most_bytes);
            found.push((why, set("max_sectors_kb", &asked.most_bytes.div_ceil(1024).to_string())));
        }
        found
    }

    /// Returns the finding if the job's I/Os were merged with neighbours.
    fn merges(&self, asked: Asked, merged: Merged) -> Option<(String, String)> {
        let shares = [(asked.reads, merged.reads), (asked.writes, merged.writes)];
        let shares = shares.into_iter().filter(|(any, _)| *any && !asked.buffered);
        let percent = shares.map(|(_, counts)| counts.percent()).fold(0.0, f64::max);
        let why = || {
            format!(
                "up to {percent:.1} % of the I/Os were merged with adjacent ones (at most 2): the \
                device served fewer and larger I/Os"
            )
        };
        let command = || format!("echo 2 > /sys/block/{}/queue/nomerges", self.name);
        (percent > MERGED_PERCENT).then(|| (why(), command()))
    }

    /// Returns the settings that matter for the job and that the system does not report.
    fn untold(&self, asked: Asked) -> Vec<&'static str> {
        let unflushed = asked.writes && !asked.buffered && !asked.flushes;
        let orders = self.scheduler.as_deref().is_some_and(|name| name != "none");
        let all = [
            (self.scheduler.is_none(), "scheduler"),
            (orders && !self.is_virtual && self.rotational.is_none(), "rotational"),
            (unflushed && self.volatile_cache.is_none(), "write cache"),
            (asked.most_bytes > 0 && self.most_bytes.is_none(), "longest I/O"),
            (asked.reads && asked.buffered && self.read_ahead_bytes.is_none(), "read-ahead"),
        ];
        all.into_iter().filter(|(untold, _)| *untold).map(|(_, name)| name).collect()
    }

    fn facts(&self) -> String {
        let mut words = vec![self.name.clone()];
        let mut say = |name: &str, value: Option<String>| {
            words.extend(value.map(|value| format!("{name} {value}")));
        };
        say("scheduler", self.scheduler.clone());
        say("nomerges", self.nomerges.map(|n| n.to_string()));
        say("rq_affinity", self.rq_affinity.map(|n| n.to_string()));
        say("wbt", self.wbt_us.map(|us| format!("{us} µs")));
        say("read-ahead", self.read_ahead_bytes.map(|bytes| format!("{} KiB", bytes / 1024)));
        let cache = |volatile| if volatile { "volatile" } else { "none or durable" };
        say("write cache", self.volatile_cache.map(|volatile| cache(volatile).to_owned()));
        words.join(", ")
    }
}

/// Maximum share of merges, in percent; more are no accident.
const MERGED_PERCENT: f64 = 2.0;

/// Merges of one direction on a disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merges {
    /// I/Os that reached the disk.
    pub done: u64,
    /// I/Os that were merged into one of the `done` I/Os.
    pub merged: u64,
}

impl Merges {
    fn percent(self) -> f64 {
        self.merged as f64 / self.done.saturating_add(self.merged).max(1) as f64 * 100.0
    }
}

/// Merges on a disk, of I/Os from any program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Reads.
    pub reads: Merges,
    /// Writes.
    pub writes: Merges,
}

/// Input of H18 for one disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// Use of the disk by the job.
    pub asked: Asked,
    /// Settings before the run.
    pub before: Queue,
    /// Settings after the run; `None` before the run has ended.
    pub after: Option<Queue>,
    /// Different settings seen at any time during the run.
    pub meanwhile: Option<Queue>,
    /// Merges on the disk; `None` without counters, and before a run.
    pub merged: Option<Merged>,
}

impl Disk {
    fn findings(&self) -> Vec<(String, String)> {
        let merges = self.merged.and_then(|merged| self.before.merges(self.asked, merged));
        self.before.findings(self.asked).into_iter().chain(merges).collect()
    }

    /// Returns the settings and counters that the system does not report.
    fn untold(&self) -> Vec<&'static str> {
        let mut untold = self.before.untold(self.asked);
        if self.after.is_some() && self.merged.is_none() {
            untold.push("merges");
        }
        untold
    }

    fn judge(&self) -> Finding {
        let before = &self.before;
        let other = self.meanwhile.as_ref().filter(|other| *other != before);
        match other.or(self.after.as_ref()) {
            Some(after) if after != before => {
                let words = format!(
                    "settings changed during the run: {}; then {}",
                    before.facts(),
                    after.facts()
                );
                (Verdict::Fail, words)
            }
            _ if *before == (Queue { name: before.name.clone(), ..Queue::default() }) => {
                (Verdict::Unknown, format!("{}: the kernel reports no queue settings", before.name))
            }
            _ => {
                let (findings, untold) = (self.findings(), self.untold());
                let verdict = match (findings.is_empty(), untold.is_empty()) {
                    (false, _) => Verdict::Warn,
                    (true, false) => Verdict::Unknown,
                    (true, true) => Verdict::Pass,
                };
                let untold =
                    (!untold.is_empty()).then(|| format!("; not reported: {}", untold.join(", ")));
                let why = findings.into_iter().map(|(why, _)| format!("; {why}")).chain(untold);
                (verdict, before.facts() + &why.collect::<String>())
            }
        }
    }
}

/// A limit that a cgroup sets on this process's I/O with a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throttle {
    /// File that sets the limit.
    pub file: String,
    /// Number of the disk, such as `254:0`.
    pub disk: String,
    /// Limited quantity: "reads", "bytes written".
    pub what: String,
    /// Maximum per second.
    pub per_second: f64,
    /// Measured rate per second, if known.
    pub reached: Option<f64>,
    /// Command that removes the limit.
    pub mend: String,
}

/// Share of a limit from which on the run measured the limit.
const LIMIT_SHARE: f64 = 0.9;

impl Throttle {
    fn judge(&self) -> (Verdict, String) {
        let Throttle { file, disk, what, per_second, reached, .. } = self;
        let words =
            format!("{file} limits this process to {per_second:.0} {what} per second on {disk}");
        let words = match reached {
            Some(reached) if *reached >= LIMIT_SHARE * per_second => {
                format!("{words}, and the run reached {reached:.0}: the limit was measured")
            }
            Some(reached) => format!("{words}; the run reached {reached:.0}"),
            None => words,
        };
        (Verdict::Warn, words)
    }

    fn is_reached(&self) -> bool {
        self.reached.is_some_and(|reached| reached >= LIMIT_SHARE * self.per_second)
    }
}

/// H18: the kernel leaves I/Os unchanged, and its settings do not change during a run. `limits` are
/// those of cgroups, `None` if they are not visible, and `others` are findings for volumes without
/// disks of this host.
pub fn block_layer(disks: &[Disk], limits: Option<&[Throttle]>, others: Vec<Finding>) -> Check {
    let hidden = (limits.is_none() && !disks.is_empty())
        .then(|| (Verdict::Unknown, "limits of cgroups are not visible".to_owned()));
    let mut limits: Vec<&Throttle> = limits.into_iter().flatten().collect();
    limits.sort_by_key(|limit| !limit.is_reached());
    let judged = limits.iter().map(|limit| limit.judge()).chain(disks.iter().map(Disk::judge));
    let judged = judged.chain(hidden).chain(others);
    let check = together("H18", "block-layer", judged, "no volume was examined");
    let commands = disks.iter().flat_map(Disk::findings).map(|(_, command)| command);
    let commands = limits.iter().map(|limit| limit.mend.clone()).chain(commands);
    commands.fold(check, Check::mend)
}

#[cfg(test)]
mod test {
    use super::*;

    /// Returns a disk that reports all its settings, of which none needs a change.
    fn silent() -> Queue {
        Queue {
            name: "vda".into(),
            scheduler: Some("none".into()),
            nomerges: Some(0),
            read_ahead_bytes: Some(0),
            most_bytes: Some(65_536),
            rotational: Some(false),
            volatile_cache: Some(false),
            ..Queue::default()
        }
    }

    fn judge_one(disk: Disk) -> Check {
        block_layer(&[disk], Some(&[]), Vec::new())
    }

    /// H18 detects: an I/O scheduler that reorders, changed during the run.
    /// H18 accepts: no I/O scheduler.
    #[test]
    fn settings_are_judged_by_what_is_asked() {
        let queue = Queue { wbt_us: Some(75_000), read_ahead_bytes: Some(131_072), ..silent() };
        let judge = |asked, queue: &Queue, after| {
            judge_one(Disk { asked, before: queue.clone(), after, ..Disk::default() })
        };
        let plain = Asked {
            reads: false,
            writes: true,
            buffered: false,
            most_bytes: 65_536,
            flushes: false,
        };
        assert_eq!(judge(plain, &queue, None).verdict, Verdict::Pass);
        let ordered = Queue { scheduler: Some("bfq".into()), ..queue.clone() };
        let found = judge(plain, &ordered, Some(ordered.clone()));
        assert_eq!(found.verdict, Verdict::Warn);
        assert_eq!(found.mend, ["echo none > /sys/block/vda/queue/scheduler"]);
        let turning = Queue { rotational: Some(true), ..ordered.clone() };
        assert_eq!(judge(plain, &turning, None).verdict, Verdict::Pass);
        // A hypervisor's disk only reports that it is rotational.
        let shown = Queue { is_virtual: true, ..turning };
        assert_eq!(judge(plain, &shown, None).verdict, Verdict::Warn);
        let unordered = Queue { scheduler: Some("none".into()), ..shown };
        assert_eq!(judge(plain, &unordered, None).verdict, Verdict::Pass);
        assert_eq!(judge(plain, &queue, Some(ordered)).verdict, Verdict::Fail);
        let both = Asked { reads: true, buffered: true, ..plain };
        assert_eq!(judge(both, &queue, None).mend.len(), 2);
        assert_eq!(judge(Asked { most_bytes: 65_537, ..plain }, &queue, None).mend.len(), 1);
        let shows_nothing = Queue { name: "x".into(), ..Queue::default() };
        assert_eq!(judge(plain, &shows_nothing, None).verdict, Verdict::Unknown);
        assert_eq!(block_layer(&[], Some(&[]), Vec::new()).verdict, Verdict::Unknown);
        let memory = vec![(Verdict::DoesNotApply, "ram:1g: memory of this process".to_owned())];
        assert_eq!(block_layer(&[], None, memory).verdict, Verdict::DoesNotApply);
    }

    #[test]
    fn a_setting_that_matters_and_does_not_show_is_not_known() {
        let asked = Asked { reads: true, writes: true, most_bytes: 4096, ..Asked::default() };
        let (after, merged) = (Some(silent()), Some(Merged::default()));
        let disk = |before: Queue| Disk { asked, before, merged, ..Disk::default() };
        let whole = Disk { after, ..disk(silent()) };
        assert_eq!(judge_one(whole.clone()).verdict, Verdict::Pass);
        assert_eq!(
            block_layer(std::slice::from_ref(&whole), None, Vec::new()).verdict,
            Verdict::Unknown
        );
        let uncounted = judge_one(Disk { merged: None, ..whole });
        assert_eq!(uncounted.verdict, Verdict::Unknown);
        assert!(uncounted.evidence.ends_with("; not reported: merges"), "{uncounted:?}");
        for untold in [
            Queue { scheduler: None, ..silent() },
            Queue { most_bytes: None, ..silent() },
            Queue { volatile_cache: None, ..silent() },
            Queue { scheduler: Some("bfq".into()), rotational: None, ..silent() },
        ] {
            assert_eq!(judge_one(disk(untold.clone())).verdict, Verdict::Unknown, "{untold:?}");
        }
    }

    /// H18 detects: 2.1 % of the I/Os were merged.
    /// H18 accepts: only I/Os of other processes were merged.
    #[test]
    fn merged_ios_are_said() {
        let judge = |reads, writes, buffered| {
            let merged = Merged {
                reads: Merges { done: 98, merged: 2 },
                writes: Merges { done: 979, merged: 21 },
            };
            let asked = Asked { reads, writes, buffered, most_bytes: 4096, flushes: false };
            let merged = Some(merged);
            judge_one(Disk { asked, before: silent(), merged, ..Disk::default() })
        };
        // Merges of others' writes do not disturb a job that only reads.
        assert_eq!(judge(true, false, false).verdict, Verdict::Pass);
        let found = judge(true, true, false);
        assert_eq!(found.verdict, Verdict::Warn);
        assert!(found.evidence.contains("up to 2.1 % of the I/Os were merged"), "{found:?}");
        assert_eq!(found.mend, ["echo 2 > /sys/block/vda/queue/nomerges"]);
        assert_eq!(judge(true, true, true).verdict, Verdict::Pass);
    }

    /// H18 detects: a setting is changed and restored.
    #[test]
    fn settings_that_were_put_back_are_said() {
        let before = silent();
        let other = Queue { nomerges: Some(2), ..before.clone() };
        let judge = |meanwhile| {
            let after = Some(before.clone());
            let merged = Some(Merged::default());
            judge_one(Disk { before: before.clone(), after, meanwhile, merged, ..Disk::default() })
        };
        assert_eq!(judge(None).verdict, Verdict::Pass);
        assert_eq!(judge(Some(before.clone())).verdict, Verdict::Pass);
        let changed = judge(Some(other));
        assert_eq!(changed.verdict, Verdict::Fail);
        assert!(changed.evidence.contains("then vda, scheduler none, nomerges 2"), "{changed:?}");
    }

    /// H18 detects: writes into a volatile cache without flushes.
    /// H18 accepts: a job that flushes; a power-loss protected cache.
    #[test]
    fn writes_that_nothing_flushes_are_said() {
        let judge = |writes, flushes, volatile| {
            let before = Queue { volatile_cache: Some(volatile), ..silent() };
            let asked = Asked { reads: true, writes, flushes, ..Asked::default() };
            judge_one(Disk { asked, before, ..Disk::default() })
        };
        let lost = judge(true, false, true);
        assert_eq!((lost.verdict, lost.mend.len()), (Verdict::Warn, 1));
        assert!(lost.evidence.contains("volatile cache without a flush"), "{lost:?}");
        for [writes, flushes, volatile] in
            [[false, false, true], [true, true, true], [true, false, false]]
        {
            assert_eq!(judge(writes, flushes, volatile).verdict, Verdict::Pass);
        }
    }

    /// H18 detects: an I/O limit of the cgroup.
    #[test]
    fn limits_are_named_with_file_and_value() {
        let limit = |reached| Throttle {
            file: "/sys/fs/cgroup/a/io.max".into(),
            disk: "254:0".into(),
            what: "reads".into(),
            per_second: 50_000.0,
            reached: Some(reached),
            mend: "echo '254:0 riops=max' > /sys/fs/cgroup/a/io.max".into(),
        };
        let met = block_layer(&[], Some(&[limit(10.0), limit(45_000.0)]), Vec::new());
        assert_eq!((met.verdict, met.mend.len()), (Verdict::Warn, 1));
        let words = "io.max limits this process to 50000 reads per second on 254:0, and the run \
                     reached 45000: the limit was measured; ";
        assert!(met.evidence.contains(words), "{met:?}");
        let far = block_layer(&[Disk::default()], Some(&[limit(44_999.0)]), Vec::new());
        assert_eq!(far.verdict, Verdict::Warn);
        assert!(!far.evidence.contains("was measured"), "{far:?}");
    }
}
