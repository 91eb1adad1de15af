//! Backups and restores that are killed or find the disk full, again and again: the last complete
//! backup is intact, and no partial restore looks like a complete one.
//!
//! `DRUMFIRE_KILLS=200 cargo test -p drumfire-tests backup_killed::` makes 200 rounds of each.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use drumfire_tests::{
    Chance, Drumfire, Finished, Folder, Running, in_small_file_system, require, run,
};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
/// Rounds of each kind, unless the environment overrides the number.
const ROUNDS: u64 = 6;

fn rounds() -> u64 {
    std::env::var("DRUMFIRE_KILLS").map_or(ROUNDS, |count| count.parse().unwrap())
}

/// Sources of which each version differs in every file.
fn write_version(folder: &Path, version: u64, bytes: u64) {
    let data = folder.join("data");
    fs::create_dir_all(data.join("deep")).unwrap();
    fs::write(data.join("version"), version.to_string()).unwrap();
    let mut chance = Chance(version);
    for (name, share) in [("large", 8), ("deep/small", 1)] {
        let words = bytes * share / 9 / 8;
        let content: Vec<u8> =
            (0..words).flat_map(|_| chance.below(u64::MAX).to_le_bytes()).collect();
        fs::write(data.join(name), content).unwrap();
    }
}

fn same(one: &Path, two: &Path) -> bool {
    ["version", "large", "deep/small"]
        .iter()
        .all(|name| fs::read(one.join(name)).ok() == fs::read(two.join(name)).ok())
}

/// Runs the program to its end, and returns the milliseconds: a signal after a fraction of them
/// arrives during the run.
fn timed(drumfire: &Drumfire, folder: &Path, args: &str) -> u64 {
    let begin = Instant::now();
    drumfire.run(folder, args, LIMIT).ok();
    begin.elapsed().as_millis() as u64 + 1
}

/// Runs the program, and kills it after `after_ms` unless it has ended.
fn killed(drumfire: &Drumfire, folder: &Path, args: &str, after_ms: u64) -> Finished {
    let running = Running::start(&mut drumfire.command(folder, args));
    thread::sleep(Duration::from_millis(after_ms));
    running.signal(Signal::KILL);
    running.finish(LIMIT)
}

/// Version in the only backup of a folder, which is complete.
fn version(drumfire: &Drumfire, folder: &Path, from: &str, round: u64) -> Result<u64, String> {
    let into = format!("back-{round}");
    let found = drumfire.run(folder, &format!("backup --from {from} --into {into}"), LIMIT);
    if found.code != Some(0) {
        return Err(format!("{found:?}"));
    }
    let back = folder.join(&into);
    let text = fs::read_to_string(back.join("data/version")).map_err(|error| error.to_string())?;
    // All files of the folder have the same version.
    let of: u64 = text.parse().map_err(|_| format!("a version of {text}"))?;
    let should = Folder::new();
    let bytes = (8 + 1) * fs::metadata(back.join("data/large")).unwrap().len() / 8;
    write_version(should.path(), of, bytes);
    let is_same = same(&should.path().join("data"), &back.join("data"));
    fs::remove_dir_all(back).unwrap();
    if is_same { Ok(of) } else { Err(format!("files of version {of} differ")) }
}

#[test]
fn a_killed_backup_leaves_the_last_whole_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let at = folder.path();
    let mut chance = Chance(41);
    write_version(at, 0, 9 << 20);
    let takes_ms = timed(&drumfire, at, "backup data --to kept --replace");
    let (mut is, mut killed_rounds) = (0, 0);
    for round in 1..=rounds() {
        write_version(at, round, 9 << 20);
        let verify = if chance.below(2) == 0 { " --verify" } else { "" };
        let args = format!("backup data --to kept --replace{verify}");
        let ended = killed(&drumfire, at, &args, chance.below(takes_ms));
        killed_rounds += u64::from(ended.code.is_none());
        let found = version(&drumfire, at, "kept", round);
        let found = found.unwrap_or_else(|why| panic!("round {round}: {why}"));
        assert!(found == is || found == round, "round {round}: {found} is there, after {is}");
        assert!(ended.code.is_none() || found == round, "round {round}: {ended:?}");
        is = found;
        let names: Vec<_> = fs::read_dir(at).unwrap().map(|e| e.unwrap().file_name()).collect();
        // A file that needs a name while it is written has one that marks it as partial.
        let others =
            names.iter().filter(|name| !["data", "kept"].contains(&name.to_str().unwrap()));
        for other in others {
            assert!(other.to_str().unwrap().ends_with(".part"), "round {round}: {names:?}");
            fs::remove_file(at.join(other)).unwrap();
        }
    }
    println!("{killed_rounds} of {} were killed, {is} was the last whole one", rounds());
    assert!(killed_rounds > 0, "none was killed");
}

