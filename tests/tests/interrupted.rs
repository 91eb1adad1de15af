//! One signal ends every command within two seconds, at any time, and results so far are saved.
//!
//! Commands and times are drawn from a seed. `DRUMFIRE_ROUNDS` runs more rounds than by default,
//! `DRUMFIRE_SEED` those of another seed.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use drumfire_tests::{Drumfire, Finished, Folder, Patience, Running, require};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// Time between a signal and the end.
const END: Duration = Duration::from_secs(2);
/// Time by which a program has started, even on a busy machine.
const BEGUN: Duration = Duration::from_millis(100);
/// Rounds of a test run.
const ROUNDS: usize = 48;

/// A command to interrupt.
struct Case {
    args: &'static str,
    /// The latest moment of the signal after the start, in milliseconds.
    latest_ms: u64,
    /// Folder of the result if the run measures anything.
    out: Option<&'static str>,
}

const fn case(args: &'static str, latest_ms: u64) -> Case {
    Case { args, latest_ms, out: None }
}

const fn measures(args: &'static str, latest_ms: u64) -> Case {
    Case { args, latest_ms, out: Some("out") }
}

/// Commands. `NBD` is the address of a server that responds, `HUNG` that of one that stops
/// responding, and `SILENT` one without any response.
const CASES: [Case; 42] = [
    measures("run null:1g --seconds 100 --ramp 0 --out out", 3000),
    measures("run null:1g --seconds 100 --ramp 0 --rate 4e-8 --out out", 3000),
    measures("run null:1g --seconds 100 --ramp 0 --rate 5e8 --out out", 3000),
    measures("run ram:4m --seconds 100 --ramp 0 --verify --read 50 --out out", 3000),
    measures("run file:img --read 0 --seconds 100 --ramp 1 --destroy --out out", 4000),
    measures("run nbd://NBD/d --seconds 100 --ramp 0 --out out", 3000),
    measures("run nbd://HUNG/d --seconds 100 --ramp 0 --out out", 3000),
    measures("run nbd://HUNG/d?reconnect=60s --seconds 100 --ramp 0 --out out", 3000),
    measures(
        "run mirror(nbd://NBD/d,nbd://HUNG/d) --read 0 --destroy --seconds 100 --out out",
        3000,
    ),
    measures("run fault:hangs.toml(ram:4m) --seconds 100 --ramp 0 --out out", 3000),
    measures("run fault:hangs.toml(ram:4m) --seconds 1 --ramp 0 --out out", 5000),
    measures("run delay:x25-m(ram:4m) --outstanding 64 --seconds 100 --out out", 3000),
    measures("run ram:4m --preset oltp-4k --out out", 3000),
    measures("run long.fio --out out", 3000),
    case("run make.fio --out out", 1000),
    measures("race --seconds 100 --ramp 0 --out out", 4000),
    case("fio --name=a --ioengine=null --size=1g --time_based --runtime=100", 2000),
    case("fio --name=a --rw=randwrite --filename=img --size=8m --rate_iops=1 --verify=md5", 2000),
    case("fio runs.fio", 1500),
    case("sweep null:1g --axis size=4k,8k --seconds 2 --ramp 0 --out out", 3000),
    case("sweep null:1g --axis size=4k,8k --seconds 2 --repeat-as process --out out", 3000),
    measures("simulate x25-m --seconds 86400 --out out", 2000),
    case("plan --drive x25-m --drives 8 --adapter lsi-9211-8i --draws 10000", 1500),
    case("plan --goal 1M --draws 2000", 1500),
    case("database example.toml x25-m --seconds 10000", 1500),
    case("scenario run intel-28-ssd --live --seconds 5 --out out", 3000),
    case("audit founding", 500),
    case("catalogue list", 300),
    case("doctor file:img", 1500),
    case("doctor nbd://SILENT/d", 1500),
    case("discover SILENT", 1500),
    case("discover nvme+tcp://SILENT", 1500),
    case("backup tree --to null --readers 2", 1000),
    case("backup tree --to copy --replace --verify", 1500),
    case("backup nbd://HUNG/d --to copy --replace", 2000),
    case("backup --from kept --verify", 600),
    case("volume create mirror m --leg file:x?size=64m --leg file:y?size=64m --destroy", 400),
    case("volume create mirror m --leg file:x?size=64m --leg nbd://HUNG/d --destroy", 1500),
    case("serve --nbd 127.0.0.1:0 --volume d=file:img", 1500),
    case("serve --nbd 127.0.0.1:0 --volume d=nbd://HUNG/d", 1500),
    case(
        "serve --iscsi 127.0.0.1:0 --nvme-tcp 127.0.0.1:0 --volume d=array:m?leg=file:p&leg=file:q",
        1500,
    ),
    case("report kept-run --as html", 300),
];

