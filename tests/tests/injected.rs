//! Faults that a schedule puts into a served volume, as clients that are not ours see them.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Nbd, Running, qemu_img, qemu_io, require, run, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);

/// Writes a schedule atomically, so that no reader sees half of it.
fn schedule(folder: &Path, fault: &str) {
    let new = folder.join("new.toml");
    std::fs::write(&new, format!("name = 'test'\nseed = 3\n[[fault]]\n{fault}\n")).unwrap();
    std::fs::rename(new, folder.join("faults.toml")).unwrap();
}

#[test]
fn a_stranger_sees_errors_and_damage_and_a_new_schedule_ends_them() {
    let (Some(qemu_img), Some(drumfire)) = (qemu_img(), Drumfire::find()) else { return };
    let folder = Folder::new();
    schedule(folder.path(), "verb = 'error'\nop = 'read'\nrange = ['1m', '2m']");
    let source = folder.file("source.raw", &vec![0x5a; 4 << 20]);
    let faults = folder.path().join("faults.toml");
    let served = drumfire.serve(&[&format!("disk=fault:{}(ram:4m)", faults.display())]);
    let (uri, source) = (served.uri("disk"), source.display().to_string());
    let back = folder.path().join("back.raw");
    let image = |args: String| run(Command::new(&qemu_img).args(args.split_whitespace()), LIMIT);
    image(format!("convert -n -f raw -O raw {source} {uri}")).ok();
    let failed = image(format!("convert -f raw -O raw {uri} {}", back.display()));
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stderr.contains("error while reading"), "{failed:?}");

    // Looked at ten times a second.
    let until = |fault: &str, code: i32| {
        schedule(folder.path(), fault);
        for _ in 0..100 {
            let finished = image(format!("compare -f raw -F raw {source} {uri}"));
            if finished.code == Some(code) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        panic!("{fault}: qemu-img never ended with {code}");
    };
    until("verb = 'error'\nchance = 0", 0);
    until("verb = 'flip'\nop = 'read'", 1);
    // An invalid schedule changes nothing.
    schedule(folder.path(), "verb = 'explode'");
    std::thread::sleep(Duration::from_millis(300));
    let finished = image(format!("compare -f raw -F raw {source} {uri}"));
    assert_eq!(finished.code, Some(1), "{finished:?}");
    served.running.signal(rustix::process::Signal::TERM);
    let ended = served.running.finish(LIMIT);
    assert!(ended.stderr.contains("affected by the faults of 'test': flip (fault 1)"), "{ended:?}");
}

#[test]
fn lost_writes_are_found_by_verify_and_the_result_says_what_was_injected() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    schedule(folder.path(), "verb = 'drop'\nop = 'write'\nchance = 0.05");
    // In a part of a stripe, too.
    let args = "run stripe:64k(ram:4m,fault:faults.toml(ram:4m)) --size 4k --read 50 \
                --outstanding 4 --verify --seconds 3 --ramp 0 --json";
    let finished = drumfire.run(folder.path(), args, LIMIT);
    assert_eq!(finished.code, Some(5), "{finished:?}");
    let result = finished.json();
    assert_eq!(result["origin"], "emulated");
    let warnings = result["warnings"].to_string();
    for part in ["injects faults of schedule 'test'", "affected by the faults of 'test': drop"] {
        assert!(warnings.contains(part), "{warnings}");
    }
}

#[test]
fn a_flush_of_a_file_that_failed_once_fails_until_the_file_is_opened_anew() {
    let (Some(qemu_io), Some(drumfire)) = (qemu_io(), Drumfire::find()) else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("no /dev/fuse for us");
    }
    let folder = Folder::new();
    schedule(folder.path(), "verb = 'error'\nop = 'flush'\ncount = 1");
    let mut below = drumfire.command(folder.path(), "attach fault:faults.toml(ram:4m) below");
    let mut below = Running::start(&mut below);
    below.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
    let file = folder.path().join("below");
    for fails in [true, false] {
        let served = drumfire
            .serve_with(&format!("--nbd 127.0.0.1:0 --volume disk=file:{}", file.display()));
        for _ in 0..3 {
            let mut command = Command::new(&qemu_io);
            command.args(["-f", "raw", "-c", "write 0 4096", "-c", "flush", &served.uri("disk")]);
            let finished = run(&mut command, LIMIT);
            let said = format!("{}{}", finished.stdout, finished.stderr);
            assert_eq!(said.contains("failed"), fails, "{said}");
        }
    }
    below.signal(rustix::process::Signal::TERM);
    below.finish(LIMIT);
}

