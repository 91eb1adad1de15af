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
    /// Priority of its I/O if it is not the usual one: "real-time", "idle", "best-effort 0".
    pub io: Option<String>,
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
        let all = all.map(|thread| Scheduling { io: io_priority(thread.thread), ..thread });
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
            io: None,
            cpus: cpus.trim().to_owned(),
        })
    }
}

/// Returns the priority of a thread's I/O if it is not the usual one, as set by ioprio_set(2): the
/// kernel has no file of it.
fn io_priority(thread: u32) -> Option<String> {
    const OF_THREAD: libc::c_int = 1;
    // SAFETY: the call has three integers, reads no memory of this process and changes nothing; for
    // a thread that has ended it returns an error.
    let found = unsafe { libc::syscall(libc::SYS_ioprio_get, OF_THREAD, thread) };
    io_words(u32::try_from(found).ok()?)
}

/// Returns the words for a value of ioprio_get(2) that is not the usual one: class and level.
fn io_words(value: u32) -> Option<String> {
    let (class, level) = (value >> 13, value & 7);
    match class {
        1 => Some(format!("real-time {level}")),
        3 => Some("idle".to_owned()),
        2 if level != 4 => Some(format!("best-effort {level}")),
        _ => None,
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn a_priority_of_io_that_is_not_the_usual_one_has_words() {
        let of = |class: u32, level: u32| io_words((class << 13) | level);
        assert_eq!([of(0, 0), of(2, 4)], [None, None], "what nobody set");
        assert_eq!(of(1, 2).as_deref(), Some("real-time 2"));
        assert_eq!(of(2, 0).as_deref(), Some("best-effort 0"));
        assert_eq!(of(3, 7).as_deref(), Some("idle"));
        assert_eq!(io_priority(crate::sample::thread_id() as u32), None);
    }

    #[test]
    fn reads_class_and_priority_of_a_thread() {
        let mut fields = vec!["0"; 52];
        (fields[2], fields[18], fields[40]) = ("S", "-5", "1");
        let stat = format!("7 (a) b) {}", fields[2..].join(" "));
        let found = Scheduling::parse(&stat, "Name:\ta\nCpus_allowed_list:\t0-3\n").unwrap();
        let name = "a) b".to_owned();
        let cpus = "0-3".to_owned();
        assert_eq!(
            found,
            Scheduling { thread: 7, name, class: "SCHED_FIFO", nice: -5, io: None, cpus }
        );
        assert_eq!(Scheduling::parse("7 (a) S", ""), None);
    }

    #[test]
    fn this_thread_is_one_of_them() {
        let own = crate::sample::thread_id() as u32;
        let all = Scheduling::of_threads();
        assert!(all.iter().any(|one| one.thread == own && !one.cpus.is_empty()), "{all:?}");
    }
}
