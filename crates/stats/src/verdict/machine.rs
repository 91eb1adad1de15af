//! Whether the processors ran evenly, were near, and were as many as were used.

use super::together::LISTED;
use super::{Check, Verdict};

/// What was seen of one processor in the window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Paced {
    /// Its number.
    pub cpu: usize,
    /// Its frequency in kHz each time that it was looked at.
    pub khz: Vec<u64>,
    /// Who decided on its frequency; more than one if that changed.
    pub governors: Vec<String>,
    /// How often heat held it back in the window.
    pub throttled: Option<u64>,
}

/// Frequencies may differ by this share.
const DRIFT: f64 = 0.05;

/// H14: processors kept their frequency. `None` where the system tells nothing of it.
pub fn frequency(cpus: &[Paced]) -> Option<Check> {
    let known = |cpu: &&Paced| !cpu.khz.is_empty() || cpu.throttled.is_some();
    let cpus: Vec<&Paced> = cpus.iter().filter(known).collect();
    if cpus.is_empty() {
        return None;
    }
    let all = || cpus.iter().flat_map(|cpu| &cpu.khz).copied();
    let drift = |cpu: &&&Paced| {
        let (least, most) = (cpu.khz.iter().min(), cpu.khz.iter().max());
        least.zip(most).map_or(0.0, |(least, most)| 1.0 - *least as f64 / (*most).max(1) as f64)
    };
    let worst = cpus.iter().max_by(|a, b| drift(a).total_cmp(&drift(b)));
    let drift = worst.as_ref().map_or(0.0, drift);
    let throttled: u64 = cpus.iter().filter_map(|cpu| cpu.throttled).sum();
    let changed = cpus.iter().any(|cpu| cpu.governors.len() > 1);
    let mut governors: Vec<&str> =
        cpus.iter().flat_map(|cpu| &cpu.governors).map(String::as_str).collect();
    governors.sort_unstable();
    governors.dedup();
    let mut words = Vec::new();
    if let Some((least, most)) = all().min().zip(all().max()) {
        let [least, most] = [least, most].map(|khz| khz as f64 / 1e6);
        words.push(format!("{least:.2} to {most:.2} GHz"));
        words.push(format!("one processor by {:.1} % (at most 5)", drift * 100.0));
    }
    if !governors.is_empty() {
        let word = if changed { "governor changed: " } else { "governor " };
        words.push(format!("{word}{}", governors.join(", ")));
    }
    words.push(format!("held back by heat {throttled} times"));
    let bad = drift > DRIFT || throttled > 0 || changed;
    let verdict = if bad { Verdict::Warn } else { Verdict::Pass };
    let check = Check::new("H14", "frequency", verdict, words.join(", "));
    let steady = governors == ["performance"] || governors.is_empty();
    let command = "cpupower frequency-set --governor performance";
    Some(if bad && !steady { check.mend(command) } else { check })
}

/// A disk and the memory that it is beside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// The disk.
    pub disk: String,
    /// Number of the memory.
    pub node: usize,
    /// Processors beside that memory.
    pub cores: Vec<usize>,
}

/// H16: processors are beside the disks that they drive. `nodes` are the memories that the
/// processors of the run are beside, one for each, and `all_nodes` how many there are. `None` where
/// nothing is far from anything, or nobody tells.
pub fn placement(nodes: &[usize], disks: &[Beside], all_nodes: usize) -> Option<Check> {
    if all_nodes < 2 || nodes.is_empty() || disks.is_empty() {
        return None;
    }
    let far = |disk: &&Beside| nodes.iter().filter(|own| **own != disk.node).count();
    let found: Vec<&Beside> = disks.iter().filter(|disk| far(disk) > 0).collect();
    let Some(first) = found.first() else {
        let words = "CPUs and disks are on one NUMA node";
        return Some(Check::new("H16", "placement", Verdict::Pass, words));
    };
    let words: Vec<String> = found
        .iter()
        .take(LISTED)
        .map(|it| {
            let (count, of, Beside { disk, node, .. }) = (far(it), nodes.len(), it);
            format!("{count} of {of} CPUs are not on NUMA node {node} of {disk}")
        })
        .collect();
    let check = Check::new("H16", "placement", Verdict::Warn, words.join("; "));
    let cores: Vec<String> = first.cores.iter().map(usize::to_string).collect();
    Some(check.mend(format!("drumfire run --cores {}", cores.join(","))))
}

