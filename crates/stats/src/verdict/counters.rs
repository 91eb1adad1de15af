//! H03: devices counted the I/O that was issued.

use super::direct_io::hidden;
use super::together::{Finding, mib, together};
use super::{Check, Verdict};

/// I/O issued to one device, and the I/O that the device counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// Name of the device.
    pub name: String,
    /// True if every file on the device bypasses the page cache.
    pub direct: bool,
    /// Bytes of the completed I/Os to files on the device: read, written.
    pub issued: [u64; 2],
    /// Bytes that the device reports as read and written in the same time; `None` if it does not
    /// count.
    pub device: Option<[u64; 2]>,
    /// I/Os that the device counted.
    pub device_ios: u64,
    /// Bytes in flight at the ends of the window, which may count on one side only.
    pub slack: u64,
    /// True if there is no device below: memory of this host answers.
    pub memory: bool,
    /// True if I/O to the device is charged to the process that issues it.
    pub charged: bool,
    /// Layer below which nothing can be followed: the counters may be above memory.
    pub hidden: Option<String>,
    /// Levels of devices below this one, from the top down.
    pub below: Vec<Level>,
    /// True if a loop device on the path uses the page cache of its file.
    pub cached: bool,
    /// Share of the window by which the window and the time between the two readings of the device
    /// may differ.
    pub apart: f64,
}

/// Devices of one level below a volume: together they move as much as the level above, or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Names of the devices.
    pub name: String,
    /// Bytes that the devices read and wrote; `None` if one does not count.
    pub moved: Option<[u64; 2]>,
}

/// Meaning of a difference between the two counts.
const MORE: &str = "more than requested: I/O of other users, or read-ahead";
const LESS: &str = "less than requested: a layer above the device answered";
const CACHED: &str = "less than requested: the page cache answered; ?direct=1 bypasses it, and \
    end_flush flushes writes to the device";

/// Share by which counters may differ: the ends of the window are not the same instant.
const AGREE: f64 = 0.02;
/// Minimum share of direct I/O, or of writes, that a device must have seen; below it, the device
/// did not perform the I/O.
const ABSENT: f64 = 0.5;
/// Words for the two directions.
const WAYS: [&str; 2] = ["read", "wrote"];

impl Counted {
    fn judge(&self, account: Option<Account>) -> Finding {
        let (mut verdict, mut words) = self.counted(account);
        for level in &self.below {
            let (worse, more) = self.conserved(level);
            verdict = verdict.worse(worse);
            words += &more;
        }
        let mut why = Vec::new();
        if account.is_none() {
            why.push("the I/O of this process is not known".to_owned());
        }
        why.extend(self.hidden.as_deref().filter(|_| !self.memory).map(hidden));
        match why.is_empty() {
            true => (verdict, words),
            false => (verdict.worse(Verdict::Unknown), format!("{words}; {}", why.join("; "))),
        }
    }

    fn counted(&self, account: Option<Account>) -> Finding {
        let name = &self.name;
        let Some(device) = self.device else {
            return match account {
                _ if self.memory => {
                    (Verdict::Warn, format!("{name}: no device below, memory answers"))
                }
                Some(account) if self.charged => account.judge(self),
                _ => (Verdict::Unknown, format!("{name} has no counters")),
            };
        };
        let mut verdict = Verdict::Pass;
        let mut words = Vec::new();
        let mut why = None;
        for (index, way) in WAYS.into_iter().enumerate() {
            let (issued, seen) = (self.issued[index], device[index]);
            if issued == 0 {
                continue;
            }
            let share = seen as f64 / issued as f64;
            words.push(format!(
                "{way} {} of {} requested ({:.1} %)",
                mib(seen),
                mib(issued),
                share * 100.0
            ));
            let compared = match account {
                // The rest is I/O of others, which H17 reports.
                Some(account) if seen > issued && account.agrees(index) => Verdict::Pass,
                _ => self.compare(index, issued, seen),
            };
            if compared != Verdict::Pass && compared == verdict.worse(compared) {
                why = Some(match seen > issued {
                    true => MORE,
                    false if self.direct => LESS,
                    false => CACHED,
                });
            }
            verdict = verdict.worse(compared);
        }
        if words.is_empty() {
            words.push("no I/O requested".to_owned());
        }
        let most = (AGREE + self.apart) * 100.0;
        let why =
            why.map_or_else(String::new, |why| format!(" ({why}; at most {most:.0} % apart)"));
        (verdict, format!("{name} {} in {} I/Os{why}", words.join(", "), self.device_ios))
    }

