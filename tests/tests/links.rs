//! Commands of root in a folder of another user with symbolic links. Nothing is written to their
//! targets, for any command and any argument that names a file.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::Path;
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, Running, skip};
use rustix::process::Signal;

const LIMIT: Duration = Duration::from_secs(300);
/// The other user.
const STRANGER: Option<u32> = Some(65_534);

/// Folders: `theirs` belongs to the other user, with links `way`, `img`, `log` and `empty` that
/// lead to `elsewhere` and its content. `ours` leads to one of these links.
struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    fn new() -> Option<Rig> {
        let rig = Rig { drumfire: Drumfire::find()?, folder: Folder::new() };
        for name in ["theirs", "elsewhere", "tree"] {
            fs::create_dir(rig.at(name)).unwrap();
        }
        let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at >> 7) as u8).collect();
        fs::write(rig.at("elsewhere/victim"), bytes).unwrap();
        fs::write(rig.at("elsewhere/empty"), "").unwrap();
        fs::write(rig.at("tree/file"), [7; 100_000]).unwrap();
        for (name, to) in
            [("way", ""), ("img", "victim"), ("log", "victim"), ("empty", "empty"), ("new", "new")]
        {
            symlink(rig.at("elsewhere").join(to), rig.at("theirs").join(name)).unwrap();
            if lchown(rig.at("theirs").join(name), STRANGER, STRANGER).is_err() {
                skip("only root makes files of other users");
                return None;
            }
        }
        chown(rig.at("theirs"), STRANGER, STRANGER).unwrap();
        symlink("theirs/img", rig.at("ours")).unwrap();
        rig.run("backup tree --to whole").ok();
        Some(rig)
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, args: &str) -> Finished {
        self.drumfire.run(self.folder.path(), args, LIMIT)
    }

    /// Content of `elsewhere`.
    fn elsewhere(&self) -> BTreeMap<String, Vec<u8>> {
        let all = fs::read_dir(self.at("elsewhere")).unwrap().flatten();
        let of = |file: fs::DirEntry| {
            let name = file.file_name().to_string_lossy().into_owned();
            (name, fs::read(file.path()).unwrap_or_else(|error| error.to_string().into_bytes()))
        };
        all.map(of).collect()
    }
}