#[test]
fn a_lying_cache_loses_what_a_stranger_has_flushed_and_an_honest_one_does_not() {
    let (Some(qemu_io), Some(drumfire)) = (qemu_io(), Drumfire::find()) else { return };
    let folder = Folder::new();
    let write = |cache: &str, fault: &str| {
        let text = format!("name = 'test'\nseed = 3\n[cache]\n{cache}\n[[fault]]\n{fault}\n");
        std::fs::write(folder.path().join("new.toml"), text).unwrap();
        std::fs::rename(folder.path().join("new.toml"), folder.path().join("faults.toml")).unwrap();
    };
    let faults = folder.path().join("faults.toml");
    let quiet = "verb = 'error'\nchance = 0";
    for lies in [false, true] {
        let cache = format!("lies = {lies}");
        write(&cache, quiet);
        let served = drumfire.serve(&[&format!("disk=fault:{}(ram:4m)", faults.display())]);
        let io = |commands: &[&str]| {
            let mut command = Command::new(&qemu_io);
            command.args(["-f", "raw", "-t", "none"]);
            for one in commands {
                command.args(["-c", one]);
            }
            let finished = run(command.arg(served.uri("disk")), LIMIT);
            format!("{:?} {}{}", finished.code, finished.stdout, finished.stderr)
        };
        let said = io(&["write -P 7 0 256k", "flush"]);
        assert!(said.contains("wrote 262144") && !said.contains("failed"), "{said}");
        // Cuts the power.
        write(&cache, "verb = 'power-cut'\nsurvives = 0.5");
        let until = |wanted: &str, commands: &[&str]| {
            for _ in 0..100 {
                let said = io(commands);
                if said.contains(wanted) {
                    return said;
                }
                std::thread::sleep(Duration::from_millis(100));
            }
            panic!("never '{wanted}'");
        };
        until("failed", &["read 0 4k"]);
        write(&cache, quiet);
        let said = until("read 262144", &["read -P 7 0 256k"]);
        assert_eq!(said.contains("Pattern verification failed"), lies, "{said}");
        served.running.signal(rustix::process::Signal::TERM);
        let ended = served.running.finish(LIMIT);
        assert!(ended.stderr.contains("affected by the faults of 'test'"), "{ended:?}");
    }
}

/// Address at which a target serves NBD.
fn nbd_address(running: &mut Running) -> String {
    running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        line.split(' ').find_map(|word| word.strip_prefix("nbd=")).map(str::to_owned)
    })
}

#[test]
fn a_connection_is_closed_or_reset_in_place_of_an_answer() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let faults = folder.path().join("faults.toml");
    schedule(
        folder.path(),
        "verb = 'disconnect'\nop = 'read'\ncount = 1\n[[fault]]\nverb = 'reset'\nop = 'read'\n\
         count = 1",
    );
    let args = format!("--nbd 127.0.0.1:0 --volume disk=fault:{}(ram:4m)", faults.display());
    let mut served = drumfire.serve_with(&args);
    let address = nbd_address(&mut served.running);
    use std::io::ErrorKind::{ConnectionReset, UnexpectedEof};
    for ends in [Some(UnexpectedEof), Some(ConnectionReset), None] {
        let mut disk = Nbd::connect(&address, "disk").unwrap();
        // Another connection to the same volume continues.
        let mut other = Nbd::connect(&address, "disk").unwrap();
        assert_eq!(disk.read(0, 4096).map_err(|error| error.kind()).err(), ends);
        assert!(other.flush().unwrap());
    }
    served.running.signal(rustix::process::Signal::TERM);
    let ended = served.running.finish(LIMIT);
    let struck = "affected by the faults of 'test': disconnect (fault 1) 1, reset (fault 2) 1";
    assert!(ended.stderr.contains(struck), "{ended:?}");
    assert!(ended.stderr.contains("closed by an injected fault of a volume"), "{ended:?}");
}