struct Rig {
    drumfire: Drumfire,
    folder: Folder,
    _serves: Running,
    _hangs: Running,
    addresses: [String; 2],
    silent: TcpListener,
}

impl Rig {
    fn new() -> Option<Rig> {
        let (drumfire, folder) = (Drumfire::find()?, Folder::new());
        File::create(folder.path().join("img")).unwrap().set_len(8 << 20).unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        for number in 0..200_u32 {
            let bytes: Vec<u8> =
                (0..400_000_u32).map(|at| ((at * (number + 7)) >> 3) as u8).collect();
            folder.file(&format!("tree/{number}"), &bytes);
        }
        folder.file("hangs.toml", b"name = 'hangs'\n[[fault]]\nverb = 'hang'\nafter_s = 0.3\n");
        let first = "[a]\nioengine=null\nsize=1g\ntime_based\nruntime=100\n";
        let second = "[b]\nstonewall\nioengine=null\nsize=1g\n";
        folder.file("long.fio", format!("{first}{second}").as_bytes());
        folder.file("make.fio", b"[a]\nrw=read\nfilename=large\nsize=4g\n");
        folder.file("runs.fio", b"[a]\nioengine=null\nsize=1m\nexec_prerun=sleep 1; sleep 1000\n");
        let page = include_str!("../../docs/how-to/predict-a-database.md");
        let example = page.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
        folder.file("example.toml", example.as_bytes());
        let run = |args: &str| drumfire.run(folder.path(), args, LIMIT);
        run("backup tree --to kept").ok();
        run("run null:1m --seconds 0.5 --ramp 0 --no-ceiling --out kept-run").ok();
        run("volume create mirror m --leg file:p?size=8m --leg file:q?size=8m").ok();
        let serve = || {
            let args = "serve --nbd 127.0.0.1:0 --volume d=ram:64m";
            let mut running = Running::start(&mut drumfire.command(folder.path(), args));
            let address = running.await_stdout(LIMIT, |text| {
                Some(text.split_once('\n')?.0.rsplit_once("nbd=")?.1.to_owned())
            });
            (running, address)
        };
        let (serves, address) = serve();
        let (hangs, hung) = serve();
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        Some(Rig {
            silent,
            _serves: serves,
            _hangs: hangs,
            addresses: [address, hung],
            drumfire,
            folder,
        })
    }

    /// Runs a case, interrupts it after a time, and returns the errors of its end.
    fn interrupt(&self, case: &Case, after: Duration, signal: Signal) -> Result<(), String> {
        let [serves, hung] = &self.addresses;
        let silent = self.silent.local_addr().unwrap().to_string();
        let args = case.args.replace("NBD", serves).replace("HUNG", hung);
        let args = args.replace("SILENT", &silent);
        for name in ["out", "copy", "large", "x", "y"] {
            let path = self.folder.path().join(name);
            let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        }
        let hangs = case.args.contains("HUNG");
        let begun = Instant::now();
        let mut running = Running::start(&mut self.drumfire.command(self.folder.path(), &args));
        // The server hangs from a moment at which the command may be connected to it.
        let hang_at = after / 2;
        let mut patience = Patience::new(LIMIT);
        let mut hung_now = false;
        while running.alive() && begun.elapsed() < after {
            if hangs && !hung_now && begun.elapsed() >= hang_at {
                self._hangs.signal(Signal::STOP);
                hung_now = true;
            }
            assert!(patience.wait());
        }
        let interrupted = running.alive();
        if interrupted {
            running.signal(signal);
        }
        let mut patience = Patience::new(END);
        let ends = loop {
            if !running.alive() {
                break true;
            }
            if !patience.wait() {
                break false;
            }
        };
        if hung_now {
            self._hangs.signal(Signal::CONT);
        }
        if !ends {
            running.signal(Signal::KILL);
            return Err("it does not end".to_owned());
        }
        let ended = running.finish(LIMIT);
        // A claim that cannot be ends with 4.
        if !interrupted && !hung_now && !matches!(ended.code, Some(0 | 4)) {
            return Err(format!("it ended by itself: {ended:?}"));
        }
        let out = case.out.map(|name| self.folder.path().join(name));
        match out {
            Some(out) => kept(self, &ended, &out),
            None => Ok(()),
        }
    }
}

