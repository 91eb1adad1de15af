//! Checks of CPUs: constant frequency, NUMA placement, CPU quota.

use super::together::{Finding, together};
use super::{Check, Verdict};

/// Observations of one CPU in the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paced {
    /// Number of the CPU.
    pub cpu: usize,
    /// Frequency in kHz at each reading.
    pub khz: Vec<u64>,
    /// Frequency governor; more than one if it changed.
    pub governors: Vec<String>,
    /// Thermal throttling events in the window.
    pub heat: Heat,
}

/// Thermal throttling events of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Heat {
    /// Number of events.
    Counted(u64),
    /// The kernel has no counter for CPUs of this kind: the frequency shows throttling.
    Uncounted,
    /// Unknown.
    #[default]
    Unknown,
}

/// Maximum change of the frequency, as a share.
const DRIFT: f64 = 0.05;

impl Paced {
    fn is_silent(&self) -> bool {
        self.khz.is_empty() && !matches!(self.heat, Heat::Counted(_))
    }

    /// Returns whether the readings are sufficient: a single one shows no change.
    fn tells_all(&self) -> bool {
        self.khz.len() > 1 && self.heat != Heat::Unknown
    }
}

/// H14: CPUs kept their frequency. `guest` is true for CPUs of a virtual machine, whose kernel may
/// not know their frequency.
pub fn frequency(cpus: &[Paced], guest: bool) -> Check {
    if cpus.iter().all(Paced::is_silent) {
        return match guest && !cpus.is_empty() {
            true => Check::does_not_apply(
                "H14",
                "a virtual machine: CPU frequencies are not visible, and its host sets them",
            ),
            false => Check::unknown("H14", "the kernel reports no CPU frequencies"),
        };
    }
    let all = || cpus.iter().flat_map(|cpu| &cpu.khz).copied();
    let drift = |cpu: &Paced| {
        let (least, most) = (cpu.khz.iter().min(), cpu.khz.iter().max());
        least.zip(most).map_or(0.0, |(least, most)| 1.0 - *least as f64 / (*most).max(1) as f64)
    };
    let worst = cpus.iter().map(drift).fold(0.0, f64::max);
    let heat = |cpu: &Paced| if let Heat::Counted(times) = cpu.heat { Some(times) } else { None };
    let throttled: Option<u64> = cpus.iter().map(heat).sum();
    let changed = cpus.iter().any(|cpu| cpu.governors.len() > 1);
    let mut governors: Vec<&str> =
        cpus.iter().flat_map(|cpu| &cpu.governors).map(String::as_str).collect();
    governors.sort_unstable();
    governors.dedup();
    let mut words = Vec::new();
    if let Some((least, most)) = all().min().zip(all().max()) {
        let [least, most] = [least, most].map(|khz| khz as f64 / 1e6);
        words.push(format!("{least:.2} to {most:.2} GHz"));
        words.push(format!("one CPU by {:.1} % (at most 5)", worst * 100.0));
    }
    if !governors.is_empty() {
        let word = if changed { "governor changed: " } else { "governor " };
        words.push(format!("{word}{}", governors.join(", ")));
    }
    words.push(match throttled {
        Some(times) => format!("thermally throttled {times} times"),
        None => "thermal throttling is not counted".to_owned(),
    });
    let hot = cpus.iter().filter_map(heat).any(|times| times > 0);
    let bad = worst > DRIFT || hot || changed;
    let silent = cpus.iter().filter(|cpu| !cpu.tells_all()).count();
    let verdict = match (bad, silent) {
        (true, _) => Verdict::Warn,
        (false, 0) => Verdict::Pass,
        (false, some) => {
            words.push(format!("{some} of {} CPUs do not report all of this", cpus.len()));
            Verdict::Unknown
        }
    };
    let check = Check::new("H14", "frequency", verdict, words.join(", "));
    let steady = governors == ["performance"] || governors.is_empty();
    let command = "cpupower frequency-set --governor performance";
    if bad && !steady { check.mend(command) } else { check }
}

/// A disk and its NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Name of the disk.
    pub disk: String,
    /// Number of the NUMA node; `None` if unknown.
    pub node: Option<usize>,
    /// CPUs of that node.
    pub cores: Vec<usize>,
}

