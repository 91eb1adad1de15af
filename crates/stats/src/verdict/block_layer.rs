//! Whether the kernel's block layer left I/Os alone.

use super::together::together;
use super::{Check, Verdict};

/// How the block layer treats a disk. `None` where it does not tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Queue {
    /// The disk.
    pub name: String,
    /// The I/O scheduler.
    pub scheduler: Option<String>,
    /// 0 merges neighbouring I/Os.
    pub nomerges: Option<u64>,
    /// Where completions run.
    pub rq_affinity: Option<u64>,
    /// Latency to which writeback is throttled, in microseconds.
    pub wbt_us: Option<u64>,
    /// Bytes of read-ahead.
    pub read_ahead_bytes: Option<u64>,
    /// Longest I/O before it is split, in bytes.
    pub most_bytes: Option<u64>,
    /// It turns, as far as it says.
    pub rotational: Option<bool>,
    /// A hypervisor shows it, which hides what it is: virtio disks all say that they turn.
    pub is_virtual: bool,
    /// A cache that loses writes without power.
    pub volatile_cache: Option<bool>,
}

/// What a job asks of a disk, as far as the block layer's settings matter for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// It is read.
    pub reads: bool,
    /// It is written.
    pub writes: bool,
    /// It is read or written through the page cache.
    pub buffered: bool,
    /// Longest I/O in bytes; 0 if not known.
    pub most_bytes: u64,
    /// It flushes what it writes, at times or at its end.
    pub flushes: bool,
}

impl Queue {
    /// What each setting does to a measurement, and the command that mends it.
    fn findings(&self, asked: Asked) -> Vec<(String, String)> {
        let set = |file: &str, value: &str| {
            format!("echo {value} > /sys/block/{}/queue/{file}", self.name)
        };
        let mut found = Vec::new();
        let scheduler = self.scheduler.as_deref().filter(|name| *name != "none");
        let what = match (self.is_virtual, self.rotational) {
            (true, _) => Some("the hypervisor schedules again"),
            (false, Some(false)) => Some("an SSD needs no scheduler"),
            (false, _) => None,
        };
        if let Some((name, what)) = scheduler.zip(what) {
            let why = format!("scheduler {name} orders what {what}");
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

    /// Of the I/Os that a job asked of it, as far as they were merged with neighbours.
    fn merges(&self, asked: Asked, merged: Merged) -> Option<(String, String)> {
        let shares = [(asked.reads, merged.reads), (asked.writes, merged.writes)];
        let shares = shares.into_iter().filter(|(any, _)| *any && !asked.buffered);
        let percent = shares.map(|(_, counts)| counts.percent()).fold(0.0, f64::max);
        let why = || {
            format!(
                "up to {percent:.1} % of the I/Os were merged with their neighbours (at most 2): \
                 the device did fewer and longer ones"
            )
        };
        let command = || format!("echo 2 > /sys/block/{}/queue/nomerges", self.name);
        (percent > MERGED_PERCENT).then(|| (why(), command()))
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

/// More merges than this are no accident, in percent.
const MERGED_PERCENT: f64 = 2.0;

/// I/Os of one direction that a disk was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merges {
    /// Those that it did.
    pub done: u64,
    /// Those that became part of one of these.
    pub merged: u64,
}

impl Merges {
    fn percent(self) -> f64 {
        self.merged as f64 / self.done.saturating_add(self.merged).max(1) as f64 * 100.0
    }
}

/// What became of the I/Os that a disk was asked, by whomever.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Reads.
    pub reads: Merges,
    /// Writes.
    pub writes: Merges,
}

/// A disk before H18.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disk {
    /// What a job asks of it.
    pub asked: Asked,
    /// Its settings before a run.
    pub before: Queue,
    /// Its settings after the run; `None` if there was none.
    pub after: Option<Queue>,
    /// Other settings that it had for a time during the run.
    pub meanwhile: Option<Queue>,
    /// What was merged in it; nothing without counters.
    pub merged: Merged,
}

impl Disk {
    fn findings(&self) -> Vec<(String, String)> {
        let merges = self.before.merges(self.asked, self.merged);
        self.before.findings(self.asked).into_iter().chain(merges).collect()
    }

