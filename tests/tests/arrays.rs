//! Arrays from a user's view: unsuitable legs are refused and left as they are, and legs may fail
//! and return under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use drumfire_tests::{
    Drumfire, Folder, Nbd, Patience, Running, await_second, free_port, in_small_file_system,
};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
const MIB: u64 = 1 << 20;
/// Bytes of the legs.
const LEG_BYTES: u64 = 12 * MIB;

/// Files of two arrays, `one` with the legs a and b, `two` with c and d.
struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    fn new() -> Option<Rig> {
        let rig = Rig { drumfire: Drumfire::find()?, folder: Folder::new() };
        rig.make("one", ["a", "b"]);
        rig.make("two", ["c", "d"]);
        Some(rig)
    }

    fn make(&self, name: &str, legs: [&str; 2]) {
        let legs = legs.map(|leg| format!("--leg file:{leg}?size={LEG_BYTES}")).join(" ");
        let args = format!("volume create mirror {name} {legs}");
        self.drumfire.run(self.folder.path(), &args, LIMIT).ok();
    }

    fn path(&self, leg: &str) -> PathBuf {
        self.folder.path().join(leg)
    }

    fn bytes(&self, leg: &str) -> Vec<u8> {
        fs::read(self.path(leg)).unwrap()
    }

    /// A leg's file under another name, with some bytes overwritten.
    fn changed(&self, leg: &str, name: &str, at: &[u64], with: &[u8]) {
        let mut bytes = self.bytes(leg);
        for at in at {
            bytes[*at as usize..*at as usize + with.len()].copy_from_slice(with);
        }
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Serves these volumes, and returns the address.
    fn serve(&self, volumes: &str) -> (Running, String) {
        let args = format!("serve --nbd 127.0.0.1:0 {volumes}");
        serving(&self.drumfire, self.folder.path(), &args)
    }

    /// Serves one volume until it is up, and ends the server cleanly.
    fn open_once(&self, uri: &str) {
        let (running, _) = self.serve(&format!("--volume disk={uri}"));
        running.signal(Signal::TERM);
        running.finish(LIMIT);
    }
}

fn serving(drumfire: &Drumfire, folder: &Path, args: &str) -> (Running, String) {
    let mut running = Running::start(&mut drumfire.command(folder, args));
    let address = running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        Some(line.rsplit_once('=')?.1.to_owned())
    });
    (running, address)
}

/// URI of the array `one` with these legs.
fn one(legs: &[&str]) -> String {
    let legs: Vec<String> = legs.iter().map(|leg| format!("leg=file:{leg}")).collect();
    format!("array:one?{}", legs.join("&"))
}

