//! Runs other programs with a time limit, showing and keeping their output.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use crate::say;

/// Interval at which a running program is polled.
const LOOK: Duration = Duration::from_millis(20);
/// Time limit for output after the program ended, as a child may hold the pipe.
const PIPE_PATIENCE: Duration = Duration::from_secs(60);
/// A clock tick of /proc/PID/stat (USER_HZ), 100 a second on all architectures.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of the processes that each step ran to their end.
static SPENT: Mutex<BTreeMap<&str, Duration>> = Mutex::new(BTreeMap::new());

/// Result of a program.
pub struct Outcome {
    /// `None` if the program was killed at its time limit.
    pub status: Option<ExitStatus>,
    /// Output on stdout; both outputs if shown.
    pub stdout: String,
    /// Output on stderr, unless shown.
    pub stderr: String,
    /// Duration of the run.
    pub took: Duration,
    /// CPU time of the program and of the children that it waited for.
    pub spent: Duration,
}

impl Outcome {
    /// Whether the program exited with success.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// Exit of the program, in words.
    pub fn ending(&self) -> String {
        match self.status {
            Some(status) => status.to_string(),
            None => format!("ended after {} s, its limit", self.took.as_secs()),
        }
    }
}

/// Handling of output during the run.
#[derive(Clone, Copy, PartialEq)]
pub enum Show {
    /// Collect the output without showing it.
    Nothing,
    /// Show each line at once, both outputs in order.
    Lines,
}

/// Runs a program to its end, or kills it with all its children at `limit`.
pub fn run(command: &mut Command, limit: Duration, show: Show) -> Result<Outcome> {
    let began = Instant::now();
    let name = command.get_program().to_string_lossy().into_owned();
    let (stdout, writer) = std::io::pipe()?;
    let (stderr, mut err_writer) = std::io::pipe()?;
    if show == Show::Lines {
        err_writer = writer.try_clone()?;
    }
    command.stdin(Stdio::null()).stdout(writer).stderr(err_writer);
    let child = command.spawn().with_context(|| format!("starting {name}"));
    // Close our write ends, which are in `command`: while they are open, the pipes have no end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child?;
    let (stdout, stderr) = (collect(stdout, show), collect(stderr, show));
    let in_time = loop {
        if has_ended(&child)? {
            break true;
        }
        if began.elapsed() > limit {
            end_tree(child.id());
            break false;
        }
        thread::sleep(LOOK);
    };
    let took = began.elapsed();
    // /proc drops the process once it is waited for.
    let spent = if in_time { spent_by(child.id()) } else { Duration::ZERO };
    let status = Some(child.wait()?).filter(|_| in_time);
    *SPENT.lock().expect("only sums are made with it").entry(say::step()).or_default() += spent;
    Ok(Outcome { status, stdout: stdout.text(), stderr: stderr.text(), took, spent })
}

/// Whether the process has ended; it stays a zombie.
fn has_ended(child: &Child) -> Result<bool> {
    let id = WaitId::Pid(Pid::from_child(child));
    let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(id, how)?.is_some())
}

/// CPU time of all processes that a step has run until now.
pub fn spent(step: &str) -> Duration {
    SPENT.lock().expect("only sums are made with it").get(step).copied().unwrap_or_default()
}

/// CPU time of a process and of the children that it waited for.
fn spent_by(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    // "id (name, which may contain anything) state …": user and system time, and those of children.
    let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
    let ticks: u32 = fields.skip(11).take(4).filter_map(|field| field.parse::<u32>().ok()).sum();
    TICK * ticks
}

/// A pipe being read by a thread.
struct Collector {
    text: Arc<Mutex<String>>,
    reader: thread::JoinHandle<()>,
}

fn collect(pipe: PipeReader, show: Show) -> Collector {
    let text = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&text);
    let step = say::step();
    let reader = thread::spawn(move || {
        let mut pipe = BufReader::new(pipe);
        let mut line = Vec::new();
        while pipe.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
            let shown = String::from_utf8_lossy(&line);
            if show == Show::Lines {
                say::within(step, || say::lines(&shown));
            }
            kept.lock().expect("only this thread writes").push_str(&shown);
            line.clear();
        }
    });
    Collector { text, reader }
}

impl Collector {
    fn text(self) -> String {
        let began = Instant::now();
        while !self.reader.is_finished() && began.elapsed() < PIPE_PATIENCE {
            thread::sleep(LOOK);
        }
        self.text.lock().expect("a reader does not panic").clone()
    }
}

/// Kills a process and all its descendants, by their ids.
pub fn end_tree(root: u32) {
    let mut ids = vec![root];
    let children = children();
    let mut next = 0;
    while next < ids.len() {
        ids.extend(children.get(&ids[next]).into_iter().flatten());
        next += 1;
    }
    for id in ids {
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        // An error means that the process has ended in the meantime.
        let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// The children of every process of this host.
fn children() -> HashMap<u32, Vec<u32>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "id (name, which may contain anything) state parent …"
        let parent = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1));
        if let Some(parent) = parent.and_then(|parent| parent.parse().ok()) {
            children.entry(parent).or_default().push(id);
        }
    }
    children
}

/// Finds a program by name on the PATH, as a shell does, and in the sbin directories.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]);
    folders.map(|folder| Path::new(folder).join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod test {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn keeps_both_outputs_and_the_status() {
        let script = "echo out; echo err >&2; exit 3";
        let outcome = run(&mut shell(script), Duration::from_secs(300), Show::Nothing).unwrap();
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("out\n", "err\n"));
        assert_eq!(outcome.status.unwrap().code(), Some(3));
        assert!(!outcome.success());
    }

    #[test]
    fn what_is_shown_is_kept_in_order() {
        let script = "echo a; echo b >&2; echo c";
        let outcome = run(&mut shell(script), Duration::from_secs(300), Show::Lines).unwrap();
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("a\nb\nc\n", ""));
    }

    #[test]
    fn ends_a_program_and_its_children_at_the_limit() {
        let began = Instant::now();
        let limit = Duration::from_millis(200);
        let outcome = run(&mut shell("sleep 600 & sleep 600"), limit, Show::Nothing).unwrap();
        assert!(outcome.status.is_none() && outcome.ending().contains("limit"));
        assert!(began.elapsed() < PIPE_PATIENCE, "a child kept the pipe: it was not ended");
    }

    #[test]
    fn cpu_time_counts_children_and_adds_up_by_step() {
        let busy = |script: &str| {
            let limit = Duration::from_secs(300);
            say::within("counted", || run(&mut shell(script), limit, Show::Nothing)).unwrap().spent
        };
        let work = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done";
        let (one, child) = (busy(work), busy(&format!("sh -c '{work}'; true")));
        assert!(one >= TICK && child >= TICK, "{one:?} {child:?}");
        assert!(busy("sleep 0.3") < one, "sleep takes no CPU time");
        let all = spent("counted");
        assert!(all >= one + child && spent("no such step").is_zero(), "{all:?}");
    }

    #[test]
    fn says_which_program_is_missing() {
        let error = run(&mut Command::new("no-such-program"), LOOK, Show::Nothing).err().unwrap();
        assert!(error.to_string().contains("no-such-program"));
        assert!(find("no-such-program").is_none() && find("sh").is_some());
    }
}
