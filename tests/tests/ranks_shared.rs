//! Volumes and files of ranks under mpirun: which volumes they share, the files that each lays out,
//! and the data that each reads back.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Folder, Mpi, Wired, check, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(240);
const LIGHT: &str = "--size 4k --outstanding 4 --no-cold-reads --no-ceiling --ramp 0.2";
/// Gives each host a file or folder of its own under one name. `ip netns exec` gives each host
/// mounts of its own.
const MOUNTS: &str = "#!/bin/sh\nmountpoint -q \"$1\" || \
                      mount --bind \"$(cat $(hostname))\" \"$1\" || exit 9\n\
                      shift\nexec \"$@\"\n";

/// A launch in which the name `shared` of each host leads to `behind` of it.
fn launch(
    hosts: &Wired,
    (mpi, folder): (&Mpi, &Path),
    (shared, behind): (&str, &[&str]),
    args: &str,
) -> Command {
    for (name, file) in hosts.names().iter().zip(behind) {
        fs::write(folder.join(name), file).unwrap();
    }
    fs::write(folder.join("mounts"), MOUNTS).unwrap();
    let program = mpi.path().display().to_string();
    let mut words = vec!["sh", "./mounts", shared, &program];
    words.extend(args.split_whitespace());
    hosts.launch(mpi, folder, &vec![1; behind.len()], &words)
}

fn file(folder: &Folder, name: &str, byte: u8) {
    folder.file(name, &vec![byte; 4 << 20]);
}

/// Three hosts have a drive of one name. Two share theirs: the third is named. If each has its own,
/// a line before the start says so.
#[test]
fn one_name_may_be_several_drives() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 3) else { return };
    ["disk", "a", "b", "c"].iter().for_each(|name| file(&folder, name, 7));
    let args = format!("run file:disk {LIGHT} --rate 500 --seconds 1 --json --out");
    let with = |behind: [&str; 3], out: &str| {
        let at = (&mpi, folder.path());
        run(&mut launch(&hosts, at, ("disk", &behind), &format!("{args} {out}")), LIMIT).ok()
    };
    let mixed = with(["a", "a", "b"], "mixed");
    let (verdict, words) = check(&mixed.json(), "M05");
    assert!(verdict == "warn" && words.contains(&format!("another on {}", hosts.names()[2])));
    assert!(mixed.stderr.contains("file:disk is one volume on some ranks"), "{mixed:?}");
    let apart = with(["a", "b", "c"], "apart");
    let (verdict, words) = check(&apart.json(), "M05");
    assert!(verdict == "pass" && words == "file:disk is a volume of each of 3 ranks", "{words}");
    assert!(apart.stderr.contains("file:disk is a volume of each of 3 ranks"), "{apart:?}");
    let one = with(["a", "a", "a"], "one");
    let (verdict, words) = check(&one.json(), "M05");
    assert!(verdict == "pass" && words == "file:disk is one volume on 3 ranks", "{words}");
    assert!(!one.stderr.contains("file:disk is"), "{one:?}");
}

/// One drive under two names.
#[test]
fn a_drive_under_two_names_is_named() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    file(&folder, "a", 7);
    std::os::unix::fs::symlink("a", folder.path().join("link")).unwrap();
    let args = format!("run file:a file:link {LIGHT} --rate 500 --seconds 1 --json --out o");
    let done = run(&mut mpi.command(folder.path(), 2, &args), LIMIT).ok();
    let (verdict, words) = check(&done.json(), "M05");
    assert!(verdict == "warn" && words.contains("are one volume under two names"), "{words}");
}

/// Hosts that write to a served volume leave marks for each other: the volume is one. Loopback
/// addresses are of each host: the volumes are two.
#[test]
fn marks_show_whether_a_written_volume_is_one() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 3) else { return };
    let args = format!("run served {LIGHT} --read 0 --destroy --rate 50 --seconds 1 --json");
    let mut command = hosts.program(&mpi, folder.path(), &[1; 3], &format!("{args} --out one"));
    command.args(["--serve", "2: --iscsi=198.18.7.3:0 --volume=d=ram:8m"]);
    let done = run(&mut command, LIMIT).ok();
    let (verdict, words) = check(&done.json(), "M05");
    assert!(verdict == "pass" && words.contains("is one volume on 2 ranks, and 2 write to it"));
    // Nobody writes: the name is all that is known.
    let reads = args.replace("--read 0 --destroy", "");
    let mut command = hosts.program(&mpi, folder.path(), &[1; 3], &format!("{reads} --out named"));
    command.args(["--serve", "2: --iscsi=198.18.7.3:0 --volume=d=ram:8m"]);
    let (verdict, words) = check(&run(&mut command, LIMIT).ok().json(), "M05");
    assert!(verdict == "pass" && words.ends_with("on 2 ranks, by its name"), "{words}");
}