#[test]
fn a_killed_backup_to_a_volume_is_whole_or_says_that_it_is_not() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let at = folder.path();
    let mut chance = Chance(42);
    let args = "backup data --to file:volume?size=16m --destroy";
    write_version(at, 0, 9 << 20);
    let takes_ms = timed(&drumfire, at, args);
    let mut incomplete = 0;
    for round in 1..=rounds() {
        write_version(at, round, 9 << 20);
        killed(&drumfire, at, args, chance.below(takes_ms));
        match version(&drumfire, at, "file:volume", round) {
            Ok(found) => assert!(found <= round, "round {round}"),
            Err(why) => {
                let told = why.contains("the backup is incomplete");
                assert!(told, "round {round}: {why}");
                incomplete += 1;
                drumfire.run(at, args, LIMIT).ok();
            }
        }
    }
    println!("{incomplete} of {} were told to be incomplete", rounds());
}

#[test]
fn a_full_disk_leaves_the_last_whole_backup() {
    let Some(drumfire) = Drumfire::find() else { return };
    // A small file system, and a limit of the length of files.
    in_small_file_system(|small| full(&drumfire, small, None));
    let folder = Folder::new();
    full(&drumfire, folder.path(), Some(2048));
}

/// Rounds in a folder where some backups do not fit.
fn full(drumfire: &Drumfire, at: &Path, blocks: Option<u64>) {
    let Some(sh) = require("sh") else { return };
    let sources = Folder::new();
    let mut chance = Chance(43);
    let (mut is, mut full) = (0, 0);
    let kept = at.join("kept");
    let from = format!("{}", kept.display());
    for round in 1..=rounds() {
        // The first fits, the second does not.
        let bytes = match round {
            1 => 9 * 50_000,
            2 => 9 * 430_000,
            _ => 9 * (1 + chance.below(430_000)),
        };
        write_version(sources.path(), round, bytes);
        let args = format!("backup data --to {from} --replace");
        let ended = match blocks {
            None => drumfire.run(sources.path(), &args, LIMIT),
            Some(blocks) => {
                let binary = drumfire.path().display();
                let line = format!("ulimit -f {blocks}; exec {binary} {args}");
                run(Command::new(&sh).args(["-c", &line]).current_dir(sources.path()), LIMIT)
            }
        };
        full += u64::from(ended.code != Some(0));
        let found = version(drumfire, sources.path(), &from, round);
        let found = found.unwrap_or_else(|why| panic!("round {round}: {why}"));
        let wanted = if ended.code == Some(0) { round } else { is };
        assert_eq!(found, wanted, "round {round}: {ended:?}");
        is = found;
        assert_eq!(fs::read_dir(at).unwrap().count(), 1, "round {round}: a file is left");
    }
    println!("{full} of {} found the disk full, {is} is there", rounds());
    assert!(is > 0 && full > 0, "some fit and some do not: {is} {full}");
}

#[test]
fn a_killed_restore_never_looks_like_a_whole_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let at = folder.path();
    let mut chance = Chance(44);
    write_version(at, 1, 18 << 20);
    drumfire.run(at, "backup data --to kept", LIMIT).ok();
    let args = "backup --from kept --into back";
    let takes_ms = timed(&drumfire, at, args);
    fs::remove_dir_all(at.join("back")).unwrap();
    let (mut whole, mut left, mut round) = (0, 0, 0);
    // The first restore may have been the slowest, on a busy host: rounds go on, with ever earlier
    // kills, until one arrives on the way.
    while round < rounds() || left == 0 {
        round += 1;
        assert!(round < 50 * rounds(), "none was killed on its way");
        killed(&drumfire, at, args, chance.below(takes_ms / (1 + round / rounds())));
        let back = at.join("back");
        if back.exists() {
            assert!(same(&at.join("data"), &back.join("data")), "round {round}");
            whole += 1;
        } else if chance.below(3) == 0 {
            // Leftovers of the killed restore do not interfere.
            drumfire.run(at, args, LIMIT).ok();
            assert!(same(&at.join("data"), &back.join("data")), "round {round}");
        }
        for entry in fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()) {
            let name = entry.file_name().unwrap().to_str().unwrap().to_owned();
            if name.starts_with("back") {
                left += u64::from(name.contains(".incomplete"));
                fs::remove_dir_all(entry).unwrap();
            }
        }
    }
    println!("{whole} of {round} were whole, {left} were left and said so");
}

/// The disk becomes full during a restore.
#[test]
fn a_restore_on_a_full_disk_never_looks_like_a_whole_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let sources = Folder::new();
    let mut chance = Chance(45);
    in_small_file_system(|small| {
        let (mut whole, mut left) = (0, 0);
        for round in 1..=rounds() {
            write_version(sources.path(), round, 9 * (1 + chance.below(800_000)));
            drumfire.run(sources.path(), "backup data --to kept --replace", LIMIT).ok();
            let back = small.join("back");
            let args = format!("backup --from kept --into {}", back.display());
            let ended = drumfire.run(sources.path(), &args, LIMIT);
            if back.exists() {
                assert_eq!(ended.code, Some(0), "round {round}: {ended:?}");
                assert!(same(&sources.path().join("data"), &back.join("data")), "round {round}");
                whole += 1;
            } else {
                assert_eq!(ended.code, Some(1), "round {round}: {ended:?}");
                assert!(ended.stderr.contains("back.incomplete"), "round {round}: {ended:?}");
                left += 1;
            }
            for entry in fs::read_dir(small).unwrap().map(|entry| entry.unwrap().path()) {
                fs::remove_dir_all(entry).unwrap();
            }
        }
        println!("{whole} of {} had room, {left} had not and said so", rounds());
    });
}
