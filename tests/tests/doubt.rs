//! Late or lost writes: a disk executes one late, or a server dies with unflushed data. A reader
//! then gets the acknowledged data, or the flush has failed.
//!
//! Servers, the number of legs and the times are drawn from a seed: `DRUMFIRE_ROUNDS=20` runs more
//! rounds of each kind than by default, `DRUMFIRE_SEED` those of another seed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use drumfire_tests::{
    Below, Chance, Drumfire, Far, Folder, LateDisk, Nbd, Patience, Running, Server, rounds,
};
use rustix::process::Signal;

pub(crate) const LIMIT: Duration = Duration::from_secs(20);
/// Time limit for creating an array: 20 s for 8 MiB over tgtd on a host whose cores are busy.
const MAKING: Duration = Duration::from_secs(120);
/// Number of concurrent rounds.
const AT_ONCE: usize = 3;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const LEG_BYTES: u64 = 8 * MIB;
pub(crate) const BLOCK: usize = 4096;

/// A volume that our server serves, over volumes that others serve.
pub(crate) struct Front {
    pub(crate) running: Running,
    pub(crate) address: String,
}

impl Front {
    pub(crate) fn start(drumfire: &Drumfire, folder: &Folder, uri: &str) -> Front {
        let args = format!("serve --nbd 127.0.0.1:0 --volume d={uri}");
        let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
        let address = running.await_stdout(LIMIT, |stdout| {
            let (line, _) = stdout.split_once('\n')?;
            line.strip_prefix("ready nbd=").map(str::to_owned)
        });
        Front { running, address }
    }

    pub(crate) fn connect(&self) -> Nbd {
        Nbd::connect(&self.address, "d").unwrap()
    }

    pub(crate) fn end(self) -> String {
        self.running.signal(Signal::TERM);
        self.running.finish(LIMIT).stderr
    }
}

pub(crate) fn leg_file(folder: &Folder, number: u64) -> PathBuf {
    let path = folder.path().join(format!("leg{number}.img"));
    File::create(&path).unwrap().set_len(LEG_BYTES).unwrap();
    path
}

/// Makes an array of these legs; its URI.
pub(crate) fn array(drumfire: &Drumfire, folder: &Folder, legs: &[String]) -> String {
    let legs: Vec<String> = legs.iter().map(|leg| format!("--leg {leg}")).collect();
    let args = format!("volume create mirror m --destroy {}", legs.join(" "));
    drumfire.run(folder.path(), &args, MAKING).ok().stdout.trim().to_owned()
}

pub(crate) fn block(content: u8) -> Vec<u8> {
    vec![content; BLOCK]
}

/// Content of a block, all of whose bytes are equal.
pub(crate) fn held(volume: &mut Nbd, offset: u64) -> u8 {
    let data = volume.read(offset, BLOCK as u32).unwrap();
    assert!(data.iter().all(|byte| *byte == data[0]), "a block is torn");
    data[0]
}

/// Offsets at which legs differ.
fn difference(legs: &[PathBuf]) -> String {
    let all: Vec<Vec<u8>> = legs.iter().map(|leg| fs::read(leg).unwrap()).collect();
    let differ = |at: &usize| all.iter().any(|leg| leg[*at] != all[0][*at]);
    let places: Vec<usize> =
        (MIB as usize..(LEG_BYTES - MIB) as usize).step_by(512).filter(differ).collect();
    let first = places.first().map(|at| all.iter().map(|leg| leg[*at]).collect::<Vec<_>>());
    format!("legs differ in {} sectors: {places:x?}, first {first:?}", places.len())
}

/// Waits until the data of these legs agree.
pub(crate) fn await_agreement(front: &Front, legs: &[PathBuf]) {
    let data =
        |leg: &Path| fs::read(leg).unwrap()[MIB as usize..(LEG_BYTES - MIB) as usize].to_vec();
    let mut patience = Patience::new(LIMIT);
    while legs.iter().any(|leg| data(leg) != data(&legs[0])) {
        assert!(patience.wait(), "{}: {}", difference(legs), front.running.stderr());
    }
}

