//! vhost-user: our device and our driver, each with the other and with those of third parties.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, Patience, Running, check, qemu_system, require, run};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: usize = 1 << 20;

/// Starts our server; returns the folder of its sockets.
fn serve(drumfire: &Drumfire, folder: &Folder, volumes: &str) -> (Running, PathBuf) {
    let sockets = folder.path().join("sockets");
    std::fs::create_dir_all(&sockets).unwrap();
    let args = format!("serve --vhost-user sockets {volumes}");
    let mut running = Running::start(&mut drumfire.command(folder.path(), &args));
    running.await_stdout(LIMIT, |stdout| stdout.starts_with("ready vhost-user=").then_some(()));
    (running, sockets)
}

/// Fails unless reads were compared with what was written, and none differed.
fn assert_verified(json: &serde_json::Value, told: &str) {
    let (verdict, evidence) = check(json, "H05");
    assert_eq!(verdict, "pass", "{told}: {evidence}");
}

/// A field of `/proc/PID/stat`, counted from 1.
fn stat(running: &Running, field: usize) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", running.id())).unwrap();
    let (_, rest) = text.rsplit_once(')').unwrap();
    rest.split_whitespace().nth(field - 3).unwrap().parse().unwrap()
}

/// Number of open descriptors, and of mappings of memory of drivers.
fn held(running: &Running) -> (usize, usize) {
    let place = format!("/proc/{}", running.id());
    let descriptors = std::fs::read_dir(format!("{place}/fd")).unwrap().count();
    let maps = std::fs::read_to_string(format!("{place}/maps")).unwrap();
    (descriptors, maps.lines().filter(|line| line.contains("memfd:")).count())
}

/// Waits until the server holds nothing of a driver.
fn await_nothing_held(running: &Running, before: (usize, usize)) {
    let mut patience = Patience::new(LIMIT);
    while held(running) != before {
        assert!(patience.wait(), "held {:?}, before {before:?}", held(running));
    }
}

#[test]
fn data_comes_back_and_an_idle_server_sleeps() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![0; 32 * MIB]);
    let volumes = "--volume a=ram:32m --volume b=file:disk.img --volume c=null:32m?block=4k";
    let (running, _) = serve(&drumfire, &folder, volumes);
    let before = held(&running);
    for name in ["a", "b"] {
        for size in ["512", "4k", "1m"] {
            let args = format!(
                "run vhost-user:sockets/{name}.sock --verify --destroy --read 60 --size {size} \
                 --workers 2 --seconds 1 --ramp 0 --json"
            );
            let json = drumfire.run(folder.path(), &args, LIMIT).json();
            assert_verified(&json, &format!("{name} {size}"));
        }
    }
    let args = "run vhost-user:sockets/c.sock --size 512 --seconds 1 --json";
    let refused = drumfire.run(folder.path(), args, LIMIT);
    assert_ne!(refused.code, Some(0), "blocks of 4 KiB: {refused:?}");
    await_nothing_held(&running, before);
    let ticks = || stat(&running, 14) + stat(&running, 15);
    let used = ticks();
    sleep(Duration::from_secs(2));
    assert!(ticks() - used <= 1, "an idle server used {} ticks of 10 ms", ticks() - used);
}

#[test]
fn a_killed_driver_leaves_nothing_behind() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![0; 32 * MIB]);
    let (running, _) = serve(&drumfire, &folder, "--volume a=ram:32m --volume b=file:disk.img");
    let before = held(&running);
    for name in ["a", "b"] {
        let args = format!("run vhost-user:sockets/{name}.sock --read 50 --destroy --seconds 60");
        let driver = Running::start(&mut drumfire.command(folder.path(), &args));
        let mut patience = Patience::new(LIMIT);
        while held(&running).1 == before.1 {
            assert!(patience.wait(), "no driver came");
        }
        sleep(Duration::from_millis(300));
        driver.signal(Signal::KILL);
        drop(driver);
        await_nothing_held(&running, before);
    }
    let args = "run vhost-user:sockets/b.sock --verify --destroy --seconds 1 --ramp 0";
    drumfire.run(folder.path(), args, LIMIT).ok();
}

