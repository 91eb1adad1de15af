//! Arrays that grow with larger legs, and legs whose resync is interrupted.

use std::fs;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Nbd, NbdCommand, Patience, Running};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
const MIB: u64 = 1 << 20;

fn serving(drumfire: &Drumfire, folder: &Path, uri: &str) -> (Running, String) {
    let args = format!("serve --nbd 127.0.0.1:0 --volume disk={uri}");
    let mut running = Running::start(&mut drumfire.command(folder, &args));
    let address = running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        Some(line.rsplit_once('=')?.1.to_owned())
    });
    (running, address)
}

fn end(running: Running) {
    running.signal(Signal::TERM);
    assert_eq!(running.finish(LIMIT).code, Some(0));
}

fn write(disk: &mut Nbd, at: u64, byte: u8) {
    disk.send(NbdCommand::Write, true, 1, (at, 4096), &[byte; 4096]).unwrap();
    assert_eq!(disk.answer().unwrap(), (1, true), "at {at}");
}

/// Whether both legs of an array of `bytes` bytes have the same data.
fn agree(folder: &Path, legs: [&str; 2], bytes: u64) -> bool {
    let data = |leg: &str| {
        let whole = fs::read(folder.join(leg)).unwrap();
        whole[MIB as usize..(MIB + bytes) as usize].to_vec()
    };
    data(legs[0]) == data(legs[1])
}

fn await_agreement(folder: &Path, legs: [&str; 2], bytes: u64) {
    let mut patience = Patience::new(LIMIT);
    while !agree(folder, legs, bytes) {
        assert!(patience.wait(), "the legs never agree");
    }
}

#[test]
fn an_array_grows_when_each_leg_was_replaced_by_a_longer_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let of = |args: &str| drumfire.run(folder.path(), args, LIMIT);
    let leg = |name: &str, mib: u64| format!("file:{name}?size={mib}m");
    let (a, b, c, d) = (leg("a", 12), leg("b", 12), leg("c", 20), leg("d", 24));
    let array = |legs: [&str; 2]| format!("array:one?leg=file:{}&leg=file:{}", legs[0], legs[1]);
    of(&format!("volume create mirror one --leg {a} --leg {b}")).ok();
    let (running, address) = serving(&drumfire, folder.path(), &array(["a", "b"]));
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    assert_eq!(disk.bytes, 10 * MIB);
    [0, 5 * MIB, 10 * MIB - 4096].into_iter().for_each(|at| write(&mut disk, at, 7));
    drop(disk);
    end(running);
    // No leg is longer yet.
    let early = of(&format!("volume grow {}", array(["a", "b"])));
    assert_ne!(early.code, Some(0), "{early:?}");
    assert_eq!(early.stderr.lines().count(), 1, "{early:?}");
    for (number, old, new, now) in
        [(1, ["a", "b"], &c, ["c", "b"]), (2, ["c", "b"], &d, ["c", "d"])]
    {
        let args = format!("volume replace {} {number} {new}", array(old));
        let uri = of(&args).ok().stdout;
        let shown = of(&format!("volume show {}", uri.trim())).ok().stdout;
        assert!(shown.contains(&format!("leg {number}: out, file:{}", now[number - 1])), "{shown}");
        let (running, address) = serving(&drumfire, folder.path(), &array(now));
        await_agreement(folder.path(), now, 10 * MIB);
        // The array records the agreement with a delay; from then on writes go to both legs.
        std::thread::sleep(Duration::from_secs(3));
        assert_eq!(Nbd::connect(&address, "disk").unwrap().bytes, 10 * MIB);
        end(running);
    }
    let args = format!("volume grow {}", array(["c", "d"]));
    of(&args).ok();
    let (running, address) = serving(&drumfire, folder.path(), &array(["c", "d"]));
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    assert_eq!(disk.bytes, 18 * MIB, "that of the shorter leg, less 2 MiB");
    for at in [0, 5 * MIB, 10 * MIB - 4096] {
        assert_eq!(disk.read(at, 4096).unwrap(), [7; 4096], "at {at}");
    }
    assert_eq!(disk.read(10 * MIB, 4096).unwrap(), [0; 4096], "what is new is zeroed");
    write(&mut disk, 18 * MIB - 4096, 9);
    drop(disk);
    end(running);
    assert!(agree(folder.path(), ["c", "d"], 18 * MIB));
    // A user's likely next step: all of the array under load, with every byte verified.
    let uri = array(["c", "d"]);
    let args = format!(
        "run {uri} --destroy --size 16k --read 50 --outstanding 8 --verify --seconds 2 --ramp 0 \
         --json"
    );
    let result = of(&args).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    assert!(agree(folder.path(), ["c", "d"], 18 * MIB));
}

