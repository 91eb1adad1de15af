//! Order in which a job visits its files, compared with the installed fio.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use drumfire_tests::{Drumfire, Folder, require, run};

const LIMIT: Duration = Duration::from_secs(300);

fn with(words: &str) -> Folder {
    let folder = Folder::new();
    let job = "ioengine=psync\nbs=4k\nsize=1m\nnrfiles=4\nwrite_iolog=trace";
    folder.file("job.fio", format!("[a]\n{job}\n{words}\n").as_bytes());
    folder
}

/// Files and offsets of a trace, in the order of its I/Os.
fn visited(folder: &Path) -> Vec<(String, String)> {
    let all = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let trace = all.into_iter().find(|path| name(path).starts_with("trace")).expect("a trace");
    let text = std::fs::read_to_string(trace).unwrap();
    let io = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| ["read", "write"].contains(word))?;
        Some((name(Path::new(words[at - 1])), (*words.get(at + 1)?).to_owned()))
    };
    text.lines().filter_map(io).collect()
}

fn ours(drumfire: &Drumfire, words: &str) -> Vec<(String, String)> {
    let folder = with(words);
    drumfire.run(folder.path(), "run job.fio", LIMIT).ok();
    visited(folder.path())
}

fn theirs(fio: &Path, words: &str) -> Vec<(String, String)> {
    let folder = with(words);
    run(Command::new(fio).arg("job.fio").current_dir(folder.path()), LIMIT).ok();
    visited(folder.path())
}

/// Lengths of the runs of consecutive I/Os on one file.
fn turns(visited: &[(String, String)]) -> Vec<usize> {
    visited.chunk_by(|(a, _), (b, _)| a == b).map(<[_]>::len).collect()
}

fn counts(visited: &[(String, String)]) -> BTreeMap<&str, usize> {
    let mut counts = BTreeMap::new();
    visited.iter().for_each(|(file, _)| *counts.entry(file.as_str()).or_default() += 1);
    counts
}

#[test]
fn files_have_their_turns_as_with_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in ["roundrobin:3\nrw=read", "roundrobin:8\nrw=write", "sequential\nrw=write"] {
        let words = format!("file_service_type={words}");
        assert_eq!(ours(&drumfire, &words), theirs(&fio, &words), "{words}");
    }
    for words in ["roundrobin:5\nrw=randread", "sequential\nrw=randwrite"] {
        let words = format!("file_service_type={words}");
        let (mut we, mut they) = (ours(&drumfire, &words), theirs(&fio, &words));
        assert_eq!(turns(&we), turns(&they), "{words}");
        we.sort();
        they.sort();
        assert_eq!(we, they, "{words}");
    }
}

#[test]
fn files_of_chance_have_as_many_ios_as_with_fio() {
    let (Some(drumfire), Some(fio)) = (Drumfire::find(), require("fio")) else { return };
    for words in ["random\nrw=write", "random:8\nrw=read", "random:4\nrw=randread"] {
        let words = format!("file_service_type={words}");
        let (mut we, mut they) = (ours(&drumfire, &words), theirs(&fio, &words));
        let each = turns(&we);
        let count = if words.contains(':') { 4 } else { 1 };
        assert!(each.iter().all(|turn| turn.is_multiple_of(count)), "{words}: {each:?}");
        we.sort();
        they.sort();
        assert_eq!(we, they, "{words}");
    }
    for words in ["zipf:1.2\nrw=read", "pareto:0.2\nrw=randread", "normal\nrw=read"] {
        let words = format!("file_service_type={words}");
        let (we, they) = (ours(&drumfire, &words), theirs(&fio, &words));
        assert_eq!(we.len(), they.len(), "{words}");
        let [we, they] = [&we, &they].map(|all| counts(all).into_values().max().unwrap());
        assert!(we.abs_diff(they) < 60, "{words}: {we} {they}");
    }
}
