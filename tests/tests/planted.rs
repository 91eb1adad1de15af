//! Runs of root in folders of other users: nothing is written through their links, whether these
//! existed before or are created meanwhile.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use drumfire_tests::{Drumfire, Finished, Folder, skip};

const LIMIT: Duration = Duration::from_secs(300);
/// The user nobody.
const STRANGER: Option<u32> = Some(65_534);

struct Rig {
    drumfire: Drumfire,
    folder: Folder,
}

impl Rig {
    /// A folder of another user next to one of ours with a file; only root can create it.
    fn new() -> Option<Rig> {
        let rig = Rig { drumfire: Drumfire::find()?, folder: Folder::new() };
        for folder in ["theirs", "ours"] {
            fs::create_dir(rig.at(folder)).unwrap();
        }
        fs::write(rig.at("ours/victim"), "precious").unwrap();
        if chown(rig.at("theirs"), STRANGER, STRANGER).is_err() {
            skip("only root can write into folders of all users");
            return None;
        }
        Some(rig)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn plant(&self, to: &str, name: &str) {
        symlink(self.at(to), self.at(name)).unwrap();
        lchown(self.at(name), STRANGER, STRANGER).unwrap();
    }

    fn run(&self, args: &str) -> Finished {
        self.drumfire.run(self.folder.path(), args, LIMIT)
    }

    fn is_untouched(&self, after: &str) {
        assert_eq!(fs::read_to_string(self.at("ours/victim")).unwrap(), "precious", "{after}");
        let names: Vec<_> = fs::read_dir(self.at("ours")).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "{after}: {names:?}");
    }
}

/// A verified run, which saves all kinds of files.
const RUN: &str = "run ram:1m --read 50 --verify --size 4k --seconds 1 --ramp 0 --no-ceiling";

