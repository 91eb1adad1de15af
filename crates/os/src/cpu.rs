//! CPUs that this process may use.

use std::io;

/// Processors that the calling thread may run on, in ascending order.
pub fn allowed() -> Vec<usize> {
    allowed_of(0)
}

/// The CPU after the calling thread's among those of the process; `None` if the process has only
/// one. Works in a [pinned](pin) thread, too.
pub(crate) fn neighbour() -> Option<usize> {
    // The main thread, which is never pinned.
    let all = allowed_of(std::process::id() as libc::pid_t);
    let here = here()?;
    let next = all.iter().find(|cpu| **cpu > here).or(all.first());
    next.copied().filter(|cpu| *cpu != here)
}

/// The CPU of the calling thread.
pub(crate) fn here() -> Option<usize> {
    // SAFETY: a call without arguments.
    usize::try_from(unsafe { libc::sched_getcpu() }).ok()
}

fn allowed_of(thread: libc::pid_t) -> Vec<usize> {
    // SAFETY: an all-zero set is a valid, empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel fills the set that we own, of the size that we name.
    let result = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &mut set) };
    if result != 0 {
        return vec![0];
    }
    let count = libc::CPU_SETSIZE as usize;
    // SAFETY: `cpu` is below the size of the set.
    (0..count).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).collect()
}

/// Maximum CPUs that this host may ever have, including offline and unplugged ones.
pub fn possible() -> usize {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/possible").unwrap_or_default();
    let last = parse_list(text.trim()).and_then(|cpus| cpus.last().copied());
    let known = std::thread::available_parallelism().map_or(1, usize::from);
    last.map_or(known, |last| last + 1)
}

/// CPUs that run now, whether this process may use them or not.
pub fn online() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    parse_list(text.trim()).filter(|cpus| !cpus.is_empty()).unwrap_or_else(allowed)
}

/// CPUs of a NUMA node; `None` if there is no such node.
pub fn of_node(node: usize) -> Option<Vec<usize>> {
    let path = format!("/sys/devices/system/node/node{node}/cpulist");
    let cpus = parse_list(std::fs::read_to_string(path).ok()?.trim())?;
    if cpus.is_empty() { None } else { Some(cpus) }
}

/// NUMA nodes with CPUs: one on most hosts.
pub fn nodes() -> Vec<usize> {
    let text = std::fs::read_to_string("/sys/devices/system/node/has_cpu").unwrap_or_default();
    parse_list(text.trim()).unwrap_or_default()
}

/// The NUMA node of a CPU; `None` where unknown.
pub fn node_of(cpu: usize) -> Option<usize> {
    nodes().into_iter().find(|node| of_node(*node).is_some_and(|cpus| cpus.contains(&cpu)))
}

/// Bytes of the largest CPU cache; `None` where unknown.
pub fn cache_bytes() -> Option<u64> {
    let read = |index: u32| {
        let path = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(path).ok()?;
        text.trim().strip_suffix('K')?.parse::<u64>().ok()?.checked_mul(1024)
    };
    (0..8).filter_map(read).max()
}

/// Parses a CPU list of the kernel: `0-3,8`.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse().ok()?..=last.parse::<usize>().ok()?);
    }
    Some(cpus)
}

/// Whether the CPUs are those of a virtual machine, as far as they report it.
pub fn is_guest() -> bool {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = text.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    flags.split_whitespace().any(|flag| flag == "hypervisor")
}

/// Manufacturer of the machine in its firmware: `Amazon EC2`, `QEMU`; `None` if it has none.
pub fn maker() -> Option<String> {
    let text = std::fs::read_to_string("/sys/class/dmi/id/sys_vendor").ok()?;
    Some(text.trim().to_owned()).filter(|maker| !maker.is_empty())
}

/// Pins the calling thread to one CPU.
pub fn pin(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: an all-zero set is a valid, empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: `cpu` is below the size of the set.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the kernel reads the set that we own, of the size that we name.
    let result = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Model name of the CPU; `unknown` if the kernel reports none.
pub fn model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let name = line.and_then(|line| line.split_once(':')).map(|(_, name)| name.trim());
    name.unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_lists_of_the_kernel() {
        assert_eq!(parse_list("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!((parse_list(""), parse_list("a-b")), (Some(vec![]), None));
    }

    #[test]
    fn pins_to_an_allowed_processor() {
        let thread = std::thread::spawn(|| {
            let last = *allowed().last().unwrap();
            pin(last).unwrap();
            assert_eq!(allowed(), [last]);
            assert_ne!(neighbour(), Some(last));
            assert_eq!(neighbour().is_some(), allowed_of(std::process::id() as i32).len() > 1);
            assert!(pin(1 << 20).is_err());
        });
        thread.join().unwrap();
        assert!(!model().is_empty());
        assert!(nodes().iter().all(|node| of_node(*node).is_some()));
        assert!(cache_bytes().is_none_or(|bytes| bytes > 1024));
    }
}
