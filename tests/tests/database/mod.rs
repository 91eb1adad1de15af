//! A real database on our volumes: its power is cut, on a good drive and on one whose cache ignores
//! flushes; a leg of its mirror dies and returns; it reaches us through a third-party initiator.

mod postgres;
mod powerless;

use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, IQN, Patience, Running, Served, free_port, qemu_nbd};
use rustix::process::Signal;

use postgres::{LIMIT, Postgres, is_possible};

/// Cuts on the lying drive, of which at least one must cause damage.
const ROUNDS: u32 = 32;

/// Schedule of the volume until the file is changed.
const QUIET: &str = "verb = 'error'\nchance = 0";
const OFF: &str = "verb = 'power-cut'\nsurvives = 0.5";

/// A program that attaches a volume as a file. A killed one would leave its file attached.
struct Attached(Option<Running>);

impl Attached {
    fn new(drumfire: &Drumfire, folder: &Path, uri: &str) -> Attached {
        let args = format!("attach {uri} drive");
        let mut running = Running::start(&mut drumfire.command(folder, &args));
        running.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
        Attached(Some(running))
    }

    fn stderr(&self) -> String {
        self.0.as_ref().map_or_else(String::new, Running::stderr)
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(running) = self.0.take() {
            running.signal(Signal::TERM);
            running.finish(LIMIT);
        }
    }
}

/// A folder that the user of the database can enter.
fn folder() -> Folder {
    let folder = Folder::new();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    folder
}

fn switch(folder: &Path, lies: bool, seed: u32, fault: &str) {
    let cache = format!("[cache]\nsize = '8m'\nlies = {lies}\n");
    let text = format!("name = 'test'\nseed = {seed}\n{cache}[[fault]]\n{fault}\n");
    std::fs::write(folder.join("new.toml"), text).unwrap();
    std::fs::rename(folder.join("new.toml"), folder.join("faults.toml")).unwrap();
}

/// Cuts the power under load, and ends everything that used the drive.
fn cut(database: &mut Postgres, folder: &Path, lies: bool, seed: u32) {
    database.shell("(pgbench -c 4 -T 60 >/dev/null 2>&1 &) ; sleep 3").unwrap();
    switch(folder, lies, seed, OFF);
    std::thread::sleep(Duration::from_secs(1));
    let _ = database.shell("kill -9 $(head -1 DATA/postmaster.pid); sleep 1");
    database.unmount();
    switch(folder, lies, seed, QUIET);
    std::thread::sleep(Duration::from_secs(1));
}

/// Effect of a power cut on a database, a new one or a copy of the image.
fn cut_once(
    drumfire: &Drumfire,
    lies: bool,
    seed: u32,
    image: Option<&Path>,
) -> Result<(), String> {
    let folder = folder();
    switch(folder.path(), lies, seed, QUIET);
    let _attached = Attached::new(drumfire, folder.path(), "fault:faults.toml(ram:512m)");
    let mut database = Postgres::new(folder.path());
    let made = match image {
        Some(image) => database.make_of(image),
        None => database.make(),
    };
    made.unwrap_or_else(|why| panic!("before the cut: {why}"));
    cut(&mut database, folder.path(), lies, seed);
    database.restart(lies)
}

/// Cuts the power of each drive `count` times: no cut harms a database on the honest one, some harm
/// one on the other.
fn cut_many(drumfire: &Drumfire, count: u32) {
    let (made, images) = (folder(), folder());
    let image = images.path().join("image");
    let attached = Attached::new(drumfire, made.path(), "ram:512m");
    let mut database = Postgres::new(made.path());
    database.make().and_then(|()| database.copy(&image)).unwrap();
    drop(attached);
    let cut = |lies, seed| cut_once(drumfire, lies, seed, Some(&image));
    let harmed = std::thread::scope(|scope| {
        let honest = scope.spawn(|| {
            for seed in 1..=count {
                cut(false, seed).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
                eprintln!("the honest cache: {seed} cuts harmed no database");
            }
        });
        let mut harmed = 0;
        for seed in 1..=count {
            let found = cut(true, seed).err();
            harmed += u32::from(found.is_some());
            eprintln!("the lying cache: {seed} cuts harmed {harmed} databases");
            if let Some(why) = found {
                let tail = why.lines().rev().find(|line| !line.is_empty()).unwrap_or_default();
                eprintln!("  {}: {tail}", why.chars().take(24).collect::<String>());
            }
        }
        honest.join().expect("the honest cache harms none");
        harmed
    });
    assert!(harmed > 0, "{count} databases on a lying cache are whole");
}

