//! NBD: third-party clients and servers with our server and initiator.

use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Patience, Running, free_port, require, run, skip};

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// Starts our server; returns its NBD address.
fn serve(drumfire: &Drumfire, folder: &Folder, volumes: &str) -> (Running, String) {
    let args = format!("serve --nbd 127.0.0.1:0 {volumes}");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    let address = running.await_stdout(LIMIT, |stdout| {
        let (line, _) = stdout.split_once('\n')?;
        line.strip_prefix("ready nbd=").map(str::to_owned)
    });
    (running, address)
}

fn pattern() -> Vec<u8> {
    (0..16 * MIB).map(|i| (i * 31 + i / 4093) as u8).collect()
}

#[test]
fn nbdinfo_and_nbdcopy_find_what_is_served() {
    let (Some(nbdinfo), Some(nbdcopy)) = (require("nbdinfo"), require("nbdcopy")) else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let source = folder.file("source", &pattern());
    folder.file("disk.img", &vec![0; 16 * MIB]);
    let volumes = "--volume a=ram:16m --volume b=file:disk.img --volume b/2=null:1g";
    let (_running, address) = serve(&drumfire, &folder, volumes);
    let list = run(Command::new(&nbdinfo).args(["--list", &format!("nbd://{address}")]), LIMIT);
    let list = list.ok().stdout;
    let told = ["\"a\"", "\"b\"", "\"b/2\"", "structured", "can_multi_conn: true"];
    for part in told.into_iter().chain(["Drumfire RAM", "Drumfire FILE"]) {
        assert!(list.contains(part), "{part}: {list}");
    }
    let none = run(Command::new(&nbdinfo).arg(format!("nbd://{address}/tape")), LIMIT);
    assert!(none.code != Some(0), "{none:?}");
    let back = folder.path().join("back");
    for name in ["a", "b", "iqn.2026-11.io.drumfire:b"] {
        let uri = format!("nbd://{address}/{name}");
        run(Command::new(&nbdcopy).arg(&source).arg(&uri), LIMIT).ok();
        run(Command::new(&nbdcopy).arg(&uri).arg(&back), LIMIT).ok();
        assert!(std::fs::read(&back).unwrap() == pattern(), "{name} came back different");
    }
}

#[test]
fn qemu_reads_writes_and_clears() {
    let Some(qemu_io) = require("qemu-io") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![0; 16 * MIB]);
    let volumes = "--volume a=ram:16m --volume b=file:disk.img";
    let (_running, address) = serve(&drumfire, &folder, volumes);
    for name in ["a", "b"] {
        let mut command = Command::new(&qemu_io);
        for step in [
            "write -P 5 0 1M",
            "read -P 5 0 1M",
            "write -z 4k 64k",
            "read -P 0 4k 64k",
            "read -P 5 68k 100k",
            "discard 1M 1M",
            "write -f -P 7 512 512",
            "flush",
            "read -P 7 512 512",
            "read 0 16M",
        ] {
            command.args(["-c", step]);
        }
        let finished = run(command.args(["-f", "raw", &format!("nbd://{address}/{name}")]), LIMIT);
        let finished = finished.ok();
        assert!(!finished.stdout.contains("verification failed"), "{finished:?}");
    }
}

#[test]
fn our_initiator_uses_the_servers_of_others() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![0; 16 * MIB]);
    let drive = |name: &str, uri: &str| {
        let args = format!(
            "run {uri} --size 4k --read 50 --outstanding 32 --verify --seconds 1 --ramp 0 \
             --destroy --json --out {name}"
        );
        let finished = drumfire.run(folder.path(), &args, LIMIT).ok();
        let totals = &finished.json()["totals"];
        assert!(totals["ios"].as_u64() > Some(100) && totals["errors"] == 0, "{name}: {totals}");
    };
    let (_running, address) = serve(&drumfire, &folder, "--volume a=ram:16m");
    drive("ours", &format!("nbd://{address}/a"));
    // Other servers do not report a port that the system chose.
    let ports = [free_port(), free_port()];
    let servers = [
        ("nbdkit", format!("-f -i 127.0.0.1 -p {} memory 16M", ports[0]), ""),
        ("qemu-nbd", format!("-t -b 127.0.0.1 -p {} -x disk -f raw disk.img", ports[1]), "disk"),
    ];
    for (port, (program, args, export)) in ports.iter().zip(&servers) {
        let Some(program_path) = require(program) else { continue };
        let mut command = Command::new(program_path);
        let command = command.args(args.split_whitespace()).current_dir(folder.path());
        let mut running = Running::start(command);
        let address = format!("127.0.0.1:{port}");
        running.await_that(LIMIT, |_| std::net::TcpStream::connect(&address).ok());
        drive(program, &format!("nbd://{address}/{export}"));
    }
}

/// A server without MULTI_CONN accepts one client at a time, and a flush covers only that client.
#[test]
fn a_server_for_one_connection_gets_one() {
    let Some(drumfire) = Drumfire::find() else { return };
    let Some(qemu_nbd) = require("qemu-nbd") else { return };
    if std::fs::File::options().read(true).write(true).open("/dev/fuse").is_err() {
        return skip("no /dev/fuse for us");
    }
    let folder = Folder::new();
    let under = folder.file("disk.img", &vec![0; 4 * MIB]);
    let port = free_port();
    let args = format!("-t -b 127.0.0.1 -p {port} -x disk -f raw disk.img");
    let mut command = Command::new(qemu_nbd);
    let mut server =
        Running::start(command.args(args.split_whitespace()).current_dir(folder.path()));
    let address = format!("127.0.0.1:{port}");
    server.await_that(LIMIT, |_| std::net::TcpStream::connect(&address).ok());
    let attach = format!("attach nbd://{address}/disk drive");
    let mut attached = Running::start(&mut drumfire.command(folder.path(), &attach));
    attached.await_stdout(LIMIT, |stdout| stdout.contains("ready ").then_some(()));
    let bytes: Vec<u8> = (0..4 * MIB).map(|at| (at * 7 + at / 251) as u8).collect();
    let file = std::fs::OpenOptions::new().write(true).open(folder.path().join("drive")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &bytes, 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    attached.signal(rustix::process::Signal::TERM);
    let finished = attached.finish(LIMIT);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert_eq!(finished.stderr.contains("MULTI_CONN"), cpus > 1, "{finished:?}");
    assert!(std::fs::read(under).unwrap() == bytes, "the data differ");
}

#[test]
fn exports_are_discovered_at_our_server_and_those_of_others() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let (_running, address) = serve(&drumfire, &folder, "--volume a=ram:1m --volume b/2=ram:1m");
    let found = drumfire.run(folder.path(), &format!("discover nbd://{address}"), LIMIT).ok();
    assert_eq!(found.stdout, format!("nbd://{address}/a\nnbd://{address}/b/2\n"));
    let Some(nbdkit) = require("nbdkit") else { return };
    let port = free_port();
    let mut command = Command::new(nbdkit);
    command.args(["-f", "-p", &port.to_string(), "-i", "127.0.0.1", "-e", "x", "memory", "1M"]);
    let _other = Running::start(&mut command);
    let mut patience = Patience::new(LIMIT);
    let found = loop {
        let args = format!("discover nbd://127.0.0.1:{port}");
        let found = drumfire.run(folder.path(), &args, LIMIT);
        if found.code == Some(0) || !patience.wait() {
            break found.ok().stdout;
        }
    };
    assert!(found.starts_with(&format!("nbd://127.0.0.1:{port}/")), "{found}");
}