/// H13, as far as a quota of processors goes that a control group sets: its file, its size in
/// processors, and how many the run used. `None` without a quota.
pub fn quota(quota: Option<(&str, f64)>, used: Option<f64>) -> Option<Check> {
    let (file, cores) = quota?;
    let meets = used.is_some_and(|used| used >= QUOTA_SHARE * cores);
    let used = used.map_or_else(|| "unknown".to_owned(), |used| format!("{used:.2}"));
    let words = format!("{file} grants {cores:.2} processors, used {used} (at most 90 % of it)");
    let verdict = if meets { Verdict::Warn } else { Verdict::Pass };
    let made = Check::new("H13", "cpu-was-ours", verdict, words);
    Some(if meets {
        made.mend(format!("raise the quota of {file}, or ask for less: --rate"))
    } else {
        made
    })
}

/// From this share of a quota on it is near enough to be the limit.
const QUOTA_SHARE: f64 = 0.9;

/// H24: what is driven at once is of one kind: a rate over two media is that of neither. `kinds`
/// are names of volumes, each with its kind. `None` where all are alike.
pub fn one_medium(kinds: &[(String, String)]) -> Option<Check> {
    let (_, first) = kinds.first()?;
    let other = kinds.iter().find(|(_, kind)| kind != first)?;
    let words = format!(
        "{} is {first}, {} is {}: totals mix both and describe neither",
        kinds[0].0, other.0, other.1
    );
    let check = Check::new("H24", "one-medium", Verdict::Warn, words);
    Some(
        [&kinds[0].0, &other.0]
            .into_iter()
            .fold(check, |check, name| check.mend(format!("drumfire run '{name}'"))),
    )
}

#[cfg(test)]
mod test {
    use super::*;

    /// Lie of H14: a processor 7 % slower than before, held back by heat, with another governor.
    /// Twin of H14: 3 % slower; processors of two kinds.
    #[test]
    fn a_processor_that_slows_down_is_said() {
        let judge = |khz: &[u64], throttled, governors: &[&str]| {
            let governors = governors.iter().map(|name| (*name).to_owned()).collect();
            frequency(&[Paced { cpu: 0, khz: khz.to_vec(), governors, throttled }])
        };
        let steady = judge(&[3_000_000, 2_900_000], Some(0), &["powersave"]).unwrap();
        assert_eq!((steady.verdict, steady.mend.len()), (Verdict::Pass, 0));
        let slower = judge(&[3_000_000, 2_800_000], None, &["powersave"]).unwrap();
        assert_eq!((slower.verdict, slower.mend.len()), (Verdict::Warn, 1));
        assert_eq!(judge(&[], Some(1), &[]).unwrap().verdict, Verdict::Warn);
        let changed = judge(&[3_000_000], None, &["performance", "powersave"]).unwrap();
        assert_eq!(changed.verdict, Verdict::Warn);
        assert_eq!(judge(&[], None, &["performance"]), None);
        // Processors of two kinds are no drift.
        let cpu = |khz| Paced { khz: vec![khz; 3], ..Paced::default() };
        assert_eq!(frequency(&[cpu(2_000_000), cpu(3_000_000)]).unwrap().verdict, Verdict::Pass);
    }

    /// Lie of H16: a processor on another node than the disk.
    /// Twin of H16: all on its node.
    #[test]
    fn far_disks_are_said() {
        let disk = [Beside { disk: "nvme0n1".to_owned(), node: 1, cores: vec![4, 5] }];
        assert_eq!(placement(&[1, 1], &disk, 2).unwrap().verdict, Verdict::Pass);
        let far = placement(&[1, 0], &disk, 2).unwrap();
        assert_eq!(far.verdict, Verdict::Warn);
        assert_eq!(far.mend, ["drumfire run --cores 4,5"]);
        assert!(far.evidence.starts_with("1 of 2 CPUs are not on NUMA node 1"), "{far:?}");
        assert_eq!(placement(&[0], &disk, 1), None);
        assert_eq!(placement(&[0], &[], 2), None);
    }

    /// Lie of H13: 90 % of a quota are used.
    /// Twin of H13: 89 % are.
    #[test]
    fn a_quota_that_is_used_up_is_said() {
        let judge = |used| quota(Some(("/cpu.max", 1.0)), used).unwrap().verdict;
        assert_eq!([Some(0.89), None].map(judge), [Verdict::Pass; 2]);
        assert_eq!(judge(Some(0.9)), Verdict::Warn);
        assert_eq!(quota(None, Some(1.0)), None);
    }

    /// Lie of H24: `null:` and a disk in one run.
    /// Twin of H24: two of the same kind.
    #[test]
    fn two_media_are_no_one() {
        let kind = |name: &str, kind: &str| (name.to_owned(), kind.to_owned());
        let mixed = [kind("null:1g", "nothing"), kind("file:a", "a disk")];
        let found = one_medium(&mixed).unwrap();
        assert_eq!((found.verdict, found.mend.len()), (Verdict::Warn, 2));
        assert_eq!(one_medium(&mixed[..1]), None);
        assert_eq!(one_medium(&[mixed[1].clone(), mixed[1].clone()]), None);
        assert_eq!(one_medium(&[]), None);
    }
}
