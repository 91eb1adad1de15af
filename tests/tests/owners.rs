//! One image, one owner: a writer of a file or device has it exclusively, and readers share it,
//! with this program and QEMU, however they open it.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Loop, Patience, Running, require, run};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
const IMAGE_BYTES: u64 = 8 << 20;

struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    fn new() -> Option<Rig> {
        let rig = Rig { drumfire: Drumfire::find()?, folder: Folder::new() };
        for name in ["img", "a", "b"] {
            rig.image(name);
        }
        Some(rig)
    }

    fn image(&self, name: &str) {
        let file = File::create(self.folder.path().join(name)).unwrap();
        file.set_len(IMAGE_BYTES).unwrap();
    }

    fn run(&self, args: &str) -> Finished {
        self.drumfire.run(self.folder.path(), args, LIMIT)
    }

    /// Serves volumes until it is dropped.
    fn serve(&self, volumes: &str) -> Running {
        let args = format!("serve --nbd 127.0.0.1:0 {volumes}");
        let mut running = Running::start(&mut self.drumfire.command(self.folder.path(), &args));
        running.await_stdout(LIMIT, |stdout| stdout.starts_with("ready ").then_some(()));
        running
    }

    fn mirror(&self) -> &'static str {
        self.run("volume create mirror disk --leg file:a --leg file:b").ok();
        "array:disk?leg=file:a&leg=file:b"
    }
}

/// Waits until something is so.
fn await_that(mut is_so: impl FnMut() -> bool) {
    let mut patience = Patience::new(LIMIT);
    while !is_so() {
        assert!(patience.wait(), "it never came");
    }
}

/// Description of a process that has an image open.
fn owner(process: &Running, does: &str) -> String {
    let name = fs::read_to_string(format!("/proc/{}/comm", process.id())).unwrap();
    format!("process {} ({}) {does}", process.id(), name.trim_end())
}

/// Commands that would write an image.
fn writers(image: &str) -> Vec<String> {
    vec![
        format!("serve --nbd 127.0.0.1:0 --volume again=file:{image}"),
        format!("serve --nbd 127.0.0.1:0 --volume again=delay:x25-m(file:./{image}?direct=0)"),
        format!("run file:{image} --read 0 --destroy --seconds 1 --ramp 0 --out w"),
        format!("run mirror(file:{image},ram:8m) --read 0 --destroy --seconds 1 --ramp 0 --out w"),
        format!("fio --name=w --filename={image} --rw=randwrite --size=1m"),
        // The image is too short, and fio would lay it out again.
        format!("fio --name=w --filename={image} --rw=read --size=16m"),
        format!("fio --name=w --filename={image} --ioengine=ftruncate --rw=write --size=1m"),
        format!("fio --name=w --filename={image} --ioengine=falloc --rw=write --size=16m"),
        format!("fio --name=w --filename={image} --ioengine=filedelete --size=1m"),
        format!("volume create mirror other --leg file:{image} --leg file:new?size=8m --destroy"),
        format!("backup kept --to file:{image} --destroy"),
        // A symbolic link is not replaced in any case.
        format!("backup kept --to {} --replace", image.replace("soft", "img")),
    ]
}

/// Commands that would read the image.
fn readers(image: &str) -> Vec<String> {
    vec![
        format!("run file:{image} --seconds 1 --ramp 0 --out r"),
        format!("fio --name=r --filename={image} --rw=randread --size=1m"),
        format!("backup file:{image} --to copy --replace"),
    ]
}

/// Checks that a command is refused as a wrong argument, with one line that names the owner.
fn refused(ended: &Finished, args: &str, owner: &str) {
    assert_eq!(ended.code, Some(2), "{args}: {ended:?}");
    let said = |line: &&str| line.contains("is in use: ") && line.contains(owner);
    assert_eq!(ended.stderr.lines().filter(said).count(), 1, "{args}: {ended:?}");
}

