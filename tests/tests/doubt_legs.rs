//! Changed legs: older images, and legs that refuse I/Os, in rounds drawn from a seed as in
//! [`doubt`](crate::doubt).

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use drumfire_tests::{
    Below, Chance, Drumfire, Far, Folder, LateDisk, Patience, Server, Witness, rounds,
};
use rustix::process::Signal;

use crate::doubt::{BLOCK, Front, LIMIT, array, await_agreement, block, held, leg_file};

const AT_ONCE: usize = 3;
/// Longer than regions stay marked.
const REST: Duration = Duration::from_secs(8);
/// Blocks that are written, each in a separate region.
const PLACES: u64 = 40;

fn place(number: u64) -> u64 {
    number * (64 << 10) + (number % 16) * BLOCK as u64
}

/// Writes some of the blocks, and records their content.
fn write_some(front: &Front, chance: &mut Chance, held: &mut [u8], content: u8) {
    let mut volume = front.connect();
    for number in 0..PLACES {
        if chance.below(3) > 0 {
            assert!(volume.write(place(number), &block(content), chance.below(2) == 0).unwrap());
            held[number as usize] = content;
        }
    }
    assert!(volume.flush().unwrap());
}

/// Reads all written data, from whichever legs are in, and compares it.
fn look(front: &Front, expected: &[u8], when: &str) {
    let mut volume = front.connect();
    for number in 0..PLACES {
        let (found, expected) = (held(&mut volume, place(number)), expected[number as usize]);
        assert_eq!(found, expected, "{when}: place {number}: {}", front.running.stderr());
    }
}

/// A leg whose file is reverted to an earlier state, while the array was closed, was killed, or
/// continued without the leg.
fn an_older_leg(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let legs = 2 + chance.below(2);
    let files: Vec<PathBuf> = (0..legs).map(|number| leg_file(&folder, number)).collect();
    let old = chance.below(legs) as usize;
    let lives = chance.below(2) == 0;
    let mut far = lives.then(|| {
        let server = Server::any(&mut chance);
        Far::start(server, drumfire, folder.path(), Below::File(files[old].clone()))
    });
    let server = far.as_ref().map(|far| far.server);
    let uri = |number: usize| match &far {
        Some(far) if number == old => format!("{}?grace=1", far.uri()),
        _ => format!("file:{}", files[number].display()),
    };
    let uri = array(drumfire, &folder, &(0..legs as usize).map(uri).collect::<Vec<_>>());
    let mut front = Front::start(drumfire, &folder, &uri);
    let mut expected = [0; PLACES as usize];
    if chance.below(3) > 0 {
        write_some(&front, &mut chance, &mut expected, b'1');
    }
    let rests = [chance.below(2) == 0, !lives || chance.below(2) == 0];
    if rests[0] {
        sleep(REST);
    }
    let image = fs::read(&files[old]).unwrap();
    write_some(&front, &mut chance, &mut expected, b'2');
    if chance.below(2) == 0 {
        write_some(&front, &mut chance, &mut expected, b'3');
    }
    // After a crash an image that is newer than the last pages of the map cannot be detected.
    if rests[1] {
        sleep(REST);
    }
    let killed = !lives && chance.below(2) == 0;
    let told = format!("leg {old} of {legs}, {server:?}, rests {rests:?}, killed {killed}");
    println!("seed {seed}: {told}");
    if let Some(far) = &mut far {
        far.kill();
        fs::write(&files[old], &image).unwrap();
        look(&front, &expected, &format!("{told}: without it"));
        sleep(Duration::from_millis(chance.below(2000)));
        if chance.below(2) == 0 {
            write_some(&front, &mut chance, &mut expected, b'4');
        }
        far.come_back();
    } else {
        front.running.signal(if killed { Signal::KILL } else { Signal::TERM });
        front.running.finish(LIMIT);
        fs::write(&files[old], &image).unwrap();
        front = Front::start(drumfire, &folder, &uri);
    }
    let until = Instant::now() + Duration::from_millis(chance.below(4000));
    while Instant::now() < until {
        look(&front, &expected, &format!("{told}: meanwhile"));
    }
    await_data(&front, &files[old], &expected);
    look(&front, &expected, &format!("{told}: afterwards"));
    await_agreement(&front, &files);
    // The leg's data are there before it is recorded as in.
    let mut patience = Patience::new(LIMIT);
    let joins = |said: &str| said.contains("older image") && !said.contains("is back in sync");
    while joins(&front.running.stderr()) && patience.wait() {}
    let said = front.end();
    assert!(!lives || said.contains("is back in sync"), "{told}: {said}");
    let check = drumfire.run(folder.path(), &format!("volume check {uri}"), LIMIT);
    assert_eq!(check.code, Some(0), "{told}: {check:?}");
    format!("{told}: right")
}

