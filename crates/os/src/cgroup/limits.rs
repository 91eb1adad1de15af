//! CPU and I/O limits of cgroups on this process.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::tree::{Group, groups};

/// Quantity that an I/O limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limited {
    /// Reads.
    Reads,
    /// Writes.
    Writes,
    /// Bytes read.
    ReadBytes,
    /// Bytes written.
    WrittenBytes,
}

/// A cgroup's I/O limit of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoLimit {
    /// The file that sets it.
    pub file: PathBuf,
    /// Device number, such as `254:0`.
    pub device: String,
    /// Limited quantity.
    pub of: Limited,
    /// Limit per second.
    pub per_second: u64,
}

/// A cgroup's CPU quota.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuQuota {
    /// The file that sets it.
    pub file: PathBuf,
    /// CPU seconds per second.
    pub cores: f64,
}

/// The files of version 1, with the meaning of version 2's keys.
const V1: [(&str, Limited); 4] = [
    ("blkio.throttle.read_iops_device", Limited::Reads),
    ("blkio.throttle.write_iops_device", Limited::Writes),
    ("blkio.throttle.read_bps_device", Limited::ReadBytes),
    ("blkio.throttle.write_bps_device", Limited::WrittenBytes),
];
const V2: [(&str, Limited); 4] = [
    ("riops", Limited::Reads),
    ("wiops", Limited::Writes),
    ("rbps", Limited::ReadBytes),
    ("wbps", Limited::WrittenBytes),
];

/// I/O limits that apply to threads of this process. In version 2 those of parents apply, too; in
/// version 1 they do not. `None` where the groups of a thread do not show.
pub fn io_limits() -> Option<Vec<IoLimit>> {
    Some(limits_of(&here("blkio")?))
}

/// The least CPU quota of the cgroups of this process's threads and their parents.
pub fn cpu_quota() -> Option<CpuQuota> {
    let quotas = here("cpu")?.into_iter().filter_map(|group| quota_of(&group));
    quotas.min_by(|a, b| a.cores.total_cmp(&b.cores))
}

/// Number of times that a quota throttled a cgroup of this process's threads or a parent, since its
/// creation; `None` if the cgroups are not visible, or one has a quota and no counters.
pub fn throttled() -> Option<u64> {
    throttled_of(&here("cpu")?)
}

/// The groups of this process's threads with a controller; `None` where one of them is in a group
/// that does not show. Threads may be in groups of their own.
fn here(controller: &str) -> Option<Vec<Group>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut all: Vec<Group> = Vec::new();
    for cgroups in &of_threads()? {
        let found = groups(Path::new("/"), cgroups, &mounts, controller);
        if found.is_empty() && !is_in_none(cgroups, controller) {
            return None;
        }
        all.extend(found);
    }
    // A group may be the own group of one thread and the parent of another's.
    all.sort_by(|a, b| (&a.folder, b.is_own).cmp(&(&b.folder, a.is_own)));
    all.dedup_by(|a, b| a.folder == b.folder);
    Some(all)
}

/// Maximum threads whose cgroups are inspected.
const THREADS_MAX: usize = 256;

/// The groups of the threads of this process, as `/proc` shows them, each text once.
fn of_threads() -> Option<BTreeSet<String>> {
    let mut texts = BTreeSet::from([fs::read_to_string("/proc/self/cgroup").ok()?]);
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    // A thread may end meanwhile.
    let read = |task: fs::DirEntry| fs::read_to_string(task.path().join("cgroup")).ok();
    texts.extend(tasks.take(THREADS_MAX).filter_map(read));
    Some(texts)
}

/// Whether a process is in no group that could have a controller.
fn is_in_none(cgroups: &str, controller: &str) -> bool {
    let may_have = |line: &str| {
        let controllers = line.split(':').nth(1).unwrap_or_default();
        controllers.is_empty() || controllers.split(',').any(|one| one == controller)
    };
    !cgroups.lines().any(may_have)
}

fn limits_of(groups: &[Group]) -> Vec<IoLimit> {
    let mut found = Vec::new();
    for group in groups {
        if group.is_unified {
            let file = group.folder.join("io.max");
            let text = fs::read_to_string(&file).unwrap_or_default();
            found.extend(text.lines().flat_map(|line| unified(&file, line)));
        } else if group.is_own {
            for (name, of) in V1 {
                let file = group.folder.join(name);
                let text = fs::read_to_string(&file).unwrap_or_default();
                // "254:0 50000"
                found.extend(text.lines().filter_map(|line| {
                    let (device, number) = line.split_once(' ')?;
                    let per_second = number.trim().parse().ok()?;
                    Some(IoLimit { file: file.clone(), device: device.to_owned(), of, per_second })
                }));
            }
        }
    }
    found
}