#[test]
fn a_lying_cache_corrupts_a_database_and_an_honest_one_does_not() {
    let Some(drumfire) = Drumfire::find() else { return };
    if !is_possible() {
        return;
    }
    if let Ok(count) = std::env::var("DRUMFIRE_CUTS") {
        return cut_many(&drumfire, count.parse().expect("a number of cuts"));
    }
    for seed in 1..=2 {
        cut_once(&drumfire, false, seed, None).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
    }
    let found = (1..=ROUNDS).find_map(|seed| cut_once(&drumfire, true, seed, None).err());
    let found = found.unwrap_or_else(|| panic!("{ROUNDS} databases on a lying cache are whole"));
    eprintln!("the lying cache was seen: {found}");
}

/// Starts a server of one leg.
fn leg(drumfire: &Drumfire, folder: &Path, ports: [u16; 2]) -> Served {
    let file = folder.join("far");
    drumfire.serve_at(ports, &format!("--volume leg=file:{}?size=514m", file.display()))
}

#[test]
fn a_database_goes_on_while_a_leg_of_its_mirror_dies_and_comes_back() {
    let Some(drumfire) = Drumfire::find() else { return };
    if !is_possible() {
        return;
    }
    let folder = folder();
    let far = leg(&drumfire, folder.path(), [0, 0]);
    let ports = [far.port, far.nvme_port];
    let args = format!(
        "volume create mirror disk --leg file:near?size=514m --leg \
         nvme+tcp://127.0.0.1:{}/nqn.2026-11.io.drumfire:leg/1 --destroy",
        ports[1]
    );
    let uri = drumfire.run(folder.path(), &args, LIMIT).ok().stdout;
    let attached = Attached::new(&drumfire, folder.path(), uri.trim());
    let mut database = Postgres::new(folder.path());
    database.make().unwrap();
    let said = std::thread::scope(|scope| {
        let load = scope.spawn(|| database.shell("pgbench -c 4 -T 15"));
        std::thread::sleep(Duration::from_secs(4));
        far.running.signal(Signal::KILL);
        std::thread::sleep(Duration::from_secs(3));
        let again = leg(&drumfire, folder.path(), ports);
        (load.join().expect("a call of pgbench"), again)
    });
    let (said, _far) = (said.0.unwrap(), said.1);
    assert!(said.contains("number of failed transactions: 0"), "{said}");
    let data = |file: &str| {
        let bytes = std::fs::read(folder.path().join(file)).unwrap();
        bytes[1 << 20..513 << 20].to_vec()
    };
    database.check().unwrap();
    database.unmount();
    let mut patience = Patience::new(LIMIT);
    while data("near") != data("far") {
        assert!(patience.wait(), "the legs never agree: {}", attached.stderr());
    }
    // The server's user is notified at once.
    let told = || attached.stderr();
    let mut patience = Patience::new(LIMIT);
    while !(told().contains(") left: ") && told().contains("is back in sync")) {
        assert!(patience.wait(), "nobody is told: {}", told());
    }
    // The returned leg has a complete database, too.
    drop((database, attached));
    std::fs::write(folder.path().join("drive"), data("far")).unwrap();
    Postgres::new(folder.path()).restart(false).unwrap();
}

/// A longer path than QEMU's own FUSE export, which up to version 10.0 overwrites data of a write
/// while it polls for another one.
#[test]
fn a_database_lives_on_our_target_through_another_initiator() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(qemu) = qemu_nbd() else { return };
    if !is_possible() {
        return;
    }
    let folder = folder();
    let served = drumfire.serve(&["disk=ram:512m"]);
    let port = free_port();
    let mut command = Command::new(qemu);
    command.args([
        "--format=raw",
        "--persistent",
        "--shared=8",
        "--bind=127.0.0.1",
        "--cache=none",
    ]);
    command.arg(format!("--port={port}"));
    command.arg(format!("{}/{IQN}:disk/1", served.portal()));
    let between = Running::start(&mut command);
    let mut patience = Patience::new(Duration::from_secs(60));
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(patience.wait(), "nobody listens: {}", between.stderr());
    }
    let uri = format!("nbd://127.0.0.1:{port}/");
    let attached = Attached::new(&drumfire, folder.path(), &uri);
    let mut database = Postgres::new(folder.path());
    database.make().unwrap();
    let said = database.shell("pgbench -c 4 -T 5").unwrap();
    assert!(said.contains("number of failed transactions: 0"), "{said}");
    database.check().unwrap();
    drop((database, attached));
    between.signal(Signal::TERM);
    between.finish(LIMIT);
}