/// Waits until the leg has all written data. Data in a cache reach the leg's file with a flush.
fn await_data(front: &Front, file: &Path, expected: &[u8]) {
    let mut volume = front.connect();
    let mut patience = Patience::new(LIMIT);
    while fs::read(file).unwrap()[1 << 20..7 << 20] != expected_data(expected)[..] {
        assert!(volume.flush().unwrap());
        sleep(Duration::from_millis(100));
        assert!(patience.wait(), "it never gets the data: {}", front.running.stderr());
    }
}

fn expected_data(expected: &[u8]) -> Vec<u8> {
    let mut data = vec![0; 6 << 20];
    for (number, content) in expected.iter().enumerate() {
        let at = place(number as u64) as usize;
        data[at..at + BLOCK].fill(*content);
    }
    data
}

#[test]
fn no_older_image_is_read() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..4, AT_ONCE, |seed| an_older_leg(&drumfire, seed));
}

/// Makes one leg refuse or fail I/Os in a range: the other one has all data, and the client sees no
/// error.
fn a_refusing_leg(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let fault = ["read-only", "no-space", "medium", "read-only"][chance.below(4) as usize];
    let op =
        ["'write'", "'trim'", "['write', 'trim']", "'read'", "'flush'"][chance.below(5) as usize];
    let from = chance.below(5);
    let range = format!("range = ['{from}m', '{}m']", from + 1 + chance.below(3));
    let range = if op == "'flush'" { String::new() } else { range };
    let chance_of = ["", "chance = 0.1", "count = 1"][chance.below(3) as usize];
    let faults = format!(
        "name = 'refuses'\nseed = {seed}\n[[fault]]\nverb = 'error'\nop = {op}\nfault = \
         '{fault}'\n{range}\n{chance_of}\n"
    );
    folder.file("ok.toml", b"name = 'fine'\n");
    let schedule = folder.file("faults.toml", b"name = 'fine'\n");
    let legs = 2 + chance.below(2) as usize;
    let bad = chance.below(legs as u64) as usize;
    let leg = |number: usize| {
        let file = format!("file:leg{number}.img?size=8m");
        if number == bad { format!("fault:faults.toml({file})") } else { file }
    };
    let uris: Vec<String> = (0..legs).map(leg).collect();
    let is_array = chance.below(3) > 0;
    let uri = match is_array {
        true => array(drumfire, &folder, &uris),
        false => format!("mirror({})", uris.join(",")),
    };
    fs::write(schedule, faults).unwrap();
    let told = format!("{op} {fault} {range} {chance_of}, leg {bad} of {legs}, array {is_array}");
    println!("seed {seed}: {told}");
    if is_array {
        return format!("{told}: {}", burst(&told, (drumfire, &folder, &uri), &mut chance));
    }
    let args = format!(
        "run {uri} --destroy --size 16k --read 40 --outstanding 8 --verify --seconds 2 --ramp 0 \
         --json"
    );
    let ended = drumfire.run(folder.path(), &args, LIMIT);
    assert_eq!(ended.code, Some(0), "{told}: {ended:?}");
    let result = ended.json();
    assert_eq!(result["totals"]["errors"], 0, "{told}: {result}");
    let words = result["warnings"].to_string();
    format!("{told}: no errors, {}", if words.contains("left") { "it left" } else { "it stayed" })
}

