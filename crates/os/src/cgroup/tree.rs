//! The cgroups of this process and their parents, in each version.

use std::path::{Path, PathBuf};

/// A cgroup of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Directory of the cgroup.
    pub(super) folder: PathBuf,
    /// Path of the cgroup below the mount point.
    pub(super) name: PathBuf,
    /// Whether the cgroup is of version 2.
    pub(super) is_unified: bool,
    /// Whether the process is directly in the cgroup.
    pub(super) is_own: bool,
}

/// The cgroups with a controller, such as `memory`, children before parents. `cgroups` and `mounts`
/// are `/proc/self/cgroup` and `/proc/self/mountinfo`; all files are below `root`.
pub(super) fn groups(root: &Path, cgroups: &str, mounts: &str, controller: &str) -> Vec<Group> {
    let mut groups = Vec::new();
    for line in cgroups.lines() {
        // hierarchy:controllers:path
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(controllers), Some(path)) =
            (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let is_unified = number == "0" && controllers.is_empty();
        if !is_unified && !controllers.split(',').any(|one| one == controller) {
            continue;
        }
        let Some((mount, mount_root)) = mount(mounts, controller, is_unified) else { continue };
        // In a container the mount point shows a part of the tree.
        let path = Path::new(path);
        let below = path.strip_prefix(&mount_root).unwrap_or_else(|_| Path::new(""));
        let below = below.strip_prefix("/").unwrap_or(below);
        let base = root.join(mount.strip_prefix("/").unwrap_or(&mount));
        groups.extend(below.ancestors().map(|part| Group {
            folder: base.join(part),
            name: Path::new("/").join(part),
            is_unified,
            is_own: part == below,
        }));
    }
    groups
}

/// Mount point of a controller, and the root of the mounted part of its tree.
fn mount(mounts: &str, controller: &str, unified: bool) -> Option<(PathBuf, PathBuf)> {
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut place = place.split(' ').skip(3);
        let (root, mount) = (place.next()?, place.next()?);
        let mut kind = kind.split(' ');
        let (name, options) = (kind.next()?, kind.nth(1)?);
        let fits = match unified {
            true => name == "cgroup2",
            false => name == "cgroup" && options.split(',').any(|option| option == controller),
        };
        fits.then(|| (mount.into(), root.into()))
    })
}