#[test]
fn a_served_image_is_nobody_elses() {
    let Some(rig) = Rig::new() else { return };
    rig.folder.file("kept", &[7; 4096]);
    let served = rig.serve("--volume d=file:img");
    let owner = owner(&served, "writes it");
    fs::hard_link(rig.folder.path().join("img"), rig.folder.path().join("hard")).unwrap();
    std::os::unix::fs::symlink("img", rig.folder.path().join("soft")).unwrap();
    for image in ["img", "hard", "soft"] {
        for args in writers(image).iter().chain(&readers(image)) {
            refused(&rig.run(args), args, &owner);
        }
    }
    // Documents and logs are not written to an image either.
    for args in [
        "fio --name=w --ioengine=null --size=1m --output=img",
        "run null:1m --seconds 0.2 --ramp 0 --json-lines img",
    ] {
        let ended = rig.run(args);
        assert_eq!(ended.code, Some(1), "{args}: {ended:?}");
        assert!(ended.stderr.contains(&format!("an image in use: {owner}")), "{args}: {ended:?}");
    }
    let image = fs::read(rig.folder.path().join("img")).unwrap();
    assert_eq!(image.len() as u64, IMAGE_BYTES);
    assert!(image.iter().all(|byte| *byte == 0), "something was written");
    // An inspection changes nothing and reads nothing.
    rig.run("doctor file:img").ok();
    served.signal(Signal::KILL);
    served.finish(LIMIT);
    rig.run("run file:img --read 0 --destroy --seconds 1 --ramp 0 --out w").ok();
}

#[test]
fn readers_share_an_image_and_keep_writers_out() {
    let Some(rig) = Rig::new() else { return };
    rig.folder.file("kept", &[7; 4096]);
    let args = "run file:img --seconds 100 --ramp 0 --rate 10 --out long";
    let mut reader = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    let path = rig.folder.path().join("long/result.json");
    await_that(|| path.exists());
    for args in writers("img") {
        let owner = owner(&reader, "reads it");
        refused(&rig.run(&args), &args, &owner);
    }
    for args in readers("img") {
        rig.run(&args).ok();
    }
    assert!(reader.alive());
    reader.signal(Signal::INT);
    reader.finish(LIMIT);
}

#[test]
fn the_legs_of_an_array_are_its_own() {
    let Some(rig) = Rig::new() else { return };
    rig.folder.file("kept", &[7; 4096]);
    let array = rig.mirror();
    let served = rig.serve(&format!("--volume d={array}"));
    let owner = owner(&served, "writes it");
    for leg in ["a", "b"] {
        for args in writers(leg).iter().chain(&readers(leg)) {
            refused(&rig.run(args), args, &owner);
        }
    }
    for args in [
        format!("serve --nbd 127.0.0.1:0 --volume d={array}"),
        format!("volume show {array}"),
        format!("volume add {array} file:img"),
        format!("volume grow {array}"),
        "volume create mirror x --leg file:a --leg file:img --destroy".to_owned(),
        format!("run {array} --seconds 1"),
        // Without the leg in use the array could be opened, but must not be.
        "run array:disk?leg=file:a&leg=file:none&degraded=1 --seconds 1".to_owned(),
    ] {
        refused(&rig.run(&args), &args, &owner);
    }
    served.signal(Signal::TERM);
    served.finish(LIMIT);
    rig.run(&format!("volume show {array}")).ok();
}

#[test]
fn a_leg_that_somebody_has_is_not_taken_for_lost() {
    let Some(rig) = Rig::new() else { return };
    let array = rig.mirror();
    let served = rig.serve("--volume d=file:b");
    for args in [
        format!("serve --nbd 127.0.0.1:0 --volume d={array}&degraded=1"),
        format!("volume remove {array}&degraded=1 2"),
    ] {
        let owner = owner(&served, "writes it");
        refused(&rig.run(&args), &args, &owner);
    }
}

#[test]
fn within_one_process_an_image_has_one_owner_too() {
    let Some(rig) = Rig::new() else { return };
    let array = rig.mirror();
    for args in [
        format!("run {array} file:a --read 0 --destroy --seconds 1"),
        "run mirror(file:img,ram:8m) file:img --read 0 --destroy --seconds 1".to_owned(),
    ] {
        refused(&rig.run(&args), &args, "this process, under another path, writes it");
    }
    // The volumes of a run are one owner, however its steps open them.
    for args in [
        "run file:img file:img?direct=0 ./img --workers 3 --read 50 --destroy --seconds 1 --ramp 0",
        "fio --filename=img --size=4m --name=a --rw=randwrite --direct=1 --name=b --rw=randread \
         --direct=0 --numjobs=3",
    ] {
        rig.run(args).ok();
    }
}

#[test]
fn who_knows_better_takes_no_lock() {
    let Some(rig) = Rig::new() else { return };
    let served = rig.serve("--volume d=file:img");
    rig.run("run file:img?lock=off --read 0 --destroy --seconds 1 --ramp 0 --out w").ok();
    let job = fs::read_to_string(rig.folder.path().join("w/job.toml")).unwrap();
    assert!(job.contains("file:img?lock=off"), "{job}");
    drop(served);
    let _served = rig.serve("--volume d=file:img?lock=off");
    rig.run("run file:img --read 0 --destroy --seconds 1 --ramp 0 --out x").ok();
}

