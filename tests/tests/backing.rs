//! The backing store is propagated: figures of an emulated or faulty drive are never measured ones,
//! over any server and path.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Loop, Running, Served, check, skip};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
/// Schedule of faults that affect nothing within the run: the drive is still no medium.
const FAULTS: &str = "name = 'late'\n[[fault]]\nverb = 'slow'\nadd_s = 0.005\n";
/// Volumes by name, and the origin of their figures.
const VOLUMES: [(&str, &str, &str); 6] = [
    ("drive", "delay:x25-m(ram:32m)", "emulated"),
    ("stripe", "stripe:64k(ram:16m,delay:x25-m(ram:16m))", "emulated"),
    ("mirror", "mirror(ram:32m,fault:FAULTS(ram:32m))", "emulated"),
    ("faulty", "fault:FAULTS(ram:32m)", "emulated"),
    ("memory", "ram:32m", "measured"),
    ("file", "file:FILE", "measured"),
];

fn drive(drumfire: &Drumfire, folder: &Path, volume: &str) -> Value {
    let args = format!(
        "run {volume} --size 4k --outstanding 2 --seconds 0.3 --ramp 0.1 --no-ceiling --json"
    );
    drumfire.run(folder, &args, LIMIT).ok().json()
}

/// Compares a result with the origin of its figures; `words` is the subject.
fn holds(result: &Value, origin: &str, words: &str) {
    assert_eq!(result["origin"], *origin, "{words}: {result}");
    let told = result["warnings"].as_array().unwrap().iter().any(|note| {
        let note = note.as_str().unwrap();
        ["emulates", "injects", "described by its server as"].iter().any(|word| note.contains(word))
    });
    assert_eq!(told, origin == "emulated", "{words}: {}", result["warnings"]);
    if origin == "emulated" {
        assert_ne!(check(result, "H08").0, "pass", "{words}");
    }
}

fn volumes(folder: &Folder) -> Vec<(&'static str, String, &'static str)> {
    let faults = folder.file("faults.toml", FAULTS.as_bytes());
    let file = folder.file("data", &vec![0xa5; 32 << 20]);
    let full = |uri: &str| {
        let uri = uri.replace("FAULTS", &faults.display().to_string());
        uri.replace("FILE", &file.display().to_string())
    };
    VOLUMES.iter().map(|(name, uri, origin)| (*name, full(uri), *origin)).collect()
}

/// The NBD port of a server.
fn nbd_port(served: &mut Served) -> u16 {
    served.running.await_stdout(LIMIT, |stdout| {
        let (_, rest) = stdout.split_once("nbd=127.0.0.1:")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        rest[digits.len()..].starts_with(['\n', ' ']).then(|| digits.parse().ok())?
    })
}

#[test]
fn every_protocol_tells_what_is_behind_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let volumes = volumes(&folder);
    let named: Vec<String> =
        volumes.iter().map(|(name, uri, _)| format!("--volume {name}={uri}")).collect();
    let args = format!("--nbd 127.0.0.1:0 {}", named.join(" "));
    let mut served = drumfire.serve_with(&args);
    let nbd = nbd_port(&mut served);
    let of_nbd = |name: &str| format!("nbd://127.0.0.1:{nbd}/{name}");
    for (name, _, origin) in &volumes {
        for uri in [served.uri(name), served.nvme_uri(name), of_nbd(name)] {
            holds(&drive(&drumfire, folder.path(), &uri), origin, &uri);
        }
    }
    // A server of another server's volume: each hop over another protocol.
    let hop = drumfire.serve(&[&format!("hop={}", served.uri("drive"))]);
    let mut second =
        drumfire.serve_with(&format!("--nbd 127.0.0.1:0 --volume again={}", hop.nvme_uri("hop")));
    let uri = format!("nbd://127.0.0.1:{}/again", nbd_port(&mut second));
    holds(&drive(&drumfire, folder.path(), &uri), "emulated", "three servers");
}

/// H01 detects: a loop device over an attached file of memory, or of an emulated or faulty drive.
/// H03 detects: a loop device over an attached file of memory, or of an emulated or faulty drive.
/// H08 detects: a loop device over an attached file of memory, or of an emulated or faulty drive.
#[test]
fn an_attached_file_tells_it_and_a_loop_device_over_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    if File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("no /dev/fuse for us");
    }
    let folder = Folder::new();
    for (name, uri, origin) in volumes(&folder) {
        let mut attach = drumfire.command(folder.path(), &format!("attach {uri} {name}.img"));
        let mut running = Running::start(&mut attach);
        running.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
        let file = folder.path().join(format!("{name}.img"));
        let volume = format!("file:{}", file.display());
        holds(&drive(&drumfire, folder.path(), &volume), origin, &volume);
        if let Some(device) = Loop::direct(&file) {
            let volume = format!("file:{}", device.path());
            let result = drive(&drumfire, folder.path(), &volume);
            holds(&result, origin, &format!("{volume} on {name}"));
            for code in ["H01", "H03", "H08"] {
                let (verdict, evidence) = check(&result, code);
                assert_ne!(verdict, "pass", "{name}: {code}: {evidence}");
            }
        }
        running.signal(rustix::process::Signal::TERM);
        running.finish(LIMIT).ok();
    }
}

#[test]
fn forms_of_other_programs_keep_it() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let run = |args: &str| drumfire.run(folder.path(), args, LIMIT).ok().stdout;
    run("run delay:x25-m(ram:32m) --size 4k --seconds 0.5 --no-ceiling --out emulated");
    run("simulate x25-m --size 4k --outstanding 32 --seconds 1 --out simulated");
    for origin in ["emulated", "simulated"] {
        for form in
            ["text", "json", "markdown", "junit", "fio", "fio+", "csv", "iometer", "hlog", "html"]
        {
            let text = run(&format!("report {origin} --as {form}"));
            assert!(text.contains(origin), "{form} of {origin}: {text}");
        }
    }
}
