//! Scheduling of the threads of this process, as reported by the kernel.

use std::fs;

/// Scheduling of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduling {
    /// Id of the thread.
    pub thread: u32,
    /// Name of the thread.
    pub name: String,
    /// Scheduling class: [`OTHER`](Self::OTHER), or another name in sched(7).
    pub class: &'static str,
    /// Nice value, −20 to 19.
    pub nice: i32,
    /// CPUs of the thread's affinity, as a list.
    pub cpus: String,
}

/// Maximum threads that are inspected: more take longer than the result is worth.
const THREADS_MAX: usize = 256;

impl Scheduling {
    /// Default scheduling class.
    pub const OTHER: &str = "SCHED_OTHER";

    /// Scheduling of each thread of this process, without threads that the kernel created for it.
    pub fn of_threads() -> Vec<Scheduling> {
        let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let one = |task: fs::DirEntry| {
            let read = |file| fs::read_to_string(task.path().join(file)).ok();
            Scheduling::parse(&read("stat")?, &read("status")?)
        };
        let all = tasks.take(THREADS_MAX).filter_map(one);
        all.filter(|thread| !thread.name.starts_with("iou-")).collect()
    }

    fn parse(stat: &str, status: &str) -> Option<Scheduling> {
        let (front, back) = stat.rsplit_once(") ")?;
        let (thread, name) = front.split_once(" (")?;
        // proc(5) numbers fields from 1, and the first one after the name is field 3.
        let fields: Vec<&str> = back.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<i64>().ok();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
        Some(Scheduling {
            thread: thread.parse().ok()?,
            name: name.to_owned(),
            class: match field(41)? {
                0 => Scheduling::OTHER,
                1 => "SCHED_FIFO",
                2 => "SCHED_RR",
                3 => "SCHED_BATCH",
                5 => "SCHED_IDLE",
                6 => "SCHED_DEADLINE",
                _ => "an unknown class",
            },
            nice: field(19)? as i32,
            cpus: cpus.trim().to_owned(),
        })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_class_and_priority_of_a_thread() {
        let mut fields = vec!["0"; 52];
        (fields[2], fields[18], fields[40]) = ("S", "-5", "1");
        let stat = format!("7 (a) b) {}", fields[2..].join(" "));
        let found = Scheduling::parse(&stat, "Name:\ta\nCpus_allowed_list:\t0-3\n").unwrap();
        let name = "a) b".to_owned();
        let cpus = "0-3".to_owned();
        assert_eq!(found, Scheduling { thread: 7, name, class: "SCHED_FIFO", nice: -5, cpus });
        assert_eq!(Scheduling::parse("7 (a) S", ""), None);
    }

    #[test]
    fn this_thread_is_one_of_them() {
        let own = crate::sample::thread_id() as u32;
        let all = Scheduling::of_threads();
        assert!(all.iter().any(|one| one.thread == own && !one.cpus.is_empty()), "{all:?}");
    }
}