#[test]
fn a_leg_is_made_equal_though_the_server_is_killed_ten_times() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let bytes = 126 * MIB;
    // The leg under resync writes 16 MB/s: it works for four seconds between two kills.
    let slow = "name = 'slow'\n[[stage]]\nname = 'medium'\nservers = 1\nshape = 'fixed'\n\
                read = { each_s = 1e-6 }\nwrite = { per_byte_s = 62e-9 }\n";
    fs::write(folder.path().join("slow.toml"), slow).unwrap();
    let args = "volume create mirror one --leg file:a?size=128m --leg file:b?size=128m";
    drumfire.run(folder.path(), args, LIMIT).ok();
    // One leg is used alone, and completely overwritten.
    let args = "run array:one?leg=file:a&degraded=1 --destroy --size 1m --read 0 --random 0 \
                --outstanding 4 --seconds 4 --ramp 0 --json";
    let result = drumfire.run(folder.path(), args, LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    assert!(!agree(folder.path(), ["a", "b"], bytes));
    let both = "array:one?leg=file:a&leg=delay:slow.toml(file:b)";
    for round in 0..10 {
        let (running, address) = serving(&drumfire, folder.path(), both);
        let mut disk = Nbd::connect(&address, "disk").unwrap();
        // Clients continue during the growth.
        write(&mut disk, round * MIB, round as u8);
        assert_eq!(disk.read(round * MIB, 4096).unwrap(), [round as u8; 4096]);
        std::thread::sleep(Duration::from_millis(1500));
        drop(disk);
        running.signal(Signal::KILL);
        running.finish(LIMIT);
    }
    let (running, address) = serving(&drumfire, folder.path(), both);
    await_agreement(folder.path(), ["a", "b"], bytes);
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    for round in 0..10 {
        assert_eq!(disk.read(round * MIB, 4096).unwrap(), [round as u8; 4096], "{round}");
    }
    drop(disk);
    end(running);
}

#[test]
fn a_second_failure_while_a_leg_is_made_equal_is_told_and_no_byte_is_wrong() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "volume create mirror one --leg file:a?size=64m --leg file:b?size=64m";
    drumfire.run(folder.path(), args, LIMIT).ok();
    let args = "run array:one?leg=file:a&degraded=1 --destroy --size 1m --read 0 --random 0 \
                --outstanding 4 --seconds 2 --ramp 0";
    drumfire.run(folder.path(), args, LIMIT).ok();
    // The second half of the only leg with all data becomes unreadable.
    let bad = "name = 'bad'\n[[fault]]\nverb = 'error'\nop = 'read'\nrange = ['32m', '60m']\n";
    fs::write(folder.path().join("bad.toml"), bad).unwrap();
    let both = "array:one?leg=fault:bad.toml(file:a)&leg=file:b";
    let (running, address) = serving(&drumfire, folder.path(), both);
    let good = fs::read(folder.path().join("a")).unwrap();
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    std::thread::sleep(Duration::from_secs(5));
    for at in (0..62 * MIB).step_by(4 << 20) {
        let on_bad = at + MIB >= 32 * MIB && at + MIB < 60 * MIB;
        match disk.read(at, 4096) {
            Ok(found) => {
                let there = (at + MIB) as usize;
                assert!(!on_bad && found == good[there..there + 4096], "wrong bytes at {at}");
            }
            Err(error) => assert!(on_bad, "at {at}: {error}"),
        }
    }
    drop(disk);
    end(running);
    // The leg that was not in sync must not be trusted when it is alone.
    let alone = drumfire.run(
        folder.path(),
        "serve --nbd 127.0.0.1:0 --volume disk=array:one?leg=file:b&degraded=1",
        LIMIT,
    );
    assert_eq!(alone.code, Some(1), "{alone:?}");
}