    fn judge(&self) -> (Verdict, String) {
        let before = &self.before;
        let other = self.meanwhile.as_ref().filter(|other| *other != before);
        match other.or(self.after.as_ref()) {
            Some(after) if after != before => {
                let words =
                    format!("changed meanwhile: {}; then {}", before.facts(), after.facts());
                (Verdict::Fail, words)
            }
            _ if *before == (Queue { name: before.name.clone(), ..Queue::default() }) => {
                (Verdict::Unknown, format!("{}: the system shows no settings", before.name))
            }
            _ => {
                let findings = self.findings();
                let verdict = if findings.is_empty() { Verdict::Pass } else { Verdict::Warn };
                let why = findings.into_iter().map(|(why, _)| format!("; {why}"));
                (verdict, before.facts() + &why.collect::<String>())
            }
        }
    }
}

/// A limit that a control group sets on this process's I/O with a disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Throttle {
    /// The file that sets it.
    pub file: String,
    /// Number of the disk, as `254:0`.
    pub disk: String,
    /// What it limits: "reads", "bytes written".
    pub what: String,
    /// The most in a second.
    pub per_second: f64,
    /// What was done in a second, if that is known.
    pub reached: Option<f64>,
    /// The command that takes it away.
    pub mend: String,
}

/// From this share of a limit on it is what was measured.
const LIMIT_SHARE: f64 = 0.9;

impl Throttle {
    fn judge(&self) -> (Verdict, String) {
        let Throttle { file, disk, what, per_second, reached, .. } = self;
        let words =
            format!("{file} limits this process to {per_second:.0} {what} a second on {disk}");
        let words = match reached {
            Some(reached) if *reached >= LIMIT_SHARE * per_second => {
                format!("{words}, and the run did {reached:.0}: the limit was measured")
            }
            Some(reached) => format!("{words}; the run did {reached:.0}"),
            None => words,
        };
        (Verdict::Warn, words)
    }

    fn is_reached(&self) -> bool {
        self.reached.is_some_and(|reached| reached >= LIMIT_SHARE * self.per_second)
    }
}

/// H18: the kernel leaves I/Os alone, and its settings stay during a run. `None` without a disk and
/// without a limit.
pub fn block_layer(disks: &[Disk], limits: &[Throttle]) -> Option<Check> {
    if disks.is_empty() && limits.is_empty() {
        return None;
    }
    let mut limits: Vec<&Throttle> = limits.iter().collect();
    limits.sort_by_key(|limit| !limit.is_reached());
    let judged = limits.iter().map(|limit| limit.judge()).chain(disks.iter().map(Disk::judge));
    let check = together("H18", "block-layer", judged, "");
    let commands = disks.iter().flat_map(Disk::findings).map(|(_, command)| command);
    let commands = limits.iter().map(|limit| limit.mend.clone()).chain(commands);
    Some(commands.fold(check, Check::mend))
}

#[cfg(test)]
mod test {
    use super::*;