#[test]
fn what_makes_no_array_is_refused_in_one_line_and_left_as_it_is() {
    let Some(rig) = Rig::new() else { return };
    fs::copy(rig.path("b"), rig.path("copy-of-b")).unwrap();
    fs::write(rig.path("short"), &rig.bytes("b")[..8 << 20]).unwrap();
    rig.changed("b", "broken", &[0, LEG_BYTES - 4096], &[0; 4096]);
    rig.changed("b", "nonsense", &[100, LEG_BYTES - 3996], b"nonsense");
    for leg in ["a", "b"] {
        let alone = format!("{leg}-alone");
        fs::copy(rig.path(leg), rig.path(&alone)).unwrap();
        rig.open_once(&format!("{}&degraded=1", one(&[&alone])));
    }
    for (legs, code, words) in [
        (vec!["a", "c"], 2, "file:c is a leg of another array, two"),
        (vec!["b", "copy-of-b"], 2, "bit-identical copies"),
        (vec!["a", "short"], 2, "8388608 bytes"),
        (vec!["a", "broken"], 2, "file:broken is not a leg of an array"),
        (vec!["a", "nonsense"], 1, "file:nonsense"),
        (vec!["a"], 1, "leg 2 is missing, and may have newer data"),
        (vec!["b"], 1, "leg 1 is missing, and may have newer data"),
        (vec!["a-alone", "b-alone"], 1, "diverged (split brain)"),
    ] {
        let before: Vec<Vec<u8>> = legs.iter().map(|leg| rig.bytes(leg)).collect();
        let args = format!("serve --nbd 127.0.0.1:0 --volume disk={}", one(&legs));
        let ended = rig.drumfire.run(rig.folder.path(), &args, LIMIT);
        assert_eq!(ended.code, Some(code), "{legs:?}: {ended:?}");
        let lines: Vec<&str> = ended.stderr.lines().collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{legs:?}: {lines:#?}");
        // The other volumes of the server are unaffected.
        let other = format!("--volume disk={} --volume other=ram:4m", one(&legs));
        let (running, address) = rig.serve(&other);
        let other = Nbd::connect(&address, "other").and_then(|mut other| other.read(0, 4096));
        assert_eq!(other.unwrap(), [0; 4096], "{legs:?}");
        assert!(Nbd::connect(&address, "disk").is_err(), "{legs:?}");
        running.signal(Signal::TERM);
        let ended = running.finish(LIMIT);
        assert!(ended.stderr.contains(words), "{legs:?}: {ended:?}");
        let after: Vec<Vec<u8>> = legs.iter().map(|leg| rig.bytes(leg)).collect();
        assert!(before == after, "{legs:?}: something was written");
    }
}

#[test]
fn one_damaged_superblock_is_replaced_and_legs_may_be_named_in_any_order() {
    let Some(rig) = Rig::new() else { return };
    let (running, address) = rig.serve(&format!("--volume disk={}", one(&["a", "b"])));
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    assert_eq!(disk.bytes, LEG_BYTES - 2 * MIB);
    let last = (disk.bytes - 4096, 4096);
    disk.send(drumfire_tests::NbdCommand::Write, true, 1, last, &[7; 4096]).unwrap();
    assert_eq!(disk.answer().unwrap(), (1, true));
    running.signal(Signal::TERM);
    running.finish(LIMIT);
    for (at, words) in [(100, "one superblock is damaged"), (LEG_BYTES - 3996, "is damaged")] {
        rig.changed("b", "b2", &[at], b"nonsense");
        fs::rename(rig.path("b2"), rig.path("b")).unwrap();
        // Legs in the other order, too.
        let (running, address) = rig.serve(&format!("--volume disk={}", one(&["b", "a"])));
        let mut disk = Nbd::connect(&address, "disk").unwrap();
        assert_eq!(disk.read(last.0, last.1).unwrap(), [7; 4096]);
        running.signal(Signal::TERM);
        let ended = running.finish(LIMIT);
        assert!(ended.stderr.contains(words), "{ended:?}");
        // The array is complete again: nothing is reported any more.
        let (running, _) = rig.serve(&format!("--volume disk={}", one(&["a", "b"])));
        running.signal(Signal::TERM);
        let ended = running.finish(LIMIT);
        assert!(!ended.stderr.contains("damaged"), "{ended:?}");
    }
}

#[test]
fn legs_of_different_sizes_make_an_array_of_the_smallest() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "volume create mirror disk --leg file:a?size=24m --leg file:b?size=12345k";
    let uri = drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    let args = format!(
        "run {} --destroy --size 64k --read 50 --outstanding 8 --verify --seconds 2 --ramp 0 \
         --json",
        uri.trim()
    );
    let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    let [a, b] = ["a", "b"].map(|leg| fs::read(folder.path().join(leg)).unwrap());
    let data = MIB as usize..(12345 << 10) - 2 * MIB as usize;
    assert!(a[data.clone()] == b[data], "the legs differ");
}