    /// Returns whether a level below moved as much as was issued. More is expected: arrays store
    /// copies, and others use the same disks.
    fn conserved(&self, level: &Level) -> Finding {
        let Level { name, moved } = level;
        let Some(moved) = moved else {
            return (Verdict::Unknown, format!("; the lower device {name} has no counters"));
        };
        let mut found = (Verdict::Pass, String::new());
        for (index, way) in WAYS.into_iter().enumerate() {
            let (issued, seen) = (self.issued[index], moved[index]);
            if (seen + self.slack) as f64 >= issued as f64 * (1.0 - AGREE - self.apart) {
                continue;
            }
            let absent = (seen as f64) < ABSENT * issued as f64;
            let verdict = match absent && self.direct && !self.cached {
                true => Verdict::Fail,
                false => Verdict::Warn,
            };
            let percent = seen as f64 / issued as f64 * 100.0;
            let words = format!(
                "; the lower device {name} {way} {} of them ({percent:.1} %; at least 98 %): a \
                layer above it answered",
                mib(seen)
            );
            found = (found.0.worse(verdict), found.1 + &words);
        }
        found
    }

    fn compare(&self, way: usize, issued: u64, seen: u64) -> Verdict {
        let margin = ((AGREE + self.apart) * issued as f64) as u64 + self.slack;
        match () {
            () if seen.abs_diff(issued) <= margin => Verdict::Pass,
            () if self.must_arrive(way) && (seen as f64) < ABSENT * issued as f64 => Verdict::Fail,
            () => Verdict::Warn,
        }
    }

    /// Returns whether I/O must reach the device: the page cache may answer reads if the job allows
    /// it, but a write that never arrives was not written.
    fn must_arrive(&self, way: usize) -> bool {
        self.direct || way == 1
    }
}

/// I/O of this process to everything that it is charged for, and the charged bytes, by direction.
#[derive(Clone, Copy, Debug)]
struct Account {
    asked: [u64; 2],
    had: [u64; 2],
    slack: u64,
}

impl Account {
    fn of(devices: &[Counted], had: [u64; 2], is: impl Fn(&Counted) -> bool) -> Account {
        let counting = || devices.iter().filter(|one| one.charged && is(one));
        let asked = [0, 1].map(|way| counting().map(|one: &Counted| one.issued[way]).sum());
        Account { asked, had, slack: counting().map(|one| one.slack).sum() }
    }

    /// Returns whether the kernel charged this process the issued bytes, within a small margin.
    fn agrees(&self, way: usize) -> bool {
        let margin = (AGREE * self.asked[way] as f64) as u64 + self.slack;
        self.had[way].abs_diff(self.asked[way]) <= margin
    }

    fn is_absent(&self, way: usize) -> bool {
        ((self.had[way] + self.slack) as f64) < ABSENT * self.asked[way] as f64
    }

    /// Judges a volume without counters by this process's account alone.
    fn judge(&self, counted: &Counted) -> (Verdict, String) {
        let mut verdict = Verdict::Pass;
        let mut words = Vec::new();
        for (way, word) in WAYS.into_iter().enumerate().filter(|(way, _)| counted.issued[*way] > 0)
        {
            let (asked, had) = (self.asked[way], self.had[way]);
            let least = asked as f64 * (1.0 - AGREE - counted.apart);
            verdict = verdict.worse(match () {
                () if (had + self.slack) as f64 >= least => Verdict::Pass,
                () if self.is_absent(way) && counted.must_arrive(way) => Verdict::Fail,
                () => Verdict::Warn,
            });
            let percent = had as f64 / asked.max(1) as f64 * 100.0;
            let (had, asked) = (mib(had), mib(asked));
            words.push(format!("{word} {had} of {asked} requested ({percent:.1} %)"));
        }
        if words.is_empty() {
            words.push("requested no I/O".to_owned());
        }
        let why = match verdict {
            Verdict::Pass => "",
            _ if counted.direct => " (a layer above the device answered; at least 98 %)",
            _ => " (the page cache answered; at least 98 %)",
        };
        let words = words.join(", ");
        let name = &counted.name;
        (
            verdict,
            format!(
                "{name} has no counters; by its own I/O accounting this process \
            {words}{why}"
            ),
        )
    }
}