#[test]
fn two_that_begin_at_once_are_one_owner_and_one_refusal() {
    let Some(rig) = Rig::new() else { return };
    for _ in 0..20 {
        let args = "serve --nbd 127.0.0.1:0 --volume d=file:img";
        let command = || rig.drumfire.command(rig.folder.path(), args);
        let mut both = [Running::start(&mut command()), Running::start(&mut command())];
        let (mut ready, mut ended) = (0, 0);
        await_that(|| {
            ready = both.iter().filter(|one| one.stdout().starts_with("ready ")).count();
            ended = both.iter_mut().filter_map(|one| (!one.alive()).then_some(())).count();
            ready + ended == 2
        });
        assert_eq!((ready, ended), (1, 1));
    }
}

#[test]
fn qemu_and_this_program_refuse_each_other() {
    let (Some(nbd), Some(img)) = (require("qemu-nbd"), require("qemu-img")) else { return };
    let Some(rig) = Rig::new() else { return };
    let socket = rig.folder.path().join("socket");
    let qemu_nbd = |read_only: bool| {
        let mut command = Command::new(&nbd);
        let _ = fs::remove_file(&socket);
        command.args(["-f", "raw", "-t", "-k"]).arg(&socket).args(read_only.then_some("-r"));
        command.arg(rig.folder.path().join("img"));
        command
    };
    let convert = |to: &str| {
        let mut command = Command::new(&img);
        command.current_dir(rig.folder.path()).args(["convert", "-n", "-f", "raw", "-O", "raw"]);
        command.args(match to {
            "img" => ["a", "img"],
            _ => ["img", to],
        });
        run(&mut command, LIMIT)
    };
    let locked = |ended: &Finished| {
        assert!(ended.code != Some(0) && ended.stderr.contains("lock"), "{ended:?}");
    };
    let served = rig.serve("--volume d=file:img");
    for read_only in [false, true] {
        locked(&run(&mut qemu_nbd(read_only), LIMIT));
    }
    locked(&convert("b"));
    locked(&convert("img"));
    drop(served);
    for (read_only, reads) in [(false, false), (true, true)] {
        let server = Running::start(&mut qemu_nbd(read_only));
        await_that(|| socket.exists());
        let owner = format!("process {} (qemu-nbd)", server.id());
        let write = "run file:img --read 0 --destroy --seconds 1 --ramp 0 --out w --replace";
        refused(&rig.run(write), write, &owner);
        let read = "run file:img --seconds 1 --ramp 0 --out r --replace";
        let ended = rig.run(read);
        if reads { drop(ended.ok()) } else { refused(&ended, read, &owner) }
    }
    // An image that is only read can also be read by QEMU.
    let args = "run file:img --seconds 100 --ramp 0 --rate 10 --out long";
    let _reader = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    let path = rig.folder.path().join("long/result.json");
    await_that(|| path.exists());
    convert("b").ok();
    locked(&convert("img"));
}

#[test]
fn a_loop_device_and_its_file_are_one_image() {
    let Some(rig) = Rig::new() else { return };
    let image = rig.folder.path().join("img");
    let Some(device) = Loop::over(&image) else { return };
    let path = device.path();
    let by_device = rig.serve(&format!("--volume d=file:{path}"));
    let write = "run file:img --read 0 --destroy --seconds 1 --ramp 0 --out w --replace";
    refused(&rig.run(write), write, &owner(&by_device, "writes it"));
    drop(by_device);
    let by_file = rig.serve("--volume d=file:img");
    let args = format!("run file:{path} --seconds 1 --ramp 0 --out r");
    refused(&rig.run(&args), &args, &owner(&by_file, "writes it"));
    drop(by_file);
    mounted(Path::new(path), &|folder| {
        let ended = rig.run(write);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(&format!("is mounted on {folder}")), "{ended:?}");
    });
}

/// Calls `act` while a device is mounted with a file system.
fn mounted(device: &Path, act: &dyn Fn(&str)) {
    let tools = [require("mkfs.ext4"), require("mount"), require("umount")];
    let [Some(mkfs), Some(mount), Some(umount)] = tools else { return };
    let folder = Folder::new();
    run(Command::new(mkfs).arg("-q").arg(device), LIMIT).ok();
    run(Command::new(mount).arg(device).arg(folder.path()), LIMIT).ok();
    act(&folder.path().display().to_string());
    run(Command::new(umount).arg(folder.path()), LIMIT).ok();
}
