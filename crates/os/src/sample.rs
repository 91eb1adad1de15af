//! System counters: CPU time and memory.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;

use block::Nanos;

/// Id of the calling thread, for [`thread_cpu`].
pub fn thread_id() -> i32 {
    // SAFETY: a system call without arguments that cannot fail.
    unsafe { libc::gettid() }
}

/// Whether a thread of this process runs or waits for a CPU.
pub fn is_runnable(thread: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // The name before the state may contain anything.
    stat.is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('R')))
}

/// Whether a thread of this process other than the calling one runs or waits for a CPU.
pub fn is_another_runnable() -> bool {
    let own = thread_id();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let mut threads = tasks.filter_map(|task| task.file_name().to_str()?.parse().ok());
    threads.any(|thread: i32| thread != own && is_runnable(thread))
}

/// Threads of this process, and kernel threads that work for it, with one of these names.
pub fn threads_named(names: &[String]) -> Vec<i32> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let is_one = |task: &fs::DirEntry| {
        let name = fs::read_to_string(task.path().join("comm"));
        name.is_ok_and(|name| names.iter().any(|one| one == name.trim_end()))
    };
    let number = |task: fs::DirEntry| task.file_name().to_str()?.parse().ok();
    tasks.filter(is_one).filter_map(number).collect()
}

/// Time for which the calling thread has waited in the run queue since it started; `None` if
/// unknown.
pub fn waited_for_processor() -> Option<Nanos> {
    // Time on a CPU, time waiting for one, and number of time slices: proc(5).
    let stat = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    stat.split_whitespace().nth(1)?.parse().ok().map(Nanos)
}

/// CPU time of a thread of this process.
pub fn thread_cpu(thread: i32) -> io::Result<Nanos> {
    // The kernel's id of this thread's CPU clock (see clock_getcpuclockid(3)): the complement of
    // the thread id, shifted by three, with the bits for "scheduler time" and "per thread".
    clock_of((!thread << 3) | 0b110)
}

/// CPU time of all threads of a process, including ended ones.
pub fn process_cpu(process: u32) -> io::Result<Nanos> {
    let process = i32::try_from(process).map_err(|_| io::ErrorKind::InvalidInput)?;
    // The clock of the process: without the bit for "per thread".
    clock_of((!process << 3) | 0b010)
}

fn clock_of(clock: i32) -> io::Result<Nanos> {
    let mut span = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // The system call itself: a preloaded library scales what the C library's function returns.
    // SAFETY: the kernel fills the struct that we own, or refuses an unknown clock.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut span) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(Nanos(span.tv_sec as u64 * 1_000_000_000 + span.tv_nsec as u64))
}

/// CPU time and faults of a thread of this process since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ThreadUse {
    /// System time in seconds; a multiple of a hundredth.
    pub system_s: f64,
    /// Context switches, voluntary or not.
    pub switches: u64,
    /// Minor page faults.
    pub minor_faults: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Time in the run queue, in seconds; `None` if the kernel does not count it.
    pub waited_s: Option<f64>,
}

impl ThreadUse {
    /// Use of a thread; `None` if it has ended.
    pub fn of(thread: i32) -> Option<ThreadUse> {
        let read = |file| fs::read_to_string(format!("/proc/self/task/{thread}/{file}")).ok();
        let used = ThreadUse::parse(&read("stat")?, &read("status")?)?;
        let waited_s =
            read("schedstat").and_then(|text| run_delay_ns(&text)).map(|ns| ns as f64 / 1e9);
        Some(ThreadUse { waited_s, ..used })
    }

    fn parse(stat: &str, status: &str) -> Option<ThreadUse> {
        // The name may contain anything, so fields are counted after it: proc(5) numbers them from
        // 1, and the first one here is field 3.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let switches = status.lines().filter_map(|line| {
            let (key, value) = line.split_once(':')?;
            let counts = key.ends_with("voluntary_ctxt_switches");
            counts.then(|| value.trim().parse::<u64>().ok()).flatten()
        });
        Some(ThreadUse {
            system_s: field(15)? as f64 / 100.0,
            switches: switches.sum(),
            minor_faults: field(10)?,
            major_faults: field(12)?,
            waited_s: None,
        })
    }
}

/// Time that a thread was ready to run and did not, read again and again.
#[derive(Debug)]
pub struct RunDelay {
    schedstat: fs::File,
    taken: Nanos,
}