pub(crate) fn milliseconds(chance: &mut Chance, below: u64) -> Duration {
    Duration::from_millis(chance.below(below))
}

/// Server between the client and the late disk, if there is one.
fn between(chance: &mut Chance) -> Option<Server> {
    (chance.below(6) > 0).then(|| Server::any(chance))
}

/// A write that a disk executes after a newer one was acknowledged.
fn a_late_write(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let between = between(&mut chance);
    let legs = [1, 2, 2, 3][chance.below(4) as usize];
    let suspect = chance.below(legs);
    let late = Duration::from_secs(3 + chance.below(5));
    // If only time resolves doubts, the grace period equals the disk's delay. Our server and tgtd
    // can confirm the end of I/Os.
    let only_time = between.is_none_or(|server| server.is_nbd() && !server.is_ours());
    let grace = if only_time { late.as_secs() + 1 } else { 1 };
    let files: Vec<PathBuf> = (0..legs).map(|number| leg_file(&folder, number)).collect();
    let disk = LateDisk::over(&files[suspect as usize]);
    let below = Below::Nbd(disk.port);
    let far = between.map(|server| Far::start(server, drumfire, folder.path(), below));
    let uri = far.as_ref().map_or(format!("nbd://127.0.0.1:{}/disk", disk.port), Far::uri);
    let brief = "io_timeout=1s";
    let mut uri = format!("{uri}?{brief}&grace={grace}");
    if legs == 1 {
        uri += "&reconnect=60s";
    } else {
        // On a busy host tgtd may take longer than a second to zero a new array: it writes zeroes
        // block by block.
        let long = "io_timeout=20s";
        let leg = |number: u64| match number == suspect {
            true => uri.replace(brief, long),
            false => format!("file:{}", files[number as usize].display()),
        };
        let made = array(drumfire, &folder, &(0..legs).map(leg).collect::<Vec<_>>());
        assert!(made.contains(long), "{made}");
        uri = made.replace(long, brief);
    }
    let told = format!("late by {late:?}, {between:?}, leg {suspect} of {legs}, grace {grace} s");
    println!("seed {seed}: {told}");
    let front = Front::start(drumfire, &folder, &uri);
    let mut volume = front.connect();
    // Each leg is read at some offset.
    let offset = chance.below(16) * (64 << 10) + chance.below(16) * BLOCK as u64;
    assert!(volume.write(offset, &block(b'0'), true).unwrap());
    disk.delay_next(offset + if legs == 1 { 0 } else { MIB }, late);
    let first = volume.write(offset, &block(b'1'), chance.below(2) == 0).unwrap();
    sleep(milliseconds(&mut chance, 4000));
    let second = volume.write(offset, &block(b'2'), true).unwrap();
    assert!(second, "{told}: {}", front.running.stderr());
    assert_eq!(held(&mut volume, offset), b'2', "{told}: at once, {}", front.running.stderr());
    let mut patience = Patience::new(LIMIT);
    while !disk.has_executed() {
        assert!(patience.wait(), "{told}: the late write never comes");
        assert_eq!(held(&mut volume, offset), b'2', "{told}: {}", front.running.stderr());
    }
    sleep(milliseconds(&mut chance, 500));
    for volume in [&mut volume, &mut front.connect()] {
        assert_eq!(held(volume, offset), b'2', "{told}: afterwards, {}", front.running.stderr());
    }
    if legs > 1 {
        await_agreement(&front, &files);
    }
    front.end();
    let leg = fs::read(&files[suspect as usize]).unwrap();
    let at = (offset + if legs == 1 { 0 } else { MIB }) as usize;
    assert_eq!(leg[at], b'2', "{told}: on the leg");
    format!("{told}: right; the first write was {}", if first { "done" } else { "failed" })
}

#[test]
fn no_late_write_comes_after_a_newer_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    // The first seed failed while a failed leg kept its connection.
    rounds(1..4, AT_ONCE, |seed| a_late_write(&drumfire, seed));
}