/// Whether the result of the measurements is saved.
fn kept(rig: &Rig, ended: &Finished, out: &Path) -> Result<(), String> {
    // A line of a measured second: a number of seconds, and no phase at its end.
    let measured = ended.stderr.lines().any(|line| {
        let second = line.trim_start().split_once("s  ").is_some_and(|(number, _)| {
            !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        second && !line.ends_with(')')
    });
    if !measured {
        return Ok(());
    }
    let report = rig.drumfire.run(rig.folder.path(), &format!("report {}", out.display()), LIMIT);
    match (ended.code, report.code) {
        (None, _) => Err(format!("it was killed though it measured: {ended:?}")),
        (_, Some(0)) => Ok(()),
        _ => Err(format!("nothing is kept: {ended:?}, {report:?}")),
    }
}

/// Numbers that look random (splitmix64).
fn draw(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// The signal, or another one that is not ignored if this test was started with `&`: a program that
/// has not started yet cannot change that.
fn heeded(signal: Signal, after: Duration) -> Signal {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    let mask = u64::from_str_radix(mask.trim(), 16).unwrap_or(0);
    let is_ignored = mask >> (signal.as_raw() - 1) & 1 == 1;
    if is_ignored && after < BEGUN { Signal::TERM } else { signal }
}

#[test]
fn one_signal_ends_every_command() {
    let Some(rig) = Rig::new() else { return };
    let rounds = number("DRUMFIRE_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let seed = number("DRUMFIRE_SEED").unwrap_or(1);
    let mut state = seed;
    let mut wrong = Vec::new();
    for round in 0..rounds {
        // Each case once, then random ones.
        let first = CASES.get(round).filter(|_| round < CASES.len());
        let case = first.unwrap_or_else(|| &CASES[draw(&mut state) as usize % CASES.len()]);
        let after = Duration::from_millis(draw(&mut state) % case.latest_ms);
        let signal = if draw(&mut state).is_multiple_of(4) { Signal::TERM } else { Signal::INT };
        let signal = heeded(signal, after);
        if let Err(why) = rig.interrupt(case, after, signal) {
            wrong.push(format!("{} after {after:?} by {signal:?}: {why}", case.args));
        }
    }
    assert!(wrong.is_empty(), "seed {seed}, {} of {rounds}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn a_plan_that_is_far_ahead_ends_with_its_window() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    for rate in ["1e-300", "1e-20", "1e-12"] {
        let args = format!("run null:1g --rate {rate} --seconds 1 --ramp 0 --no-ceiling");
        let ended = drumfire.run(folder.path(), &args, Duration::from_secs(60));
        assert_eq!(ended.code, Some(2), "{rate}: {ended:?}");
        assert!(ended.stderr.contains("a rate must be one per year to 1e9"), "{rate}: {ended:?}");
    }
    for arrivals in ["constant", "poisson"] {
        let args = format!(
            "run null:1g --rate 4e-8 --arrivals {arrivals} --seconds 1 --ramp 0 --no-ceiling --json"
        );
        let ended = drumfire.run(folder.path(), &args, Duration::from_secs(60)).ok();
        assert_eq!(ended.json()["totals"]["ios"], 0, "{ended:?}");
    }
}

#[test]
fn an_attached_file_goes_with_one_signal() {
    let Some(rig) = Rig::new() else { return };
    if !Path::new("/dev/fuse").exists() || require("fusermount3").is_none() {
        return;
    }
    for (volume, hangs) in [("ram:8m", false), ("nbd://HUNG/d", false), ("nbd://HUNG/d", true)] {
        let file = rig.folder.path().join("attached");
        let args =
            format!("attach {} {}", volume.replace("HUNG", &rig.addresses[1]), file.display());
        let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), &args));
        running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
        let reader = {
            let file = file.clone();
            std::thread::spawn(
                move || while fs::read(&file).is_ok_and(|bytes| !bytes.is_empty()) {},
            )
        };
        std::thread::sleep(Duration::from_millis(300));
        if hangs {
            rig._hangs.signal(Signal::STOP);
            std::thread::sleep(Duration::from_millis(300));
        }
        running.signal(Signal::INT);
        let mut patience = Patience::new(END);
        let ends = loop {
            if !running.alive() || !patience.wait() {
                break !running.alive();
            }
        };
        rig._hangs.signal(Signal::CONT);
        running.finish(LIMIT);
        reader.join().unwrap();
        assert!(ends, "{volume} {hangs}");
        let _ = rig.drumfire.run(rig.folder.path(), &format!("detach {}", file.display()), LIMIT);
        let _ = fs::remove_file(&file);
    }
}

/// Number of server starts, interrupted at times before the server is ready.
const STARTS: usize = 200;

#[test]
fn a_server_is_interrupted_at_any_moment_of_its_start() {
    let Some(rig) = Rig::new() else { return };
    let seed = number("DRUMFIRE_SEED").unwrap_or(1);
    let mut state = seed;
    let mut slow = Vec::new();
    for start in 0..number("DRUMFIRE_ROUNDS").map_or(STARTS, |rounds| rounds as usize) {
        let args = "serve --nbd 127.0.0.1:0 --volume d=file:img";
        let after = Duration::from_micros(draw(&mut state) % 60_000);
        let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
        std::thread::sleep(after);
        running.signal(heeded(Signal::INT, after));
        let mut patience = Patience::new(END);
        while running.alive() && patience.wait() {}
        if running.alive() {
            slow.push(format!("start {start} after {after:?}: {:?}", running.stdout()));
            running.signal(Signal::KILL);
        }
        running.finish(LIMIT);
    }
    assert!(slow.is_empty(), "seed {seed}: {}", slow.join("\n"));
}

/// A shell ignores SIGINT in commands started with `&`, and a service manager may ignore others. A
/// signal during a wait for an unresponsive peer is still not lost.
#[test]
fn a_signal_is_heeded_before_a_command_listens() {
    let (Some(rig), Some(shell)) = (Rig::new(), require("sh")) else { return };
    rig.silent.set_nonblocking(true).unwrap();
    let silent = rig.silent.local_addr().unwrap().to_string();
    for args in [
        "serve --nbd 127.0.0.1:0 --volume d=nbd://SILENT/d",
        "run nbd://SILENT/d --seconds 100",
        "sweep nbd://SILENT/d --axis outstanding=1,2 --out s",
        "doctor nbd://SILENT/d",
        "discover SILENT",
        "backup nbd://SILENT/d --to null",
        "attach nbd://SILENT/d attached",
        "volume show array:m?leg=nbd://SILENT/d&leg=file:p",
    ] {
        for signal in [Signal::INT, Signal::TERM] {
            let words = args.replace("SILENT", &silent);
            let mut command = std::process::Command::new(&shell);
            command.args(["-c", "trap '' INT TERM; exec \"$0\" \"$@\""]);
            command.arg(rig.drumfire.path()).args(words.split(' ')).current_dir(rig.folder.path());
            let mut running = Running::start(&mut command);
            let mut patience = Patience::new(LIMIT);
            let connection = loop {
                if let Ok((connection, _)) = rig.silent.accept() {
                    break connection;
                }
                assert!(running.alive() && patience.wait(), "{args}: {running:?}");
            };
            running.signal(signal);
            let mut patience = Patience::new(END);
            while running.alive() && patience.wait() {}
            let ends = !running.alive();
            if !ends {
                running.signal(Signal::KILL);
            }
            running.finish(LIMIT);
            assert!(ends, "{args} by {signal:?}");
            drop(connection);
            // Further connections of this command.
            while rig.silent.accept().is_ok() {}
        }
    }
}