#[test]
fn nothing_is_written_where_links_of_others_lead() {
    let Some(rig) = Rig::new() else { return };
    let before = rig.elsewhere();
    rig.folder.file(
        "log.fio",
        b"[a]\nioengine=null\nsize=1m\nwrite_bw_log=theirs/log\nwrite_lat_log=theirs/way/l\n",
    );
    fs::remove_file(rig.at("theirs/log")).unwrap();
    symlink(rig.at("elsewhere/victim"), rig.at("theirs/log_bw.1.log")).unwrap();
    lchown(rig.at("theirs/log_bw.1.log"), STRANGER, STRANGER).unwrap();
    let run = "run null:1m --seconds 0.2 --ramp 0 --no-ceiling";
    let write = "--read 0 --seconds 0.2 --ramp 0 --no-ceiling --destroy";
    // Whether the command is refused; otherwise it works without the link.
    let cases = [
        ("backup tree --to theirs/way/copy".to_owned(), true),
        ("backup tree --to theirs/way/victim --replace".to_owned(), true),
        ("backup tree --to theirs/img --replace".to_owned(), true),
        ("backup tree --to file:theirs/img".to_owned(), true),
        ("backup --from whole --into theirs/way/back".to_owned(), true),
        ("backup --from whole --into theirs/way/deep/back".to_owned(), true),
        ("backup --from whole --into theirs/new".to_owned(), true),
        (format!("run file:theirs/img {write}"), true),
        (format!("run file:ours {write}"), true),
        (format!("run file:theirs/way/victim {write}"), true),
        (format!("run file:theirs/way/fresh?size=1m {write}"), true),
        (format!("run file:theirs/new?size=1m {write}"), true),
        (format!("run mirror(ram:1m,file:theirs/img) {write}"), true),
        (format!("run null:64k?call=create,4096,theirs/way/x.$filenum {write}"), true),
        (format!("run null:64k?call=truncate,1,theirs/img {write}"), true),
        (format!("run null:64k?call=allocate,1,theirs/new {write}"), true),
        (format!("run null:4k?call=delete,4096,theirs/way/victim {write}"), true),
        (
            "volume create mirror m --leg file:theirs/img --leg file:legb?size=64m --destroy"
                .into(),
            true,
        ),
        (
            "volume create mirror m --leg file:theirs/way/a?size=64m --leg file:legc?size=64m"
                .into(),
            true,
        ),
        ("serve --nbd 127.0.0.1:0 --volume d=file:theirs/img".to_owned(), true),
        ("fio --name=a --rw=write --filename=theirs/img --size=1m".to_owned(), true),
        ("fio --name=a --rw=read --filename=theirs/way/made --size=1m".to_owned(), true),
        ("fio --name=a --ioengine=null --size=1m --output=theirs/way/text".to_owned(), true),
        (format!("{run} --json-lines theirs/img"), true),
        (format!("{run} --json-lines theirs/way/lines"), true),
        (format!("{run} --json-lines ours"), true),
        (format!("{run} --trace 1s:theirs/way/trace.json"), true),
        (format!("{run} --out theirs/way"), true),
        (format!("{run} --out theirs/way/deep/out"), true),
        ("sweep null:1m --seconds 0.2 --ramp 0 --repeats 1 --out theirs/way".to_owned(), true),
        ("catalogue profile x25-m --out theirs/way/profile.toml".to_owned(), true),
        ("run log.fio".to_owned(), true),
        // Commands that replace the link.
        ("fio --name=a --ioengine=null --size=1m --output=theirs/img".to_owned(), false),
        ("catalogue profile x25-m --out theirs/new".to_owned(), false),
    ];
    let mut wrong = Vec::new();
    for (args, refused) in cases {
        let ended = rig.run(&args);
        assert!(rig.elsewhere() == before, "{args}: {ended:?}");
        let says =
            ["link", "exists", "No such file"].iter().any(|word| ended.stderr.contains(word));
        if refused && (ended.code == Some(0) || !says) {
            wrong.push(format!("{args}: {:?} {}", ended.code, ended.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn nothing_is_attached_where_links_of_others_lead() {
    let Some(rig) = Rig::new() else { return };
    if !Path::new("/dev/fuse").exists() {
        return skip("there is no /dev/fuse");
    }
    let before = rig.elsewhere();
    for place in ["theirs/empty", "theirs/new", "theirs/way/made", "theirs/way/empty"] {
        let ended = rig.run(&format!("attach ram:1m {place}"));
        assert!(![Some(0), None].contains(&ended.code), "{place}: {ended:?}");
        assert!(ended.stderr.contains("symbolic link of another user"), "{place}: {ended:?}");
        assert_eq!(rig.elsewhere(), before, "{place}: {ended:?}");
    }
    // In the other user's folder a file is created and removed again; a link of ours leads
    // elsewhere.
    symlink("elsewhere/empty", rig.at("our-link")).unwrap();
    for place in ["theirs/disk", "our-link"] {
        let command =
            &mut rig.drumfire.command(rig.folder.path(), &format!("attach ram:1m {place}"));
        let mut running = Running::start(command);
        running.await_stdout(LIMIT, |text| text.starts_with("ready ").then_some(()));
        assert_eq!(fs::metadata(rig.at(place)).unwrap().len(), 1 << 20, "{place}");
        running.signal(Signal::INT);
        running.finish(LIMIT).ok();
        assert_eq!(rig.elsewhere(), before, "{place}");
    }
    assert!(!rig.at("theirs/disk").exists());
}

/// The owner of a run's folder replaces its entries with links during the run.
#[test]
fn links_that_come_while_a_run_goes_on_are_not_followed() {
    let Some(rig) = Rig::new() else { return };
    let before = rig.elsewhere();
    let args = "run ram:1m --verify --read 50 --rate 500 --seconds 3 --ramp 0 --no-ceiling \
        --out theirs/out";
    let mut running = Running::start(&mut rig.drumfire.command(rig.folder.path(), args));
    running.await_stderr(LIMIT, |text| text.contains("s  ").then_some(()));
    for name in ["result.json", "report.txt", "job.toml"] {
        let path = rig.at("theirs/out").join(name);
        let _ = fs::remove_file(&path);
        symlink(rig.at("elsewhere/victim"), &path).unwrap();
        lchown(&path, STRANGER, STRANGER).unwrap();
    }
    running.finish(LIMIT).ok();
    assert_eq!(rig.elsewhere(), before);
    // The whole folder is replaced, too.
    fs::rename(rig.at("theirs/out"), rig.at("theirs/moved")).unwrap();
    symlink(rig.at("elsewhere"), rig.at("theirs/out")).unwrap();
    lchown(rig.at("theirs/out"), STRANGER, STRANGER).unwrap();
    let ended = rig.run("run null:1m --seconds 0.2 --ramp 0 --replace --out theirs/out");
    assert!(ended.stderr.contains("symbolic link of another user"), "{ended:?}");
    assert_eq!(rig.elsewhere(), before);
}