#[test]
fn a_killed_server_ends_its_drivers_and_its_socket_is_replaced() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let (running, sockets) = serve(&drumfire, &folder, "--volume a=ram:32m");
    let args = "run vhost-user:sockets/a.sock --seconds 60";
    let driver = Running::start(&mut drumfire.command(folder.path(), args));
    let mut patience = Patience::new(LIMIT);
    while held(&running).1 == 0 {
        assert!(patience.wait(), "no driver came");
    }
    sleep(Duration::from_millis(300));
    running.signal(Signal::KILL);
    let ended = driver.finish(LIMIT);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    let said = format!("{}{}", ended.stdout, ended.stderr);
    assert!(said.contains("the device closed the connection"), "{said}");
    drop(running);
    assert!(sockets.join("a.sock").exists(), "a killed server removes nothing");
    let (running, _) = serve(&drumfire, &folder, "--volume a=ram:32m");
    let args = "run vhost-user:sockets/a.sock --seconds 1 --ramp 0";
    drumfire.run(folder.path(), args, LIMIT).ok();
    running.signal(Signal::TERM);
    running.finish(LIMIT).ok();
    assert!(!sockets.join("a.sock").exists(), "an ended server removes its socket");
}

#[test]
fn names_and_flags_that_cannot_be_are_refused() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let (_running, _) = serve(&drumfire, &folder, "--volume a=ram:1m");
    for (args, why) in [
        ("serve --vhost-user sockets --volume a=ram:1m", "another server has it"),
        ("serve --vhost-user nowhere --volume a=ram:1m", "fix: mkdir nowhere"),
        ("serve --vhost-user sockets --volume b/2=ram:1m", "has no LUNs"),
        ("serve --vhost-user sockets", "no volume to serve"),
        ("serve --vhost-user sockets --nbd 127.0.0.1:0 --volume b=ram:1m", "cannot be used with"),
        ("serve --vhost-user sockets --read-only c --volume b=ram:1m", "no volume is called 'c'"),
        ("run vhost-user:sockets/x.sock", "cannot connect to sockets/x.sock"),
        ("run vhost-user:", "write vhost-user:SOCKET"),
    ] {
        let refused = drumfire.run(folder.path(), args, LIMIT);
        assert_ne!(refused.code, Some(0), "{args}: {refused:?}");
        assert!(refused.stderr.contains(why), "{args}: {refused:?}");
    }
}

#[test]
fn a_read_only_volume_is_not_written() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let volumes = "--volume a=ram:1m --read-only a";
    let (_running, _) = serve(&drumfire, &folder, volumes);
    let args = "run vhost-user:sockets/a.sock --seconds 1 --ramp 0";
    drumfire.run(folder.path(), args, LIMIT).ok();
    let args = "run vhost-user:sockets/a.sock --read 0 --destroy --seconds 1 --ramp 0";
    let refused = drumfire.run(folder.path(), args, LIMIT);
    assert_ne!(refused.code, Some(0), "{refused:?}");
}