#[test]
fn strangers_see_lost_connections_and_those_that_connect_again_lose_nothing() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let faults = folder.path().join("faults.toml");
    let source = folder.file("source.raw", &vec![0x5a; 4 << 20]);
    let (qemu_io, qemu_img) = (require("qemu-io"), qemu_img());
    if qemu_io.is_none() && qemu_img.is_none() {
        return;
    }
    for verb in ["disconnect", "reset"] {
        schedule(folder.path(), &format!("verb = '{verb}'\nchance = 0.1\ncount = 3"));
        let args = format!("--nbd 127.0.0.1:0 --volume disk=fault:{}(ram:4m)", faults.display());
        let mut served = drumfire.serve_with(&args);
        let address = nbd_address(&mut served.running);
        if let Some(qemu_io) = &qemu_io {
            // qemu-io does not reconnect: the I/O fails.
            let failed = (0..40).any(|_| {
                let mut command = Command::new(qemu_io);
                let disk = format!("nbd://{address}/disk");
                let finished = run(command.args(["-f", "raw", "-c", "read 0 4k", &disk]), LIMIT);
                let said = format!("{}{}", finished.stdout, finished.stderr);
                finished.code != Some(0) || said.contains("failed")
            });
            assert!(failed, "{verb}: never seen over NBD");
        }
        if let Some(qemu_img) = &qemu_img {
            let uri = served.uri("disk");
            let copy = format!("convert -n -f raw -O raw {} {uri}", source.display());
            run(Command::new(qemu_img).args(copy.split(' ')), LIMIT).ok();
            let compare = format!("compare -f raw -F raw {} {uri}", source.display());
            run(Command::new(qemu_img).args(compare.split(' ')), LIMIT).ok();
        }
        served.running.signal(rustix::process::Signal::TERM);
        let ended = served.running.finish(LIMIT);
        assert!(ended.stderr.contains(&format!("{verb} (fault 1)")), "{ended:?}");
    }
}

#[test]
fn an_emulated_drive_changes_while_it_is_served() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let write = |each_s: f64, rest: &str| {
        let text = format!(
            "name = 'test at {each_s}'\n[[stage]]\nname = 'a'\nservers = 1\nshape = 'fixed'\n\
             read = {{ each_s = {each_s} }}\nwrite = {{ each_s = {each_s} }}\n{rest}"
        );
        std::fs::write(folder.path().join("new.toml"), text).unwrap();
        std::fs::rename(folder.path().join("new.toml"), folder.path().join("drive.toml")).unwrap();
    };
    write(1e-6, "");
    let drive = folder.path().join("drive.toml");
    let args = format!("--nbd 127.0.0.1:0 --volume disk=delay:{}(ram:4m)", drive.display());
    let mut served = drumfire.serve_with(&args);
    let address = nbd_address(&mut served.running);
    let mut disk = Nbd::connect(&address, "disk").unwrap();
    let mut took = || {
        let begun = std::time::Instant::now();
        disk.read(0, 4096).unwrap();
        begun.elapsed()
    };
    took();
    write(0.2, "");
    // However slow the machine is: never sooner than the drive, once the change was seen.
    let slow = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        took() >= Duration::from_millis(200)
    });
    assert!(slow, "the change was never seen");
    write(0.2, "servers = 0");
    std::thread::sleep(Duration::from_millis(300));
    took();
    served.running.signal(rustix::process::Signal::TERM);
    let ended = served.running.finish(LIMIT);
    for words in ["changed once during the run, last to test at 0.2", "was invalid"] {
        assert!(ended.stderr.contains(words), "{ended:?}");
    }
}