/// H03: devices counted the I/O that was issued. `process` is the kernel's account of this
/// process's storage I/O (read, written), which I/O of others does not disturb, and which is the
/// only evidence if a device has no counters. `others` are findings for volumes that have no device
/// of this host.
pub fn counters_agree(
    devices: &[Counted],
    process: Option<[u64; 2]>,
    others: Vec<Finding>,
) -> Check {
    let account = process.map(|had| Account::of(devices, had, |_| true));
    let judged = devices.iter().map(|one| one.judge(account)).chain(others);
    let mut check = together("H03", "device-counters", judged, "no volume was examined");
    if let Some([read, written]) = process.filter(|_| !devices.is_empty()) {
        let words = format!(
            "; I/O accounting of this process: {} read, {} written",
            mib(read),
            mib(written)
        );
        check.evidence.push_str(&words);
        // I/O of others may hide in the device's counters that ours is missing.
        let direct = Account::of(devices, [read, written], |one| one.direct);
        if direct.is_absent(0) || direct.is_absent(1) {
            check.verdict = Verdict::Fail;
        }
    }
    check
}

#[cfg(test)]
mod test {
    use super::*;

    /// Returns a disk with counters, to which direct I/O of these bytes was issued in either
    /// direction.
    fn disk(issued: [u64; 2], device: Option<[u64; 2]>) -> Counted {
        Counted {
            name: "vda".into(),
            direct: true,
            issued,
            device,
            device_ios: 17,
            slack: 1000,
            memory: false,
            charged: true,
            hidden: None,
            below: Vec::new(),
            cached: false,
            apart: 0.0,
        }
    }

    const ASKED: u64 = 100_000_000;

    /// H03 detects: the device counted less than half of the bytes.
    /// H03 accepts: the device counted 98 % of the bytes.
    #[test]
    fn a_device_must_have_seen_it() {
        let counted = |direct, seen: u64, process| {
            let device = Counted { direct, ..disk([ASKED, 0], Some([seen, 55])) };
            counters_agree(&[device], process, Vec::new())
        };
        let by_others = counted(true, 103_000_000, Some([4096, 0]));
        assert_eq!(by_others.verdict, Verdict::Fail, "{by_others:?}");
        let counted = |direct, seen| counted(direct, seen, Some([seen, 0]));
        assert_eq!(counted(true, 98_000_000).verdict, Verdict::Pass);
        assert_eq!(counted(true, 97_998_000).verdict, Verdict::Warn);
        // H17 reports reads of others.
        let beside = |seen, process| {
            let device = disk([ASKED, 0], Some([seen, 0]));
            counters_agree(&[device], Some([process, 0]), Vec::new())
        };
        assert_eq!(beside(121_000_000, 100_100_000).verdict, Verdict::Pass);
        assert_eq!(beside(121_000_000, 121_000_000).verdict, Verdict::Warn, "read-ahead of ours");
        let more = counted(true, 103_000_000);
        assert_eq!(more.verdict, Verdict::Warn);
        assert!(more.evidence.contains("other users, or read-ahead"), "{more:?}");
        let lie = counted(true, 69_632);
        assert_eq!(lie.verdict, Verdict::Fail);
        assert!(lie.evidence.contains("in 17 I/Os (less than requested"), "{lie:?}");
        assert_eq!(counted(false, 0).verdict, Verdict::Warn);
        assert_eq!(counters_agree(&[], None, Vec::new()).verdict, Verdict::Unknown);
        let memory = (Verdict::DoesNotApply, "ram:1g: memory of this process".to_owned());
        let none = counters_agree(&[], Some([0, 0]), vec![memory]);
        assert_eq!(
            (none.verdict, &*none.evidence),
            (Verdict::DoesNotApply, "ram:1g: memory of this process")
        );
    }

    /// H03 detects: the device counted all bytes, above a layer that cannot be traced.
    #[test]
    fn what_hides_what_is_below_it_is_said() {
        let device = |hidden: Option<&str>, seen| Counted {
            hidden: hidden.map(str::to_owned),
            ..disk([ASKED, 0], Some([seen, 0]))
        };
        let judge = |device, process| counters_agree(&[device], process, Vec::new());
        let all = Some([100_000_000, 0]);
        assert_eq!(judge(device(None, 100_000_000), all).verdict, Verdict::Pass);
        let hidden = judge(device(Some("loop7 on /memfd:x (deleted)"), 100_000_000), all);
        assert_eq!(hidden.verdict, Verdict::Unknown);
        assert!(hidden.evidence.contains("below loop7 on /memfd:x (deleted)"), "{hidden:?}");
        assert_eq!(judge(device(Some("loop7"), 0), all).verdict, Verdict::Fail);
        // I/O of others may hide that ours is missing.
        assert_eq!(judge(device(None, 100_000_000), None).verdict, Verdict::Unknown);
    }