impl RunDelay {
    /// The run delay of the calling thread from now on; `None` if the kernel does not count it.
    pub fn of_this_thread() -> Option<RunDelay> {
        let schedstat = fs::File::open("/proc/thread-self/schedstat").ok()?;
        let mut delay = RunDelay { schedstat, taken: Nanos(0) };
        delay.take().is_some().then_some(delay)
    }

    /// The run delay since the last call.
    pub fn take(&mut self) -> Option<Nanos> {
        let mut text = [0; 64];
        let len = self.schedstat.read_at(&mut text, 0).ok()?;
        let now = Nanos(run_delay_ns(str::from_utf8(text.get(..len)?).ok()?)?);
        Some(now.since(std::mem::replace(&mut self.taken, now)))
    }
}

/// Run delay: the second number of `schedstat`, in nanoseconds there (the kernel's sched-stats).
fn run_delay_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// CPU time of the whole host since boot, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostCpu {
    /// User time.
    pub user: f64,
    /// System time.
    pub system: f64,
    /// Interrupts.
    pub irq: f64,
    /// Softirqs: mostly the network stack.
    pub softirq: f64,
    /// Stolen by the hypervisor.
    pub steal: f64,
    /// Idle and iowait.
    pub idle: f64,
}

impl HostCpu {
    /// Reads the counters. All zero where unavailable.
    pub fn now() -> HostCpu {
        HostCpu::parse(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The counters of each CPU, in ascending order.
    pub fn each_now() -> Vec<HostCpu> {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let lines = stat.lines().skip(1).take_while(|line| line.starts_with("cpu"));
        lines.map(HostCpu::parse).collect()
    }

    /// The counters of CPUs by their numbers.
    pub fn by_number() -> BTreeMap<usize, HostCpu> {
        HostCpu::numbered(&fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    fn numbered(stat: &str) -> BTreeMap<usize, HostCpu> {
        let lines = stat.lines().filter_map(|line| {
            let number = line.split_whitespace().next()?.strip_prefix("cpu")?.parse().ok()?;
            Some((number, HostCpu::parse(line)))
        });
        lines.collect()
    }

    fn parse(stat: &str) -> HostCpu {
        // USER_HZ is 100 on every known Linux.
        let line = stat.lines().next().unwrap_or_default();
        let words = line.split_whitespace().skip(1);
        let mut ticks = words.map(|word| word.parse::<f64>().unwrap_or(0.0) / 100.0);
        let mut next = || ticks.next().unwrap_or(0.0);
        let (user, nice, system, idle, wait) = (next(), next(), next(), next(), next());
        let (irq, softirq, steal) = (next(), next(), next());
        HostCpu { user: user + nice, system, irq, softirq, steal, idle: idle + wait }
    }

    /// The difference since `earlier`.
    pub fn since(&self, earlier: &HostCpu) -> HostCpu {
        HostCpu {
            user: self.user - earlier.user,
            system: self.system - earlier.system,
            irq: self.irq - earlier.irq,
            softirq: self.softirq - earlier.softirq,
            steal: self.steal - earlier.steal,
            idle: self.idle - earlier.idle,
        }
    }

    /// Busy seconds, without idle and steal.
    pub fn busy(&self) -> f64 {
        self.user + self.system + self.irq + self.softirq
    }

    /// All seconds.
    pub fn total(&self) -> f64 {
        self.busy() + self.steal + self.idle
    }
}

/// Time since boot by the kernel's own account, in hundredths of a second.
pub fn uptime() -> Option<Nanos> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    Some(Nanos((seconds * 1e9) as u64))
}

/// Memory available without swapping, in bytes; `None` where unknown.
pub fn memory_available_bytes() -> Option<u64> {
    kib_of("/proc/meminfo", "MemAvailable:")
}

/// Total memory of the machine in bytes.
pub fn memory_total_bytes() -> Option<u64> {
    kib_of("/proc/meminfo", "MemTotal:")
}

/// Returns free heap memory to the kernel: otherwise many small freed blocks stay with the process.
pub fn trim_heap() {
    // SAFETY: a function of the C library that touches free memory only.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0)
    };
}

fn kib_of(path: &str, key: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Kernel release, such as `6.1.0`.
pub fn kernel_release() -> String {
    let text = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    text.trim().to_owned()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn reads_the_files_of_a_thread() {
        let stat = "7 (a) b) R 1 1 1 0 -1 64 100 0 3 0 250 50 0 0 20 0 1 0 5";
        let status = "Name:\ta\nvoluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t2\n";
        let used = ThreadUse::parse(stat, status).unwrap();
        assert_eq!((used.system_s, used.switches), (0.5, 6));
        assert_eq!((used.minor_faults, used.major_faults), (100, 3));
        assert_eq!(ThreadUse::parse("7 (a) R", status), None);
        assert!(ThreadUse::of(thread_id()).is_some());
    }

    #[test]
    fn a_process_has_used_what_its_threads_have() {
        let of_thread = thread_cpu(thread_id()).unwrap();
        let of_process = process_cpu(std::process::id()).unwrap();
        assert!(of_process >= of_thread, "{of_process:?} {of_thread:?}");
        assert!(process_cpu(u32::MAX).is_err());
    }

    /// Two threads on one CPU: the time of the one is the wait of the other.
    #[test]
    fn a_wait_for_a_processor_is_counted() {
        let Some(mut delay) = RunDelay::of_this_thread() else { return };
        let cpu = crate::cpu::allowed()[0];
        let over = std::sync::atomic::AtomicBool::new(false);
        let spin = || {
            crate::cpu::pin(cpu).unwrap();
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        std::thread::scope(|threads| {
            let delayed = threads.spawn(|| {
                crate::cpu::pin(cpu).unwrap();
                let mut delay = RunDelay::of_this_thread().unwrap();
                let (mut sum, begun) = (Nanos(0), std::time::Instant::now());
                while sum < Nanos::from_millis(50) {
                    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{sum:?}");
                    sum = sum + delay.take().unwrap();
                }
                over.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            threads.spawn(spin);
            delayed.join().unwrap();
        });
        assert!(delay.take().is_some());
    }

    #[test]
    fn a_thread_that_waits_is_not_runnable() {
        assert!(is_runnable(thread_id()));
        let (send, ids) = std::sync::mpsc::channel();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            send.send(thread_id()).unwrap();
            let _ = held.recv();
        });
        let id = ids.recv().unwrap();
        while is_runnable(id) {
            std::thread::yield_now();
        }
        drop(hold);
        thread.join().unwrap();
        // Part of its exit may be pending.
        while is_runnable(id) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn cpus_have_numbers() {
        let stat = "cpu  9 0 0 9\ncpu0 100 0 0 300\ncpu3 0 0 50 50\nintr 5\n";
        let found = HostCpu::numbered(stat);
        let busy: Vec<(usize, f64)> = found.iter().map(|(cpu, it)| (*cpu, it.busy())).collect();
        assert_eq!(busy, [(0, 1.0), (3, 0.5)]);
    }

    #[test]
    fn finds_threads_by_their_names() {
        let find = || {
            let names = ["elsewhere".to_owned(), "one of these".to_owned()];
            (thread_id(), threads_named(&names))
        };
        let thread = std::thread::Builder::new().name("one of these".to_owned()).spawn(find);
        let (own, found) = thread.unwrap().join().unwrap();
        assert_eq!(found, [own]);
        assert!(threads_named(&[]).is_empty());
    }

    #[test]
    fn counts_what_a_thread_uses() {
        let me = thread_id();
        let before = thread_cpu(me).unwrap();
        let mut sum = 0_u64;
        while thread_cpu(me).unwrap().since(before) < Nanos::from_millis(2) {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0);
        assert!(thread_cpu(-5).is_err());
    }

    #[test]
    fn reads_the_line_of_the_host() {
        let cpu = HostCpu::parse("cpu  100 50 200 1000 50 10 40 30 0 0\ncpu0 1 2\n");
        assert_eq!((cpu.user, cpu.system, cpu.idle), (1.5, 2.0, 10.5));
        assert_eq!((cpu.irq, cpu.softirq, cpu.steal), (0.1, 0.4, 0.3));
        assert!((cpu.total() - 14.8).abs() < 1e-9);
        assert_eq!(HostCpu::parse(""), HostCpu::default());
        assert!(!HostCpu::each_now().is_empty());
    }

    #[test]
    fn knows_the_memory() {
        assert!(memory_available_bytes().unwrap() <= memory_total_bytes().unwrap());
        assert!(!kernel_release().is_empty());
    }
}