#[test]
fn a_race_in_memory_ends_whole() {
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let args = "race --protocol vhost-user --targets 2 --volumes 2 --volume-size 1m --size 512 \
                --read 70 --seconds 1 --ramp 0 --json";
    let mut command = drumfire.command(folder.path(), args);
    let json = run(command.env("TMPDIR", folder.path()), LIMIT).ok().json();
    assert_eq!(check(&json, "H21").0, "pass", "{:?}", check(&json, "H21"));
    assert!(json["totals"]["iops"].as_f64().unwrap() > 1000.0, "{}", json["totals"]);
    let left = std::fs::read_dir(folder.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    let is_ours = |name: &&std::ffi::OsString| name.to_string_lossy().starts_with("drumfire-race-");
    assert_eq!(left.iter().find(is_ours), None, "a folder of sockets is left");
    let many = "race --protocol vhost-user --workers 9 --volumes 1 --seconds 1";
    let refused = drumfire.run(folder.path(), many, LIMIT);
    assert!(refused.stderr.contains("a device has 8 queues"), "{refused:?}");
}

#[test]
fn our_driver_uses_the_device_of_qemu() {
    let Some(daemon) = require("qemu-storage-daemon") else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    folder.file("disk.img", &vec![0; 32 * MIB]);
    let mut command = Command::new(&daemon);
    command.current_dir(folder.path()).args([
        "--blockdev",
        "driver=file,node-name=disk,filename=disk.img,discard=unmap",
        "--export",
        "type=vhost-user-blk,id=disk,node-name=disk,writable=on,num-queues=2,addr.type=unix,\
         addr.path=disk.sock",
    ]);
    let mut running = Running::start(&mut command);
    let mut patience = Patience::new(LIMIT);
    while !folder.path().join("disk.sock").exists() {
        assert!(running.alive() && patience.wait(), "{}", running.stderr());
    }
    for size in ["512", "4k", "1m"] {
        let args = format!(
            "run vhost-user:disk.sock --verify --destroy --read 60 --size {size} --workers 2 \
             --seconds 1 --ramp 0 --json"
        );
        let json = drumfire.run(folder.path(), &args, LIMIT).json();
        assert_verified(&json, size);
    }
}

/// A boot sector: reads sector 1, writes it to sector 2, and says OK on the serial port.
fn boot_sector() -> Vec<u8> {
    let code: &[u8] = &[
        0x31, 0xc0, // xor ax, ax
        0x8e, 0xd8, // mov ds, ax
        0xbe, 0x40, 0x7c, // mov si, 0x7c40
        0xb4, 0x42, // mov ah, 0x42: read
        0xcd, 0x13, // int 0x13
        0x72, 0x1d, 0x90, // jc end
        0xbe, 0x50, 0x7c, // mov si, 0x7c50
        0xb8, 0x00, 0x43, // mov ax, 0x4300: write
        0xcd, 0x13, // int 0x13
        0x72, 0x12, 0x90, // jc end
        0xba, 0xf8, 0x03, // mov dx, 0x3f8
        0xb0, 0x4f, 0xee, // 'O'
        0xb0, 0x4b, 0xee, // 'K'
        0xb0, 0x0a, 0xee, // line feed
        0x90, 0x90, 0x90, 0x90, // nop
        0xba, 0x01, 0x05, // end: mov dx, 0x501
        0xb0, 0x00, 0xee, // exit
        0xf4, 0xeb, 0xfd, // halt
    ];
    let packet = |sector: u8| [16, 0, 1, 0, 0, 0x80, 0, 0, sector, 0, 0, 0, 0, 0, 0, 0];
    let mut disk = vec![0; MIB];
    disk[..code.len()].copy_from_slice(code);
    disk[0x40..0x50].copy_from_slice(&packet(1));
    disk[0x50..0x60].copy_from_slice(&packet(2));
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    (512..1024).for_each(|at| disk[at] = ((at * 7) >> 3) as u8);
    disk
}

/// A virtual machine that starts from a socket.
fn machine(qemu: &Path, socket: &Path, memory: &str) -> Command {
    let mut command = Command::new(qemu);
    command.args(["-M", "q35,memory-backend=memory", "-accel", "tcg", "-m", "64", "-nodefaults"]);
    command.args(["-display", "none", "-serial", "stdio", "-device", "isa-debug-exit"]);
    command.args(["-object", memory, "-chardev"]);
    command.arg(format!("socket,id=disk,path={}", socket.display()));
    command.args(["-device", "vhost-user-blk-pci,chardev=disk,bootindex=0,num-queues=2"]);
    command
}

#[test]
fn a_virtual_machine_boots_from_our_device() {
    let Some(qemu) = qemu_system() else { return };
    let Some(drumfire) = Drumfire::find() else { return };
    let folder = Folder::new();
    let disk = boot_sector();
    let path = folder.file("disk.img", &disk);
    let (mut running, sockets) = serve(&drumfire, &folder, "--volume disk=file:disk.img");
    let before = held(&running);
    let socket = sockets.join("disk.sock");
    let sealed = "memory-backend-memfd,id=memory,size=64M,share=on";
    let booted = run(&mut machine(&qemu, &socket, sealed), LIMIT);
    assert!(booted.stdout.contains("OK"), "{booted:?}, {}", running.stderr());
    let after = std::fs::read(&path).unwrap();
    assert!(after[1024..1536] == disk[512..1024], "sector 1 was not copied to sector 2");
    await_nothing_held(&running, before);
    // Memory that qemu could truncate is refused, and the server lives.
    let unsealed = "memory-backend-memfd,id=memory,size=64M,share=on,seal=off";
    let refused = Running::start(&mut machine(&qemu, &socket, unsealed));
    running.await_stderr(LIMIT, |said| said.contains("lacks F_SEAL_SHRINK").then_some(()));
    drop(refused);
    await_nothing_held(&running, before);
}