    /// Judges a file system without a separate device: overlay, btrfs.
    fn uncounted(direct: bool, way: usize, had: u64, charged: bool) -> Check {
        let mut issued = [0; 2];
        issued[way] = ASKED;
        let device = Counted { direct, charged, ..disk(issued, None) };
        let mut process = [0; 2];
        process[way] = had;
        counters_agree(&[device], Some(process), Vec::new())
    }

    /// H03 detects: no device has counters, and the process fetched a hundredth of the bytes.
    /// H03 accepts: no device has counters, and the process fetched 98 % of the bytes.
    #[test]
    fn what_the_process_saw_counts_without_a_device() {
        let lie = uncounted(true, 0, 400_000, true);
        assert_eq!(lie.verdict, Verdict::Fail);
        assert!(lie.evidence.contains("read 0.4 MiB of 95.4 MiB"), "{lie:?}");
        assert_eq!(uncounted(true, 0, 98_000_000, true).verdict, Verdict::Pass);
        // The program's other I/O explains more.
        assert_eq!(uncounted(true, 0, 198_000_000, true).verdict, Verdict::Pass);
        assert_eq!(uncounted(true, 0, 90_000_000, true).verdict, Verdict::Warn);
        // H01 reports buffered reads, and here they are a warning.
        assert_eq!(uncounted(false, 0, 400_000, true).verdict, Verdict::Warn);
        assert_eq!(uncounted(true, 0, 0, false).verdict, Verdict::Unknown);
    }

    #[test]
    fn memory_is_no_device() {
        let device = Counted { memory: true, charged: false, ..disk([1 << 30, 0], None) };
        let check = counters_agree(&[device], Some([0, 0]), Vec::new());
        assert_eq!(check.verdict, Verdict::Warn, "{check:?}");
        assert!(check.evidence.contains("memory answers"), "{check:?}");
    }

    /// H03 detects: buffered writes that were never written back.
    #[test]
    fn buffered_writes_that_never_arrive_are_no_writes() {
        let counted = |written: u64, device: bool| {
            let device = device.then_some([0, written]);
            let device = Counted { direct: false, ..disk([0, ASKED], device) };
            counters_agree(&[device], Some([0, written]), Vec::new())
        };
        for device in [true, false] {
            assert_eq!(counted(4096, device).verdict, Verdict::Fail);
            assert_eq!(counted(60_000_000, device).verdict, Verdict::Warn);
            assert_eq!(counted(100_000_000, device).verdict, Verdict::Pass);
        }
        assert!(counted(4096, true).evidence.contains("end_flush"));
    }

    /// H03 accepts: counters that were read late by 3 % of the window.
    #[test]
    fn moments_that_lie_apart_are_no_cache() {
        let judge = |seen: u64, apart| {
            let device = Counted { apart, ..disk([ASKED, 0], Some([seen, 0])) };
            counters_agree(&[device], Some([seen, 0]), Vec::new()).verdict
        };
        assert_eq!(
            [judge(95_500_000, 0.03), judge(95_500_000, 0.0)],
            [Verdict::Pass, Verdict::Warn]
        );
        assert_eq!([judge(94_000_000, 0.03), judge(4096, 0.5)], [Verdict::Warn, Verdict::Fail]);
    }

    /// H03 detects: a loop device counted all bytes, the disk below its file almost none.
    /// H03 accepts: the disk counted all bytes, or also those of other processes.
    #[test]
    fn every_level_moves_what_the_one_above_moves() {
        let judge = |below: &[Option<u64>], direct, cached| {
            let level = |(index, moved): (usize, &Option<u64>)| Level {
                name: format!("dm-{index}"),
                moved: moved.map(|read| [read, 0]),
            };
            let below = below.iter().enumerate().map(level).collect();
            let counted = disk([ASKED, 0], Some([ASKED, 0]));
            let device = Counted { direct, below, cached, ..counted };
            counters_agree(&[device], Some([ASKED, 0]), Vec::new())
        };
        let (all, most, none) = (Some(100_000_000), Some(90_000_000), Some(4096));
        assert_eq!(judge(&[all, Some(300_000_000)], true, false).verdict, Verdict::Pass);
        assert_eq!(judge(&[all, most], true, false).verdict, Verdict::Warn);
        let lie = judge(&[all, none], true, false);
        assert_eq!(lie.verdict, Verdict::Fail);
        assert!(lie.evidence.contains("the lower device dm-1 read 0.0 MiB of them"), "{lie:?}");
        assert_eq!(judge(&[none], false, false).verdict, Verdict::Warn, "asked for");
        assert_eq!(judge(&[none], true, true).verdict, Verdict::Warn, "H08 names the cache");
        assert_eq!(judge(&[all, None], true, false).verdict, Verdict::Unknown);
    }
}
