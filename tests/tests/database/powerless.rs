//! A database on an attached array whose servers lose their power, all at once or all but one.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use drumfire_tests::{Below, Chance, Drumfire, Far, Folder, Server, rounds, run, skip};

use super::postgres::{LIMIT, Postgres, is_possible};
use super::{Attached, folder};

/// Number of concurrent rounds, which share the host's cores.
const AT_ONCE: usize = 2;
const LEGS: [&str; 2] = ["leg0", "leg1"];
/// Bytes of the drive, and the bytes of an array before and after it.
const DRIVE: u64 = 512 << 20;
const OWN: u64 = 1 << 20;

/// Inserts numbers one by one and records each acknowledged one, until an insert fails.
const COUNT: &str = "n=0; while psql -q -c \"insert into seen values ($n)\"; do \
                     echo $n >> ACKED; n=$((n+1)); done";

/// An array of two files with a database; its URI with the files' names.
fn array(drumfire: &Drumfire, images: &Folder) -> String {
    let (made, image) = (folder(), images.path().join("image"));
    let attached = Attached::new(drumfire, made.path(), &format!("ram:{DRIVE}"));
    let mut database = Postgres::new(made.path());
    database.make().unwrap();
    database.shell("psql -q -c 'create table seen (n int)'").unwrap();
    database.copy(&image).unwrap();
    drop(attached);
    for leg in LEGS {
        File::create(images.path().join(leg)).unwrap().set_len(DRIVE + 2 * OWN).unwrap();
    }
    let args = "volume create mirror disk --destroy --leg file:leg0 --leg file:leg1";
    let uri = drumfire.run(images.path(), args, LIMIT).ok().stdout;
    for leg in LEGS {
        // Equivalent to a copy through the array, whose legs are identical after their heads.
        let mut copy = Command::new("dd");
        copy.args(["bs=1M", "conv=sparse,notrunc", "seek=1"]);
        copy.arg(format!("if={}", image.display()));
        copy.arg(format!("of={}", images.path().join(leg).display()));
        run(&mut copy, LIMIT).ok();
    }
    uri.trim().to_owned()
}

/// A server of each leg, which loses unflushed data.
fn servers(drumfire: &Drumfire, folder: &Path, images: &Path, chance: &mut Chance) -> Vec<Far> {
    let start = |leg| {
        let file = folder.join(leg);
        let mut copy = Command::new("cp");
        run(copy.arg("--sparse=always").arg(images.join(leg)).arg(&file), LIMIT).ok();
        let server = Server::OURS[chance.below(3) as usize];
        Far::start(server, drumfire, folder, Below::File(file))
    };
    LEGS.map(start).into()
}

/// Cuts the power: the database is intact, or a program has reported that it may not be.
fn a_cut(drumfire: &Drumfire, seed: u64, images: &Path, uri: &str) -> String {
    let (mut chance, folder) = (Chance(seed), folder());
    let mut fars = servers(drumfire, folder.path(), images, &mut chance);
    let kinds: Vec<Server> = fars.iter().map(|far| far.server).collect();
    let mut uri = uri.to_owned();
    for (leg, far) in LEGS.iter().zip(&fars) {
        uri = uri.replace(&format!("file:{leg}"), &format!("{}?grace=1&io_timeout=120", far.uri()));
    }
    let attached = Attached::new(drumfire, folder.path(), &uri);
    let mut database = Postgres::new(folder.path());
    database.start_again().unwrap_or_else(|why| panic!("seed {seed}, before the cut: {why}"));
    let acked = folder.path().join("acked");
    fs::write(&acked, "").unwrap();
    fs::set_permissions(&acked, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let count = COUNT.replace("ACKED", &acked.display().to_string());
    // A process that keeps the shell's output open would delay its end.
    let alone = "</dev/null >/dev/null 2>&1 &";
    let load = format!("pgbench -c 3 -T 60 {alone} sh -c '{count}' {alone}");
    database.shell(&load).unwrap();
    sleep(Duration::from_millis(1000 + chance.below(3000)));

    // Some with a leg that stays.
    let spared = (chance.below(4) == 0).then(|| chance.below(2) as usize);
    let hit = |number: &usize| Some(*number) != spared;
    (0..2).filter(hit).for_each(|number| fars[number].cut_power());
    sleep(Duration::from_millis(chance.below(1500)));
    (0..2).filter(hit).for_each(|number| fars[number].come_back());
    sleep(Duration::from_millis(500 + chance.below(4000)));

    let inserted = database.shell("psql -q -c 'insert into seen values (-1)'");
    let (goes_on, log) = (inserted.is_ok(), database.last_words());
    let _ = database.shell("kill -9 $(head -1 DATA/postmaster.pid); sleep 1");
    database.unmount();
    let told = format!("seed {seed}, {kinds:?}, spared: {spared:?}, goes on: {goes_on}");
    assert!(
        goes_on || spared.is_none(),
        "{told}: a good leg was in: {inserted:?}; {log}; {}",
        attached.stderr()
    );
    let last =
        fs::read_to_string(&acked).unwrap().lines().last().map_or(-1, |n| n.parse().unwrap());
    let all = format!("psql -At -c 'select count(*) > {last} from seen where n >= 0' | grep -qx t");
    // A flush may fail on each core: the user mounts again.
    let mut tried = Vec::new();
    let mut started = database.start_again();
    while let (Err(why), 0..3) = (&started, tried.len()) {
        tried.push(why.lines().last().unwrap_or_default().to_owned());
        database.unmount();
        started = database.start_again();
    }
    match started {
        // An administrator is notified, and restores a backup.
        Err(why) => format!("{told}: does not start: {why}: {}", attached.stderr()),
        Ok(()) => {
            let right = database.shell(&all).and_then(|_| database.check());
            right.unwrap_or_else(|why| {
                panic!("{told}: corrupt, and nobody said so: {why}; {}", attached.stderr())
            });
            format!("{told}: whole with {} acknowledged, after {tried:?}", last + 1)
        }
    }
}

#[test]
fn a_database_whose_servers_lose_power_is_whole_or_says_so() {
    let Some(drumfire) = Drumfire::find() else { return };
    if std::env::var_os("DRUMFIRE_ROUNDS").is_none() {
        // A flush must end within the limits of databases, while hundreds of other tests run.
        return skip("some seconds a round of a host of its own: DRUMFIRE_ROUNDS=10");
    }
    if !is_possible() {
        return;
    }
    let images = folder();
    let uri = array(&drumfire, &images);
    rounds(1..3, AT_ONCE, |seed| a_cut(&drumfire, seed, images.path(), &uri));
}
