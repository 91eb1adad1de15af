//! Limits of cgroups, of both versions, on this process: memory, CPU, I/O.

use std::fs;
use std::path::{Path, PathBuf};

use self::tree::groups;
use crate::sample;

mod limits;
mod tree;

pub use self::limits::{CpuQuota, IoLimit, Limited, cpu_quota, io_limits, throttled};

/// Memory available to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Available memory, in bytes.
    pub available_bytes: u64,
    /// The limit, if it is not the host's memory.
    pub limit: Option<MemoryLimit>,
}

/// A memory cgroup with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Path of the cgroup below the mount point.
    pub cgroup: PathBuf,
    /// Limit in bytes.
    pub limit_bytes: u64,
}

impl std::fmt::Display for MemoryLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, limit) = (self.cgroup.display(), block::print_size(self.limit_bytes));
        write!(f, "limit of the memory cgroup {path}: {limit}")
    }
}

/// Value that means no limit: version 1 reports the largest number of whole pages.
const NO_LIMIT_BYTES: u64 = 1 << 62;

/// File names of one version.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// Key of the immediately reclaimable memory in `memory.stat`.
    reclaimable: &'static str,
}

const V1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file ",
};
const V2: Files =
    Files { limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file " };

/// Minimum of the host's available memory and the room in the process's cgroup and its parents.
/// `None` if unknown.
pub fn memory_room() -> Option<MemoryRoom> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (cgroups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    least(sample::memory_available_bytes(), rooms(Path::new("/"), &cgroups, &mounts))
}

fn least(host: Option<u64>, rooms: Vec<MemoryRoom>) -> Option<MemoryRoom> {
    let host = host.map(|available_bytes| MemoryRoom { available_bytes, limit: None });
    host.into_iter().chain(rooms).min_by_key(|room| room.available_bytes)
}

/// The room in each cgroup with a limit. All files are below `root`.
fn rooms(root: &Path, cgroups: &str, mounts: &str) -> Vec<MemoryRoom> {
    let groups = groups(root, cgroups, mounts, "memory").into_iter();
    let files = |unified| if unified { &V2 } else { &V1 };
    groups.filter_map(|group| room(&group.folder, &group.name, files(group.is_unified))).collect()
}

/// The room in a cgroup, if it has a limit.
fn room(folder: &Path, cgroup: &Path, files: &Files) -> Option<MemoryRoom> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let limit_bytes = number(files.limit).filter(|limit| *limit < NO_LIMIT_BYTES)?;
    let stat = read("memory.stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix(files.reclaimable));
    let reclaimable: u64 = line.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
    let used = number(files.usage).unwrap_or(0).saturating_sub(reclaimable);
    let limit = Some(MemoryLimit { cgroup: cgroup.to_owned(), limit_bytes });
    Some(MemoryRoom { available_bytes: limit_bytes.saturating_sub(used), limit })
}

#[cfg(test)]
mod test {
    use super::*;

    pub(super) const V1_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
    pub(super) const V2_MOUNTS: &str =
        "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";

    /// A tree of files, removed at the end.
    pub(super) struct Tree(pub(super) PathBuf);

    impl Tree {
        pub(super) fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let name = format!("drumfire-cgroup-{name}-{}", std::process::id());
            let root = std::env::temp_dir().join(name);
            for (path, text) in files {
                let path = root.join("sys/fs/cgroup").join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Tree(root)
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn limit(cgroup: &str, limit_bytes: u64) -> Option<MemoryLimit> {
        Some(MemoryLimit { cgroup: cgroup.into(), limit_bytes })
    }

    #[test]
    fn the_tightest_of_nested_cgroups_counts_less_what_is_used() {
        let tree = Tree::new(
            "v2",
            &[
                ("a/memory.max", "1000000\n"),
                ("a/memory.current", "900000\n"),
                ("a/memory.stat", "anon 5\ninactive_file 500000\nactive_file 7\n"),
                ("a/b/memory.max", "max\n"),
                ("a/b/memory.current", "899999\n"),
                ("a/b/c/memory.max", "700000\n"),
                ("a/b/c/memory.current", "10000\n"),
                ("other/memory.max", "5\n"),
            ],
        );
        let found = rooms(&tree.0, "0::/a/b/c\n", V2_MOUNTS);
        assert_eq!(found.len(), 2);
        let room = least(Some(1 << 40), found).unwrap();
        assert_eq!(room.available_bytes, 600_000);
        assert_eq!(room.limit, limit("/a", 1_000_000));
        let found = rooms(&tree.0, "0::/a/b/c\n", V2_MOUNTS);
        let host = least(Some(1000), found).unwrap();
        assert_eq!((host.available_bytes, host.limit), (1000, None));
    }

    #[test]
    fn version_1_has_other_names() {
        let tree = Tree::new(
            "v1",
            &[
                ("memory/memory.limit_in_bytes", "9223372036854771712\n"),
                ("memory/x/memory.limit_in_bytes", "67108864\n"),
                ("memory/x/memory.usage_in_bytes", "8388608\n"),
                ("memory/x/memory.stat", "inactive_file 1\ntotal_inactive_file 4194304\n"),
            ],
        );
        let cgroups = "9:name=systemd:/\n4:cpu,memory:/x\n1:cpu:/y\n0::/\n";
        let room = least(None, rooms(&tree.0, cgroups, V1_MOUNTS)).unwrap();
        assert_eq!(room.available_bytes, (64 << 20) - (4 << 20));
        let words = "limit of the memory cgroup /x: 64m";
        assert_eq!(room.limit.unwrap().to_string(), words);
    }

    #[test]
    fn a_container_sees_its_own_part_of_the_tree() {
        let tree = Tree::new(
            "container",
            &[
                ("memory/memory.limit_in_bytes", "4096000"),
                ("memory/memory.usage_in_bytes", "96000"),
            ],
        );
        let mounts = "5 4 0:32 /docker/1 /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
        for path in ["/docker/1", "/", "/elsewhere/that/is/not/seen"] {
            let found = rooms(&tree.0, &format!("4:memory:{path}\n"), mounts);
            assert_eq!(found.len(), 1, "{path}");
            assert_eq!(
                (found[0].available_bytes, &found[0].limit),
                (4_000_000, &limit("/", 4_096_000))
            );
        }
    }

    #[test]
    fn nothing_is_known_of_odd_files() {
        for (cgroups, mounts) in
            [("", ""), ("4:memory", V1_MOUNTS), ("0::/x", "1 2 3"), ("a:b:c", "-")]
        {
            assert_eq!(rooms(Path::new("/nowhere"), cgroups, mounts), []);
        }
        assert_eq!(least(None, Vec::new()), None);
        assert!(memory_room().is_some_and(|room| room.available_bytes > 0));
    }
}