/// Writes, zeroes and flushes on an array without a failure, before and after a crash.
fn burst(
    told: &str,
    (drumfire, folder, uri): (&Drumfire, &Folder, &str),
    chance: &mut Chance,
) -> &'static str {
    let mut witness = None;
    let mut left = false;
    for _ in 0..2 {
        let front = Front::start(drumfire, folder, uri);
        let mut ways = [front.connect(), front.connect()];
        let witness = witness.get_or_insert_with(|| Witness::new(ways[0].bytes));
        for way in &mut ways {
            let wrong = witness.look(way).unwrap();
            assert!(wrong.is_empty() && way.flush().unwrap(), "{told}: {wrong:#?}");
        }
        let kill = || {
            // Lines come once a second.
            sleep(Duration::from_millis(1200));
            left |= front.running.stderr().contains(" left: ");
            front.running.signal(Signal::KILL);
        };
        witness.burst(&mut ways, chance, 600, kill).unwrap();
        front.running.finish(LIMIT);
    }
    if left { "no errors, it left" } else { "no errors, it stayed" }
}

#[test]
fn one_legs_refusal_is_no_clients() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..5, AT_ONCE, |seed| a_refusing_leg(&drumfire, seed));
}

/// A volume with `?reconnect=` somewhere below a leg.
fn a_nested_leg(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let server = Server::any(&mut chance);
    let far = Far::start(server, drumfire, folder.path(), Below::File(leg_file(&folder, 0)));
    folder.file("ok.toml", b"name = 'fine'\n");
    let plain = [far.uri(), format!("{}?reconnect=30s", far.uri())];
    let [fine, mut refused] = plain;
    for _ in 0..chance.below(4) {
        refused = match chance.below(4) {
            0 => format!("stripe:64k({refused},file:x.img?size=8m)"),
            1 => format!("stripe:64k(file:y.img?size=8m,{refused})"),
            2 => format!("fault:ok.toml({refused})"),
            _ => format!("mirror(file:z.img?size=8m,{refused})"),
        };
    }
    for name in ["x.img", "y.img", "z.img", "a.img"] {
        File::create(folder.path().join(name)).unwrap().set_len(8 << 20).unwrap();
    }
    let before = fs::read(folder.path().join("leg0.img")).unwrap();
    let create = format!("volume create mirror m --destroy --leg file:a.img --leg {refused}");
    let ended = drumfire.run(folder.path(), &create, LIMIT);
    assert_eq!(ended.code, Some(2), "{refused}: {ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{refused}: {ended:?}");
    assert!(before == fs::read(folder.path().join("leg0.img")).unwrap(), "{refused}: written to");
    array(drumfire, &folder, &["file:a.img".to_owned(), fine]);
    let args = format!("serve --nbd 127.0.0.1:0 --volume d=array:m?leg=file:a.img&leg={refused}");
    let ended = drumfire.run(folder.path(), &args, LIMIT);
    assert_eq!(ended.code, Some(2), "{refused}: {ended:?}");
    format!("{refused}: refused")
}

#[test]
fn no_leg_reconnects_by_itself_however_deep() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..7, AT_ONCE, |seed| a_nested_leg(&drumfire, seed));
}

/// Creates an array over a server without write zeroes.
fn a_leg_without_zeroes(drumfire: &Drumfire, seed: u64) -> String {
    let mut chance = Chance(seed);
    let folder = Folder::new();
    let disk = LateDisk::over(&leg_file(&folder, 0));
    let server = Server::any(&mut chance);
    // tgtd writes block by block to volumes that are not files.
    let below = match server {
        Server::Tgt => Below::File(leg_file(&folder, 1)),
        _ => Below::Nbd(disk.port),
    };
    let far = Far::start(server, drumfire, folder.path(), below);
    let timeout = 1 + chance.below(8);
    let legs = [format!("{}?io_timeout={timeout}", far.uri()), "file:a.img?size=8m".to_owned()];
    let begun = Instant::now();
    array(drumfire, &folder, if chance.below(3) == 0 { &legs[..1] } else { &legs });
    let took = begun.elapsed();
    // 128 windows, each of which took a quarter of the time-out once.
    assert!(took < Duration::from_secs(20), "{server:?}, io_timeout={timeout}: {took:?}");
    format!("{server:?}, io_timeout={timeout}: {took:?}")
}

#[test]
fn an_array_is_made_at_once_over_servers_without_write_zeroes() {
    let Some(drumfire) = Drumfire::find() else { return };
    rounds(1..5, AT_ONCE, |seed| a_leg_without_zeroes(&drumfire, seed));
}