    /// Lie of H18: a scheduler that orders, changed in the run.
    /// Twin of H18: no scheduler.
    #[test]
    fn settings_are_judged_by_what_is_asked() {
        let queue = Queue {
            name: "vda".into(),
            scheduler: Some("none".into()),
            wbt_us: Some(75_000),
            read_ahead_bytes: Some(131_072),
            most_bytes: Some(65_536),
            rotational: Some(false),
            ..Queue::default()
        };
        let judge = |asked, queue: &Queue, after| {
            let before = queue.clone();
            block_layer(&[Disk { asked, before, after, ..Disk::default() }], &[]).unwrap()
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
        // A hypervisor's disk only says that it turns.
        let shown = Queue { is_virtual: true, ..turning };
        assert_eq!(judge(plain, &shown, None).verdict, Verdict::Warn);
        let unordered = Queue { scheduler: Some("none".into()), ..shown };
        assert_eq!(judge(plain, &unordered, None).verdict, Verdict::Pass);
        assert_eq!(judge(plain, &queue, Some(ordered)).verdict, Verdict::Fail);
        assert_eq!(judge(Asked { buffered: true, ..plain }, &queue, None).mend.len(), 2);
        assert_eq!(judge(Asked { most_bytes: 65_537, ..plain }, &queue, None).mend.len(), 1);
        let silent = Queue { name: "x".into(), ..Queue::default() };
        assert_eq!(judge(plain, &silent, None).verdict, Verdict::Unknown);
        assert_eq!(block_layer(&[], &[]), None);
    }

    /// Lie of H18: 2.1 % of the I/Os were merged.
    /// Twin of H18: only those of others were.
    #[test]
    fn merged_ios_are_said() {
        let before = Queue { name: "vda".into(), nomerges: Some(0), ..Queue::default() };
        let judge = |reads, writes, buffered| {
            let merged = Merged {
                reads: Merges { done: 98, merged: 2 },
                writes: Merges { done: 979, merged: 21 },
            };
            let asked = Asked { reads, writes, buffered, most_bytes: 4096, flushes: false };
            let disk = Disk { asked, before: before.clone(), merged, ..Disk::default() };
            block_layer(&[disk], &[]).unwrap()
        };
        // Nobody's writes disturb who only reads.
        assert_eq!(judge(true, false, false).verdict, Verdict::Pass);
        let found = judge(true, true, false);
        assert_eq!(found.verdict, Verdict::Warn);
        assert!(found.evidence.contains("up to 2.1 % of the I/Os were merged"), "{found:?}");
        assert_eq!(found.mend, ["echo 2 > /sys/block/vda/queue/nomerges"]);
        assert_eq!(judge(true, true, true).verdict, Verdict::Pass);
    }

    /// Lie of H18: a setting is changed and put back.
    #[test]
    fn settings_that_were_put_back_are_said() {
        let before = Queue { name: "vda".into(), nomerges: Some(0), ..Queue::default() };
        let other = Queue { nomerges: Some(2), ..before.clone() };
        let judge = |meanwhile| {
            let after = Some(before.clone());
            let disk = Disk { before: before.clone(), after, meanwhile, ..Disk::default() };
            block_layer(&[disk], &[]).unwrap()
        };
        assert_eq!(judge(None).verdict, Verdict::Pass);
        assert_eq!(judge(Some(before.clone())).verdict, Verdict::Pass);
        let changed = judge(Some(other));
        assert_eq!(changed.verdict, Verdict::Fail);
        assert!(changed.evidence.contains("then vda, nomerges 2"), "{changed:?}");
    }

    /// Lie of H18: writes into a volatile cache that nothing flushes.
    /// Twin of H18: a job that flushes; a cache that keeps.
    #[test]
    fn writes_that_nothing_flushes_are_said() {
        let judge = |writes, flushes, volatile| {
            let before =
                Queue { name: "sda".into(), volatile_cache: Some(volatile), ..Queue::default() };
            let asked = Asked { reads: true, writes, flushes, ..Asked::default() };
            block_layer(&[Disk { asked, before, ..Disk::default() }], &[]).unwrap()
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

    /// Lie of H18: a limit of I/Os of the control group.
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
        let met = block_layer(&[], &[limit(10.0), limit(45_000.0)]).unwrap();
        assert_eq!((met.verdict, met.mend.len()), (Verdict::Warn, 1));
        let words = "io.max limits this process to 50000 reads a second on 254:0, and the run did \
                     45000: the limit was measured; ";
        assert!(met.evidence.contains(words), "{met:?}");
        let far = block_layer(&[Disk::default()], &[limit(44_999.0)]).unwrap();
        assert_eq!(far.verdict, Verdict::Warn);
        assert!(!far.evidence.contains("was measured"), "{far:?}");
    }
}