/// Each host lays out the files of a fio job that it lacks, and removes those of `unlink`.
#[test]
fn each_host_lays_out_the_files_of_a_fio_job() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let Some(hosts) = Wired::new(folder.path(), 2) else { return };
    ["data", "a", "b"].iter().for_each(|name| fs::create_dir(folder.path().join(name)).unwrap());
    let job = "[global]\nioengine=libaio\ndirectory=data\nsize=1m\nrate_iops=200\nruntime=1\n\
               time_based\n[reads]\nrw=randread\n[gone]\nrw=randread\nunlink=1\n";
    fs::write(folder.path().join("job.fio"), job).unwrap();
    let at = (&mpi, folder.path());
    let args = "fio --output-format=json job.fio";
    let done = run(&mut launch(&hosts, at, ("data", &["a", "b"]), args), LIMIT).ok();
    let ios = |job: &Value| job["read"]["total_ios"].as_u64().unwrap();
    let jobs = done.json()["jobs"].as_array().unwrap().clone();
    let all: u64 = jobs.iter().map(ios).sum();
    assert!((700..=900).contains(&all), "{done:?}");
    for host in ["a", "b"] {
        let there = |name: &str| fs::metadata(folder.path().join(host).join(name));
        assert_eq!(there("reads.0.0").unwrap().len(), 1 << 20, "{host}");
        assert!(there("gone.0.0").is_err(), "{host}");
    }
    assert!(fs::read_dir(folder.path().join("data")).unwrap().next().is_none());
}

/// Ranks of one host with one file lay it out once.
#[test]
fn ranks_of_one_host_share_a_file() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let job = "[reads]\nioengine=libaio\nfilename=f{rank}\nsize=1m\nrw=randread\nrate_iops=200\n\
               runtime=1\ntime_based\n";
    fs::write(folder.path().join("own.fio"), job).unwrap();
    fs::write(folder.path().join("one.fio"), job.replace("{rank}", "")).unwrap();
    run(&mut mpi.command(folder.path(), 3, "run own.fio --no-cold-reads --out own"), LIMIT).ok();
    let sizes = |name: &str| fs::metadata(folder.path().join(name)).map(|of| of.len()).ok();
    assert_eq!(["f0", "f1", "f2"].map(sizes), [Some(1 << 20); 3]);
    assert_eq!(sizes("f{rank}"), None);
    run(&mut mpi.command(folder.path(), 3, "fio one.fio"), LIMIT).ok();
    assert_eq!(sizes("f"), Some(1 << 20));
}

/// A rank that loses writes is found by reading them back there, and named.
#[test]
fn each_rank_reads_back_what_it_wrote() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let fault = |chance: f64| {
        format!(
            "name = 'test'\nseed = 3\n[[fault]]\nverb = 'drop'\nop = 'write'\nchance = {chance}\n"
        )
    };
    for (rank, chance) in [(0, 0.0), (1, 0.0), (2, 0.2)] {
        file(&folder, &format!("disk{rank}"), 7);
        fs::write(folder.path().join(format!("f{rank}.toml")), fault(chance)).unwrap();
    }
    let args = |volume: &str, out: &str| {
        format!("run {volume} {LIGHT} --read 0 --verify --destroy --seconds 1 --json --out {out}")
    };
    let whole = run(&mut mpi.command(folder.path(), 3, &args("file:disk{rank}", "o")), LIMIT).ok();
    let (verdict, words) = check(&whole.json(), "H05");
    assert!(verdict == "pass" && words.contains("were read after it"), "{words}");
    let lossy = args("fault:f{rank}.toml(file:disk{rank})", "lossy");
    let lost = run(&mut mpi.command(folder.path(), 3, &lossy), LIMIT);
    let (verdict, words) = check(&lost.json(), "H05");
    assert_eq!((verdict, lost.code), ("fail".to_owned(), Some(5)), "{words}");
    assert!(words.contains("/3: ") && words.contains("miscompare when read after"), "{words}");
}

/// A sweep in processes of its own is of one host: refused for several ranks, and no process of it
/// believes to be a rank.
#[test]
fn processes_of_a_sweep_are_no_ranks() {
    let Some(mpi) = Mpi::find() else { return };
    let folder = Folder::new();
    let args = "sweep ram:4m --axis rate=500,1k --seconds 0.5 --ramp 0 --repeats 1 --no-cold-reads \
                --no-ceiling --repeat-as process --out s";
    let refused = run(&mut mpi.command(folder.path(), 2, args), LIMIT);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("measures on this host alone"), "{refused:?}");
    assert!(!folder.path().join("s").exists());
    run(&mut mpi.command(folder.path(), 1, args), LIMIT).ok();
    let swept = fs::read_to_string(folder.path().join("s/sweep.json")).unwrap();
    let swept: Value = serde_json::from_str(&swept).unwrap();
    assert_eq!(swept["cells"].as_array().unwrap().len(), 2);
}