/// A server of one leg, with each protocol at its own port.
fn leg_server(drumfire: &Drumfire, folder: &Path, flag: &str, port: u16) -> Running {
    let args = format!("serve {flag} 127.0.0.1:{port} --volume leg=file:{port}.img?size=24m");
    serving(drumfire, folder, &args).0
}

#[test]
fn legs_on_other_servers_are_killed_and_come_back_under_load() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let flags = ["--iscsi", "--nvme-tcp", "--nbd"];
    let ports = flags.map(|_| free_port());
    let mut servers: Vec<Running> = (0..3)
        .map(|number| leg_server(&drumfire, folder.path(), flags[number], ports[number]))
        .collect();
    let uris = [
        "file:own.img?size=24m".to_owned(),
        format!("iscsi://127.0.0.1:{}/iqn.2026-11.io.drumfire:leg/1", ports[0]),
        format!("nvme+tcp://127.0.0.1:{}/nqn.2026-11.io.drumfire:leg/1", ports[1]),
        format!("nbd://127.0.0.1:{}/leg", ports[2]),
    ];
    let legs = uris.map(|uri| format!("--leg {uri}")).join(" ");
    let args = format!("volume create mirror disk {legs} --destroy");
    let uri = drumfire.run(folder.path(), &args, LIMIT).ok().stdout;
    let uri = uri.trim();
    let args = format!(
        "run {uri} --destroy --size 16k --read 50 --outstanding 8 --workers 2 --verify \
         --seconds 20 --ramp 0 --json --json-lines lines.jsonl"
    );
    let mut load = Running::start(&mut drumfire.command(folder.path(), &args));
    await_second(&mut load, &folder.path().join("lines.jsonl"));
    for number in 0..3 {
        servers[number].signal(Signal::KILL);
        std::thread::sleep(Duration::from_secs(1));
        let again = leg_server(&drumfire, folder.path(), flags[number], ports[number]);
        servers[number] = again;
        std::thread::sleep(Duration::from_secs(3));
    }
    let finished = load.finish(LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["totals"]["errors"], 0, "{result}");
    // Workers continue, though counters of a new connection begin at zero.
    assert!(!finished.stderr.contains("panicked"), "{finished:?}");
    let warnings = result["warnings"].to_string();
    for leg in ["leg 2", "leg 3", "leg 4"] {
        assert!(warnings.contains(leg), "{warnings}");
    }
    // A leg that was still out at the end is re-added by the next process that opens the array.
    let (array, _) =
        serving(&drumfire, folder.path(), &format!("serve --nbd 127.0.0.1:0 --volume disk={uri}"));
    let data = |file: &str| {
        let bytes = fs::read(folder.path().join(file)).unwrap();
        bytes[MIB as usize..23 << 20].to_vec()
    };
    let mut patience = Patience::new(LIMIT);
    let agree = || ports.iter().all(|port| data(&format!("{port}.img")) == data("own.img"));
    while !agree() {
        assert!(patience.wait(), "the legs never agree: {:?}", array.stderr());
    }
    array.signal(Signal::TERM);
    array.finish(LIMIT);
}

#[test]
fn a_leg_without_room_leaves_and_no_write_is_lost() {
    let Some(drumfire) = Drumfire::find() else { return };
    in_small_file_system(|small| {
        let folder = Folder::new();
        let full = small.join("b");
        let args = format!(
            "volume create mirror disk --leg file:a?size=24m --leg file:{}?size=24m",
            full.display()
        );
        let uri = drumfire.run(folder.path(), &args, LIMIT).ok().stdout;
        let args = format!(
            "run {} --destroy --size 64k --read 50 --outstanding 4 --verify --seconds 4 --ramp 0 \
             --json",
            uri.trim()
        );
        let result = drumfire.run(folder.path(), &args, LIMIT).ok().json();
        assert_eq!(result["totals"]["errors"], 0, "{result}");
        let warnings = result["warnings"].to_string();
        assert!(warnings.contains("leg 2") && warnings.contains("no space"), "{warnings}");
    });
}