/// "254:0 rbps=max wbps=1048576 riops=50000 wiops=max"
fn unified(file: &Path, line: &str) -> Vec<IoLimit> {
    let mut words = line.split_whitespace();
    let device = words.next().unwrap_or_default().to_owned();
    let limit = |word: &str| {
        let (name, number) = word.split_once('=')?;
        let of = V2.iter().find(|(known, _)| *known == name)?.1;
        let (file, device) = (file.to_owned(), device.clone());
        Some(IoLimit { file, device, of, per_second: number.parse().ok()? })
    };
    words.filter_map(limit).collect()
}

fn quota_of(group: &Group) -> Option<CpuQuota> {
    let name = if group.is_unified { "cpu.max" } else { "cpu.cfs_quota_us" };
    let file = group.folder.join(name);
    let text = fs::read_to_string(&file).ok()?;
    let mut words = text.split_whitespace();
    // "max 100000", or -1 for none.
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = match words.next() {
        Some(period) => period.parse().ok()?,
        None => {
            let text = fs::read_to_string(group.folder.join("cpu.cfs_period_us")).ok()?;
            text.trim().parse().ok()?
        }
    };
    (quota > 0.0 && period > 0.0).then(|| CpuQuota { file, cores: quota / period })
}

fn throttled_of(groups: &[Group]) -> Option<u64> {
    let counted = |group: &Group| {
        let text = fs::read_to_string(group.folder.join("cpu.stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("nr_throttled "))?;
        line.trim().parse::<u64>().ok()
    };
    // Without a quota nothing is held back, and not every such group counts.
    let times = |group| counted(group).or_else(|| quota_of(group).is_none().then_some(0));
    groups.iter().try_fold(0, |sum: u64, group| Some(sum.saturating_add(times(group)?)))
}

#[cfg(test)]
mod test {
    use super::super::test::{Tree, V1_MOUNTS, V2_MOUNTS};
    use super::*;

    #[test]
    fn limits_of_groups_above_hold_in_version_2_only() {
        let tree = Tree::new(
            "limits",
            &[
                ("a/io.max", "254:0 rbps=max wbps=1048576 riops=50000 wiops=max\n"),
                ("a/b/io.max", "7:0 riops=10\nnonsense\n"),
                ("blkio/a/blkio.throttle.read_iops_device", "254:0 2000\n"),
                ("blkio/a/b/blkio.throttle.write_bps_device", "254:16 4096\n"),
            ],
        );
        let found = limits_of(&groups(&tree.0, "0::/a/b\n", V2_MOUNTS, "io"));
        let short = |all: &[IoLimit]| -> Vec<(String, Limited, u64)> {
            all.iter().map(|it| (it.device.clone(), it.of, it.per_second)).collect()
        };
        assert_eq!(
            short(&found),
            [
                ("7:0".to_owned(), Limited::Reads, 10),
                ("254:0".to_owned(), Limited::WrittenBytes, 1 << 20),
                ("254:0".to_owned(), Limited::Reads, 50_000),
            ]
        );
        assert!(found[1].file.ends_with("a/io.max"), "{found:?}");
        let mounts = V1_MOUNTS.replace("memory", "blkio");
        let found = limits_of(&groups(&tree.0, "7:blkio:/a/b\n", &mounts, "blkio"));
        assert_eq!(short(&found), [("254:16".to_owned(), Limited::WrittenBytes, 4096)]);
        assert_eq!(limits_of(&groups(&tree.0, "", "", "blkio")), []);
    }

    #[test]
    fn the_quota_of_a_group_above_counts() {
        let tree = Tree::new(
            "quota",
            &[
                ("a/cpu.max", "50000 100000\n"),
                ("a/cpu.stat", "usage_usec 1\nnr_throttled 7\n"),
                ("a/b/cpu.max", "max 100000\n"),
                ("a/b/cpu.stat", "nr_throttled 1\n"),
                ("cpu/x/cpu.cfs_quota_us", "-1\n"),
                ("cpu/cpu.cfs_quota_us", "150000\n"),
                ("cpu/cpu.cfs_period_us", "100000\n"),
            ],
        );
        let all = groups(&tree.0, "0::/a/b\n", V2_MOUNTS, "cpu");
        let quotas: Vec<f64> = all.iter().filter_map(quota_of).map(|quota| quota.cores).collect();
        assert_eq!((quotas, throttled_of(&all)), (vec![0.5], Some(8)));
        let all = groups(&tree.0, "1:cpu:/x\n", V1_MOUNTS, "cpu");
        let quotas: Vec<f64> = all.iter().filter_map(quota_of).map(|quota| quota.cores).collect();
        assert_eq!((quotas, throttled_of(&all)), (vec![1.5], None));
        assert!(cpu_quota().is_none_or(|quota| quota.cores > 0.0));
        let none = [Group { folder: "/nowhere".into(), ..all[0].clone() }];
        assert_eq!((throttled_of(&none), throttled_of(&[])), (Some(0), Some(0)));
        assert!(is_in_none("4:memory:/a\n1:name=systemd:/\n", "cpu"));
        assert!(!is_in_none("4:memory,cpu:/a\n", "cpu") && !is_in_none("0::/\n", "cpu"));
    }
}