#[test]
fn links_in_the_place_of_what_is_kept_are_replaced() {
    let Some(rig) = Rig::new() else { return };
    let kept = |folder: &str| {
        let inside = fs::read_dir(rig.at(folder)).unwrap().flatten();
        inside.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    rig.run(&format!("{RUN} --trace 500ms --out model")).ok();
    // All files that a run saves, and former names of drafts.
    let mut names = kept("model");
    assert!(names.len() >= 4, "{names:?}");
    let drafts = names.iter().map(|name| format!("{}.part", name.split('.').next().unwrap()));
    names.extend(drafts.collect::<Vec<_>>());
    fs::create_dir(rig.at("theirs/out")).unwrap();
    chown(rig.at("theirs/out"), STRANGER, STRANGER).unwrap();
    for name in &names {
        rig.plant("ours/victim", &format!("theirs/out/{name}"));
    }
    rig.run(&format!("{RUN} --trace 500ms --out theirs/out --replace")).ok();
    rig.is_untouched(RUN);
    for name in kept("model") {
        let about = fs::symlink_metadata(rig.at("theirs/out").join(&name)).unwrap();
        assert!(about.is_file(), "{name}");
    }
}

#[test]
fn links_on_the_way_to_what_is_kept_are_refused() {
    let Some(rig) = Rig::new() else { return };
    rig.plant("ours", "theirs/out");
    rig.plant("ours/victim", "theirs/lines");
    rig.folder.file("log.fio", b"[a]\nioengine=null\nsize=1m\nwrite_lat_log=theirs/out/a\n");
    rig.folder.file("plain.fio", b"[a]\nioengine=null\nsize=1m\n");
    for args in [
        format!("{RUN} --out theirs/out"),
        format!("{RUN} --out theirs/out/deep/er"),
        format!("{RUN} --out mine --json-lines theirs/lines"),
        format!("{RUN} --out mine --json-lines theirs/out/lines"),
        "sweep null:1m --axis size=4k,8k --seconds 1 --ramp 0 --out theirs/out/sweep".to_owned(),
        "run log.fio --out mine --replace".to_owned(),
        "fio log.fio".to_owned(),
        "fio plain.fio --output=theirs/out/x".to_owned(),
        "catalogue profile x25-m --out theirs/out/x".to_owned(),
    ] {
        let ended = rig.run(&args);
        assert!(matches!(ended.code, Some(1 | 2)), "{args}: {ended:?}");
        let said = ended.stderr.contains("symbolic link of another user");
        assert!(said && ended.stderr.lines().count() <= 2, "{args}: {ended:?}");
        rig.is_untouched(&args);
        let _ = fs::remove_dir_all(rig.at("mine"));
    }
    // The user's own links lead where they lead.
    symlink("theirs", rig.at("way")).unwrap();
    rig.run(&format!("{RUN} --out way/mine")).ok();
    assert!(rig.at("theirs/mine/result.json").is_file());
}

#[test]
fn files_that_are_opened_are_no_links() {
    let Some(rig) = Rig::new() else { return };
    let work = rig.at("theirs/job");
    fs::create_dir(&work).unwrap();
    chown(&work, STRANGER, STRANGER).unwrap();
    let job = "[a]\nioengine=null\nsize=1m\nwrite_lat_log=a\nwrite_bw_log=a\nwrite_iops_log=a\n\
               write_hist_log=a\nlog_hist_msec=100\nwrite_iolog=trace\nexec_prerun=echo x\n\
               exec_postrun=echo y\n";
    fs::write(work.join("job.fio"), job).unwrap();
    let names = [
        "a_lat.1.log",
        "a_clat.1.log",
        "a_slat.1.log",
        "a_bw.1.log",
        "a_iops.1.log",
        "a_clat_hist.1.log",
        "trace",
        "a.prerun.txt",
        "a.postrun.txt",
        "out",
        "data",
        "data.part",
    ];
    for name in names {
        rig.plant("ours/victim", &format!("theirs/job/{name}"));
    }
    for args in ["fio job.fio --output=out", "fio --name=b --rw=read --filename=new --size=1m"] {
        rig.drumfire.run(&work, args, LIMIT).ok();
        rig.is_untouched(args);
    }
    for name in &names[..10] {
        assert!(fs::symlink_metadata(work.join(name)).unwrap().is_file(), "{name}");
    }
}

#[test]
fn who_swaps_the_folder_meanwhile_gains_nothing() {
    let Some(rig) = Rig::new() else { return };
    let rounds = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (out, link, away) = (rig.at("theirs/out"), rig.at("theirs/l"), rig.at("theirs/o"));
            while rounds.load(Ordering::Relaxed) < 20 {
                let _ = symlink(rig.at("ours"), &link);
                let _ = lchown(&link, STRANGER, STRANGER);
                let _ = fs::rename(&out, &away).and_then(|()| fs::rename(&link, &out));
                let _ = fs::remove_file(&out);
                let _ = fs::rename(&away, &out);
            }
        });
        for _ in 0..20 {
            let args = "run null:1m --seconds 0.1 --ramp 0 --no-ceiling --out theirs/out --replace";
            rig.run(args);
            rounds.fetch_add(1, Ordering::Relaxed);
        }
    });
    rig.is_untouched("runs");
}

#[test]
fn a_sweep_of_others_leads_nowhere_else() {
    let Some(rig) = Rig::new() else { return };
    let args = "sweep null:1m --axis size=4k,8k --repeats 2 --seconds 0.2 --ramp 0 --out s";
    rig.run(args).ok();
    let path = rig.at("s/sweep.json");
    let text = fs::read_to_string(&path).unwrap();
    for folder in ["../ours", "/tmp", "", "000-size=4k/../../ours"] {
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document["cells"][0]["runs"][0]["folder"] = folder.into();
        fs::write(&path, document.to_string()).unwrap();
        for args in ["sweep s", "report s", "compare s s"] {
            let ended = rig.run(args);
            assert_eq!(ended.code, Some(2), "{folder}: {args}: {ended:?}");
            assert!(ended.stderr.contains("is outside"), "{folder}: {ended:?}");
        }
        rig.is_untouched(folder);
    }
}
