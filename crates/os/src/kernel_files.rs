//! Files of the kernel that are read as evidence, and a check that the kernel serves them: a mount
//! namespace can have other files at their paths, as lxcfs does for containers.

use std::fs::File;
use std::path::Path;

/// Magic numbers of the kernel's own file systems, by linux/magic.h.
const PROC: u64 = 0x9fa0;
const SYSFS: u64 = 0x6265_6572;

/// Files of the kernel that are read.
pub const READ: [&str; 11] = [
    "/proc/stat",
    "/proc/schedstat",
    "/proc/uptime",
    "/proc/meminfo",
    "/proc/self/io",
    "/proc/self/cgroup",
    "/proc/self/mountinfo",
    "/sys/block",
    "/sys/dev/block",
    "/sys/devices/system/clocksource",
    "/sys/devices/system/cpu",
];

/// Files of [`READ`] that exist and that something else than the kernel answers.
pub fn replaced() -> Vec<&'static str> {
    READ.into_iter().filter(|path| is_kernels(Path::new(path)) == Some(false)).collect()
}

/// Whether the kernel serves a file below `/proc` or `/sys`; `None` if it cannot be opened.
pub(crate) fn is_kernels(path: &Path) -> Option<bool> {
    let file = File::open(path).ok()?;
    let about = rustix::fs::fstatfs(&file).ok()?;
    Some([PROC, SYSFS].contains(&(about.f_type as u64)))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn another_file_in_the_place_of_the_kernels_is_seen() {
        assert_eq!(is_kernels(Path::new("/proc/self/stat")), Some(true));
        assert_eq!(is_kernels(Path::new("/sys/devices")), Some(true));
        assert_eq!(is_kernels(&std::env::temp_dir()), Some(false));
        assert_eq!(is_kernels(Path::new("/nowhere")), None);
    }
}