/// Cuts the power of all servers but one; they return after a while.
fn strike(fars: &mut [Far], spared: Option<usize>, chance: &mut Chance) {
    let mut struck: Vec<&mut Far> = Vec::new();
    let hit = fars.iter_mut().enumerate().filter(|(number, _)| spared != Some(*number));
    struck.extend(hit.map(|(_, far)| far));
    struck.iter_mut().for_each(|far| far.cut_power());
    sleep(milliseconds(chance, 2500));
    struck.iter_mut().for_each(|far| far.come_back());
    sleep(milliseconds(chance, 3000));
}

/// All servers lose power with unflushed data, or all but one.
fn a_lost_cache(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let legs = 1 + chance.below(3);
    let files: Vec<PathBuf> = (0..legs).map(|number| leg_file(&folder, number)).collect();
    let mut fars: Vec<Far> = files
        .iter()
        .map(|file| {
            let server = Server::any(&mut chance);
            Far::start(server, drumfire, folder.path(), Below::File(file.clone()))
        })
        .collect();
    let servers: Vec<Server> = fars.iter().map(|far| far.server).collect();
    let uris: Vec<String> = fars.iter().map(|far| format!("{}?grace=1", far.uri())).collect();
    let uri = match legs {
        1 => format!("{}&reconnect=60s", uris[0]),
        _ => array(drumfire, &folder, &uris),
    };
    // A leg that stays has all data.
    let spared = (legs > 1 && chance.below(3) == 0).then(|| chance.below(legs) as usize);
    let told = format!("{servers:?}, spared {spared:?}");
    println!("seed {seed}: {told}");
    let front = Front::start(drumfire, &folder, &uri);
    let [mut volume, mut other] = [front.connect(), front.connect()];
    let offset = chance.below(16) * (64 << 10);
    assert!(volume.write(offset, &block(b'1'), false).unwrap());
    assert!(volume.flush().unwrap());
    fars.iter_mut().for_each(Far::was_flushed);
    sleep(milliseconds(&mut chance, 300));
    assert!(volume.write(offset, &block(b'2'), false).unwrap());
    sleep(milliseconds(&mut chance, 300));
    strike(&mut fars, spared, &mut chance);
    let failed = [volume.flush().unwrap(), other.flush().unwrap()].map(|done| !done);
    let said = || front.running.stderr();
    let fails = volume.read(offset, BLOCK as u32).is_err();
    // Events are reported once a second.
    sleep(Duration::from_millis(if fails { 1500 } else { 0 }));
    if fails && said().contains("came back as an older image") {
        // Writes with FUA to others' servers after the flush are lost here, too.
        assert!(servers.iter().any(|server| !server.is_ours()), "{told}: {}", said());
        return format!("{told}: I/Os fail");
    }
    let now = held(&mut volume, offset);
    assert!(
        now == b'2' || (now == b'1' && failed == [true; 2]),
        "{told}: {now}, flushes failed: {failed:?}: {}",
        said()
    );
    assert!(spared.is_none() || failed == [false; 2], "{told}: an error for nothing: {}", said());
    // The loss is reported once.
    assert!(volume.flush().unwrap() && other.flush().unwrap(), "{told}: {}", said());
    assert!(volume.write(offset, &block(b'3'), true).unwrap(), "{told}: {}", said());
    sleep(milliseconds(&mut chance, 3000));
    // A later client may get one more report.
    let mut late = front.connect();
    let _ = late.flush().unwrap();
    for volume in [&mut volume, &mut other, &mut late] {
        assert!(volume.flush().unwrap(), "{told}: {}", said());
        assert_eq!(held(volume, offset), b'3', "{told}: {}", said());
    }
    if legs > 1 {
        await_agreement(&front, &files);
    }
    front.end();
    let flush = if failed == [true; 2] { "the flush failed once" } else { "the flush was done" };
    format!("{told}: {flush}, then {}", char::from(now))
}

#[test]
fn what_a_server_lost_fails_the_flush() {
    let Some(drumfire) = Drumfire::find() else { return };
    // The first and the last seed failed while a leg reported the losses of the last leg.
    rounds(8..11, AT_ONCE, |seed| a_lost_cache(&drumfire, seed));
}