#[test]
fn data_of_writes_are_not_asked_for_and_the_write_goes_on_when_they_are() {
    let (Some(qemu_img), Some(drumfire)) = (qemu_img(), Drumfire::find()) else { return };
    let folder = Folder::new();
    let faults = folder.path().join("faults.toml");
    let source = folder.file("source.raw", &vec![0x5a; 4 << 20]);
    let quiet = "verb = 'error'\nchance = 0";
    schedule(folder.path(), quiet);
    let served = drumfire.serve(&[&format!("disk=fault:{}(ram:4m)", faults.display())]);
    let (uri, nvme_uri) = (served.uri("disk"), served.nvme_uri("disk"));
    let image = |args: String| run(Command::new(&qemu_img).args(args.split(' ')), LIMIT);
    image(format!("convert -n -f raw -O raw {} {uri}", source.display())).ok();
    schedule(folder.path(), "verb = 'withhold'");
    std::thread::sleep(Duration::from_millis(300));
    // Reads go their way.
    image(format!("compare -f raw -F raw {} {uri}", source.display())).ok();
    let copy = format!("convert -n -f raw -O raw {} {uri}", source.display());
    let mut stranger = Running::start(Command::new(&qemu_img).args(copy.split(' ')));
    let args =
        format!("run {nvme_uri} --size 64k --read 0 --outstanding 4 --verify --seconds 1 --ramp 0");
    let mut own = Running::start(&mut drumfire.command(folder.path(), &args));
    std::thread::sleep(Duration::from_secs(3));
    assert!(stranger.alive() && own.alive(), "they were asked for data");
    schedule(folder.path(), quiet);
    stranger.finish(LIMIT).ok();
    own.finish(LIMIT).ok();
}

#[test]
fn a_change_is_told_at_once_be_it_taken_or_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let path = |name: &str| folder.path().join(name);
    let fails = "name = 'fails'\n[[fault]]\nverb = 'error'\n";
    let slow = "name = 'x'\n[[fault]]\nverb = 'slow'\n";
    fs::write(path("faults.toml"), fails).unwrap();
    let profile = drumfire.run(folder.path(), "catalogue profile x25-m --out drive.toml", LIMIT);
    profile.ok();
    let drive = fs::read_to_string(path("drive.toml")).unwrap();
    let volumes = "fault:faults.toml(delay:drive.toml,anyway(ram:4m))";
    let serve = format!("serve --nbd 127.0.0.1:0 --volume d={volumes}");
    let run = format!("run {volumes} --rate 10 --seconds 600 --ramp 0 --out out");
    for args in [serve, run] {
        let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
        match args.starts_with("serve") {
            true => running.await_stdout(LIMIT, |text| text.starts_with("ready").then_some(())),
            false => running.await_stderr(LIMIT, |text| text.contains("  1s ").then_some(())),
        }
        for (file, text, said) in [
            (
                "faults.toml",
                "nonsense = 1",
                "is invalid, 'fails' stays in use: line 1: unknown field",
            ),
            ("faults.toml", slow, "is invalid, 'fails' stays in use: fault 1: "),
            ("faults.toml", "", "the schedule changed to 'no faults', 0 faults"),
            ("faults.toml", fails, "the schedule changed to 'fails', 1 fault"),
            (
                "drive.toml",
                "name = 1",
                "the changed profile is invalid, the old one stays in use: ",
            ),
            ("drive.toml", &drive, "the profile changed to "),
        ] {
            let before = running.stderr().len();
            fs::write(path("new"), text).unwrap();
            fs::rename(path("new"), path(file)).unwrap();
            running.await_stderr(Duration::from_secs(10), |text| {
                let lines = text[before..].lines();
                lines.filter(|line| line.contains(said)).count().eq(&1).then_some(())
            });
        }
        running.signal(Signal::INT);
        running.finish(LIMIT);
    }
}
