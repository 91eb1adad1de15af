//! Conditions of a run on its host: the scheduling of its threads, and the origin of the files that
//! describe the host.

use super::together::{Finding, together};
use super::{Check, Verdict};

/// Scheduling of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// Name of the thread.
    pub name: String,
    /// Scheduling class if it is not SCHED_OTHER: `SCHED_FIFO`.
    pub class: Option<String>,
    /// Nice value, −20 to 19.
    pub nice: i32,
    /// Priority of its I/O if it is not the usual one: `idle`.
    pub io: Option<String>,
    /// CPU affinity, one list after another if it changed.
    pub cpus: Vec<String>,
}

impl Scheduled {
    fn judge(&self) -> Finding {
        let Scheduled { name, class, nice, io, cpus } = self;
        let mut words = Vec::new();
        if let Some(class) = class {
            words.push(format!("ran in class {class}"));
        }
        if *nice != 0 {
            words.push(format!("had the nice value {nice}"));
        }
        if let Some(io) = io {
            words.push(format!("had the I/O priority {io}"));
        }
        if cpus.len() > 1 {
            words.push(format!("was moved from CPUs {}", cpus.join(" to ")));
        }
        match words.is_empty() {
            true => (Verdict::Pass, "threads had the usual class and priority".to_owned()),
            false => (Verdict::Warn, format!("thread '{name}' {}", words.join(" and "))),
        }
    }
}

/// H13: threads were scheduled like those of other programs, on the CPUs that they had at the
/// beginning.
pub fn scheduling(threads: &[Scheduled]) -> Check {
    let judged = threads.iter().map(Scheduled::judge);
    let check = together(
        "H13",
        "cpu-was-ours",
        judged,
        "the scheduling class of the threads is \
        not known",
    );
    match check.verdict {
        Verdict::Warn => {
            check.mend("run it without chrt, nice, ionice and taskset: --cores chooses CPUs")
        }
        _ => check,
    }
}

/// Files of the kernel, and the checks that rest on each.
const RESTS: [(&str, &[&str]); 11] = [
    ("/proc/stat", &["H13", "H17"]),
    ("/proc/schedstat", &["H13"]),
    ("/proc/uptime", &["H15"]),
    ("/proc/meminfo", &["H08"]),
    ("/proc/self/io", &["H03"]),
    ("/proc/self/cgroup", &["H13", "H18"]),
    ("/proc/self/mountinfo", &["H01", "H03", "H08"]),
    ("/sys/block", &["H03", "H18"]),
    ("/sys/dev/block", &["H01", "H03", "H18"]),
    ("/sys/devices/system/clocksource", &["H15"]),
    ("/sys/devices/system/cpu", &["H14", "H16"]),
];

/// Checks that rest on the counters of a device.
const OF_A_DEVICE: [&str; 3] = ["H03", "H17", "H18"];

/// Returns the checks that rest on files which something other than the kernel provides, such as
/// lxcfs for containers: their verdicts are unknown.
pub fn replaced(files: &[String]) -> Vec<Check> {
    let rests = |file: &String| {
        let codes = RESTS.iter().find(|(known, _)| known == file).map(|(_, codes)| *codes);
        let codes = codes.unwrap_or(&OF_A_DEVICE);
        let words = format!("{file} is not the kernel's: something is mounted over it");
        codes.iter().map(move |code| Check::unknown(code, words.clone()))
    };
    files.iter().flat_map(rests).collect()
}

/// H13, and H18 if volumes may have `disks`, of a run in a cgroup namespace: cgroups above its root
/// apply to the run, too, and are not visible inside.
pub fn unseen_groups(disks: bool) -> Vec<Check> {
    let mut codes = vec![("H13", "quotas")];
    codes.extend(disks.then_some(("H18", "limits of I/O")));
    let unseen = |(code, what): (&str, &str)| {
        let words = "cgroups above this namespace are not visible";
        Check::unknown(code, format!("{words}: their {what} apply, too"))
    };
    codes.into_iter().map(unseen).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    fn thread(class: Option<&str>, nice: i32, cpus: &[&str]) -> Scheduled {
        let cpus = cpus.iter().map(|list| (*list).to_owned()).collect();
        Scheduled { name: "worker 0".into(), class: class.map(str::to_owned), nice, io: None, cpus }
    }

    /// H13 detects: a real-time class, nice value or I/O priority of a thread; a thread that moves.
    /// H13 accepts: all threads with the default priority.
    #[test]
    fn a_thread_that_is_preferred_is_said() {
        let usual = || thread(None, 0, &["0-1"]);
        assert_eq!(scheduling(&[usual(), usual()]).verdict, Verdict::Pass);
        assert_eq!(scheduling(&[]).verdict, Verdict::Unknown);
        for (lie, words) in [
            (thread(Some("SCHED_FIFO"), 0, &["0"]), "class SCHED_FIFO"),
            (thread(None, -20, &["0"]), "nice value -20"),
            (Scheduled { io: Some("idle".into()), ..usual() }, "I/O priority idle"),
            (thread(None, 0, &["0", "1"]), "from CPUs 0 to 1"),
        ] {
            let check = scheduling(&[usual(), lie]);
            assert_eq!((check.verdict, check.mend.len()), (Verdict::Warn, 1));
            assert!(check.evidence.contains(words), "{check:?}");
        }
    }

    /// H13 detects: a file with idle CPUs mounted over the kernel's.
    /// H17 detects: a file with idle CPUs mounted over the kernel's.
    #[test]
    fn what_rests_on_files_of_others_is_not_known() {
        assert_eq!(replaced(&[]), []);
        let checks = replaced(&["/proc/stat".to_owned()]);
        let codes: Vec<&str> = checks.iter().map(|check| check.code.as_str()).collect();
        assert_eq!(codes, ["H13", "H17"]);
        assert!(checks.iter().all(|check| check.verdict == Verdict::Unknown));
        let hidden = unseen_groups(true);
        assert!(hidden.iter().all(|check| check.verdict == Verdict::Unknown), "{hidden:?}");
        assert_eq!(hidden.iter().map(|check| &*check.code).collect::<Vec<_>>(), ["H13", "H18"]);
        assert_eq!(unseen_groups(false).len(), 1);
        assert_eq!(replaced(&["/sys/devices/virtual/block/loop7/stat".to_owned()]).len(), 3);
    }
}