/// H16: CPUs are on the NUMA nodes of the disks that they drive. `nodes` are the NUMA nodes of the
/// run's CPUs, one for each, and `all_nodes` is the number of nodes; `None` if unknown. `others`
/// are findings for volumes without disks of this host.
pub fn placement(
    nodes: &[Option<usize>],
    disks: &[Beside],
    all_nodes: Option<usize>,
    others: Vec<Finding>,
) -> Check {
    match all_nodes {
        None => return Check::unknown("H16", "the kernel reports no NUMA nodes"),
        Some(0 | 1) => return Check::does_not_apply("H16", "a host of one NUMA node"),
        Some(_) if nodes.is_empty() => {
            return Check::unknown(
                "H16",
                "the CPUs of the run are \
            not known",
            );
        }
        Some(_) => {}
    }
    let judged = disks.iter().map(|disk| disk.judge(nodes)).chain(others);
    let check = together("H16", "placement", judged, "no volume was examined");
    let first = disks.iter().find(|disk| disk.judge(nodes).0 == Verdict::Warn);
    let cores = |disk: &Beside| disk.cores.iter().map(usize::to_string).collect::<Vec<_>>();
    match first.map(cores) {
        Some(cores) => check.mend(format!("drumfire run --cores {}", cores.join(","))),
        None => check,
    }
}

impl Beside {
    fn judge(&self, nodes: &[Option<usize>]) -> Finding {
        let Beside { disk, node, .. } = self;
        let Some(node) = node else {
            return (Verdict::Unknown, format!("{disk}: its NUMA node is not known"));
        };
        let far = nodes.iter().flatten().filter(|own| *own != node).count();
        let (untold, of) = (nodes.iter().filter(|own| own.is_none()).count(), nodes.len());
        match (far, untold) {
            (0, 0) => (Verdict::Pass, format!("{disk}: all CPUs are on its NUMA node {node}")),
            (0, some) => {
                (Verdict::Unknown, format!("{disk}: the NUMA node of {some} CPUs is not known"))
            }
            (far, _) => {
                let words = format!("{far} of {of} CPUs are not on NUMA node {node} of {disk}");
                (Verdict::Warn, words)
            }
        }
    }
}

/// H13 for a CPU quota of a cgroup: its file, its size in CPUs, and the number of CPUs that the run
/// used, if known. `None` without a quota.
pub fn quota(quota: Option<(&str, f64)>, used: Option<f64>) -> Option<Check> {
    let (file, cores) = quota?;
    let meets = used.map(|used| used >= QUOTA_SHARE * cores);
    let used = used.map_or_else(|| "unknown".to_owned(), |used| format!("{used:.2}"));
    let words = format!("{file} grants {cores:.2} CPUs, used {used} (at most 90 % of it)");
    let verdict = match meets {
        Some(true) => Verdict::Warn,
        Some(false) => Verdict::Pass,
        None => Verdict::Unknown,
    };
    let made = Check::new("H13", "cpu-was-ours", verdict, words);
    Some(if verdict == Verdict::Warn {
        made.mend(format!("raise the quota in {file}, or lower the load: --rate"))
    } else {
        made
    })
}

/// Share of a quota from which on the quota may be the limit.
const QUOTA_SHARE: f64 = 0.9;

