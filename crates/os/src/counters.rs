//! Counters beyond CPU time: bytes that this process moved, and the CPU time of kernel threads.

use std::collections::BTreeMap;
use std::fs;

/// Bytes that this process read from and wrote to storage since it started. Reads from the page
/// cache or holes do not count. `None` if the kernel does not count them.
pub fn process_io() -> Option<[u64; 2]> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    Some([keyed(&text, "read_bytes:")?, keyed(&text, "write_bytes:")?])
}

/// The kernel's clock source, such as `tsc`.
pub fn clock_source() -> Option<String> {
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// CPU time of each kernel thread since boot in seconds, by thread id, with its name: softirqs,
/// block layer and file systems use them for programs.
pub fn kernel_threads() -> BTreeMap<u32, (String, f64)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter_map(|number| {
            let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
            Some((number, kernel_thread(&stat)?))
        })
        .collect()
}

/// Name and seconds of a kernel thread; `None` for a user thread.
fn kernel_thread(stat: &str) -> Option<(String, f64)> {
    /// `PF_KTHREAD` of linux/sched.h.
    const KERNEL: u64 = 0x0020_0000;
    let (front, back) = stat.rsplit_once(')')?;
    let name = front.split_once('(')?.1;
    // proc(5) numbers fields from 1, and the first one after the name is field 3.
    let fields: Vec<&str> = back.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let used = (field(14)? + field(15)?) as f64 / 100.0;
    (field(9)? & KERNEL != 0).then(|| (name.to_owned(), used))
}

fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_threads() {
        let stat = "15 (ksoftirqd/0) S 2 0 0 0 -1 69238848 0 0 0 0 150 50 0 0 20";
        assert_eq!(kernel_thread(stat), Some(("ksoftirqd/0".to_owned(), 2.0)));
        assert_eq!(kernel_thread(&stat.replace("69238848", "4194304")), None);
        assert_eq!(kernel_thread("1 (a"), None);
    }

    #[test]
    fn this_host_counts() {
        assert!(kernel_threads().values().all(|(_, seconds)| *seconds >= 0.0));
        assert!(clock_source().is_none_or(|source| !source.is_empty()));
    }
}
