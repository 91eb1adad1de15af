//! `zonemode=zbd` on a regular file, whose zones the programs emulate: the same writes at the same
//! offsets as with the installed fio.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const ZONED: &str = "--name=a --filename=x.img --zonemode=zbd --zonesize=1m --ioengine=psync \
                     --output-format=json --write_iolog=trace";

/// Result of a run: its job in fio's JSON, and the offset and length of each write of its trace.
struct Done {
    job: Value,
    writes: Vec<(u64, u64)>,
}

fn done(words: &str, program: impl Fn(&Path, &str) -> Command) -> Done {
    let folder = Folder::new();
    // fio needs an existing file, and writes its zones from their starts.
    folder.file("x.img", &vec![1; 8 << 20]);
    let mut command = program(folder.path(), &format!("{ZONED} {words}"));
    let said = run(&mut command, LIMIT).ok().stdout;
    let document: Value = serde_json::from_str(&said[said.find('{').unwrap()..]).unwrap();
    let trace = std::fs::read_to_string(folder.path().join("trace")).unwrap();
    let write = |line: &str| {
        let (_, place) = line.split_once(" write ")?;
        let (offset, length) = place.split_once(' ')?;
        Some((offset.parse().ok()?, length.parse().ok()?))
    };
    Done { job: document["jobs"][0].clone(), writes: trace.lines().filter_map(write).collect() }
}

/// Results of our program and of fio.
fn both(words: &str) -> Option<[Done; 2]> {
    let (drumfire, fio) = (Drumfire::find()?, require("fio")?);
    let ours = done(words, |folder, args| drumfire.command(folder, &format!("fio {args}")));
    let theirs = done(words, |folder, args| {
        let mut command = Command::new(&fio);
        command.args(args.split_whitespace()).current_dir(folder);
        command
    });
    Some([ours, theirs])
}

fn ios(done: &Done) -> [Option<u64>; 3] {
    ["read", "write", "sync"].map(|way| done.job[way]["total_ios"].as_u64())
}

#[test]
fn forward_writes_go_to_the_same_places() {
    for words in [
        "--rw=write --bs=64k",
        "--rw=write --bs=64k --zonecapacity=768k",
        "--rw=write --bs=64k --offset=1536k --size=5m",
        "--rw=write --bs=64k --io_size=3m",
        "--rw=write --bs=64k --fsync=8",
        "--rw=write --bs=64k --zone_reset_threshold=0.5 --zone_reset_frequency=0.5",
        "--rw=write --bs=64k --zone_reset_threshold=0.3 --zone_reset_frequency=0.2",
        "--rw=write --bs=64k --verify=crc32c",
    ] {
        let Some([ours, theirs]) = both(words) else { return };
        assert_eq!(ios(&ours), ios(&theirs), "{words}");
        assert_eq!(ours.writes, theirs.writes, "{words}");
        assert!(!ours.writes.is_empty(), "{words}");
    }
}

/// Zones are random, so only their totals are the same.
#[test]
fn random_writes_fill_the_same_zones() {
    for words in [
        "--rw=randwrite --bs=64k",
        "--rw=randwrite --bs=64k --zonecapacity=768k",
        "--rw=randwrite --bs=64k --verify=md5",
    ] {
        let Some([ours, theirs]) = both(words) else { return };
        let places = |done: &Done| {
            let mut places = done.writes.clone();
            places.sort_unstable();
            places.dedup();
            places
        };
        assert_eq!(ios(&ours), ios(&theirs), "{words}");
        assert_eq!(places(&ours), places(&theirs), "{words}");
    }
    // I/Os truncated at the end of a zone fill all of the zone.
    for words in ["--rw=write --bsrange=4k-128k", "--rw=write --bssplit=4k/50:64k/50"] {
        let Some([ours, theirs]) = both(words) else { return };
        let bytes = |done: &Done| done.writes.iter().map(|(_, length)| length).sum::<u64>();
        assert_eq!((bytes(&ours), bytes(&theirs)), (8 << 20, 8 << 20), "{words}");
        for (offset, length) in &ours.writes {
            assert_eq!(offset >> 20, (offset + length - 1) >> 20, "{words}: beyond a zone");
        }
    }
}