/// H24: all volumes driven at once are of one medium: a rate over two media is that of neither.
/// `kinds` are names of volumes, each with its medium, if known.
pub fn one_medium(kinds: &[(String, Option<String>)]) -> Check {
    let check = |verdict, words: String| Check::new("H24", "one-medium", verdict, words);
    let mut known = kinds.iter().filter_map(|(name, kind)| Some((name, kind.as_ref()?)));
    let first = known.next();
    let other = first.and_then(|(_, first)| known.find(|(_, kind)| *kind != first));
    let untold = kinds.iter().find(|(_, kind)| kind.is_none());
    match (kinds, first.zip(other), untold) {
        ([], ..) => check(Verdict::Unknown, "no volume was examined".to_owned()),
        ([_], ..) => check(Verdict::DoesNotApply, "one volume".to_owned()),
        (_, Some(((one, is), (other, another))), _) => {
            let words = "the totals mix both and describe neither";
            let words = format!("{one} is {is}, {other} is {another}: {words}");
            [one, other].into_iter().fold(check(Verdict::Warn, words), |check, name| {
                check.mend(format!("drumfire run '{name}'"))
            })
        }
        (_, None, Some((name, _))) => {
            check(Verdict::Unknown, format!("{name}: the medium is not known"))
        }
        (all, None, None) => {
            let kind = first.map_or("?", |(_, kind)| kind);
            check(Verdict::Pass, format!("{} volumes, all {kind}", all.len()))
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    /// H14 detects: a CPU that is 7 % slower, thermally throttled, or has another governor.
    /// H14 accepts: a CPU that is 3 % slower; CPUs of two kinds.
    #[test]
    fn a_processor_that_slows_down_is_said() {
        let judge = |khz: &[u64], throttled: Option<u64>, governors: &[&str]| {
            let governors = governors.iter().map(|name| (*name).to_owned()).collect();
            let heat = throttled.map_or(Heat::Unknown, Heat::Counted);
            frequency(&[Paced { cpu: 0, khz: khz.to_vec(), governors, heat }], false)
        };
        let steady = judge(&[3_000_000, 2_900_000], Some(0), &["powersave"]);
        assert_eq!((steady.verdict, steady.mend.len()), (Verdict::Pass, 0));
        let slower = judge(&[3_000_000, 2_800_000], None, &["powersave"]);
        assert_eq!((slower.verdict, slower.mend.len()), (Verdict::Warn, 1));
        assert_eq!(judge(&[], Some(1), &[]).verdict, Verdict::Warn);
        let changed = judge(&[3_000_000], None, &["performance", "powersave"]);
        assert_eq!(changed.verdict, Verdict::Warn);
        for [khz, heat] in [[0, 0], [0, 1], [1, 1], [2, 0]] {
            let heat = (heat > 0).then_some(0);
            let part = judge(&vec![3_000_000; khz], heat, &["performance"]);
            assert_eq!(part.verdict, Verdict::Unknown, "{part:?}");
        }
        // CPUs of two kinds are no drift, and not every kernel counts throttling.
        let cpu = |khz| Paced { khz: vec![khz; 3], heat: Heat::Uncounted, ..Paced::default() };
        let both = [cpu(2_000_000), cpu(3_000_000)];
        assert_eq!(frequency(&both, false).verdict, Verdict::Pass);
        let silent = [Paced { heat: Heat::Uncounted, ..Paced::default() }];
        assert_eq!(frequency(&silent, true).verdict, Verdict::DoesNotApply);
        assert_eq!(frequency(&silent, false).verdict, Verdict::Unknown);
        assert_eq!(frequency(&[], true).verdict, Verdict::Unknown);
    }

    /// H16 detects: a CPU on another NUMA node than the disk.
    /// H16 accepts: all CPUs on the disk's NUMA node.
    #[test]
    fn far_disks_are_said() {
        let disk = [Beside { disk: "nvme0n1".to_owned(), node: Some(1), cores: vec![4, 5] }];
        let judge = |nodes: &[Option<usize>], disks: &[Beside], all_nodes| {
            placement(nodes, disks, all_nodes, Vec::new())
        };
        let verdict = |nodes: &[Option<usize>], all_nodes| judge(nodes, &disk, all_nodes).verdict;
        assert_eq!(verdict(&[Some(1), Some(1)], Some(2)), Verdict::Pass);
        let far = judge(&[Some(1), Some(0)], &disk, Some(2));
        assert_eq!(far.verdict, Verdict::Warn);
        assert_eq!(far.mend, ["drumfire run --cores 4,5"]);
        assert!(far.evidence.starts_with("1 of 2 CPUs are not on NUMA node 1"), "{far:?}");
        assert_eq!(verdict(&[Some(0)], Some(1)), Verdict::DoesNotApply);
        assert_eq!(verdict(&[Some(1)], None), Verdict::Unknown);
        assert_eq!(verdict(&[Some(1), None], Some(2)), Verdict::Unknown);
        assert_eq!(verdict(&[], Some(2)), Verdict::Unknown);
        assert_eq!(judge(&[Some(0)], &[], Some(2)).verdict, Verdict::Unknown);
        let untold = [Beside { node: None, ..disk[0].clone() }];
        assert_eq!(judge(&[Some(1)], &untold, Some(2)).verdict, Verdict::Unknown);
    }

    /// H13 detects: 90 % of a CPU quota are used.
    /// H13 accepts: 89 % of a CPU quota are used.
    #[test]
    fn a_quota_that_is_used_up_is_said() {
        let judge = |used| quota(Some(("/cpu.max", 1.0)), used).unwrap().verdict;
        assert_eq!([Some(0.89), None].map(judge), [Verdict::Pass, Verdict::Unknown]);
        assert_eq!(judge(Some(0.9)), Verdict::Warn);
        assert_eq!(quota(None, Some(1.0)), None);
    }

    /// H24 detects: `null:` and a disk in one run.
    /// H24 accepts: two volumes of the same kind.
    #[test]
    fn two_media_are_no_one() {
        let kind = |name: &str, kind: &str| (name.to_owned(), Some(kind.to_owned()));
        let mixed = [kind("null:1g", "nothing"), kind("file:a", "a disk")];
        let found = one_medium(&mixed);
        assert_eq!((found.verdict, found.mend.len()), (Verdict::Warn, 2));
        let untold = ("nbd://host".to_owned(), None);
        let [one, other] = mixed;
        let verdict = |kinds: &[(String, Option<String>)]| one_medium(kinds).verdict;
        assert_eq!(verdict(std::slice::from_ref(&one)), Verdict::DoesNotApply);
        assert_eq!(verdict(&[other.clone(), other.clone()]), Verdict::Pass);
        assert_eq!(verdict(&[other.clone(), untold.clone()]), Verdict::Unknown);
        assert_eq!(verdict(&[one, untold, other]), Verdict::Warn);
        assert_eq!(verdict(&[]), Verdict::Unknown);
    }
}
